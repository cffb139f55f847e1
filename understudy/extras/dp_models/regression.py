"""A logistic or linear regression by DP-SGD on real rows, at the table's epsilon and delta.

What it would give without a table is compared with what the synthetic table gives, by repeated fits (`groups`, too).
Gradients have a closed form, and each unit's is clipped exactly: with inputs x and residuals r (probabilities less the
true class, or predicted less true number) a row's gradient is the outer product of r and x, and a unit's that of its
rows together; the squared norm of such a sum follows from the inner products of the rows alone. All settings are public
and fixed before a row is read.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1; Goodfellow 2015 (1510.01799) for the norms; Bassily, Smith,
Thakurta 2014 (1405.7085) for averaged iterates; Tao et al. 2021 (2112.09238) for comparing with what needs no table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.utility.clusters import GroupSpace, ScaledColumn
from evaluate.utility.models import predictors
from evaluate.utility.study import Scored, Task, interval, public_values, study_of
from evaluate.utility.tstr import BOUNDS
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.dp.schedule import calibrate
from synth.schema import Schema

N_RUNS, N_SPLITS = 4, 4  # Fits that the score is the mean of, and splits of the training rows in halves
# On half the units. Half the noise would be as noisy as one fit; the score is the mean of several.
LESS_NOISE = math.sqrt(2 / N_RUNS) / 2
MAX_UNITS = 100_000  # Units that are learned from at most, so that a large table fits in memory
Predicted = tuple[list[np.ndarray], list[list[np.ndarray]]]  # of fits on all units, and on both halves of some splits
Loss = Literal["binary", "softmax", "squared"]
WHAT = "steps of DP-SGD"
N_STEPS, EXPECTED_ROWS = 300, 2_000  # Steps, and rows in a sample as expected where each unit gives as many as it may
LEAST_RATE = 0.01  # Of sampling: at smaller ones the accountant takes longer than the steps
MAX_GRAD_NORM = 0.5
LEARNING_RATE: dict[Loss, float] = {"binary": 16.0, "softmax": 8.0, "squared": 2.0}
"""Fixed for all tables. Rows have norm 1 at most, and of several columns the mean square of their coordinates is below
1/2 in most directions: losses are then smooth with constant 1/8, 1/4 and 1/2, and steps of up to 2 over it converge."""
GAP = "utility.dp_alternative.gap"


def metric(name: str, title: str, lead: str, better: str) -> Metric:
    return Metric(
        name, "lower", title, f"{lead} synthetic rows; above 0, the table costs that much.",
        describes=f"it says what another way would give, not how good the table is; name {better!r}",
    )  # fmt: skip


def repeated(units: Any, fit: Callable[[Any, float, float], np.ndarray], rng: np.random.Generator) -> Predicted:
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


def lead(
    measure: str, study: Scored, form: str, predicted: Predicted, bounds: tuple[float, float], note: str
) -> MetricResult:
    whole, pairs = np.mean([study.replicated(each) for each in predicted[0]], axis=0), study.of_halves(predicted[1])
    gap, halves = whole - study.drawn(form, "tstr"), study.split(form, "tstr")
    n_splits, value, width = min(len(pairs), len(halves)), float(whole[0]), bounds[1] - bounds[0]
    low, high = interval(gap, pairs[:n_splits] - halves[:n_splits], bounds=(-width, width))
    estimate = Estimate(
        measure, float(gap[0]), study.blocks[0].shape[1], "lower", low=low, high=high,
        reference=value - study.value(form, "fresh"), floor=value - study.value(form, "floor"),
        note=f"alternative ({value:.3f}) less what synthetic rows teach: {note}",
    )  # fmt: skip
    return MetricResult((estimate,))


METRICS = (
    metric(
        GAP, "Cost of going through a table", "Score of a model trained on the real rows by DP-SGD at the table's "
        "epsilon, minus the linear model's trained on", "utility.tstr.linear",
    ),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    claim, study = tables.claim, _hindrance(tables) or study_of(tables)
    if claim is None or isinstance(study, str):
        return MetricResult(failures=(Failure(GAP, "skipped", str(study)),))
    target, space = Target(tables.declared, study.task), public_columns(tables.declared)
    if study.task.kind == "classification" and not len(target.classes):
        why = "the target is classified, and its classes are not public; declare a list"
        return MetricResult(failures=(Failure(GAP, "skipped", why),))
    units, share = units_of(tables, space, target.encode(tables.train))
    paid = planned(claim.epsilon, claim.delta, claim.n_units, claim.max_rows_per_unit)
    # Of a sample of the units as many are drawn in a step as of all of them, or all of it and less noise in
    # proportion: with the noise that all of them allow.
    part, rate = min(1.0, share / paid.sampling_rate), min(1.0, paid.sampling_rate / share)
    test, rng = encode(space, study.test.rows).astype(np.float64), np.random.default_rng([tables.seed, 8])

    def predicted(rows: UnitRows, noise: float, of_units: float) -> np.ndarray:
        event = replace(paid, sampling_rate=rate, noise_multiplier=noise * part * paid.noise_multiplier)
        expected = of_units * part * paid.sampling_rate * claim.n_units
        weights = fit(rows, target.loss, target.n_outputs, Steps(event, N_STEPS, InjectedNoise(rng)), expected)
        return target.decode(predict(test, weights, target.loss))

    outputs = repeated(units, predicted, rng)
    note = (
        f"{'linear' if target.loss == 'squared' else 'logistic'} regression by DP-SGD at epsilon={claim.epsilon:.3g}, "
        f"delta={claim.delta:.3g}, mean of {N_RUNS} fits, {len(space.columns)} columns with a declared domain, noise "
        f"multiplier {paid.noise_multiplier:.3g} over {N_STEPS} steps"
    )
    return lead(GAP, study, "linear", outputs, BOUNDS[study.task.metric], note)


def _hindrance(tables: Tables) -> str:
    declared, target = tables.declared, tables.declared.target
    if tables.claim is None:
        return "the table makes no privacy claim, so there is no epsilon to train at"
    if target is None:
        return "the schema names no target"
    if declared.status != "declared":
        return "the schema is inferred: bounds and categories that were read off the table may not be used"
    if declared.columns[target].is_measured or not public_columns(declared).columns:
        return "the domain of the target or of all other columns is not public, and would have to be paid for first"
    return ""


def public_columns(declared: Schema) -> GroupSpace:
    names = [name for name in predictors(declared) if not declared.columns[name].is_measured]
    return GroupSpace(tuple(ScaledColumn(name, declared.columns[name]) for name in names))


def encode(space: GroupSpace, frame: pd.DataFrame) -> np.ndarray:
    """Rows of an L2 norm of at most 1, the last coordinate for the intercept; shape (n, d), float32."""
    rows = np.hstack([space.apply(frame).toarray().astype(np.float32), np.ones((len(frame), 1), dtype=np.float32)])
    return rows * np.float32(1 / np.sqrt(len(space.columns) + 1))


@dataclass(frozen=True)
class Target:
    declared: Schema
    task: Task

    @cached_property
    def classes(self) -> pd.Index:
        known = public_values(self.declared.columns[self.task.target]) if self.task.kind == "classification" else None
        classes: pd.Index = pd.Index(np.array(known or (), dtype=object))
        return classes

    @property
    def loss(self) -> Loss:
        return "squared" if self.task.kind == "regression" else "binary" if len(self.classes) == 2 else "softmax"

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if self.loss == "softmax" else 1

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Classes as declared, or numbers scaled to [-1, 1] by their bounds; NaN where missing; shape (n,)."""
        values = replace(self.task, limits=(-np.inf, np.inf), classes=self.classes).truth(frame, self.declared)
        if self.loss != "squared":
            return values
        low, high = self.declared.columns[self.task.target].ends
        return np.asarray(np.clip(2 * (values - low) / max(high - low, np.finfo(float).tiny) - 1, -1.0, 1.0))

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities of the task's classes, shape (n, n_classes), or numbers, shape (n,)."""
        if self.loss == "squared":
            low, high = self.declared.columns[self.task.target].ends
            return np.asarray(np.clip(low + (np.clip(outputs[:, 0], -1, 1) + 1) / 2 * (high - low), *self.task.limits))
        shares = np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs
        codes = self.classes.get_indexer(pd.Index(self.task.classes.astype(object)))
        return np.where(codes >= 0, shares[:, codes], 0.0)


@dataclass(frozen=True)
class UnitRows:
    X: np.ndarray  # inputs of norm at most 1, shape (n_rows, d), float32
    y: np.ndarray  # classes as whole numbers or targets in [-1, 1], shape (n_rows,)
    first: np.ndarray  # where each unit's rows start, side by side, shape (n_units,)
    size: np.ndarray  # how many rows each has, at least 1, shape (n_units,)

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, owner: np.ndarray, max_rows_per_unit: int) -> Self:
        """Rows sorted by owner (from 0 without a gap, shape (n,)), of each the first ones."""
        order, size = np.argsort(owner, kind="stable"), np.bincount(owner)
        return cls(X[order], y[order], np.cumsum(size) - size, np.minimum(size, max_rows_per_unit))

    def __len__(self) -> int:
        return len(self.first)

    def padded(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of some units: inputs (u, k, d), targets (u, k) and which of them are there (u, k)."""
        rank = np.arange(int(self.size.max()))
        there = rank < self.size[units, None]
        rows = np.where(there, self.first[units, None] + rank, 0)
        return self.X[rows].astype(np.float64), self.y[rows], there

    def halves(self, rng: np.random.Generator) -> "list[UnitRows]":
        halves = map(np.sort, np.split(rng.permutation(len(self)), [len(self) // 2]))
        return [replace(self, first=self.first[units], size=self.size[units]) for units in halves]


def units_of(tables: Tables, space: GroupSpace, y: np.ndarray) -> tuple[UnitRows, float]:
    """*Sensitive*. The training rows with a target by unit, in a seeded order; the share of the units that they are."""
    order = tables.drawn(tables.train)
    order = order[~np.isnan(y[order])]
    owner = pd.factorize(entity_codes(tables.train, tables.schema)[order])[0]
    kept, share = order[owner < MAX_UNITS], min(1.0, MAX_UNITS / (int(owner.max()) + 1))
    k = 1 if tables.claim is None else tables.claim.max_rows_per_unit
    units = UnitRows.of(encode(space, tables.train.iloc[kept]), y[kept], owner[owner < MAX_UNITS], k)
    return units, share * tables.share_at_hand("train")  # the rows at hand may be a sample already


def planned(epsilon: float, delta: float, n_units: int, max_rows_per_unit: int) -> SubsampledGaussianEvent:
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
    """Factors that scale each unit's gradient to a norm of at most `MAX_GRAD_NORM`; shape (u,). Residuals of shape
    (u, k, n_outputs) are 0 where there is no row.
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
