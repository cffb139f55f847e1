"""Fixed costs of a private fit, beside its own plan: rows per entity, and what of the domain nobody declared."""

from collections.abc import Sequence

from synth.columns import CategoricalColumn
from synth.dp.events import Event, StabilityEvent, gaussian_of_rho
from synth.dp.schedule import Plan
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
SPIKES_SHARE, FEW_SPIKE_UNITS = 0.03, 5_000
"""Share of rho for each column whose frequent values are not declared, and the units of one row each up to which.

With more units it falls with the power 2/3 of their number. So does the share of the rows from which on a value is
named, and the rest goes to the model."""
MOST_DOMAIN_SHARE = 0.3
"""Share of rho for the domains of all columns at most."""
DOMAIN_DELTA_SHARE = 0.02
"""Share of delta for all columns whose categories or frequent values are not declared."""


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
    """Shares of rho for what is not declared of the columns, by event; a function of public facts alone.

    Args:
        schema: names the columns, the number of units and the rows of one.
    """
    n_units = (schema.n_units or FEW_UNITS) / schema.max_rows_per_unit
    bounds = BOUNDS_SHARE * min(FEW_UNITS / n_units, 1.0) ** (2 / 3)
    spikes = SPIKES_SHARE * min(FEW_SPIKE_UNITS / n_units, 1.0) ** (2 / 3)
    shares = {
        domain_event_name(schema, name): CATEGORIES_SHARE if _is_listed(schema, name) else bounds
        for name in schema.measured
    }
    shares |= {spikes_event_name(name): spikes for name in schema.spikes_measured}
    scale = min(1.0, MOST_DOMAIN_SHARE / max(sum(shares.values()), MOST_DOMAIN_SHARE))
    return {what: scale * share for what, share in shares.items()}


def domain_event_name(schema: Schema, name: str) -> str:
    """What the statement calls the measurement of one column's bounds or categories."""
    return f"{'categories' if _is_listed(schema, name) else 'bounds'} of column {name!r}"


def spikes_event_name(name: str) -> str:
    """What the statement calls the measurement of one column's frequent values."""
    return f"frequent values of column {name!r}"


def _is_listed(schema: Schema, name: str) -> bool:
    """Whether a column to measure has categories, not bounds."""
    return isinstance(schema.columns[name], CategoricalColumn)


def domain_events(schema: Schema, rho: float, delta: float) -> list[Event]:
    """One event for the bounds, the categories or the frequent values of each column to measure, each at its share.

    Args:
        schema: names them.
        rho: of the whole plan.
        delta: for all histograms of categories and frequent values.
    """
    k, shares = schema.max_rows_per_unit, domain_shares(schema)
    bounds = {domain_event_name(schema, name) for name in schema.measured if not _is_listed(schema, name)}
    n_named = len(shares.keys() - bounds)
    events: list[Event] = []
    for what, share in shares.items():
        if what in bounds:
            events.append(gaussian_of_rho(what, share * rho, count=1, sensitivity=k))
        else:
            events.append(StabilityEvent.of_rho(what, share * rho, delta / n_named, k))
    return events
