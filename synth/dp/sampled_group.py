"""The privacy loss distribution of a Poisson-sampled Gaussian release for a group of units.

How many of the group are in a sample is binomial, and each that is in moves the sum by a norm of one at most. Against
the sum without the group stands a mixture of Gaussians, moved by 0, 1, ... units. dp-accounting has such mixtures, and
finds every grid point's noise by a search of its own, which takes seconds for ten units; here all are found at once.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special, stats

from synth.dp.discrete_gaussian import REACH

_HALVINGS = 48
"""Steps of the search for a loss: an error of its noise counts by its square."""


@dataclass(frozen=True)
class _Mixture:
    """The density of a noisy sum over that of the noise alone, at any noise; it grows with the noise."""

    sigma: float
    shifts: np.ndarray
    log_weights: np.ndarray

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        moved = (2 * self.shifts * x[:, None] - self.shifts**2) / (2 * self.sigma**2)
        return np.asarray(special.logsumexp(moved + self.log_weights, axis=1))

    def tail(self, x: np.ndarray) -> np.ndarray:
        """The probability that the noisy sum is above."""
        above = stats.norm.sf((x[:, None] - self.shifts) / self.sigma)
        return np.asarray(above @ np.exp(self.log_weights))

    def below(self, x: np.ndarray) -> np.ndarray:
        """The probability that the noisy sum is below."""
        under = stats.norm.cdf((x[:, None] - self.shifts) / self.sigma)
        return np.asarray(under @ np.exp(self.log_weights))

    def where(self, log_ratios: np.ndarray) -> np.ndarray:
        """The noise at which the ratio is this; ends of the search where it never is."""
        low = np.full(len(log_ratios), -REACH * self.sigma - self.shifts[-1])
        high = np.full(len(log_ratios), REACH * self.sigma + 2 * self.shifts[-1])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            less = self.log_ratio(middle) < log_ratios
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return np.asarray((low + high) / 2)


@lru_cache(maxsize=8)
def sampled_group_loss(sigma: float, sampling_rate: float, n_units: int, interval: float) -> Any:
    """The privacy loss distribution of one release for a group; pessimistic at any width of the grid.

    Args:
        sigma: standard deviation of the noise, in units of what one unit can move.
        sampling_rate: probability with which each unit is in the sample.
        n_units: of the group.
        interval: width of the grid of losses.

    Source: Ganesh 2024 (2401.10294), Theorem 3.1; Doroshenko et al. 2022 (2207.04380), Algorithm 1.
    """
    from dp_accounting.pld import privacy_loss_distribution

    shifts = np.arange(n_units + 1, dtype=np.float64)
    weights = stats.binom.logpmf(shifts, n_units, sampling_rate)
    kept = np.isfinite(weights)  # at a rate of one everybody is in every sample
    mixture = _Mixture(sigma, shifts[kept], weights[kept])
    ends = mixture.log_ratio(np.array([-REACH * sigma, REACH * sigma + n_units]))
    low, high = math.floor(ends[0] / interval), math.ceil(ends[1] / interval)
    losses = np.arange(low, high + 1) * interval
    x = mixture.where(losses)
    with np.errstate(over="ignore", invalid="ignore"):
        present = mixture.tail(x) - np.exp(losses) * stats.norm.sf(x / sigma)
        absent = stats.norm.cdf(x / sigma) - np.exp(-losses) * mixture.below(x)
    return privacy_loss_distribution.PrivacyLossDistribution(
        _on_grid(interval, low, present), _on_grid(interval, -high, absent[::-1])
    )


def _on_grid(interval: float, first: int, deltas: np.ndarray) -> Any:
    from dp_accounting.pld import pld_pmf

    shrinking = np.minimum.accumulate(np.clip(np.nan_to_num(deltas, nan=0.0), 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, first + len(deltas) - 1, shrinking)
