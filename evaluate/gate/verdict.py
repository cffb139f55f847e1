"""The gate: what a written policy says of one synthetic table: PASS, FAIL or INCONCLUSIVE.

The worst of the binding rules decides, those that an owner waives aside. Where train and holdout are of different
populations, an attack tells these apart, and no member: an honest table looks like a leak, and a leak can look honest.
So a rule that compares with the holdout is INCONCLUSIVE there, either way. What is counted among training rows alone
stands. A holdout that holds training rows hides leaks and feigns none: FAIL stands, and nothing passes. One that
repeats its rows feigns some: FAIL stands where they do not explain it.

Source: Das, Zhang, Tramer 2024, "Blind Baselines Beat Membership Inference Attacks for Foundation Models",
arXiv:2406.16201 (shift).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.comparison import VendorRanking
from evaluate.gate.claim import Claims, claims_of, proven_limit
from evaluate.gate.decision import CANNOT, Finding, Outcome, answered, finding_of, ways_out
from evaluate.gate.policy import (
    STATEMENT,
    Policy,
    Rule,
    Waiver,
    bind_on_privacy,
    check_name,
    check_waivers,
    load_policy,
)
from evaluate.gate.policy_checks import BROKEN, STRETCH, Check, checks_of
from evaluate.metrics import CATALOG, SWAPPED, UNJUDGED
from evaluate.real_facts import NOT_HELD, RealFacts
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.text import listed
from synth.dp.schedule import TradeOff
from synth.errors import nearest
from synth.progress import html_table

__all__ = ["WHERE_THERE", "Check", "Finding", "Outcome", "Verdict", "judge", "judge_candidate", "today_utc"]

WHERE_THERE = (AUDITED,)
"""Measures of what only some tables have. Their rules apply to every table that makes a claim, audited or not, and to
every one for which an audit was tried; without either there is nothing to audit, and nothing to break."""

NO_PRIVACY = (
    "The policy has no binding rule on privacy that applies to this table, so that a copy of the training table might "
    "keep it; add one."
)
EPSILON = "statement.epsilon"
UNPAID = (
    "Whoever picks one of several fits has looked at all of them: a sweep is paid for as a whole, or nothing of it is "
    "released."
)
"""The reason that every point of an unpaid sweep fails. No waiver covers it."""
NOT_RELEASABLE = "It is a point of a sweep whose private fits no ledger pays for, so it may not be released."


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict of a policy on one table, with its findings and self-tests; printed, what did not pass, and why."""

    candidate: str
    policy: str
    version: int
    audience: str
    verdict: Outcome
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...] = ()

    def __repr__(self) -> str:
        return f"<Verdict {self.verdict} on {self.candidate!r} under {self.policy!r} {self.version}>"

    def __str__(self) -> str:
        lines = [f"{self.candidate}: {self.verdict} under policy {self.policy} {self.version}, for {self.audience}"]
        lines += [f"  {self.reason}"] if self.reason else []
        lines += [
            f"  {finding.outcome}{'' if finding.binding else ' (warning)'} {finding.name}: {finding.reason}"
            for finding in self.findings
            if finding.outcome != "PASS"
        ]
        lines += [f"  self-test {check.case}: {check.reason}" for check in self.checks if check.outcome == BROKEN]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for each in sorted(self.findings, key=lambda each: ("FAIL", "INCONCLUSIVE", "PASS").index(each.outcome)):
            metric = CATALOG.get(each.rule.measure)
            title = each.rule.measure if metric is None else metric.title
            rows.append((title, each.outcome + " (warning)" * (not each.binding), each.reason))
        caption = f"{self.candidate}: {self.verdict} under policy {self.policy}, for {self.audience}"
        return html_table(f"{caption}. {self.reason}".rstrip(" ."), ("rule", "outcome", "reason"), rows)

    @property
    def waived(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.waived)

    @property
    def reason(self) -> str:
        """Why the verdict is INCONCLUSIVE and what is left to do, where no rows of this table decide; else empty."""
        counted = [finding for finding in self.findings if finding.counts]
        stuck = [finding.rule for finding in counted if finding.undecidable]
        if self.verdict != "INCONCLUSIVE" or not stuck:
            return ""
        n_open = sum(finding.outcome == "INCONCLUSIVE" for finding in counted) - len(stuck)
        more = f" {n_open} more {'is' if n_open == 1 else 'are'} open: the findings say what settles each."
        which = f"{len(stuck)} of {len(counted)} rules, {listed([rule.measure for rule in stuck])}"
        return f"{CANNOT}: the rows of this table cannot decide {which}. {ways_out(*stuck)}{more if n_open else ''}"

    def to_dict(self) -> dict[str, Any]:
        names = ("candidate", "policy", "version", "audience", "verdict", "reason")
        plain = {name: getattr(self, name) for name in names}
        findings = [finding.to_dict() for finding in self.findings]
        return {**plain, "findings": findings, "checks": [asdict(check) for check in self.checks]}


def judge_candidate(  # noqa: PLR0913 (one table, then what the verdict may rest on, by keyword)
    candidate: Candidate,
    policy: Policy,
    *,
    waivers: Iterable[Waiver] = (),
    today: date | None = None,
    self_tests: Iterable[SelfTest] | None = None,
    limit: TradeOff | None = None,
    real: RealFacts | None = None,
    claims: Claims | None = None,
    verified: bool = True,
    barring: Iterable[Finding] = (),
) -> Verdict:
    """The verdict of a policy on the numbers of one table, whatever was drawn beside it: FAIL where something bars it.

    A rule about an audit applies where there is a claim.
    """
    by_key = {w.key: w for w in waivers}
    day = today_utc() if today is None else today
    findings = [*barring]
    barred = bool(findings)
    for rule in policy.all_rules:
        if _applies(candidate, rule, real):
            result = finding_of(candidate, rule, limit=limit, claims=claims, verified=verified, real=real)
            key = (policy.name, policy.version, candidate.name, rule.measure, rule.subject)
            findings.append(answered(questioned(result, candidate, real), by_key.get(key), day))
    checks = () if self_tests is None else checks_of(self_tests, policy, real)
    outcomes = {finding.outcome for finding in findings if finding.counts}
    verdict: Outcome = "PASS"
    if barred or "FAIL" in outcomes:
        verdict = "FAIL"
    elif outcomes != {"PASS"} or any(check.outcome == BROKEN for check in checks):
        verdict = "INCONCLUSIVE"  # also without any rule that counts: nothing was shown to hold
    names = (candidate.name, policy.name, policy.version, policy.audience)
    return Verdict(*names, verdict, tuple(findings), checks)


def today_utc() -> date:
    return datetime.now(UTC).date()


def _applies(candidate: Candidate, rule: Rule, real: RealFacts | None) -> bool:
    """True where a rule is about something that the table has. A warning about what the real table has not, such as
    steps, says nothing, nor does a rule on relations where nothing holds between its columns. A rule whose number needs
    a fact of the table applies wherever that is there, measured or not; without facts, where it was measured.
    """
    number = None if rule.measure.startswith(STATEMENT) else candidate.get(rule.measure, rule.subject)
    if rule.measure == UNJUDGED or (rule.need and real is None):
        return number is not None
    if rule.need:
        return bool(getattr(real, rule.need))
    if isinstance(number, Failure) and number.reason == "not applicable":
        return rule.severity != "warn" and not CATALOG[rule.measure].may_lack
    return candidate.statement is not None or rule.measure not in WHERE_THERE or number is not None


def judge(
    evaluation: Evaluation,
    policies: Policy | Path | str | Iterable[Policy | Path | str],
    names: str | Iterable[str] | None = None,
    *,
    waivers: Iterable[Waiver] = (),
    today: date | None = None,
) -> tuple[Verdict, ...]:
    """The verdict of each policy on each candidate of an evaluation.

    It rests on the claim of all that counts with a table: its sweep, what is published about it, and all that its run
    drew. A rule that this claim proves passes by proof. A table that a comparison of vendors barred passes nothing.

    Args:
        evaluation: of a run, of a sweep, or of tables from elsewhere.
        policies: to judge by, one or several, in this order; each a policy, or what `load_policy` takes.
        names: of candidates; `None`: all.
        waivers: of rules of these policies, for candidates of this evaluation.
        today: the day on which waivers have to be in force; `None`: today, in UTC.

    Raises:
        JobError: a waiver is for something else than these policies and candidates, a rule names a measure that says of
            itself that it only describes, or a policy cannot be read or takes the name of one that ships; nothing was
            judged.
        EvaluationError: it has no candidate of that name, or what it says of a sweep, of published numbers, or of all
            that its run drew, is damaged; nothing was judged.
    """
    if not isinstance(evaluation, Evaluation):
        raise EvaluationError(
            f"judge(evaluation, policies, names) takes an evaluation first, and this is a {type(evaluation).__name__}; "
            "pass what evaluate.evaluate gives, and name single candidates"
        )
    is_one = isinstance(policies, Policy | Path | str) or not isinstance(policies, Iterable)
    several: Any = (policies,) if is_one else policies
    policies = tuple(each if isinstance(each, Policy) else load_policy(each) for each in several)
    waivers = tuple(waivers)
    for policy in policies:
        check_name(policy)
    known = [each.name for each in evaluation.candidates]
    check_waivers(waivers, policies, known)
    wanted = known if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise EvaluationError(f"candidate={name!r} is not in the evaluation; {nearest(name, known)}")
    grounds: list[tuple[Candidate, dict[str, Any]]] = []
    for each in (each for each in evaluation.candidates if each.name in wanted):
        claims, barring = claims_of(evaluation, each), (*_barring(each, evaluation.ranking), *_unpaid(evaluation))
        grounds.append((each, {"claims": claims, "limit": proven_limit(evaluation, each, claims), "barring": barring}))
    shared: dict[str, Any] = {"today": today, "self_tests": evaluation.self_tests, "real": evaluation.real}
    return tuple(
        _on_privacy(judge_candidate(each, policy, waivers=waivers, **shared, **ground))
        for policy in policies
        for each, ground in grounds
    )


def _on_privacy(verdict: Verdict) -> Verdict:
    """The verdict, which is no PASS where no binding rule on privacy applied."""
    if verdict.verdict != "PASS" or bind_on_privacy(finding.rule for finding in verdict.findings):
        return verdict
    rule = Rule(measure="privacy.copies.people", limit=0.0, why="Validity and use alone say nothing of privacy.")
    missing = Finding(rule, "INCONCLUSIVE", NO_PRIVACY)
    return replace(verdict, verdict="INCONCLUSIVE", findings=(*verdict.findings, missing))


def _unpaid(evaluation: Evaluation) -> Iterable[Finding]:
    """What bars every point of a sweep that nobody pays for."""
    sweep = evaluation.provenance.sweep
    if sweep is not None and not sweep.releasable:
        note, all_fits = "Of all private fits of the sweep together; nothing of it was paid for.", sweep.composed
        estimate = None if all_fits is None else Estimate(EPSILON, all_fits.epsilon, 0, "lower", note=note)
        yield Finding(Rule(measure=EPSILON, limit=0.0, why=UNPAID), "FAIL", NOT_RELEASABLE, estimate)


def _barring(candidate: Candidate, ranking: VendorRanking | None) -> Iterable[Finding]:
    """What a comparison's own rules found, so that no gate passes what a comparison has barred."""
    if ranking is None:
        return
    ours = [vendor for vendor in ranking.vendors if vendor.name == candidate.name]
    if len(ours) != 1:
        raise EvaluationError("the ranking is damaged: it names every table once; compare again")
    for evidence in ours[0].evidence:
        if evidence.beyond_policy:
            try:
                rule = Rule(
                    measure=evidence.measure, limit=evidence.limit, why=evidence.why, subject=evidence.subject,
                    fails_beyond=None if evidence.fails_beyond == evidence.limit else evidence.fails_beyond,
                )  # fmt: skip
            except ValueError:
                raise EvaluationError("the ranking is damaged: it names no rule that there is; compare again") from None
            yield Finding(rule, "FAIL", evidence.reason, evidence.estimate)


EXCESS = ".excess"  # Ends the name of a share less that of the holdout's rows

COUNTED: Mapping[str, str] = dict.fromkeys(("privacy.copies.people", "privacy.copies.unique.excess"), "privacy.copies")
"""Numbers counted among training rows alone, by the number that compares with the holdout."""

LARGEST = 0.47
"""Area below which an attack is said to be turned round: a difference of populations that does not matter moves no area
further from a coin than `LEAST_AUC`."""


def questioned(finding: Finding, candidate: Candidate, real: RealFacts | None) -> Finding:
    """The finding as far as it stands where train and holdout may be of different populations."""
    if real is None or not rests_on_holdout(finding.rule.measure) or finding.estimate is None:
        return finding
    shift, passes = real.shift, finding.outcome == "PASS"
    if finding.proven is not None:
        return finding  # a proof compares nothing
    if passes and _turned_round(candidate):
        why = f"An attack takes held-out rows for training rows. {SWAPPED}"
        return replace(finding, outcome="INCONCLUSIVE", reason=why)
    explained = shift.feigned * _scale(candidate, real)
    stays = finding.outcome == "FAIL" and _fails_by_more(finding.estimate, finding, explained)
    if stays or not (shift.differs or (shift.untested and passes)):
        return finding
    if finding.outcome == "FAIL" and _beyond_twins(finding, candidate, real.duplicate_share_train):
        return replace(finding, reason=f"{finding.reason} Training rows' own twins do not explain it either.")
    remedy = "hold out rows of the same table at random, as `understudy split` does, and evaluate again"
    if shift.untested:
        remedy = "evaluate again" if shift.untested == NOT_HELD else "hold out more rows"
    why = f"It compares training rows with held-out ones, so that it tells nothing here. {shift.sentence} So {remedy}."
    return replace(finding, outcome="INCONCLUSIVE", reason=why, n_needed=None)


def _turned_round(candidate: Candidate) -> bool:
    """True where a table is nearer to the holdout than to train, by more than chance and small differences explain."""
    auc = candidate.find("privacy.membership.auc")
    if not isinstance(auc, Estimate) or auc.high is None:
        return False
    return auc.value + STRETCH * (auc.high - auc.value) < LARGEST


def rests_on_holdout(measure: str) -> bool:
    """True for privacy measures that compare with the holdout, unknown ones included."""
    return measure.startswith("privacy.") and not (measure in CATALOG and CATALOG[measure].without_holdout)


def _beyond_twins(finding: Finding, candidate: Candidate, twins: float) -> bool:
    """True where copies break the rule beyond training rows' own twins."""
    rule = finding.rule
    name = COUNTED.get(rule.measure, rule.measure.removesuffix(EXCESS))
    counted = candidate.find(name, rule.subject)
    if name == rule.measure or rests_on_holdout(name) or not isinstance(counted, Estimate) or counted.low is None:
        return False
    return _fails_by_more(counted, finding, twins)


def _fails_by_more(number: Estimate, finding: Finding, amount: float) -> bool:
    """True where a number breaks the rule of a finding though it is better by so much."""
    if amount == math.inf:
        return False
    amount = amount if number.direction == "lower" else -amount
    value, low, high = (end - amount for end in (number.value, *number.interval))
    less = replace(number, measure=finding.rule.measure, value=value, low=low, high=high, reference=None)
    return finding_of(Candidate("", (less,)), finding.rule).outcome == "FAIL"


def _scale(candidate: Candidate, real: RealFacts) -> float:
    """Training rows for each synthetic one: copied people are a share of those whom so few rows could copy."""
    copies = candidate.find("privacy.copies")
    return max(1.0, real.train_rows / copies.n) if isinstance(copies, Estimate) else 1.0
