"""The classifier of two-sample tests: it tells one table's rows from held-out ones, and is scored on unseen rows.

Folds hold whole entities, but equal rows may be in different folds: in a table of few distinct rows a fold of their own
would hide how often each occurs. A number also shows its digits, a time its place in the week and in the day, and two
columns that hang together their difference or ratio: a tree sees these in no column alone. How a cell is stored shows
nothing.

The boosting does not stop early: where tables differ little, rows that say when to stop say so at once.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.intervals import placements
from synth.schema import Schema
from synth.schema.kinds.moments import DAY

N_FOLDS = 5
MIN_UNITS = 20  # Rows (entities, where the table has them) of each table that a comparison needs
MAX_LEVELS = 252  # Levels of a category that are told apart, the most frequent ones; the others are one
N_EDGES = 252  # Places where a column of numbers is cut at most; with fewer distinct numbers each has a code of its own
MAX_DIGITS = 9  # Of a number that are looked at, on either side of the point; what lies beyond is rounding
MAX_PAIRS, MAX_RATIOS, RELATED, OFTEN = 12, 6, 0.9, 0.03
"""Pairs of times, and of numbers, that show their difference at most, or their ratio. Two numbers are of one unit and
hang together if they are often equal, or their difference is spread less than so much of the larger of them, and
likewise the difference of their logarithms for a ratio; all others are noise to the classifier."""
ROUNDING = 2.0**-50  # By how much a number in float64 may be off a decimal one, as a share of it


@dataclass(frozen=True)
class Skill:
    """The area under the ROC curve of a classifier, fold by fold, and what each row adds to it."""

    auc: float
    # for each row of the table, how far its placement among the held-out rows of its fold is above the fold's mean,
    # shape (n,).
    wins: np.ndarray
    losses: np.ndarray  # the same of each held-out row among those of the table, shape (n,)


def coded(
    sides: Sequence[pd.DataFrame], schema: Schema, further: Sequence[np.ndarray] = ()
) -> tuple[list[np.ndarray], np.ndarray]:
    """Codes (n, d) of every table, made blind to which table a row is from, and which features are categories."""
    features, categories = [], []
    lines: dict[str, np.ndarray] = {}
    for name in sorted(schema.learned):
        column = schema.columns[name]
        is_category = column.is_categorical
        if column.is_ordered:
            known, is_category = pd.Index(column.categories, dtype=object), False
            made_features = [_cut(np.concatenate([_ranks(side[name], known) for side in sides]))]
        elif is_category:
            made_features = [_levels(pd.concat([side[name].astype(object) for side in sides], ignore_index=True))]
        else:
            lines[name] = np.concatenate([column.positions(side[name]) for side in sides])
            made_features = _of_line(lines[name], column)
        made_features = [codes for codes in made_features if (codes != codes[0]).any()]
        features += made_features
        categories += [is_category] * len(made_features)
    made_features = [_cut(values) for values in (*_between(lines, schema, len(sides[0])), *further)]
    made_features = [codes for codes in made_features if (codes != codes[0]).any()]
    features += made_features
    categories += [False] * len(made_features)
    n_rows = sum(len(side) for side in sides)
    stacked = np.column_stack(features) if features else np.zeros((n_rows, 0), dtype=np.uint8)
    ends = np.cumsum([len(side) for side in sides])[:-1]
    return np.split(stacked, ends), np.array(categories, dtype=bool)


def _levels(values: pd.Series) -> np.ndarray:
    """A code for each value: the most frequent level is 1, missing is 0; shape (len(values),), uint8."""
    counts = values.dropna().value_counts().sort_index().sort_values(ascending=False, kind="stable")
    codes = counts.index[:MAX_LEVELS].get_indexer(pd.Index(values))
    codes = np.where(codes < 0, MAX_LEVELS, codes) + 1
    return np.where(values.isna().to_numpy(dtype=bool), 0, codes).astype(np.uint8)


def _ranks(values: pd.Series, known: pd.Index) -> np.ndarray:
    """The place of each ordered category in its list, past the last where unlisted, NaN where missing; shape (n,)."""
    places = known.get_indexer(pd.Index(values.astype(object)))
    return np.where(values.isna().to_numpy(dtype=bool), np.nan, np.where(places < 0, len(known), places))


def _of_line(values: np.ndarray, column: Any) -> list[np.ndarray]:
    """Codes of each number or time: its place, and its digits unless its place tells them; shape (len(values),)."""
    if not column.is_time:
        values = _as_written(values)
    rank = _cut(values)
    if len(np.unique(values[~np.isnan(values)])) <= N_EDGES:
        return [rank]
    if column.is_date:
        further = [values % 7]
    elif column.is_time:
        further = [values // DAY % 7, values % DAY, _finest(values, [1000, 10**6, 60 * 10**6, 3600 * 10**6])]
    else:
        size = np.abs(values)
        further = [_resolution(values), np.round(size % 1.0, MAX_DIGITS), np.floor(size) % 100.0]
    return [rank, *(codes for codes in map(_cut, further) if not np.array_equal(codes, rank))]


def _between(lines: dict[str, np.ndarray], schema: Schema, n_real: int) -> list[np.ndarray]:
    """The days between times, differences and ratios of numbers that hang together in real rows; shape (n,) each."""
    days = {
        name: values / (1 if schema.columns[name].is_date else DAY)
        for name, values in lines.items()
        if schema.columns[name].is_time
    }
    gaps = [later - earlier for earlier, later in list(itertools.combinations(days.values(), 2))[:MAX_PAIRS]]
    numbers = [_as_written(values) for name, values in lines.items() if name not in days] + gaps
    with np.errstate(all="ignore"):  # numbers at the ends of float64, and logarithms of what has none
        logs = [np.log(np.where(values > 0, values, np.nan)) for values in numbers]
        pairs = dict.fromkeys([*_equal(numbers, n_real), *_related(numbers, n_real, MAX_PAIRS)])
        differences = [np.round(numbers[i] - numbers[j], MAX_DIGITS) for i, j in list(pairs)[:MAX_PAIRS]]
        ratios = [np.exp(logs[i] - logs[j]) for i, j in _related(logs, n_real, MAX_RATIOS)]
    return [*gaps, *differences, *ratios]


def _equal(numbers: list[np.ndarray], n_real: int) -> list[tuple[int, int]]:
    """The pairs that are equal, and not zero, in many real rows: a payment is last month's bill in some rows only."""
    real = [np.where(values[:n_real] == 0, np.nan, values[:n_real]) for values in numbers]
    shares = {(i, j): np.mean(real[i] == real[j]) for i, j in itertools.combinations(range(len(real)), 2)}
    return sorted((pair for pair in shares if shares[pair] >= OFTEN), key=lambda pair: -shares[pair])[: MAX_PAIRS // 2]


def _related(numbers: list[np.ndarray], n_real: int, most: int) -> list[tuple[int, int]]:
    """The pairs whose difference is spread least in real rows, most of which have both."""
    real = [values[:n_real] for values in numbers]
    spreads, shares = [_spread(values) for values in real], {}
    for i, j in itertools.combinations(range(len(real)), 2):
        difference = real[i] - real[j]
        if np.isnan(difference).mean() < 0.5:
            shares[i, j] = _spread(difference) / max(spreads[i], spreads[j], 1e-300)
    return sorted((pair for pair in shares if shares[pair] < RELATED), key=shares.__getitem__)[:most]


def _spread(values: np.ndarray) -> float:
    """The mean distance from the median of the known values."""
    known = values[~np.isnan(values)]
    return float(np.abs(known - np.median(known)).mean()) if len(known) else np.inf


def _cut(values: np.ndarray) -> np.ndarray:
    """A code for each number, ascending; missing is 0; shape (len(values),), uint8."""
    missing = np.isnan(values)
    places, counts = np.unique(values[~missing], return_counts=True)
    if len(places) > N_EDGES:
        # A value that many rows share has a code of its own, and leaves the other codes to the other values.
        weights = np.cumsum(np.minimum(counts, counts.sum() / N_EDGES))
        places = places[np.unique(np.searchsorted(weights, np.linspace(weights[0], weights[-1], N_EDGES)))]
    return np.where(missing, 0, np.searchsorted(places, values, "right") + 1).astype(np.uint8)


def _as_written(values: np.ndarray) -> np.ndarray:
    """Numbers of single precision as the shortest decimal number that they stand for, all others as they are.

    >>> _as_written(np.array([np.float32(0.1), 0.25, 3.0, 1 / 3])).tolist()
    [0.1, 0.25, 3.0, 0.3333333333333333]
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    short = (single == values) & (values != np.round(values)) & np.isfinite(single)
    distinct, places = np.unique(single[short], return_inverse=True)
    written = values.copy()
    written[short] = distinct.astype(str).astype(np.float64)[places]
    return written


def _resolution(values: np.ndarray) -> np.ndarray:
    """The largest power of ten that each number is a multiple of, as an exponent; shape (len(values),).

    >>> _resolution(np.array([1200.0, 7.0, 2.25, np.nan])).tolist()
    [2.0, 0.0, -2.0, nan]
    """
    exponents = np.where(np.isnan(values), np.nan, -MAX_DIGITS - 1.0)
    for exponent in range(-MAX_DIGITS, MAX_DIGITS + 1):
        steps = values / 10.0**exponent if exponent >= 0 else values * 10.0**-exponent
        with np.errstate(invalid="ignore"):  # a number too large for so many digits has no distance to itself
            near = np.abs(steps - np.round(steps)) <= np.maximum(10.0**-MAX_DIGITS, ROUNDING * np.abs(steps))
        exponents[near] = exponent
    return exponents


def _finest(values: np.ndarray, units: list[int]) -> np.ndarray:
    """Number of ascending units that each time is a multiple of; shape (len(values),)."""
    return np.where(np.isnan(values), np.nan, sum((values % unit == 0).astype(np.float64) for unit in units))


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
    held_out: tuple[np.ndarray, np.ndarray],
    table: tuple[np.ndarray, np.ndarray],
    categories: np.ndarray,
    n_folds: int = N_FOLDS,
) -> Skill:
    """Cross-fitted skill of a classifier that tells a table's rows from held-out ones; *Sensitive* codes, and units."""
    # DEVIATES: the area under the curve, not accuracy, which throws away by how much rows are told apart; and every row
    # is scored in its turn, where Lopez-Paz and Oquab score one half.
    codes = np.concatenate([held_out[0], table[0]])
    fold_of = np.concatenate([folds(held_out[1]), folds(table[1])])
    labels = np.repeat([0, 1], [len(held_out[0]), len(table[0])])
    centered, aucs = np.zeros(len(labels)), np.empty(n_folds)
    for fold in range(n_folds):
        inside = fold_of == fold
        predicted = scores((codes[~inside], labels[~inside]), codes[inside], categories)
        positive = labels[inside] == 1
        wins, losses = placements(predicted[positive], predicted[~positive])
        aucs[fold] = wins.mean()
        centered[inside & (labels == 1)] = wins - aucs[fold]
        centered[inside & (labels == 0)] = losses - aucs[fold]
    return Skill(float(aucs.mean()), centered[labels == 1], centered[labels == 0])


def scores(learned: tuple[np.ndarray, np.ndarray], asked: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Scores of the rows `asked` (m, d) by gradient boosting on *Sensitive* codes and labels; shape (m,)."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if asked.shape[1] == 0:
        return np.zeros(len(asked))
    model = HistGradientBoostingClassifier(categorical_features=categories, early_stopping=False, random_state=0)
    return np.asarray(model.fit(*learned).decision_function(asked))
