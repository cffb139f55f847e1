"""A Chow-Liu tree fitted to noisy pairs, from which rows are drawn to start an estimation."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph

from synth.marginals.latent_class_estimation import CoarseCodes
from synth.marginals.measurement import MEAN_ABSOLUTE, Measurement
from synth.marginals.sampling import sample_categorical


class ChowLiuTree:
    """A spanning tree of the pairs of columns that are furthest from independence; all of it is post-processing.

    Args:
        domain: number of codes of each attribute, in the order of the columns.
        coarse: attributes that merge the codes of others, by name.
        one_way: the measurement of each attribute, in the order of the domain.
        pairs: the measurement of every pair of columns, by fine or coarse attributes.

    DEVIATES: an edge weighs its L1 distance from independence less what noise makes of it, as MST has it (2108.04978).
    Chow and Liu take mutual information.

    Source: Chow & Liu 1968.
    """

    def __init__(
        self,
        domain: Mapping[str, int],
        coarse: Mapping[str, CoarseCodes],
        one_way: Sequence[Measurement],
        pairs: Sequence[Measurement],
    ) -> None:
        self._coarse, self._names = coarse, list(domain)
        self._shares = {each.clique[0]: _shares(each.values) for each in one_way}
        self._pairs = {frozenset(map(self._column, pair.clique)): pair for pair in pairs}
        distances = np.zeros((len(domain), len(domain)))
        for pair in pairs:
            places = sorted(self._names.index(self._column(name)) for name in pair.clique)
            distances[tuple(places)] = self._distance(pair)
        # To SciPy zero is no edge, and the tree is to span all columns: every weight is above zero.
        weights = np.triu(distances.max() - distances + 1, k=1)
        order, parents = csgraph.breadth_first_order(csgraph.minimum_spanning_tree(weights), 0, directed=False)
        self.edges = [(self._names[parents[place]], self._names[place]) for place in order[1:]]
        """Each column but the first with the one that it is drawn given, in the order of drawing."""

    def rows(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows of codes of the domain's attributes, each column drawn given one other; shape (n_rows, n_attributes)."""
        first = self._names[0]
        drawn = {first: sample_categorical(np.tile(self._shares[first], (n_rows, 1)), rng)}
        for parent, child in self.edges:
            chances, groups = self._conditional(parent, child)
            drawn[child] = sample_categorical(chances[groups[drawn[parent]]], rng)
        return np.stack([drawn[name] for name in self._names], axis=1)

    def _column(self, name: str) -> str:
        return self._coarse[name].of if name in self._coarse else name

    def _codes(self, name: str) -> NDArray[np.int64]:
        """For each code of a column, that of an attribute which may merge them."""
        size = len(self._shares[self._column(name)])
        return self._coarse[name].groups if name in self._coarse else np.arange(size)

    def _distance(self, pair: Measurement) -> float:
        """L1 distance of a pair from independence, in rows, less the expected noise."""
        one, other = (np.bincount(self._codes(name), self._shares[self._column(name)]) for name in pair.clique)
        counts = np.asarray(pair.values)
        apart = np.abs(counts - counts.sum() * np.outer(one, other)).sum()
        return float(apart - MEAN_ABSOLUTE * np.broadcast_to(pair.sigma, counts.shape).sum())

    def _conditional(self, parent: str, child: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Distributions of the child given the parent's codes in the pair, and that code for each of the parent's own.

        Returns:
            Shape (n_codes of the parent in the pair, size of the child), and (size of the parent,).
        """
        pair = self._pairs[frozenset((parent, child))]
        counts, (of_parent, of_child) = np.asarray(pair.values), pair.clique
        if self._column(of_parent) != parent:
            counts, of_parent, of_child = counts.T, of_child, of_parent
        groups, shares = self._codes(of_child), self._shares[child]
        within = shares / np.bincount(groups, shares)[groups]
        return _shares(counts)[:, groups] * within, self._codes(of_parent)


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive shares that sum to 1 along the last axis: a negative count is zero, and every cell gets a little."""
    positive = np.maximum(counts, 0.0) + 1e-9
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))
