"""A Gaussian copula within codes: numbers that go together keep their rank correlation where codes say no more.

Codes of two related numbers rise together, and so do the values within them. Each number has a normal score, whose
interval its code gives; scores are correlated as codes are. They are drawn by Gibbs sampling, in their intervals, and
their order within a code orders the values there. Codes stay as they are, and so does each column's distribution.

It is fitted to codes that a model drew, and reads nothing else: free of any budget.

Source: Hoff 2007 (semiparametric Gaussian copula, with intervals for what is only known as an order).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from synth.domain.discretizer import OTHER, Attribute, Discretizer

Columns = Mapping[int, np.ndarray] | Sequence[np.ndarray]
FITTED_ROWS = 5_000
"""Rows of codes that serve to fit one: the error of a correlation is .014."""
FIT_SWEEPS, DRAW_SWEEPS = 25, 4
"""Sweeps of Gibbs sampling over all columns: twice as many raise a rank correlation within codes by .02 at most."""
RIDGE = 1e-3
"""Share of independence in the correlation, which keeps its inverse sound."""
LEAST_WEIGHT = 0.03
"""A column whose weight for another is smaller does not say anything of it: it is no more than the error of the fit."""
DIGITS = 6
"""Of the weights: no order of summation shows in a drawn table."""
SMALLEST = 1e-300
"""Probability at least, whose normal quantile is finite."""


@dataclass(frozen=True)
class Copula:
    """Normal scores of numbers and times, given their codes.

    Attributes:
        places: position of each of its columns among the columns of codes, shape (d,).
        limits: for each column the scores between its codes, ascending, shape (n_codes - 1,), without `other` and
            `missing`.
        weights: of each column's scores for the mean of another's, zero for itself, shape (d, d).
        deviations: of each score given all others, shape (d,).
    """

    places: tuple[int, ...]
    limits: tuple[np.ndarray, ...]
    weights: np.ndarray
    deviations: np.ndarray

    @classmethod
    def fitted(cls, discretizer: Discretizer, codes: np.ndarray, rng: np.random.Generator) -> Self | None:
        """The copula of numbers and times; `None` where no two of them go together.

        Args:
            discretizer: tells which columns these are.
            codes: as a model draws them, shape (n, n_columns).
            rng: source of the scores.
        """
        lines = [(place, each) for place, each in enumerate(discretizer.attributes) if each.edges is not None]
        places = tuple(place for place, _ in lines)
        if len(places) < 2 or len(codes) < 2:
            return None
        columns = {place: attribute.possible(codes[:, place], rng) for place, attribute in lines}
        limits = tuple(_limits(attribute, columns[place]) for place, attribute in lines)
        copula = cls(places, limits, np.zeros((len(places), len(places))), np.ones(len(places)))
        intervals = copula._intervals(columns)
        scores = _within(*intervals, np.zeros(1), 1.0, rng)
        for _ in range(FIT_SWEEPS):
            copula = cls(places, limits, *_given_others(scores))
            copula._sweep(scores, intervals, rng)
        return copula if copula.weights.any() else None

    def ranks(self, columns: Columns, rng: np.random.Generator) -> dict[int, np.ndarray]:
        """Where each value stands among those with its code, in [0, 1), by place; evenly spread within each code.

        Args:
            columns: codes by place, shape (n,) each.
            rng: source of the draw.
        """
        intervals = self._intervals(columns)
        scores = _within(*intervals, np.zeros(1), 1.0, rng)
        for _ in range(DRAW_SWEEPS):
            self._sweep(scores, intervals, rng)
        return {place: _ranks(columns[place], scores[:, index], rng) for index, place in enumerate(self.places)}

    def _intervals(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest score of every value; both unlimited where it is missing; shape (n, d) both."""
        shape = len(columns[self.places[0]]), len(self.places)
        low, high = np.empty(shape, order="F"), np.empty(shape, order="F")
        for index, (place, limits) in enumerate(zip(self.places, self.limits, strict=True)):
            ends = np.concatenate([[-np.inf], limits, [np.inf]])
            held = columns[place] <= len(limits)
            known = np.where(held, columns[place], 0)
            low[:, index] = np.where(held, ends[known], -np.inf)
            high[:, index] = np.where(held, ends[known + 1], np.inf)
        return low, high

    def _sweep(self, scores: np.ndarray, intervals: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
        """Draw every column's scores anew, in place, given those of all others."""
        for index, weights in enumerate(self.weights):
            near = np.flatnonzero(weights)
            # A sum over columns in their order, the same whatever a linear algebra library does.
            means = sum((weights[other] * scores[:, other] for other in near), start=np.zeros(len(scores)))
            low, high = intervals[0][:, index], intervals[1][:, index]
            scores[:, index] = _within(low, high, means, float(self.deviations[index]), rng)


def _limits(attribute: Attribute, codes: np.ndarray) -> np.ndarray:
    """The normal scores between codes, by their shares; shape (n_codes - 1,)."""
    shares = np.bincount(codes, minlength=attribute.size)[: attribute.size + OTHER].astype(np.float64) + 1e-9
    return np.asarray(ndtri(np.cumsum(shares)[:-1] / shares.sum()))


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
    upper = low > 0  # there the other tail has the digits
    least, most = ndtr(np.where(upper, -high, low)), ndtr(np.where(upper, -low, high))
    drawn = ndtri(np.maximum(least + rng.random(low.shape) * (most - least), SMALLEST))
    inside = np.clip(np.where(upper, -drawn, drawn), low, high)
    return np.asarray((inside.T * deviation + means).T)


def _ranks(codes: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The place of each score among those of its code, spread evenly over [0, 1); shape (n,)."""
    order = np.lexsort((scores, codes))
    held = np.bincount(codes)
    firsts = np.cumsum(held) - held
    ranks = np.empty(len(codes))
    ranks[order] = np.arange(len(codes)) - firsts[codes[order]]
    return np.asarray((ranks + rng.random(len(codes))) / held[codes])
