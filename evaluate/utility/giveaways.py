"""Columns that give the target away: one of them alone predicts it nearly perfectly.

What a booking's status says of its cancellation, no model needs to learn. It scores next to 1 on every table that keeps
this one relation, and its loss says nothing of all others. So such columns are named, and models are compared without
them, too.

Each column alone predicts the target by the class shares, or the mean, of the training rows in each of its bins. This
is scored on control rows. A bin without training rows predicts what all rows together do, so that a column that never
repeats tells nothing.

Source: Kaufman, Rosset, Perlich, Stitelman 2012, "Leakage in data mining", on such columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.tables import Tables
from evaluate.utility.models import predictors
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.task import Task, TaskRows
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import numeric_scale

LIMIT = 0.99
"""Of the score of one column alone, ROC AUC or R2."""
N_BINS, ROWS_A_BIN = 256, 3
"""Bins of a number at most, and training rows that each has on average at least."""
FILLED = 1e-6
"""Training rows that each bin gets beside its own, spread as all rows are."""


@dataclass(frozen=True)
class Giveaway:
    """One column that predicts the target by itself.

    Attributes:
        column: its name.
        score: ROC AUC or R2 on the control rows.
    """

    column: str
    score: float


def giveaways_of(tables: Tables, task: Task) -> tuple[Giveaway, ...]:
    """The columns that give the target of a task away, clearest first; looked for once beside the same real rows."""

    def find() -> tuple[Giveaway, ...]:
        found = [one for one in scores_alone(tables, task) if one.score >= LIMIT]
        return tuple(sorted(found, key=lambda one: (-one.score, one.column)))

    return tables.kept_of_real.once("giveaways", find)


def scores_alone(tables: Tables, task: Task) -> list[Giveaway]:
    """Scores of each column that predicts the target alone.

    Args:
        tables: *Sensitive*. Only train and control are looked at.
        task: of the target.
    """
    train, test = TaskRows.of(tables.train, task, tables), TaskRows.of(tables.control, task, tables)
    score = macro_roc_auc if task.kind == "classification" else r2
    ones, found = np.ones((1, len(test.truth))), []
    for name in predictors(tables.schema):
        learned, asked = _codes(train.rows[name], test.rows[name], tables.schema.columns[name])
        by_code = _by_code(learned, 1 + int(max(learned.max(), asked.max())), train.truth, task)
        found.append(Giveaway(name, float(score(by_code[asked], test.truth, ones)[0])))
    return found


def _codes(train: pd.Series, test: pd.Series, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each training and control row, 0 where the value is missing: categories, or quantiles of train."""
    if isinstance(column, CategoricalColumn | BooleanColumn):
        codes = pd.factorize(pd.concat([train, test]).astype(object))[0] + 1
        return codes[: len(train)], codes[len(train) :]
    places = [numeric_scale.positions(series, column) for series in (train, test)]
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
