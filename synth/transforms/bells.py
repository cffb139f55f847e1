"""The bells of a column of numbers: a mixture of normal distributions, as many as the values call for.

Source: Xu et al. 2019 (1907.00503), section 4.2.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_BELLS, LEAST_WEIGHT = 10, 0.005
"""Bells at most, and the weight below which one is left out."""
LEAST_DEVIATION = 1e-50
"""Of a bell, so that no distance in standard deviations is too large to be squared."""


class Bells(NamedTuple):
    """A mixture of normal distributions.

    Attributes:
        means: shape (n_bells,).
        deviations: positive, shape (n_bells,).
        weights: positive, shape (n_bells,); they sum to one where there are any.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    weights: NDArray[np.float64]


def fit_bells(values: NDArray[np.float64], rng: np.random.Generator) -> Bells:
    """The bells of some values; none of no values, and one of a few.

    Args:
        values: *Sensitive*. Finite and at most 1e100 in magnitude, shape (n,).
        rng: gives the mixture's start.
    """
    if len(values) == 0:
        return Bells(np.empty(0), np.empty(0), np.empty(0))
    center = float(np.median(values))
    reach = float(np.abs(values - center).max()) or 1.0
    standard = (values - center) / reach
    spread = max(float(standard.std()), LEAST_DEVIATION)
    if len(np.unique(standard)) < N_BELLS:
        mean = center + reach * standard.mean()
        return Bells(np.array([mean]), np.array([max(reach * spread, LEAST_DEVIATION)]), np.ones(1))
    means, deviations, weights = _mixture(standard / spread, rng)
    unit = reach * spread
    return Bells(center + unit * means, np.maximum(unit * deviations, LEAST_DEVIATION), weights)


def _mixture(standard: NDArray[np.float64], rng: np.random.Generator) -> Bells:
    """A variational mixture with a Dirichlet process over its weights."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    mixture = BayesianGaussianMixture(
        n_components=N_BELLS, weight_concentration_prior=0.001, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near is near enough: bells only scale
        mixture.fit(standard[:, None])
    kept = mixture.weights_ > LEAST_WEIGHT
    weights = mixture.weights_[kept] / mixture.weights_[kept].sum()
    return Bells(mixture.means_[kept, 0], np.sqrt(mixture.covariances_[kept, 0, 0]), weights)
