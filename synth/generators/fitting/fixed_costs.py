"""Fixed costs of a private fit, beside its own plan: rows per entity, and the domain that nobody declared.

The domain is bounds, categories and frequent values of single columns. Bounds come from one noisy histogram over
magnitudes or the calendar, and categories from a stability histogram. So do the frequent values of a number, within its
bounds. The result is a schema of noisy values in which nothing is left to measure; a private fit goes on from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from synth.domain import dp_bounds
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, StabilityEvent, gaussian_of_rho
from synth.dp.schedule import Plan, require_declared
from synth.generators.fitting.training_data import TrainingTable
from synth.infer.numeric import frequent_values
from synth.schema import Schema
from synth.schema.kinds.number import MOST_SPIKES

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


def with_overhead(plan: Plan, schema: Schema, delta: float, *, sizes: bool = True) -> Plan:
    """The plan with what the schema makes necessary, each at its share of rho."""
    of_sizes = SIZES_SHARE if sizes and schema.entity is not None else 0.0
    domain = sum(domain_shares(schema).values())

    def whole(rho: float) -> Sequence[Event]:
        events: list[Event] = []
        if of_sizes:
            events.append(gaussian_of_rho(SIZES, of_sizes * rho, count=1, sensitivity=1))
        if domain:
            events += domain_events(schema, rho, DOMAIN_DELTA_SHARE * delta)
        return [*events, *plan((1 - of_sizes - domain) * rho)]

    return whole


def domain_shares(schema: Schema) -> dict[str, float]:
    """Shares of rho for what is not declared of the columns, by event; a function of public facts alone."""
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
    """The statement's name of the measurement of one column's bounds or categories."""
    return f"{'categories' if _is_listed(schema, name) else 'bounds'} of column {name!r}"


def spikes_event_name(name: str) -> str:
    """The statement's name of the measurement of one column's frequent values."""
    return f"frequent values of column {name!r}"


def _is_listed(schema: Schema, name: str) -> bool:
    """True if a column to measure has categories, not bounds."""
    return schema.columns[name].domain == "categories"


def domain_events(schema: Schema, rho: float, delta: float) -> list[Event]:
    """One event for the bounds, the categories or the frequent values of each column to measure, each at its share."""
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


NOTHING_FOUND = "other"
"""The one category of a column of texts in which none reached the threshold; in one of whole numbers it is 0."""


def measure_domain(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    """The schema with measured bounds, categories and frequent values in place of unknown ones.
    `train`: *Sensitive*. Every cell read alone, contributions bounded.
    """
    found = {name: _measure(train, schema, name, budget) for name in schema.measured}
    bounded = schema.model_copy(update={"columns": {**schema.columns, **found}})
    inside = train.under(bounded)
    spikes: dict[str, list[float]] = {}
    for name in bounded.spikes_measured:
        event = budget.schedule.required(spikes_event_name(name), StabilityEvent)
        spikes[name] = budget.name_stable(inside.value_counts(name), event)
    return _with_spikes(bounded, spikes)


def observe_spikes(train: TrainingTable, schema: Schema) -> Schema:
    """The schema with frequent values read off the rows, as `infer` proposes them: for fits that promise nothing.
    `train`: *Sensitive*. Every row counts.
    """
    spikes: dict[str, tuple[float, ...]] = {}
    for name in schema.spikes_measured:
        counted = sorted(train.value_counts(name).items())
        distinct, counts = (np.array([pair[at] for pair in counted], dtype=np.float64) for at in (0, 1))
        spikes[name] = frequent_values(distinct, counts, schema.columns[name])  # type: ignore[arg-type]
    return _with_spikes(schema, spikes)


def _with_spikes(schema: Schema, spikes: Mapping[str, Iterable[float]]) -> Schema:
    """The schema with these frequent values, the first of them where a column may not have so many."""
    columns: dict[str, Any] = dict(schema.columns)
    for name, values in spikes.items():
        column = columns[name]
        kind = int if column.is_whole else float
        # A bound that is off the column's precision is where values beyond it are clamped to, and no value of its own.
        kept = [kind(value) for value in values if column.tells_apart(value)][:MOST_SPIKES]
        columns[name] = column.model_copy(update={"spikes": tuple(sorted(kept)), "measure_spikes": False})
    return schema.model_copy(update={"columns": columns})


def _measure(train: TrainingTable, schema: Schema, name: str, budget: Budget) -> Any:
    column: Any = schema.columns[name]
    what = domain_event_name(schema, name)
    if column.domain == "categories":
        categories = budget.schedule.required(what, StabilityEvent)
        nothing = 0 if column.holds_whole_numbers else NOTHING_FOUND
        named = budget.name_stable(train.category_counts(name), categories)
        known = tuple(sorted(named)) or (nothing,)
        return column.model_copy(update={"categories": known, "measure": False, "whole_numbers": False})
    event = budget.schedule.required(what, GaussianEvent)
    edges = dp_bounds.public_edges(column, require_declared(schema) / event.sigma)
    noisy = budget.release(train.place_counts(name, column, edges), event)
    return dp_bounds.bounded(column, edges, noisy, event.sigma)
