"""A logistic or linear regression by DP-SGD on real rows, at the table's epsilon and delta.

Gradients have a closed form, and each unit's is clipped exactly: with inputs x and residuals r (probabilities less the
true class, or predicted less true number) a row's gradient is the outer product of r and x, and a unit's that of its
rows together; the squared norm of such a sum follows from the inner products of the rows alone. All settings are public
and fixed before a row is read.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1; Goodfellow 2015 (1510.01799) for the norms; Bassily, Smith,
Thakurta 2014 (1405.7085) for averaged iterates; Tao et al. 2021 (2112.09238) for comparing with what needs no table.
"""

import math
from dataclasses import replace

import numpy as np

from evaluate.tables import MetricResult, Tables
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.dp.schedule import calibrate
from understudy.extras.dp_models.comparison import Loss, Problem, UnitRows, metrics, skipped

WHAT = "steps of DP-SGD"
N_STEPS, EXPECTED_ROWS = 300, 2_000  # Steps, and rows in a sample as expected where each unit gives as many as it may
LEAST_RATE = 0.01  # Of sampling: at smaller ones the accountant takes longer than the steps
MAX_GRAD_NORM = 0.5
LEARNING_RATE: dict[Loss, float] = {"binary": 16.0, "softmax": 8.0, "squared": 2.0}
"""Fixed for all tables. Rows have norm 1 at most, and of several columns the mean square of their coordinates is below
1/2 in most directions: losses are then smooth with constant 1/8, 1/4 and 1/2, and steps of up to 2 over it converge."""
METRICS = metrics(
    "utility.dp_alternative", ("Private model without a table", "Cost of going through a table"),
    "Score of a model trained on the real rows by DP-SGD at the table's epsilon.",
    "That score minus the linear model's trained on", "utility.gap.linear",
)  # fmt: skip
MEASURES = tuple(metric.name for metric in METRICS)


def measure(tables: Tables) -> MetricResult:
    """The score of a regression (reference TRTR, floor: trained on shuffled columns), and its lead over the table."""
    problem = Problem.of(tables, 8)
    if isinstance(problem, str):
        return skipped(problem, MEASURES)
    claim, target, share = problem.claim, problem.target, problem.share
    paid = planned(claim.epsilon, claim.delta, claim.n_units, claim.max_rows_per_unit)
    # Of a sample of the units as many are drawn in a step as of all of them, or all of it and less noise in
    # proportion: with the noise that all of them allow.
    part, rate = min(1.0, share / paid.sampling_rate), min(1.0, paid.sampling_rate / share)

    def outputs(rows: UnitRows, noise: float, of_units: float) -> np.ndarray:
        event = replace(paid, sampling_rate=rate, noise_multiplier=noise * part * paid.noise_multiplier)
        expected = of_units * part * paid.sampling_rate * claim.n_units
        steps = Steps(event, N_STEPS, InjectedNoise(problem.rng))
        return predict(problem.test, fit(rows, target.loss, target.n_outputs, steps, expected), target.loss)

    way = f"{'linear' if target.loss == 'squared' else 'logistic'} regression by DP-SGD"
    more = (
        f"{len(problem.space.columns)} columns with a declared domain, noise multiplier {paid.noise_multiplier:.3g} "
        f"over {N_STEPS} steps"
    )
    return problem.compared(outputs, way, more, MEASURES)


def planned(epsilon: float, delta: float, n_units: int, max_rows_per_unit: int) -> SubsampledGaussianEvent:
    """The steps that a claim allows."""
    rate = min(1.0, max(max(EXPECTED_ROWS / max_rows_per_unit, 1.0) / n_units, LEAST_RATE))
    return calibrate(
        lambda rho: [SubsampledGaussianEvent(WHAT, rate * math.sqrt(N_STEPS / (2 * rho)), rate, N_STEPS)],
        epsilon, delta,
    ).required(WHAT, SubsampledGaussianEvent)  # fmt: skip


def fit(units: UnitRows, loss: Loss, n_outputs: int, steps: Steps, expected_units: float) -> np.ndarray:
    """Weights of a regression by DP-SGD, the mean of the second half of its iterates; shape (d, n_outputs)."""
    weights = np.zeros((units.X.shape[1], n_outputs))
    total = np.zeros_like(weights)
    for step in range(N_STEPS):
        gradient = clipped_sum(units, steps.sample(len(units)), weights, loss)
        noisy = steps.release(gradient.ravel(), MAX_GRAD_NORM).reshape(weights.shape)
        weights = weights - LEARNING_RATE[loss] * noisy / expected_units
        if step >= N_STEPS // 2:
            total += weights
    return total / (N_STEPS - N_STEPS // 2)


def clipped_sum(units: UnitRows, sample: np.ndarray, weights: np.ndarray, loss: Loss) -> np.ndarray:
    """The sum of the gradients of a sample's units, each scaled to a norm of at most `MAX_GRAD_NORM`. *Sensitive*."""
    if not len(sample):
        return np.zeros_like(weights)
    X, y, there = units.padded(sample)
    targets = np.eye(weights.shape[1])[y.astype(np.int64)] if loss == "softmax" else y[..., None]
    residuals = (predict(X, weights, loss) - targets) * there[:, :, None]
    residuals = residuals * clip_factors(X, residuals)[:, None, None]
    return np.asarray(np.tensordot(X, residuals, axes=([0, 1], [0, 1])))


def clip_factors(X: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Factors that scale each unit's gradient to a norm of at most `MAX_GRAD_NORM`; shape (u,).
    `X`: shape (u, k, d). `residuals`: shape (u, k, n_outputs); 0 where there is no row.
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
