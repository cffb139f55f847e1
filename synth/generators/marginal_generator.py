"""Marginal generators: their base (`aim`, `latent_class`, `mst`), and the simplest of them, columns on their own.

A fit measures one-way histograms, then further marginals, and estimates a distribution over codes from them.
`independent` is right in each column, with nothing between them: the floor that every generator has to beat.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, gaussian_of_rho
from synth.dp.schedule import Plan
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import COLUMNS, Known, Merging, OneWay, PrivateFit, start
from synth.generators.models.fitted import MarginalModel
from synth.marginals import Factor, LatentClasses, MarkovRandomField, estimate
from synth.progress import Progress, quiet
from synth.schema import Schema


@dataclass(frozen=True)
class MarginalEvents(PlannedEvents):
    """One-way histograms; a subclass adds what else its generator measures."""

    columns: GaussianEvent


class KnownColumns(Protocol):
    """Columns of rows that are known before the others are drawn, told by released numbers alone."""

    @property
    def alone(self) -> Schema:
        """The schema of the other columns, which are counted."""

    def complete(self, drawn: Discretizer, measured: OneWay) -> tuple[Discretizer, tuple[Factor, ...]]:
        """The codes of all columns, by those of the counted ones, and the log shares of the codes of known ones."""


class MarginalGenerator(PrivateGenerator):
    """Noisy marginals, and a distribution estimated from them."""

    counts_alone: ClassVar[bool] = True
    n_bins: int

    def plan(self, schema: Schema) -> Plan:
        """The events of rows."""
        return self.row_plan(schema)

    def row_plan(self, schema: Schema, n_known: int = 0) -> Callable[[float], MarginalEvents]:
        """One-way histograms first, at their share of the cost, then the generator's other events.
        `n_known`: columns that are known and not counted.
        """
        raise NotImplementedError

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> MarginalModel:
        """A model of the table. `train`: *Sensitive*. Real rows."""
        fit = start(self, train, schema, budget, progress, seed)
        shares, n_rows = fit.entity_shares()
        model, _ = self.fitted(fit, fit.planned(self.row_plan(fit.schema)))
        return replace(
            model, statement=fit.statement(), default_rows=n_rows, entity_shares=shares, parameters=self.parameters()
        )

    def fitted(
        self, fit: PrivateFit, events: Any, known: KnownColumns | None = None
    ) -> tuple[MarginalModel, OneWay]:  # fmt: skip
        """A model of rows by these events, and the measurements of single columns; known ones are not counted."""
        counted, factors = fit, tuple[Factor, ...]()
        if known is not None:
            counted = replace(fit, train=fit.train.under(known.alone), schema=known.alone)
        codes, one_way = counted.columns(events.columns, Merging(self.n_bins))
        if known is not None:
            codes, factors = known.complete(codes, one_way)
        distribution = self._estimated(fit, events, codes, one_way, factors)
        return MarginalModel(self.name, fit.schema, None, 1, codes, distribution), one_way

    def _estimated(
        self, fit: PrivateFit, events: Any, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField | LatentClasses:
        """The distribution after all measurements."""
        raise NotImplementedError


class Independent(MarginalGenerator):
    """One noisy histogram per column; rows are drawn column by column."""

    name: ClassVar[str] = "independent"
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes of a number or time, about.")

    def row_plan(self, schema: Schema, n_known: int = 0) -> Callable[[float], MarginalEvents]:
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        return lambda rho: MarginalEvents(gaussian_of_rho(COLUMNS, rho, count=n_columns, sensitivity=k))

    def _estimated(
        self, fit: PrivateFit, events: MarginalEvents, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField:
        """The product of the columns' distributions."""
        return estimate(discretizer.sizes, one_way)
