"""Spearman's rank correlation of all pairs of columns, with replicates."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluate.fidelity.associations import LEAST_VARIANCE
from evaluate.intervals import replicate_groups


@dataclass(frozen=True)
class _Ranks:
    """One column among some rows.

    Attributes:
        places: the order of the values as whole numbers, equal for equal values, shape (n,).
        ranks: middle ranks over n, centered; in (-1/2, 1/2), shape (n,).
    """

    places: np.ndarray
    ranks: np.ndarray

    @classmethod
    def of(cls, places: np.ndarray) -> Self:
        counts = np.bincount(places)
        middle = np.cumsum(counts) - counts / 2
        return cls(places, middle[places] / len(places) - 0.5)

    def above(self, weights: np.ndarray) -> np.ndarray:
        """For each row the mean over all rows of the weights of those above it, ties by half; shape (n,)."""
        sums = np.bincount(self.places, weights=weights)
        return np.asarray((sums.sum() - np.cumsum(sums) + sums / 2)[self.places] / len(weights))


def spearman(numbers: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """The rank correlation of all pairs of columns, over the rows where both are present, ties by middle ranks.

    Replicates are taken to first order, by the influence of each row on the correlation, since ranks would have to be
    found anew in each of them.

    Args:
        numbers: shape (n, d); NaN where missing.
        groups: in [0, n_groups), shape (n,).
        n_groups: how many groups there are, 16 or 1.

    Returns:
        Shape (n_replicates, d, d), in [-1, 1] or NaN where a column is constant among the rows.

    Source: Croux & Dehon 2010, "Influence functions of the Spearman and Kendall correlation measures", eq. 3, for
    distributions with ties.
    """
    d = numbers.shape[1]
    present = ~np.isnan(numbers)
    places = np.column_stack([_places(column) for column in numbers.T]) if d else np.zeros((len(numbers), 0), int)
    whole = {a: _Ranks.of(places[:, a]) for a in range(d) if present[:, a].all()}
    found = np.full((len(replicate_groups(n_groups)), d, d), np.nan)
    for a in range(d):
        for b in range(a + 1, d):
            if a in whole and b in whole:
                pair, kept = (whole[a], whole[b]), groups
            else:
                rows = np.flatnonzero(present[:, a] & present[:, b])
                pair, kept = (_Ranks.of(places[rows, a]), _Ranks.of(places[rows, b])), groups[rows]
            found[:, a, b] = found[:, b, a] = _replicates(*pair, kept, n_groups)
    return found


def _places(column: np.ndarray) -> np.ndarray:
    """The order of the values as whole numbers from 0; anything where missing."""
    return np.asarray(np.unique(column, return_inverse=True)[1])


def _replicates(first: _Ranks, second: _Ranks, groups: np.ndarray, n_groups: int) -> np.ndarray:
    u, v = first.ranks, second.ranks
    n_replicates = len(replicate_groups(n_groups))
    if len(u) == 0:
        return np.full(n_replicates, np.nan)
    own, other, both = float(u @ u) / len(u), float(v @ v) / len(v), float(u @ v) / len(u)
    if min(own, other) <= LEAST_VARIANCE:
        return np.full(n_replicates, np.nan)
    correlation = both / np.sqrt(own * other)
    joint = u * v + first.above(v) + second.above(u) - 3 * both
    alone = [(rank.ranks**2 + 2 * rank.above(rank.ranks)) for rank in (first, second)]
    influence = joint / np.sqrt(own * other) - correlation / 2 * (alone[0] / own + alone[1] / other - 6)
    chosen = replicate_groups(n_groups)
    counts, sums = (np.bincount(groups, weights, n_groups) for weights in (np.ones(len(u)), influence))
    return np.asarray(np.clip(correlation + chosen @ sums / np.maximum(chosen @ counts, 1.0), -1.0, 1.0))
