"""Identifiers that rise with a time or another column, or with the rows."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from synth.infer import numeric
from synth.infer.facts import ColumnFacts
from synth.schema import Schema
from synth.schema.kinds import Column

LEAST_ROWS, LEAST_RISES = 20, 5  # rows, and rises or rows of each value
BROKEN, ALMOST = 0.005, 0.99
"""Share of neighbors that may fall, and the rank correlation that says the same of many values."""
MOST = 4  # columns that one identifier rises with: year, month, day and hour


def with_order(schema: Schema, rows: pd.DataFrame, facts: Mapping[str, ColumnFacts]) -> dict[str, Column]:
    """The kept identifiers of a schema that rise with other columns or with the rows, saying so.
    `rows`: *Sensitive*. Canonical.
    """
    keys = {
        name: column.order_keys(rows[name])
        for name, column in schema.columns.items()
        if name in rows and (column.is_line or column.is_ordered) and not column.is_weight
    }
    named: dict[str, Column] = {}
    for name, column in schema.columns.items():
        about = facts[name]
        if column.is_whole and not column.has_own_texts and about.unique and not about.missing and about.named_counter:
            column = numeric.identifier(about, rows[name].to_numpy(dtype=np.int64))
        if column.is_identifier and not column.drop and name in rows:
            others = {other: values for other, values in keys.items() if other != name}
            if (rising := _rising(column, rows[name], others, about)) is not None:
                named[name] = rising
    return named


def _rising(column: Column, series: pd.Series, keys: Mapping[str, np.ndarray], about: ColumnFacts) -> Column | None:
    present = series.notna().to_numpy()
    values, first, owner = np.unique(series[present].to_numpy(), return_index=True, return_inverse=True)
    if len(values) < LEAST_ROWS:
        return None
    each = {}
    for other, positions in keys.items():
        least = np.full(len(values), np.inf)
        np.fmin.at(least, owner, positions[present])
        each[other] = np.where(np.isinf(least), np.nan, least)
    names = _columns(each)
    if not names and not _follows(first.astype(float), np.zeros(len(first))):
        return None
    consecutive = column.bounds is not None and values[-1] - values[0] == len(values) - 1 and about.unique
    return column.model_copy(update={"rises_with": names, "consecutive": bool(consecutive)})


def _columns(keys: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Columns that never fall from one identifier to the next, within equal values of those before; ids ascend."""
    names: list[str] = []
    groups = np.zeros(len(next(iter(keys.values()), ())), dtype=np.int64)
    while len(names) < MOST:
        rising = [name for name, values in keys.items() if name not in names and _follows(values, groups)]
        if not rising:
            break
        codes = {name: np.unique(np.nan_to_num(keys[name], nan=-np.inf), return_inverse=True)[1] for name in rising}
        names.append(max(rising, key=lambda name: codes[name].max()))
        groups = np.unique(groups * len(groups) + codes[names[-1]], return_inverse=True)[1]
    return tuple(names)


def _follows(values: np.ndarray, groups: np.ndarray) -> bool:
    """True if values do not fall along the rows, where their group stays the same."""
    step = np.diff(values)[np.diff(groups) == 0]
    step = step[~np.isnan(step)]
    rises, falls = int((step > 0).sum()), int((step < 0).sum())
    if len(step) < LEAST_ROWS / 2 or rises == 0:
        return False
    known = ~np.isnan(values)
    counts = np.sort(np.unique(values[known], return_counts=True)[1])
    if falls <= BROKEN * (rises + falls):  # a few values may be in order by chance
        return bool(rises >= LEAST_RISES or counts[0] >= LEAST_RISES)
    whole = groups.max() == 0 and known.mean() > 1 - BROKEN
    ranks = pd.Series(values[known]).rank().to_numpy()
    return bool(whole and np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] >= ALMOST)
