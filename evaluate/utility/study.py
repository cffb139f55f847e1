"""The models of one evaluation, fitted once for every measure that looks at them, and how far chance moves a figure.

Other control rows would change a figure: a bootstrap over them, whole entities together, says by how much. Other rows
to learn from would, too: a model is fitted on each of two halves, again and again, and a quarter of the mean squared
difference between halves is the variance of the figure on all rows, less what the control rows alone add to it, and
less what falls faster than that with more rows: a model that is as good as it can get loses by the square of what its
parameters are off.

Categories and true or false are classified, and so is a number that takes two values at most. All other numbers, and
times, are regressed. Columns of which one alone predicts the target nearly perfectly give it away: it is predicted by
the class shares, or the mean, of the training rows in each of the column's bins, and scored on control rows. A bin
without training rows predicts what all rows together do, so that a column that never repeats tells nothing.

Source: Efron & Tibshirani 1993, chapter 6; McCarthy 1969, "Pseudo-replication: half samples"; Satterthwaite 1946 for
the degrees of freedom of the sum; Kaufman, Rosset, Perlich, Stitelman 2012, "Leakage in data mining", on giveaways.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import special

from evaluate.estimate import Estimate, NotMeasuredError
from evaluate.intervals import LEVEL
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from evaluate.utility.models import (
    FORMS,
    Form,
    as_levels,
    fit_classes,
    fit_numbers,
    halves,
    macro_roc_auc,
    predictors,
    r2,
    weightings,
)
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


class SeededRows:
    """Rows in a seeded order, of which the first are a sample. *Sensitive* where they are real."""

    units: np.ndarray  # the entity of each row, or the row itself, numbered from 0 in that order; shape (n,)

    def __len__(self) -> int:
        return len(self.units)

    def where(self, chosen: np.ndarray) -> Self:
        """The rows of a mask of shape (n,)."""
        raise NotImplementedError

    def first(self, n_rows: int) -> Self:
        return self if n_rows >= len(self) else self.where(np.arange(len(self)) < n_rows)

    def halves(self, rng: np.random.Generator) -> tuple[Self, Self]:
        first, second = halves(self.units, rng)
        return self.where(first), self.where(second)


@dataclass(frozen=True)
class TaskRows(SeededRows):
    """Rows with their target."""

    rows: pd.DataFrame  # shape (n, columns)
    truth: np.ndarray  # class codes or numbers, shape (n,), never NaN
    units: np.ndarray

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

    def where(self, chosen: np.ndarray) -> Self:
        units = pd.factorize(self.units[chosen])[0]
        return type(self)(self.rows[chosen].reset_index(drop=True), self.truth[chosen], units)


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


SIDES = ("tstr", "trtr", "fresh", "matched", "floor")
"""Rows learned from: synthetic, training, fresh real, as many training rows as fresh ones, shuffled."""
COMPARED = SIDES[:2]  # Sides whose rows are split in halves: what an interval is of
N_SPLITS: Mapping[Form, tuple[int, int]] = {"linear": (8, 4), "boosting": (4, 3)}
"""Numbers of splits, and of splits beyond `MANY_ROWS` rows, among which chance moves little."""
MANY_ROWS = 5_000
LEAST_SPLITS = 2  # Splits for boosting of more than two classes, which grows trees for each of them
N_FEWER = 100  # Weightings of the control rows for what they alone add to the difference between two halves

Figure = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of a model's predictions and weightings of the control rows, shape (b, n): a number for each, shape (b,)."""


@dataclass(frozen=True)
class FittedModel:
    converged: bool
    predictions: np.ndarray  # for the control rows, by the model of all rows of a side
    half_predictions: tuple[tuple[np.ndarray, np.ndarray], ...]


Models = Mapping[str, FittedModel]
"""By side."""


@dataclass(frozen=True)
class Scored:
    """What was learned on each side, as it does on the same control rows. *Sensitive*."""

    models: Mapping[str, Models]  # by form
    blocks: tuple[np.ndarray, ...]  # weightings of the control rows, the first of which is the rows as they are

    def score(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """For each weighting, shape (b,)."""
        raise NotImplementedError

    def value(self, form: str, side: str) -> float:
        """The score on the control rows as they are."""
        return float(self.score(self.models[form][side].predictions, self.blocks[0])[0])

    def drawn(self, form: str, side: str, figure: Figure | None = None) -> np.ndarray:
        """The score, or a figure, on the control rows as they are, then by weighting; shape (1 + n_replicates,)."""
        return self.replicated(self.models[form][side].predictions, figure)

    def split(self, form: str, side: str, figure: Figure | None = None) -> np.ndarray:
        """The same of models of halves, shape (n_splits, 2, 1 + n_fewer); the last axis as in `drawn`."""
        return self.of_halves(self.models[form][side].half_predictions, figure)

    def estimate(self, measure: str, form: str, bounds: tuple[float, float], note: str) -> Estimate:
        """The score of what was learned from synthetic rows, beside training rows and shuffled ones."""
        drawn = self.drawn(form, "tstr")
        low, high = interval(drawn, self.split(form, "tstr"), bounds=bounds)
        return Estimate(
            measure, float(drawn[0]), self.blocks[0].shape[1], "higher", low=low, high=high,
            reference=self.value(form, "trtr"), floor=self.value(form, "floor"), note=note,
        )  # fmt: skip

    def replicated(self, predictions: np.ndarray, figure: Figure | None = None) -> np.ndarray:
        return np.concatenate([(figure or self.score)(predictions, weights) for weights in self.blocks])

    def of_halves(self, pairs: Sequence[Sequence[np.ndarray]], figure: Figure | None = None) -> np.ndarray:
        weights = np.vstack([self.blocks[0], self.blocks[1][:N_FEWER]])
        drawn = [[(figure or self.score)(half, weights) for half in pair] for pair in pairs]
        return np.array(drawn).reshape(len(drawn), 2, len(weights))


@dataclass(frozen=True)
class Study(Scored):
    """Everything that measures of utility look at. *Sensitive*."""

    task: Task
    schema: Schema
    test: TaskRows
    sides: Mapping[str, TaskRows]

    def score(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The score of the task."""
        if self.task.kind == "classification":
            return macro_roc_auc(predictions, self.test.truth, weights)
        return r2(predictions, self.test.truth, weights)


def interval(
    drawn: np.ndarray, halves: np.ndarray, *, bounds: tuple[float, float] = (-np.inf, np.inf), n_comparisons: int = 1
) -> tuple[float, float]:
    """The 95% interval of a figure around its value. `halves`: the figure of models fitted on halves, shape (n_splits,
    2, 1 + n_fewer), the last axis as in `drawn`.
    """
    value, (total, freedom) = float(drawn[0]), variance(drawn, halves)
    half = float(special.stdtrit(freedom, 1 - (1 - LEVEL) / 2 / n_comparisons)) * float(np.sqrt(total))
    low, high = np.clip([value - half, value + half], *bounds)
    return min(float(low), value), max(float(high), value)


def variance(drawn: np.ndarray, halves: np.ndarray) -> tuple[float, float]:
    """The variance that `interval` rests on, and its degrees of freedom; arguments as there."""
    replicates = drawn[1:][~np.isnan(drawn[1:])]
    parts = [float(replicates.var()) if len(replicates) else 0.0, _of_halves(halves)]
    degrees = (max(len(replicates) - 1, 1), max(len(halves), 1))
    total = sum(parts)
    freedom = total**2 / sum(part**2 / n for part, n in zip(parts, degrees, strict=True)) if total > 0 else 1.0
    return total, freedom


def _of_halves(halves: np.ndarray) -> float:
    """The variance that other rows to learn from would give a figure; splits whose figure is NaN tell nothing.

    Of a figure with slope a and curvature H in what the rows move, e, half the difference between two halves has the
    variance of (a - He)e, which is too much by that of eHe / 2, and this is the variance that the mean of two halves
    has from split to split. What control rows alone add to either is taken off. What is left of the first may come out
    below zero and then counts as none, so that the sum is rather too much.
    """
    halves = halves[~np.isnan(halves[:, :, 0]).any(axis=1)]
    if len(halves) < 2:
        return 0.0
    halves = np.where(np.isnan(halves), halves[:, :, :1], halves)
    differences, means = halves[:, 0] - halves[:, 1], halves.mean(axis=1)
    by_slope = float(np.mean(differences[:, 0] ** 2 - differences[:, 1:].var(axis=1))) / 4
    spread = (means - means.mean(axis=0))[:, 1:].var(axis=1).mean() * len(means) / (len(means) - 1)
    by_curve = float(means[:, 0].var(ddof=1))
    return max(0.0, by_slope - by_curve) + max(0.0, by_curve - float(spread))


def study_of(tables: Tables, forms: Sequence[Form] = FORMS) -> Study:
    """The study of an evaluation, made once for the same *Sensitive* tables.

    Models are kept one by one, so that a measure that ran out of time leaves its models to the next one. Models of real
    rows alone serve every synthetic table of as many rows.

    Raises:
        NotMeasuredError: nothing predicts the target.
    """
    return tables.kept.once("study", lambda: _study(tables, forms))


def _study(tables: Tables, forms: Sequence[Form]) -> Study:
    target = tables.schema.target
    if target is None:
        raise NotMeasuredError("the schema names no target")
    if not predictors(tables.schema):
        raise NotMeasuredError("the schema has no column that could predict the target")
    task = Task.of(tables, target)
    n_known = (~np.isnan(task.truth(tables.train, tables.schema))).sum()
    is_classified_number = task.kind == "classification" and is_number(tables.schema.columns[target])
    if is_classified_number and 2 * n_known < tables.train[target].notna().sum():
        raise NotMeasuredError(
            f"its {MAX_CLASSES} most frequent values are less than half of the training rows, so that the target is a "
            "number to regress; leave the task out"
        )
    test = TaskRows.of(tables.control, task, tables)
    if len(np.unique(test.truth)) < 2:
        raise NotMeasuredError("the target does not vary among the control rows")
    sides = _sides(task, tables)
    if any(len(side) == 0 for side in sides.values()):
        raise NotMeasuredError("a table has no row with a target that occurs in real rows")
    models: dict[str, Models] = {form: _models(form, task, sides, test, tables) for form in forms}
    return Study(models, tuple(weightings(test.units, tables.seed)), task, tables.schema, test, sides)


def study_without_giveaways(whole: Study, tables: Tables) -> Study:
    """The study of boosting without the columns that give the target away; the whole one where there are none."""
    names = tuple(giveaways_of(tables, whole.task))
    if not names:
        return whole
    task = replace(whole.task, left_out=names)
    seen = task.seen(tables.schema)
    if not predictors(seen):
        raise NotMeasuredError("every column that could predict the target gives it away")
    models = {"boosting": _models("boosting", task, whole.sides, whole.test, tables)}
    return replace(whole, task=task, schema=seen, models=models)


def _sides(task: Task, tables: Tables) -> dict[str, TaskRows]:
    """The rows each model learns from: as many synthetic as training rows, and as many of the rest as there are."""
    synthetic, train, fresh, shuffled = (
        TaskRows.of(frame, task, tables) for frame in (tables.synthetic, tables.train, tables.fresh, tables.shuffled)
    )
    n_rows = min(len(synthetic), len(train))
    fresh = fresh.first(n_rows)
    sides = (synthetic.first(n_rows), train.first(n_rows), fresh, train.first(len(fresh)), shuffled.first(n_rows))
    return dict(zip(SIDES, sides, strict=True))


def _models(form: Form, task: Task, sides: Mapping[str, TaskRows], test: TaskRows, tables: Tables) -> Models:
    n_splits = N_SPLITS[form][len(sides["tstr"]) > MANY_ROWS]
    if form == "boosting" and (len(task.classes) > 2 or task.left_out):
        n_splits = min(n_splits, LEAST_SPLITS)
    schema = task.seen(tables.schema)

    def predict(side: TaskRows) -> tuple[bool, np.ndarray]:
        if task.kind == "classification":
            model = fit_classes(form, side.rows, side.truth.astype(np.int64), schema, len(task.classes))
        else:
            model = fit_numbers(form, side.rows, side.truth, schema)
        return model.converged, model.predict(test.rows)

    def learn(side: TaskRows, n_splits: int) -> FittedModel:
        # All sides are split by the same draws: the same table twice then gives the same models, and a gap of zero.
        seeds = np.random.default_rng([tables.seed, 6]).integers(2**63, size=n_splits)
        splits = (side.halves(np.random.default_rng(int(seed))) for seed in seeds)
        return FittedModel(*predict(side), tuple((predict(first)[1], predict(second)[1]) for first, second in splits))

    learned = {}
    for name, side in sides.items():
        kept = tables.kept if name == "tstr" else tables.kept_of_real
        key = ("study", task.left_out, form, name, len(side), n_splits)
        learned[name] = kept.once(key, partial(learn, side, n_splits if name in COMPARED else 0))
    return learned
