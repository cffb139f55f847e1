"""AIM: marginals chosen one by one where the model so far is worst, measured, and the model estimated anew.

Source: McKenna, Mullins, Sheldon, Miklau 2022 (2201.12677), Algorithms 2 and 3.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from synth.domain import Discretizer
from synth.domain.counts import Coarsening
from synth.dp.events import GaussianEvent, NamedEvents, SelectionEvent, gaussian_of_rho
from synth.dp.schedule import approximate_rho, resolve_delta
from synth.generators.fitting.private_fit import COLUMNS, Known, OneWay, PrivateFit, known_names, start_from
from synth.generators.fitting.selection import (
    CHOICES_FIELD,
    EXPONENTIAL,
    NOISY_PAIRS,
    Choices,
    NoisyPairEvents,
    NoisyPairs,
    Search,
    Weight,
    Workload,
    best_of,
    check_workload,
    column_weights,
    noisy_pair_events,
)
from synth.generators.marginal_generator import MarginalEvents, MarginalGenerator
from synth.generators.models.constraints import affordable, structural_zeros
from synth.marginals import Factor, MarkovRandomField, Measurement
from synth.marginals.factor import CELLS_A_MB
from synth.schema import Schema

N_STAGES = 3  # the noise of a round shrinks from stage to stage, as annealing does, by steps that are fixed beforehand
GROWTH = 2.0  # a round of one stage costs so many times what one of the stage before cost
ROUNDS, ROUNDS_POWER = 0.085, 0.35
"""Rounds for each attribute, coarse ones included, are so many times this power of the signal. The signal is units of
privacy in standard deviations of the noise of a release that costs everything.
"""
NARROW_ROUNDS, MOST_PAIRS = 1.25, 40_000
"""`ROUNDS` for all attributes of a wide table together, and the pairs of columns that all other rounds look at."""
LEAST_ROUNDS, MOST_ROUNDS_A_COLUMN = 3, 4


@dataclass(frozen=True)
class StageEvents(NamedEvents):
    """The choices of a stage, `None` where they are free, and the measurement of what they choose."""

    choices: SelectionEvent | None
    marginals: GaussianEvent


@dataclass(frozen=True)
class AimEvents(MarginalEvents):
    """One-way histograms, noisy pairs if choices are from these, then stage by stage.

    A table of one column has no stages.
    """

    noisy_pairs: NoisyPairEvents | None = None
    stages: tuple[StageEvents, ...] = ()


class Aim(MarginalGenerator):
    """Adaptive and iterative mechanism: marginals of two and three columns, those that matter most first.

    DEVIATES: the paper lets noise shrink when a round has gained little. So the number of rounds and their costs depend
    on the data, and a filter has to keep the books (rho is converted by Renyi divergences). Here rounds and noise are
    fixed before the first row is read. Privacy loss distributions then price them, which leaves 13% more rho at epsilon
    1 and delta 1e-6. The last round spends exactly what is left, and time and error are known before.

    DEVIATES: with noise, a number of many codes is an attribute twice: by its codes, and by a few coarse ones from
    released counts. A round may measure either, as if the workload held both.
    """

    name: ClassVar[str] = "aim"
    degree: Literal[2, 3] = Field(default=3, description="Most columns of one marginal.")
    n_bins: int = Field(default=24, ge=2, le=1000, description="Codes of a number or time, about.")
    coarse_codes: int = Field(
        default=8, ge=0, le=1000, description="Codes of a number in larger marginals as well; 0: none."
    )
    max_model_mb: float = Field(default=4.0, ge=0.01, le=4096, description="Size of the model's tables at most.")
    max_cells: int = Field(default=20_000, ge=100, description="Cells of one marginal at most.")
    rounds: int | None = Field(default=None, ge=1, le=1000, description="Marginals to measure; `None`: by the budget.")
    focus: float = Field(default=1.0, ge=0, le=100, description="How much more the target and sensitive columns weigh.")
    workload: dict[str, Weight] = Field(default={}, description="Weights of columns, beside `focus`; 1 unless named.")
    columns_share: float = Field(default=0.15, gt=0, lt=1, description="Share for columns.")
    choices: Choices = CHOICES_FIELD
    choices_share: float = Field(
        default=0.1, gt=0, lt=1, description="Share of the rest for choices; doubled by noisy pairs."
    )
    n_draws: int = Field(default=100_000, ge=100, description="Rows at most drawn to score what to measure.")
    n_iterations: int = Field(default=1000, ge=1, description="Steps of the last estimation at most.")

    @model_validator(mode="after")
    def _leaves_a_share(self) -> Self:
        if self.choices == NOISY_PAIRS and self.choices_share >= 0.5:
            raise ValueError(
                f"choices_share={self.choices_share:g} is doubled by choices={NOISY_PAIRS!r} and leaves nothing to "
                "measure; choose a share below 0.5"
            )
        return self

    def check(self, schema: Schema) -> None:
        super().check(schema)
        check_workload(self.workload, schema)

    @property
    def conditional(self) -> bool:
        """True if choices are made by exact scores, which may be of rows given others."""
        return bool(self.choices == EXPONENTIAL)

    def row_events(self, schema: Schema, n_known: int = 0) -> Callable[[float], AimEvents]:
        n_columns, k = len(schema.modeled) - n_known, schema.max_rows_per_unit
        if n_columns == 1 and not n_known:
            return lambda rho: AimEvents(gaussian_of_rho(COLUMNS, rho, count=1, sensitivity=k))
        is_exact, columns, rest = self.choices == EXPONENTIAL, self.columns_share, 1 - self.columns_share
        pairs, choices = (0.0, self.choices_share) if is_exact else (2 * self.choices_share * rest, 0.0)

        def stage(number: int, n_rounds: int, rho: float) -> StageEvents:
            return StageEvents(
                SelectionEvent.of_rho(f"choices of marginals, stage {number}", choices * rho, n_rounds)
                if is_exact
                else None,
                gaussian_of_rho(f"marginals, stage {number}", (1 - choices) * rho, count=n_rounds, sensitivity=k),
            )

        return lambda rho: AimEvents(
            gaussian_of_rho(COLUMNS, columns * rho, count=n_columns, sensitivity=k),
            None if is_exact else noisy_pair_events(pairs * rho, schema),
            tuple(
                stage(number, n_rounds, share * (rest - pairs) * rho)
                for number, (n_rounds, share) in enumerate(self.stages(schema), start=1)
            ),
        )

    def stages(self, schema: Schema) -> list[tuple[int, float]]:
        """Rounds of each stage, which have the same noise, and their share of the cost; public."""
        n_rounds = self.n_rounds(schema)
        n_stages = min(N_STAGES, n_rounds)
        counts = [(n_rounds + index) // n_stages for index in range(n_stages)]
        costs = [count * GROWTH**index for index, count in enumerate(counts)]
        return [(count, cost / sum(costs)) for count, cost in zip(counts, costs, strict=True)]

    def n_rounds(self, schema: Schema) -> int:
        """The number of marginals that are measured: more where the budget lets each of them say something; public."""
        n_columns = len(schema.modeled)
        most = MOST_ROUNDS_A_COLUMN * n_columns
        if self.rounds is not None:
            return self.rounds
        if self.epsilon is None or schema.n_units is None:
            return most
        rho = approximate_rho(self.epsilon, resolve_delta(self.delta, schema))
        signal = math.pow(schema.n_units * math.sqrt(2 * rho), ROUNDS_POWER)
        at_most = max(NARROW_ROUNDS * signal, MOST_PAIRS / max(math.comb(n_columns, 2), 1))
        # Columns, and once more those that may have coarse codes.
        n_attributes = n_columns + sum(schema.columns[n].is_line for n in schema.modeled) * (self.coarse_codes > 0)
        wanted = min(ROUNDS * n_attributes * signal, at_most)
        return max(min(round(wanted), most), LEAST_ROUNDS)

    def marginal_weights(self, schema: Schema) -> Workload:
        """The workload with the weight of each column: that of `workload`, times 1 + `focus` by its role; public."""
        return Workload(column_weights(self.workload, self.focus, schema), self.degree)

    def _estimated(
        self, fit: PrivateFit, events: AimEvents, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField:
        coarsening = self._coarsening(fit, discretizer, one_way, known)
        coded = fit.train.coded(discretizer)
        table = coded.coarse(coarsening)
        refined = [Factor(pair, np.where(together, 0.0, -np.inf)) for pair, together in coarsening.zeros()]
        max_model_cells = self.max_model_mb * CELLS_A_MB
        zeros = affordable([*refined, *structural_zeros(fit.schema, discretizer)], table.domain, max_model_cells / 2)
        weights = self.marginal_weights(fit.schema)
        noisy = None
        if events.noisy_pairs is not None:
            noisy = NoisyPairs.measure(coded, fit.schema, discretizer, one_way, events.noisy_pairs, fit.budget)
        search = Search(table, weights, zeros, self.max_cells, max_model_cells, self.n_draws, known_names(known), noisy)
        model, measurements = self._search(fit, events.stages, search, one_way, known)
        fit.progress("estimating the distribution", None)
        return search.estimate(measurements, model, self.n_iterations)

    def _coarsening(self, fit: PrivateFit, discretizer: Discretizer, one_way: OneWay, known: Known) -> Coarsening:
        """Coarse attributes where noise fills large marginals: none without noise, nor where they fill the model."""
        if not (fit.promises and self.coarse_codes):
            return Coarsening({})
        masses = {measurement.clique[0]: np.asarray(measurement.values) for measurement in one_way}
        masses |= {factor.attributes[0]: np.exp(factor.log_values) for factor in known}
        coarsening = Coarsening.of(discretizer, masses, self.coarse_codes)
        cells = sum(together.size for _, together in coarsening.zeros())
        return coarsening if cells <= self.max_model_mb * CELLS_A_MB / 4 else Coarsening({})

    def _search(
        self, fit: PrivateFit, stages: Sequence[StageEvents], search: Search, one_way: OneWay, known: Known
    ) -> tuple[MarkovRandomField, list[Measurement]]:
        measurements = list(one_way)
        model = search.estimate(measurements, start_from(known, search.table.domain))
        done, n_rounds, used = 0, sum(stage.marginals.count for stage in stages), self.columns_share
        for stage, (_, share) in zip(stages, self.stages(fit.schema), strict=False):
            choices, event = stage.choices, stage.marginals
            for _ in range(event.count):
                used += (1 - self.columns_share) * share / event.count
                candidates = search.candidates(model, min(used, 1.0))
                scores = search.scores(model, candidates, event.sigma, fit.rng)
                clique = candidates[best_of(scores, choices, fit.budget, fit.schema.max_rows_per_unit)]
                noisy = fit.budget.release(search.counts(clique), event)
                measurements.append(Measurement(clique, noisy.astype(np.float64), event.sigma))
                model = search.estimate(measurements, model)
                done += 1
                fit.progress("measuring marginals", done / n_rounds)
        return model, measurements
