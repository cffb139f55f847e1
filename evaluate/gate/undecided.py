"""What decides a rule that a number leaves open: more rows, where the real table has them; a claim, or a person."""

import math
from collections.abc import Callable
from functools import cache

from scipy import special

from evaluate.estimate import Estimate
from evaluate.gate.policy import Rule
from evaluate.intervals import interval_at
from evaluate.metrics import ATTEMPTS, CATALOG, COMPARED, NOISY, SYNTHETIC, UNJUDGED, Counted
from evaluate.real_facts import RealFacts
from evaluate.text import count, listed
from synth.dp.schedule import TradeOff

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
