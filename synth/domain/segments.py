"""Expected counts of cells, averaged exactly over all piecewise-constant densities; post-processing of released counts.

The counts of a column are a base measure times a ratio that is constant on segments of cells. All segmentations are
summed by forward and backward recursion, O(K^2) for K places where the ratio may change. A segment is empty, or its
ratio has a mixture of exponential priors; one at a bound is mostly empty, which keeps noise out of the tails. The known
total enters as an exponential tilt of the posterior, the saddlepoint approximation of conditioning on the sum.

Source: Hutter 2007, "Exact Bayesian regression of piecewise constant functions", Bayesian Analysis 2(4).
"""

import numpy as np
from scipy.special import erfcx, logsumexp

CHANGES = 2.0  # expected changes of the ratio over a column, a priori
EMPTY, EMPTY_AT_BOUND = 0.2, 0.98  # prior probability that a segment is empty
SCALES = (0.25, 1.0, 4.0, 16.0)
"""Means of the exponential priors of a segment's ratio, in units of the ratio of the whole column."""
BLOCKS, COARSE = 160, 48
"""Places at most where the ratio may change: in the estimate, and in the search of the tilt. Of more cells, even cuts
and those where neighboring sums differ most; 320 and 96 gave the same distances on 70 real columns."""
TILTS, NEAR, FARTHEST = 5, 0.01, 3.0
"""Steps of the search of the tilt, the relative miss of the total that ends it, and its limit in standard errors."""
CONTRAST = 3.0
"""Standard deviations from which on neighboring sums differ enough for a place between even cuts."""


def average_segments(counts: np.ndarray, base: np.ndarray, sigma: float, total: float) -> tuple[np.ndarray, float]:
    """Posterior mean of the counts given their total, shape (n_cells,), and the log-evidence against no mass at all.
    `counts`: noisy, shape (n_cells,).
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
