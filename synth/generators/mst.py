"""MST: one-way marginals, a maximum spanning tree of two-way marginals chosen privately, and the tree's marginals.

Source: McKenna, Miklau, Sheldon 2021 (2108.04978), Algorithm 1.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.calibration import Plan
from synth.dp.events import GaussianEvent, SelectionEvent, gaussian_of_rho
from synth.generators.base import PrivateGenerator
from synth.generators.marginal_model import MarginalModel
from synth.generators.measuring import Fit, start
from synth.marginals import MarkovRandomField, Measurement, estimate
from synth.progress import Progress, quiet
from synth.schema import Schema

COLUMNS, CHOICES, PAIRS = (
    "one-way histograms of the columns",
    "choices of column pairs",
    "two-way marginals of the tree",
)
SHARES_TOLERANCE = 1e-6
Pair = tuple[int, int]
Share = Annotated[float, Field(gt=0, lt=1)]


class Mst(PrivateGenerator):
    """Maximum spanning tree of noisy two-way marginals."""

    name: ClassVar[str] = "mst"
    n_bins: int = Field(default=32, ge=2, le=1000, description="Codes that a number or time is merged into at most.")
    max_cells: int = Field(default=250_000, ge=100, description="Cells of one two-way marginal at most.")
    n_iterations: int = Field(default=1000, ge=1, description="Steps of the estimation at most.")

    shares: tuple[Share, Share, Share] = Field(
        default=(1 / 3, 1 / 3, 1 / 3),
        description="Of the budget: columns, choices of pairs, pairs.",
    )

    @field_validator("shares")
    @classmethod
    def _whole(cls, shares: tuple[float, float, float]) -> tuple[float, float, float]:
        if abs(sum(shares) - 1) > SHARES_TOLERANCE:
            raise ValueError(f"shares add up to {sum(shares):.6g} and must add up to 1; correct one of them")
        return shares

    def plan(self, schema: Schema) -> Plan:
        """Columns, choices and pairs, each at its share; all for the one column where there is no pair."""
        n_columns, k = len(schema.learned), schema.max_rows_per_unit
        if n_columns == 1:
            return lambda rho: [gaussian_of_rho(COLUMNS, rho, count=1, sensitivity=k)]
        columns, choices, pairs = (share / sum(self.shares) for share in self.shares)
        return lambda rho: [
            gaussian_of_rho(COLUMNS, columns * rho, count=n_columns, sensitivity=k),
            SelectionEvent.of_rho(CHOICES, choices * rho, n_columns - 1),
            gaussian_of_rho(PAIRS, pairs * rho, count=n_columns - 1, sensitivity=k),
        ]

    def fit(
        self,
        train: pd.DataFrame,
        schema: Schema,
        *,
        seed: int = 0,
        progress: Progress = quiet,
        budget: Budget | None = None,
    ) -> MarginalModel:
        """A model of the table.

        Args:
            train: *Sensitive*. Real rows, conforming to the schema.
            schema: declared, where epsilon is set.
            seed: unused; noise never takes one, and nothing else is drawn.
            progress: told what is being done.
            budget: on this generator's `schedule`; none: one of its own.
        """
        fit = start(self, train, schema, budget, progress)
        shares, n_rows = fit.entity_shares()
        discretizer, one_way = fit.columns(COLUMNS, self.n_bins, lambda done: progress("measuring columns", done))
        codes = discretizer.encode(fit.train)
        measurements = list(one_way)
        if len(discretizer.columns) > 1:
            tree = self._choose_tree(fit, codes, discretizer, estimate(discretizer.sizes, one_way), progress)
            measurements += self._measure_pairs(fit, codes, discretizer, tree, progress)
        progress("estimating the distribution", None)
        distribution = estimate(discretizer.sizes, measurements, n_iterations=self.n_iterations)
        return MarginalModel(self.name, fit.schema, fit.statement(), n_rows, discretizer, distribution, shares)

    def _choose_tree(
        self, fit: Fit, codes: np.ndarray, discretizer: Discretizer, model: MarkovRandomField, progress: Progress
    ) -> list[Pair]:
        """The edges of a spanning tree, each chosen among the pairs that would join two parts."""
        choices, pairs = fit.event(CHOICES), fit.event(PAIRS)
        assert isinstance(choices, SelectionEvent)
        assert isinstance(pairs, GaussianEvent)
        candidates, scores = self._score(codes, discretizer, model, pairs, progress)
        tree: list[Pair] = []
        part = np.arange(len(discretizer.columns))
        while True:
            open_pairs = np.flatnonzero([part[a] != part[b] for a, b in candidates])
            if len(open_pairs) == 0:
                return tree
            chosen = open_pairs[fit.budget.choose(scores[open_pairs], fit.schema.max_rows_per_unit, choices)]
            a, b = candidates[chosen]
            tree.append((a, b))
            part[part == part[b]] = part[a]

    def _score(
        self,
        codes: np.ndarray,
        discretizer: Discretizer,
        model: MarkovRandomField,
        pairs: GaussianEvent,
        progress: Progress,
    ) -> tuple[list[Pair], np.ndarray]:
        """Public candidate pairs and how far independence is from each: one unit moves a score by at most k."""
        sizes = list(discretizer.sizes.values())
        all_pairs = list(combinations(range(len(sizes)), 2))
        candidates = [(a, b) for a, b in all_pairs if sizes[a] * sizes[b] <= self.max_cells]
        one_way = [model.marginal((name,)) for name in discretizer.columns]
        scores = np.empty(len(candidates))
        for index, (a, b) in enumerate(candidates):
            expected = np.outer(one_way[a], one_way[b]) / max(model.total, 1.0)
            # DEVIATES: the expected error of measuring the pair is taken off, as AIM does (2201.12677, equation 1): it
            # is public, and keeps the tree from large tables that noise would fill.
            penalty = math.sqrt(2 / math.pi) * pairs.sigma * expected.size
            scores[index] = np.abs(_count(codes, a, b, sizes) - expected).sum() - penalty
            if index % 50 == 0:
                progress("scoring pairs", index / len(candidates))
        return candidates, scores

    def _measure_pairs(
        self, fit: Fit, codes: np.ndarray, discretizer: Discretizer, tree: list[Pair], progress: Progress
    ) -> Iterator[Measurement]:
        event = fit.event(PAIRS)
        assert isinstance(event, GaussianEvent)
        names, sizes = discretizer.columns, list(discretizer.sizes.values())
        for index, (a, b) in enumerate(tree):
            noisy = fit.budget.release(_count(codes, a, b, sizes), event)
            yield Measurement((names[a], names[b]), noisy.astype(np.float64), event.sigma)
            progress("measuring pairs", (index + 1) / len(tree))


def _count(codes: np.ndarray, a: int, b: int, sizes: Sequence[int]) -> np.ndarray:
    """Exact two-way counts, shape (sizes[a], sizes[b])."""
    joint = codes[:, a].astype(np.int64) * sizes[b] + codes[:, b]
    return np.bincount(joint, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
