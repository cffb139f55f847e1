"""Two-sample tests of the holdout against the training rows: whether both can be samples of one population.

A classifier learns all columns from a half of the rows and scores the other one, whose labels are exchangeable if there
is one population. Columns are tested one by one, rare values in groups of neighbors. Pairs of equal rows are counted
within strata of the target: a holdout without the twins that chance deals was cleared of them, and one with more holds
training rows. A side of which many rows repeat is also compared with the twins within either side.

All are adjusted by Holm and Bonferroni. Where rows have entities, one row of each counts.

Source: Lopez-Paz and Oquab 2017, arXiv:1610.06545; Mann and Whitney 1947; Holm 1979; Bergsma 2013 (Cramer's V less what
noise adds).
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from evaluate.fidelity.detection import MIN_UNITS, coded, scores
from evaluate.intervals import LEVEL as CONFIDENCE
from evaluate.intervals import holm, placements
from evaluate.real_facts import LEAST_AUC, LEAST_EFFECT, LEAST_TWINS, LEVEL, Shift, ShiftedColumn
from evaluate.sampling import RowHashes, one_per_entity
from evaluate.tables import Real
from synth.row_hash import ABSENT
from synth.schema import Schema

MAX_ROWS = 10_000  # Rows of each side that the classifier is given at most
LEAST_EXPECTED = 10.0  # Rows that a level has on the smaller side on average; rarer ones are grouped
POWER = 0.8  # Of the smallest area that `detectable` names


class TestResult(NamedTuple):
    statistic: Literal["D", "V"]
    value: float
    p_value: float


def shift_of(real: Real) -> Shift:
    """The tests of one real table, whose rows are in a seeded random order; the same seed, the same numbers."""
    schema = real.schema
    train, fresh, control = (_units(part, real) for part in (real.train, real.fresh, real.control))
    holdout = pd.concat([fresh, control], ignore_index=True)
    if min(len(train), len(holdout)) < MIN_UNITS:
        return Shift(untested=f"it takes at least {MIN_UNITS} rows (or entities) of each")
    # Rows of both parts in turn, so that the first ones are a sample of the holdout.
    in_turn = np.argsort(np.concatenate([np.arange(len(fresh)), np.arange(len(control)) + 0.5]), kind="stable")
    auc, error, p_value = _told_apart(train, holdout.iloc[in_turn].reset_index(drop=True), schema)
    half = float(special.ndtri(1 - (1 - CONFIDENCE) / 2)) * error
    least = max(0.5 + float(special.ndtri(1 - LEVEL / 2)) * error, LEAST_AUC + half)
    sides = real.hashes("train"), real.hashes("holdout")
    shared, units = 0.0, sides
    trained, held_out = (side.entities for side in sides)
    if trained is not None and held_out is not None:
        # Sampling rows breaks up pairs of equal ones, so that all count; but of an entity one row.
        units = RowHashes.of([train], schema), RowHashes.of([holdout], schema)
        known = np.unique(held_out[held_out != ABSENT])
        shared = float(np.isin(known, trained).mean()) if len(known) else 0.0
    columns, twins, repeats = _apart(train, holdout, counted(units[0].keys, units[1].keys, _strata(*units)), schema)
    return Shift(
        n_train=len(train), n_holdout=len(holdout), auc=auc, low=max(0.0, auc - half), high=min(1.0, auc + half),
        p_value=p_value, detectable=min(1.0, least + float(special.ndtri(POWER)) * error), columns=columns, twins=twins,
        repeats=repeats, entities=shared,
    )  # fmt: skip


def counted(train: np.ndarray, holdout: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Distinct rows by *Sensitive* keys: stratum, count in train, count in the holdout; shape (k, 3)."""
    _, first, codes = np.unique(np.concatenate([train, holdout]), return_index=True, return_inverse=True)
    _, strata = np.unique(strata, return_inverse=True)
    n = [np.bincount(side, minlength=len(first)) for side in np.split(codes, [len(train)])]
    return np.stack([strata[first], *n], axis=1)


def _units(rows: pd.DataFrame, real: Real) -> pd.DataFrame:
    """One row of each entity, or the rows, as many as marginal fidelity compares."""
    return rows.iloc[one_per_entity(np.arange(len(rows)), rows, real.schema)[: real.n_rows]].reset_index(drop=True)


def _told_apart(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema) -> tuple[float, float, float]:
    """The area under the curve, its standard error in one population, and how likely it is to be as large there."""
    parts = [rows.head(MAX_ROWS) for rows in (train, holdout)]
    codes, categories = coded(parts, schema)
    turns = np.concatenate([np.arange(len(rows)) for rows in parts])
    labels, stacked = np.repeat([0, 1], [len(rows) for rows in parts]), np.concatenate(codes)
    scored = turns % 2 == 1
    predicted = scores((stacked[~scored], labels[~scored]), stacked[scored], categories)
    positive = labels[scored] == 1
    wins, _ = placements(predicted[positive], predicted[~positive])
    n, m = int(positive.sum()), int((~positive).sum())
    auc, error = float(wins.mean()), float(np.sqrt((n + m + 1) / (12 * n * m)))
    return auc, error, float(special.ndtr((0.5 - auc) / error))


def _apart(
    train: pd.DataFrame, holdout: pd.DataFrame, counts: np.ndarray, schema: Schema
) -> tuple[list[ShiftedColumn], float, float]:
    """The columns that differ by as much as matters, the furthest first; `Shift.twins`, and `Shift.repeats`."""
    names = sorted(schema.learned)
    compared = [(name, test) for name in names for test in _compared(train[name], holdout[name], schema.columns[name])]
    surplus, chance = _repeats(counts)
    pairs = _twins(counts, repeated=surplus > 0 and chance <= LEVEL / 2), (surplus, chance)
    *p_values, of_twins, of_repeats = holm([*(test.p_value for _, test in compared), *(chance for _, chance in pairs)])
    moved: dict[str, ShiftedColumn] = {}
    for (name, test), p_value in zip(compared, p_values, strict=True):
        if p_value <= LEVEL / 2 and test.value >= LEAST_EFFECT:  # the first test of a column that says so names it
            column = ShiftedColumn(column=name, statistic=test.statistic, value=test.value, p_value=p_value)
            moved.setdefault(name, column)
    shifted = sorted(moved.values(), key=lambda column: -column.value)
    twins, repeats = (
        surplus if chance <= LEVEL / 2 and abs(surplus) >= LEAST_TWINS else 0.0
        for (surplus, _), chance in zip(pairs, (of_twins, of_repeats), strict=True)
    )
    return shifted, twins, max(repeats, 0.0)


def _repeats(counts: np.ndarray) -> tuple[float, float]:
    """Rows of the holdout that repeat another beyond what those of train make likely, as a share of its rows, and
    their p-value. `counts`: *Sensitive*. As `counted` gives them. Such rows are fewer people than they seem, and weigh
    less in a count of rare ones: a table that copied nobody looks nearer to train.

    Content that one side alone has, with two rows or more: by chance it is the holdout's as often as so many rows can
    be drawn from the holdout, of all ways to draw them from one side.
    """
    stratum, train, holdout = counts.T
    codes = np.unique(stratum, return_inverse=True)[1]
    n_kept, n_held = (np.bincount(codes, weights=side) for side in (train, holdout))
    alone = (np.maximum(train, holdout) > 1) & (np.minimum(train, holdout) == 0)
    codes, held, sizes = codes[alone], holdout[alone] > 0, (train + holdout)[alone]
    chances = special.expit(_log_ways(n_held[codes], sizes) - _log_ways(n_kept[codes], sizes))
    telling = (chances > 0) & (chances < 1)
    if not telling.any():
        return 0.0, 1.0
    held, chances, more = held[telling], chances[telling], sizes[telling] - 1
    # Repeats in the holdout tell how many there were, whether some of these are too many.
    surplus = float((more * (held - chances)).sum() / (1 - np.average(chances, weights=more)) / n_held.sum())
    return min(surplus, 1.0), _binomial(held.sum(), len(held), chances.mean())


def _log_ways(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Logarithm of n (n - 1) ... (n - k + 1), the ways to draw k of n rows; minus infinity where there are too few."""
    return np.asarray(special.gammaln(n + 1) - special.gammaln(np.maximum(n - k + 1, 0)))


def _twins(counts: np.ndarray, *, repeated: bool = False) -> tuple[float, float]:
    """Pairs of equal rows, one on either side, beyond chance, as a share of the holdout, and their p-value. `counts`:
    *Sensitive*. As `counted` gives them.

    Content that exactly two rows have is looked at. Given how many rows of a stratum are held out, all its pairs are
    on two sides by one chance. It is the same however strata were dealt. Where it is 0 or 1, a pair tells nothing.

    Pairs on two sides are compared with all pairs, then with those that are not within the holdout, and with those
    that are not within train: a side whose rows were repeated has pairs of its own. The surest of the three tells.
    """
    stratum, train, holdout = counts.T
    codes = np.unique(stratum, return_inverse=True)[1]
    n_rows, n_held = (np.bincount(codes, weights=side) for side in (train + holdout, holdout))
    n_kept, ways = n_rows - n_held, np.maximum(n_rows * (n_rows - 1), 1)
    across = 2 * n_held * n_kept / ways
    pairs = train + holdout == 2
    tests = [
        _surplus(counts, codes, pairs & seen, across / np.maximum(1 - unseen, 1e-12), (n_rows, n_held))
        for seen, unseen in (
            (pairs, np.zeros(len(ways))),
            (train > 0, n_held * (n_held - 1) / ways),
            (holdout > 0, n_kept * (n_kept - 1) / ways),
        )
    ]
    # That there are too few says nothing beside repeated rows: those of the holdout leave pairs within train to tell.
    surest = min((tests[repeated], *(test for test in tests[1:] if test[0] > 0)), key=lambda test: test[1])
    return surest[0], min(1.0, len(tests) * surest[1])


def _surplus(
    counts: np.ndarray, codes: np.ndarray, seen: np.ndarray, chances: np.ndarray, rows: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float]:
    """Pairs on two sides beyond chance among the strata `seen`, as a share of the holdout, and their p-value."""
    _, train, holdout = counts.T
    telling = seen & (chances > 0)[codes] & (chances < 1)[codes]
    codes = codes[telling]
    n_pairs, n_across = len(codes), int(((train * holdout)[telling] > 0).sum())
    if n_pairs == 0:
        return 0.0, 1.0
    chance = float(chances[codes].mean())
    # Pairs on one side tell how many were across, whether some of these are missing or too many.
    surplus = (n_across - n_pairs * chance) / (1 - chance) / rows[1].sum()
    of_strata = np.bincount(codes, minlength=len(chances))
    noise = max(1.0, _variance(*rows, of_strata) / (n_pairs * chance * (1 - chance)))
    return max(float(surplus), -1.0), _binomial(n_across / noise, n_pairs / noise, chance)


def _variance(n_rows: np.ndarray, n_held: np.ndarray, n_pairs: np.ndarray) -> float:
    """Variance of the number of pairs on two sides, summed over strata that are each dealt at random. Pairs of one
    small stratum depend on each other: of two that are all of it, either both are on two sides or neither.
    """
    rows, held_out, pairs = (counts[n_pairs > 0] for counts in (n_rows, n_held, n_pairs))
    share = 2 * held_out * (rows - held_out) / (rows * (rows - 1))
    ways = 4 * held_out * (held_out - 1) * (rows - held_out) * (rows - held_out - 1)
    both = ways / np.maximum(rows * (rows - 1) * (rows - 2) * (rows - 3), 1)
    return float((pairs * share + pairs * (pairs - 1) * both - (pairs * share) ** 2).sum())


def _binomial(count: float, n: float, chance: float) -> float:
    """Two-sided p-value of a binomial count, which need not be whole: the smaller tail twice."""
    tails = [
        float(special.betainc(hits, n - hits + 1, share)) if hits > 0 else 1.0
        for hits, share in ((count, chance), (n - count, 1 - chance))
    ]
    return min(1.0, 2 * min(tails))


def _strata(train: RowHashes, holdout: RowHashes) -> np.ndarray:
    """Strata of the target that `synth.split` deals rows within, the holdout's after those of train; zeros without."""
    if train.targets is None or holdout.targets is None:
        return np.zeros(len(train) + len(holdout))
    targets = np.concatenate([train.targets, holdout.targets])
    if targets.dtype != np.float64:
        return targets
    return np.asarray(np.ceil(np.nan_to_num(pd.Series(targets).rank(pct=True).to_numpy()) * 10))


def _compared(train: pd.Series, holdout: pd.Series, column: Any) -> Iterator[TestResult]:
    if column.is_categorical:
        yield from _of_levels(*(side.astype(object).where(side.notna(), None) for side in (train, holdout)))
        return
    places = [column.positions(side) for side in (train, holdout)]
    there = [side[~np.isnan(side)] for side in places]
    if min(map(len, there)) > 0:
        test = stats.ks_2samp(there[0], there[1], method="asymp")  # ties can only raise its p-value
        yield TestResult("D", float(test.statistic), float(min(test.pvalue, 1.0)))
        yield from _of_levels(*map(pd.Series, there))
    yield from _of_levels(*(pd.Series(np.isnan(side)) for side in places))


def _of_levels(first: pd.Series, second: pd.Series) -> Iterator[TestResult]:
    """Chi-square of two samples of levels: rare ones as one, rare ones in groups, and the furthest alone. Rare levels
    are grouped in their order, which no sample has a say in. As one they leave the test its power for frequent ones. In
    groups it sees that towns or codes of one side are not those of the other.
    """
    codes, levels = pd.factorize(pd.concat([first, second], ignore_index=True), use_na_sentinel=False)
    counts = np.stack([np.bincount(side, minlength=len(levels)) for side in np.split(codes, [len(first)])])
    order = np.argsort(levels.astype(str) if levels.dtype == object else levels, kind="stable")
    cells, n_frequent = _cells(counts[:, order])
    if cells.shape[1] < 2:
        return
    yield _chi_square(cells)
    if 0 < n_frequent < cells.shape[1] - 1:
        yield _chi_square(np.column_stack([cells[:, :n_frequent], cells[:, n_frequent:].sum(axis=1)]))
    # The cell whose share differs the most for its size, against all others, with a p-value for the choice. Binomial
    # where hypergeometric is exact: never too small a p-value, and fast.
    share, rows = cells[0].sum() / cells.sum(), cells.sum(axis=0)
    fewer, more = stats.binom.cdf(cells[0], rows, share), stats.binom.sf(cells[0] - 1, rows, share)
    p_values = np.minimum(1.0, 2 * np.minimum(fewer, more))
    level = int(p_values.argmin())
    pair = np.column_stack([cells[:, level], cells.sum(axis=1) - cells[:, level]])
    yield TestResult("V", _cramer(pair), float(min(1.0, p_values[level] * cells.shape[1])))


def _cells(counts: np.ndarray) -> tuple[np.ndarray, int]:
    """Counts of frequent levels, then of groups of rare ones, shape (2, n_cells), and the number of the former."""
    expected = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum()
    rare = expected < LEAST_EXPECTED
    # Each group is of twice as many rows, give or take one level; what is left over belongs to the last one.
    n_groups = max(1, int(expected[rare].sum() / (2 * LEAST_EXPECTED)))
    group = np.minimum((expected[rare].cumsum() / (2 * LEAST_EXPECTED)).astype(np.int64), n_groups - 1)
    grouped = np.stack([np.bincount(group, weights=side[rare], minlength=n_groups) for side in counts]).astype(np.int64)
    frequent = counts[:, ~rare]
    if expected[rare].sum() < LEAST_EXPECTED and frequent.shape[1]:
        # Too few for a cell of their own, and yet they may be all that one side has: the rarest frequent level's.
        frequent[:, expected[~rare].argmin()] += grouped.sum(axis=1)
        grouped = grouped[:, :0]
    return np.column_stack([frequent, grouped]), frequent.shape[1]


def _chi_square(counts: np.ndarray) -> TestResult:
    """Cramer's V of two samples of cells, and its p-value. Of the p-values of Pearson's statistic and of the likelihood
    ratio it is the larger. With ten rows expected, Pearson's is several times too small where a cell has too many rows.
    The other is so where one has too few, or cells are many.
    """
    p_values = [stats.chi2_contingency(counts, correction=False, lambda_=kind).pvalue for kind in (1, 0)]
    return TestResult("V", _cramer(counts), float(max(p_values)))


def _cramer(counts: np.ndarray) -> float:
    """Cramer's V as if both samples were of one size, less what noise adds on average."""
    sizes = counts.sum(axis=1, keepdims=True)
    shares = counts / sizes
    noise = (counts.shape[1] - 1) * float((1 / sizes).sum()) / 4
    squared = ((shares[0] - shares[1]) ** 2 / shares.sum(axis=0)).sum() / 2 - noise
    return float(np.sqrt(np.clip(squared, 0.0, 1.0)))
