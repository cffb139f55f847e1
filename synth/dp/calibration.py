"""The noise that a target epsilon allows, over a whole plan of events."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from synth.dp.accounting import epsilon_pld
from synth.dp.events import Event
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.schema import Schema

TOLERANCE = 1e-3
"""How far below the target epsilon a calibrated plan may end, as a share of it; it never ends above."""
LEAST_DELTA = 1e-12
"""The smallest delta that is accounted for.

Compositions are convolved in double precision, and what is lost there is below this. Against the exact curve of
Gaussian noise, epsilon is within 0.06% at 1e-12, off by 0.3% at 1e-13 and by up to 2.5% at 3e-15, to either side; below
that it is infinite for every plan.
"""
LEAST_SHARE, MOST_GROWTH, MOST_STEPS = 1e-4, 4.0, 60
"""The search for a cost ends below this share of where it starts, grows by this factor at most, and takes so many
steps at most."""
POWERS = (0.3, 10.0)
"""Powers of the cost that epsilon is taken to follow; small samples and little noise make for large ones."""
EPSILON_RANGE = (1e-3, 100.0)


Plan = Callable[[float], Sequence[Event]]
"""The events of a fit at a total zCDP cost rho; shares of rho among them are the plan's own, stated ones."""


def calibrate(plan: Plan, epsilon: float, delta: float) -> Schedule:
    """The schedule whose joint epsilon is the target, from below.

    Args:
        plan: the events at a total zCDP cost rho; their joint epsilon must grow with rho.
        epsilon: target.
        delta: target.

    Raises:
        BudgetError: epsilon or delta is outside what can be calibrated; nothing was drawn.

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
    """About the largest rho whose epsilon is at most the target; none where every rho is above it.

    Epsilon is close to a power of rho (1/2 where it is small, 1 where it is large, more where samples are small), so
    the next guess is where the power through the last two points meets the target, kept within what is known of both
    sides. Where epsilon is infinite at one rho and finite at a smaller one, the last finite one is looked for halfway
    between them.
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
    found = math.log(now[1] / before[1]) / math.log(now[0] / before[0])
    return min(max(found, POWERS[0]), POWERS[1])


def approximate_rho(epsilon: float, delta: float) -> float:
    """About the zCDP cost that epsilon allows, from below: rho with epsilon = rho + 2 sqrt(rho ln(1/delta)).

    Source: Bun & Steinke 2016 (1605.02065), Proposition 1.3.
    """
    root = math.log(1 / delta)
    return (math.sqrt(root + epsilon) - math.sqrt(root)) ** 2


def resolve_delta(delta: float | Literal["auto"], schema: Schema) -> float:
    """The delta to use: "auto" is min(1e-6, n_units^-1.2).

    Raises:
        BudgetError: delta is not in (0, 1/(10 n_units)], or below `LEAST_DELTA`, the least that can be accounted for.

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
    """The declared number of units.

    Raises:
        BudgetError: the schema is inferred, or names no n_units; nothing was read.
    """
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
