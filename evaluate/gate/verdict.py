"""The gate: what a written policy says of one synthetic table: PASS, FAIL or INCONCLUSIVE.

The worst of the binding rules decides, those that an owner waives aside. What is left then has to come from measures
that show, on tables of which the answer is known, that they work: see `evaluate.gate.checks`.

Sample sizes that would settle an INCONCLUSIVE rule, beside the rows that this real table has.

A finding says how many would roughly decide (`evaluate.gate.finding`); how much of the real table that takes is another
matter. A holdout cannot be larger than the table that it is cut from, and some measures take no more rows than they do.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.comparison import BarringFinding, VendorRanking
from evaluate.gate.checks import BROKEN, Check, checks_of
from evaluate.gate.claim import Claim, Composition
from evaluate.gate.finding import Finding, Outcome, Proof, answered, bounded, false_alarms, finding_of, sampled
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
from evaluate.gate.protection import proven_limit
from evaluate.gate.shift import questioned
from evaluate.metrics import ATTEMPTS, CATALOG, COMPARED, NOISY, SYNTHETIC, UNJUDGED, Counted
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.text import count
from synth.errors import nearest
from synth.notebook import html_table

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

LARGER = "They come from samples of the tables: a larger sample_rows draws more."
_WOULD = re.compile("; about n = [^.]*")


def settled(finding: Finding, real: RealFacts) -> Finding:
    """The finding with the rows that would decide in its reason, or that this table cannot have them. `real`: of the
    evaluation. *Sensitive*: so is the finding.
    """
    more = deciding(finding, real)
    if not more:
        return finding
    if _lacking(finding, real):
        return replace(finding, reason=f"{_WOULD.sub('', finding.reason, count=1)} {more}", n_needed=None)
    return replace(finding, reason=f"{finding.reason} {more}")


def deciding(finding: Finding, real: RealFacts) -> str:
    """What the rows are that would decide, and whether the real table has them; empty where no number of rows is named,
    and where the finding says so itself. `real`: of the evaluation. *Sensitive*: so is the text.
    """
    if finding.n_needed is None or finding.estimate is None or (counted := _counted(finding)) is None:
        return ""
    lacking = _lacking(finding, real)
    if lacking:
        return (
            f"This table cannot decide it: about n = {finding.n_needed:,} would, instead of {finding.estimate.n:,}. "
            f"Counted are {counted.what}, and {lacking}. {_else(finding)}"
        )
    said = f"Counted are {counted.what}. {_had(counted, finding.estimate, finding.n_needed, real)}".strip()
    return "" if said in finding.reason else said


def _lacking(finding: Finding, real: RealFacts) -> str:
    """The reason why no larger split of the real table has so many; empty where one does, or nobody knows."""
    counted, n_needed = _counted(finding), finding.n_needed
    if counted is None or finding.estimate is None or n_needed is None:
        return ""
    if counted.most is not None and n_needed > counted.most:
        return f"the measure takes {count(counted.most)} of them at most"
    n_rows = real.train_rows + real.holdout_rows
    if counted in (SYNTHETIC, ATTEMPTS, NOISY) or counted.real_rows(finding.estimate.n, n_needed, real) < n_rows:
        return ""
    return f"the real table has {count(n_rows)} rows in all"


def _counted(finding: Finding) -> Counted | None:
    metric = CATALOG.get(finding.rule.measure)
    return None if metric is None else metric.counted


def _else(finding: Finding) -> str:
    """What decides a rule without any more rows."""
    rule = finding.rule
    if bounded(rule.measure) and rule.limit > (false_alarms(rule.measure) or 0.5):
        return "A private fit with a small enough epsilon proves this rule; else an owner may waive it."
    return "An owner may waive it."


def _had(counted: Counted, estimate: Estimate, n_needed: int, real: RealFacts) -> str:
    """A sentence on where so many rows come from; empty where that is not known."""
    on_samples = sampled(estimate) != ""
    if counted == SYNTHETIC:
        return LARGER if on_samples else "Sampling more of them is enough."
    if counted in (ATTEMPTS, NOISY):
        return ""
    if counted == COMPARED and n_needed <= real.holdout_rows:
        return LARGER if on_samples else "The holdout has so many: sampling more synthetic rows is enough."
    n_rows = count(real.train_rows + real.holdout_rows)
    return LARGER if on_samples else f"The real table has {n_rows} rows in all, so that another split of it can."


__all__ = ["WHERE_THERE", "Check", "Finding", "Outcome", "Verdict", "judge", "judge_candidate", "today_utc"]

WHERE_THERE = (AUDITED,)
"""Measures of what only some tables have. Their rules apply to every table that makes a claim, audited or not, and to
every one for which an audit was tried; without either there is nothing to audit, and nothing to break."""

WHERE_ANYTHING_HOLDS = (
    "relations.lost.worst", "triples.tvd.excess.worst", "columns.categories.kept.worst", "privacy.reconstruction",
)  # fmt: skip
"""Measures of what a real table may not have: relations, three columns, frequent categories. Then none can be lost."""


NO_PRIVACY = (
    "The policy has no binding rule on privacy that applies to this table, so that a copy of the training table might "
    "keep it; add one."
)


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict of a policy on one table, with its findings and self-tests. Printed, it says what did not pass, and
    why.
    """

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
        """The verdict, then a line for each rule that does not pass and each self-test that did not come out."""
        lines = [f"{self.candidate}: {self.verdict} under policy {self.policy} {self.version}, for {self.audience}"]
        for finding in self.findings:
            if finding.outcome != "PASS":
                subject = f" of {', '.join(finding.rule.subject)}" if finding.rule.subject else ""
                kind = "" if finding.binding else " (warning)"
                lines.append(f"  {finding.outcome}{kind} {finding.rule.measure}{subject}: {finding.reason}")
        lines += [f"  self-test {one.case}: {one.reason}" for one in self.checks if one.outcome == BROKEN]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        order = ("FAIL", "INCONCLUSIVE", "PASS")
        rows = (
            (
                CATALOG[one.rule.measure].title if one.rule.measure in CATALOG else one.rule.measure,
                one.outcome if one.binding else f"{one.outcome} (warning)",
                one.reason,
            )
            for one in sorted(self.findings, key=lambda one: order.index(one.outcome))
        )
        caption = f"{self.candidate}: {self.verdict} under policy {self.policy}, for {self.audience}"
        return html_table(caption, ("rule", "outcome", "reason"), rows)

    @property
    def waived(self) -> tuple[Finding, ...]:
        """Findings that somebody answers for, so that they do not count."""
        return tuple(finding for finding in self.findings if finding.waived)

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("candidate", "policy", "version", "audience", "verdict")}
        findings = [finding.to_dict() for finding in self.findings]
        return {**plain, "findings": findings, "checks": [asdict(check) for check in self.checks]}


def judge_candidate(  # noqa: PLR0913 (one table, then what the verdict may rest on, by keyword)
    candidate: Candidate,
    policy: Policy,
    *,
    waivers: Iterable[Waiver] = (),
    today: date | None = None,
    self_tests: Iterable[SelfTest] | None = None,
    limit: "TradeOff | None" = None,
    real: RealFacts | None = None,
    counted: Claim | None = None,
    verified: bool = True,
) -> Verdict:
    """The verdict of a policy on the numbers of one table, whatever was drawn beside it.

    A rule about an audit applies where there is a claim.
    """
    of = {w.key: w for w in waivers}
    day = today_utc() if today is None else today
    proof = None if limit is None else Proof.of(candidate, limit)
    findings = tuple(
        answered(
            questioned(finding_of(candidate, rule, proof, counted, verified=verified), candidate, real),
            of.get(_key(candidate, policy, rule)),
            day,
        )
        for rule in policy.all_rules
        if _applies(candidate, rule, real)
    )
    checks = () if self_tests is None else checks_of(self_tests, policy, real)
    return Verdict(
        candidate=candidate.name,
        policy=policy.name,
        version=policy.version,
        audience=policy.audience,
        verdict=_overall([f.outcome for f in findings if f.counts], checks),
        findings=findings,
        checks=checks,
    )


def today_utc() -> date:
    return datetime.now(UTC).date()


def _key(candidate: Candidate, policy: Policy, rule: Rule) -> tuple[object, ...]:
    return (policy.name, policy.version, candidate.name, rule.measure, rule.subject)


def _overall(outcomes: list[Outcome], checks: tuple[Check, ...]) -> Outcome:
    """Without any rule that counts nothing was shown to hold, so that nothing passes."""
    if "FAIL" in outcomes:
        return "FAIL"
    if not outcomes or "INCONCLUSIVE" in outcomes or any(check.outcome == BROKEN for check in checks):
        return "INCONCLUSIVE"
    return "PASS"


def _applies(candidate: Candidate, rule: Rule, real: RealFacts | None) -> bool:
    """True where a rule is about something that the table has. A warning about what the real table has not, such as
    steps, says nothing, nor does a rule on relations where nothing holds between its columns; other binding rules stay
    INCONCLUSIVE. A rule whose number needs a fact of the table applies wherever it is there, measured or not, also
    where the extra that measures it is not installed; without facts about the real table, where it was measured.
    """
    if rule.measure == UNJUDGED:
        return candidate.get(rule.measure, rule.subject) is not None
    if rule.need:
        if real is None:
            return candidate.get(rule.measure, rule.subject) is not None
        return bool(getattr(real, rule.need))
    found = None if rule.measure.startswith(STATEMENT) else candidate.get(rule.measure, rule.subject)
    if isinstance(found, Failure) and found.reason == "not applicable":
        return rule.severity != "warn" and rule.measure not in WHERE_ANYTHING_HOLDS
    claims = candidate.statement is not None
    return claims or rule.measure not in WHERE_THERE or found is not None


EPSILON = "statement.epsilon"
UNPAID = (
    "Whoever picks one of several fits has looked at all of them: a sweep is paid for as a whole, or nothing of it is "
    "released."
)
"""The reason that every point of an unpaid sweep fails. No waiver covers it."""
NOT_RELEASABLE = "It is a point of a sweep whose private fits no ledger pays for, so it may not be released."


@dataclass(frozen=True)
class _Claiming:
    candidate: Candidate
    counted: Claim | None
    reading: str
    limit: "TradeOff | None"

    @classmethod
    def of(cls, candidate: Candidate, evaluation: Evaluation, together: Composition) -> "_Claiming":
        counted, claims = together.counted(candidate), together.claims(candidate)
        limit = proven_limit(evaluation, candidate, claims)
        if counted is None and claims is not None and claims.counted.disputed:
            counted = claims.counted
        return cls(candidate, counted, "" if claims is None else claims.reading, limit)


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
    several = (policies,) if isinstance(policies, Policy | Path | str) else policies
    policies = tuple(one if isinstance(one, Policy) else load_policy(one) for one in several)
    waivers = tuple(waivers)
    for policy in policies:
        check_name(policy)
    check_waivers(waivers, policies, [one.name for one in evaluation.candidates])
    known = [one.name for one in evaluation.candidates]
    wanted = known if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise EvaluationError(f"candidate={name!r} is not in the evaluation; {nearest(name, known)}")
    chosen = [one for one in evaluation.candidates if one.name in wanted]
    tests, sweep, together = evaluation.self_tests, evaluation.provenance.sweep, Composition.of(evaluation)
    unpaid = sweep is not None and not sweep.releasable
    claiming = [_Claiming.of(candidate, evaluation, together) for candidate in chosen]
    judged = (
        _settled(
            _on_privacy(
                _explained(
                    judge_candidate(
                        one.candidate,
                        policy,
                        waivers=waivers,
                        today=today,
                        self_tests=tests,
                        limit=one.limit,
                        real=evaluation.real,
                        counted=one.counted,
                    ),
                    one.reading,
                )
            ),
            evaluation.real,
        )
        for policy in policies
        for one in claiming
    )
    return tuple(
        _with_comparison(_barred(verdict, together.sweep) if unpaid else verdict, evaluation.ranking)
        for verdict in judged
    )


def _on_privacy(verdict: Verdict) -> Verdict:
    """The verdict, which is no PASS where no binding rule on privacy applied."""
    if verdict.verdict != "PASS" or bind_on_privacy(finding.rule for finding in verdict.findings):
        return verdict
    rule = Rule(measure="privacy.copies.people", limit=0.0, why="Validity and use alone say nothing of privacy.")
    missing = Finding(rule, "INCONCLUSIVE", NO_PRIVACY)
    return replace(verdict, verdict="INCONCLUSIVE", findings=(*verdict.findings, missing))


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
    finding = Finding(Rule(measure=EPSILON, limit=0.0, why=UNPAID), "FAIL", NOT_RELEASABLE, estimate)
    return replace(verdict, verdict="FAIL", findings=(finding, *verdict.findings))


def _with_comparison(verdict: Verdict, ranking: VendorRanking | None) -> Verdict:
    """The verdict with what a comparison's own rules found, so that no gate passes what a comparison has barred."""
    if ranking is None:
        return verdict
    ours = [one for one in ranking.vendors if one.name == verdict.candidate]
    if len(ours) != 1:
        raise EvaluationError("the ranking is damaged: it names every table once; compare again")
    findings = tuple(_restored(one) for one in ours[0].evidence if one.beyond_policy)
    return replace(verdict, verdict="FAIL", findings=(*findings, *verdict.findings)) if findings else verdict


def _restored(found: BarringFinding) -> Finding:
    try:
        rule = Rule(**asdict(found.rule))
    except ValueError:
        raise EvaluationError("the ranking is damaged: it names no rule that there is; compare again") from None
    return Finding(rule, found.outcome, found.reason, found.estimate)


def _settled(verdict: Verdict, real: RealFacts) -> Verdict:
    """The verdict with what would settle each of its rules in the rule's reason, for whoever reads no report."""
    return replace(verdict, findings=tuple(settled(finding, real) for finding in verdict.findings))
