"""What every private fit pays for beside its own plan: rows per entity, and the domain that nobody declared."""

from collections.abc import Sequence

from synth.columns import CategoricalColumn
from synth.dp.calibration import Plan
from synth.dp.events import Event, StabilityEvent, gaussian_of_rho
from synth.schema import Schema

SIZES = "rows per entity"
SIZES_SHARE = 0.05
"""Share of rho for the histogram of rows per entity."""
DOMAIN_SHARE, MOST_DOMAIN_SHARE = 0.03, 0.3
"""Share of rho for each column whose bounds or categories are not declared, and for all of them at most."""
BOUNDS_STEPS = 2
"""Histograms for the bounds of one column."""
DOMAIN_DELTA_SHARE = 0.02
"""Share of delta for all columns whose categories are not declared."""


def with_overhead(plan: Plan, schema: Schema, delta: float) -> Plan:
    """The plan with what the schema makes necessary, each at its share of rho.

    Args:
        plan: a generator's own events at a cost rho.
        schema: names the entity and the columns to measure.
        delta: of the guarantee.
    """
    sizes = SIZES_SHARE if schema.entity is not None else 0.0
    domain = min(DOMAIN_SHARE * len(schema.measured), MOST_DOMAIN_SHARE)

    def whole(rho: float) -> Sequence[Event]:
        events: list[Event] = []
        if sizes:
            events.append(gaussian_of_rho(SIZES, sizes * rho, count=1, sensitivity=1))
        if domain:
            events += domain_events(schema, domain * rho, DOMAIN_DELTA_SHARE * delta)
        return [*events, *plan((1 - sizes - domain) * rho)]

    return whole


def domain_event_name(schema: Schema, name: str) -> str:
    """What the statement calls the measurement of one column's domain."""
    part = "categories" if isinstance(schema.columns[name], CategoricalColumn) else "bounds"
    return f"{part} of column {name!r}"


def domain_events(schema: Schema, rho: float, delta: float) -> list[Event]:
    """One event for each column to measure, all at the same cost.

    Args:
        schema: names them.
        rho: for all of them.
        delta: for all histograms of categories.
    """
    k, each = schema.max_rows_per_unit, rho / len(schema.measured)
    listed = [name for name in schema.measured if isinstance(schema.columns[name], CategoricalColumn)]
    events: list[Event] = []
    for name in schema.measured:
        what = domain_event_name(schema, name)
        if name in listed:
            events.append(StabilityEvent.of_rho(what, each, delta / len(listed), k))
        else:
            events.append(gaussian_of_rho(what, each, count=BOUNDS_STEPS, sensitivity=k))
    return events
