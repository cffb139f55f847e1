"""The verdicts on an evaluation, wherever it is from: they rest on the claim of all that counts with a table."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from evaluate.policy import STATEMENT, Policy, Rule
from evaluate.result import Candidate, Estimate, Evaluation
from evaluate.verdict import Finding, Verdict, judge
from evaluate.waiver import Waiver
from reports.claims import Claim, Composition, damaged, stated_as_counted
from reports.deciding import settled
from reports.protection import proven_limit
from synth.errors import JobError, nearest
from understudy.vendors.rules import convicted

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

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
class _Claiming:
    """A candidate with the claim that counts.

    Attributes:
        candidate: its statement claims what all that counts with it comes to.
        reading: why that is not the claim of its fit alone; nothing where it is.
        limit: that this claim sets to attacks; `None` where nothing is promised to those who are attacked.
    """

    candidate: Candidate
    reading: str
    limit: "TradeOff | None"

    @classmethod
    def of(cls, candidate: Candidate, evaluation: Evaluation, together: Composition) -> "_Claiming":
        """A candidate of an evaluation."""
        counted, claims = together.counted(candidate), together.claims(candidate)
        limit = proven_limit(evaluation, candidate, claims)
        if counted is None and claims is not None and claims.counted.disputed:
            counted = claims.counted
        if counted is not None and candidate.statement is not None:
            candidate = replace(candidate, statement=stated_as_counted(candidate.statement, counted))
        return cls(candidate, "" if claims is None else claims.reading, limit)


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
        names: of candidates; `None`: all.
        waivers: of rules of these policies, for candidates of this evaluation.
        today: the day on which waivers have to be in force; `None`: today, in UTC.

    Raises:
        JobError: a waiver is for something else than these policies and candidates, or a rule names a measure that says
            of itself that it only describes; nothing was judged.
        EvaluationError: what it says of a sweep, of published numbers, or of all that its run drew, is damaged; nothing
            was judged.
    """
    policies, waivers = tuple(policies), tuple(waivers)
    check_waivers(waivers, policies, [one.name for one in evaluation.candidates])
    wanted = None if names is None else set(names)
    chosen = [one for one in evaluation.candidates if wanted is None or one.name in wanted]
    tests, unpaid, together = evaluation.self_tests, _unpaid(evaluation.provenance), Composition.of(evaluation)
    claiming = [_Claiming.of(candidate, evaluation, together) for candidate in chosen]
    judged = (
        settled(
            _explained(
                judge(
                    one.candidate,
                    policy,
                    waivers=waivers,
                    today=today,
                    self_tests=tests,
                    limit=one.limit,
                    real=evaluation.real,
                ),
                one.reading,
            ),
            evaluation.real,
        )
        for policy in policies
        for one in claiming
    )
    return tuple(
        convicted(_barred(verdict, together.sweep) if unpaid else verdict, evaluation.ranking) for verdict in judged
    )


def _unpaid(provenance: Mapping[str, Any]) -> bool:
    """Whether it is of a sweep that nobody pays for. Whatever no run writes is damage, and never no sweep."""
    if provenance and "sweep" not in provenance:
        raise damaged("does not say whether it is of a sweep")
    found = provenance.get("sweep")
    if found is None:
        return False
    if not isinstance(found, Mapping) or not isinstance(found.get("releasable"), bool):
        raise damaged("does not say whether its sweep may be released")
    return not found["releasable"]


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


def _explained(verdict: Verdict, reading: str) -> Verdict:
    """The verdict with why a claim that was judged is not that of the fit alone, where it is not."""
    if not reading:
        return verdict
    findings = (
        replace(one, estimate=replace(one.estimate, note=reading))
        if one.estimate is not None and one.rule.measure.startswith(STATEMENT)
        else one
        for one in verdict.findings
    )
    return replace(verdict, findings=tuple(findings))


def _barred(verdict: Verdict, together: Claim | None) -> Verdict:
    estimate = None
    if together is not None:
        note = "Of all private fits of the sweep together; nothing of it was paid for."
        estimate = Estimate(measure=EPSILON, value=together.epsilon, n=0, direction="lower", note=note)
    finding = Finding(UNPAID, "FAIL", NOT_RELEASABLE, estimate)
    return replace(verdict, verdict="FAIL", findings=(finding, *verdict.findings))
