"""Train on synthetic, test on real: how much worse a model gets when it learns from the synthetic table.

Each model is trained four times: on synthetic rows (TSTR), on as many training rows (TRTR), on fresh real rows, and on
training rows whose columns were shuffled (the floor: nothing to learn). All are scored on the same real rows, which
none of them saw. The interval of the gap TRTR - TSTR is a paired bootstrap over these test rows, whole entities
together; where a model learns from few rows, the rows it learns from are drawn anew as well, since another draw of them
would change the gap more than another draw of the test rows.

A number to predict is cut off at two quantiles of the training rows' target, for learning and for scoring alike: else
one outlier decides which of two honest tables serves better.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR).
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import Measurement, Tables
from evaluate.utility.features import Form, predictors
from evaluate.utility.models import FORMS, class_scores, number_scores
from evaluate.utility.scores import macro_roc_auc, r2, weightings
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import line
from synth.schema import Schema

MAX_ROWS = 20_000
MAX_CLASSES = 20
CUT_SHARE = 0.01
"""Share of the training rows' target beyond either end at which a number to predict is cut off."""
SIDES = ("tstr", "trtr", "fresh", "floor")
FEW_ROWS = 2_500
"""Up to this many rows to learn from, the interval holds what another draw of them would change."""
N_DRAWS = 8
"""How many times those rows are drawn anew."""


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
    """Rows with their target, in a seeded order. *Sensitive* where the rows are real."""

    rows: pd.DataFrame
    truth: np.ndarray

    @classmethod
    def of(cls, frame: pd.DataFrame, task: Task, tables: Tables, n_rows: int = MAX_ROWS) -> "Side":
        """At most `n_rows` of the rows that have a target."""
        truth = task.truth(frame, tables.schema)
        order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
        order = order[~np.isnan(truth[order])][:n_rows]
        return cls(frame.iloc[order].reset_index(drop=True), truth[order])

    def redrawn(self, rng: np.random.Generator) -> "Side":
        """As many of the same rows, drawn with replacement."""
        drawn = rng.integers(len(self.truth), size=len(self.truth))
        return Side(self.rows.iloc[drawn].reset_index(drop=True), self.truth[drawn])


@dataclass(frozen=True)
class Replicates:
    """Scores of one model by side, shape (1 + n_replicates,); the first one is on the rows as they are."""

    scores: dict[str, np.ndarray]
    converged: bool

    def value(self, side: str) -> float:
        """The score on the test rows."""
        return float(self.scores[side][0])

    def interval(self, replicates: np.ndarray) -> tuple[float, float]:
        """The 95% percentile interval of a score or a gap, around its value.

        A model that learns from rows drawn with replacement sees fewer different ones and scores a little lower: the
        replicates are moved so that their mean is the value.
        """
        value, drawn = float(replicates[0]), replicates[1:][~np.isnan(replicates[1:])]
        low, high = np.quantile(drawn + (value - drawn.mean()), [0.025, 0.975]) if len(drawn) else (value, value)
        return min(float(low), value), max(float(high), value)


def measure(tables: Tables) -> Measurement:
    """Scores of models trained on the synthetic table and how far they fall behind.

    Estimates: `utility.tstr.linear`, `utility.tstr.boosting` (higher; reference TRTR), `utility.gap.linear`,
    `utility.gap.boosting` (TRTR - TSTR, lower; reference: the gap of a model trained on fresh rows).
    """
    target = tables.schema.target
    if target is None:
        return _skipped("the schema names no target")
    if not predictors(tables.schema):
        return _skipped("the schema has no column that could predict the target")
    task = Task.of(tables, target)
    test = Side.of(tables.control, task, tables)
    if len(np.unique(test.truth)) < 2:
        return _skipped("the target does not vary among the control rows")
    sides = _sides(task, tables)
    if any(len(side.truth) == 0 for side in sides.values()):
        return _skipped("a table has no row with a target that occurs in real rows")
    results = {form: _replicates(form, task, sides, test, tables) for form in FORMS}
    note = _note(task, sides, test, tables)
    estimates = [e for form, result in results.items() for e in _estimates(form, result, len(test.truth), note)]
    figure = {"target": target, "task": task.kind, "metric": task.metric}
    models = [_model_figure(form, result) for form, result in results.items()]
    return Measurement(tuple(estimates), figures={"utility": {**figure, "models": models}})


def _sides(task: Task, tables: Tables) -> dict[str, Side]:
    """The rows each model learns from: as many synthetic as training rows, and as many of the rest as there are."""
    frames = (tables.synthetic, tables.train, tables.fresh, tables.shuffled)
    n_rows = min(len(Side.of(frame, task, tables).truth) for frame in frames[:2])
    return {side: Side.of(frame, task, tables, n_rows) for side, frame in zip(SIDES, frames, strict=True)}


def _replicates(form: Form, task: Task, sides: dict[str, Side], test: Side, tables: Tables) -> Replicates:
    """Scores of one model on all replicates, the same test rows for every side."""
    score = macro_roc_auc if task.kind == "classification" else r2
    drawn = [_predicted(form, task, sides, test, tables)]
    if len(sides["tstr"].truth) <= FEW_ROWS:
        rng = np.random.default_rng([tables.seed, 6])
        again = [{name: side.redrawn(rng) for name, side in sides.items()} for _ in range(N_DRAWS)]
        drawn += [_predicted(form, task, chosen, test, tables) for chosen in again]
    redrawn = [predicted for predicted, _ in drawn[1:]] or [drawn[0][0]]
    blocks: dict[str, list[np.ndarray]] = {name: [] for name in sides}
    for index, weights in enumerate(weightings(entity_codes(test.rows, tables.schema), tables.seed)):
        for name, block in blocks.items():
            if index == 0:
                block.append(score(drawn[0][0][name], test.truth, weights))
                continue
            for turn, predicted in enumerate(redrawn):
                block.append(score(predicted[name], test.truth, weights[turn :: len(redrawn)]))
    scores = {name: np.concatenate(block) for name, block in blocks.items()}
    return Replicates(scores, all(converged for _, converged in drawn))


def _predicted(
    form: Form, task: Task, sides: dict[str, Side], test: Side, tables: Tables
) -> tuple[dict[str, np.ndarray], bool]:
    """Predictions of one model for the test rows by side, and whether every fit converged."""
    predicted, converged = {}, True
    for name, side in sides.items():
        if task.kind == "classification":
            learned = (form, side.rows, side.truth.astype(np.int64), test.rows, tables.schema)
            predicted[name], fine = class_scores(*learned, len(task.classes))
        else:
            predicted[name], fine = number_scores(form, side.rows, side.truth, test.rows, tables.schema)
        converged &= fine
    return predicted, converged


def _estimates(form: Form, result: Replicates, n: int, note: str) -> list[Estimate]:
    scores = result.scores
    gap = scores["trtr"] - scores["tstr"]
    low, high = result.interval(scores["tstr"])
    gap_low, gap_high = result.interval(gap)
    note = note if result.converged else f"{note}; a linear fit did not converge"
    trtr, fresh, floor = (result.value(side) for side in SIDES[1:])
    return [
        Estimate(
            f"utility.tstr.{form}", result.value("tstr"), n, "higher",
            low=low, high=high, reference=trtr, floor=floor, note=note,
        ),
        Estimate(
            f"utility.gap.{form}", float(gap[0]), n, "lower",
            low=gap_low, high=gap_high, reference=trtr - fresh, floor=trtr - floor, note=f"TRTR - TSTR: {note}",
        ),
    ]  # fmt: skip


def _model_figure(form: Form, result: Replicates) -> dict[str, Any]:
    gap = result.scores["trtr"] - result.scores["tstr"]
    low, high = result.interval(gap)
    return {"model": form, **{s: result.value(s) for s in SIDES}, "gap": float(gap[0]), "low": low, "high": high}


def _note(task: Task, sides: dict[str, Side], test: Side, tables: Tables) -> str:
    """What a reader needs beside the scores."""
    metric = {"roc_auc": "ROC AUC", "r2": "R2 (not below -1)"}[task.metric]
    if len(task.classes) > 2:
        metric = f"macro one-vs-rest ROC AUC over {len(task.classes)} classes"
    parts = [f"{metric} of {task.target!r}", f"{len(sides['tstr'].truth)} rows learned from"]
    if len(sides["fresh"].truth) < len(sides["tstr"].truth):
        parts.append(f"{len(sides['fresh'].truth)} fresh ones")
    if task.kind == "regression":
        parts.append("outliers cut off at the 1% and 99% quantiles")
    n_classes = len(np.unique(sides["tstr"].truth))
    if task.kind == "classification" and n_classes < len(task.classes):
        parts.append("the synthetic rows lack a class")
    if task.kind == "classification" and len(task.classes) == MAX_CLASSES:
        parts.append("rarer classes left out")
    if max(len(tables.control), len(tables.train)) > MAX_ROWS:
        parts.append(f"sampled at {MAX_ROWS} rows")
    return ", ".join(parts)


def _skipped(message: str) -> Measurement:
    names = [f"utility.{kind}.{form}" for form in FORMS for kind in ("tstr", "gap")]
    return Measurement(failures=tuple(Failure(name, "skipped", message) for name in names))
