"""The prediction task: its target, its kind, the rows that models learn from, and columns that give it away.

Categories and true or false are classified, and so is a number that takes two values at most. All other numbers, and
times, are regressed. Columns of which one alone predicts the target nearly perfectly give it away: it is predicted by
the class shares, or the mean, of the training rows in each of the column's bins, and scored on control rows. A bin
without training rows predicts what all rows together do, so that a column that never repeats tells nothing.

Source: Kaufman, Rosset, Perlich, Stitelman 2012, "Leakage in data mining", on such columns.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from evaluate.utility.models import as_levels, predictors
from evaluate.utility.scores import halves, macro_roc_auc, r2
from synth.schema import Schema, TaskKind

MAX_ROWS = 20_000
MAX_CLASSES = 20
CUT_SHARE = 0.01  # Share of the training rows' target beyond either end at which a number to predict is cut off


@dataclass(frozen=True)
class Task:
    target: str
    kind: TaskKind
    why: str = ""
    # *Sensitive*. The classes, most frequent first; empty for regression.
    classes: pd.Index = field(default_factory=lambda: pd.Index([]))
    limits: tuple[float, float] = (-np.inf, np.inf)  # *Sensitive*. Where a number to predict is cut off
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Tables, target: str) -> "Task":
        """The task that a column makes; at most `MAX_CLASSES` classes, the most frequent ones."""
        real = [frame[target].dropna() for frame in (tables.train, tables.control)]
        kind, why = public_task(tables.schema, target) or (
            ("classification", "real rows hold two values of it")
            if pd.concat(real).nunique() <= 2
            else ("regression", "it is a number of more than two values")
        )
        if kind == "regression":
            numbers = cls(target, kind).truth(tables.train, tables.schema)
            numbers = numbers[~np.isnan(numbers)]
            limits = np.quantile(numbers, [CUT_SHARE, 1 - CUT_SHARE]) if len(numbers) else (-np.inf, np.inf)
            return cls(target, kind, why, limits=(float(limits[0]), float(limits[1])))
        values = [series.astype(object) for series in real]
        counts = values[0].value_counts().reindex(pd.Index(pd.concat(values).unique()), fill_value=0).sort_index()
        frequent = counts.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES]
        return cls(target, kind, why, frequent)

    def seen(self, schema: Schema) -> Schema:
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
            return np.asarray(np.clip(column.positions(frame[self.target]), *self.limits))
        codes = self.classes.get_indexer(pd.Index(frame[self.target].astype(object)))
        return np.where((codes < 0) | frame[self.target].isna().to_numpy(dtype=bool), np.nan, codes)


def public_task(schema: Schema, target: str) -> tuple[TaskKind, str] | None:
    """The task as the schema alone tells it, and why; `None` where the number of values decides. No row is read."""
    column = schema.columns[target]
    if schema.task is not None and target == schema.target:
        return schema.task, "as asked for"
    if column.is_categorical:
        return "classification", "its values are categories"
    if not is_number(column):
        return "regression", f"it is of kind {column.kind}"
    values = public_values(column)
    return ("classification", "its bounds hold two values") if values is not None and len(values) <= 2 else None


def is_number(column: Any) -> bool:
    return column.is_number and not column.is_weight


def public_values(column: Any) -> list[Any] | None:
    """All values that a column can hold as it is declared.

    `None` where they are not public, or a number has more than `MAX_CLASSES`.

    >>> from synth.schema.kinds import IntegerColumn
    >>> public_values(IntegerColumn(bounds=(0, 1)))
    [0, 1]
    """
    if column.is_measured:
        return None
    if column.is_categorical:
        return list(column.levels)
    if not is_number(column):
        return None
    low, high = column.ends
    step = column.unit
    if step is None or (high - low) / step > MAX_CLASSES - 1:
        return None
    places = low + step * np.arange(round((high - low) / step) + 1)
    if column.is_whole:
        return [int(value) for value in places]
    return [round(float(value), column.decimals or 0) for value in places]


@dataclass(frozen=True)
class TaskRows:
    """Rows with their target, in a seeded order. *Sensitive* where the rows are real."""

    rows: pd.DataFrame  # shape (n, columns)
    truth: np.ndarray  # class codes or numbers, shape (n,), never NaN
    units: np.ndarray  # the entity of each row, or the row itself, numbered from 0 in a seeded order; shape (n,)

    @classmethod
    def of(cls, frame: pd.DataFrame, task: Task, tables: Tables) -> "TaskRows":
        """At most `MAX_ROWS` of the rows that have a target."""
        truth = task.truth(frame, tables.schema)
        order = tables.drawn(frame)
        order = order[~np.isnan(truth[order])][:MAX_ROWS]
        units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
        rows = frame.iloc[order].reset_index(drop=True)
        levels = {n: as_levels(rows[n]) for n in predictors(tables.schema) if tables.schema.columns[n].is_categorical}
        return cls(rows.assign(**levels), truth[order], units)

    def first(self, n_rows: int) -> "TaskRows":
        """The first rows of them, which are a sample."""
        return self if n_rows >= len(self.truth) else self._where(np.arange(len(self.truth)) < n_rows)

    def halves(self, rng: np.random.Generator) -> "tuple[TaskRows, TaskRows]":
        first, second = halves(self.units, rng)
        return self._where(first), self._where(second)

    def _where(self, chosen: np.ndarray) -> "TaskRows":
        units = pd.factorize(self.units[chosen])[0]
        return TaskRows(self.rows[chosen].reset_index(drop=True), self.truth[chosen], units)


LIMIT = 0.99  # Of the score of one column alone, ROC AUC or R2
N_BINS, ROWS_A_BIN = 256, 3  # Bins of a number at most, and training rows that each has on average at least
FILLED = 1e-6  # Training rows that each bin gets beside its own, spread as all rows are


def giveaways_of(tables: Tables, task: Task) -> dict[str, float]:
    """The columns that give the target of a task away with their scores, clearest first; looked for once beside the
    same real rows.
    """

    def find() -> dict[str, float]:
        scores = {name: score for name, score in scores_alone(tables, task).items() if score >= LIMIT}
        return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))

    return tables.kept_of_real.once("giveaways", find)


def scores_alone(tables: Tables, task: Task) -> dict[str, float]:
    """Scores of each column that predicts the target alone. `tables`: *Sensitive*. Only train and control are looked
    at.
    """
    train, test = TaskRows.of(tables.train, task, tables), TaskRows.of(tables.control, task, tables)
    score = macro_roc_auc if task.kind == "classification" else r2
    ones, scores = np.ones((1, len(test.truth))), {}
    for name in predictors(tables.schema):
        learned, asked = _codes(train.rows[name], test.rows[name], tables.schema.columns[name])
        by_code = _by_code(learned, 1 + int(max(learned.max(), asked.max())), train.truth, task)
        scores[name] = float(score(by_code[asked], test.truth, ones)[0])
    return scores


def _codes(train: pd.Series, test: pd.Series, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each training and control row, 0 where the value is missing: categories, or quantiles of train."""
    if column.is_categorical:
        codes = pd.factorize(pd.concat([train, test]).astype(object))[0] + 1
        return codes[: len(train)], codes[len(train) :]
    places = [column.positions(series) for series in (train, test)]
    values, n_bins = places[0][~np.isnan(places[0])], min(N_BINS, max(len(train) // ROWS_A_BIN, 2))
    edges = np.unique(values)[1:]
    if len(edges) >= n_bins:
        edges = np.unique(np.quantile(values, np.arange(1, n_bins) / n_bins, method="lower"))
    learned, asked = (np.where(np.isnan(x), 0, 1 + np.searchsorted(edges, x, side="right")) for x in places)
    return learned, asked


def _by_code(codes: np.ndarray, n_codes: int, truth: np.ndarray, task: Task) -> np.ndarray:
    """Class shares of the rows with each code, shape (n_codes, n_classes), or means, shape (n_codes,)."""
    sizes = np.bincount(codes, minlength=n_codes) + FILLED
    if task.kind == "regression":
        return np.asarray((np.bincount(codes, truth, minlength=n_codes) + FILLED * truth.mean()) / sizes)
    classes, n_classes = truth.astype(np.int64), len(task.classes)
    cells = np.bincount(codes * n_classes + classes, minlength=n_codes * n_classes).reshape(n_codes, n_classes)
    shares = np.bincount(classes, minlength=n_classes) / len(classes)
    return np.asarray((cells + FILLED * shares) / sizes[:, None])
