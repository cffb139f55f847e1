"""The verdicts on an evaluation, wherever it is from: of a sweep they rest on what all its fits promise together."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from evaluate.policy import Policy, Rule
from evaluate.result import Candidate, Estimate, Evaluation
from evaluate.verdict import Finding, Verdict, judge

EPSILON = "statement.epsilon"
UNPAID = Rule(
    measure=EPSILON,
    limit=0.0,
    why="Whoever picks one of several fits has looked at all of them: a sweep is paid for as a whole, or nothing of it "
    "is released.",
)
"""The rule that every point of a sweep breaks whose private fits nobody pays for."""
NOT_RELEASABLE = "It is a point of a sweep whose private fits no ledger pays for, so it may not be released."


def verdicts_on(
    evaluation: Evaluation, policies: Iterable[Policy], names: Iterable[str] | None = None
) -> tuple[Verdict, ...]:
    """What each policy says of each candidate.

    Args:
        evaluation: of a run, of a sweep, or of tables from elsewhere.
        policies: to judge by, in this order.
        names: of candidates; none: all.

    Raises:
        JobError: a rule names a measure that says of itself that it only describes; nothing was judged.
    """
    wanted = None if names is None else set(names)
    chosen = [one for one in evaluation.candidates if wanted is None or one.name in wanted]
    swept = evaluation.provenance.get("sweep")
    return tuple(_judged(candidate, policy, swept) for policy in policies for candidate in chosen)


def _judged(candidate: Candidate, policy: Policy, swept: Any) -> Verdict:
    if not isinstance(swept, Mapping):
        return judge(candidate, policy)
    together = swept.get("composed")
    composed = together if isinstance(together, Mapping) else {}
    if swept.get("releasable") is not True:
        return _barred(judge(candidate, policy), composed)
    if candidate.statement is None:
        return judge(candidate, policy)
    claims = {name: composed[name] for name in ("epsilon", "delta") if name in composed}
    return judge(replace(candidate, statement={**candidate.statement, **claims}), policy)


def _barred(verdict: Verdict, composed: Mapping[str, Any]) -> Verdict:
    claim = composed.get("epsilon")
    estimate = None
    if isinstance(claim, int | float):
        note = "Of all private fits of the sweep together; nothing of it was paid for."
        estimate = Estimate(measure=EPSILON, value=float(claim), n=0, direction="lower", note=note)
    finding = Finding(UNPAID, "FAIL", NOT_RELEASABLE, estimate)
    return replace(verdict, verdict="FAIL", findings=(finding, *verdict.findings))
