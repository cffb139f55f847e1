"""A schedule: every event of a fit, fixed before the first row is read."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from synth.dp.accounting import LEAST_DELTA_A_RELEASE, MOST_POINTS, epsilon_pld, epsilon_rdp, n_points, rdp_curve
from synth.dp.events import Event
from synth.dp.renyi_curve import RdpCurve
from synth.dp.tradeoff import TradeOff, trade_off
from synth.errors import BudgetError

AnyEvent = TypeVar("AnyEvent", bound=Event)

GROUPS = (2, 5, 10)
"""Sizes of the groups of units whose epsilon is stated."""
_SLACK = 1e-3
"""The grid of the PLD accountant is pessimistic by less than this share."""


@dataclass(frozen=True)
class Schedule:
    """The events of one fit and the delta at which they are accounted for.

    Attributes:
        events: what will be read and how, in any order.
        delta: of the guarantee, the deltas of mechanisms included.

    >>> from synth.dp.events import GaussianEvent
    >>> round(Schedule((GaussianEvent("counts", sigma=10.0),), 1e-6).epsilon, 3)
    0.397
    """

    events: tuple[Event, ...]
    delta: float

    @cached_property
    def epsilon(self) -> float:
        """The claim: PLD.

        Raises:
            BudgetError: delta is too small for so many releases, or the accountants disagree, so that neither can be
                trusted.
        """
        n_releases = sum(event.count for event in self.events)
        if self.delta < LEAST_DELTA_A_RELEASE * n_releases:
            raise BudgetError(
                f"delta={self.delta:g} is too small to be accounted for over releases={n_releases:,}; choose at least "
                f"{LEAST_DELTA_A_RELEASE * n_releases:.1g}, or fewer releases"
            )
        claim = epsilon_pld(self.events, self.delta)
        if claim > self.epsilon_rdp * (1 + _SLACK):
            raise BudgetError(
                f"the accountants disagree: PLD epsilon={claim:.6g} exceeds RDP epsilon={self.epsilon_rdp:.6g}, and "
                "neither can be trusted; use fewer or other releases"
            )
        return claim

    @cached_property
    def epsilon_rdp(self) -> float:
        """The check, by Renyi divergences; at least the claim."""
        return epsilon_rdp(self.events, self.delta)

    @property
    def groups(self) -> Mapping[int, float]:
        """Epsilon of groups of so many units at the same delta, each of `GROUPS`; infinite where there is no bound.

        That of two bounds as well what shows of one answer of a unit, which is one row out and another one in.

        >>> from synth.dp.events import GaussianEvent
        >>> {size: round(epsilon, 2) for size, epsilon in Schedule((GaussianEvent("a", 10.0),), 1e-6).groups.items()}
        {2: 0.83, 5: 2.26, 10: 4.89}
        """
        return dict(_group_epsilons(self.events, self.delta))

    @property
    def trade_off(self) -> TradeOff:
        """The limit on any test of whether a unit is in the table."""
        if n_points(self.events) > MOST_POINTS:
            return TradeOff.of_claim(self.epsilon, self.delta)
        return trade_off(self.events)

    @cached_property
    def curve(self) -> RdpCurve:
        """What a ledger adds to its books."""
        return rdp_curve(self.events)

    @property
    def rho(self) -> float | None:
        """The zCDP cost of all events; none where one has none."""
        rhos = [event.rho for event in self.events]
        return None if None in rhos else sum(rho for rho in rhos if rho is not None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the events and delta, in hexadecimal: equal schedules have equal digests."""
        content = {"delta": self.delta, "events": [asdict(event.record()) for event in self.events]}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def event(self, what: str) -> Event | None:
        """The event of that name, if any."""
        return next((event for event in self.events if event.what == what), None)

    def required(self, what: str, kind: type[AnyEvent]) -> AnyEvent:
        """The event of that name, which is of that kind.

        Raises:
            BudgetError: the schedule has none.
        """
        event = self.event(what)
        if not isinstance(event, kind):
            raise BudgetError(f"the schedule has no {kind.mechanism} event={what!r}; plan it before drawing")
        return event


@lru_cache(maxsize=64)
def _group_epsilons(events: tuple[Event, ...], delta: float) -> tuple[tuple[int, float], ...]:
    return tuple((size, epsilon_pld(events, delta, size)) for size in GROUPS)
