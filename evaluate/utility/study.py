"""The models of one evaluation, fitted once for every measure that looks at them, and how far chance moves a figure.

Other control rows would change a figure: a bootstrap over them, whole entities together, says by how much. Other rows
to learn from would, too: a model is fitted on each of two halves, again and again, and a quarter of the mean squared
difference between halves is the variance of the figure on all rows, less what the control rows alone add to it, and
less what falls faster than that with more rows: a model that is as good as it can get loses by the square of what its
parameters are off.

Source: Efron & Tibshirani 1993, chapter 6; McCarthy 1969, "Pseudo-replication: half samples"; Satterthwaite 1946 for
the degrees of freedom of the sum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evaluate.intervals import LEVEL
from evaluate.tables import Tables
from evaluate.utility.models import FORMS, Form, fit_classes, fit_numbers, predictors
from evaluate.utility.scores import macro_roc_auc, r2, weightings
from evaluate.utility.task import MAX_CLASSES, Task, TaskRows, giveaways_of, is_number
from synth.schema import Schema

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
    from scipy import special

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


def study_of(tables: Tables, forms: Sequence[Form] = FORMS) -> Study | str:
    """The study of an evaluation, or one sentence that says why there is none; made once for the same tables. `tables`:
    *Sensitive*. Models are kept one by one, so that a measure that ran out of time leaves its models to the next one.
    Models of real rows alone serve every synthetic table of as many rows.
    """
    return tables.kept.once("study", lambda: _made(tables, forms))


def _made(tables: Tables, forms: Sequence[Form]) -> Study | str:
    target = tables.schema.target
    if target is None:
        return "the schema names no target"
    if not predictors(tables.schema):
        return "the schema has no column that could predict the target"
    task = Task.of(tables, target)
    if task.kind == "classification" and is_number(tables.schema.columns[target]) and _few_classified(task, tables):
        return (
            f"its {MAX_CLASSES} most frequent values are less than half of the training rows, so that the target is a "
            "number to regress; leave the task out"
        )
    test = TaskRows.of(tables.control, task, tables)
    if len(np.unique(test.truth)) < 2:
        return "the target does not vary among the control rows"
    sides = _sides(task, tables)
    if any(len(side.truth) == 0 for side in sides.values()):
        return "a table has no row with a target that occurs in real rows"
    models: dict[str, Models] = {form: _models(form, task, sides, test, tables) for form in forms}
    return Study(models, tuple(weightings(test.units, tables.seed)), task, tables.schema, test, sides)


def _few_classified(task: Task, tables: Tables) -> bool:
    """True where most training rows have none of the task's classes."""
    there = ~np.isnan(task.truth(tables.train, tables.schema))
    return bool(2 * there.sum() < tables.train[task.target].notna().sum())


def study_without_giveaways(whole: Study, tables: Tables) -> Study | str:
    """The study of boosting without the columns that give the target away; the whole one where there are none."""
    names = tuple(giveaways_of(tables, whole.task))
    if not names:
        return whole
    task = replace(whole.task, left_out=names)
    seen = task.seen(tables.schema)
    if not predictors(seen):
        return "every column that could predict the target gives it away"
    models = {"boosting": _models("boosting", task, whole.sides, whole.test, tables)}
    return replace(whole, task=task, schema=seen, models=models)


def _sides(task: Task, tables: Tables) -> dict[str, TaskRows]:
    """The rows each model learns from: as many synthetic as training rows, and as many of the rest as there are."""
    synthetic, train, fresh, shuffled = (
        TaskRows.of(frame, task, tables) for frame in (tables.synthetic, tables.train, tables.fresh, tables.shuffled)
    )
    n_rows = min(len(synthetic.truth), len(train.truth))
    fresh = fresh.first(n_rows)
    sides = (synthetic.first(n_rows), train.first(n_rows), fresh, train.first(len(fresh.truth)), shuffled.first(n_rows))
    return dict(zip(SIDES, sides, strict=True))


def _models(form: Form, task: Task, sides: Mapping[str, TaskRows], test: TaskRows, tables: Tables) -> Models:
    n_splits = N_SPLITS[form][len(sides["tstr"].truth) > MANY_ROWS]
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
        key = ("study", task.left_out, form, name, len(side.truth), n_splits)
        learned[name] = kept.once(key, partial(learn, side, n_splits if name in COMPARED else 0))
    return learned
