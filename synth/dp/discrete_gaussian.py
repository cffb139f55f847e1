"""The privacy loss distribution of discrete Gaussian noise, also where sigma is large and where one unit moves much.

dp-accounting visits every point of the noise in turn to find the grid points near its loss, which is nearly all the
time of an account where sigma is in the hundred thousands; and it cuts the noise at 11.6 sigma, so that a shift by
several sigma counts as a loss without bound. Here the grid comes at once, and the noise reaches as much further as it
is shifted; all else is dp-accounting's.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

REACH = 11.6
"""Standard deviations beyond which noise has a mass below 1e-30 (the bound that dp-accounting takes)."""


@lru_cache(maxsize=16)
def discrete_gaussian_loss(sigma: float, sensitivity: int, interval: float) -> Any:
    """The privacy loss distribution of one release; pessimistic at any width of the grid.

    Args:
        sigma: parameter of the noise.
        sensitivity: how far one unit can move the number.
        interval: width of the grid of losses.

    Source: Canonne, Kamath, Steinke 2020, Theorem 7; Doroshenko et al. 2022 (2207.04380), Algorithm 1.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss

    reach = math.ceil(REACH * sigma) + sensitivity
    noise = DiscreteGaussianPrivacyLoss(sigma, sensitivity=sensitivity, truncation_bound=reach)
    grid = _grid(sigma, sensitivity, interval, reach)
    with np.errstate(over="ignore"):  # neighbors far apart share no mass, which is what one over infinity says
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, noise.get_delta_for_epsilon(grid * interval))
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _grid(sigma: float, sensitivity: int, interval: float, reach: int) -> np.ndarray:
    """The grid points on both sides of every loss there is, ascending, in units of the interval."""
    step = sensitivity / sigma**2 / interval
    highest = (reach - 0.5 * sensitivity) * step
    if step <= 1:  # no grid point lies apart from all losses
        return np.arange(math.floor(-highest), math.ceil(highest) + 1)
    points = np.arange(reach - sensitivity, -reach - 1, -1)
    losses = sensitivity * (-0.5 * sensitivity - points) / sigma**2 / interval
    return np.unique(np.concatenate([np.floor(losses), np.ceil(losses)]).astype(np.int64))
