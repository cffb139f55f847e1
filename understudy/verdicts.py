"""The verdicts on an evaluation, wherever it is from: of a sweep they rest on what all its fits promise together."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from evaluate.policy import Policy, Rule
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, SelfTest
from evaluate.verdict import Finding, Verdict, judge
from evaluate.waiver import Waiver
from synth.dp.statement import is_claim
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
        EvaluationError: what it says of a sweep, or of published numbers, is damaged; nothing was judged.
    """
    policies, waivers = tuple(policies), tuple(waivers)
    check_waivers(waivers, policies, [one.name for one in evaluation.candidates])
    wanted = None if names is None else set(names)
    chosen = [one for one in evaluation.candidates if wanted is None or one.name in wanted]
    terms = _Terms(evaluation.self_tests, waivers, today)
    swept = _swept(evaluation.provenance)
    claiming = [_claiming(candidate, evaluation, swept) for candidate in chosen]
    judged = (_judged(candidate, policy, swept, terms) for policy in policies for candidate in claiming)
    return tuple(convicted(verdict, evaluation.ranking) for verdict in judged)


@dataclass(frozen=True)
class _Swept:
    """What a sweep says of all its points.

    Attributes:
        is_releasable: whether somebody pays for its private fits, or it has none.
        composed: what its private fits claim together; none where it has none.
    """

    is_releasable: bool
    composed: Mapping[str, Any] | None


def _swept(provenance: Mapping[str, Any]) -> _Swept | None:
    """What the sweep says of itself; none outside one. Whatever no run writes is damage, and never no sweep."""
    if provenance and "sweep" not in provenance:
        raise _damaged("does not say whether it is of a sweep")
    found = provenance.get("sweep")
    if found is None:
        return None
    if not isinstance(found, Mapping) or not isinstance(found.get("releasable"), bool):
        raise _damaged("does not say whether its sweep may be released")
    together = found.get("composed")
    return _Swept(found["releasable"], None if together is None else _claims(together))


def _claims(together: object) -> dict[str, Any]:
    """The epsilon and the delta of something private."""
    claims = {name: together.get(name) for name in ("epsilon", "delta")} if isinstance(together, Mapping) else {}
    if not claims or not all(is_claim(name, claim) for name, claim in claims.items()):
        raise _damaged("claims for several fits together what none can claim")
    return claims


def _damaged(what: str) -> EvaluationError:
    return EvaluationError(f"the evaluation is damaged: its provenance {what}; evaluate again")


def _claiming(candidate: Candidate, evaluation: Evaluation, swept: _Swept | None) -> Candidate:
    """The candidate with the claim that counts: the largest of its own, its sweep's, and that of what is published.

    Where numbers about it are published, its recipients have both: the claim is that of everything together.
    """
    both = _published(evaluation).get(candidate.name)
    if candidate.statement is None:
        return candidate
    if swept is not None and swept.composed is None:
        raise _damaged("does not say what the private fits of its sweep claim together")
    stated = dict(candidate.statement)
    for together in (None if swept is None else swept.composed, both):
        for name, claim in ({} if together is None else _claims(together)).items():
            own = stated.get(name)
            stated[name] = max(own, claim) if is_claim(name, own) else own
    if both is not None and both.get("private") is not True:
        stated["private"] = False
    return replace(candidate, statement=stated)


def _published(evaluation: Evaluation) -> dict[str, Mapping[str, Any]]:
    """What a table and the numbers that are published about it claim together, by the table's name."""
    found = evaluation.provenance.get("public_report")
    if found is None:
        return {}
    together = found.get("together") if isinstance(found, Mapping) else None
    if not isinstance(together, Mapping) or not isinstance(together.get("private"), bool):
        raise _damaged("holds published numbers without what they claim")
    if found.get("table") not in [one.name for one in evaluation.candidates]:
        raise _damaged("holds published numbers of no table of it")
    _claims(together)
    return {found["table"]: together}


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


def _judged(candidate: Candidate, policy: Policy, swept: _Swept | None, terms: _Terms) -> Verdict:
    verdict = terms.judge(candidate, policy)
    return verdict if swept is None or swept.is_releasable else _barred(verdict, swept.composed or {})


def _barred(verdict: Verdict, composed: Mapping[str, Any]) -> Verdict:
    claim = composed.get("epsilon")
    estimate = None
    if claim is not None:
        note = "Of all private fits of the sweep together; nothing of it was paid for."
        estimate = Estimate(measure=EPSILON, value=float(claim), n=0, direction="lower", note=note)
    finding = Finding(UNPAID, "FAIL", NOT_RELEASABLE, estimate)
    return replace(verdict, verdict="FAIL", findings=(finding, *verdict.findings))
