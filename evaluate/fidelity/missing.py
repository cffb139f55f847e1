"""The share of missing values of a column, with an interval that knows how alike rows of an entity are."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluate.intervals import Rate, wilson


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
        """The share with its score interval, on as many rows as tell as much: as `evaluate.intervals.clustered` has it.

        Source: Kish 1965, "Survey Sampling", section 8.2; the variance of a ratio by its clusters.
        """
        share, effect = self.missing / self.n, self.sizes_squared / self.n
        if 0 < self.missing < self.n and effect > 1.0:
            residuals = self.missing_squared - 2 * share * self.products + share**2 * self.sizes_squared
            effect = max(1.0, residuals / (self.n * share * (1 - share)))
        return wilson(share, self.n / effect)
