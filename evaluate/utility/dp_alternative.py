"""The alternative to a private table: one model trained by DP-SGD on real rows, at the same epsilon and delta.

Who wants one model only need not release a table. This says what the table costs them: the score of a logistic or
linear regression that spends the table's whole claim on itself, beside that of the same kind of model trained on
synthetic rows. It learns from the declared schema and the training rows alone; a column whose domain is to be measured
is left out, and its settings are the same for every table.

The model is never released, and nor is its score: like every number of an evaluation it reads real rows outside the
guarantee, and no budget is charged. Its noise is seeded, as that of no release may be.

Source: Tao et al. 2021 (2112.09238) for comparing with what needs no table; Abadi et al. 2016 (1607.00133) for DP-SGD.

Logistic and linear regression by DP-SGD, in numpy: gradients have a closed form, and each unit's is clipped exactly.

With inputs x and residuals r (probabilities less the true class, or predicted less true number) a row's gradient is the
outer product of r and x, and a unit's that of its rows together; the squared norm of such a sum follows from the inner
products of the rows alone. All settings are public and fixed before a row is read.

Features (`PublicFeatures`) are made by the declared schema alone and are of bounded length: nothing there looks at a
table. A column with categories has a coordinate for each of them; a number with public bins one for each bin; any other
number or time lies between two of a few knots on its declared bounds. A column whose bounds or categories are to be
measured is left out: its domain would have to be paid for first.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1; Goodfellow 2015 (1510.01799) for the norms; Bassily, Smith,
Thakurta 2014 (1405.7085) for averaged iterates of noisy convex descent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.models import predictors
from evaluate.utility.study import N_FEWER, Study, interval, study_of
from evaluate.utility.task import Task, public_values
from evaluate.utility.tstr import BOUNDS
from synth.dp.events import Event, SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.dp.schedule import Plan, calibrate
from synth.schema import Schema

N_KNOTS = 9  # Knots of a number without public bins


@dataclass(frozen=True)
class ScaledColumn:
    """One column's coordinates; their L2 norm is at most 1."""

    name: str
    column: Any
    n_knots: int | None = None

    @property
    def width(self) -> int:
        """Coordinates, one of them for missing and, with categories, one for others."""
        if self.column.is_categorical:
            return len(self.column.levels) + 2
        return (len(self._bins) - 1 if len(self._bins) else self._n_knots) + 1

    @property
    def _n_knots(self) -> int:
        return N_KNOTS if self.n_knots is None else self.n_knots

    @cached_property
    def _bins(self) -> np.ndarray:
        if self.n_knots is not None:
            return np.zeros(0)
        return np.array([self.column.position(edge) for edge in self.column.bins if edge is not None])

    def apply(self, series: pd.Series) -> np.ndarray:
        """Coordinates of the values, shape (n, width), float32."""
        found = np.zeros((len(series), self.width), dtype=np.float32)
        rows = np.arange(len(series))
        if self.column.is_categorical:
            codes = pd.Index(self.column.levels).get_indexer(pd.Index(series.astype(object)))
            codes = np.where(codes < 0, self.width - 2, codes)
            found[rows, np.where(series.isna().to_numpy(dtype=bool), self.width - 1, codes)] = 1.0
            return found
        positions = self.column.positions(series)
        missing = np.isnan(positions)
        low, share = self._places(np.where(missing, self.column.ends[0], positions))
        found[rows, np.where(missing, self.width - 1, low)] = np.where(missing, 1.0, 1.0 - share)
        upper = ~missing & (share > 0)
        found[rows[upper], low[upper] + 1] = share[upper]
        return found

    def _places(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bin or knot at or below each position, and how far it lies on the way to the next knot."""
        if len(self._bins):
            return np.clip(np.searchsorted(self._bins, positions, side="right") - 1, 0, self.width - 2), np.zeros(
                len(positions)
            )
        ends = np.array(self.column.ends)
        if getattr(self.column, "scale", "linear") == "log":
            positions, ends = (np.sign(part) * np.log1p(np.abs(part)) for part in (positions, ends))
        places = (positions - ends[0]) / max(float(ends[1] - ends[0]), np.finfo(float).tiny) * (self._n_knots - 1)
        places = np.clip(places, 0.0, self._n_knots - 1)
        low = np.minimum(places.astype(np.int64), self._n_knots - 2)
        return low, places - low


@dataclass(frozen=True)
class PublicFeatures:
    """The encoding of rows as a matrix whose rows have an L2 norm of at most 1.

    >>> from synth.schema import build_schema
    >>> columns = {"a": {"kind": "boolean"}, "y": {"kind": "boolean"}}
    >>> features = PublicFeatures.of(build_schema({"status": "declared", "target": "y", "columns": columns}))
    >>> features.apply(pd.DataFrame({"a": [True]})).astype(float).round(2).tolist()
    [[0.0, 0.71, 0.0, 0.0, 0.71]]
    """

    columns: tuple[ScaledColumn, ...]

    @classmethod
    def of(cls, declared: Schema) -> "PublicFeatures":
        names = [name for name in predictors(declared) if not declared.columns[name].is_measured]
        return cls(tuple(ScaledColumn(name, declared.columns[name]) for name in names))

    def apply(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows as a matrix, the last coordinate for the intercept; shape (n, d), float32."""
        scale = np.float32(1 / np.sqrt(len(self.columns) + 1))
        parts = [column.apply(frame[column.name]) for column in self.columns]
        return np.hstack([*parts, np.ones((len(frame), 1), dtype=np.float32)]) * scale


Loss = Literal["binary", "softmax", "squared"]
WHAT = "steps of DP-SGD"
N_STEPS, EXPECTED_ROWS = 300, 2_000  # Steps, and rows in a sample as expected where each unit gives as many as it may
LEAST_RATE = 0.01  # Of sampling: at smaller ones the accountant takes longer than the steps
MAX_GRAD_NORM = 0.5
LEARNING_RATE: dict[Loss, float] = {"binary": 16.0, "softmax": 8.0, "squared": 2.0}
"""Fixed for all tables. Rows have norm 1 at most, and of several columns the mean square of their coordinates is below
1/2 in most directions: losses are then smooth with constant 1/8, 1/4 and 1/2, and steps of up to 2 over it converge."""


@dataclass(frozen=True)
class UnitRows:
    """Rows by unit of privacy. *Sensitive*."""

    X: np.ndarray  # inputs of norm at most 1, rows of a unit side by side, shape (n_rows, d), float32
    y: np.ndarray  # classes as whole numbers or targets in [-1, 1], shape (n_rows,)
    first: np.ndarray  # where each unit's rows start, shape (n_units,)
    size: np.ndarray  # how many rows each has, at least 1, shape (n_units,)

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, owner: np.ndarray, max_rows_per_unit: int) -> "UnitRows":
        """Rows sorted by owner, of each the first ones. `X`: shape (n, d). `y`: shape (n,). `owner`: the unit of each
        row, from 0 without a gap, shape (n,).
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

    def subset(self, units: np.ndarray) -> "UnitRows":
        size = self.size[units]
        rows = np.repeat(self.first[units] - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return UnitRows(self.X[rows], self.y[rows], np.cumsum(size) - size, size)


def planned(epsilon: float, delta: float, n_units: int, max_rows_per_unit: int) -> SubsampledGaussianEvent:
    """The steps that a claim allows."""
    rate = min(1.0, max(max(EXPECTED_ROWS / max_rows_per_unit, 1.0) / n_units, LEAST_RATE))

    def events(rho: float) -> list[Event]:
        return [SubsampledGaussianEvent(WHAT, rate * math.sqrt(N_STEPS / (2 * rho)), rate, N_STEPS)]

    plan: Plan = events
    (event,) = calibrate(plan, epsilon, delta).events
    if not isinstance(event, SubsampledGaussianEvent):
        raise TypeError("the plan of a regression has steps of DP-SGD and nothing else")
    return event


def fit(units: UnitRows, loss: Loss, n_outputs: int, steps: Steps, expected_units: float) -> np.ndarray:
    """Weights of a regression by DP-SGD, the mean of the second half of its iterates; shape (d, n_outputs). `units`:
    *Sensitive*.
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


def clipped_sum(units: UnitRows, sample: np.ndarray, weights: np.ndarray, loss: Loss) -> np.ndarray:
    """The sum of the gradients of a sample's units, each scaled to a norm of at most `MAX_GRAD_NORM`. `units`:
    *Sensitive*. `sample`: *Sensitive*. Which units. `weights`: shape (d, n_outputs).
    """
    if not len(sample):
        return np.zeros_like(weights)
    X, y, there = units.padded(sample)
    residuals = (predict(X, weights, loss) - _targets(y, weights.shape[1], loss)) * there[:, :, None]
    residuals = residuals * clip_factors(X, residuals)[:, None, None]
    return np.asarray(np.tensordot(X, residuals, axes=([0, 1], [0, 1])))


def clip_factors(X: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Factors that scale each unit's gradient to a norm of at most `MAX_GRAD_NORM`; shape (u,). `X`: inputs, shape (u,
    k, d). `residuals`: shape (u, k, n_outputs); 0 where there is no row.
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


_OF_ANOTHER = "it says what another way would give, not how good the table is; name 'utility.gap.linear'"
METRICS = (
    Metric("utility.dp_alternative.score", "none", "Private model without a table",
           "Score of a model trained on the real rows by DP-SGD at the table's epsilon.", describes=_OF_ANOTHER),
    Metric("utility.dp_alternative.gap", "lower", "Cost of going through a table",
           "That score minus the linear model's trained on synthetic rows; above 0, the table costs that much.",
           describes=_OF_ANOTHER),
)  # fmt: skip

MEASURES = tuple(metric.name for metric in METRICS)
N_RUNS, N_SPLITS = 4, 4
"""Fits that the score is the mean of, each with noise of its own, and splits of the training rows in halves."""
INFERRED = "the schema is inferred: bounds and categories that were read off the table may not be used"
"""The reason why there is no alternative beside an inferred schema."""
_NO_CLAIM = "the table makes no privacy claim, so there is no epsilon to train at"
_NO_CLASSES = "the target is classified, and its classes are not public; declare it as categorical, with a list of them"
MAX_UNITS = 100_000  # Units that it learns from at most, so that a large table fits in memory


def measure(tables: Tables) -> MetricResult:
    """Score of a model trained privately on the real rows, and its lead over the synthetic table.

    Estimates: `utility.dp_alternative.score` (it describes; reference TRTR, floor: trained on shuffled columns) and
    `utility.dp_alternative.gap` (alternative - TSTR of the linear model, lower is better for the synthetic table;
    reference and floor: the same for fresh real and for shuffled rows).
    """
    claim = tables.claim
    study = study_for(tables)
    if claim is None or isinstance(study, str):
        return skipped(study if isinstance(study, str) else _NO_CLAIM, MEASURES)
    target = Target.of(tables.declared, study.task)
    alternative = _Alternative.of(tables, study, target, claim)
    return compared(study, alternative.predictions, _note(study, alternative, claim), MEASURES)


def skipped(why: str, measures: tuple[str, ...]) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in measures))


def study_for(tables: Tables) -> Study | str:
    if tables.claim is None:
        return _NO_CLAIM
    study = hindrance(tables) or study_of(tables)
    if isinstance(study, str):
        return study
    if study.task.kind == "classification" and public_values(tables.declared.columns[study.task.target]) is None:
        return _NO_CLASSES
    return study


def hindrance(tables: Tables) -> str:
    """The reason why no model can be trained on public facts and real rows alone; empty where one can."""
    declared, target = tables.declared, tables.declared.target
    if target is None:
        return "the schema names no target"
    if declared.status != "declared":
        return INFERRED
    if declared.columns[target].is_measured:
        return "the domain of the target is not public, and a model would have to pay for it first"
    if not PublicFeatures.of(declared).columns:
        return "no column with a declared domain could predict the target"
    return ""


@dataclass(frozen=True)
class Target:
    declared: Schema
    task: Task
    loss: Loss
    n_outputs: int

    @classmethod
    def of(cls, declared: Schema, task: Task) -> "Target":
        if task.kind == "regression":
            return cls(declared, task, "squared", 1)
        n_classes = len(public_values(declared.columns[task.target]) or ())
        return cls(declared, task, "binary" if n_classes == 2 else "softmax", 1 if n_classes == 2 else n_classes)

    @property
    def _column(self) -> Any:
        return self.declared.columns[self.task.target]

    @property
    def classes(self) -> pd.Index:
        classes: pd.Index = pd.Index(np.array(public_values(self._column), dtype=object))
        return classes

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Classes as declared, or numbers scaled to [-1, 1] by their bounds; NaN where missing; shape (n,)."""
        values = frame[self.task.target]
        if self.loss == "squared":
            low, high = self._column.ends
            scaled = 2 * (self._column.positions(values) - low) / max(high - low, np.finfo(float).tiny) - 1
            return np.asarray(np.clip(scaled, -1.0, 1.0))
        codes = self.classes.get_indexer(pd.Index(values.astype(object)))
        return np.where((codes < 0) | values.isna().to_numpy(dtype=bool), np.nan, codes)

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities of the task's classes, shape (n, n_classes), or numbers, shape (n,)."""
        if self.loss == "squared":
            low, high = self._column.ends
            return np.asarray(np.clip(low + (np.clip(outputs[:, 0], -1, 1) + 1) / 2 * (high - low), *self.task.limits))
        shares = np.hstack([1 - outputs, outputs]) if self.loss == "binary" else outputs
        places = self.classes.get_indexer(pd.Index(self.task.classes.astype(object)))
        return np.where(places >= 0, shares[:, places], 0.0)


@dataclass(frozen=True)
class Predictions:
    """Predictions for the control rows: of fits on all units, and of fits on both halves of each split."""

    whole: tuple[np.ndarray, ...]
    halves: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class _Alternative:
    predictions: Predictions
    event: SubsampledGaussianEvent
    n_columns: int

    @classmethod
    def of(cls, tables: Tables, study: Study, target: Target, claim: StatedClaim) -> "_Alternative":
        features = PublicFeatures.of(tables.declared)
        units, share = units_of(tables, features, target, claim.max_rows_per_unit)
        paid = planned(claim.epsilon, claim.delta, claim.n_units, claim.max_rows_per_unit)
        # Of a sample of the units as many are drawn in a step as of all of them, or all of it and less noise in
        # proportion: with the noise that all of them allow.
        part = min(1.0, share / paid.sampling_rate)
        expected = part * paid.sampling_rate * claim.n_units
        rate = min(1.0, paid.sampling_rate / share)
        event = replace(paid, sampling_rate=rate, noise_multiplier=part * paid.noise_multiplier)
        X = features.apply(study.test.rows).astype(np.float64)
        rng = np.random.default_rng([tables.seed, 8])

        def predicted(of: UnitRows, event: SubsampledGaussianEvent, expected: float) -> np.ndarray:
            weights = fit(of, target.loss, target.n_outputs, Steps(event, N_STEPS, InjectedNoise(rng)), expected)
            return target.decode(predict(X, weights, target.loss))

        whole = tuple(predicted(units, event, expected) for _ in range(N_RUNS))
        # Half the units with half the noise would be as noisy as one fit; the score is the mean of several.
        half = replace(event, noise_multiplier=event.noise_multiplier / 2 * np.sqrt(2 / N_RUNS))
        halves = []
        for _ in range(N_SPLITS if len(units) > 1 else 0):
            order = rng.permutation(len(units))
            parts = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
            first, second = (predicted(units.subset(part), half, expected / 2) for part in parts)
            halves.append((first, second))
        return cls(Predictions(whole, tuple(halves)), paid, len(features.columns))


def units_of(
    tables: Tables, features: PublicFeatures, target: Target, max_rows_per_unit: int
) -> tuple[UnitRows, float]:
    """*Sensitive*. The training rows with a target by unit, in a seeded order; the share of the units that they are."""
    order = tables.drawn(tables.train)
    y = target.encode(tables.train)[order]
    order, y = order[~np.isnan(y)], y[~np.isnan(y)]
    owner = pd.factorize(entity_codes(tables.train, tables.schema)[order])[0]
    kept, share = owner < MAX_UNITS, min(1.0, MAX_UNITS / (int(owner.max()) + 1))
    share *= tables.share_at_hand("train")  # the rows at hand may be a sample already
    return UnitRows.of(features.apply(tables.train.iloc[order[kept]]), y[kept], owner[kept], max_rows_per_unit), share


def compared(study: Study, predictions: Predictions, note: str, measures: tuple[str, ...]) -> MetricResult:
    """The score of an alternative, and its lead over the linear model trained on the synthetic table."""
    bounds, n = BOUNDS[study.task.metric], len(study.test.truth)
    fewer = np.vstack([study.blocks[0], study.blocks[1][:N_FEWER]])

    def mean(several: tuple[np.ndarray, ...], blocks: tuple[np.ndarray, ...]) -> np.ndarray:
        scores = [np.concatenate([study.score(one, weights) for weights in blocks]) for one in several]
        return np.asarray(np.mean(scores, axis=0))

    drawn = mean(predictions.whole, study.blocks)
    halves = np.array([[study.score(one, fewer) for one in pair] for pair in predictions.halves])
    halves = halves if len(halves) else np.zeros((0, 2, len(fewer)))
    synthetic, synthetic_halves = study.drawn("linear", "tstr", study.score), study.split("linear", "tstr", study.score)
    n_splits = min(len(halves), len(synthetic_halves))
    gap, gap_halves = drawn - synthetic, halves[:n_splits] - synthetic_halves[:n_splits]
    landmarks = {side: float(study.drawn("linear", side, study.score)[0]) for side in ("trtr", "fresh", "floor")}
    low, high = interval(drawn, halves, bounds=bounds)
    width = bounds[1] - bounds[0]
    gap_low, gap_high = interval(gap, gap_halves, bounds=(-width, width))
    value = float(drawn[0])
    estimates = (
        Estimate(
            measures[0], value, n, "none", low=low, high=high,
            reference=landmarks["trtr"], floor=landmarks["floor"], note=note,
        ),
        Estimate(
            measures[1], float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=value - landmarks["fresh"], floor=value - landmarks["floor"],
            note=f"alternative - TSTR of the linear model: {note}",
        ),
    )  # fmt: skip
    return MetricResult(estimates)


def _note(study: Study, alternative: _Alternative, claim: StatedClaim) -> str:
    form: Callable[[float], str] = "{:.3g}".format
    kind = "linear" if study.task.kind == "regression" else "logistic"
    return (
        f"{kind} regression by DP-SGD at epsilon={form(claim.epsilon)}, delta={form(claim.delta)}, "
        f"mean of {N_RUNS} fits, {alternative.n_columns} columns with a declared domain, "
        f"noise multiplier {form(alternative.event.noise_multiplier)} over {N_STEPS} steps"
    )
