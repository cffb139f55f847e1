"""The composition of a release, computed anew by every way of counting, and whether the claim bears it out."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from synth.dp.accounting import epsilon_advanced, epsilon_basic, epsilon_pld, epsilon_zcdp
from synth.dp.events import Event
from synth.dp.renyi_curve import RdpFilter
from synth.dp.schedule import FALSE_ALARMS, Schedule
from synth.dp.schedule_file import ScheduleFile, StatedCost

AGREEMENT = 1e-3
"""The relative difference at which a claim and a computed epsilon still agree."""


def compose(books: ScheduleFile, total: tuple[float, float] | None = None) -> dict[str, Any]:
    """The cost of a release by every way of counting, and of a total `in_ledger`; infinite where one does not apply."""
    schedule, claim = books.schedule, books.claim
    if total is None and claim is not None and claim.in_ledger is not None:
        total = claim.in_ledger[1:]
    in_ledger = None if total is None else RdpFilter(*total).spent(schedule.curve)
    epsilon = schedule.epsilon
    return {
        "name": books.name,
        "delta": schedule.delta,
        "rho": schedule.rho,
        "epsilon": epsilon,
        "epsilon_rdp": schedule.epsilon_rdp,
        "epsilon_by_hand": epsilon_zcdp(schedule.events, schedule.delta),
        "epsilon_advanced": _advanced(schedule),
        "epsilon_basic": _basic(schedule),
        "groups": schedule.groups,
        "detections": {rate: schedule.trade_off.detections(rate) for rate in FALSE_ALARMS},
        "events": [event.record().__dict__ for event in schedule.events],
        "schedule_hash": schedule.digest,
        "in_ledger": None
        if total is None
        else {"epsilon": in_ledger, "total_epsilon": total[0], "total_delta": total[1]},
        "claim": None
        if claim is None
        else {"epsilon": claim.epsilon, "agrees": abs(claim.epsilon - epsilon) <= AGREEMENT * epsilon},
        "against": [] if claim is None else list(_against(claim, schedule, epsilon, in_ledger, total)),
    }


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
    single = replace(event, count=1)
    return epsilon_pld([single], delta + single.delta) if delta > 0 else math.inf


def _rest(schedule: Schedule) -> float:
    return schedule.delta - sum(event.delta for event in schedule.events)


def _n_releases(schedule: Schedule) -> int:
    return sum(event.count for event in schedule.events)


def _against(
    claim: StatedCost, schedule: Schedule, epsilon: float, in_ledger: float | None, total: tuple[float, float] | None
) -> Iterator[str]:
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
    if in_ledger is None or claim.in_ledger is None or claim.in_ledger[1:] != total:
        return
    if not _covers(claim.in_ledger[0], in_ledger):
        yield (
            f"the ledger's part is said to be epsilon={claim.in_ledger[0]:.6g}, and the events come to "
            f"epsilon={in_ledger:.6g} there"
        )


def _covers(claimed: float, cost: float) -> bool:
    return claimed >= cost * (1 - AGREEMENT)
