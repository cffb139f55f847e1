"""How far one column of two tables lies apart: the Kolmogorov-Smirnov distance and the chi-square of counts."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from evaluate.intervals import replicate_groups


@dataclass(frozen=True)
class Line:
    """Values of one column on a line.

    Attributes:
        values: present values, ascending; shape (n,).
        groups: the group of each, shape (n,).
    """

    values: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray, groups: np.ndarray) -> "Line":
        """The present ones of positions that are NaN where missing."""
        order = np.argsort(positions, kind="stable")[: int((~np.isnan(positions)).sum())]
        return cls(positions[order], groups[order])


def kolmogorov_smirnov(first: Line, second: Line, n_groups: int) -> np.ndarray:
    """The largest gap between two empirical distribution functions, ties right; shape (n_replicates,), in [0, 1].

    Where only one side has any value the distance is 1, the worst; where neither has, it is 0.
    """
    grid = np.unique(np.concatenate([first.values, second.values]))
    ranks = np.searchsorted(grid, first.values), np.searchsorted(grid, second.values)
    weights = replicate_groups(n_groups)
    found = [
        _gap(*(np.bincount(r, kept[of.groups], len(grid)) for r, of in zip(ranks, (first, second), strict=True)))
        for kept in weights
    ]
    return np.array(found)


def _gap(first: np.ndarray, second: np.ndarray) -> float:
    n_first, n_second = first.sum(), second.sum()
    if n_first == 0 or n_second == 0:
        return float(n_first != n_second)
    return float(np.abs(np.cumsum(first) / n_first - np.cumsum(second) / n_second).max())


@dataclass(frozen=True)
class ChiSquare:
    """Pearson's chi-square of two samples' counts.

    Attributes:
        statistic: on all rows, then on half-samples; shape (n_replicates,).
        cramers_v: its effect size, in [0, 1]; shape (n_replicates,).
        degrees: degrees of freedom, on all rows.
        p: of the statistic, on all rows. It measures n, not quality: never gate on it.
    """

    statistic: np.ndarray
    cramers_v: np.ndarray
    degrees: int
    p: float


def chi_square(first: np.ndarray, second: np.ndarray) -> ChiSquare:
    """Whether two rows of counts could come from one distribution; expected counts are pooled.

    Args:
        first: counts by category of one sample, shape (n_replicates, n_categories).
        second: counts of the other one, same shape.
    """
    n_first, n_second = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    both = first + second
    balance = (first * n_second - second * n_first) ** 2 / np.maximum(both, 1.0)
    statistic = balance.sum(axis=1) / (n_first * n_second)[:, 0]
    degrees = int((both[0] > 0).sum()) - 1
    effect = np.sqrt(np.minimum(statistic / both.sum(axis=1), 1.0))
    p = float(stats.chi2.sf(statistic[0], degrees)) if degrees > 0 else 1.0
    return ChiSquare(statistic, effect, degrees, p)
