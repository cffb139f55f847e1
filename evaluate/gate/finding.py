"""Findings: one rule of a policy on one synthetic table is PASS, FAIL or INCONCLUSIVE, and who answers for it.

A rule compares the *unfavorable* end of a 95% interval with its limit, so that too little evidence never passes.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.estimate import NO_HOLDOUT
from evaluate.gate.claim import Claims
from evaluate.gate.policy import STATEMENT, Rule, Waiver
from evaluate.gate.undecided import CANNOT, SAMPLED, left_open, most_of, sampled
from evaluate.metrics import CATALOG, SWAPPED
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Failure
from synth.dp.schedule import TradeOff
from synth.errors import JobError

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]

NO_GUARANTEE = "There is no formal guarantee: the generator gave no privacy statement."
CLAIMED = "A claim, not measured."
DISPUTED = "An audit disproves the claim, or that of a fit that counts with it, so that it must not be relied on."
VOID = "The statement is void: its noise was not drawn from a secure source."
UNVERIFIED = "Nobody saw that the statement is of this table, so that what it claims is no number to judge by."
UNREAD = "Its number was measured where more is installed, and nothing here reads it: install that, and judge again."

NEVER_WAIVED: Mapping[str, str] = {
    AUDITED: "the claim is false, and nobody can answer for a false claim; withdraw the statement",
    "privacy.personal": "values of real people stand in the table, and nobody can answer in their place; remove them",
}
"""Measures whose FAIL no waiver covers, nor a number beyond the limit that has no interval, and why, beside those whose
`Metric.never_waived` says so. Where they are merely not known, an owner may answer for that."""
ASKED: Mapping[str, str] = {"privacy.copies.holdout": SWAPPED}
"""What a finding asks where its rule is not kept, by its measure."""
HOLD_OUT = "Hold out rows that the generator does not see, as `understudy split` does, and evaluate again."
FEW = ("rows", "few ", "at least")  # In messages of what more rows alone would mend
HALTED = {
    "failed": "failed", "timed out": "ran out of time", "skipped": "could not be measured",
    "not applicable": "does not apply",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Finding:
    rule: Rule
    outcome: Outcome
    reason: str
    estimate: Estimate | None = None
    n_needed: int | None = None
    waiver: Waiver | None = None
    waived: bool = False
    proven: float | None = None

    def __repr__(self) -> str:
        return f"<Finding {self.outcome} {self.name}: {self.reason}>"

    @property
    def name(self) -> str:
        """The measure, with the columns that the rule is about."""
        return f"{self.rule.measure} of {', '.join(self.rule.subject)}" if self.rule.subject else self.rule.measure

    @property
    def binding(self) -> bool:
        """True where the rule can change a verdict."""
        return self.rule.severity == "fail"

    @property
    def counts(self) -> bool:
        return self.binding and not self.waived

    @property
    def undecidable(self) -> bool:
        """True where no rows of this table decide the rule."""
        return self.outcome == "INCONCLUSIVE" and self.reason.startswith(CANNOT)

    def to_dict(self) -> dict[str, Any]:
        waiver = None if self.waiver is None else self.waiver.model_dump(mode="json")
        return {**asdict(self), "rule": self.rule.model_dump(mode="json"), "waiver": waiver}


def finding_of(
    candidate: Candidate,
    rule: Rule,
    *,
    limit: TradeOff | None = None,
    claims: Claims | None = None,
    verified: bool = True,
    real: RealFacts | None = None,
) -> Finding:
    """What a rule says of a table. `limit`: what its claim allows any test. `real`, and so the finding: *Sensitive*."""
    if rule.measure.startswith(STATEMENT):
        return _of_statement(candidate, rule, claims, verified=verified)
    number = candidate.get(rule.measure, rule.subject)
    if rule.measure not in CATALOG:
        unknown = UNREAD if isinstance(number, Estimate) else "Nothing that is installed measures it: nothing is known."
        return Finding(rule, "INCONCLUSIVE", unknown)
    finding = _measured(number, rule, real)
    # What broke down may have met tables that are not what the claim is about.
    broke = isinstance(number, Failure) and number.reason == "failed"
    return finding if limit is None or broke else _proved(finding, candidate, limit)


def _measured(number: Estimate | Failure | None, rule: Rule, real: RealFacts | None) -> Finding:
    if number is None:
        return Finding(rule, "INCONCLUSIVE", "It was not run, so nothing is known.")
    if isinstance(number, Failure):
        of_rows = number.reason == "skipped" and any(word in number.message for word in FEW)
        remedy = f" {HOLD_OUT}" if number.message == NO_HOLDOUT else ""
        why = f"{HALTED[number.reason]}: {number.message.rstrip('.')}.{remedy}"
        return Finding(rule, "INCONCLUSIVE", f"{CANNOT}: it {why}" if of_rows else f"It {why}")
    if number.direction == "none":
        raise JobError(f"measure={rule.measure!r} only describes and may not be gated; take its rule out of the policy")
    if number.low is None or number.high is None:
        finding = Finding(rule, "INCONCLUSIVE", "It has no interval, so it cannot show that the limit is kept.", number)
    else:
        finding = _of_interval(number, rule, real)
    more = (ASKED.get(rule.measure, "") if finding.outcome != "PASS" else "", sampled(number))
    return replace(finding, reason=" ".join(filter(None, (finding.reason, *more))))


def _of_interval(estimate: Estimate, rule: Rule, real: RealFacts | None) -> Finding:
    """The favorable end decides a FAIL, and it alone; without one the unfavorable end decides a PASS."""
    low, high = estimate.interval
    best, worst = (low, high) if rule.direction == "lower" else (high, low)
    if rule.breaks(best):
        note = estimate.note.partition(SAMPLED)[0].rstrip("; .")
        counted = f" It is counted: {note}." if best == worst and note else ""
        lies = "breaks the limit"
        if rule.failing != rule.limit:
            lies = f"lies beyond {rule.failing:g}, and the rule allows no more to be certain"
        reason = f"Even the favorable end of its interval {lies}.{counted or _worst(estimate)}"
        return Finding(rule, "FAIL", reason, estimate)
    if rule.keeps(worst):
        return Finding(rule, "PASS", "Even the unfavorable end of its interval keeps the limit.", estimate)
    reason, n_needed = left_open(estimate, rule, real)
    return Finding(rule, "INCONCLUSIVE", f"{reason}{_worst(estimate)}", estimate, n_needed)


def _worst(estimate: Estimate) -> str:
    """A sentence on the column or pair that a worst case is about; empty for any other number."""
    match = re.match(r"""The worst is (?:'[^']*'|"[^"]*"|[^.:;]*)""", estimate.note)
    return f" {match[0]}." if match else ""


def _proved(finding: Finding, candidate: Candidate, limit: TradeOff) -> Finding:
    """The finding with what a privacy claim proves. Members and outsiders are attacked alike, so that the limit on
    tests holds for them on average over fits. A measured FAIL stays one: either it is chance, or the claim is false.
    """
    most, estimate = most_of(limit, finding.rule.measure), finding.estimate
    if most is None:
        return finding
    if _contradicts(estimate, most):
        why = f"It contradicts the privacy claim, which allows {_at_most(most)} on average over fits: audit the claim."
        outcome: Outcome = "FAIL" if finding.outcome == "FAIL" else "INCONCLUSIVE"
        return replace(finding, outcome=outcome, reason=f"{finding.reason} {why}")
    disproved = any(_contradicts(other, most_of(limit, other.measure)) for other in candidate.estimates)
    if disproved or finding.outcome == "FAIL" or not finding.rule.keeps(most):
        return finding
    seen = "What was measured would not decide." if finding.outcome != "PASS" else "What was measured keeps it, too."
    seen = "It was not measured." if estimate is None else seen
    reason = f"By proof: the privacy claim allows {_at_most(most)} on average over fits, whatever the attack. {seen}"
    return replace(finding, outcome="PASS", reason=reason, n_needed=None, proven=most)


def _contradicts(estimate: Estimate | None, most: float | None) -> bool:
    return estimate is not None and estimate.low is not None and most is not None and estimate.low > most


def _at_most(share: float) -> str:
    return f"at most {math.ceil(share * 1e4) / 1e4:g}"


def _of_statement(candidate: Candidate, rule: Rule, claims: Claims | None, *, verified: bool) -> Finding:
    stated = candidate.statement
    if stated is None:
        return Finding(rule, "FAIL", NO_GUARANTEE)
    counted = stated if claims is None else claims.counted
    if not (stated.private and counted.private):
        return Finding(rule, "FAIL", VOID)
    if not verified:
        return Finding(rule, "INCONCLUSIVE", UNVERIFIED)
    field = rule.measure.removeprefix(STATEMENT)
    claim = max(float(getattr(each, field)) for each in (stated, counted))
    note = CLAIMED if claims is None else claims.reading or CLAIMED
    estimate = Estimate(measure=rule.measure, value=claim, n=0, direction="lower", note=note)
    if claim > rule.limit:
        return Finding(rule, "FAIL", f"The claimed {field} is above the limit.", estimate)
    if claims is not None and claims.counted.disputed:
        return Finding(rule, "INCONCLUSIVE", DISPUTED, estimate)
    return Finding(rule, "PASS", f"The claimed {field} keeps the limit.", estimate)


def answered(finding: Finding, waiver: Waiver | None, today: date) -> Finding:
    """The finding with the waiver of its rule, and whether that counts."""
    if waiver is None or not finding.binding or finding.outcome == "PASS":
        return finding
    why, reason = _never(finding), finding.reason
    if why:
        return replace(finding, waiver=waiver, reason=f"{reason} Its waiver does not count: {why}.")
    if not waiver.in_force(today):
        reason = f"{reason} Its waiver ended on {waiver.until}, so it does not count."
        return replace(finding, waiver=waiver, reason=reason)
    loud = " Whoever releases the table does so without any formal guarantee." if reason == NO_GUARANTEE else ""
    return replace(finding, waiver=waiver, waived=True, reason=f"{reason} It is waived.{loud}")


def _never(finding: Finding) -> str:
    """The reason why nobody may waive a finding; empty where an owner may answer for it."""
    estimate, rule = finding.estimate, finding.rule
    if finding.reason == UNREAD:  # it may be a number that nobody may answer for
        return "a number that is known has to be judged; install what measures it"
    # A count without an interval is known exactly.
    is_beyond = estimate is not None and estimate.low is None and rule.breaks(estimate.value)
    if finding.outcome != "FAIL" and not is_beyond:
        return ""
    if finding.reason == VOID:
        return "a statement whose noise can be guessed promises nothing; fit again with secure noise"
    metric = CATALOG.get(rule.measure)
    return NEVER_WAIVED.get(rule.measure, "" if metric is None else metric.never_waived)
