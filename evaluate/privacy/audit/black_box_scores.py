"""What an attacker makes of synthetic tables to say whether a target was in: numbers of each, and the best of these."""

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.privacy.cells import Cells
from synth.schema import Schema

N_CLOSEST = 10
TOGETHER = (
    "likelihood of the target by column", "rows that match it, by column", "rows that match it, by pair of columns",
    "most columns that a row shares with it", "columns that the closest rows share with it", "copies of it",
)  # fmt: skip
"""Names of the numbers that are about all columns; those of single columns follow them."""
LEARNED = "a logistic regression of all counts"
LEAST_TO_LEARN = 16
"""Fits below which nothing is learned beyond the best single number."""
N_FOLDS = 4


def features(table: pd.DataFrame, target: pd.DataFrame, cells: Cells) -> np.ndarray:
    """What one synthetic table says of a target; shape (len(TOGETHER) + d_learned,).

    Args:
        table: synthetic.
        target: *Sensitive* where it is real. One row.
        cells: what counts as the same.
    """
    matches = cells.matches(table, target)
    by_column, shared = matches.mean(axis=0), matches.sum(axis=1)
    likelihood = float(np.log(matches.sum(axis=0) + 0.5).sum())
    pairs = float((shared * (shared - 1)).mean())
    closest = np.sort(shared)[-N_CLOSEST:]
    copies = float((shared == matches.shape[1]).mean())
    return np.array([likelihood, by_column.sum(), pairs, shared.max(), closest.mean(), copies, *by_column])


def names(schema: Schema) -> tuple[str, ...]:
    """What each number is, in words."""
    return (*TOGETHER, *(f"rows that match it in column {name!r}" for name in schema.learned))


def best_score(found: np.ndarray, present: np.ndarray, n_known: int) -> tuple[np.ndarray, int | None]:
    """The score of each table that tells the first ones apart best, and which number it is.

    Args:
        found: numbers of all tables, shape (n, n_features).
        present: whether the target was in, shape (n,); only the first are looked at.
        n_known: how many that is.

    Returns:
        Scores, higher where the target seems in, shape (n,), and the feature; none for the regression.
    """
    known, known_present = found[:n_known], present[:n_known]
    areas = np.array([_area(column, known_present) for column in known.T])
    feature = int(np.abs(areas - 0.5).argmax())
    learned = _learned(found, present, n_known) if n_known >= LEAST_TO_LEARN else None
    if learned is not None and learned[1] > 0.5 + abs(areas[feature] - 0.5):
        return learned[0], None
    return found[:, feature] * (1.0 if areas[feature] >= 0.5 else -1.0), feature


def _area(scores: np.ndarray, present: np.ndarray) -> float:
    """How often a table with the target scores above one without, ties half."""
    ranks, n_in = stats.rankdata(scores), int(present.sum())
    return float((ranks[present].sum() - n_in * (n_in + 1) / 2) / (n_in * (len(present) - n_in)))


def _learned(found: np.ndarray, present: np.ndarray, n_known: int) -> tuple[np.ndarray, float]:
    """The regression's scores, and how well others of its kind did on tables they had not seen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    known, answers = found[:n_known], present[:n_known]
    unseen = cross_val_predict(model, known, answers, cv=N_FOLDS, method="decision_function")
    return model.fit(known, answers).decision_function(found), _area(unseen, answers)
