"""Marginal generators: their base, columns on their own (`independent`), and a tree of pairs (`mst`).

A fit measures one-way histograms, then further marginals, and estimates a distribution over codes from them. `aim` and
`latent_class` do so in modules of their own. `independent` is the floor that every generator has to beat.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import Field, field_validator

from synth.domain import Discretizer
from synth.domain.counts import Counts
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, NamedEvents, SelectionEvent, gaussian_of_rho
from synth.dp.schedule import EventsOfRho
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import (
    COLUMNS,
    Known,
    Merging,
    OneWay,
    PrivateFit,
    known_names,
    start,
    start_from,
)
from synth.generators.fitting.selection import (
    CHOICES_FIELD,
    EXPONENTIAL,
    FOCUS,
    NOISY_PAIRS,
    Choices,
    NoisyPairEvents,
    NoisyPairs,
    best_of,
    focused_and_others,
    noisy_pair_events,
)
from synth.generators.models.constraints import affordable, structural_zeros
from synth.generators.models.fitted import MarginalModel
from synth.marginals import Clique, Factor, LatentClasses, MarkovRandomField, Measurement, estimate
from synth.marginals.factor import CELLS_A_MB, MEAN_ABSOLUTE
from synth.marginals.junction_tree import cells_with_one_more, pieces
from synth.progress import Progress, quiet
from synth.schema import Schema


@dataclass(frozen=True)
class MarginalEvents(NamedEvents):
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
    n_bins: int | None

    def bins(self, schema: Schema) -> int:
        """Number of codes of a number or time, about; public."""
        assert self.n_bins is not None
        return self.n_bins

    def own_events(self, schema: Schema) -> EventsOfRho:
        """The events of rows."""
        return self.row_events(schema)

    def row_events(self, schema: Schema, n_known: int = 0) -> Callable[[float], MarginalEvents]:
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
        model, _ = self.fitted(fit, fit.scheduled_events(self.row_events(fit.schema)))
        return replace(
            model, statement=fit.statement(), default_rows=n_rows, entity_shares=shares, parameters=self.parameters()
        )

    def fitted(
        self, fit: PrivateFit, events: Any, known: KnownColumns | None = None
    ) -> tuple[MarginalModel, OneWay]:  # fmt: skip
        """A model of rows by these events, and the measurements of single columns; known ones are not counted."""
        fit_of_others, factors = fit, tuple[Factor, ...]()
        if known is not None:
            fit_of_others = replace(fit, train=fit.train.under(known.alone), schema=known.alone)
        codes, one_way = fit_of_others.columns(events.columns, Merging(self.bins(fit.schema)))
        if known is not None:
            codes, factors = known.complete(codes, one_way)
        distribution = self._estimated(fit, events, codes, one_way, factors)
        return MarginalModel(self.name, fit.schema, None, 1, codes, distribution), one_way

    def _estimated(
        self, fit: PrivateFit, events: Any, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField | LatentClasses:
        raise NotImplementedError


class Independent(MarginalGenerator):
    """One noisy histogram per column; rows are drawn column by column."""

    name: ClassVar[str] = "independent"
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes of a number or time, about.")

    def row_events(self, schema: Schema, n_known: int = 0) -> Callable[[float], MarginalEvents]:
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled) - n_known
        return lambda rho: MarginalEvents(gaussian_of_rho(COLUMNS, rho, count=n_columns, sensitivity=k))

    def _estimated(
        self, fit: PrivateFit, events: MarginalEvents, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField:
        return estimate(discretizer.sizes, one_way, warm_start=start_from(known, discretizer.sizes))


CHOICES, PAIRS = "choices of column pairs", "two-way marginals of the tree"
SHARES_TOLERANCE = 1e-6
Share = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class TreeEvents(NamedEvents):
    """The choices of the tree's pairs, or the noisy pairs that they are made from, and the tree's measurement.

    Of the first two one is `None`.
    """

    choices: SelectionEvent | None
    noisy_pairs: NoisyPairEvents | None
    pairs: GaussianEvent


@dataclass(frozen=True)
class MstEvents(MarginalEvents):
    """One-way histograms and the tree; a table of one column has no tree."""

    tree: TreeEvents | None


class Mst(MarginalGenerator):
    """Maximum spanning tree of noisy two-way marginals: a tree chosen privately, and its marginals measured.

    Source: McKenna, Miklau, Sheldon 2021 (2108.04978), Algorithm 1.
    """

    name: ClassVar[str] = "mst"
    n_bins: int = Field(default=32, ge=2, le=1000, description="Codes of a number or time, about.")
    max_cells: int = Field(default=250_000, ge=100, description="Cells of one two-way marginal at most.")
    max_model_mb: float = Field(default=64.0, ge=0.01, le=4096, description="Size of the model's tables at most.")
    n_iterations: int = Field(default=1000, ge=1, description="Steps of the estimation at most.")
    choices: Choices = CHOICES_FIELD

    # DEVIATES: the paper spends a third on each. Choices need less: on Adult at epsilon 1 the mean total variation of
    # triples falls from .0944 to .0910.
    shares: tuple[Share, Share, Share] = Field(
        default=(0.2, 0.1, 0.7), description="Of the budget: columns, choices (doubled by noisy pairs), pairs."
    )

    @field_validator("shares")
    @classmethod
    def _whole(cls, shares: tuple[float, float, float]) -> tuple[float, float, float]:
        if abs(sum(shares) - 1) > SHARES_TOLERANCE:
            raise ValueError(f"shares add up to {sum(shares):.6g} and must add up to 1; correct one of them")
        return shares

    @property
    def conditional(self) -> bool:
        """True if choices are made by exact scores, which may be of rows given others."""
        return bool(self.choices == EXPONENTIAL)

    def row_events(self, schema: Schema, n_known: int = 0) -> Callable[[float], MstEvents]:
        n_columns, k = len(schema.modeled) - n_known, schema.max_rows_per_unit
        n_pairs = n_columns - (n_known == 0)
        if n_pairs == 0:
            return lambda rho: MstEvents(gaussian_of_rho(COLUMNS, rho, count=1, sensitivity=k), None)
        columns, choices, pairs = self._shares
        exponential = self.choices == EXPONENTIAL
        return lambda rho: MstEvents(
            gaussian_of_rho(COLUMNS, columns * rho, count=n_columns, sensitivity=k),
            TreeEvents(
                SelectionEvent.of_rho(CHOICES, choices * rho, n_pairs) if exponential else None,
                None if exponential else noisy_pair_events(choices * rho, schema),
                gaussian_of_rho(PAIRS, pairs * rho, count=n_pairs, sensitivity=k),
            ),
        )

    @property
    def _shares(self) -> tuple[float, float, float]:
        """Shares of the cost of columns, choices and pairs, which add up to 1."""
        columns, choices, pairs = self.shares
        if self.choices == NOISY_PAIRS:
            choices *= 2
        whole = columns + choices + pairs
        return columns / whole, choices / whole, pairs / whole

    def _estimated(
        self, fit: PrivateFit, events: MstEvents, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> MarkovRandomField:
        table = fit.train.coded(discretizer)
        zeros = affordable(structural_zeros(fit.schema, discretizer), table.domain, self._max_model_cells / 2)
        measurements, start = list(one_way), start_from(known, table.domain)
        if events.tree is not None:
            apart = estimate(table.domain, one_way, zeros=zeros, warm_start=start)
            kept = [zero.attributes for zero in zeros]
            noisy = None
            if events.tree.noisy_pairs is not None:
                noisy = NoisyPairs.measure(table, fit.schema, discretizer, one_way, events.tree.noisy_pairs, fit.budget)
            focused = frozenset(focused_and_others(fit.schema)[0])
            candidates, scores = self._score(table, apart, events.tree.pairs.sigma, noisy, focused, fit.progress)
            choose = partial(
                best_of, event=events.tree.choices, budget=fit.budget, sensitivity=fit.schema.max_rows_per_unit
            )
            tree = self._choose_tree(choose, table, candidates, scores, kept, known_names(known))
            fit.progress("measuring pairs", None)
            released = fit.budget.release_each(list(table.each(tree)), events.tree.pairs)
            for clique, counts in zip(tree, released, strict=True):
                measurements.append(Measurement(clique, counts.astype(np.float64), events.tree.pairs.sigma))
        fit.progress("estimating the distribution", None)
        return estimate(table.domain, measurements, n_iterations=self.n_iterations, zeros=zeros, warm_start=start)

    @property
    def _max_model_cells(self) -> float:
        return self.max_model_mb * CELLS_A_MB

    def _choose_tree(
        self,
        choose: Callable[[np.ndarray], int],
        table: Counts,
        candidates: Sequence[Clique],
        scores: np.ndarray,
        kept: Sequence[Clique],
        known: frozenset[str],
    ) -> list[Clique]:
        """The edges of a spanning tree, each chosen among the pairs that would join two parts; known columns are one.

        Together with the cliques of the structural zeros, which the model holds anyway, they may close loops. A pair
        that would make the model too large is left out, which is public.
        """
        tree: list[Clique] = []
        while True:
            open_pairs = np.flatnonzero(self._open(table.domain, kept, tree, tuple(sorted(known)), candidates))
            if len(open_pairs) == 0:
                return tree
            tree.append(candidates[open_pairs[choose(scores[open_pairs])]])

    def _open(
        self,
        domain: Mapping[str, int],
        kept: Sequence[Clique],
        tree: Sequence[Clique],
        known: Clique,
        pairs: Sequence[Clique],
    ) -> list[bool]:
        """True for pairs that join two parts of the tree and leave the model within its limit; public."""
        part, linked = pieces(domain, [*tree, known]), pieces(domain, [*kept, *tree])
        cells = cells_with_one_more(domain, [*kept, *tree])
        room = self._max_model_cells - cells(())

        def fits(a: str, b: str) -> bool:
            if linked[a] != linked[b]:
                return domain[a] * domain[b] <= room
            return cells((a, b)) <= self._max_model_cells

        return [part[a] != part[b] and fits(a, b) for a, b in pairs]

    def _score(
        self,
        table: Counts,
        model: MarkovRandomField,
        sigma: float,
        noisy: NoisyPairs | None,
        focused: frozenset[Clique],
        progress: Progress,
    ) -> tuple[list[Clique], np.ndarray]:
        """Public candidate pairs and how far independence is from each: one unit moves a score by at most k.
        `table`: *Sensitive*. Counts of the real rows.
        """
        candidates: list[Clique] = [
            (a, b) for a, b in combinations(table.domain, 2) if table.domain[a] * table.domain[b] <= self.max_cells
        ]
        expected = map(model.marginal, candidates)
        if noisy is None:  # L1 distances of counts from what the model expects: *Sensitive*
            counted = zip(table.each(candidates), expected, strict=True)
            distances = (float(np.abs(exact - counts).sum()) for exact, counts in counted)
        else:  # the same by released pairs
            pairs = zip(candidates, expected, strict=True)
            distances = (noisy.distance(pair, noisy.coarse(pair, counts)) for pair, counts in pairs)
        scores = np.empty(len(candidates))
        for index, (clique, distance) in enumerate(zip(candidates, distances, strict=True)):
            # DEVIATES: the expected error of measuring the pair is taken off, as AIM does (2201.12677, equation 1): it
            # is public, and keeps the tree from large tables that noise would fill.
            n_cells = math.prod(table.domain[name] for name in clique)
            weight = 1.0 if clique in focused else 1 / FOCUS  # at most 1: the sensitivity of a score does not grow
            scores[index] = weight * (distance - MEAN_ABSOLUTE * sigma * n_cells)
            if index % 50 == 0:
                progress("scoring pairs", index / len(candidates))
        return candidates, scores
