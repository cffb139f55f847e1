"""The alternative to a private synthetic table: a model trained by DP-SGD on real rows, at the same epsilon and delta.

Who wants one model only need not release a table. This says what the table costs them: the score of a logistic or
linear regression that spends the table's whole claim on itself, beside that of the same kind of model trained on
synthetic rows. It learns from the declared schema and the training rows alone; a column whose domain is to be measured
is left out, and its settings are the same for every table.

The model is never released, and nor is its score: like every number of an evaluation it reads real rows outside the
guarantee, and no budget is charged. Its noise is seeded, as that of no release may be.

Source: Tao et al. 2021 (2112.09238) for comparing with what needs no table; Abadi et al. 2016 (1607.00133) for DP-SGD.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.dp_regression import N_STEPS, Loss, PublicFeatures, UnitRows, fit, planned, predict
from evaluate.utility.study import N_FEWER, Study, interval, study_of
from evaluate.utility.task import Task, public_values
from evaluate.utility.tstr import BOUNDS
from synth.columns import is_measured
from synth.domain import numeric_scale
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.schema import Schema

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
_NO_CLASSES = "the target is classified, and its classes are not public; declare it as categorical, with a list of them"
MAX_UNITS = 100_000
"""Units that it learns from at most, so that a large table fits in memory."""


def measure(tables: Tables) -> MetricResult:
    """Score of a model trained privately on the real rows, and its lead over the synthetic table.

    Estimates: `utility.dp_alternative.score` (it describes; reference TRTR, floor: trained on shuffled columns) and
    `utility.dp_alternative.gap` (alternative - TSTR of the linear model, lower is better for the synthetic table;
    reference and floor: the same for fresh real and for shuffled rows).

    Raises:
        BudgetError: epsilon or delta of the claim is outside what can be calibrated; nothing was measured.
    """
    claim = tables.claim
    if claim is None:
        return _skipped("the table makes no privacy claim, so there is no epsilon to train at")
    why = _hindrance(tables)
    study = why or study_of(tables)
    if isinstance(study, str):
        return _skipped(study)
    if study.task.kind == "classification" and public_values(tables.declared.columns[study.task.target]) is None:
        return _skipped(_NO_CLASSES)
    target = _Target.of(tables.declared, study.task)
    alternative = _Alternative.of(tables, study, target, claim)
    return _measured(study, alternative, claim)


def _skipped(why: str) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in MEASURES))


def _hindrance(tables: Tables) -> str:
    declared, target = tables.declared, tables.declared.target
    if target is None:
        return "the schema names no target"
    if declared.status != "declared":
        return "the schema is inferred: bounds and categories that were read off the table may not be used"
    if is_measured(declared.columns[target]):
        return "the domain of the target is not public, and a model would have to pay for it first"
    if not PublicFeatures.of(declared).columns:
        return "no column with a declared domain could predict the target"
    return ""


@dataclass(frozen=True)
class _Target:
    """The target as numbers by public facts alone, and predictions as the study's."""

    declared: Schema
    task: Task
    loss: Loss
    n_outputs: int

    @classmethod
    def of(cls, declared: Schema, task: Task) -> "_Target":
        if task.kind == "regression":
            return cls(declared, task, "squared", 1)
        n_classes = len(public_values(declared.columns[task.target]) or ())
        return cls(declared, task, "binary" if n_classes == 2 else "softmax", 1 if n_classes == 2 else n_classes)

    @property
    def _column(self) -> Any:
        return self.declared.columns[self.task.target]

    @property
    def _classes(self) -> pd.Index:
        classes: pd.Index = pd.Index(np.array(public_values(self._column), dtype=object))
        return classes

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Classes as declared, or numbers scaled to [-1, 1] by their bounds; NaN where missing; shape (n,)."""
        values = frame[self.task.target]
        if self.loss == "squared":
            low, high = numeric_scale.bounds(self._column)
            scaled = (
                2 * (numeric_scale.positions(values, self._column) - low) / max(high - low, np.finfo(float).tiny) - 1
            )
            return np.clip(scaled, -1.0, 1.0)
        codes = self._classes.get_indexer(pd.Index(values.astype(object)))
        return np.where((codes < 0) | values.isna().to_numpy(dtype=bool), np.nan, codes)

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities of the task's classes, shape (n, n_classes), or numbers, shape (n,)."""
        if self.loss == "squared":
            low, high = numeric_scale.bounds(self._column)
            return np.asarray(np.clip(low + (np.clip(outputs[:, 0], -1, 1) + 1) / 2 * (high - low), *self.task.limits))
        shares = np.hstack([1 - outputs, outputs]) if self.loss == "binary" else outputs
        places = self._classes.get_indexer(pd.Index(self.task.classes.astype(object)))
        return np.where(places >= 0, shares[:, places], 0.0)


@dataclass(frozen=True)
class _Alternative:
    """Predictions for the control rows: of fits on all units, and of fits on both halves of each split."""

    whole: tuple[np.ndarray, ...]
    halves: tuple[tuple[np.ndarray, np.ndarray], ...]
    event: SubsampledGaussianEvent
    n_columns: int

    @classmethod
    def of(cls, tables: Tables, study: Study, target: _Target, claim: StatedClaim) -> "_Alternative":
        features = PublicFeatures.of(tables.declared)
        units, share = _units(tables, features, target, claim.max_rows_per_unit)
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
        return cls(whole, tuple(halves), paid, len(features.columns))


def _units(tables: Tables, features: PublicFeatures, target: _Target, max_rows_per_unit: int) -> tuple[UnitRows, float]:
    """The training rows with a target by unit, in a seeded order, and the share of the units that they are."""
    order = drawn_order(learned_keys(tables.train, tables.schema), tables.seed)
    y = target.encode(tables.train)[order]
    order, y = order[~np.isnan(y)], y[~np.isnan(y)]
    owner = pd.factorize(entity_codes(tables.train, tables.schema)[order])[0]
    kept, share = owner < MAX_UNITS, min(1.0, MAX_UNITS / (int(owner.max()) + 1))
    if tables.stored is not None:  # the rows at hand are a sample already
        share *= tables.stored.real.n_sampled["train"] / tables.stored.real.n_rows["train"]
    return UnitRows.of(features.apply(tables.train.iloc[order[kept]]), y[kept], owner[kept], max_rows_per_unit), share


def _measured(study: Study, alternative: _Alternative, claim: StatedClaim) -> MetricResult:
    bounds, n = BOUNDS[study.task.metric], len(study.test.truth)
    fewer = np.vstack([study.blocks[0], study.blocks[1][:N_FEWER]])

    def mean(predictions: tuple[np.ndarray, ...], blocks: tuple[np.ndarray, ...]) -> np.ndarray:
        scores = [np.concatenate([study.score(one, weights) for weights in blocks]) for one in predictions]
        return np.asarray(np.mean(scores, axis=0))

    drawn = mean(alternative.whole, study.blocks)
    halves = np.array([[study.score(one, fewer) for one in pair] for pair in alternative.halves])
    halves = halves if len(halves) else np.zeros((0, 2, len(fewer)))
    synthetic, synthetic_halves = study.drawn("linear", "tstr", study.score), study.split("linear", "tstr", study.score)
    n_splits = min(len(halves), len(synthetic_halves))
    gap, gap_halves = drawn - synthetic, halves[:n_splits] - synthetic_halves[:n_splits]
    landmarks = {side: float(study.drawn("linear", side, study.score)[0]) for side in ("trtr", "fresh", "floor")}
    note = _note(study, alternative, claim)
    low, high = interval(drawn, halves, bounds=bounds)
    width = bounds[1] - bounds[0]
    gap_low, gap_high = interval(gap, gap_halves, bounds=(-width, width))
    value = float(drawn[0])
    estimates = (
        Estimate(
            MEASURES[0], value, n, "none", low=low, high=high,
            reference=landmarks["trtr"], floor=landmarks["floor"], note=note,
        ),
        Estimate(
            MEASURES[1], float(gap[0]), n, "lower", low=gap_low, high=gap_high,
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
