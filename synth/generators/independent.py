"""Columns on their own: right in each column, nothing between them. The floor that every generator has to beat."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pandas as pd
from pydantic import Field

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, gaussian_of_rho
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.histograms import COLUMNS, Merging
from synth.generators.fitting.private_fit import start
from synth.generators.models.marginal_model import MarginalModel
from synth.marginals import estimate
from synth.progress import Progress, quiet
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.stored import StoredTable


@dataclass(frozen=True)
class IndependentEvents(PlannedEvents):
    """One histogram for each column."""

    columns: GaussianEvent


class Independent(PrivateGenerator):
    """One noisy histogram per column; rows are drawn column by column."""

    name: ClassVar[str] = "independent"
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes that a number or time is merged into, about.")

    def plan(self, schema: Schema) -> Callable[[float], IndependentEvents]:
        """All of it for the histograms."""
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        return lambda rho: IndependentEvents(gaussian_of_rho(COLUMNS, rho, count=n_columns, sensitivity=k))

    def fit(
        self,
        train: "pd.DataFrame | StoredTable",
        schema: Schema,
        *,
        seed: int = 0,
        progress: Progress = quiet,
        budget: Budget | None = None,
    ) -> MarginalModel:
        """A model of the columns.

        Args:
            train: *Sensitive*. Real rows, conforming to the schema, in memory or where they are stored.
            schema: declared, where epsilon is set.
            seed: unused; noise never takes one, and nothing else is drawn.
            progress: told what is being done.
            budget: on this generator's `schedule`; `None`: one of its own.
        """
        fit = start(self, train, schema, budget, progress)
        shares, n_rows = fit.entity_shares()
        discretizer, measurements = fit.columns(
            fit.planned(self.plan(fit.schema)).columns,
            Merging(self.n_bins),
            lambda done: progress("measuring columns", done),
        )
        distribution = estimate(discretizer.sizes, measurements)
        return MarginalModel(
            self.name, fit.schema, fit.statement(), n_rows, discretizer, distribution, shares, self.parameters()
        )
