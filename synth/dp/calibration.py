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
LEAST_RHO = 1e-14
"""Where the search for a cost ends: no plan has one so small."""
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
        BudgetError: epsilon is outside what can be calibrated; nothing was drawn.

    >>> from synth.dp.events import gaussian_of_rho
    >>> schedule = calibrate(lambda rho: [gaussian_of_rho("counts", rho, count=1, sensitivity=1)], 1.0, 1e-6)
    >>> round(schedule.events[0].sigma, 1)
    4.2
    """
    if not EPSILON_RANGE[0] <= epsilon <= EPSILON_RANGE[1]:
        raise BudgetError(
            f"epsilon={epsilon:g} is outside [{EPSILON_RANGE[0]:g}, {EPSILON_RANGE[1]:g}]; choose one inside"
        )
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

    Epsilon is close to a power of rho (1/2 where it is small, 1 where it is large), so the next guess is where the
    power through the last two points meets the target, kept within what is known of both sides.
    """
    low, high, rho, power = 0.0, math.inf, start, 0.5
    before: tuple[float, float] | None = None
    while rho > LEAST_RHO:
        reached = epsilon_of(rho)
        if target * (1 - TOLERANCE) <= reached <= target:
            return rho
        low, high = (rho, high) if reached < target else (low, rho)
        if 0 < high - low <= TOLERANCE / 10 * high < math.inf:  # a step of the plan, not of epsilon
            return low
        if 0 < reached < math.inf:
            if before is not None and before[0] != rho and before[1] != reached:
                power = math.log(reached / before[1]) / math.log(rho / before[0])
            before = (rho, reached)
            aim = target * (1 - TOLERANCE / 2)
            rho *= (aim / reached) ** (1 / min(max(power, 0.3), 1.5))
        else:
            rho = high / 4
        if not low < rho < high:
            rho = 2 * low if math.isinf(high) else (low + high) / 2
    return low or None


def approximate_rho(epsilon: float, delta: float) -> float:
    """About the zCDP cost that epsilon allows, from below: rho with epsilon = rho + 2 sqrt(rho ln(1/delta)).

    Source: Bun & Steinke 2016 (1605.02065), Proposition 1.3.
    """
    root = math.log(1 / delta)
    return (math.sqrt(root + epsilon) - math.sqrt(root)) ** 2


def resolve_delta(delta: float | Literal["auto"], schema: Schema) -> float:
    """The delta to use: "auto" is min(1e-6, n_units^-1.2).

    Raises:
        BudgetError: delta is not in (0, 1/(10 n_units)].

    >>> from synth.schema import build_schema
    >>> content = {"status": "declared", "n_units": 6366, "columns": {"a": {"kind": "boolean"}}}
    >>> resolve_delta("auto", build_schema(content))
    1e-06
    """
    n_units = require_declared(schema)
    if delta == "auto":
        automatic: float = min(1e-6, float(n_units) ** -1.2)
        return automatic
    if not 0.0 < delta <= 1 / (10 * n_units):
        raise BudgetError(
            f"delta={delta:g} must lie in (0, 1/(10 n_units)] = (0, {1 / (10 * n_units):.3g}], "
            'since a larger one may publish whole rows; use delta = "auto"'
        )
    return delta


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
