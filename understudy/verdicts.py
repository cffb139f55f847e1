"""The verdicts on an evaluation, wherever it is from: of a sweep they rest on what all its fits promise together."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from evaluate.policy import Policy, Rule
from evaluate.result import Candidate, Estimate, Evaluation, SelfTest
from evaluate.verdict import Finding, Verdict, judge
from evaluate.waiver import Waiver
from synth.errors import JobError, nearest
from understudy.vendors.rules import convicted

EPSILON = "statement.epsilon"
UNPAID = Rule(
    measure=EPSILON,
    limit=0.0,
    why="Whoever picks one of several fits has looked at all of them: a sweep is paid for as a whole, or nothing of it "
    "is released.",
)
"""The rule that every point of a sweep breaks whose private fits nobody pays for. No waiver covers it."""
NOT_RELEASABLE = "It is a point of a sweep whose private fits no ledger pays for, so it may not be released."


@dataclass(frozen=True)
class _Terms:
    """What all candidates of an evaluation are judged by."""

    self_tests: tuple[SelfTest, ...]
    waivers: tuple[Waiver, ...]
    today: date | None

    def judge(self, candidate: Candidate, policy: Policy) -> Verdict:
        return judge(candidate, policy, waivers=self.waivers, today=self.today, self_tests=self.self_tests)


def verdicts_on(
    evaluation: Evaluation,
    policies: Iterable[Policy],
    names: Iterable[str] | None = None,
    *,
    waivers: Iterable[Waiver] = (),
    today: date | None = None,
) -> tuple[Verdict, ...]:
    """What each policy says of each candidate.

    Args:
        evaluation: of a run, of a sweep, or of tables from elsewhere.
        policies: to judge by, in this order.
        names: of candidates; none: all.
        waivers: of rules of these policies, for candidates of this evaluation.
        today: the day on which waivers have to be in force; none: today, in UTC.

    Raises:
        JobError: a waiver is for something else than these policies and candidates, or a rule names a measure that says
            of itself that it only describes; nothing was judged.
    """
    policies, waivers = tuple(policies), tuple(waivers)
    check_waivers(waivers, policies, [one.name for one in evaluation.candidates])
    wanted = None if names is None else set(names)
    chosen = [one for one in evaluation.candidates if wanted is None or one.name in wanted]
    terms = _Terms(evaluation.self_tests, waivers, today)
    claiming = [_claiming(candidate, evaluation.provenance) for candidate in chosen]
    judged = (_judged(candidate, policy, swept, terms) for policy in policies for candidate, swept in claiming)
    return tuple(convicted(verdict, evaluation.ranking) for verdict in judged)


def _claiming(candidate: Candidate, provenance: Mapping[str, Any]) -> tuple[Candidate, Any]:
    """The candidate with the claim that counts, and the sweep that it is still to be judged in.

    Where numbers about it are published, its recipients have both: the claim is that of everything together, a sweep
    included.
    """
    found = provenance.get("public_report")
    published: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    together = published.get("together")
    if candidate.statement is None or not isinstance(together, Mapping) or published.get("table") != candidate.name:
        return candidate, provenance.get("sweep")
    claims = {name: together[name] for name in ("epsilon", "delta") if name in together}
    return replace(candidate, statement={**candidate.statement, **claims}), None


def check_waivers(waivers: Iterable[Waiver], policies: Iterable[Policy], names: Collection[str]) -> None:
    """Refuse a waiver that would never count, since whoever wrote it means one that does.

    Args:
        waivers: to be used.
        policies: to judge by.
        names: of the candidates.

    Raises:
        JobError: a waiver is for another policy, another version, another table, or no binding rule; nothing was
            judged.
    """
    known = {policy.name: policy for policy in policies}
    for waiver in waivers:
        if not known:
            raise JobError("a waiver is for a rule of a policy, and no policy is judged by; name one")
        policy = known.get(waiver.policy)
        if policy is None:
            raise JobError(
                f"a waiver is for policy={waiver.policy!r}, by which nothing is judged here; "
                f"{nearest(waiver.policy, known)}"
            )
        if waiver.version != policy.version:
            raise JobError(
                f"a waiver is for version={waiver.version} of policy={policy.name!r}, which is at version "
                f"{policy.version}; read what changed, and renew the waiver or remove it"
            )
        if waiver.candidate not in names:
            raise JobError(
                f"a waiver is for candidate={waiver.candidate!r}, which is not here; {nearest(waiver.candidate, names)}"
            )
        _check_rule(waiver, policy)


def _check_rule(waiver: Waiver, policy: Policy) -> None:
    same = [rule for rule in policy.rules if rule.measure == waiver.measure]
    if any(rule.severity == "fail" and rule.subject == waiver.subject for rule in same):
        return
    which = f"measure={waiver.measure!r}" + (f" with subject={list(waiver.subject)}" if waiver.subject else "")
    if any(rule.subject == waiver.subject for rule in same):
        raise JobError(f"a waiver is for {which}, whose rule only warns in policy={policy.name!r}; remove the waiver")
    binding = list(dict.fromkeys(rule.measure for rule in policy.rules if rule.severity == "fail"))
    remedy = "name the columns of a rule as the policy does" if same else nearest(waiver.measure, binding)
    raise JobError(f"a waiver is for {which}, on which policy={policy.name!r} has no rule; {remedy}")


def _judged(candidate: Candidate, policy: Policy, swept: Any, terms: _Terms) -> Verdict:
    if not isinstance(swept, Mapping):
        return terms.judge(candidate, policy)
    together = swept.get("composed")
    composed = together if isinstance(together, Mapping) else {}
    if swept.get("releasable") is not True:
        return _barred(terms.judge(candidate, policy), composed)
    if candidate.statement is None:
        return terms.judge(candidate, policy)
    claims = {name: composed[name] for name in ("epsilon", "delta") if name in composed}
    return terms.judge(replace(candidate, statement={**candidate.statement, **claims}), policy)


def _barred(verdict: Verdict, composed: Mapping[str, Any]) -> Verdict:
    claim = composed.get("epsilon")
    estimate = None
    if isinstance(claim, int | float):
        note = "Of all private fits of the sweep together; nothing of it was paid for."
        estimate = Estimate(measure=EPSILON, value=float(claim), n=0, direction="lower", note=note)
    finding = Finding(UNPAID, "FAIL", NOT_RELEASABLE, estimate)
    return replace(verdict, verdict="FAIL", findings=(finding, *verdict.findings))
