"""The gate: what a written policy says of one synthetic table: PASS, FAIL or INCONCLUSIVE.

The worst of the binding rules decides, those that an owner waives aside. What is left then has to come from measures
that show, on tables of which the answer is known, that they work: see `evaluate.checks`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evaluate.checks import BROKEN, Check, checks_of
from evaluate.finding import Finding, Outcome, Proof, answered, finding_of
from evaluate.policy import Policy, Rule
from evaluate.privacy.audit.result import MEASURE as AUDITED
from evaluate.result import Candidate, SelfTest
from evaluate.shift import questioned
from evaluate.waiver import Waiver

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

__all__ = ["WHERE_THERE", "Check", "Finding", "Outcome", "Verdict", "judge", "today_utc"]

WHERE_THERE = (AUDITED,)
"""Measures of what only some tables have. Their rules apply to every table that makes a claim, audited or not, and to
every one for which an audit was tried; without either there is nothing to audit, and nothing to break."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict of a policy on one table, with its findings and self-tests.

    Printed, it says what did not pass, and why.
    """

    candidate: str
    policy: str
    version: int
    audience: str
    verdict: Outcome
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...] = ()

    def __repr__(self) -> str:
        """The verdict in one line, without its findings."""
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

    @property
    def waived(self) -> tuple[Finding, ...]:
        """Findings that somebody answers for, so that they do not count."""
        return tuple(finding for finding in self.findings if finding.waived)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        plain = {name: getattr(self, name) for name in ("candidate", "policy", "version", "audience", "verdict")}
        findings = [finding.to_dict() for finding in self.findings]
        return {**plain, "findings": findings, "checks": [asdict(check) for check in self.checks]}


def judge(
    candidate: Candidate,
    policy: Policy,
    *,
    waivers: Iterable[Waiver] = (),
    today: date | None = None,
    self_tests: Iterable[SelfTest] | None = None,
    limit: "TradeOff | None" = None,
    real: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict of a policy on one synthetic table. A rule about an audit applies where there is a claim.

    Args:
        candidate: measured.
        policy: to judge by.
        waivers: of rules; those of other tables, policies or versions are passed over.
        today: the day on which waivers have to be in force; none: today, in UTC.
        self_tests: of the same evaluation. One that does not come out, or is missing, leaves no PASS. None: the verdict
            rests on the measures as they are, and makes no check.
        limit: on any test of whether one of those who are attacked is in the table, that its privacy claim proves.
            Rules that it keeps pass by proof. None: nothing is proved.
        real: facts about the real table, of the same evaluation. Where its two sides are of different populations, or
            nobody knows, no rule that compares them passes. None: the verdict rests on the measures as they are.

    Raises:
        JobError: a rule names a measure that says of itself that it only describes; nothing was judged.
    """
    of = {w.key: w for w in waivers}
    day = today_utc() if today is None else today
    proof = None if limit is None else Proof.of(candidate, limit)
    findings = tuple(
        answered(
            questioned(finding_of(candidate, rule, proof), candidate, real), of.get(_key(candidate, policy, rule)), day
        )
        for rule in policy.rules
        if _applies(candidate, rule)
    )
    checks = () if self_tests is None else checks_of(self_tests, policy)
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
    """Today's date, the same everywhere."""
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


def _applies(candidate: Candidate, rule: Rule) -> bool:
    claims = candidate.statement is not None
    return claims or rule.measure not in WHERE_THERE or candidate.find(rule.measure, rule.subject) is not None
