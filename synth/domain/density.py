"""Expected counts of a column's cells from its noisy histogram: spikes apart, smooth shapes, tails that decline.

Two densities are averaged by their evidence: over all piecewise-constant densities on the even measure, which keeps any
mode, and over those beside a *pilot*, a log-spline with a second-difference penalty, which is smooth. The penalty is
chosen by Mallows' criterion, as the variance of the noise is known. Where noise hides the tails, the pilot's must
decline. Everything here is post-processing of released counts.

Counts of the first kind are a base measure times a ratio that is constant on segments of cells. All segmentations are
summed by forward and backward recursion, O(K^2) for K places where the ratio may change. A segment is empty, or its
ratio has a mixture of exponential priors; one at a bound is mostly empty, which keeps noise out of the tails. The known
total enters as an exponential tilt of the posterior, the saddlepoint approximation of conditioning on the sum.

Source: Hutter 2007, "Exact Bayesian regression of piecewise constant functions", Bayesian Analysis 2(4); Eilers & Marx
1996 (P-splines, asymmetric penalties for monotone fits); Mallows 1973; Kiefer & Wolfowitz 1956.
"""

import numpy as np
from scipy.linalg import solveh_banded
from scipy.special import erfcx, expit, logsumexp

from synth.domain import grid
from synth.schema.kinds import LineColumn

PENALTIES = 10.0 ** np.arange(-2.0, 8.1, 1.0)  # penalties that are tried, the weakest first
COMPLEXITY = 3.0
"""The cost of a degree of freedom, in variances of the noise: above Mallows' 2, since spikes are found as well."""
STEEP = 1e4  # weight of the penalty on tails that do not decline
DECLINE = 0.6
"""Least steepness of a tail, as a share of the slope by which a density would come down to one unit at the bound."""
SIGNIFICANT = 4.0
"""Standard deviations of the noise from which on the mass of a few cells is no noise."""
FREQUENT, FLANKS, ROUNDS = 4.5, (2, 8), 3
"""A spike exceeds both flanks, of each so many cells, by so many standard deviations: the top of a slope is none.
Rounds, as one spike hides another beside it."""
PILOT = 0.999
"""Share of the pilot in its base measure; the rest is even, so that no cell is ruled out."""
UNTOLD, NEGLIGIBLE = 2.0, 0.05
"""Standard errors, and share of the values, up to which there is nothing beside declared spikes."""
STEPS, GAIN, DAMPING = 60, 1e-4, 1e-3
"""Steps of one fit at most, the relative gain under which it ends, and the damping that it starts with."""
RIDGE = 1e-12
"""Of the largest entry, added to the diagonal of what is solved, so that rounding leaves it positive."""
LONGEST_STEP = 2.0  # of the logarithm of a density
PROBES = 8  # random signs by which degrees of freedom are estimated (Hutchinson 1990)
FAR, PLACES, SUPPORT, ITERATIONS = 10.0, 20.0, 120, 300
"""Standard deviations of the noise from which on a count stays as it is. For nearer ones: places in each of them,
points of their prior, and steps of its estimation.
"""
CHANGES = 2.0  # expected changes of the ratio over a column, a priori
EMPTY, EMPTY_AT_BOUND = 0.2, 0.998  # prior probability that a segment is empty
SCALES = (0.25, 1.0, 4.0, 16.0)
"""Means of the exponential priors of a segment's ratio, in units of the ratio of the whole column."""
BLOCKS, COARSE = 160, 48
"""Places at most where the ratio may change: in the estimate, and in the search of the tilt. Of more cells, even cuts
and those where neighboring sums differ most; 320 and 96 gave the same distances on 70 real columns."""
TILTS, NEAR, FARTHEST = 5, 0.01, 3.0
"""Steps of the search of the tilt, the relative miss of the total that ends it, and its limit in standard errors."""
CONTRAST = 3.0
"""Standard deviations from which on neighboring sums differ enough for a place between even cuts."""


def expected_counts(
    noisy: np.ndarray, sigma: float, edges: np.ndarray, column: LineColumn, n_values: float
) -> np.ndarray:
    """Counts that a density and its spikes expect in the cells of a public grid; shape (n_cells,), at least 0.
    `noisy`: released counts of the cells, shape (n_cells,).
    `edges`: of the cells, ascending, shape (n_cells + 1,).
    """
    counts = noisy.astype(np.float64)
    places = grid.resolution(edges, column)
    share = np.diff(places) * grid.lattice_measure(edges, column) / np.diff(edges)
    alone = grid.spike_cells(edges, column)
    alone |= _outstanding(counts, share, sigma, ~alone & (share > 0))
    expected = np.zeros(len(counts))
    expected[alone] = posterior_means(counts[alone], sigma)
    smooth = ~alone & (share > 0)
    if not smooth.any():
        return expected
    beside, error = _beside(counts, smooth, sigma, n_values)
    has_spikes = bool(getattr(column, "spikes", ()))
    if has_spikes and beside < min(UNTOLD * error, NEGLIGIBLE * n_values):
        return expected
    # Where nearly all values are spikes nothing may be left, and whatever the rest gets would lie in the tails.
    rest = max(min(beside, n_values), min(error, NEGLIGIBLE * n_values), 1.0)
    middles = (places[:-1] + places[1:]) / 2
    density = _density(counts[smooth], share[smooth], middles[smooth], sigma, rest)
    expected[smooth] = density * (rest / density.sum())
    return expected


def _density(counts: np.ndarray, share: np.ndarray, places: np.ndarray, sigma: float, total: float) -> np.ndarray:
    """The average of the densities on the even measure and on the pilot, by evidence; shape (n_cells,), not zero."""
    even = share / share.sum()
    density, evidence = average_segments(counts, even, sigma, total)
    pilot, freedom = _pilot(counts, share, places, sigma)
    if pilot is not None:
        base = PILOT * pilot / pilot.sum() + (1 - PILOT) * even
        on_pilot, its_evidence = average_segments(counts, base, sigma, total)
        weight = expit(its_evidence - freedom / 2 - evidence)  # by which a fit to the counts overstates its evidence
        density = (1 - weight) * density + weight * on_pilot
    return np.asarray(density if density.sum() > 0 else share)  # sampling may need any cell


def _outstanding(counts: np.ndarray, share: np.ndarray, sigma: float, among: np.ndarray) -> np.ndarray:
    """Cells whose counts exceed what either flank explains; boolean, shape (n_cells,)."""
    cells = np.flatnonzero(among)
    n, values, widths = len(cells), counts[cells], share[cells]
    is_left, at = np.ones(n, dtype=bool), np.arange(n)
    for _ in range(ROUNDS):
        parts = (values, widths, np.ones(n))
        sums, shares, sizes = (np.concatenate([[0.0], np.cumsum(np.where(is_left, part, 0.0))]) for part in parts)
        standing = is_left.copy()
        for reach in FLANKS:
            for first, end in ((np.maximum(at - reach, 0), at), (at + 1, np.minimum(at + 1 + reach, n))):
                size = sizes[end] - sizes[first]
                ratio = np.where(size > 0, widths / np.maximum(shares[end] - shares[first], 1e-12), 0.0)
                flank = np.maximum(sums[end] - sums[first], 0.0) * ratio
                standing &= values - flank > FREQUENT * sigma * np.sqrt(1 + size * np.minimum(ratio, 1e6) ** 2)
        if not standing.any():
            break
        is_left &= ~standing
    heaped = np.zeros(len(counts), dtype=bool)
    heaped[cells[~is_left]] = True
    return heaped


def _beside(counts: np.ndarray, smooth: np.ndarray, sigma: float, n_values: float) -> tuple[float, float]:
    """The number of values in cells, and its standard error: their sum and the rest of all others, by variance."""
    n_inside, n_outside = int(smooth.sum()), int((~smooth).sum()) + 1
    left = n_values - counts[~smooth].sum()
    level = (n_outside * counts[smooth].sum() + n_inside * left) / (n_inside + n_outside)
    return float(level), float(sigma * np.sqrt(n_inside * n_outside / (n_inside + n_outside)))


def posterior_means(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Expected values of counts under the prior, not negative, that makes the noisy ones likeliest; shape (n,).
    `noisy`: counts with Gaussian noise, shape (n,).

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


def _last_sure(counts: np.ndarray, sigma: float) -> int:
    """The last cell of the last window of 1, 2, 4, ... cells that surely holds mass and no shorter one; -1 for none.

    A broad mode is sure by wide windows alone, so that the *start* of a window would lie before the mode.
    """
    n, last, width = len(counts), -1, 1
    before, start_by_end = np.concatenate([[0.0], np.cumsum(counts)]), np.full(len(counts) + 1, -1)
    while width <= n:
        starts = np.flatnonzero(before[width:] - before[:-width] > SIGNIFICANT * sigma * np.sqrt(width))
        ends = starts + width
        is_shortest = start_by_end[ends] < starts
        last = max([last, *(ends[is_shortest] - 1).tolist()])
        here = np.full(n + 1, -1)
        here[ends] = starts
        start_by_end = np.maximum(start_by_end, np.maximum.accumulate(here))
        width *= 2
    return last


def _tails(counts: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Where noise hides the mass in the tails, the direction in which a density declines there and its least slope.

    Shapes (n_cells - 1,); `None` where noise hides all of it.
    """
    n, last = len(counts), _last_sure(counts, sigma)
    if last < 0:
        return None
    direction, slope = np.zeros(n - 1), np.zeros(n - 1)
    first = n - 1 - _last_sure(counts[::-1], sigma)
    if first <= last:
        span = max(3, (last - first) // 8)

        def decline(near: np.ndarray, n_cells: int) -> float:
            """The slope from the mean of the last known counts to one unit after so many cells."""
            return float(np.log(max(near.mean(), np.e))) / max(n_cells, 1)

        direction[:first], direction[last:] = -1.0, 1.0
        slope[:first] = -DECLINE * decline(counts[first : first + span + 1], first)
        slope[last:] = DECLINE * decline(counts[max(last - span, 0) : last + 1], n - 1 - last)
    return direction, slope


def _pilot(counts: np.ndarray, share: np.ndarray, places: np.ndarray, sigma: float) -> tuple[np.ndarray | None, float]:
    """Expected counts of a smooth density at the best penalty, shape (n_cells,), and its degrees of freedom.

    `None` where noise hides all mass.
    """
    tails = _tails(counts, sigma)
    if tails is None:
        return None, 0.0
    n, roughness = len(counts), _roughness(places)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, PROBES))
    window = np.ones(min(9, n)) / min(9, n)
    start = np.convolve(np.pad(counts, len(window) // 2, mode="edge"), window, mode="valid")[:n]
    least = max(float(counts.sum()), sigma) / n / 20
    theta = np.log(np.maximum(start, least) / share)
    best, chosen, degrees = np.inf, share, 0.0
    for penalty in PENALTIES:
        theta = _fitted(counts / sigma, share / sigma, penalty * roughness, theta, tails)
        expected = share * np.exp(theta)
        precision = (expected / sigma) ** 2
        curvature = penalty * roughness
        curvature[2] += precision + RIDGE * float(curvature[2].max() + precision.max())
        # The trace of W^1/2 (W + P)^-1 W^1/2: of (W + P)^-1 W, not symmetric, one full cell ruled the variance.
        rooted = np.sqrt(precision)[:, None] * probes
        freedom = float((rooted * solveh_banded(curvature, rooted, check_finite=False)).sum(axis=0).mean())
        criterion = float((((counts - expected) / sigma) ** 2).sum()) + COMPLEXITY * freedom
        if criterion < best:
            best, chosen, degrees = criterion, expected, freedom
    return chosen, degrees


def _fitted(
    counts: np.ndarray, share: np.ndarray, penalty: np.ndarray, theta: np.ndarray, tails: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """The log-density of least penalized squares, by damped Gauss-Newton steps; counts in units of their noise."""
    direction, slope = tails

    def excess(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of steps that break the rule of tails, and by how much each step misses it."""
        missed = np.diff(at) + slope
        return STEEP * (direction * missed > 0), missed

    def loss(at: np.ndarray) -> float:
        weights, missed = excess(at)
        squares = ((counts - share * np.exp(at)) ** 2).sum() + at @ _times(penalty, at)
        return float(squares + (weights * missed**2).sum())

    now, damping = loss(theta), DAMPING
    for _ in range(STEPS):
        expected = share * np.exp(theta)
        weights, missed = excess(theta)
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


def average_segments(counts: np.ndarray, base: np.ndarray, sigma: float, total: float) -> tuple[np.ndarray, float]:
    """Posterior mean of noisy counts given their total, and the log-evidence against no mass at all.
    `base`: measure of each cell, positive, shape (n_cells,).
    """
    coarse, limit = _Segments(counts, base, sigma, total, COARSE), FARTHEST / (sigma * np.sqrt(len(counts)))
    tilts, misses = [0.0], [total - float(coarse.mean(0.0)[0].sum())]
    while len(tilts) < TILTS and abs(misses[-1]) >= NEAR * total:
        if len(tilts) == 1:
            tilt = misses[0] / (sigma**2 * len(counts))
        elif misses[-1] == misses[-2]:
            break
        else:  # the secant
            tilt = tilts[-1] - misses[-1] * (tilts[-1] - tilts[-2]) / (misses[-1] - misses[-2])
        tilts.append(float(np.clip(tilt, -limit, limit)))
        if tilts[-1] == tilts[-2]:
            break
        misses.append(total - float(coarse.mean(tilts[-1])[0].sum()))
    expected, evidence = _Segments(counts, base, sigma, total, BLOCKS).mean(tilts[-1])
    return expected, evidence - tilts[-1] * total


class _Segments:
    """All segments of a column's blocks, of which any row of adjacent ones makes a segmentation."""

    def __init__(self, counts: np.ndarray, base: np.ndarray, sigma: float, total: float, most: int) -> None:
        self.counts, self.base, self.sigma = counts, base, sigma
        self.unit = max(total, sigma) / float(base.sum())
        self.starts = _block_starts(counts, sigma, most)
        self.first, self.last = np.triu_indices(len(self.starts))
        precision = self._by_segment(base**2 / sigma**2)
        self.width = 1 / np.sqrt(np.maximum(precision, 1e-300))  # standard error of the ratio in a segment
        at_bound = (self.first == 0) | (self.last == len(self.starts) - 1)
        self.empty = np.where(at_bound, EMPTY_AT_BOUND, EMPTY)

    def _by_segment(self, values: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(np.add.reduceat(values, self.starts))])
        return np.asarray(sums[self.last + 1] - sums[self.first])

    def mean(self, tilt: float) -> tuple[np.ndarray, float]:
        """Posterior mean of the counts and log-evidence, with the likelihood times exp(tilt x sum of the counts)."""
        n, first, last = len(self.starts), self.first, self.last
        filled, ratio = self._filled(self._by_segment(self.base * (self.counts / self.sigma**2 + tilt)))
        filled += np.log1p(-self.empty)
        evidence = np.logaddexp(np.log(self.empty), filled)
        is_filled = np.exp(filled - evidence)
        change = min(CHANGES / n, 0.5)
        evidence += (last - first) * np.log1p(-change)
        table = np.full((n, n), -np.inf)
        table[first, last] = evidence
        by_last, log_change = np.ascontiguousarray(table.T), np.log(change)
        # Log-evidence of all segmentations of the blocks before a place, and of those from it on.
        before, after = np.zeros(n + 1), np.zeros(n + 1)
        for end in range(1, n + 1):
            before[end] = _log_sum(before[:end] + by_last[end - 1, :end]) + (log_change if end < n else 0.0)
        for start in range(n - 1, -1, -1):
            after[start] = _log_sum(table[start, start:] + after[start + 1 :]) + (log_change if start else 0.0)
        weight = np.exp(np.minimum(before[first] + evidence + after[last + 1] - before[n], 0.0))
        shares = np.zeros((n, n))
        shares[first, last] = weight * is_filled * ratio
        # The ratio at a block is the sum over segments that start at it or before it and end at it or behind it.
        ratios = np.diag(np.cumsum(np.cumsum(shares[:, ::-1], axis=1)[:, ::-1], axis=0))
        return np.repeat(ratios, np.diff(np.append(self.starts, len(self.counts)))) * self.base, float(before[n])

    def _filled(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-evidence of each segment with mass over one without, and its posterior mean ratio: truncated normals."""
        logs, means = np.empty((len(SCALES), len(sums))), np.empty((len(SCALES), len(sums)))
        for row, scale in enumerate(SCALES):
            rate = 1 / (scale * self.unit)
            t = (sums - rate) * self.width
            # The normal's upper tail over its density by erfcx: cells 1e-16 wide would overflow a cdf.
            mills = erfcx(-np.minimum(t, 20.0) / np.sqrt(2)) * np.sqrt(np.pi / 2)
            is_sure = t > 20.0
            logs[row] = np.log(rate) + np.log(self.width)
            logs[row] += np.where(is_sure, 0.5 * t**2 + 0.5 * np.log(2 * np.pi), np.log(mills))
            means[row] = self.width * np.where(
                t > -30.0, t + np.where(is_sure, 0.0, 1 / mills), -1 / np.minimum(t, -1.0)
            )
        log_sum = logsumexp(logs, axis=0)
        return log_sum - np.log(len(SCALES)), (np.exp(logs - log_sum) * means).sum(axis=0)


def _log_sum(logs: np.ndarray) -> float:
    top = logs.max()  # scipy's takes ten times as long for so few numbers
    return float(top + np.log(np.exp(logs - top).sum()))


def _block_starts(counts: np.ndarray, sigma: float, most: int) -> np.ndarray:
    """First cells of the blocks between which the ratio may change; at most about so many."""
    n = len(counts)
    if n <= most:
        return np.arange(n)
    is_cut = np.zeros(n, dtype=bool)
    is_cut[np.linspace(0, n, most * 3 // 4, endpoint=False).astype(int)] = True
    before, contrast, width = np.concatenate([[0.0], np.cumsum(counts)]), np.zeros(n), 1
    while width <= n // 8:
        at = np.arange(width, n - width + 1)
        gap = np.abs(2 * before[at] - before[at - width] - before[at + width]) / (sigma * np.sqrt(2 * width))
        contrast[at] = np.maximum(contrast[at], gap)
        width *= 2
    contrast[is_cut] = 0.0
    strongest = np.argsort(-contrast)[: most - int(is_cut.sum())]
    is_cut[strongest[contrast[strongest] > CONTRAST]] = True
    return np.flatnonzero(is_cut)
