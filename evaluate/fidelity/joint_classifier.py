"""A classifier that tells one table's rows from held-out ones, and how well it does on rows it has not seen.

Folds hold whole entities. Rows that are equal may be in different folds: the holdout has no part in the synthetic rows,
so that a row in both tables says nothing but what is common in both, and in a table of few distinct rows a fold of
their own would hide how often each occurs.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.fidelity.joint_samples import Side
from evaluate.intervals import placements
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import line
from synth.schema import Schema

N_FOLDS = 5
MAX_LEVELS = 60
"""Levels of a category that are told apart, the most frequent ones; the others are one."""
N_EDGES = 62
"""Places where a column of numbers is cut at most."""


@dataclass(frozen=True)
class Skill:
    """The area under the ROC curve of a classifier, fold by fold, and what each row adds to it.

    Attributes:
        auc: mean over folds; 0.5 is a coin.
        wins: for each row of the table, how far its placement among the held-out rows of its fold is above the fold's
            mean, shape (n,).
        losses: the same of each held-out row among those of the table, shape (n,).
    """

    auc: float
    wins: np.ndarray
    losses: np.ndarray


def coded(sides: list[Side], schema: Schema) -> tuple[list[np.ndarray], np.ndarray]:
    """The rows of every table as small whole numbers, made without a look at which table a row is from.

    Numbers are cut at quantiles of all rows together, times too; whether a number is written with a point, or how many
    digits beyond its column's it has, leaves no trace. Missing is a code of its own.

    Args:
        sides: *Sensitive* where the tables are.
        schema: names the learned columns.

    Returns:
        Codes of each side, shape (n, d), and which of the d columns are categories. Constant columns are left out.
    """
    columns, categories = [], []
    for name in sorted(schema.learned):
        column = schema.columns[name]
        is_category = isinstance(column, CategoricalColumn | BooleanColumn)
        if is_category:
            codes = _levels(pd.concat([side.rows[name].astype(object) for side in sides], ignore_index=True))
        else:
            codes = _cut(np.concatenate([line.positions(side.rows[name], column) for side in sides]))  # type: ignore[arg-type]
        if (codes != codes[0]).any():
            columns.append(codes)
            categories.append(is_category)
    n_rows = sum(len(side.rows) for side in sides)
    stacked = np.column_stack(columns) if columns else np.zeros((n_rows, 0), dtype=np.uint8)
    ends = np.cumsum([len(side.rows) for side in sides])[:-1]
    return np.split(stacked, ends), np.array(categories, dtype=bool)


def _levels(values: pd.Series) -> np.ndarray:
    """A code for each value: the most frequent level is 1, missing is 0; shape (len(values),), uint8."""
    counts = values.dropna().value_counts().sort_index().sort_values(ascending=False, kind="stable")
    codes = counts.index[:MAX_LEVELS].get_indexer(pd.Index(values))
    codes = np.where(codes < 0, MAX_LEVELS, codes) + 1
    return np.where(values.isna().to_numpy(dtype=bool), 0, codes).astype(np.uint8)


def _cut(values: np.ndarray) -> np.ndarray:
    """A code for each number, ascending; missing is 0; shape (len(values),), uint8."""
    missing = np.isnan(values)
    places, counts = np.unique(values[~missing], return_counts=True)
    if len(places) > N_EDGES:
        # A value that many rows share has a code of its own, and leaves the other codes to the other values.
        weights = np.cumsum(np.minimum(counts, counts.sum() / N_EDGES))
        places = places[np.unique(np.searchsorted(weights, np.linspace(weights[0], weights[-1], N_EDGES)))]
    return np.where(missing, 0, np.searchsorted(places, values, "right") + 1).astype(np.uint8)


def folds(units: np.ndarray) -> np.ndarray:
    """The fold of each row, whole units together and as many rows in each as may be; shape (len(units),).

    >>> folds(np.array([0, 0, 0, 1, 2, 3, 4, 5]))
    array([0, 0, 0, 1, 2, 3, 4, 1])
    """
    sizes = np.bincount(units)
    if sizes.max() == 1:
        return np.asarray(units % N_FOLDS)
    of_unit, filled = np.empty(len(sizes), dtype=np.intp), np.zeros(N_FOLDS, dtype=np.intp)
    for unit in np.argsort(-sizes, kind="stable"):
        of_unit[unit] = filled.argmin()
        filled[of_unit[unit]] += sizes[unit]
    return np.asarray(of_unit[units])


def skill(
    held_out: tuple[np.ndarray, np.ndarray], table: tuple[np.ndarray, np.ndarray], categories: np.ndarray
) -> Skill:
    """How well a classifier tells a table's rows from held-out ones, each row judged by a model that has not seen it.

    Args:
        held_out: *Sensitive*. Codes, shape (n, d), and fold of each row, shape (n,).
        table: the same of the table.
        categories: which columns are codes of categories, shape (d,), boolean.
    """
    # DEVIATES: the area under the curve, not accuracy, which throws away by how much rows are told apart; and every row
    # is scored in its turn, where Lopez-Paz and Oquab score one half.
    codes = np.concatenate([held_out[0], table[0]])
    of = np.concatenate([held_out[1], table[1]])
    labels = np.repeat([0, 1], [len(held_out[0]), len(table[0])])
    centered, aucs = np.empty(len(labels)), np.empty(N_FOLDS)
    for fold in range(N_FOLDS):
        inside = of == fold
        scores = _scores(codes[~inside], labels[~inside], codes[inside], categories)
        positive = labels[inside] == 1
        wins, losses = placements(scores[positive], scores[~positive])
        aucs[fold] = wins.mean()
        centered[inside & (labels == 1)] = wins - aucs[fold]
        centered[inside & (labels == 0)] = losses - aucs[fold]
    return Skill(float(aucs.mean()), centered[labels == 1], centered[labels == 0])


def _scores(codes: np.ndarray, labels: np.ndarray, asked: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Scores of the rows asked for by gradient boosting, shape (len(asked),)."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if codes.shape[1] == 0:
        return np.zeros(len(asked))
    model = HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.15, max_leaf_nodes=8, min_samples_leaf=10, l2_regularization=1.0,
        max_bins=64, categorical_features=categories, early_stopping=False, random_state=0,
    )  # fmt: skip
    return np.asarray(model.fit(codes, labels).decision_function(asked))
