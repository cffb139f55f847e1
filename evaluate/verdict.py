"""The gate: what a written policy says of one synthetic table: PASS, FAIL or INCONCLUSIVE.

A rule compares the *unfavorable* end of a 95% interval with its limit, so that too little evidence never passes.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evaluate.policy import Policy, Rule
from evaluate.privacy.audit.result import MEASURE as AUDITED
from evaluate.result import Candidate, Case, Estimate, Failure
from evaluate.waiver import Waiver
from synth.errors import JobError

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]

WHERE_THERE = (AUDITED,)
"""Measures of what only some tables have. Their rules apply to every table that makes a claim, audited or not, and to
every one for which an audit was tried; without either there is nothing to audit, and nothing to break."""

HOPELESS = 10_000.0
"""Beyond this many times the rows at hand, more rows are no answer: the estimate sits on the limit."""


@dataclass(frozen=True)
class Finding:
    """What one rule says of one table.

    Attributes:
        rule: the rule.
        outcome: PASS, FAIL or INCONCLUSIVE.
        reason: one sentence that says why.
        estimate: the number it rests on; none where there is none.
        n_needed: INCONCLUSIVE: rows that would roughly decide, as the interval narrows with the root of n; else none.
        waiver: the waiver of this rule for this table, in force or not; none where there is none, or the rule passes.
        waived: whether that waiver is in force, so that the outcome does not count.
    """

    rule: Rule
    outcome: Outcome
    reason: str
    estimate: Estimate | None = None
    n_needed: int | None = None
    waiver: Waiver | None = None
    waived: bool = False


@dataclass(frozen=True)
class Check:
    """Whether a self-test came out under a policy.

    Attributes:
        case: which table it was.
        outcome: "came out", "did not come out", or "not applicable".
        reason: one sentence that says why.
    """

    case: Case
    outcome: Literal["came out", "did not come out", "not applicable"]
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What a policy says of one synthetic table, with the finding of every rule and what the self-tests came to."""

    candidate: str
    policy: str
    version: int
    audience: str
    verdict: Outcome
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {**asdict(self), "findings": [_plain(finding) for finding in self.findings]}


def _plain(finding: Finding) -> dict[str, Any]:
    waiver = None if finding.waiver is None else finding.waiver.model_dump(mode="json")
    return {**asdict(finding), "rule": finding.rule.model_dump(mode="json"), "waiver": waiver}


def judge(candidate: Candidate, policy: Policy) -> Verdict:
    """The verdict of a policy on one synthetic table. A rule about an audit applies where there is a claim.

    Raises:
        JobError: a rule names a measure that says of itself that it only describes; nothing was judged.
    """
    findings = tuple(_finding(candidate, rule) for rule in policy.rules if _applies(candidate, rule))
    return Verdict(
        candidate=candidate.name,
        policy=policy.name,
        version=policy.version,
        audience=policy.audience,
        verdict=_overall([f.outcome for f in findings if f.rule.severity == "fail"]),
        findings=findings,
    )


def _overall(outcomes: list[Outcome]) -> Outcome:
    if "FAIL" in outcomes:
        return "FAIL"
    return "PASS" if outcomes and "INCONCLUSIVE" not in outcomes else "INCONCLUSIVE"


def _applies(candidate: Candidate, rule: Rule) -> bool:
    claims = candidate.statement is not None
    return claims or rule.measure not in WHERE_THERE or candidate.find(rule.measure, rule.subject) is not None


def _finding(candidate: Candidate, rule: Rule) -> Finding:
    if rule.measure.startswith("statement."):
        return _of_statement(candidate, rule)
    found = candidate.find(rule.measure, rule.subject)
    if found is None:
        return Finding(rule, "INCONCLUSIVE", "It was not run, so nothing is known.")
    if isinstance(found, Failure):
        return Finding(rule, "INCONCLUSIVE", f"It {_did_not(found)}: {found.message.rstrip('.')}.")
    if found.direction == "none":
        raise JobError(f"measure={rule.measure!r} only describes and may not be gated; take its rule out of the policy")
    if found.low is None or found.high is None:
        return Finding(rule, "INCONCLUSIVE", "It has no interval, so it cannot show that the limit is kept.", found)
    return _of_interval(found, rule)


def _did_not(failure: Failure) -> str:
    return {"failed": "failed", "timed out": "ran out of time", "skipped": "could not be measured"}[failure.reason]


def _of_interval(estimate: Estimate, rule: Rule) -> Finding:
    """Signs are turned so that lower is better, then the two ends of the interval decide."""
    assert estimate.low is not None
    assert estimate.high is not None
    sign = 1.0 if rule.direction == "lower" else -1.0
    best, worst = sorted((sign * estimate.low, sign * estimate.high))
    if worst <= sign * rule.limit:
        return Finding(rule, "PASS", "Even the unfavorable end of its interval keeps the limit.", estimate)
    if best > sign * rule.limit:
        counted = f" It is counted: {estimate.note.rstrip('.')}." if best == worst and estimate.note else ""
        return Finding(rule, "FAIL", f"Even the favorable end of its interval breaks the limit.{counted}", estimate)
    n_needed = _n_needed(estimate, rule.limit)
    remedy = "more rows would hardly settle it"
    if n_needed is not None:
        remedy = f"about {n_needed:,} rows instead of {estimate.n:,} would decide"
    return Finding(rule, "INCONCLUSIVE", f"The limit lies within the interval; {remedy}.", estimate, n_needed)


def _n_needed(estimate: Estimate, limit: float) -> int | None:
    """The n at which the interval would just clear the limit, to two digits: its half-width goes as 1 / sqrt(n)."""
    assert estimate.low is not None
    assert estimate.high is not None
    half = estimate.high - estimate.value if estimate.value <= limit else estimate.value - estimate.low
    distance = abs(estimate.value - limit)
    if distance * math.sqrt(HOPELESS) <= half or half <= 0:
        return None
    n = estimate.n * (half / distance) ** 2
    step = 10.0 ** max(0, math.floor(math.log10(max(n, 1.0))) - 1)
    return max(int(math.ceil(round(n / step, 6)) * step), estimate.n + 1)


def _of_statement(candidate: Candidate, rule: Rule) -> Finding:
    if candidate.statement is None:
        return Finding(rule, "FAIL", "There is no formal guarantee: the generator gave no privacy statement.")
    if not candidate.statement.get("private", False):
        return Finding(rule, "FAIL", "The statement is void: its noise was not drawn from a secure source.")
    field = rule.measure.removeprefix("statement.")
    claim = candidate.statement.get(field)
    if not isinstance(claim, int | float) or not math.isfinite(claim):
        return Finding(rule, "INCONCLUSIVE", f"The privacy statement names no {field}.")
    estimate = Estimate(measure=rule.measure, value=float(claim), n=0, direction="lower", note="A claim, not measured.")
    if claim <= rule.limit:
        return Finding(rule, "PASS", f"The claimed {field} keeps the limit.", estimate)
    return Finding(rule, "FAIL", f"The claimed {field} is above the limit.", estimate)
