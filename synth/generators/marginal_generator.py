"""Marginal generators: their base (`aim`, `latent_class`, `mst`), and the simplest of them, columns on their own.

A fit measures one-way histograms, then further marginals, and estimates a distribution over codes from them.
`independent` is right in each column, with nothing between them: the floor that every generator has to beat.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, gaussian_of_rho
from synth.dp.schedule import Plan
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.histograms import COLUMNS, Merging
from synth.generators.fitting.histories import PILOT_ROWS, HistoryEvents, KnownColumns, history_plan, length_shares
from synth.generators.fitting.private_fit import Given, OneWay, PrivateFit, start
from synth.generators.fitting.training_data import TrainingTable, histories_apart
from synth.generators.models.history_model import HistoryModel
from synth.generators.models.marginal_model import MarginalModel
from synth.histories.layout import HistoryLayout
from synth.marginals import LatentClasses, MarkovRandomField, estimate
from synth.marginals.measurement import estimate_total
from synth.progress import Progress, quiet
from synth.schema import Schema


@dataclass(frozen=True)
class MarginalEvents(PlannedEvents):
    """One-way histograms; a subclass adds what else its generator measures."""

    columns: GaussianEvent


class MarginalGenerator(PrivateGenerator):
    """Noisy marginals, and a distribution estimated from them."""

    counts_alone: ClassVar[bool] = True
    n_bins: int

    def plan(self, schema: Schema) -> Plan:
        """The events of rows, or those of first and of later rows where histories are drawn."""
        if not self.draws_histories(schema):
            return self.row_plan(schema)
        return self._history_plan(schema)

    def _history_plan(self, schema: Schema) -> Callable[[float], HistoryEvents]:
        longest = schema.max_rows_per_unit if self.promises else max(schema.max_rows_per_unit, 2)
        layout = self._layout(schema, longest)
        later = None if longest == 1 else self.row_plan(layout.later_rows, len(layout.known))
        return history_plan(self.row_plan(layout.first_rows), later)

    def row_plan(self, schema: Schema, n_given: int = 0) -> Callable[[float], MarginalEvents]:
        """One-way histograms first, at their share of the cost, then the generator's other events."""
        raise NotImplementedError

    def _layout(self, schema: Schema, longest: int) -> HistoryLayout:
        return HistoryLayout(schema, longest, reads_domains=False, averages=False)

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> MarginalModel | HistoryModel:
        """A model of the table: of histories, where these are drawn. `train`: *Sensitive*. Real rows."""
        fit = start(self, train, schema, budget, progress, seed)
        if self.draws_histories(schema):
            return self._of_histories(fit)
        shares, n_rows = fit.entity_shares()
        events = fit.planned(self.row_plan(fit.schema))
        discretizer, one_way = fit.columns(events.columns, Merging(self.n_bins))
        model = self._estimated(fit, events, discretizer, one_way)
        return MarginalModel(
            self.name, fit.schema, fit.statement(), n_rows, discretizer, model, shares, self.parameters()
        )

    def _of_histories(self, fit: PrivateFit) -> HistoryModel:
        """A model of first rows, and one of later rows given what is known before each."""
        longest = fit.schema.max_rows_per_unit
        if not fit.promises:
            longest = len(fit.train.rows_per_entity())
        layout = self._layout(fit.schema, longest)
        first_rows, later_rows = histories_apart(fit.train, layout, checked=not fit.promises)
        events: Any = fit.planned(self._history_plan(fit.schema))
        of_first = replace(fit, train=first_rows, schema=layout.first_rows)
        codes, one_way = of_first.columns(events.first.columns, Merging(self.n_bins))
        model = self._estimated(of_first, events.first, codes, one_way)
        first = MarginalModel(self.name, layout.first_rows, None, 1, codes, model, None, None)
        shares = length_shares(codes, one_way, layout)
        n_rows = max(
            round(estimate_total(one_way) * float(np.average(np.arange(1, len(shares) + 1), weights=shares))), 1
        )
        later = None
        if events.later is not None and (fit.promises or len(later_rows)):
            later = self._of_later_rows(fit, layout, later_rows, events.later, first)
        return HistoryModel(
            self.name, fit.schema, fit.statement(), n_rows, first, later, shares, layout.averages, self.parameters()
        )

    def _of_later_rows(
        self, fit: PrivateFit, layout: HistoryLayout, rows: TrainingTable, events: Any, first: MarginalModel
    ) -> MarginalModel:
        """The model of later rows, in which what is known of them has the codes of the same columns elsewhere."""
        alone = replace(fit, train=rows.under(layout.drawn_alone), schema=layout.drawn_alone)
        of_drawn, measured = alone.columns(events.columns, Merging(self.n_bins))
        known = KnownColumns.told(layout, first.learned_rows(PILOT_ROWS, fit.rng), of_drawn, measured, fit.rng)
        codes = known.codes(of_drawn, first.discretizer, self.n_bins)
        whole = replace(fit, train=rows, schema=layout.later_rows)
        model = self._estimated(whole, events, codes, measured, known.factors(codes))
        return MarginalModel(self.name, layout.later_rows, None, 1, codes, model, None, None)

    def _estimated(
        self, fit: PrivateFit, events: Any, discretizer: Discretizer, one_way: OneWay, given: Given = ()
    ) -> MarkovRandomField | LatentClasses:
        """The distribution after all measurements."""
        raise NotImplementedError


class Independent(MarginalGenerator):
    """One noisy histogram per column; rows are drawn column by column."""

    name: ClassVar[str] = "independent"
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes that a number or time is merged into, about.")

    def row_plan(self, schema: Schema, n_given: int = 0) -> Callable[[float], MarginalEvents]:
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        return lambda rho: MarginalEvents(gaussian_of_rho(COLUMNS, rho, count=n_columns, sensitivity=k))

    def _estimated(
        self, fit: PrivateFit, events: MarginalEvents, discretizer: Discretizer, one_way: OneWay, given: Given = ()
    ) -> MarkovRandomField:
        """The product of the columns' distributions."""
        return estimate(discretizer.sizes, one_way)
