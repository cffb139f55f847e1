"""What `independent` and `mst` share: rows prepared, a plan calibrated, columns measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.calibration import calibrate, resolve_delta
from synth.dp.events import Event, GaussianEvent, gaussian_of_rho
from synth.dp.mechanisms import Noise, NoNoise, SystemNoise
from synth.dp.statement import PrivacyStatement
from synth.generators.base import PrivateGenerator
from synth.generators.contributions import bound_contributions, rows_per_entity
from synth.generators.one_way import measure_columns
from synth.marginals import Measurement
from synth.progress import Progress
from synth.schema import Schema
from synth.table import conform

SIZES = "rows per entity"
SIZES_SHARE = 0.05
"""Share of the budget for the histogram of rows per entity."""
EXACT_RHO = 1.0
"""Cost that a plan without noise is written down with; nothing is claimed of it."""

Plan = Callable[[float], Sequence[Event]]
"""The events of a fit at a total zCDP cost rho."""


@dataclass(frozen=True)
class Fit:
    """A fit under way.

    Attributes:
        train: *Sensitive*. Conforming to the schema, contributions bounded.
        schema: what is public.
        events: the plan, calibrated.
        budget: charged before every draw.
        delta: of the guarantee; none without one.
    """

    train: pd.DataFrame
    schema: Schema
    events: tuple[Event, ...]
    budget: Budget
    delta: float | None

    def event(self, what: str) -> Event | None:
        """The planned event of that name, if any."""
        return next((event for event in self.events if event.what == what), None)

    def columns(
        self, what: str, n_bins: int, tell: Callable[[float], None]
    ) -> tuple[Discretizer, tuple[Measurement, ...]]:
        """Codes and one-way measurements, paid by the event of that name."""
        event = self.event(what)
        assert isinstance(event, GaussianEvent)
        return measure_columns(self.train, self.schema, event, self.budget, n_bins, tell)

    def entity_shares(self) -> tuple[tuple[float, ...] | None, int]:
        """Noisy shares of entities with 1, 2, ..., k rows (none where the unit is a row), and the public row count."""
        event = self.event(SIZES)
        if not isinstance(event, GaussianEvent):
            rows = len(self.train) if self.delta is None else self.schema.n_units
            assert rows is not None
            return None, rows
        noisy = np.maximum(self.budget.counts(rows_per_entity(self.train, self.schema), event), 0).astype(np.float64)
        if noisy.sum() == 0:
            noisy[0] = 1.0
        n_rows = int(noisy @ np.arange(1, len(noisy) + 1))
        return tuple((noisy / noisy.sum()).tolist()), max(n_rows, 1)

    def statement(self) -> PrivacyStatement | None:
        """What the fit promises; none without epsilon."""
        return None if self.delta is None else self.budget.statement(self.delta, self.schema)


def start(
    generator: PrivateGenerator,
    train: pd.DataFrame,
    schema: Schema,
    plan: Plan,
    noise: Noise | None,
    progress: Progress,
) -> Fit:
    """Everything checked and calibrated, nothing drawn yet.

    Args:
        generator: holds epsilon and delta.
        train: *Sensitive*. Real rows.
        schema: declared, where epsilon is set.
        plan: the generator's own events at a total cost rho; rows per entity are added here.
        noise: injected by tests; none: the system's.
        progress: told what is being done.

    Raises:
        SchemaError: free text is kept.
        BudgetError: the schema is not declared, or the budget cannot be met.
        TableError: a column is missing, or (without epsilon) the table does not fit the schema.
    """
    generator.check(schema)
    whole = _with_sizes(plan, schema)
    if generator.epsilon is None:
        events = tuple(whole(EXACT_RHO))
        rows = conform(train, schema, part=True)
        return Fit(train=rows, schema=schema, events=events, budget=Budget(events, NoNoise()), delta=None)
    delta = resolve_delta(generator.delta, schema)
    progress("calibrating the noise", None)
    events = calibrate(whole, generator.epsilon, delta)
    # A private fit never refuses by what a row holds: values are clamped, unknown categories become `other`.
    rows = bound_contributions(conform(train, schema, outside="clamp"), schema)
    budget = Budget(events, noise if noise is not None else SystemNoise())
    return Fit(train=rows, schema=schema, events=events, budget=budget, delta=delta)


def _with_sizes(plan: Plan, schema: Schema) -> Plan:
    """The plan with the histogram of rows per entity, where there are entities."""
    if schema.entity is None:
        return plan
    return lambda rho: [
        gaussian_of_rho(SIZES, SIZES_SHARE * rho, count=1, sensitivity=1),
        *plan((1 - SIZES_SHARE) * rho),
    ]
