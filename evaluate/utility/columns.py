"""Every column as a target: the share of what models learn from real rows that they learn from synthetic ones.

Shallow boosting predicts each column from all others (of a wide table, 32 that are drawn): R2 of a number, cut off at
two quantiles of the training rows, and of classes the Gini coefficient (2 AUC - 1, mean over classes of one against the
rest, the five most frequent ones but rare ones). The mean is the sum of these skills by synthetic rows over their sum
by training rows; the worst is the share of the column that is most surely behind. The intervals hold what other control
rows would change, not what other rows to learn from would.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from evaluate.estimate import Estimate, NotMeasuredError
from evaluate.intervals import N_GROUPS, jackknife
from evaluate.metrics import Metric
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Features, booster, in_one_thread, macro_roc_auc, r2
from evaluate.utility.study import Task

MEAN, WORST = "utility.columns.mean", "utility.columns.worst"
_SCORED = "its interval does not hold what other rows to learn from would change; name 'pairs.dependence.floor_share'"
METRICS = (
    Metric(MEAN, "higher", "Every column predicted", "Share of what models of real rows predict of each column that "
           "models of synthetic rows predict, over all columns; 1 is as useful as real rows.", describes=_SCORED),
    Metric(WORST, "higher", "Every column predicted, worst one", "The same for the column where that share is least.",
           describes=_SCORED),
)  # fmt: skip

MIN_ROWS, MAX_ROWS = 100, 5_000  # Rows of each table that are learned from, and of control that are predicted
MAX_TARGETS = 32  # Columns that are predicted, a seeded draw: time grows with the square of their number
MAX_CLASSES, LEAST_OF_CLASS = 5, 50  # The most frequent ones of a category, and training rows that each has at least
TELLING = 0.1  # The least skill of a model of training rows, for its column to count: the lower end of its interval
SIDES = SYNTHETIC, TRAIN, FRESH = 0, 1, 2
BOOSTING: dict[str, Any] = {
    "learning_rate": 0.25, "max_iter": 20, "max_leaf_nodes": 8, "min_samples_leaf": 20, "early_stopping": False,
    "random_state": 0,
}  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    """The share of skill that synthetic rows give, over all columns and of the worst one."""
    frames = (tables.synthetic, tables.train, tables.fresh)
    n, n_test = min(MAX_ROWS, *map(len, frames)), min(MAX_ROWS, len(tables.control))
    if min(n, n_test) < MIN_ROWS:
        raise NotMeasuredError(f"it needs at least {MIN_ROWS} rows of each table and of either half of the holdout")
    schema = tables.schema.model_copy(update={"target": None})
    sides = [_first(frame, n, tables) for frame in frames]
    test = _first(tables.control, n_test, tables)
    features = Features.fit(sides[TRAIN], schema, "boosting")
    X, asked, weights = [features.apply(side) for side in sides], features.apply(test), _weights(test, tables)
    skills: dict[str, list[np.ndarray]] = {}
    names = list(features.parts)
    drawn = np.sort(np.random.default_rng(tables.seed).permutation(len(names))[:MAX_TARGETS])
    for at, name in ((int(at), names[at]) for at in drawn):
        task, others = _task(tables, name, sides[TRAIN]), np.arange(len(names)) != at
        truth = task.truth(test, schema)
        if not others.any() or len(np.unique(truth[~np.isnan(truth)])) < 2:
            continue
        skills[name] = []
        for side in SIDES:
            learned = (X[side][:, others], task.truth(sides[side], schema))
            fit = partial(_skill, task, learned, (asked[:, others], truth), weights, features.categories[others])
            kept = tables.kept if side == SYNTHETIC else tables.kept_of_real
            skills[name].append(kept.once(("every column", name, side, n), fit))
    return _shares({name: np.array(skill) for name, skill in skills.items()}, n, n_test)


def _first(frame: pd.DataFrame, n: int, tables: Tables) -> pd.DataFrame:
    return frame.iloc[tables.drawn(frame)[:n]].reset_index(drop=True)


def _weights(test: pd.DataFrame, tables: Tables) -> np.ndarray:
    """All control rows, then all but each group of them, whole entities together; shape (1 + N_GROUPS, n)."""
    units = pd.factorize(entity_codes(test, tables.schema))[0]
    return np.vstack([np.ones(len(units)), units % N_GROUPS != np.arange(N_GROUPS)[:, None]]).astype(np.float64)


def _task(tables: Tables, name: str, train: pd.DataFrame) -> Task:
    """The task of a column, without classes too rare among the training rows learned from for a score to say much."""
    task = Task.of(tables, name)
    if task.kind == "regression":
        return task
    codes = task.truth(train, tables.schema)
    counts = np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=len(task.classes))
    return replace(task, classes=task.classes[counts >= LEAST_OF_CLASS][:MAX_CLASSES])


def _skill(
    task: Task,
    learned: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    categories: np.ndarray,
) -> np.ndarray:
    """By weighting of the control rows, at least 0; shape (len(weights),). Rows of no class are left out."""
    known, asked = ~np.isnan(learned[1]), ~np.isnan(test[1])
    X, y, truth, weights = learned[0][known], learned[1][known], test[1][asked], weights[:, asked]
    if len(np.unique(y)) < 2:
        return np.zeros(len(weights))
    model = in_one_thread(booster(task.kind, categories, BOOSTING).fit, X, y)
    if task.kind == "regression":
        skill = r2(in_one_thread(model.predict, test[0][asked]), truth, weights)
    else:
        scores = np.zeros((len(truth), len(task.classes)))
        scores[:, model.classes_.astype(np.int64)] = in_one_thread(model.predict_proba, test[0][asked])
        skill = 2 * macro_roc_auc(scores, truth, weights) - 1
    return np.asarray(np.maximum(np.nan_to_num(skill), 0.0))


def _shares(skills: dict[str, np.ndarray], n: int, n_test: int) -> MetricResult:
    """From the skill by side and weighting of each column, shape (3, 1 + N_GROUPS)."""
    telling = {name: skill for name, skill in skills.items() if _interval(skill[TRAIN])[0] >= TELLING}
    if not telling:
        raise NotMeasuredError("no column is told by the others: few rows, or columns hardly tied")
    every, d = np.array(list(telling.values())), len(telling)
    overall = every.sum(axis=0) / every[:, TRAIN].sum(axis=0)
    shares = every / np.maximum(every[:, TRAIN : TRAIN + 1], np.finfo(float).tiny)
    # The one whose interval ends lowest, not whose share is least: among many columns chance makes some small.
    ends = np.array([[_interval(shares[at, side], d)[1] for at in range(d)] for side in SIDES])
    at, of_fresh = (int(ends[side].argmin()) for side in (SYNTHETIC, FRESH))
    note = f"of {d} columns that others tell (of {len(skills)}); boosting that learned from {n:,} rows of each table"
    worst = f"the worst is {list(telling)[at]!r} ({every[at, SYNTHETIC, 0]:.3f} of {every[at, TRAIN, 0]:.3f}), {note}"
    return MetricResult((
        _share(MEAN, overall[SYNTHETIC], float(overall[FRESH, 0]), n_test, note),
        _share(WORST, shares[at, SYNTHETIC], float(shares[of_fresh, FRESH, 0]), n_test, worst, d),
    ))  # fmt: skip


def _interval(replicates: np.ndarray, n_comparisons: int = 1) -> tuple[float, float]:
    return jackknife(float(replicates[0]), replicates[1:], bounds=(0.0, np.inf), n_comparisons=n_comparisons)


def _share(name: str, share: np.ndarray, reference: float, n: int, note: str, n_comparisons: int = 1) -> Estimate:
    low, high = _interval(share, n_comparisons)
    return Estimate(name, float(share[0]), n, "higher", low=low, high=high, reference=reference, floor=0.0, note=note)
