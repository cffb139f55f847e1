"""The gate: a written policy, and what it says of one synthetic table: PASS, FAIL or INCONCLUSIVE.

A rule compares the *unfavorable* end of a 95% interval with its limit, so that too little evidence never passes. What
a rule may rest on is in `evaluate.catalog`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from evaluate.catalog import CATALOG, GATEABLE
from evaluate.privacy.audit.result import MEASURE as AUDITED
from evaluate.result import Candidate, Direction, Estimate, Failure
from synth.errors import JobError, nearest
from synth.validation import Frozen, read_toml, sentence

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]

WHERE_THERE = (AUDITED,)
"""Measures of what only some tables have. Their rules apply to every table that makes a claim, audited or not, and to
every one for which an audit was tried; without either there is nothing to audit, and nothing to break."""

HOPELESS = 10_000.0
"""Beyond this many times the rows at hand, more rows are no answer: the estimate sits on the limit."""


class Rule(Frozen):
    """One limit on one measure, and the reason for it."""

    measure: str
    limit: float
    why: str = Field(min_length=1, description="The reason for this limit, for the one who has to defend it.")
    severity: Literal["fail", "warn"] = Field(default="fail", description="A warning never changes the verdict.")
    subject: tuple[str, ...] = Field(default=(), description="Columns that the rule is about; none: the whole table.")

    @field_validator("measure")
    @classmethod
    def _gateable(cls, measure: str) -> str:
        if measure in CATALOG and not CATALOG[measure].gateable:
            raise ValueError(f"{measure!r} only describes and may not be gated: {CATALOG[measure].describes}")
        if measure not in GATEABLE:
            raise ValueError(f"{measure!r} is not a measure that a rule may name; {nearest(measure, GATEABLE)}")
        return measure

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        return GATEABLE[self.measure]


class Policy(Frozen):
    """What must hold before a table may go to an audience."""

    name: str = Field(min_length=1)
    version: int = Field(ge=1)
    audience: str = Field(min_length=1)
    description: str = ""
    rules: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen = set()
        for rule in self.rules:
            key = (rule.measure, rule.subject, rule.severity)
            if key in seen:
                raise ValueError(f"two rules of severity={rule.severity!r} name measure={rule.measure!r}; keep one")
            seen.add(key)
        return self


@dataclass(frozen=True)
class Finding:
    """What one rule says of one table.

    Attributes:
        rule: the rule.
        outcome: PASS, FAIL or INCONCLUSIVE.
        reason: one sentence that says why.
        estimate: the number it rests on; none where there is none.
        n_needed: INCONCLUSIVE: rows that would roughly decide, as the interval narrows with the root of n; else none.
    """

    rule: Rule
    outcome: Outcome
    reason: str
    estimate: Estimate | None = None
    n_needed: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What a policy says of one synthetic table, with the finding of every rule."""

    candidate: str
    policy: str
    version: int
    audience: str
    verdict: Outcome
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        findings = [{**asdict(f), "rule": f.rule.model_dump(mode="json")} for f in self.findings]
        return {**asdict(self), "findings": findings}


def load_policy(path: Path | str) -> Policy:
    """A policy from a TOML file.

    Raises:
        JobError: the file cannot be read or is not a policy; nothing was judged.
    """
    return build_policy(read_toml(Path(path), "policy", JobError))


def build_policy(content: Mapping[str, Any]) -> Policy:
    """A policy from plain data, as a policy file holds it.

    Raises:
        JobError: the content is not a policy; the message names the place and the remedy.
    """
    try:
        return Policy.model_validate(dict(content))
    except ValidationError as error:
        raise JobError(f"the policy cannot be used: {sentence(error, Policy)}") from None


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
