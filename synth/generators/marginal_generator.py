"""Marginal generators' base: one-way histograms, then a distribution over codes (`aim`, `latent_class`, `mst`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.histograms import Merging
from synth.generators.fitting.private_fit import PrivateFit, start
from synth.generators.models.marginal_model import MarginalModel
from synth.marginals import LatentClasses, MarkovRandomField, Measurement
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
