"""The share of missing values of a column, with an interval that knows how alike rows of an entity are."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluate.intervals import Rate, design_effect_of_sums, wilson


@dataclass(frozen=True)
class MissingCounts:
    """How many rows miss a column, and how they lie in entities.

    Attributes:
        n: rows.
        missing: those that miss it.
        sizes_squared: the sum over entities of their rows, squared; `n` where each row is its own.
        missing_squared: of those that miss it, squared.
        products: of both.
    """

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
