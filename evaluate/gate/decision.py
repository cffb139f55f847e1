"""Findings: one rule of a policy on one synthetic table is PASS, FAIL or INCONCLUSIVE, and who answers for it.

A rule compares the *unfavorable* end of a 95% interval with its limit, so that too little evidence never passes. What a
number leaves open is decided by more rows, where the real table has them; by a claim, which proves some; or a person.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from typing import Any, Literal

from scipy import special

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.estimate import NO_HOLDOUT, Estimate
from evaluate.gate.claim import Claims
from evaluate.gate.policy import STATEMENT, Rule, Waiver
from evaluate.intervals import interval_at
from evaluate.metrics import ATTEMPTS, CATALOG, COMPARED, NOISY, SWAPPED, SYNTHETIC, UNJUDGED, Counted
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Failure
from evaluate.text import count, listed
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
CANNOT = "CANNOT BE DECIDED"
HOPELESS = 10_000.0  # Beyond this many times the rows at hand, more rows are no answer: the estimate sits on the limit
DELTA = 1e-6  # The delta of a private fit, unless its table has over 100,000 units
LEAST_EPSILON, MOST_EPSILON = 0.001, 50.0  # Of fits that anybody plans

SAMPLED, UNSEARCHED = "on seeded samples: ", "its upper end allows for what was not searched"
"""Phrases of notes: a number was measured on samples, and its interval was widened for the rest."""
SEARCH_MORE = (
    "what was not searched widens it, and no number of targets mends that: search more (sample_rows) or release fewer "
    "rows"
)
JUDGE = "take them out of the file, declare them in the schema, or let somebody answer for them by a waiver"
LARGER = "They come from samples of the tables: a larger sample_rows draws more."
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


def left_open(estimate: Estimate, rule: Rule, real: RealFacts | None) -> tuple[str, int | None]:
    """Why an interval decides nothing and what would, and the n that would where the table may have it; *Sensitive*."""
    if estimate.measure == UNJUDGED:
        return f"{estimate.note[:1].upper()}{estimate.note[1:]}; {JUDGE}.", None
    low, high = estimate.interval
    where = "The limit lies within the interval"
    if rule.failing != rule.limit and not low <= rule.limit <= high:
        where = f"The interval neither keeps the limit nor lies beyond {rule.failing:g}"
    if UNSEARCHED in estimate.note:
        return f"{where}; {SEARCH_MORE}.", None
    cannot = f"{CANNOT}: t{where[1:]}"
    decided = _decided_at(estimate, rule)
    if decided is None:
        return f"{cannot}, and no number of rows is known that would decide.", None
    n, outcome = decided
    would = f"about n = {n:,} instead of {estimate.n:,} would decide"
    stays = f"{would}, as {outcome} if the number stays as it is"
    counted = CATALOG[rule.measure].counted
    if real is None or counted is None:
        return f"{where}; {stays}.", n
    lacking = _lacking(counted, estimate.n, n, real)
    if lacking:
        return f"{cannot}; {would}. Counted are {counted.what}, and {lacking}.", None
    return f"{where}; {stays}. Counted are {counted.what}. {_source(counted, estimate, n, real)}".rstrip(), n


def _decided_at(estimate: Estimate, rule: Rule) -> tuple[int, str] | None:
    """The n at which the interval of the same number would decide, to three digits, and which way, if any."""
    low, high = estimate.interval
    lower, bounds = rule.direction == "lower", CATALOG[rule.measure].range

    decided = []
    for outcome, holds, end in (("FAIL", rule.breaks, 0 if lower else 1), ("PASS", rule.keeps, 1 if lower else 0)):

        def decides(log_times: float, holds: Callable[[float], bool] = holds, end: int = end) -> bool:
            ends = interval_at((estimate.value, low, high), estimate.n, math.exp(log_times), bounds)
            return holds(ends[end])

        if estimate.n and holds(estimate.value) and decides(math.log(HOPELESS)):
            decided.append((_edge(decides, math.log(HOPELESS), 0.0), outcome))
    if not decided:
        return None
    log_times, outcome = min(decided)
    n = estimate.n * math.exp(log_times)
    step = 10.0 ** max(0, math.floor(math.log10(n)) - 2)
    return max(int(math.ceil(round(n / step, 3)) * step), estimate.n + 1), outcome


def _edge(holds: Callable[[float], bool], true: float, false: float) -> float:
    """Where what holds at `true` and not at `false` just still holds."""
    for _ in range(50):
        middle = (true + false) / 2
        true, false = (middle, false) if holds(middle) else (true, middle)
    return true


def _lacking(counted: Counted, n: int, n_needed: int, real: RealFacts) -> str:
    """The reason why no split of this real table has so many; empty where one does, or nobody knows."""
    if counted.most is not None and n_needed > counted.most:
        return f"the measure takes {count(counted.most)} of them at most"
    n_rows = real.train_rows + real.holdout_rows
    if counted in (SYNTHETIC, ATTEMPTS, NOISY) or counted.real_rows(n, n_needed, real) < n_rows:
        return ""
    return f"the real table has {count(n_rows)} rows in all"


def _source(counted: Counted, estimate: Estimate, n_needed: int, real: RealFacts) -> str:
    """A sentence on where so many rows come from; empty where that is not known."""
    if counted in (ATTEMPTS, NOISY):
        return ""
    if sampled(estimate):
        return LARGER
    if counted == SYNTHETIC:
        return "Sampling more of them is enough."
    if counted == COMPARED and n_needed <= real.holdout_rows:
        return "The holdout has so many: sampling more synthetic rows is enough."
    n_rows = count(real.train_rows + real.holdout_rows)
    return f"The real table has {n_rows} rows in all, so that another split of it can."


def sampled(estimate: Estimate | None) -> str:
    """On which samples a number was measured, as a sentence; empty where on all rows, or where there is no number."""
    _, mark, note = ("", "", "") if estimate is None else estimate.note.partition(SAMPLED)
    return f"Measured {mark}{note.rstrip('.')}." if mark else ""


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


def most_of(limit: TradeOff, measure: str) -> float | None:
    """The most that a measure comes to on average over fits; `None` where the claim does not limit it."""
    if not bounded(measure):
        return None
    rate = false_alarms(measure)
    return limit.area if rate is None else limit.detections(rate)


@cache
def proving_epsilons(measure: str, limit: float) -> tuple[float, float] | None:
    """The largest epsilon whose claim proves a limit, whatever the noise, and that of Gaussian noise alone; `None`
    where none does.

    Source: Dong, Roth, Su 2022 (1905.02383), Theorem 2.7 and Corollary 2.13.

    >>> proving_epsilons("privacy.membership.auc", 0.6), proving_epsilons("privacy.membership.tpr_at_0.01", 0.02)
    ((0.4, 1.5), (0.69, 1.1))
    """
    rate = false_alarms(measure)
    if not bounded(measure) or not (0.5 if rate is None else rate) < limit < 1:
        return None
    # A test of Gaussian noise, whose means are mu apart, finds Phi(Phi^-1(rate) + mu) and has the area Phi(mu / 2^.5).
    mu = float(math.sqrt(2) * special.ndtri(limit) if rate is None else special.ndtri(limit) - special.ndtri(rate))

    def delta(epsilon: float) -> float:
        over = math.exp(epsilon + special.log_ndtr(-epsilon / mu - mu / 2))
        return float(special.ndtr(-epsilon / mu + mu / 2) - over)

    def proves(epsilon: float) -> bool:
        most = most_of(TradeOff.of_claim(epsilon, DELTA), measure)
        return most is not None and most <= limit

    any_noise = _edge(proves, 0.0, MOST_EPSILON)
    if any_noise < LEAST_EPSILON:
        return None
    return _down(any_noise), _down(_edge(lambda epsilon: delta(epsilon) >= DELTA, 0.0, MOST_EPSILON))


def _down(epsilon: float) -> float:
    """To two digits."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return round(math.floor(epsilon / step + 1e-9) * step, 12)


def ways_out(*rules: Rule) -> str:
    """What is left where no rows of a table decide some rules."""
    proofs = {rule.measure: proving_epsilons(rule.measure, rule.limit) for rule in rules}
    proved = {name: epsilons for name, epsilons in proofs.items() if epsilons is not None}
    them, each = ("it", "it") if len(proofs) == 1 else ("them", "each")
    if not proved:
        return f"No epsilon proves {them}; a named person may waive {each}."
    some = them if len(proved) == len(proofs) else listed([*proved])
    any_noise, gaussian = (min(ends) for ends in zip(*proved.values(), strict=True))
    epsilon = f"of epsilon {any_noise:g}, or about {gaussian:g} of Gaussian noise,"
    return f"Two ways out: a private fit {epsilon} proves {some}; or a named person waives {each}."
