"""Two-sample tests of the holdout against the training rows: whether both can be samples of one population.

All columns together: a classifier learns from a half of the rows and scores the other one. If there is one population,
the labels of these are exchangeable. The area under its curve then has the variance of Mann and Whitney, whatever it
has learned. Column by column: Kolmogorov and Smirnov's test of numbers and times, chi-square of categories and of what
is missing, adjusted by Holm and Bonferroni. Where rows have entities, one row of each counts.

Source: Lopez-Paz and Oquab 2017, arXiv:1610.06545; Mann and Whitney 1947; Holm 1979.
"""

import numpy as np
import pandas as pd
from scipy import special, stats

from evaluate.fidelity.joint_classifier import N_JUDGED, coded, scores
from evaluate.fidelity.joint_samples import MIN_UNITS, Side
from evaluate.intervals import LEVEL as CONFIDENCE
from evaluate.intervals import placements
from evaluate.ranking.holm import holm
from evaluate.sampling import one_per_entity
from evaluate.shift import LEVEL, Shift, ShiftedColumn
from evaluate.tables import Real
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import line
from synth.schema import Schema

MAX_ROWS = 10_000
"""Rows of each side that the classifier is given at most."""
LEAST_EXPECTED = 10.0
"""Rows that a level has on the smaller side on average; rarer ones count as one."""
POWER = 0.8
"""Of the smallest area that `detectable` names."""


def shift_of(real: Real) -> Shift:
    """The tests of one real table. The same rows and seed give the same numbers.

    Args:
        real: *Sensitive*. Its rows are in a seeded random order.
    """
    train = _units(real.train, real)
    fresh, control = (_units(part, real) for part in (real.fresh, real.control))
    holdout = pd.concat([fresh, control], ignore_index=True)
    if min(len(train), len(holdout)) < MIN_UNITS:
        return Shift(untested=f"it takes at least {MIN_UNITS} rows (or entities) of each")
    auc, error, p_value = _told_apart(train, _in_turn(fresh, control), real.schema)
    least = float(special.ndtri(1 - LEVEL / 2) + special.ndtri(POWER)) * error
    half = float(special.ndtri(1 - (1 - CONFIDENCE) / 2)) * error
    return Shift(
        n_train=len(train), n_holdout=len(holdout), auc=auc, low=max(0.0, auc - half), high=min(1.0, auc + half),
        p_value=p_value, detectable=min(1.0, 0.5 + least), columns=_columns(train, holdout, real.schema),
    )  # fmt: skip


def _units(rows: pd.DataFrame, real: Real) -> pd.DataFrame:
    """One row of each entity, or the rows, as many as marginal fidelity compares."""
    return rows.iloc[one_per_entity(np.arange(len(rows)), rows, real.schema)[: real.n_rows]].reset_index(drop=True)


def _in_turn(fresh: pd.DataFrame, control: pd.DataFrame) -> pd.DataFrame:
    """The rows of both parts in turn, so that the first ones are a sample of the holdout."""
    place = np.argsort(np.concatenate([np.arange(len(fresh)), np.arange(len(control)) + 0.5]), kind="stable")
    return pd.concat([fresh, control], ignore_index=True).iloc[place].reset_index(drop=True)


def _told_apart(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema) -> tuple[float, float, float]:
    """The area under the curve, its standard error in one population, and how likely it is to be as large there."""
    parts = [rows.head(MAX_ROWS) for rows in (train, holdout)]
    codes, categories = coded([Side(rows, np.zeros((len(rows), 0)), np.arange(len(rows))) for rows in parts], schema)
    turns = np.concatenate([np.arange(len(rows)) for rows in parts])
    labels, stacked = np.repeat([0, 1], [len(rows) for rows in parts]), np.concatenate(codes)
    scored, judged = turns % 2 == 1, turns % (2 * N_JUDGED) == 0
    learned = ~scored & ~judged
    found = scores((stacked[learned], labels[learned]), (stacked[judged], labels[judged]), stacked[scored], categories)
    positive = labels[scored] == 1
    wins, _ = placements(found[positive], found[~positive])
    n, m = int(positive.sum()), int((~positive).sum())
    auc, error = float(wins.mean()), float(np.sqrt((n + m + 1) / (12 * n * m)))
    return auc, error, float(special.ndtr((0.5 - auc) / error))


def _columns(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema) -> list[ShiftedColumn]:
    """The columns that differ, the furthest first."""
    names = sorted(schema.learned)
    found = [_compared(train[name], holdout[name], schema.columns[name]) for name in names]
    p_values = holm([p_value for *_, p_value in found])
    shifted = [
        ShiftedColumn(column=name, statistic=statistic, value=value, p_value=p_value)
        for name, (statistic, value, _), p_value in zip(names, found, p_values, strict=True)
        if p_value <= LEVEL / 2
    ]
    return sorted(shifted, key=lambda one: -one.value)


def _compared(train: pd.Series, holdout: pd.Series, column: object) -> tuple[str, float, float]:
    """The statistic of one column, its value, and its p-value."""
    if isinstance(column, CategoricalColumn | BooleanColumn):
        return "V", *_chi_square(*(side.astype(object).where(side.notna(), None) for side in (train, holdout)))
    places = [line.positions(side, column) for side in (train, holdout)]  # type: ignore[arg-type]
    gone = _chi_square(*(pd.Series(np.isnan(side)) for side in places))
    there = [side[~np.isnan(side)] for side in places]
    if min(map(len, there)) == 0:
        return "V", *gone
    far = _kolmogorov_smirnov(*there)
    # Two tests of one column: the smaller of their p-values, doubled.
    if gone[1] < far[1]:
        return "V", gone[0], min(1.0, 2 * gone[1])
    return "D", far[0], min(1.0, 2 * far[1])


def _kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The largest difference of two cumulative shares, and its p-value, which ties can only raise."""
    found = stats.ks_2samp(first, second, method="asymp")
    return float(found.statistic), float(min(found.pvalue, 1.0))


def _chi_square(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Cramer's V of two samples of levels, and its p-value; rare levels count as one."""
    codes, levels = pd.factorize(pd.concat([first, second], ignore_index=True), use_na_sentinel=False)
    counts = np.stack([np.bincount(of, minlength=len(levels)) for of in np.split(codes, [len(first)])])
    expected = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum()
    order = np.argsort(-expected, kind="stable")
    # The rarest levels are one, with as many of the others as it needs to be frequent enough.
    tail = expected[order][::-1].cumsum()[::-1]
    kept = max(int(((expected[order] >= LEAST_EXPECTED) & (np.r_[tail[1:], np.inf] >= LEAST_EXPECTED)).sum()), 1)
    merged = np.column_stack([counts[:, order[:kept]], counts[:, order[kept:]].sum(axis=1)])
    merged = merged[:, merged.sum(axis=0) > 0]
    if merged.shape[1] < 2:
        return 0.0, 1.0
    statistic, p_value, *_ = stats.chi2_contingency(merged, correction=False)
    return float(np.sqrt(statistic / counts.sum())), float(p_value)
