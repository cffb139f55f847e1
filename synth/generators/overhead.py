"""What every private fit pays for beside its own plan: rows per entity, and the domain that nobody declared."""

from collections.abc import Sequence

from synth.columns import CategoricalColumn
from synth.dp.calibration import Plan
from synth.dp.events import Event, StabilityEvent, gaussian_of_rho
from synth.schema import Schema

SIZES = "rows per entity"
SIZES_SHARE = 0.05
"""Share of rho for the histogram of rows per entity."""
BOUNDS_SHARE, FEW_UNITS = 0.25, 400
"""Share of rho for each column whose bounds are not declared, and the units of one row each for which it is meant.

With more units it falls with the power 2/3 of their number. What they stand out by then still grows, with the power
2/3, too, and the rest goes to the model."""
CATEGORIES_SHARE = 0.03
"""Share of rho for each column whose categories are not declared: less noise names rarer ones at any number of units.
"""
MOST_DOMAIN_SHARE = 0.3
"""Share of rho for the domains of all columns at most."""
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
    domain = sum(domain_shares(schema).values())

    def whole(rho: float) -> Sequence[Event]:
        events: list[Event] = []
        if sizes:
            events.append(gaussian_of_rho(SIZES, sizes * rho, count=1, sensitivity=1))
        if domain:
            events += domain_events(schema, rho, DOMAIN_DELTA_SHARE * delta)
        return [*events, *plan((1 - sizes - domain) * rho)]

    return whole


def domain_shares(schema: Schema) -> dict[str, float]:
    """Shares of rho for the columns whose domain is not declared; a function of public facts alone.

    Args:
        schema: names the columns, the number of units and the rows of one.
    """
    n_units = (schema.n_units or FEW_UNITS) / schema.max_rows_per_unit
    bounds = BOUNDS_SHARE * min(FEW_UNITS / n_units, 1.0) ** (2 / 3)
    listed = {name: isinstance(schema.columns[name], CategoricalColumn) for name in schema.measured}
    shares = {name: CATEGORIES_SHARE if categories else bounds for name, categories in listed.items()}
    scale = min(1.0, MOST_DOMAIN_SHARE / max(sum(shares.values()), MOST_DOMAIN_SHARE))
    return {name: scale * share for name, share in shares.items()}


def domain_event_name(schema: Schema, name: str) -> str:
    """What the statement calls the measurement of one column's domain."""
    part = "categories" if isinstance(schema.columns[name], CategoricalColumn) else "bounds"
    return f"{part} of column {name!r}"


def domain_events(schema: Schema, rho: float, delta: float) -> list[Event]:
    """One event for each column to measure, each at its share.

    Args:
        schema: names them.
        rho: of the whole plan.
        delta: for all histograms of categories.
    """
    k, shares = schema.max_rows_per_unit, domain_shares(schema)
    n_listed = sum(isinstance(schema.columns[name], CategoricalColumn) for name in shares)
    events: list[Event] = []
    for name, share in shares.items():
        what = domain_event_name(schema, name)
        if isinstance(schema.columns[name], CategoricalColumn):
            events.append(StabilityEvent.of_rho(what, share * rho, delta / n_listed, k))
        else:
            events.append(gaussian_of_rho(what, share * rho, count=1, sensitivity=k))
    return events
