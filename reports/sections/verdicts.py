"""Verdicts of policies in the report: the reasons, the end of the interval that decided, and self-tests."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.checks import BROKEN, TITLES, Check
from evaluate.gate.finding import Finding
from evaluate.gate.policy import STATEMENT
from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from synth import extras

MOST_REASONS = 5  # That are told at once
Kind = Literal["upper end", "lower end", "bound", "claim", "proof"]


@dataclass(frozen=True)
class Ruling:
    """A verdict with its reasons: what is against it, the worst first, or the closest calls of a pass; `more` of what
    is against it.
    """

    verdict: Verdict
    reasons: tuple[Finding, ...]
    more: tuple[Finding, ...]
    lapsed: tuple[Finding, ...]
    broken: tuple[Check, ...]

    @property
    def words(self) -> str:
        return f"{self.verdict.verdict}: for {self.verdict.audience}"


def ruling_of(verdict: Verdict) -> Ruling:
    if verdict.verdict == "PASS":
        passed = [f for f in verdict.findings if f.outcome == "PASS" and f.estimate is not None]
        reasons = sorted(passed, key=lambda f: (f.rule.severity == "warn", _slack(f)))
    else:
        weight = {("FAIL", "fail"): 0, ("INCONCLUSIVE", "fail"): 1, ("FAIL", "warn"): 2, ("INCONCLUSIVE", "warn"): 3}
        against = [f for f in verdict.findings if f.outcome != "PASS"]
        reasons = sorted(against, key=lambda f: (f.waived, weight[f.outcome, f.rule.severity]))
    return Ruling(
        verdict=verdict,
        reasons=tuple(reasons[:MOST_REASONS]),
        more=() if verdict.verdict == "PASS" else tuple(reasons[MOST_REASONS:]),
        lapsed=tuple(f for f in verdict.findings if f.waiver is not None and not f.waived),
        broken=tuple(check for check in verdict.checks if check.outcome == BROKEN),
    )


def bound_of(finding: Finding) -> tuple[float, Kind] | None:
    """The end of the interval that decided: the favorable one breaks a limit, the unfavorable one keeps it. None where
    there is no number, or one without an interval.
    """
    estimate = finding.estimate
    if finding.proven is not None:
        return finding.proven, "proof"
    if estimate is None:
        return None
    if finding.rule.measure.startswith(STATEMENT):
        return estimate.value, "claim"
    if estimate.low is None or estimate.high is None:
        return None
    upper = (finding.rule.direction == "lower") != (finding.outcome == "FAIL")
    end = estimate.high if upper else estimate.low
    return end, "bound" if finding.rule.measure == AUDITED else "upper end" if upper else "lower end"


def first_sentence(reason: str) -> str:
    """The first sentence of a reason; a full stop within a quoted name ends none.

    >>> first_sentence("Column 'St. Louis' is off. Look at it."), first_sentence("It holds.")
    ("Column 'St. Louis' is off.", 'It holds.')
    """
    match = re.match(r"(?:'[^']*'|[^'])*?[.](?= [A-Z]|$)", reason)
    return match[0] if match else reason


def self_checks(evaluation: Evaluation, verdicts: Sequence[Verdict]) -> tuple[tuple[str, tuple[Check, ...], str], ...]:
    """Of each self-test its title, what policies said of it, and why it says nothing."""
    policies = {(v.policy, v.version): v for v in verdicts}.values()
    absent = {test.case: test.absent for test in evaluation.self_tests}
    titles = {**TITLES, **{case: spoiled.title for case, spoiled in extras.load("self-test").items()}}
    checks = {case: tuple(c for v in policies for c in v.checks if c.case == case) for case in titles}
    return tuple(
        (title, checks[case], absent.get(case, "")) for case, title in titles.items() if case in absent or checks[case]
    )


def _slack(finding: Finding) -> float:
    """The room that a rule had left, as a share of the way from a fresh real sample to the limit."""
    estimate, limit = finding.estimate, finding.rule.limit
    if estimate is None:
        return math.inf
    worst = estimate.high if finding.rule.direction == "lower" else estimate.low
    worst = worst if finding.proven is None else finding.proven
    room = abs(limit - (estimate.reference or 0.0))
    if room == 0.0:  # a limit that leaves none, kept to the letter, was no close call
        return math.inf
    return abs(limit - (estimate.value if worst is None else worst)) / room
