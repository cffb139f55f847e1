"""Penalized-likelihood density of a column from its noisy histogram: smooth, decreasing in its tails, spikes apart.

Log-density is a spline with a second-difference penalty, fitted to noisy counts by least squares. The penalty is chosen
by Mallows' criterion, for which the variance of the noise is known. Where the noise hides the tails, they must decline.
Everything here is post-processing of released counts.

Source: Eilers & Marx 1996 (P-splines, asymmetric penalties for monotone fits); Mallows 1973; Kiefer & Wolfowitz 1956.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from synth.domain import grid, numeric_scale

PENALTIES = 10.0 ** np.arange(-2.0, 8.1, 0.5)
"""Penalties that are tried, the weakest first."""
COMPLEXITY = 3.0
"""The cost of a degree of freedom, in variances of the noise: above Mallows' 2, since spikes are found as well."""
STEEP = 1e4
"""Weight of the penalty on tails that do not decline."""
SIGNIFICANT, FREQUENT = 4.0, 4.5
"""Standard deviations of the noise from which on the mass of a few cells, or a cell beside the density, is no noise."""
EVIDENCE = 8.0
"""By how much the criterion of a density must be less for a tail that may be flat."""
UNTOLD, NEGLIGIBLE = 2.0, 0.05
"""Standard errors, and share of the values, up to which there is nothing beside declared spikes."""
ROUNDS = 3
"""Rounds in which cells that stand out are taken for spikes and the others fitted anew."""
STEPS, GAIN, DAMPING = 60, 1e-4, 1e-3
"""Steps of one fit at most, the relative gain under which it ends, and the damping that it starts with."""
RIDGE = 1e-12
"""Of the largest entry, added to the diagonal of what is solved, so that rounding leaves it positive."""
LONGEST_STEP = 2.0
"""Of the logarithm of a density."""
PROBES = 8
"""Random signs by which degrees of freedom are estimated (Hutchinson 1990)."""
FAR, PLACES, SUPPORT, ITERATIONS = 10.0, 20.0, 120, 300
"""Standard deviations of the noise from which on a count stays as it is. For nearer ones: places in each of them,
points of their prior, and steps of its estimation.
"""


def expected_counts(
    noisy: np.ndarray, sigma: float, edges: np.ndarray, column: numeric_scale.LineColumn, n_values: float
) -> np.ndarray:
    """Counts that a smooth density and its spikes expect in the cells of a public grid; shape (n_cells,), at least 0.

    Args:
        noisy: released counts of the cells, shape (n_cells,).
        sigma: standard deviation of their noise, positive.
        edges: of the cells, ascending, shape (n_cells + 1,).
        column: gives scale, precision, steps and spikes.
        n_values: number of values, about.
    """
    counts = noisy.astype(np.float64)
    places = grid.resolution(edges, column)
    middles = (places[:-1] + places[1:]) / 2
    share = np.diff(places) * numeric_scale.lattice_measure(edges, column) / np.diff(edges)
    alone = grid.spike_cells(edges, column)
    for _ in range(ROUNDS):
        smooth = ~alone & (share > 0)
        expected = np.zeros(len(counts))
        if smooth.any():
            expected[smooth] = _with_tails(counts[smooth], share[smooth], middles[smooth], sigma)
        standing_out = smooth & (counts - expected > FREQUENT * sigma)
        if not standing_out.any():
            break
        alone |= standing_out
    expected[alone] = posterior_means(counts[alone], sigma)
    smooth &= ~alone
    beside, error = _beside(counts, smooth, sigma, n_values)
    if getattr(column, "spikes", ()) and beside < min(UNTOLD * error, NEGLIGIBLE * n_values):
        expected[smooth] = 0.0
    return expected


def _beside(counts: np.ndarray, smooth: np.ndarray, sigma: float, n_values: float) -> tuple[float, float]:
    """The number of values in cells, and its standard error: their sum and the rest of all others, by variance."""
    n_inside, n_outside = int(smooth.sum()), int((~smooth).sum()) + 1
    left = n_values - counts[~smooth].sum()
    found = (n_outside * counts[smooth].sum() + n_inside * left) / (n_inside + n_outside)
    return float(found), float(sigma * np.sqrt(n_inside * n_outside / (n_inside + n_outside)))


def posterior_means(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Expected values of counts under the prior, not negative, that makes the noisy ones likeliest; shape (n,).

    Args:
        noisy: counts with Gaussian noise, shape (n,).
        sigma: its standard deviation, positive.

    Source: Kiefer & Wolfowitz 1956 (nonparametric maximum likelihood of a prior); Robbins 1956 (empirical Bayes).

    >>> posterior_means(np.array([-1.0, 1.0, 0.0, 100.0]), 1.0).round(1).tolist()
    [0.0, 0.0, 0.0, 100.0]
    """
    means = noisy.astype(np.float64)
    near = means < FAR * sigma
    if not near.any():
        return means
    places, inverse, weights = np.unique(
        np.round(means[near] / sigma * PLACES), return_inverse=True, return_counts=True
    )
    places = np.maximum(places / PLACES, -FAR)  # so that no likelihood underflows
    support = np.linspace(0.0, max(float(places.max()), 1.0), SUPPORT)
    likelihood = np.exp(-((places[:, None] - support) ** 2) / 2)
    prior = np.full(SUPPORT, 1 / SUPPORT)
    for _ in range(ITERATIONS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = weights @ posterior / weights.sum()
    means[near] = sigma * (posterior @ support)[inverse]
    return means


@dataclass(frozen=True)
class _Tails:
    """The tails in which a log-density must decline, and their least steepness.

    Attributes:
        direction: of each step to the next cell: 1 where it must fall, -1 where it must rise, 0 where it is free.
        slope: by which a step must change at least, signed; shape as `direction`, (n_cells - 1,).
    """

    direction: np.ndarray
    slope: np.ndarray

    def excess(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of steps that break the rule, and by how much each step misses it; shapes (n_cells - 1,)."""
        missed = np.diff(theta) + self.slope
        return STEEP * (self.direction * missed > 0), missed


def _tails(counts: np.ndarray, sigma: float) -> _Tails | None:
    """The tails in which noise hides the mass: from there a density declines to one unit at the bound, or faster.

    `None` where noise hides all of it.
    """
    n, last = len(counts), _outermost(counts, sigma)
    if last < 0:
        return None
    direction, slope = np.zeros(n - 1), np.zeros(n - 1)
    first = n - 1 - _outermost(counts[::-1], sigma)
    if first < last:
        span = max(3, (last - first) // 8)
        direction[:first], direction[last:] = -1.0, 1.0
        slope[:first] = -_decline(counts[first : first + span + 1], first)
        slope[last:] = _decline(counts[max(last - span, 0) : last + 1], n - 1 - last)
    return _Tails(direction, slope)


def _outermost(counts: np.ndarray, sigma: float) -> int:
    """The start of the last window of 1, 2, 4, ... cells that surely holds mass; -1 for none."""
    n, found = len(counts), -1
    before = np.concatenate([[0.0], np.cumsum(counts)])
    width = 1
    while width <= n:
        sums = before[width:] - before[:-width]
        starts = np.flatnonzero(sums > SIGNIFICANT * sigma * np.sqrt(width))
        if len(starts):
            found = max(found, int(starts[-1]))
        width *= 2
    return found


def _decline(near: np.ndarray, n_cells: int) -> float:
    """The slope of a log-density from the mean of its last known counts to one unit after so many cells."""
    return float(np.log(max(near.mean(), np.e))) / max(n_cells, 1)


def _with_tails(counts: np.ndarray, share: np.ndarray, places: np.ndarray, sigma: float) -> np.ndarray:
    """Expected counts of a smooth density whose tails decline, or are flat where the counts say so; (n_cells,)."""
    tails = _tails(counts, sigma)
    if tails is None:
        return np.asarray(share * (max(float(counts.sum()), sigma) / share.sum()))
    best, chosen = _density(counts, share, places, sigma, tails)
    for side in (-1.0, 1.0):
        if not (tails.direction == side).any():
            continue
        flat = _Tails(tails.direction, np.where(tails.direction == side, 0.0, tails.slope))
        criterion, expected = _density(counts, share, places, sigma, flat)
        if criterion < best - EVIDENCE:
            best, chosen, tails = criterion, expected, flat
    return chosen


def _density(
    counts: np.ndarray, share: np.ndarray, places: np.ndarray, sigma: float, tails: _Tails
) -> tuple[float, np.ndarray]:
    """Mallows' criterion and the expected counts of a smooth density at the best of all penalties; shape (n_cells,)."""
    n = len(counts)
    roughness = _roughness(places)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, PROBES))
    window = np.ones(min(9, n)) / min(9, n)
    start = np.convolve(np.pad(counts, len(window) // 2, mode="edge"), window, mode="valid")[:n]
    least = max(float(counts.sum()), sigma) / n / 20
    theta = np.log(np.maximum(start, least) / share)
    best, chosen = np.inf, np.zeros(n)
    for penalty in PENALTIES:
        theta = _fitted(counts / sigma, share / sigma, penalty * roughness, theta, tails)
        expected = share * np.exp(theta)
        precision = (expected / sigma) ** 2
        curvature = penalty * roughness
        curvature[2] += precision + RIDGE * float(curvature[2].max() + precision.max())
        kept = solveh_banded(curvature, precision[:, None] * probes, check_finite=False)
        freedom = float((probes * kept).sum(axis=0).mean())
        criterion = float((((counts - expected) / sigma) ** 2).sum()) + COMPLEXITY * freedom
        if criterion < best:
            best, chosen = criterion, expected
    return best, chosen


def _fitted(counts: np.ndarray, share: np.ndarray, penalty: np.ndarray, theta: np.ndarray, tails: _Tails) -> np.ndarray:
    """The log-density of least penalized squares, by damped Gauss-Newton steps; counts in units of their noise."""

    def loss(at: np.ndarray) -> float:
        weights, missed = tails.excess(at)
        squares = ((counts - share * np.exp(at)) ** 2).sum() + at @ _times(penalty, at)
        return float(squares + (weights * missed**2).sum())

    now, damping = loss(theta), DAMPING
    for _ in range(STEPS):
        expected = share * np.exp(theta)
        weights, missed = tails.excess(theta)
        downhill = expected * (counts - expected) - _times(penalty, theta)
        downhill[1:] -= weights * missed
        downhill[:-1] += weights * missed
        curvature = penalty.copy()
        curvature[2] += expected**2
        curvature[2, 1:] += weights
        curvature[2, :-1] += weights
        curvature[1, 1:] -= weights
        before = now
        while damping < 1e6:
            damped = curvature.copy()
            damped[2] += damping * (expected**2 + 1e-3) + RIDGE * float(curvature[2].max())
            step = solveh_banded(damped, downhill, check_finite=False)
            proposed = theta + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            now = loss(proposed)
            if now < before:
                theta, damping = proposed, max(damping / 5, 1e-9)
                break
            damping *= 5
        else:
            return theta
        if before - now < GAIN * max(before, 1.0):
            break
    return theta


def _roughness(places: np.ndarray) -> np.ndarray:
    """The matrix of squared second divided differences, as its upper bands; shape (3, n)."""
    n = len(places)
    bands = np.zeros((3, n))
    if n < 3:
        return bands
    gaps = np.diff(places)
    weight = np.sqrt(2 / (gaps[:-1] + gaps[1:]))
    left, right = weight / gaps[:-1], weight / gaps[1:]
    middle = -(left + right)
    bands[2, :-2] += left**2
    bands[2, 1:-1] += middle**2
    bands[2, 2:] += right**2
    bands[1, 1:-1] += left * middle
    bands[1, 2:] += middle * right
    bands[0, 2:] += left * right
    return bands


def _times(bands: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A symmetric matrix of five bands times a vector."""
    product = bands[2] * vector
    product[:-1] += bands[1, 1:] * vector[1:]
    product[1:] += bands[1, 1:] * vector[:-1]
    product[:-2] += bands[0, 2:] * vector[2:]
    product[2:] += bands[0, 2:] * vector[:-2]
    return np.asarray(product)
