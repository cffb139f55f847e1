"""Logistic and linear regression by DP-SGD, in numpy: gradients have a closed form, and each unit's is clipped exactly.

With inputs x and residuals r (probabilities less the true class, or predicted less true number) a row's gradient is the
outer product of r and x, and a unit's that of its rows together; the squared norm of such a sum follows from the inner
products of the rows alone. All settings are public and fixed before a row is read.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1; Goodfellow 2015 (1510.01799) for the norms; Bassily, Smith,
Thakurta 2014 (1405.7085) for averaged iterates of noisy convex descent.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synth.dp.calibration import Plan, calibrate
from synth.dp.events import Event, SubsampledGaussianEvent
from synth.dp.mechanisms import Steps

Loss = Literal["binary", "softmax", "squared"]
WHAT = "steps of DP-SGD"
N_STEPS, EXPECTED_ROWS = 300, 2_000
"""Steps, and rows in a sample as expected where each unit gives as many as it may."""
LEAST_RATE = 0.01
"""Of sampling: at smaller ones the accountant takes longer than the steps."""
MAX_GRAD_NORM = 0.5
LEARNING_RATE: dict[Loss, float] = {"binary": 16.0, "softmax": 8.0, "squared": 2.0}
"""Fixed for all tables. Rows have norm 1 at most, and of several columns the mean square of their coordinates is below
1/2 in most directions: losses are then smooth with constant 1/8, 1/4 and 1/2, and steps of up to 2 over it converge."""


@dataclass(frozen=True)
class Units:
    """Rows by unit of privacy. *Sensitive*.

    Attributes:
        X: inputs of norm at most 1, rows of a unit side by side, shape (n_rows, d), float32.
        y: classes as whole numbers or targets in [-1, 1], shape (n_rows,).
        first: where each unit's rows start, shape (n_units,).
        size: how many rows each has, at least 1, shape (n_units,).
    """

    X: np.ndarray
    y: np.ndarray
    first: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, owner: np.ndarray, max_rows_per_unit: int) -> "Units":
        """Rows sorted by owner, of each the first ones.

        Args:
            X: shape (n, d).
            y: shape (n,).
            owner: the unit of each row, from 0 without a gap, shape (n,).
            max_rows_per_unit: how many rows of a unit stay.
        """
        order = np.argsort(owner, kind="stable")
        size = np.bincount(owner)
        first = np.cumsum(size) - size
        place = np.arange(len(owner)) - np.repeat(first, size)
        order, size = order[place < max_rows_per_unit], np.minimum(size, max_rows_per_unit)
        return cls(X[order], y[order], np.cumsum(size) - size, size)

    def __len__(self) -> int:
        return len(self.first)

    def padded(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of some units: inputs (u, k, d), targets (u, k) and which of them are there (u, k)."""
        place = np.arange(int(self.size.max()))
        there = place < self.size[units, None]
        rows = np.where(there, self.first[units, None] + place, 0)
        return self.X[rows].astype(np.float64), self.y[rows], there

    def subset(self, units: np.ndarray) -> "Units":
        """Some of the units, in that order."""
        size = self.size[units]
        rows = np.repeat(self.first[units] - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return Units(self.X[rows], self.y[rows], np.cumsum(size) - size, size)


def planned(epsilon: float, delta: float, n_units: int, max_rows_per_unit: int) -> SubsampledGaussianEvent:
    """The steps that a claim allows.

    Args:
        epsilon: of the claim.
        delta: of the claim.
        n_units: the declared number of units; public.
        max_rows_per_unit: rows of a unit that are used at most; public.

    Raises:
        BudgetError: epsilon or delta is outside what can be calibrated; nothing was fitted.
    """
    rate = min(1.0, max(max(EXPECTED_ROWS / max_rows_per_unit, 1.0) / n_units, LEAST_RATE))

    def events(rho: float) -> list[Event]:
        return [SubsampledGaussianEvent(WHAT, rate * math.sqrt(N_STEPS / (2 * rho)), rate, N_STEPS)]

    plan: Plan = events
    (event,) = calibrate(plan, epsilon, delta).events
    assert isinstance(event, SubsampledGaussianEvent)
    return event


def fit(units: Units, loss: Loss, n_outputs: int, steps: Steps, expected_units: float) -> np.ndarray:
    """Weights of a regression by DP-SGD, the mean of the second half of its iterates; shape (d, n_outputs).

    Args:
        units: *Sensitive*.
        loss: what is minimized.
        n_outputs: classes of softmax; 1 for the others.
        steps: draw the samples and the noise.
        expected_units: sampling rate times the declared number of units, which every noisy sum is divided by; public.
    """
    weights = np.zeros((units.X.shape[1], n_outputs))
    total = np.zeros_like(weights)
    for step in range(N_STEPS):
        gradient = clipped_sum(units, steps.sample(len(units)), weights, loss)
        noisy = steps.release(gradient.ravel(), MAX_GRAD_NORM).reshape(weights.shape)
        weights = weights - LEARNING_RATE[loss] * noisy / expected_units
        if step >= N_STEPS // 2:
            total += weights
    return total / (N_STEPS - N_STEPS // 2)


def clipped_sum(units: Units, sample: np.ndarray, weights: np.ndarray, loss: Loss) -> np.ndarray:
    """The sum of the gradients of a sample's units, each scaled to a norm of at most `MAX_GRAD_NORM`.

    Args:
        units: *Sensitive*.
        sample: *Sensitive*. Which units.
        weights: shape (d, n_outputs).
        loss: whose gradient.
    """
    if not len(sample):
        return np.zeros_like(weights)
    X, y, there = units.padded(sample)
    residuals = (predict(X, weights, loss) - _targets(y, weights.shape[1], loss)) * there[:, :, None]
    residuals = residuals * clip_factors(X, residuals)[:, None, None]
    return np.asarray(np.tensordot(X, residuals, axes=([0, 1], [0, 1])))


def clip_factors(X: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """What to scale each unit's gradient by so that its norm is at most `MAX_GRAD_NORM`; shape (u,).

    Args:
        X: inputs, shape (u, k, d).
        residuals: shape (u, k, n_outputs); 0 where there is no row.
    """
    inner = (X @ X.transpose(0, 2, 1)) * (residuals @ residuals.transpose(0, 2, 1))
    norms = np.sqrt(np.maximum(inner.sum(axis=(1, 2)), 0.0))
    return np.asarray(np.minimum(1.0, MAX_GRAD_NORM / np.maximum(norms, 1e-12)))


def predict(X: np.ndarray, weights: np.ndarray, loss: Loss) -> np.ndarray:
    """Probabilities (of the second of two classes for "binary") or numbers; shape (..., n_outputs)."""
    raw = X @ weights
    if loss == "binary":
        return np.asarray(0.5 * (1 + np.tanh(raw / 2)))
    if loss == "softmax":
        powers = np.exp(raw - raw.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    return np.asarray(raw)


def _targets(y: np.ndarray, n_outputs: int, loss: Loss) -> np.ndarray:
    return np.eye(n_outputs)[y.astype(np.int64)] if loss == "softmax" else y[..., None]
