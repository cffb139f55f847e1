"""The domain that nobody declared, measured under the budget: bounds and categories of single columns.

Bounds come from one noisy histogram over magnitudes or the calendar, categories from a stability histogram. What comes
out is a schema in which nothing is left to measure; it holds noisy values only, and a private fit goes on from there.
"""

from typing import Any

from synth.columns import CategoricalColumn
from synth.domain import magnitudes
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, StabilityEvent
from synth.generators.overhead import domain_event_name
from synth.generators.training_table import TrainingTable
from synth.schema import Schema
from synth.table.kinds import holds_whole_numbers

NOTHING_FOUND = "other"
"""The one category of a column of texts in which none reached the threshold; in one of whole numbers it is 0."""


def measure_domain(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    """The schema with measured bounds and categories in place of unknown ones.

    Args:
        train: *Sensitive*. Every cell read alone, contributions bounded.
        schema: names the columns to measure.
        budget: charged once for each.
    """
    found = {name: _measure(train, schema, name, budget) for name in schema.measured}
    return schema.model_copy(update={"columns": {**schema.columns, **found}})


def _measure(train: TrainingTable, schema: Schema, name: str, budget: Budget) -> Any:
    column: Any = schema.columns[name]
    event = budget.schedule.event(domain_event_name(schema, name))
    if isinstance(column, CategoricalColumn):
        assert isinstance(event, StabilityEvent)
        nothing = 0 if holds_whole_numbers(column) else NOTHING_FOUND
        named = budget.name_stable(train.category_counts(name), event)
        known = tuple(named) or (nothing,)
        return column.model_copy(update={"categories": known, "measure": False, "whole_numbers": False})
    assert isinstance(event, GaussianEvent)
    assert schema.n_units is not None
    edges = magnitudes.public_edges(column, schema.n_units / event.sigma)
    noisy = budget.release(train.place_counts(name, column, edges), event)
    return magnitudes.bounded(column, edges, noisy, event.sigma)
