"""The composition of a release, computed anew by every way of counting, and whether the claim bears it out."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from synth.dp.accounting import epsilon_advanced, epsilon_basic, epsilon_pld, epsilon_zcdp
from synth.dp.events import Event
from synth.dp.renyi_curve import RdpFilter
from synth.dp.schedule import Schedule
from synth.dp.schedule_file import ScheduleFile, StatedCost
from synth.dp.tradeoff import FALSE_ALARMS
from synth.errors import BudgetError

AGREEMENT = 1e-3
"""The relative difference at which a claim and a computed epsilon still agree."""


@dataclass(frozen=True)
class InLedger:
    """The release's own epsilon in a ledger, under a total; infinite where the total admits nothing of it."""

    epsilon: float
    total_epsilon: float
    total_delta: float


@dataclass(frozen=True)
class Priced:
    """One release by every way of counting, at the schedule's delta; infinite where a way does not apply."""

    epsilon: float
    epsilon_rdp: float
    epsilon_by_hand: float
    epsilon_basic: float
    epsilon_advanced: float
    groups: Mapping[int, float]
    detections: Mapping[float, float]
    in_ledger: InLedger | None
    against: tuple[str, ...]


def price(books: ScheduleFile, total: tuple[float, float] | None = None) -> Priced:
    """The price of a release. No data is read."""
    schedule = books.schedule
    epsilon, check = schedule.epsilon, schedule.epsilon_rdp
    in_ledger = _in_ledger(books, total)
    return Priced(
        epsilon=epsilon,
        epsilon_rdp=check,
        epsilon_by_hand=epsilon_zcdp(schedule.events, schedule.delta),
        epsilon_basic=_basic(schedule),
        epsilon_advanced=_advanced(schedule),
        groups=schedule.groups,
        detections={rate: schedule.trade_off.detections(rate) for rate in FALSE_ALARMS},
        in_ledger=in_ledger,
        against=() if books.claim is None else tuple(_against(books.claim, schedule, epsilon, in_ledger)),
    )


def _in_ledger(books: ScheduleFile, total: tuple[float, float] | None) -> InLedger | None:
    noted = None if books.claim is None else books.claim.in_ledger
    chosen = total or (None if noted is None else noted[1:])
    if chosen is None:
        return None
    try:
        found = RdpFilter(*chosen)
    except ValueError:
        raise BudgetError(
            f"a total needs a finite epsilon above 0 and a delta in (0, 1), not epsilon={chosen[0]:g} and "
            f"delta={chosen[1]:g}; correct them"
        ) from None
    return InLedger(found.spent(books.schedule.curve), *chosen)


def _basic(schedule: Schedule) -> float:
    """Every release priced alone; deltas add up to the schedule's."""
    part = _rest(schedule) / _n_releases(schedule)
    return epsilon_basic([event.count * _alone(event, part) for event in schedule.events])


def _advanced(schedule: Schedule) -> float:
    """Half of delta for the releases, half for composing them: the releases of an event, then the events."""
    half = _rest(schedule) / 2
    part, slack = half / _n_releases(schedule), half / len(schedule.events)
    if part <= 0:
        return math.inf
    return epsilon_basic([_advanced_of(event, _alone(event, part), slack) for event in schedule.events])


def _advanced_of(event: Event, alone: float, slack: float) -> float:
    if alone > math.log(2) * 100:  # beyond this the bound says nothing, and its exponential overflows
        return math.inf
    return min(epsilon_advanced(alone, event.count, slack), event.count * alone)


def _alone(event: Event, delta: float) -> float:
    """Epsilon of one release of an event, at `delta` beyond its own."""
    one = replace(event, count=1)
    return epsilon_pld([one], delta + one.delta) if delta > 0 else math.inf


def _rest(schedule: Schedule) -> float:
    return schedule.delta - sum(event.delta for event in schedule.events)


def _n_releases(schedule: Schedule) -> int:
    return sum(event.count for event in schedule.events)


def _against(claim: StatedCost, schedule: Schedule, epsilon: float, in_ledger: InLedger | None) -> Iterator[str]:
    """Sentences on every part of the claim that is smaller than the computed cost."""
    if not claim.private:
        yield "the statement is void: it says itself that its noise was not drawn from a secure source"
    if not _covers(claim.epsilon, epsilon):
        yield (
            f"the claim epsilon={claim.epsilon:.6g} is smaller than what the events cost, epsilon={epsilon:.6g} at "
            f"delta={schedule.delta:.3g}"
        )
    for event, rho in zip(schedule.events, claim.rhos, strict=False):
        if rho is not None and event.rho is not None and not _covers(rho, event.rho):
            yield f"event={event.what!r} is said to cost rho={rho:.6g}, and its noise costs rho={event.rho:.6g}"
    for event, delta in zip(schedule.events, claim.deltas, strict=False):
        if not _covers(delta, event.delta):
            yield f"event={event.what!r} is said to cost delta={delta:.3g}, and its noise costs delta={event.delta:.3g}"
    said, *total = claim.in_ledger or (math.inf,)
    comparable = in_ledger is not None and total == [in_ledger.total_epsilon, in_ledger.total_delta]
    if in_ledger is not None and comparable and not _covers(said, in_ledger.epsilon):
        yield (
            f"the ledger's part is said to be epsilon={said:.6g}, and the events come to "
            f"epsilon={in_ledger.epsilon:.6g} there"
        )


def _covers(claimed: float, cost: float) -> bool:
    return claimed >= cost * (1 - AGREEMENT)
