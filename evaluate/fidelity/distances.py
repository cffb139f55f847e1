"""How far one column of two tables lies apart: Kolmogorov-Smirnov, Wasserstein and the chi-square of counts."""

from dataclasses import dataclass
from typing import Self

import numpy as np

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
    def of(cls, positions: np.ndarray, groups: np.ndarray) -> Self:
        """The present ones of positions that are NaN where missing."""
        order = np.argsort(positions, kind="stable")[: int((~np.isnan(positions)).sum())]
        return cls(positions[order], groups[order])

    def deviation(self, n_groups: int) -> np.ndarray:
        """The standard deviation, exactly 0 for one value throughout or none; shape (n_replicates,)."""
        replicates = replicate_groups(n_groups)
        if len(self.values) == 0 or self.values[0] == self.values[-1]:
            return np.zeros(len(replicates))
        scale = max(-float(self.values[0]), float(self.values[-1]))
        scaled = self.values / scale
        centered = scaled - scaled.mean()
        moments = [np.bincount(self.groups, weights=centered**power, minlength=n_groups) for power in range(3)]
        n, total, squares = (replicates @ moment for moment in moments)
        n = np.maximum(n, 1.0)
        return np.asarray(scale * np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


@dataclass(frozen=True)
class Gaps:
    """The empirical distribution function of a column in one table less that in another, on all their values.

    Attributes:
        grid: values of both, ascending; shape (n_values,).
        differences: at each of them, shape (n_replicates, n_values).
        present: whether either side has a value, shape (n_replicates,); none of them counts as no gap.
        alone: whether only one side has one, shape (n_replicates,).
    """

    grid: np.ndarray
    differences: np.ndarray
    present: np.ndarray
    alone: np.ndarray

    @classmethod
    def between(cls, first: Line, second: Line, n_groups: int) -> Self:
        """The gaps between two tables."""
        grid = np.unique(np.concatenate([first.values, second.values]))
        (below, n_first), (others, n_second) = (_below(line, grid, n_groups) for line in (first, second))
        return cls(grid, below - others, (n_first + n_second) > 0, (n_first > 0) != (n_second > 0))

    @property
    def kolmogorov_smirnov(self) -> np.ndarray:
        """The largest gap, ties right; 1, the worst, where only one side has a value; shape (n_replicates,)."""
        if len(self.grid) == 0:
            return np.zeros(len(self.alone))
        return np.where(self.alone, 1.0, np.where(self.present, np.abs(self.differences).max(axis=1), 0.0))

    @property
    def wasserstein(self) -> np.ndarray:
        """The area between the two functions, in units of the column; shape (n_replicates,)."""
        return np.asarray(np.abs(self.differences[:, :-1]) @ np.diff(self.grid))


def _below(line: Line, grid: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of values at or below each point, shape (n_replicates, n_values), and how many values there are."""
    cells = line.groups * np.int64(len(grid)) + np.searchsorted(grid, line.values)
    counts = np.bincount(cells, minlength=n_groups * len(grid)).reshape(n_groups, len(grid))
    summed = replicate_groups(n_groups) @ np.cumsum(counts, axis=1, dtype=np.float64)
    n = summed[:, -1] if len(grid) else np.zeros(len(summed))
    summed /= np.maximum(n, 1.0)[:, None]
    return summed, n


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
    from scipy import special

    n_first, n_second = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    both = first + second
    balance = (first * n_second - second * n_first) ** 2 / np.maximum(both, 1.0)
    statistic = balance.sum(axis=1) / (n_first * n_second)[:, 0]
    degrees = int((both[0] > 0).sum()) - 1
    effect = np.sqrt(np.minimum(statistic / both.sum(axis=1), 1.0))
    p = float(special.chdtrc(degrees, statistic[0])) if degrees > 0 else 1.0
    return ChiSquare(statistic, effect, degrees, p)
