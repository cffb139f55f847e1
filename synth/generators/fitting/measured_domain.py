"""The domain that nobody declared, measured under the budget: bounds, categories and frequent values of single columns.

Bounds come from one noisy histogram over magnitudes or the calendar, categories from a stability histogram, and the
frequent values of a number, within its bounds, from another one. What comes out is a schema in which nothing is left to
measure; it holds noisy values only, and a private fit goes on from there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from synth.columns import MOST_SPIKES, CategoricalColumn, IntegerColumn
from synth.domain import dp_bounds
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, StabilityEvent
from synth.dp.schedule import require_declared
from synth.generators.fitting.fixed_costs import domain_event_name, spikes_event_name
from synth.generators.fitting.training_data import TrainingTable
from synth.infer.numeric import frequent_values
from synth.schema import Schema
from synth.table.decode import holds_whole_numbers

NOTHING_FOUND = "other"
"""The one category of a column of texts in which none reached the threshold; in one of whole numbers it is 0."""


def measure_domain(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    """The schema with measured bounds, categories and frequent values in place of unknown ones.

    Args:
        train: *Sensitive*. Every cell read alone, contributions bounded.
        schema: names the columns to measure.
        budget: charged once for each.
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

    Args:
        train: *Sensitive*. Every row counts.
        schema: may have columns whose frequent values are to be measured; their bounds are known.
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
        kind = int if isinstance(column, IntegerColumn) else float
        # A bound that is off the column's precision is where values beyond it are clamped to, and no value of its own.
        kept = [kind(value) for value in values if column.tells_apart(value)][:MOST_SPIKES]
        columns[name] = column.model_copy(update={"spikes": tuple(sorted(kept)), "measure_spikes": False})
    return schema.model_copy(update={"columns": columns})


def _measure(train: TrainingTable, schema: Schema, name: str, budget: Budget) -> Any:
    column: Any = schema.columns[name]
    what = domain_event_name(schema, name)
    if isinstance(column, CategoricalColumn):
        categories = budget.schedule.required(what, StabilityEvent)
        nothing = 0 if holds_whole_numbers(column) else NOTHING_FOUND
        named = budget.name_stable(train.category_counts(name), categories)
        known = tuple(sorted(named)) or (nothing,)
        return column.model_copy(update={"categories": known, "measure": False, "whole_numbers": False})
    event = budget.schedule.required(what, GaussianEvent)
    edges = dp_bounds.public_edges(column, require_declared(schema) / event.sigma)
    noisy = budget.release(train.place_counts(name, column, edges), event)
    return dp_bounds.bounded(column, edges, noisy, event.sigma)
