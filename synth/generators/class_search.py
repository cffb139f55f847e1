"""The search of a latent class model for what to measure next: pairs by fine codes, triples by coarse ones."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from synth.domain.coarsening import CoarseCounts, fine
from synth.marginals import Clique, Workload
from synth.marginals.class_estimation import ClassEstimation
from synth.marginals.factor import shape_of
from synth.marginals.measurement import MEAN_ABSOLUTE

PENALTY = 0.3
"""Share of a marginal's expected noise that is taken off its score: the estimation's price keeps out the rest."""
MOST_TRIPLES = 20_000
"""Where there are more triples, those are considered that hold a column of the largest weight, if few have it."""

MOST_FINE_CELLS = 4_000_000
"""Cells by fine codes of a candidate, which is counted by them before codes are merged."""


class ClassSearch:
    """A table, and what may be measured of it: candidates are public.

    Args:
        table: *Sensitive*. Counts of the real rows, by fine and coarse codes.
        weights: how much each column matters, positive.
        max_cells: cells of one marginal at most.
    """

    def __init__(self, table: CoarseCounts, weights: Mapping[str, float], max_cells: int) -> None:
        self._table, self._workload = table, Workload(weights, 3)
        names = list(weights)
        pairs: list[Clique] = list(combinations(names, 2))
        triples = (tuple(map(table.coarsening.coarsest, triple)) for triple in _triples(weights))
        counted = {
            clique: math.prod(shape_of(table.domain, map(fine, clique)))
            for clique in (*pairs, *triples)
            if math.prod(shape_of(table.domain, clique)) <= max_cells
        }
        self.cliques = [clique for clique, size in counted.items() if size <= MOST_FINE_CELLS]
        if not self.cliques:  # pairs by coarse codes, once more
            self.cliques = [tuple(map(table.coarsening.coarsest, pair)) for pair in pairs]

    @cached_property
    def counts(self) -> list[NDArray[np.int32]]:
        """*Sensitive*. The exact counts of each candidate; counted once."""
        # Half the memory. Two billion rows in a cell are as many as any: no count wraps around.
        most = np.iinfo(np.int32).max
        return [np.minimum(held, most).astype(np.int32) for held in self._table.each(self.cliques)]

    def scores(self, estimation: ClassEstimation, sigma: float) -> NDArray[np.float64]:
        """*Sensitive*. How much measuring each candidate would gain: one row moves a score by at most 1.

        The error of the model is an L1 distance of counts, which one row moves by at most 1; what is taken off is
        public, and weights are at most 1.

        Args:
            estimation: the model so far.
            sigma: standard deviation of the noise that a cell would get.

        DEVIATES: AIM takes off all of the expected noise, which would be in its model.

        Source: McKenna et al. 2022 (2201.12677), equation 1.
        """
        scores = np.empty(len(self.cliques))
        of_model = zip(self.cliques, self.counts, estimation.expected(self.cliques), strict=True)
        for index, (clique, exact, expected) in enumerate(of_model):
            error = np.abs(exact - expected).sum(dtype=np.float64) - PENALTY * MEAN_ABSOLUTE * sigma * exact.size
            scores[index] = self._workload.weight(tuple(map(fine, clique))) * error
        return scores

    def apart(self, index: int) -> NDArray[np.bool_]:
        """Candidates that share no two columns with one of them: others would tell the same once more."""
        chosen = self._pairs_of[index]
        return np.array([chosen.isdisjoint(pairs) for pairs in self._pairs_of])

    @cached_property
    def _pairs_of(self) -> list[frozenset[Clique]]:
        return [frozenset(combinations(sorted(map(fine, clique)), 2)) for clique in self.cliques]


def _triples(weights: Mapping[str, float]) -> Iterator[Clique]:
    """All triples of columns, or where these are too many, those with a column of the largest weight."""
    heaviest = {name for name, weight in weights.items() if weight == max(weights.values())}
    is_many = math.comb(len(weights), 3) > MOST_TRIPLES
    held = math.comb(len(weights), 3) - math.comb(len(weights) - len(heaviest), 3)
    if is_many and held > MOST_TRIPLES:
        return iter(())
    return (triple for triple in combinations(weights, 3) if not is_many or not heaviest.isdisjoint(triple))
