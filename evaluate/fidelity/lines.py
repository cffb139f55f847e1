"""Values of one column on a line, place by place, and missing ones: counts by group of the half-samples."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluate.intervals import Rate, design_effect_of_sums, replicate_groups, wilson


@dataclass(frozen=True, eq=False)
class OrderedValues:
    values: np.ndarray  # the distinct ones, ascending; shape (n_values,)
    counts: np.ndarray  # how many rows of each group have them, shape (n_groups, n_values)

    @classmethod
    def of(cls, positions: np.ndarray, groups: np.ndarray, n_groups: int) -> Self:
        """The present ones of positions that are NaN where missing; both of shape (n,)."""
        present = ~np.isnan(positions)
        values, places = np.unique(positions[present], return_inverse=True)
        return cls(values, _by_group(groups[present], places, len(values), n_groups))

    @property
    def is_empty(self) -> bool:
        return len(self.values) == 0

    def deviation(self) -> np.ndarray:
        """The standard deviation, exactly 0 for one value throughout or none; shape (n_replicates,)."""
        if len(self.values) < 2:
            return np.zeros(len(replicate_groups(len(self.counts))))
        scale = max(-float(self.values[0]), float(self.values[-1]))
        scaled = self.values / scale
        centered = scaled - np.average(scaled, weights=self.counts.sum(axis=0))
        return scale * _deviation(np.array([self.counts @ centered**power for power in range(3)]))


def _by_group(groups: np.ndarray, places: np.ndarray, n_places: int, n_groups: int) -> np.ndarray:
    cells = groups * np.int64(n_places) + places
    return np.bincount(cells, minlength=n_groups * n_places).reshape(n_groups, n_places)


def _deviation(moments: np.ndarray) -> np.ndarray:
    """From counts, sums and sums of squares by group, shape (3, n_groups)."""
    n, total, squares = moments @ replicate_groups(moments.shape[1]).T
    n = np.maximum(n, 1.0)
    return np.asarray(np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


@dataclass(frozen=True)
class MissingCounts:
    n: int
    missing: int
    sizes_squared: float
    missing_squared: float
    products: float

    @classmethod
    def of(cls, missing: np.ndarray, units: np.ndarray) -> Self:
        """From which rows miss it, and the entity of each as a code from 0; both of shape (n,)."""
        sizes = np.bincount(units).astype(np.float64)
        gone = np.bincount(units, weights=missing)
        return cls(len(units), int(missing.sum()), float(sizes @ sizes), float(gone @ gone), float(sizes @ gone))

    def rate(self) -> Rate:
        """The share with its score interval, on as many rows as tell as much, as `intervals.clustered` does."""
        sums = self.sizes_squared, self.missing_squared, self.products
        return wilson(self.missing / self.n, self.n / design_effect_of_sums(self.n, self.missing, *sums))
