"""Whole rows: detection of synthetic ones among held-out ones, by gradient boosting (C2ST), and repeated ones.

Against the training rows a table of slightly changed copies would do better than real rows do: a copy falls where its
original, marked as real, was learned from. Folds hold whole entities, but equal rows may be in different folds: in a
table of few distinct rows a fold of their own would hide how often each occurs. A number also shows its digits, a time
its place in the week and in the day, and two columns that hang together their difference or ratio: a tree sees these in
no column alone. How a cell is stored shows nothing. The boosting does not stop early: where tables differ little, rows
that say when to stop say so at once.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; LeDell, Petersen, van der
Laan 2015 (the variance of a cross-fitted area under the curve).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from evaluate.estimate import Estimate, NotMeasuredError
from evaluate.fidelity.relations import left_of_rows
from evaluate.intervals import LEVEL, Rate, clustered, newcombe, placements
from evaluate.metrics import KEPT, THREE, Metric
from evaluate.sampling import Side, entity_codes, shuffle_columns
from evaluate.tables import MetricResult, Tables
from evaluate.text import listed
from synth.row_hash import drawn_order
from synth.schema import Schema
from synth.schema.kinds.dates import DAY
from synth.split import row_keys

AUC, EXCESS, REPEATS = "joint.c2st.auc", "joint.c2st.excess", "joint.repeats.excess"
METRICS = (
    Metric(AUC, "lower", "Told from real rows, AUC", "How well gradient boosting tells synthetic rows from held-out "
           "ones by their values, digits and differences (C2ST); 0.5 is a coin.", key=True,
           describes="the more rows, the better a difference is seen; name 'joint.c2st.excess'"),
    Metric(EXCESS, "lower", "Told from real rows beyond noise",
           "The same AUC minus that of training rows against held-out ones.", counted=THREE),
    Metric(REPEATS, "lower", "Repeated rows beyond real", "Share of synthetic rows that stand in the table more than "
           "once, minus that among as many training rows.", counted=KEPT, by="fidelity.repeats"),
)  # fmt: skip

MAX_ROWS = 5_000  # Rows of each table that are compared at most
TWICE = 2.0
"""Factor of cross-fitting on the variance of an area under the curve.

The difference between two parts of the rows counts where one is learned from and the other scored, and once more where
it is the other way round. For the area of a linear score under no difference between the tables the factor is 2; in
simulations with boosting it is 1.6 to 2.2 on some hundred rows, and falls towards 1, the value of LeDell et al., where
rows are many and the difference is large. Intervals are on the wide side there.
"""
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


def measure(tables: Tables) -> MetricResult:
    """The area under the curve of a classifier, and its excess over that of real rows against real ones."""
    schema, (train, fresh, synthetic, shuffled) = tables.schema, sampled_rows(tables)
    sides = (fresh, synthetic, train, shuffled)
    units = [np.asarray(pd.factorize(entity_codes(rows, schema))[0]) for rows in sides]
    if min(int(unit.max()) + 1 for unit in units[:3]) < MIN_UNITS:
        raise NotMeasuredError(f"it needs at least {MIN_UNITS} rows (or entities) of each table")
    codes, categories = coded(sides, schema, left_of_rows(sides, tables))
    # Of shuffled columns one fold is enough: their number is a landmark, and has no interval.
    offered, real, floor = (
        skill((codes[0], units[0]), (code, unit), categories, n_folds)
        for code, unit, n_folds in zip(codes[1:], units[1:], (N_FOLDS, N_FOLDS, 1), strict=True)
    )
    all_equal = "All rows of all tables are equal: there is nothing to tell them by."
    note = "0.5 is a coin." if len(categories) else all_equal
    if schema.unlearned:
        note = f"Without the columns {listed(schema.unlearned)}. {note}"
    n, excess = len(train), offered.auc - real.auc
    low, high = _around(offered.auc, (0.0, 1.0), (offered.losses, units[0]), (offered.wins, units[1]))
    auc = Estimate(AUC, offered.auc, n, "lower", (), low, high, real.auc, floor.auc, note)
    parts = ((offered.losses - real.losses, units[0]), (offered.wins, units[1]), (real.wins, units[2]))
    low, high = _around(excess, (-1.0, 1.0), *parts)
    note = "The AUC minus that of training rows."
    return MetricResult((auc, Estimate(EXCESS, excess, n, "lower", (), low, high, 0.0, floor.auc - real.auc, note)))


def _around(value: float, bounds: tuple[float, float], *parts: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """The interval of an area, or of a difference of two, from what each row adds to it and the unit of each."""
    variance = 0.0
    for added, units in parts:
        sums = np.bincount(units, added)
        variance += float(sums @ sums) / len(added) ** 2 * len(sums) / (len(sums) - 1)
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * float(np.sqrt(TWICE * variance))
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def sampled_rows(tables: Tables) -> tuple[pd.DataFrame, ...]:
    """Equally many training rows, rows of the holdout, synthetic rows and training rows with each column shuffled, by
    the seed of an evaluation; they do not depend on the order of rows or columns. *Sensitive*.

    Synthetic and training rows are drawn by one seed: a table that equals train gives the sample that train gives.
    Shuffled rows are made of training rows that are not in the sample, as far as there are any.
    """
    names = sorted({*tables.schema.learned, *filter(None, [tables.schema.entity])})
    train, synthetic, holdout = (frame[names] for frame in (tables.train, tables.synthetic, tables.holdout))
    n = min(len(train), len(synthetic), len(holdout), MAX_ROWS)

    def drawn(frame: pd.DataFrame, seed: int, rows: slice) -> pd.DataFrame:
        return frame.iloc[drawn_order(row_keys(frame, names), seed)[rows]].reset_index(drop=True)

    seed, first = 2 * tables.seed, slice(n)
    shuffled = shuffle_columns(drawn(train, seed, slice(-n, None)), np.random.default_rng([tables.seed, 8]))
    return drawn(train, seed, first), drawn(holdout, seed + 1, first), drawn(synthetic, seed, first), shuffled


def repeated_rows(tables: Tables) -> MetricResult:
    """The share of rows with an equal one in their table: of as many synthetic and training rows, as the share grows
    with their number. Rows that are equal are one piece of evidence.
    """
    names = sorted(tables.schema.learned)
    if not names:
        raise NotMeasuredError("the schema has no column that is learned")

    def share(side: Side, n: int) -> Rate:
        keys = row_keys(getattr(tables, side).iloc[tables.order(side)[:n]], names)
        _, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return clustered(counts[codes] > 1, codes)

    n_train = len(tables.train)
    n, n_fresh = min(n_train, len(tables.synthetic)), min(n_train, len(tables.holdout))
    train, synthetic = share("train", n), share("synthetic", n)
    value, low, high = newcombe(synthetic, train)
    fresh = share("holdout", n_fresh)[0] - share("train", n_fresh)[0]
    estimate = Estimate(
        REPEATS, value, n, "lower", low=low, high=high, reference=fresh, floor=share("shuffled", n)[0] - train[0],
        note=f"Of {n:,} synthetic rows {synthetic[0]:.1%} have an equal one, of as many training rows {train[0]:.1%}.",
    )  # fmt: skip
    return MetricResult((estimate,))


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
    features: list[tuple[np.ndarray, bool]] = []
    lines: dict[str, np.ndarray] = {}
    for name in sorted(schema.learned):
        column = schema.columns[name]
        if column.is_ordered:
            known = pd.Index(column.categories, dtype=object)
            features.append((_cut(np.concatenate([_ranks(side[name], known) for side in sides])), False))
        elif column.is_categorical:
            values = pd.concat([side[name].astype(object) for side in sides], ignore_index=True)
            features.append((_levels(values), True))
        else:
            lines[name] = np.concatenate([column.positions(side[name]) for side in sides])
            features += [(codes, False) for codes in _of_line(lines[name], column)]
    features += [(_cut(values), False) for values in (*_between(lines, schema, len(sides[0])), *further)]
    telling = [(codes, is_category) for codes, is_category in features if (codes != codes[0]).any()]
    empty = np.zeros((sum(map(len, sides)), 0), dtype=np.uint8)
    stacked = np.column_stack([empty, *(codes for codes, _ in telling)])
    ends = np.cumsum([len(side) for side in sides])[:-1]
    return np.split(stacked, ends), np.array([is_category for _, is_category in telling], dtype=bool)


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
