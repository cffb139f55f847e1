"""A schedule: every event of a fit, fixed before the first row is read, and the noise that a target epsilon allows.

Its trade-off curve is what any test of "in or out" can detect at most, at every rate of false alarms. A test looks at
all that is released and says whether one unit is in the table. Where it says "in", it raises a *false alarm* if the
unit is out, and a *detection* if it is in. A pair of epsilon and delta limits detections at every rate of false alarms.
The whole privacy curve of the events holds one such pair for every epsilon, and their limits hold together.

Source: Wasserman & Zhou 2010 (tests); Kairouz, Oh, Viswanath 2015 (1311.0776), Theorem 2.1 (the region of a pair);
Dong, Roth, Su 2022 (1905.02383), Proposition 2.13 (the curve of all pairs).
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from synth.dp.accounting import (
    LEAST_DELTA_A_RELEASE,
    MOST_POINTS,
    composed_loss,
    epsilon_pld,
    epsilon_rdp,
    n_points,
    rdp_curve,
)
from synth.dp.events import Event
from synth.dp.renyi_curve import RdpCurve
from synth.errors import BudgetError
from synth.schema import Schema

AnyEvent = TypeVar("AnyEvent", bound=Event)

GROUPS = (2, 5, 10)  # sizes of the groups of units whose epsilon is stated
_SLACK = 1e-3  # the grid of the PLD accountant is pessimistic by less than this share


FALSE_ALARMS = (0.001, 0.01, 0.1)  # rates of false alarms at which a limit is written out
N_PAIRS = 400  # pairs of epsilon and delta that a curve is made of; fewer only allow more
N_AREA = 1000  # pieces of the area under a curve, of each of two grids
SMALLEST_DELTA = 1e-13
"""The delta at which a privacy curve is cut off: below it, the accountant loses its digits in rounding."""
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class TradeOff:
    """Limits on the detections of any test, from pairs that all hold.

    >>> claim = TradeOff.of_claim(1.0, 1e-6)
    >>> round(claim.detections(0.01), 4), round(claim.right_guesses, 3)
    (0.0272, 0.731)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    @classmethod
    def of_claim(cls, epsilon: float, delta: float) -> "TradeOff":
        """The limit of one pair, whatever the mechanism."""
        return cls((epsilon,), (delta,))

    def detections(self, false_alarms: float) -> float:
        """The largest share of detections that any test reaches."""
        return float(self.curve(np.array([false_alarms]))[0])

    def curve(self, false_alarms: np.ndarray) -> np.ndarray:
        wrong = np.asarray(false_alarms, dtype=np.float64)[..., None]
        odds, deltas = np.exp(np.minimum(self.epsilons, LARGEST_EXPONENT)), np.array(self.deltas)
        few = odds * wrong + deltas
        many = 1 - np.maximum(1 - deltas - wrong, 0.0) / odds
        return np.asarray(np.clip(np.minimum(few, many).min(axis=-1), 0.0, 1.0))

    @cached_property
    def area(self) -> float:
        """The largest area under the ROC curve that any score reaches; not below the true one.

        >>> round(TradeOff.of_claim(1.0, 0.0).area, 4)  # e / (1 + e)
        0.7311
        """
        ends = np.unique(np.concatenate([np.linspace(0, 1, N_AREA), [0.0], np.geomspace(1e-9, 1, N_AREA)]))
        # A concave curve lies nowhere above its tangent: over a piece, its mean is at most the value in the middle.
        return float(min(1.0, np.sum(self.curve((ends[1:] + ends[:-1]) / 2) * np.diff(ends))))

    @property
    def right_guesses(self) -> float:
        """The largest share of right guesses where the unit is in the table as often as not."""
        odds = np.exp(np.minimum(self.epsilons, LARGEST_EXPONENT))
        gains = (odds - 1 + 2 * np.array(self.deltas)) / (odds + 1)
        return float(min(1.0, (1 + gains.min()) / 2))


@lru_cache(maxsize=64)
def trade_off(events: tuple[Event, ...]) -> TradeOff:
    """The trade-off curve of all events together, by their privacy loss distribution: not below the true one.

    But for what convolutions lose of each delta in rounding, which shows in no printed rate.

    >>> from synth.dp.events import GaussianEvent
    >>> round(trade_off((GaussianEvent("counts", sigma=4.22),)).detections(0.01), 4)
    0.0183
    """
    loss = composed_loss(events)
    if loss is None:
        return TradeOff.of_claim(0.0, 0.0)
    own, top = sum(event.delta for event in events), _top(loss)
    epsilons = np.unique(np.concatenate([np.linspace(0, top, N_PAIRS), np.geomspace(top / 1e4, top, N_PAIRS // 8)]))
    deltas = np.minimum(np.asarray(loss.get_delta_for_epsilon(epsilons.tolist())) + own, 1.0)
    return TradeOff(tuple(epsilons.tolist()), tuple(deltas.tolist()))


def _top(loss: Any) -> float:
    """The epsilon up to which a privacy curve is looked at."""
    for delta in (SMALLEST_DELTA, 1e-9, 1e-6, 1e-3):  # a mass of infinite loss leaves none at a smaller delta
        epsilon = float(loss.get_epsilon_for_delta(delta))
        if math.isfinite(epsilon):
            return max(epsilon, 1e-6)
    return 1.0


@dataclass(frozen=True)
class Schedule:
    """The events of one fit and the delta at which they are accounted for.

    >>> from synth.dp.events import GaussianEvent
    >>> round(Schedule((GaussianEvent("counts", sigma=10.0),), 1e-6).epsilon, 3)
    0.397
    """

    events: tuple[Event, ...]
    delta: float

    @cached_property
    def epsilon(self) -> float:
        """The claim: PLD, or the sum of pure losses where delta is 0."""
        n_releases = sum(event.count for event in self.events)
        if 0 < self.delta < LEAST_DELTA_A_RELEASE * n_releases:
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
        if n_points(self.events) > MOST_POINTS:
            return TradeOff.of_claim(self.epsilon, self.delta)
        return trade_off(self.events)

    @cached_property
    def curve(self) -> RdpCurve:
        """The cost as a ledger adds it to its books."""
        return rdp_curve(self.events)

    @property
    def rho(self) -> float | None:
        """The zCDP cost of all events; `None` where one has no such cost."""
        rhos = [event.rho for event in self.events]
        return None if None in rhos else sum(rho for rho in rhos if rho is not None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the events and delta, in hexadecimal: equal schedules have equal digests."""
        content = {"delta": self.delta, "events": [asdict(event.record()) for event in self.events]}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def event(self, what: str) -> Event | None:
        return next((event for event in self.events if event.what == what), None)

    def required(self, what: str, kind: type[AnyEvent]) -> AnyEvent:
        event = self.event(what)
        if not isinstance(event, kind):
            raise BudgetError(f"the schedule has no {kind.mechanism} event={what!r}; plan it before drawing")
        return event


@lru_cache(maxsize=64)
def _group_epsilons(events: tuple[Event, ...], delta: float) -> tuple[tuple[int, float], ...]:
    return tuple((size, epsilon_pld(events, delta, size)) for size in GROUPS)


TOLERANCE = 1e-3
"""The most that a calibrated plan falls short of the target epsilon, as a share of it; it never ends above."""
LEAST_DELTA = 1e-12
"""The smallest delta that is accounted for.

Compositions are convolved in double precision, and what is lost there is below this. Against the exact curve of
Gaussian noise, epsilon is within 0.06% at 1e-12, off by 0.3% at 1e-13 and by up to 2.5% at 3e-15, to either side. Below
that it is infinite for every plan.
"""
LEAST_SHARE, MOST_GROWTH, MOST_STEPS = 1e-4, 4.0, 60
"""Limits of the search for a cost: the share of its start below which it ends, the factor of growth, and the steps."""
POWERS = (0.3, 10.0)
"""Powers of the cost that epsilon is taken to follow; small samples and little noise make for large ones."""
EPSILON_RANGE = (1e-3, 100.0)


EventsOfRho = Callable[[float], Sequence[Event]]
"""A plan: the events of a fit at a total zCDP cost rho, each at a stated share of it."""


def calibrate(plan: EventsOfRho, epsilon: float, delta: float) -> Schedule:
    """The schedule whose joint epsilon is the target, from below.

    >>> from synth.dp.events import gaussian_of_rho
    >>> schedule = calibrate(lambda rho: [gaussian_of_rho("counts", rho, count=1, sensitivity=1)], 1.0, 1e-6)
    >>> round(schedule.events[0].sigma, 1)
    4.2
    """
    if not EPSILON_RANGE[0] <= epsilon <= EPSILON_RANGE[1]:
        raise BudgetError(
            f"epsilon={epsilon:g} is outside [{EPSILON_RANGE[0]:g}, {EPSILON_RANGE[1]:g}]; choose one inside"
        )
    if not delta >= LEAST_DELTA:
        raise _too_small(delta)
    low = _largest_rho(lambda rho: epsilon_pld(plan(rho), delta), epsilon, approximate_rho(epsilon, delta))
    if low is None:
        raise BudgetError(
            f"epsilon={epsilon:g} at delta={delta:g} leaves no room for this plan; choose a larger epsilon"
        )
    schedule = Schedule(tuple(plan(low)), delta)
    if schedule.epsilon > epsilon:  # both accountants are asked here, before anything is drawn
        raise BudgetError(f"epsilon={epsilon:g} cannot be met by this plan; choose a larger epsilon")
    return schedule


def _largest_rho(epsilon_of: Callable[[float], float], target: float, start: float) -> float | None:
    """About the largest rho whose epsilon is at most the target; `None` where every rho is above it.

    Epsilon is close to a power of rho: 1/2 where it is small, 1 where it is large, more where samples are small. The
    next guess is where the power through the last two points meets the target, kept within what is known of both sides.
    Where epsilon is infinite at one rho and finite at a smaller one, the last finite one is looked for halfway between
    them.
    """
    low, high, rho, power = 0.0, math.inf, start, 0.5
    before: tuple[float, float] | None = None
    for _ in range(MOST_STEPS):
        reached = epsilon_of(rho)
        if target * (1 - TOLERANCE) <= reached <= target:
            return rho
        low, high = (rho, high) if reached < target else (low, rho)
        if low == 0 and high < LEAST_SHARE * start:
            return None
        if 0 < high - low <= TOLERANCE / 10 * high < math.inf:  # a step of the plan, not of epsilon
            return low
        if 0 < reached < math.inf:
            power = _power((rho, reached), before, power)
            before = (rho, reached)
            aim = target * (1 - TOLERANCE / 2)
            rho *= min((aim / reached) ** (1 / power), MOST_GROWTH)
        else:
            rho = high / 4
        if not low < rho < high or (math.isinf(reached) and low > 0):
            rho = 2 * low if math.isinf(high) else (low + high) / 2
    return low or None


def _power(now: tuple[float, float], before: tuple[float, float] | None, power: float) -> float:
    """The power of rho that epsilon follows between two points; the one given where they tell none."""
    if before is None or before[0] == now[0] or before[1] == now[1]:
        return power
    local = math.log(now[1] / before[1]) / math.log(now[0] / before[0])
    return min(max(local, POWERS[0]), POWERS[1])


def approximate_rho(epsilon: float, delta: float) -> float:
    """About the zCDP cost that epsilon allows, from below: rho with epsilon = rho + 2 sqrt(rho ln(1/delta)).

    Source: Bun & Steinke 2016 (1605.02065), Proposition 1.3.
    """
    root = math.log(1 / delta)
    return (math.sqrt(root + epsilon) - math.sqrt(root)) ** 2


def resolve_delta(delta: float | Literal["auto"], schema: Schema) -> float:
    """The delta to use: "auto" is min(1e-6, n_units^-1.2).

    >>> from synth.schema import build_schema
    >>> content = {"status": "declared", "n_units": 6366, "columns": {"a": {"kind": "boolean"}}}
    >>> resolve_delta("auto", build_schema(content))
    1e-06
    """
    n_units = require_declared(schema)
    if 1 / (10 * n_units) < LEAST_DELTA:
        raise BudgetError(
            f"n_units={n_units} needs a delta below {LEAST_DELTA:g}, and the accountant resolves none; declare the "
            "number of units that the table may hold"
        )
    if delta == "auto":
        automatic: float = min(1e-6, float(n_units) ** -1.2)
        if automatic < LEAST_DELTA:
            raise _too_small(automatic)
        return automatic
    if 0.0 < delta < LEAST_DELTA:
        raise _too_small(delta)
    if not 0.0 < delta <= 1 / (10 * n_units):
        raise BudgetError(
            f"delta={delta:g} must lie in (0, 1/(10 n_units)] = (0, {1 / (10 * n_units):.3g}], "
            'since a larger one may publish whole rows; use delta = "auto"'
        )
    return delta


def _too_small(delta: float) -> BudgetError:
    return BudgetError(
        f"delta={delta:.3g} is smaller than the accountant resolves; set delta to {LEAST_DELTA:g} or more, up to "
        "1/(10 n_units)"
    )


def require_declared(schema: Schema) -> int:
    """The declared number of units."""
    if schema.status != "declared":
        raise BudgetError(
            f"a private fit needs a declared schema, and this one has status={schema.status!r}: its bounds and "
            "categories were read off the table; run `understudy schema declare`, with `--measure COLUMN` for each "
            "column whose bounds or categories are not public, which the fit then pays for"
        )
    if schema.n_units is None:
        raise BudgetError(
            "a private fit needs n_units, the public number of units, and the schema names none; "
            "add it with `understudy schema declare --n-units N`"
        )
    return schema.n_units
