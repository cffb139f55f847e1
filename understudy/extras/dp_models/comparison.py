"""What the alternatives share: real rows by unit, repeated fits, and the comparison with the synthetic table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.utility.k_means import ScaledColumn
from evaluate.utility.models import predictors
from evaluate.utility.study import N_FEWER, Study, interval, study_of
from evaluate.utility.task import Task, public_values
from evaluate.utility.tstr import BOUNDS
from synth.schema import Schema

N_RUNS, N_SPLITS = 4, 4
"""Fits that the score is the mean of, each with noise of its own, and splits of the training rows in halves."""
LESS_NOISE = math.sqrt(2 / N_RUNS) / 2
"""On half the units. Half the noise would be as noisy as one fit; the score is the mean of several."""
MAX_UNITS = 100_000  # Units that are learned from at most, so that a large table fits in memory
Loss = Literal["binary", "softmax", "squared"]


@dataclass(frozen=True)
class PublicFeatures:
    """The encoding of rows as a matrix whose rows have an L2 norm of at most 1, by the declared schema alone.

    >>> from synth.schema import build_schema
    >>> columns = {"a": {"kind": "boolean"}, "y": {"kind": "boolean"}}
    >>> features = PublicFeatures.of(build_schema({"status": "declared", "target": "y", "columns": columns}))
    >>> features.apply(pd.DataFrame({"a": [True]})).astype(float).round(2).tolist()
    [[0.0, 0.71, 0.0, 0.0, 0.71]]
    """

    columns: tuple[ScaledColumn, ...]

    @classmethod
    def of(cls, declared: Schema) -> Self:
        names = [name for name in predictors(declared) if not declared.columns[name].is_measured]
        return cls(tuple(ScaledColumn(name, declared.columns[name]) for name in names))

    def apply(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows as a matrix, the last coordinate for the intercept; shape (n, d), float32."""
        scale = np.float32(1 / np.sqrt(len(self.columns) + 1))
        parts = [column.apply(frame[column.name]) for column in self.columns]
        return np.hstack([*parts, np.ones((len(frame), 1), dtype=np.float32)]) * scale


@dataclass(frozen=True)
class UnitRows:
    """Rows by unit of privacy. *Sensitive*."""

    X: np.ndarray  # inputs of norm at most 1, rows of a unit side by side, shape (n_rows, d), float32
    y: np.ndarray  # classes as whole numbers or targets in [-1, 1], shape (n_rows,)
    first: np.ndarray  # where each unit's rows start, shape (n_units,)
    size: np.ndarray  # how many rows each has, at least 1, shape (n_units,)

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, owner: np.ndarray, max_rows_per_unit: int) -> Self:
        """Rows sorted by owner (from 0 without a gap, shape (n,)), of each the first ones."""
        order, size = np.argsort(owner, kind="stable"), np.bincount(owner)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
        order, size = order[rank < max_rows_per_unit], np.minimum(size, max_rows_per_unit)
        return cls(X[order], y[order], np.cumsum(size) - size, size)

    def __len__(self) -> int:
        return len(self.first)

    def padded(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of some units: inputs (u, k, d), targets (u, k) and which of them are there (u, k)."""
        rank = np.arange(int(self.size.max()))
        there = rank < self.size[units, None]
        rows = np.where(there, self.first[units, None] + rank, 0)
        return self.X[rows].astype(np.float64), self.y[rows], there

    def subset(self, units: np.ndarray) -> "UnitRows":
        size = self.size[units]
        rows = np.repeat(self.first[units] - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return UnitRows(self.X[rows], self.y[rows], np.cumsum(size) - size, size)

    def halves(self, rng: np.random.Generator) -> "tuple[UnitRows, UnitRows]":
        order = rng.permutation(len(self))
        return self.subset(np.sort(order[: len(self) // 2])), self.subset(np.sort(order[len(self) // 2 :]))


@dataclass(frozen=True)
class Target:
    """A declared target, as models learn it."""

    declared: Schema
    task: Task
    loss: Loss
    n_outputs: int

    @classmethod
    def of(cls, declared: Schema, task: Task) -> Self:
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
        shares = np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs
        codes = self.classes.get_indexer(pd.Index(self.task.classes.astype(object)))
        return np.where(codes >= 0, shares[:, codes], 0.0)


def study_for(tables: Tables) -> Study | str:
    """The study that an alternative is compared within, or why there is none."""
    study = _hindrance(tables) or study_of(tables)
    if isinstance(study, str) or study.task.kind == "regression":
        return study
    if public_values(tables.declared.columns[study.task.target]) is None:
        return "the target is classified, and its classes are not public; declare it as categorical, with a list"
    return study


def _hindrance(tables: Tables) -> str:
    declared, target = tables.declared, tables.declared.target
    why = ""
    if tables.claim is None:
        why = "the table makes no privacy claim, so there is no epsilon to train at"
    elif target is None:
        why = "the schema names no target"
    elif declared.status != "declared":
        why = "the schema is inferred: bounds and categories that were read off the table may not be used"
    elif declared.columns[target].is_measured:
        why = "the domain of the target is not public, and a model would have to pay for it first"
    elif not PublicFeatures.of(declared).columns:
        why = "no column with a declared domain could predict the target"
    return why


def skipped(why: str, measures: Sequence[str]) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in measures))


def units_of(tables: Tables, features: PublicFeatures, target: Target) -> tuple[UnitRows, float]:
    """*Sensitive*. The training rows with a target by unit, in a seeded order; the share of the units that they are."""
    order = tables.drawn(tables.train)
    y = target.encode(tables.train)[order]
    order, y = order[~np.isnan(y)], y[~np.isnan(y)]
    owner = pd.factorize(entity_codes(tables.train, tables.schema)[order])[0]
    kept, share = owner < MAX_UNITS, min(1.0, MAX_UNITS / (int(owner.max()) + 1))
    share *= tables.share_at_hand("train")  # the rows at hand may be a sample already
    k = 1 if tables.claim is None else tables.claim.max_rows_per_unit
    return UnitRows.of(features.apply(tables.train.iloc[order[kept]]), y[kept], owner[kept], k), share


def repeated(
    units: Any, fit: Callable[[Any, float, float], Any], rng: np.random.Generator
) -> tuple[list[Any], list[list[Any]]]:
    """What fits give on all units, and on both halves of some splits; a fit takes units, its noise and their part."""
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


def compared(study: Study, fits: tuple[list[Any], list[Any]], note: str, measures: Sequence[str]) -> MetricResult:
    """The score of an alternative's predictions, and its lead over the linear model trained on the synthetic table."""
    fewer = np.vstack([study.blocks[0], study.blocks[1][:N_FEWER]])
    drawn = [np.concatenate([study.score(each, weights) for weights in study.blocks]) for each in fits[0]]
    halves = np.array([[study.score(each, fewer) for each in both] for both in fits[1]])
    return estimates(
        measures, np.mean(drawn, axis=0), halves if len(halves) else np.zeros((0, 2, len(fewer))),
        (study.drawn("linear", "tstr", study.score), study.split("linear", "tstr", study.score)),
        {side: float(study.drawn("linear", side, study.score)[0]) for side in ("trtr", "fresh", "floor")},
        BOUNDS[study.task.metric], len(study.test.truth), note,
    )  # fmt: skip


def estimates(  # noqa: PLR0913 - two sides, their landmarks and their words
    measures: Sequence[str],
    drawn: np.ndarray,
    halves: np.ndarray,
    synthetic: tuple[np.ndarray, np.ndarray],
    landmarks: dict[str, float],
    bounds: tuple[float, float],
    n: int,
    note: str,
) -> MetricResult:
    """A score by its replicates and those of halves, and the same less that of the synthetic table."""
    n_splits, value, width = min(len(halves), len(synthetic[1])), float(drawn[0]), bounds[1] - bounds[0]
    gap, gap_halves = drawn - synthetic[0], halves[:n_splits] - synthetic[1][:n_splits]
    low, high = interval(drawn, halves, bounds=bounds)
    gap_low, gap_high = interval(gap, gap_halves, bounds=(-width, width))
    return MetricResult((
        Estimate(
            measures[0], value, n, "none", low=low, high=high,
            reference=landmarks["trtr"], floor=landmarks["floor"], note=note,
        ),
        Estimate(
            measures[1], float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=value - landmarks["fresh"], floor=value - landmarks["floor"],
            note=f"alternative less what synthetic rows teach: {note}",
        ),
    ))  # fmt: skip
