"""Columns on their own: right in each column, nothing between them. The floor that every generator has to beat."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.events import gaussian_of_rho
from synth.generators.fitting.histograms import COLUMNS
from synth.generators.fitting.private_fit import PrivateFit
from synth.generators.marginal_generator import MarginalEvents, MarginalGenerator
from synth.marginals import MarkovRandomField, Measurement, estimate
from synth.progress import Progress
from synth.schema import Schema


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
