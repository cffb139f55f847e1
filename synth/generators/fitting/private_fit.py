"""The fit that private generators share: rows prepared, a plan calibrated, the domain and single columns measured."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, PlannedEvents, SubsampledGaussianEvent
from synth.dp.mechanisms import NoNoise
from synth.dp.schedule import Schedule, require_declared, resolve_delta
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.columns import SIZES, Merging, measure_columns, measure_domain, observe_spikes
from synth.generators.fitting.training_data import MappedTable, RowsElsewhere, TrainingTable, bound_contributions
from synth.marginals import Factor, MarkovRandomField, Measurement
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table.rows import Rows, observe

EXACT_RHO = 1.0
"""Cost that a schedule without noise is written down with; nothing is claimed of it."""
EXACT_DELTA = 1e-6
OneWay = Sequence[Measurement]
Known = Sequence[Factor]
"""Log shares of columns that are known, and not counted."""
PlannedT = TypeVar("PlannedT", bound=PlannedEvents)


@dataclass(frozen=True)
class PrivateFit:
    """A fit under way, to rows, *Sensitive*, whose contributions are bounded."""

    train: Any  # a `TrainingTable`, or what counts as it does elsewhere
    schema: Schema
    budget: Budget
    promises: bool
    progress: Progress = quiet
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def planned(self, plan: Callable[[float], PlannedT]) -> PlannedT:
        """The generator's own events, as its plan has them and as the budget holds them."""
        events = plan(EXACT_RHO)
        # What the schema adds comes first (see `with_overhead`).
        scheduled = self.budget.schedule.events
        return events.of(tuple(scheduled[len(scheduled) - len(events) :]))

    def columns(self, event: GaussianEvent, merging: Merging) -> tuple[Discretizer, tuple[Measurement, ...]]:
        """Codes and one-way measurements, paid by that event."""
        tell, exact = partial(self.progress, "measuring columns"), not self.promises
        return measure_columns(self.train, self.schema, event, self.budget, merging, tell, exact=exact)

    def entity_shares(self) -> tuple[tuple[float, ...] | None, int]:
        """Noisy shares of entities with 1, 2, ..., k rows (`None`: the unit is a row), and the public row count."""
        if self.schema.entity is None:
            return None, require_declared(self.schema) if self.promises else len(self.train)
        event = self.budget.schedule.required(SIZES, GaussianEvent)
        noisy = np.maximum(self.budget.release(self.train.rows_per_entity(), event), 0).astype(np.float64)
        if noisy.sum() == 0:
            noisy[0] = 1.0
        n_rows = int(noisy @ np.arange(1, len(noisy) + 1))
        return tuple((noisy / noisy.sum()).tolist()), max(n_rows, 1)

    def statement(self) -> PrivacyStatement | None:
        return self.budget.statement(self.schema) if self.promises else None


def start(
    generator: PrivateGenerator, train: Any, schema: Schema, budget: Budget | None, progress: Progress, seed: int = 0
) -> PrivateFit:
    """Everything checked and calibrated, and the domain known; nothing else drawn yet. `train`: *Sensitive*."""
    rng = np.random.default_rng(seed)
    generator.check(schema)
    if not generator.promises:  # the same events, drawn without noise
        rows, schema = as_it_is(train, schema)
        events = generator.whole_plan(schema, EXACT_DELTA)(EXACT_RHO)
        budget = Budget(Schedule(tuple(events), EXACT_DELTA), NoNoise())
        return PrivateFit(rows, schema, budget, False, progress, rng)
    budget = planned_budget(generator, schema, budget, progress)
    table = _training_table(generator, train, schema)
    measured = measure_domain(table, schema, budget)
    return PrivateFit(table.under(measured), measured, budget, True, progress, rng)


def _training_table(generator: PrivateGenerator, train: Any, schema: Schema) -> Any:
    """The rows as a private fit counts them; it never refuses by what a row holds: values are clamped."""
    if isinstance(train, RowsElsewhere):  # never by its attributes: those of a DataFrame are columns
        return train.training(schema, in_order=generator.in_order)
    if generator.counts_alone and not generator.in_order:
        mapped = train if isinstance(train, MappedTable) else MappedTable.of(train, schema)
        if mapped is not None:
            return mapped.under(schema)
    return TrainingTable(bound_contributions(Rows.of(train, schema), schema, in_order=generator.in_order))


def planned_budget(
    generator: PrivateGenerator, schema: Schema, budget: Budget | None, progress: Progress
) -> Budget:  # fmt: skip
    """The budget of a fit to rows under a schema as they are counted: a new one, or the given one if it is for that."""
    if budget is None:
        progress("calibrating the noise", None)
        return Budget(generator.calibrated(schema))
    if not _plans(generator, schema, budget.schedule):
        raise BudgetError(
            f"the budget is not on the schedule of generator={generator.name!r} under this schema; make it with "
            "`Budget(generator.schedule(schema))`"
        )
    return budget


def _plans(generator: PrivateGenerator, schema: Schema, schedule: Schedule) -> bool:
    """True if a schedule is the one that the generator would make, without calibrating it anew."""
    delta = resolve_delta(generator.delta, schema)
    plan = generator.whole_plan(schema, delta)
    # The total of a plan follows from its first event, whose cost is a fixed share of it.
    share, first = (events[0].rho if events else None for events in (plan(1.0), schedule.events))
    if schedule.delta != delta or share is None or first is None or schedule.epsilon > (generator.epsilon or 0.0):
        return False
    expected = plan(first / share)
    return len(expected) == len(schedule.events) and all(map(_alike, expected, schedule.events))


def _alike(planned: Event, event: Event) -> bool:
    """True if two events read the same at the same cost, but for rounding."""
    exact = ("mechanism", "what", "count", "sensitivity", "whole", "sampling_rate")
    if any(getattr(planned, name, None) != getattr(event, name, None) for name in exact):
        return False
    costs = [e.noise_multiplier if isinstance(e, SubsampledGaussianEvent) else e.rho for e in (planned, event)]
    return None not in costs and math.isclose(*costs, rel_tol=1e-9)


def known_names(known: Known) -> frozenset[str]:
    """The columns that factors of single columns are of."""
    return frozenset(name for factor in known for name in factor.attributes)


def start_from(known: Known, domain: Mapping[str, int]) -> MarkovRandomField | None:
    """The model that an estimation starts from, where columns are known; `None`: it has none."""
    return MarkovRandomField(domain, known, 1.0) if known else None


def as_it_is(train: Any, schema: Schema) -> tuple[TrainingTable, Schema]:
    """All rows of a table that fits its schema, and the schema with domains read off them: for fits without epsilon."""
    return observed(TrainingTable(Rows.of(train, schema, outside="refuse")))


def observed(rows: TrainingTable) -> tuple[TrainingTable, Schema]:
    """The rows under the schema with bounds, categories and frequent values read off them."""
    seen = observe(rows.schema, rows.rows)
    seen = observe_spikes(rows.under(seen), seen)
    return rows.under(seen), seen
