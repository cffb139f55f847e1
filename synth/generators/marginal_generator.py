"""Marginal generators: their base (`aim`, `latent_class`, `mst`), and the simplest of them, columns on their own.

A fit measures one-way histograms, then further marginals, and estimates a distribution over codes from them.
`independent` is right in each column, with nothing between them: the floor that every generator has to beat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, gaussian_of_rho
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.histograms import COLUMNS, Merging
from synth.generators.fitting.private_fit import PrivateFit, start
from synth.generators.models.marginal_model import MarginalModel
from synth.marginals import LatentClasses, MarkovRandomField, Measurement, estimate
from synth.progress import Progress, quiet
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.stored import StoredTable


@dataclass(frozen=True)
class MarginalEvents(PlannedEvents):
    """One-way histograms; a subclass adds what else its generator measures."""

    columns: GaussianEvent


class MarginalGenerator(PrivateGenerator):
    """Noisy marginals, and a distribution estimated from them."""

    n_bins: int

    def plan(self, schema: Schema) -> Callable[[float], MarginalEvents]:
        """One-way histograms first, at their share of the cost, then the generator's other events."""
        raise NotImplementedError

    def fit(
        self,
        train: "pd.DataFrame | StoredTable",
        schema: Schema,
        *,
        seed: int = 0,
        progress: Progress = quiet,
        budget: Budget | None = None,
    ) -> MarginalModel:
        """A model of the table.

        Args:
            train: *Sensitive*. Real rows, conforming to the schema, in memory or where they are stored.
            schema: declared, where epsilon is set.
            seed: for draws of the estimation, which read released numbers only; noise never takes one.
            progress: told what is being done.
            budget: on this generator's `schedule`; `None`: one of its own.
        """
        fit = start(self, train, schema, budget, progress)
        shares, n_rows = fit.entity_shares()
        events = fit.planned(self.plan(fit.schema))
        discretizer, one_way = fit.columns(
            events.columns, Merging(self.n_bins), lambda done: progress("measuring columns", done)
        )
        model = self._estimated(fit, events, discretizer, one_way, np.random.default_rng(seed), progress)
        return MarginalModel(
            self.name, fit.schema, fit.statement(), n_rows, discretizer, model, shares, self.parameters()
        )

    def _estimated(
        self,
        fit: PrivateFit,
        events: Any,
        discretizer: Discretizer,
        one_way: Sequence[Measurement],
        rng: np.random.Generator,
        progress: Progress,
    ) -> MarkovRandomField | LatentClasses:
        """The distribution after all measurements.

        Args:
            fit: pays for further measurements.
            events: of the generator's plan.
            discretizer: codes of the columns.
            one_way: the measurements of single columns.
            rng: of draws that read released numbers only.
            progress: told what is being done.
        """
        raise NotImplementedError


class Independent(MarginalGenerator):
    """One noisy histogram per column; rows are drawn column by column."""

    name: ClassVar[str] = "independent"
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes that a number or time is merged into, about.")

    def plan(self, schema: Schema) -> Callable[[float], MarginalEvents]:
        """All of it for the histograms."""
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        return lambda rho: MarginalEvents(gaussian_of_rho(COLUMNS, rho, count=n_columns, sensitivity=k))

    def _estimated(
        self,
        fit: PrivateFit,
        events: MarginalEvents,
        discretizer: Discretizer,
        one_way: Sequence[Measurement],
        rng: np.random.Generator,
        progress: Progress,
    ) -> MarkovRandomField:
        """The product of the columns' distributions."""
        return estimate(discretizer.sizes, one_way)
