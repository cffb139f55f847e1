"""What is predicted, and the rows that models learn it from."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import Tables
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import line
from synth.schema import Schema

MAX_ROWS = 20_000
MAX_CLASSES = 20
CUT_SHARE = 0.01
"""Share of the training rows' target beyond either end at which a number to predict is cut off."""


@dataclass(frozen=True)
class Task:
    """What is predicted.

    Attributes:
        target: the column.
        kind: classification of a column with categories, else regression.
        classes: *Sensitive*. The classes, most frequent first; none for regression.
        limits: *Sensitive*. Where a number to predict is cut off.
    """

    target: str
    kind: Literal["classification", "regression"]
    classes: pd.Index = field(default_factory=lambda: pd.Index([]))
    limits: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(cls, tables: Tables, target: str) -> "Task":
        """The task that the schema's target makes; at most `MAX_CLASSES` classes, the most frequent ones."""
        if not isinstance(tables.schema.columns[target], CategoricalColumn | BooleanColumn):
            numbers = cls(target, "regression").truth(tables.train, tables.schema)
            numbers = numbers[~np.isnan(numbers)]
            limits = np.quantile(numbers, [CUT_SHARE, 1 - CUT_SHARE]) if len(numbers) else (-np.inf, np.inf)
            return cls(target, "regression", limits=(float(limits[0]), float(limits[1])))
        real = [frame[target].dropna().astype(object) for frame in (tables.train, tables.control)]
        counts = real[0].value_counts().reindex(pd.Index(pd.concat(real).unique()), fill_value=0).sort_index()
        return cls(target, "classification", counts.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])

    @property
    def metric(self) -> str:
        """The score: `roc_auc` or `r2`."""
        return "roc_auc" if self.kind == "classification" else "r2"

    def truth(self, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
        """The target as class codes or numbers, float64; NaN where it is missing or no class of the task."""
        if self.kind == "regression":
            column = schema.columns[self.target]
            return np.clip(line.positions(frame[self.target], column), *self.limits)  # type: ignore[arg-type]
        codes = self.classes.get_indexer(pd.Index(frame[self.target].astype(object)))
        return np.where((codes < 0) | frame[self.target].isna().to_numpy(dtype=bool), np.nan, codes)


@dataclass(frozen=True)
class Side:
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
    def of(cls, frame: pd.DataFrame, task: Task, tables: Tables) -> "Side":
        """At most `MAX_ROWS` of the rows that have a target."""
        truth = task.truth(frame, tables.schema)
        order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
        order = order[~np.isnan(truth[order])][:MAX_ROWS]
        units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
        return cls(frame.iloc[order].reset_index(drop=True), truth[order], units)

    def first(self, n_rows: int) -> "Side":
        """The first rows of them, which are a sample."""
        return self if n_rows >= len(self.truth) else self._where(np.arange(len(self.truth)) < n_rows)

    def halves(self, rng: np.random.Generator) -> "tuple[Side, Side]":
        """The rows in two, whole entities together; neither is empty unless there is only one entity.

        A table of one entity gives all of its rows twice: nothing can be said of how another would change them.
        """
        n_units = int(self.units.max()) + 1
        if n_units == 1:
            return self, self
        first = np.zeros(n_units, dtype=bool)
        first[rng.permutation(n_units)[: n_units // 2]] = True
        return self._where(first[self.units]), self._where(~first[self.units])

    def _where(self, chosen: np.ndarray) -> "Side":
        units = pd.factorize(self.units[chosen])[0]
        return Side(self.rows[chosen].reset_index(drop=True), self.truth[chosen], units)
