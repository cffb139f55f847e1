"""The prediction task: its target, its kind, and the rows that models learn from.

Categories and true or false are classified, and so is a number that takes two values at most: R2 of a 0 and 1 says
next to nothing. All other numbers, and times, are regressed: a number has an order, and classes would lose it. Whole
numbers that are names, not amounts, are declared as categories, or the schema's `task` says how they are predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import Tables
from synth.columns import BooleanColumn, CategoricalColumn, IntegerColumn, RealColumn, is_measured
from synth.domain import numeric_scale
from synth.domain.discretizer import categories
from synth.schema import Kind, Schema

MAX_ROWS = 20_000
MAX_CLASSES = 20
CUT_SHARE = 0.01
"""Share of the training rows' target beyond either end at which a number to predict is cut off."""


@dataclass(frozen=True)
class Task:
    """The prediction task.

    Attributes:
        target: the column.
        kind: classification or regression.
        why: the reason for that kind, in a few words.
        classes: *Sensitive*. The classes, most frequent first; empty for regression.
        limits: *Sensitive*. Where a number to predict is cut off.
        left_out: columns that models do not look at.
    """

    target: str
    kind: Kind
    why: str = ""
    classes: pd.Index = field(default_factory=lambda: pd.Index([]))
    limits: tuple[float, float] = (-np.inf, np.inf)
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Tables, target: str) -> "Task":
        """The task that a column makes; at most `MAX_CLASSES` classes, the most frequent ones."""
        real = [frame[target].dropna() for frame in (tables.train, tables.control)]
        kind, why = public_task(tables.schema, target) or _by_values(pd.concat(real).nunique())
        if kind == "regression":
            numbers = cls(target, kind).truth(tables.train, tables.schema)
            numbers = numbers[~np.isnan(numbers)]
            limits = np.quantile(numbers, [CUT_SHARE, 1 - CUT_SHARE]) if len(numbers) else (-np.inf, np.inf)
            return cls(target, kind, why, limits=(float(limits[0]), float(limits[1])))
        values = [series.astype(object) for series in real]
        counts = values[0].value_counts().reindex(pd.Index(pd.concat(values).unique()), fill_value=0).sort_index()
        frequent = counts.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES]
        return cls(target, kind, why, frequent)

    @property
    def uncut(self) -> "Task":
        """The same with outliers as they are."""
        return replace(self, limits=(-np.inf, np.inf))

    def without(self, columns: Sequence[str]) -> "Task":
        """The same for models that do not look at some columns."""
        return replace(self, left_out=tuple(columns))

    def seen(self, schema: Schema) -> Schema:
        """The schema as models of the task see it."""
        kept = {name: column for name, column in schema.columns.items() if name not in self.left_out}
        return schema.model_copy(update={"columns": kept, "target": self.target})

    @property
    def metric(self) -> str:
        """The score: `roc_auc` or `r2`."""
        return "roc_auc" if self.kind == "classification" else "r2"

    def truth(self, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
        """The target as class codes or numbers, float64; NaN where it is missing or no class of the task."""
        if self.kind == "regression":
            column = schema.columns[self.target]
            return np.clip(numeric_scale.positions(frame[self.target], column), *self.limits)  # type: ignore[arg-type]
        codes = self.classes.get_indexer(pd.Index(frame[self.target].astype(object)))
        return np.where((codes < 0) | frame[self.target].isna().to_numpy(dtype=bool), np.nan, codes)


def public_task(schema: Schema, target: str) -> tuple[Kind, str] | None:
    """The task as the schema alone tells it, and why; `None` where the number of values decides. No row is read."""
    column = schema.columns[target]
    if schema.task is not None and target == schema.target:
        return schema.task, "as asked for"
    if isinstance(column, CategoricalColumn | BooleanColumn):
        return "classification", "its values are categories"
    if not is_number(column):
        return "regression", f"it is of kind {column.kind}"
    values = public_values(column)
    return ("classification", "its bounds hold two values") if values is not None and len(values) <= 2 else None


def _by_values(n_values: int) -> tuple[Kind, str]:
    if n_values <= 2:
        return "classification", "real rows hold two values of it"
    return "regression", "it is a number of more than two values"


def is_number(column: Any) -> bool:
    """True for integer and real columns."""
    return isinstance(column, IntegerColumn | RealColumn)


def public_values(column: Any) -> list[Any] | None:
    """All values that a column can hold as it is declared.

    `None` where they are not public, or a number has more than `MAX_CLASSES`.

    >>> public_values(IntegerColumn(bounds=(0, 1)))
    [0, 1]
    """
    if is_measured(column):
        return None
    if isinstance(column, CategoricalColumn | BooleanColumn):
        return list(categories(column))
    if not is_number(column):
        return None
    low, high = numeric_scale.bounds(column)
    step = numeric_scale.step(column)
    if step is None or (high - low) / step > MAX_CLASSES - 1:
        return None
    places = low + step * np.arange(round((high - low) / step) + 1)
    if isinstance(column, IntegerColumn):
        return [int(place) for place in places]
    return [round(float(place), column.decimals or 0) for place in places]


@dataclass(frozen=True)
class TaskRows:
    """Rows with their target, in a seeded order. *Sensitive* where the rows are real.

    Attributes:
        rows: shape (n, columns).
        truth: class codes or numbers, shape (n,), never NaN.
        units: the entity of each row, or the row itself, numbered from 0 in a seeded order; shape (n,).
    """

    rows: pd.DataFrame
    truth: np.ndarray
    units: np.ndarray

    @classmethod
    def of(cls, frame: pd.DataFrame, task: Task, tables: Tables) -> "TaskRows":
        """At most `MAX_ROWS` of the rows that have a target."""
        truth = task.truth(frame, tables.schema)
        order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
        order = order[~np.isnan(truth[order])][:MAX_ROWS]
        units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
        return cls(frame.iloc[order].reset_index(drop=True), truth[order], units)

    def first(self, n_rows: int) -> "TaskRows":
        """The first rows of them, which are a sample."""
        return self if n_rows >= len(self.truth) else self._where(np.arange(len(self.truth)) < n_rows)

    def halves(self, rng: np.random.Generator) -> "tuple[TaskRows, TaskRows]":
        """The rows in two, whole entities together; neither is empty unless there is only one entity.

        A table of one entity gives all of its rows twice: nothing can be said of how another would change them.
        """
        n_units = int(self.units.max()) + 1
        if n_units == 1:
            return self, self
        first = np.zeros(n_units, dtype=bool)
        first[rng.permutation(n_units)[: n_units // 2]] = True
        return self._where(first[self.units]), self._where(~first[self.units])

    def _where(self, chosen: np.ndarray) -> "TaskRows":
        units = pd.factorize(self.units[chosen])[0]
        return TaskRows(self.rows[chosen].reset_index(drop=True), self.truth[chosen], units)
