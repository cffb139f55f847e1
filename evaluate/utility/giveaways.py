"""Columns that give the target away: one of them alone predicts it nearly perfectly.

What a booking's status says of its cancellation, no model needs to learn: it scores next to 1 on every table that keeps
this one relation, and its loss says nothing of all others. So such columns are named, and models are compared without
them, too.

Each column alone predicts the target by the class shares, or the mean, of the training rows in each of its bins; this
is scored on control rows. Shares are drawn toward those of all rows by one row's worth, so that a column that never
repeats tells nothing.

Source: Kaufman, Rosset, Perlich, Stitelman 2012, "Leakage in data mining", on such columns.
"""

from dataclasses import dataclass

import numpy as np

from evaluate.tables import Tables
from evaluate.utility.features import predictors
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.task import Side, Task
from synth.domain import Discretizer

LIMIT = 0.99
"""Of the score of one column alone, ROC AUC or R2."""
N_BINS = 256


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
    if "giveaways" not in tables.kept_of_real:
        found = [one for one in scores_alone(tables, task) if one.score >= LIMIT]
        tables.kept_of_real["giveaways"] = tuple(sorted(found, key=lambda one: (-one.score, one.column)))
    kept: tuple[Giveaway, ...] = tables.kept_of_real["giveaways"]
    return kept


def scores_alone(tables: Tables, task: Task) -> list[Giveaway]:
    """What each column that may predict the target scores alone.

    Args:
        tables: *Sensitive*. Only train and control are looked at.
        task: of the target.
    """
    train, test = Side.of(tables.train, task, tables), Side.of(tables.control, task, tables)
    names, ones = predictors(tables.schema), np.ones((1, len(test.truth)))
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, N_BINS)
    places = {attribute.name: place for place, attribute in enumerate(discretizer.attributes)}
    learned, asked = (discretizer.encode(side.rows) for side in (train, test))
    found = []
    for name in names:
        place = places[name]
        by_code = _by_code(learned[:, place], discretizer.attributes[place].size, train.truth, task)
        score = macro_roc_auc if task.kind == "classification" else r2
        found.append(Giveaway(name, float(score(by_code[asked[:, place]], test.truth, ones)[0])))
    return found


def _by_code(codes: np.ndarray, n_codes: int, truth: np.ndarray, task: Task) -> np.ndarray:
    """Class shares of the rows with each code, shape (n_codes, n_classes), or means, shape (n_codes,)."""
    sizes = np.bincount(codes, minlength=n_codes) + 1.0
    if task.kind == "regression":
        return np.asarray((np.bincount(codes, truth, minlength=n_codes) + truth.mean()) / sizes)
    n_classes = len(task.classes)
    cells = np.bincount(codes * n_classes + truth.astype(np.int64), minlength=n_codes * n_classes)
    return np.asarray(
        (cells.reshape(n_codes, n_classes) + np.bincount(truth.astype(np.int64), minlength=n_classes) / len(truth))
        / sizes[:, None]
    )
