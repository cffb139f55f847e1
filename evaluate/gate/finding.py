"""Findings: one rule of a policy on one synthetic table is PASS, FAIL or INCONCLUSIVE, and who answers for it.

A rule compares the *unfavorable* end of a 95% interval with its limit, so that too little evidence never passes.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.claim import Claim
from evaluate.gate.policy import STATEMENT, Rule, Waiver
from evaluate.intervals import interval_at
from evaluate.metrics import CATALOG, SWAPPED, UNJUDGED
from evaluate.result import Candidate, Estimate, Failure
from synth.errors import JobError

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]

HOPELESS = 10_000.0  # Beyond this many times the rows at hand, more rows are no answer: the estimate sits on the limit

SAMPLED, UNSEARCHED = "on seeded samples: ", "its upper end allows for what was not searched"
"""Phrases of notes: a number was measured on samples, and its interval was widened for the rest."""
SEARCH_MORE = (
    "what was not searched widens it, and no number of targets mends that: search more (sample_rows) or release fewer "
    "rows"
)

JUDGE = "take them out of the file, declare them in the schema, or let somebody answer for them by a waiver"
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
        subject = f" of {', '.join(map(repr, self.rule.subject))}" if self.rule.subject else ""
        return f"<Finding {self.outcome} {self.rule.measure}{subject}: {self.reason}>"

    @property
    def binding(self) -> bool:
        """True where the rule can change a verdict."""
        return self.rule.severity == "fail"

    @property
    def counts(self) -> bool:
        return self.binding and not self.waived

    def to_dict(self) -> dict[str, Any]:
        waiver = None if self.waiver is None else self.waiver.model_dump(mode="json")
        estimate = None if self.estimate is None else asdict(self.estimate)
        return {
            "rule": self.rule.model_dump(mode="json"), "outcome": self.outcome, "reason": self.reason,
            "estimate": estimate, "n_needed": self.n_needed, "waiver": waiver, "waived": self.waived,
            "proven": self.proven,
        }  # fmt: skip


@dataclass(frozen=True)
class Proof:
    """A limit on attacks that the privacy claim of one table proves."""

    limit: "TradeOff"
    contradicted: bool

    @classmethod
    def of(cls, candidate: Candidate, limit: "TradeOff") -> "Proof":
        bounds = ((one.low, most_of(limit, one.measure)) for one in candidate.estimates)
        return cls(limit, any(low is not None and most is not None and low > most for low, most in bounds))


def finding_of(
    candidate: Candidate, rule: Rule, proof: Proof | None = None, counted: Claim | None = None, *, verified: bool = True
) -> Finding:
    if rule.measure.startswith(STATEMENT):
        return _of_statement(candidate, rule, counted, verified=verified)
    if rule.measure not in CATALOG:
        is_there = isinstance(candidate.get(rule.measure, rule.subject), Estimate)
        unknown = UNREAD if is_there else "Nothing that is installed measures it, so nothing is known."
        return Finding(rule, "INCONCLUSIVE", unknown)
    found = candidate.get(rule.measure, rule.subject)
    finding = _measured(found, rule)
    # What broke down may have met tables that are not what the claim is about.
    broke = isinstance(found, Failure) and found.reason == "failed"
    return finding if proof is None or broke else _proved(finding, proof)


def _measured(found: Estimate | Failure | None, rule: Rule) -> Finding:
    if found is None:
        return Finding(rule, "INCONCLUSIVE", "It was not run, so nothing is known.")
    if isinstance(found, Failure):
        return Finding(rule, "INCONCLUSIVE", f"It {_did_not(found)}: {found.message.rstrip('.')}.")
    if found.direction == "none":
        raise JobError(f"measure={rule.measure!r} only describes and may not be gated; take its rule out of the policy")
    if found.low is None or found.high is None:
        finding = Finding(rule, "INCONCLUSIVE", "It has no interval, so it cannot show that the limit is kept.", found)
    else:
        finding = _of_interval(found, rule)
    if finding.outcome != "PASS" and rule.measure in ASKED:
        finding = replace(finding, reason=f"{finding.reason} {ASKED[rule.measure]}")
    said = sampled(found)
    return replace(finding, reason=f"{finding.reason} {said}") if said else finding


def bounded(measure: str) -> bool:
    """True for measures that a privacy claim bounds.

    >>> bounded("privacy.membership.auc"), bounded("privacy.membership.tpr_at_0.01"), bounded("privacy.copies")
    (True, True, False)
    """
    return measure in CATALOG and CATALOG[measure].bounded


def false_alarms(measure: str) -> float | None:
    """The rate of false alarms at which members are counted; `None` of an area.

    >>> false_alarms("privacy.membership.tpr_at_0.01"), false_alarms("privacy.membership.auc")
    (0.01, None)
    """
    _, _, rate = measure.partition(".tpr_at_")
    return float(rate) if rate else None


def most_of(limit: "TradeOff", measure: str) -> float | None:
    """The most that a measure comes to on average over fits; `None` where the claim does not limit it."""
    if not bounded(measure):
        return None
    rate = false_alarms(measure)
    return limit.area if rate is None else limit.detections(rate)


def _proved(finding: Finding, proof: Proof) -> Finding:
    """The finding with what a privacy claim proves. Members and outsiders are attacked alike, so that the limit on
    tests holds for them on average over fits. A measured FAIL stays one: either it is chance, or the claim is false.
    """
    most, found = most_of(proof.limit, finding.rule.measure), finding.estimate
    if most is None:
        return finding
    if found is not None and found.low is not None and found.low > most:
        said = f"It contradicts the privacy claim, which allows {_at_most(most)} on average over fits: audit the claim."
        outcome: Outcome = "FAIL" if finding.outcome == "FAIL" else "INCONCLUSIVE"
        return replace(finding, outcome=outcome, reason=f"{finding.reason} {said}")
    if proof.contradicted or finding.outcome == "FAIL" or not finding.rule.keeps(most):
        return finding
    seen = "What was measured would not decide." if finding.outcome != "PASS" else "What was measured keeps it, too."
    seen = "It was not measured." if found is None else seen
    reason = f"By proof: the privacy claim allows {_at_most(most)} on average over fits, whatever the attack. {seen}"
    return replace(finding, outcome="PASS", reason=reason, n_needed=None, proven=most)


def _at_most(share: float) -> str:
    return f"at most {math.ceil(share * 1e4) / 1e4:g}"


def sampled(estimate: Estimate | None) -> str:
    """On which samples a number was measured, as a sentence; empty where on all rows, or where there is no number."""
    _, found, said = ("", "", "") if estimate is None else estimate.note.partition(SAMPLED)
    return f"Measured {found}{said.rstrip('.')}." if found else ""


def answered(finding: Finding, waiver: Waiver | None, today: date) -> Finding:
    """The finding with the waiver of its rule, and whether that counts."""
    if waiver is None or not finding.binding or finding.outcome == "PASS":
        return finding
    why = _never(finding)
    if why:
        return replace(finding, waiver=waiver, reason=f"{finding.reason} Its waiver does not count: {why}.")
    if not waiver.in_force(today):
        reason = f"{finding.reason} Its waiver ended on {waiver.until}, so it does not count."
        return replace(finding, waiver=waiver, reason=reason)
    loud = " Whoever releases the table does so without any formal guarantee." if _unguarded(finding) else ""
    return replace(finding, waiver=waiver, waived=True, reason=f"{finding.reason} It is waived.{loud}")


def _never(finding: Finding) -> str:
    """The reason why nobody may waive a finding; empty where an owner may answer for it."""
    if finding.reason == UNREAD:  # it may be a number that nobody may answer for
        return "a number that is known has to be judged; install what measures it"
    if finding.outcome != "FAIL" and not _is_beyond(finding):
        return ""
    if finding.reason == VOID:
        return "a statement whose noise can be guessed promises nothing; fit again with secure noise"
    metric = CATALOG.get(finding.rule.measure)
    return NEVER_WAIVED.get(finding.rule.measure, "" if metric is None else metric.never_waived)


def _is_beyond(finding: Finding) -> bool:
    """True where a number without an interval lies beyond the limit: a count is known exactly."""
    found = finding.estimate
    return found is not None and found.low is None and finding.rule.breaks(found.value)


def _unguarded(finding: Finding) -> bool:
    return finding.reason == NO_GUARANTEE


def _did_not(failure: Failure) -> str:
    return {
        "failed": "failed", "timed out": "ran out of time", "skipped": "could not be measured",
        "not applicable": "does not apply",
    }[failure.reason]  # fmt: skip


def _of_interval(estimate: Estimate, rule: Rule) -> Finding:
    """The favorable end decides a FAIL, and it alone; without one the unfavorable end decides a PASS."""
    low, high = estimate.interval
    best, worst = (low, high) if rule.direction == "lower" else (high, low)
    if rule.breaks(best):
        note = estimate.note.partition(SAMPLED)[0].rstrip("; .")
        counted = f" It is counted: {note}." if best == worst and note else ""
        return Finding(rule, "FAIL", f"{_broken(rule)}{counted or _worst(estimate)}", estimate)
    if rule.keeps(worst):
        return Finding(rule, "PASS", "Even the unfavorable end of its interval keeps the limit.", estimate)
    where = _where(estimate, rule)
    if UNSEARCHED in estimate.note:
        return Finding(rule, "INCONCLUSIVE", f"{where}; {SEARCH_MORE}.{_worst(estimate)}", estimate)
    if estimate.measure == UNJUDGED:
        note = f"{estimate.note[:1].upper()}{estimate.note[1:]}"
        return Finding(rule, "INCONCLUSIVE", f"{note}; {JUDGE}.", estimate)
    decided = _decided_at(estimate, rule)
    if decided is None:
        reason = f"{where}; how many rows would decide is not known.{_worst(estimate)}"
        return Finding(rule, "INCONCLUSIVE", reason, estimate)
    n, outcome = decided
    remedy = f"about n = {n:,} instead of {estimate.n:,} would decide, as {outcome} if the number stays as it is"
    return Finding(rule, "INCONCLUSIVE", f"{where}; {remedy}.{_worst(estimate)}", estimate, n)


def _worst(estimate: Estimate) -> str:
    """A sentence on the column or pair that a worst case is about; empty for any other number."""
    found = re.match(r"""The worst is (?:'[^']*'|"[^"]*"|[^.:;]*)""", estimate.note)
    return f" {found[0]}." if found else ""


def _broken(rule: Rule) -> str:
    if rule.failing == rule.limit:
        return "Even the favorable end of its interval breaks the limit."
    allowed = f"{rule.failing:g}, and the rule allows no more to be certain"
    return f"Even the favorable end of its interval lies beyond {allowed}."


def _where(estimate: Estimate, rule: Rule) -> str:
    """The position of an undecided interval, in words."""
    low, high = estimate.interval
    if rule.failing == rule.limit or low <= rule.limit <= high:
        return "The limit lies within the interval"
    return f"The interval neither keeps the limit nor lies beyond {rule.failing:g}"


def _decided_at(estimate: Estimate, rule: Rule) -> tuple[int, Outcome] | None:
    """The n at which the interval of the same number would decide, to three digits, and which way; `None` if none does.
    Of two ways the first.
    """
    low, high = estimate.interval
    lower, bounds = rule.direction == "lower", CATALOG[rule.measure].range
    ways: tuple[tuple[Outcome, Callable[[float], bool], int], ...] = (
        ("FAIL", rule.breaks, 0 if lower else 1), ("PASS", rule.keeps, 1 if lower else 0),
    )  # fmt: skip

    def decides(times: float, holds: Callable[[float], bool], end: int) -> bool:
        return holds(interval_at((estimate.value, low, high), estimate.n, times, bounds)[end])

    decided = []
    for outcome, holds, end in ways:
        if estimate.n == 0 or not holds(estimate.value) or not decides(HOPELESS, holds, end):
            continue
        open_, done = 1.0, HOPELESS
        while done > (1 + 1e-7) * open_:
            middle = math.sqrt(open_ * done)
            open_, done = (open_, middle) if decides(middle, holds, end) else (middle, done)
        decided.append((done, outcome))
    if not decided:
        return None
    times, outcome = min(decided)
    n = estimate.n * times
    step = 10.0 ** max(0, math.floor(math.log10(n)) - 2)
    return max(int(math.ceil(round(n / step, 3)) * step), estimate.n + 1), outcome


def _of_statement(candidate: Candidate, rule: Rule, counted: Claim | None, *, verified: bool) -> Finding:
    stated = candidate.statement
    if stated is None:
        return Finding(rule, "FAIL", NO_GUARANTEE)
    if not stated.private or (counted is not None and not counted.private):
        return Finding(rule, "FAIL", VOID)
    if not verified:
        return Finding(rule, "INCONCLUSIVE", UNVERIFIED)
    field = rule.measure.removeprefix(STATEMENT)
    claim = max(float(getattr(one, field)) for one in (stated, counted) if one is not None)
    estimate = Estimate(measure=rule.measure, value=claim, n=0, direction="lower", note=CLAIMED)
    if counted is not None and counted.disputed and claim <= rule.limit:
        return Finding(rule, "INCONCLUSIVE", DISPUTED, estimate)
    if claim <= rule.limit:
        return Finding(rule, "PASS", f"The claimed {field} keeps the limit.", estimate)
    return Finding(rule, "FAIL", f"The claimed {field} is above the limit.", estimate)
