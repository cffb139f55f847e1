"""A Gaussian copula within codes: numbers that go together keep their rank correlation where codes say no more.

Codes of two related numbers rise together, and so do the values within them. Each number has a normal score, whose
interval its code gives; scores are correlated as codes are. They are drawn by Gibbs sampling, in their intervals, and a
score says where in its code a value lies. Codes stay as they are, and each column's distribution does but for the error
of the fit.

It is fitted to codes that a model drew, and reads nothing else: free of any budget.

Source: Hoff 2007 (semiparametric Gaussian copula, with intervals for what is only known as an order).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from synth.domain.discretizer import OTHER, Discretizer

Columns = Mapping[int, np.ndarray] | Sequence[np.ndarray]
FITTED_ROWS, CORRELATED_ROWS = 20_000, 5_000
"""Rows of codes that serve to fit one, and those of its correlation: its error is .014."""
FIT_SWEEPS, DRAW_SWEEPS = 25, 3
"""Sweeps of Gibbs sampling over all columns: twice as many raise a rank correlation within codes by .02 at most."""
RIDGE = 1e-3  # share of independence in the correlation, which keeps its inverse sound
LEAST_WEIGHT = 0.03
"""A column whose weight for another is smaller does not say anything of it: it is no more than the error of the fit."""
DIGITS = 6  # of the weights: no order of summation shows in a drawn table
SMALLEST = 1e-300  # probability at least, whose normal quantile is finite
N_QUANTILES, LEAST_ROWS = 16, 64
"""Quantiles of the scores within a code, and fitted rows with a code, from which on its scores have quantiles."""
BLOCK = 50_000  # rows that are drawn at a time: what they need in memory does not grow with a table


@dataclass(frozen=True)
class Copula:
    """Normal scores of numbers and times, given their codes.
    `places`: position of each of its columns among the columns of codes, shape (d,).
    `limits`: for each column the scores between its codes, ascending, shape (n_codes - 1,), without `other` and
    `missing`.
    `weights`: of each column's scores for the mean of another's, zero for itself, shape (d, d).
    `deviations`: of each score given all others, shape (d,).
    `quantiles`: for each column, shape (n_codes, N_QUANTILES + 1): places of scores within the code's interval, by
    normal probability, at even shares of the rows.
    """

    places: tuple[int, ...]
    limits: tuple[np.ndarray, ...]
    weights: np.ndarray
    deviations: np.ndarray
    quantiles: tuple[np.ndarray, ...]

    @classmethod
    def fitted(cls, discretizer: Discretizer, codes: np.ndarray, rng: np.random.Generator) -> Self | None:
        """The copula of numbers and times, of codes as a model draws them; `None` where no two go together."""
        lines = [(column, each) for column, each in enumerate(discretizer.attributes) if each.edges is not None]
        if len(lines) < 2 or len(codes) < 2:
            return None
        columns = {column: attribute.possible(codes[:, column], rng) for column, attribute in lines}
        limits = []
        for column, attribute in lines:  # the normal scores between codes, by their shares
            shares = np.bincount(columns[column], minlength=attribute.size)[: attribute.size + OTHER] + 1e-9
            limits.append(ndtri(np.cumsum(shares)[:-1] / shares.sum()))
        even = tuple(np.tile(np.linspace(0, 1, N_QUANTILES + 1), (len(ends) + 1, 1)) for ends in limits)
        n_columns = len(lines)
        copula = cls(tuple(columns), tuple(limits), np.zeros((n_columns, n_columns)), np.ones(n_columns), even)
        intervals = copula._intervals(columns, slice(CORRELATED_ROWS))
        scores = _within(*intervals, np.zeros(1), 1.0, rng)
        for _ in range(FIT_SWEEPS):
            copula = cls(copula.places, tuple(limits), *_given_others(scores), even)
            copula._sweep(scores, intervals, rng)
        related = copula._of_related()
        return None if related is None else related._with_quantiles(columns, rng)

    def ranks(
        self, columns: Columns, rng: np.random.Generator, known: Mapping[int, np.ndarray] | None = None
    ) -> dict[int, np.ndarray]:
        """The share of its code's mass below each value, by place, shape (n,) each, as `columns` are."""
        n_rows = len(columns[self.places[0]])
        ranks = {column: np.empty(n_rows) for column in self.places}
        for start in range(0, n_rows, BLOCK):
            rows = slice(start, start + BLOCK)
            intervals = self._intervals(columns, rows)
            for index, column in enumerate(self.places):
                if known and column in known:
                    self._fix(index, columns[column][rows], known[column][rows], intervals)
            scores = self._scores(intervals, rng)
            for index, column in enumerate(self.places):
                ranks[column][rows] = self._ranks(index, columns[column][rows], scores[:, index])
        return ranks

    def _of_related(self) -> Self | None:
        """The copula of those columns alone that say something of another."""
        kept = np.flatnonzero(self.weights.any(axis=0) | self.weights.any(axis=1))
        if len(kept) == 0:
            return None
        return type(self)(
            tuple(self.places[index] for index in kept),
            tuple(self.limits[index] for index in kept),
            self.weights[np.ix_(kept, kept)],
            self.deviations[kept],
            tuple(self.quantiles[index] for index in kept),
        )

    def _with_quantiles(self, columns: Columns, rng: np.random.Generator) -> Self:
        """The copula with the quantiles of scores that it draws for codes; even ones where a code is rare."""
        intervals = self._intervals(columns, slice(None))
        scores = self._scores(intervals, rng)
        quantiles = [even.copy() for even in self.quantiles]
        for index, known in enumerate(quantiles):
            codes = columns[self.places[index]]
            places = _place(intervals[0][:, index], intervals[1][:, index], scores[:, index])
            for code in range(len(known)):
                same = places[codes == code]
                if len(same) >= LEAST_ROWS:
                    known[code, 1:-1] = np.quantile(same, known[code, 1:-1])
        return replace(self, quantiles=tuple(quantiles))

    def _scores(self, intervals: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Scores within their intervals, correlated, shape (n, d)."""
        scores = _within(*intervals, np.zeros(1), 1.0, rng)
        for _ in range(DRAW_SWEEPS):
            self._sweep(scores, intervals, rng)
        return scores

    def _intervals(self, columns: Columns, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest score of every value; both unlimited where it is missing; shape (n, d) both."""
        shape = len(columns[self.places[0]][rows]), len(self.places)
        low, high = np.empty(shape, order="F"), np.empty(shape, order="F")
        for index, (column, limits) in enumerate(zip(self.places, self.limits, strict=True)):
            ends = np.concatenate([[-np.inf], limits, [np.inf]])
            codes = columns[column][rows]
            is_known = codes <= len(limits)
            known = np.where(is_known, codes, 0)
            low[:, index] = np.where(is_known, ends[known], -np.inf)
            high[:, index] = np.where(is_known, ends[known + 1], np.inf)
        return low, high

    def _sweep(self, scores: np.ndarray, intervals: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
        """Draw every column's scores anew, in place, given those of all others."""
        for index, weights in enumerate(self.weights):
            near = np.flatnonzero(weights)
            # A sum over columns in their order, the same whatever a linear algebra library does.
            means = sum((weights[other] * scores[:, other] for other in near), start=np.zeros(len(scores)))
            low, high = intervals[0][:, index], intervals[1][:, index]
            scores[:, index] = _within(low, high, means, float(self.deviations[index]), rng)

    def _ranks(self, index: int, codes: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The share of rows with the same code whose score is lower, shape (n,); 0 where a value is missing."""
        limits, quantiles = self.limits[index], self.quantiles[index]
        is_known = codes <= len(limits)
        known = np.where(is_known, codes, 0)
        ends = np.concatenate([[-np.inf], limits, [np.inf]])
        places = _place(ends[known], ends[known + 1], scores)
        below = sum((places >= quantiles[known, i] for i in range(1, N_QUANTILES)), start=np.zeros(len(codes), int))
        least, most = quantiles[known, below], quantiles[known, below + 1]
        inside = np.clip((places - least) / np.maximum(most - least, 1e-12), 0.0, 1.0)
        return np.where(is_known, np.minimum((below + inside) / N_QUANTILES, 1 - 1e-12), 0.0)

    def _fix(self, index: int, codes: np.ndarray, ranks: np.ndarray, intervals: tuple[np.ndarray, np.ndarray]) -> None:
        """Narrow the intervals of one column, in place, to the scores of ranks; NaN: nothing is known."""
        is_known = (codes <= len(self.limits[index])) & ~np.isnan(ranks)
        known = np.where(is_known, codes, 0)
        along = np.where(is_known, ranks, 0.0) * N_QUANTILES
        below = np.minimum(along.astype(int), N_QUANTILES - 1)
        quantiles = self.quantiles[index]
        places = quantiles[known, below] + (along - below) * (quantiles[known, below + 1] - quantiles[known, below])
        low, high = (ends[:, index] for ends in intervals)
        least, most = ndtr(low), ndtr(high)
        scores = ndtri(np.clip(least + places * (most - least), 1e-12, 1 - 1e-12))
        for ends in (low, high):
            ends[is_known] = scores[is_known]


def _given_others(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights for the mean of each column's score given all others, and its deviation then."""
    correlation = np.nan_to_num(np.corrcoef(scores, rowvar=False))
    np.fill_diagonal(correlation, 1.0)
    precision = np.linalg.inv((1 - RIDGE) * correlation + RIDGE * np.eye(len(correlation)))
    own = np.diag(precision)
    weights = np.round(-precision / own[:, None], DIGITS)
    np.fill_diagonal(weights, 0.0)
    weights[np.abs(weights) < LEAST_WEIGHT] = 0.0
    return weights, np.round(1 / np.sqrt(own), DIGITS)


def _within(
    low: np.ndarray, high: np.ndarray, means: np.ndarray, deviation: float, rng: np.random.Generator
) -> np.ndarray:
    """Normal values of means and a deviation, each within its interval; shape (n,) or (n, d) as the intervals."""
    low, high = (low.T - means).T / deviation, (high.T - means).T / deviation
    is_upper = low > 0  # there the other tail has the digits
    least, most = ndtr(np.where(is_upper, -high, low)), ndtr(np.where(is_upper, -low, high))
    drawn = ndtri(np.maximum(least + rng.random(low.shape) * (most - least), SMALLEST))
    inside = np.clip(np.where(is_upper, -drawn, drawn), low, high)
    return np.asarray((inside.T * deviation + means).T)


def _place(low: np.ndarray, high: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The share of a normal interval's probability below each score, shape (n,)."""
    is_upper = low > 0
    least, most = ndtr(np.where(is_upper, -high, low)), ndtr(np.where(is_upper, -low, high))
    below = (ndtr(np.where(is_upper, -scores, scores)) - least) / np.maximum(most - least, SMALLEST)
    return np.asarray(np.clip(np.where(is_upper, 1 - below, below), 0.0, 1.0))
