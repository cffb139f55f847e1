"""What the alternatives share: real rows by unit, repeated fits, and the comparison with the synthetic table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.k_means import GroupSpace, ScaledColumn
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


def metrics(name: str, titles: tuple[str, str], score: str, lead: str, better: str) -> tuple[Metric, Metric]:
    """The score of an alternative, and its lead over what the same kind of model learns from synthetic rows."""
    why = f"it says what another way would give, not how good the table is; name {better!r}"
    cost = f"{lead} synthetic rows; above 0, the table costs that much."
    return (
        Metric(f"{name}.score", "none", titles[0], score, describes=why),
        Metric(f"{name}.gap", "lower", titles[1], cost, describes=why),
    )


def public_columns(declared: Schema) -> GroupSpace:
    """The predictors with a declared domain."""
    names = [name for name in predictors(declared) if not declared.columns[name].is_measured]
    return GroupSpace(tuple(ScaledColumn(name, declared.columns[name]) for name in names))


def encode(space: GroupSpace, frame: pd.DataFrame) -> np.ndarray:
    """Rows of an L2 norm of at most 1, the last coordinate for the intercept; shape (n, d), float32."""
    rows = np.hstack([space.apply(frame).toarray().astype(np.float32), np.ones((len(frame), 1), dtype=np.float32)])
    return rows * np.float32(1 / np.sqrt(len(space.columns) + 1))


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
    classes: pd.Index  # as declared; none of a number

    @classmethod
    def of(cls, declared: Schema, task: Task) -> Self:
        known = () if task.kind == "regression" else public_values(declared.columns[task.target])
        return cls(declared, task, pd.Index(np.array(known, dtype=object)))

    @property
    def loss(self) -> Loss:
        return "squared" if self.task.kind == "regression" else "binary" if len(self.classes) == 2 else "softmax"

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if self.loss == "softmax" else 1

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.declared.columns[self.task.target].ends
        return float(low), float(high)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Classes as declared, or numbers scaled to [-1, 1] by their bounds; NaN where missing; shape (n,)."""
        values = replace(self.task.uncut, classes=self.classes).truth(frame, self.declared)
        if self.loss != "squared":
            return values
        low, high = self._ends
        return np.asarray(np.clip(2 * (values - low) / max(high - low, np.finfo(float).tiny) - 1, -1.0, 1.0))

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities of the task's classes, shape (n, n_classes), or numbers, shape (n,)."""
        if self.loss == "squared":
            low, high = self._ends
            return np.asarray(np.clip(low + (np.clip(outputs[:, 0], -1, 1) + 1) / 2 * (high - low), *self.task.limits))
        shares = np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs
        codes = self.classes.get_indexer(pd.Index(self.task.classes.astype(object)))
        return np.where(codes >= 0, shares[:, codes], 0.0)


@dataclass(frozen=True)
class Problem:
    """What a model at the table's claim learns from, and what it is scored on. *Sensitive*."""

    claim: StatedClaim
    study: Study
    target: Target
    space: GroupSpace
    units: UnitRows
    share: float  # of all units that these are
    test: np.ndarray  # inputs of the control rows, shape (n, d)
    rng: np.random.Generator

    @classmethod
    def of(cls, tables: Tables, stream: int) -> "Problem | str":
        """The problem, or why there is none."""
        claim, declared, study = tables.claim, tables.declared, hindrance(tables) or study_of(tables)
        if claim is None or isinstance(study, str):
            return str(study)
        if study.task.kind != "regression" and public_values(declared.columns[study.task.target]) is None:
            return "the target is classified, and its classes are not public; declare it as categorical, with a list"
        target, space = Target.of(declared, study.task), public_columns(declared)
        order = tables.drawn(tables.train)
        y = target.encode(tables.train)[order]
        order, y = order[~np.isnan(y)], y[~np.isnan(y)]
        owner = pd.factorize(entity_codes(tables.train, tables.schema)[order])[0]
        kept, share = owner < MAX_UNITS, min(1.0, MAX_UNITS / (int(owner.max()) + 1))
        share *= tables.share_at_hand("train")  # the rows at hand may be a sample already
        X = encode(space, tables.train.iloc[order[kept]])
        units = UnitRows.of(X, y[kept], owner[kept], claim.max_rows_per_unit)
        test = encode(space, study.test.rows).astype(np.float64)
        return cls(claim, study, target, space, units, share, test, np.random.default_rng([tables.seed, stream]))

    def compared(
        self, fit: Callable[[UnitRows, float, float], np.ndarray], way: str, more: str, measures: Sequence[str]
    ) -> MetricResult:
        """The score of what a fit predicts of the control rows, and its lead over the linear model by synthetic ones.
        `fit`: of units, their noise and their part.
        """
        study = self.study
        whole, pairs = repeated(self.units, lambda *half: self.target.decode(fit(*half)), self.rng)
        fewer = np.vstack([study.blocks[0], study.blocks[1][:N_FEWER]])
        drawn = [np.concatenate([study.score(each, weights) for weights in study.blocks]) for each in whole]
        halves = np.array([[study.score(each, fewer) for each in both] for both in pairs])
        return estimates(
            measures, np.mean(drawn, axis=0), halves if len(halves) else np.zeros((0, 2, len(fewer))),
            (study.drawn("linear", "tstr", study.score), study.split("linear", "tstr", study.score)),
            {side: float(study.drawn("linear", side, study.score)[0]) for side in ("trtr", "fresh", "floor")},
            BOUNDS[study.task.metric], len(study.test.truth),
            f"{way} at epsilon={self.claim.epsilon:.3g}, delta={self.claim.delta:.3g}, mean of {N_RUNS} fits, {more}",
        )  # fmt: skip


def hindrance(tables: Tables) -> str:
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
    elif not public_columns(declared).columns:
        why = "no column with a declared domain could predict the target"
    return why


def skipped(why: str, measures: Sequence[str]) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in measures))


def repeated(
    units: Any, fit: Callable[[Any, float, float], Any], rng: np.random.Generator
) -> tuple[list[Any], list[list[Any]]]:
    """What fits give on all units, and on both halves of some splits; a fit takes units, its noise and their part."""
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


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
