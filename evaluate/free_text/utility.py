"""Agreement of texts and columns for models: train on synthetic texts, test on real ones.

A linear model predicts a column from a text alone. As in `evaluate.utility.tstr`, it is trained on synthetic rows
(TSTR) and on as many training rows (TRTR), on fresh real rows and as many training ones (the reference), and on
training texts beside the columns of other rows (the floor). All predict the same held-out rows, and intervals are made
in the same way.

The columns that are predicted are public: the target of the schema first, then categories and truth values, then
numbers and times, each in the order of the schema, `MOST_TARGETS` at most. A column of which texts tell nothing loses
nothing, so that the worst loss is of one of which they do.

The model is ridge regression of words and runs of two words, weighted by how few texts hold them (TF-IDF); of classes,
it is of their indicators. Its dual form takes one factorization for all columns.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR); Saunders, Gammerman, Vovk 1998, "Ridge regression
learning algorithm in dual variables"; Salton & Buckley 1988 for the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.free_text.classifier import N_FEATURES, runs_of
from evaluate.free_text.corpus import NO_TEXTS
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Form
from evaluate.utility.scores import weightings
from evaluate.utility.study import COMPARED, SIDES, FittedModel, Models, Study, interval
from evaluate.utility.task import Task, TaskRows
from evaluate.utility.tstr import BOUNDS, scored
from synth.schema import Schema

TEST = Counted("test rows with a text, which are half of the holdout", 2, 5_000)
TSTR, GAP, WORST = "utility.texts.tstr", "utility.texts.gap", "utility.texts.gap.worst"
_ONE = "it is of one text and one column; name 'utility.texts.gap.worst'"
_DECLARED = (
    Metric(TSTR, "higher", "Column predicted from text, trained on synthetic", "Score on real texts of a linear model "
           "that learned from synthetic texts to predict a column of their row.", describes=_ONE),
    Metric(GAP, "lower", "Column predicted from text, loss",
           "What a linear model of texts loses by training on synthetic ones.", describes=_ONE),
    Metric(WORST, "lower", "Columns predicted from texts, worst loss", "The largest loss of a linear model that "
           "learned from synthetic texts to predict a column of their row.", counted=TEST, key=True),
)  # fmt: skip
METRICS = tuple(replace(metric, needs="texts", anchor="texts") for metric in _DECLARED)

NAME = "utility.texts"
MOST_TARGETS = 5
MOST_LEARNED, MOST_TESTED = 2_000, 5_000  # Texts that a model learns from, or is tested on, at most
MIN_TEXTS = 40
N_SPLITS = 8  # Splits in halves of the rows learned from, as for linear models in `evaluate.utility.study`
RIDGE = 1.0  # Penalty, as is customary for texts whose features have length 1
FORM: Form = "linear"


def targets_of(schema: Schema) -> tuple[str, ...]:
    """The columns that are predicted from texts: a public choice."""
    learned = [name for name in schema.learned if not schema.columns[name].is_weight]

    def place(name: str) -> tuple[bool, bool]:
        return name != schema.target, not schema.columns[name].is_categorical

    return tuple(sorted(learned, key=place)[:MOST_TARGETS])


def measure(tables: Tables) -> MetricResult:
    """Score and loss of each column predicted from each text, and the worst loss; else a reason. Estimates:
    `utility.texts.tstr` (reference TRTR), `utility.texts.gap`, `utility.texts.gap.worst`.
    """
    schema = tables.schema
    if not schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    targets = targets_of(schema)
    if not targets:
        return _skipped("no column is learned that a text could tell")
    studies = [study for name in schema.texts for study in _studies(name, targets, tables)]
    if not studies:
        return _skipped(f"it needs at least {MIN_TEXTS} texts in each table, and a column that varies beside them")
    found = [_scores(study) for study in studies]
    return MetricResult((*(one for pair in found for one in pair), _worst(studies, [gap for _, gap in found])))


def _skipped(why: str) -> MetricResult:
    return MetricResult(failures=(Failure(WORST, "skipped", why),))


@dataclass(frozen=True, eq=False)
class TextRows:
    """Texts of one table as counts of hashed words. *Sensitive* where the table is real."""

    frame: pd.DataFrame
    counts: Any  # of words and runs of two words, sparse, shape (n, n_features)
    units: np.ndarray  # the entity of each row, from 0; shape (n,)

    @classmethod
    def of(cls, frame: pd.DataFrame, order: np.ndarray, name: str, schema: Schema, most: int) -> "TextRows":
        """The first rows with a text of a table in an order."""
        from sklearn.feature_extraction.text import HashingVectorizer

        order = order[frame[name].notna().to_numpy(dtype=bool)[order]][:most]
        units = pd.factorize(entity_codes(frame, schema)[order])[0]
        rows = frame.iloc[order].reset_index(drop=True)
        hashed = HashingVectorizer(n_features=N_FEATURES, alternate_sign=False, norm=None, analyzer=runs_of)
        return cls(rows, hashed.transform(rows[name].tolist()) if len(rows) else None, units)

    def first(self, n: int) -> "TextRows":
        """The first n rows, which are a sample."""
        return TextRows(self.frame.iloc[:n], self.counts[:n], self.units[:n])

    @property
    def n(self) -> int:
        return len(self.units)

    def of_task(self, task: Task, schema: Schema) -> TaskRows:
        """Those that have a truth of a task, with it."""
        truth = task.truth(self.frame, schema)
        known = ~np.isnan(truth)
        units = pd.factorize(self.units[known])[0]
        return TaskRows(self.frame[known].reset_index(drop=True), truth[known], units)


@dataclass(frozen=True, eq=False)
class TextStudy:
    """The models of one column that is predicted from one column of texts. *Sensitive*."""

    text: str
    study: Study

    @property
    def note(self) -> str:
        task, sides = self.study.task, self.study.sides
        metric = {"roc_auc": "ROC AUC", "r2": "R2 (not below -1)"}[task.metric]
        if len(task.classes) > 2:
            metric = f"macro one-vs-rest ROC AUC over {len(task.classes)} classes"
        return f"{metric} of {task.target!r} from {self.text!r}, {len(sides['tstr'].truth)} texts learned from"

    def gap_interval(self, n_comparisons: int) -> tuple[float, float]:
        study, (least, most) = self.study, BOUNDS[self.study.task.metric]
        drawn = {side: study.drawn(FORM, side, study.score) for side in COMPARED}
        halves = {side: study.split(FORM, side, study.score) for side in COMPARED}
        return interval(
            drawn["trtr"] - drawn["tstr"], halves["trtr"] - halves["tstr"], bounds=(least - most, most - least),
            n_comparisons=n_comparisons,
        )  # fmt: skip


def _studies(name: str, targets: Sequence[str], tables: Tables) -> list[TextStudy]:
    """A study of each column that can be predicted from one column of texts; empty where there are too few texts."""
    rows = _rows(name, tables)
    if min(one.n for one in rows.values()) < MIN_TEXTS:
        return []
    test = rows.pop("control")
    n = min(rows["tstr"].n, rows["trtr"].n)
    sides = {side: one.first(min(n, one.n)) for side, one in rows.items()}
    sides["matched"] = sides["trtr"].first(sides["fresh"].n)
    tasks = [task for task in (Task.of(tables, target) for target in targets) if _varies(task, test, tables)]
    learned = {side: _learned(sides[side], side in COMPARED, tasks, test.counts, tables) for side in SIDES}
    return [
        TextStudy(name, _study(task, {side: learned[side][i] for side in SIDES}, sides, test, tables))
        for i, task in enumerate(tasks)
    ]


def _study(
    task: Task, learned: Mapping[str, FittedModel], sides: Mapping[str, TextRows], test: TextRows, tables: Tables
) -> Study:
    of = {side: one.of_task(task, tables.schema) for side, one in sides.items()}
    known = ~np.isnan(task.truth(test.frame, tables.schema))
    asked = test.of_task(task, tables.schema)
    models = Models({side: _of_known(model, known) for side, model in learned.items()})
    return Study(task, tables.schema, asked, of, {FORM: models}, tuple(weightings(asked.units, tables.seed)))


def _rows(name: str, tables: Tables) -> dict[str, TextRows]:
    """Texts by side, and those of the test; shuffled rows keep their texts and have the columns of others."""
    schema = tables.schema

    def real(side: str, frame: pd.DataFrame, order: np.ndarray, most: int) -> TextRows:
        return tables.kept_of_real.once(("texts of", side, name), lambda: TextRows.of(frame, order, name, schema, most))

    order = tables.order("train")
    dealt = tables.train.copy(deep=False)
    dealt[name] = np.roll(tables.train[name].to_numpy(dtype=object)[order], 1)[np.argsort(order)]
    fresh, control = np.arange(len(tables.fresh)), np.arange(len(tables.control))
    return {
        "tstr": TextRows.of(tables.synthetic, tables.order("synthetic"), name, schema, MOST_LEARNED),
        "trtr": real("train", tables.train, order, MOST_LEARNED),
        "fresh": real("fresh", tables.fresh, fresh, MOST_LEARNED),
        "floor": real("dealt", dealt, order, MOST_LEARNED),
        "control": real("control", tables.control, control, MOST_TESTED),
    }


def _varies(task: Task, test: TextRows, tables: Tables) -> bool:
    """True where test rows hold at least two values of what is predicted, and enough of them."""
    truth = task.truth(test.frame, tables.schema)
    there = truth[~np.isnan(truth)]
    return len(there) >= MIN_TEXTS and len(np.unique(there)) > 1


@dataclass(frozen=True, eq=False)
class RidgeModel:
    """Ridge regression of weighted words; of classes, of their indicators."""

    weights: np.ndarray  # of each feature for how few texts hold it, shape (n_features,)
    coefficients: np.ndarray  # shape (n_features, n_outputs)
    centers: np.ndarray  # of each output, shape (n_outputs,)

    def predict(self, counts: Any) -> np.ndarray:
        """Scores of classes, shape (n, n_classes), or numbers, shape (n,), for sparse counts of words."""
        found = np.asarray(_scaled(counts, self.weights) @ self.coefficients) + self.centers
        return np.asarray(found if len(self.centers) > 1 else found[:, 0])


def _scaled(counts: Any, weights: np.ndarray) -> Any:
    """Logarithms of counts by weight, each row of length 1."""
    from scipy import sparse
    from sklearn.preprocessing import normalize

    made = counts.astype(np.float64)
    made.data = 1.0 + np.log(made.data)
    return normalize(sparse.csr_matrix(made.multiply(weights)))


def _fitted(counts: Any, truths: Sequence[np.ndarray], tasks: Sequence[Task]) -> list[RidgeModel]:
    """A model of each task, from the same texts; rows that have no truth of it are left out. `counts`: *Sensitive*
    where texts are real. Sparse, shape (n, n_features). `truths`: of each task, NaN where a row has none, shape (n,).
    """
    models: list[RidgeModel | None] = [None] * len(tasks)
    masks = [~np.isnan(truth) for truth in truths]
    for mask in {one.tobytes(): one for one in masks}.values():
        chosen = [i for i, one in enumerate(masks) if (one == mask).all()]
        outputs = [_outputs(truths[i][mask], tasks[i]) for i in chosen]
        weights, coefficients, centers = _ridge(counts[mask], np.hstack(outputs))
        ends = np.cumsum([0, *(one.shape[1] for one in outputs)])
        for i, start, end in zip(chosen, ends, ends[1:], strict=False):
            models[i] = RidgeModel(weights, coefficients[:, start:end], centers[start:end])
    return [model for model in models if model is not None]


def _outputs(truth: np.ndarray, task: Task) -> np.ndarray:
    """What is regressed, shape (n, n_outputs): the number, or an indicator of each class."""
    if task.kind == "regression":
        return truth[:, None]
    return np.asarray(np.eye(len(task.classes))[truth.astype(np.int64)])


def _ridge(counts: Any, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of features, coefficients and centers, by the dual form, in one thread."""
    from scipy import linalg
    from threadpoolctl import threadpool_limits

    n, centers = counts.shape[0], outputs.mean(axis=0) if len(outputs) else np.zeros(outputs.shape[1])
    held = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = np.log((1 + n) / (1 + held)) + 1.0
    if n == 0:
        return weights, np.zeros((counts.shape[1], outputs.shape[1])), centers
    features = _scaled(counts, weights)
    gram = (features @ features.T).toarray()
    gram[np.diag_indices(n)] += RIDGE
    with threadpool_limits(1):
        dual = linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), outputs - centers)
        return weights, np.asarray(features.T @ dual), centers


def _learned(side: TextRows, compared: bool, tasks: Sequence[Task], counts: Any, tables: Tables) -> list[FittedModel]:
    """Models of one side for each task: of all of its rows, and of the halves of each split where it is compared.
    `counts`: *Sensitive*. Of the words of test rows. `tables`: *Sensitive*. All of them.
    """
    truths = [task.truth(side.frame, tables.schema) for task in tasks]

    def fitted(rows: np.ndarray) -> list[RidgeModel]:
        return _fitted(side.counts[rows], [truth[rows] for truth in truths], tasks)

    whole = fitted(np.ones(side.n, dtype=bool))
    # All sides are split by the same draws: the same table twice then gives the same models, and a gap of zero.
    seeds = np.random.default_rng([tables.seed, 23]).integers(2**63, size=N_SPLITS if compared else 0)
    pairs = [[_predicted(fitted(rows), counts) for rows in _halves(side.units, int(seed))] for seed in seeds]
    return [
        FittedModel(True, model.predict(counts), tuple((first[i], second[i]) for first, second in pairs))
        for i, model in enumerate(whole)
    ]


def _predicted(models: Sequence[RidgeModel], counts: Any) -> list[np.ndarray]:
    return [model.predict(counts) for model in models]


def _halves(units: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows in two, whole entities together; all rows twice where there is one entity alone."""
    n_units = int(units.max()) + 1
    if n_units == 1:
        return np.ones(len(units), dtype=bool), np.ones(len(units), dtype=bool)
    first = np.zeros(n_units, dtype=bool)
    first[np.random.default_rng(seed).permutation(n_units)[: n_units // 2]] = True
    return first[units], ~first[units]


def _of_known(model: FittedModel, known: np.ndarray) -> FittedModel:
    """The same with predictions of those test rows alone whose truth is known."""
    halves = tuple((first[known], second[known]) for first, second in model.half_predictions)
    return FittedModel(model.converged, model.predictions[known], halves)


def _scores(study: TextStudy) -> tuple[Estimate, Estimate]:
    """Score and loss of one column predicted from one text."""
    score, gap = scored(FORM, study.study, study.note)
    subject = (study.text, study.study.task.target)
    return replace(score, measure=TSTR, subject=subject), replace(gap, measure=GAP, subject=subject)


def _worst(studies: Sequence[TextStudy], gaps: Sequence[Estimate]) -> Estimate:
    """The largest loss; its interval holds the losses of all columns at once."""
    ends = np.array([study.gap_interval(len(studies)) for study in studies])
    last = max(gaps, key=lambda gap: gap.value)
    low, high = min(float(ends[:, 0].max()), last.value), max(float(ends[:, 1].max()), last.value)
    text, target = last.subject
    note = f"The worst is {target!r}, predicted from {text!r}; of {len(studies)}. {last.note}"
    return replace(last, measure=WORST, subject=(), low=low, high=high, note=note)
