"""Inequalities that all rows keep: one number, or one time, never above another."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from synth.columns import Column, DateColumn, DatetimeColumn, IntegerColumn, RealColumn
from synth.constraints import Inequality
from synth.domain import line
from synth.domain.lawfulness import on_one_line
from synth.infer.constraints.evidence import ENOUGH, percent
from synth.schema import Schema

LEAST_BROKEN = 0.01
"""Share of shuffled rows that would break an inequality: below it, the bounds nearly say it already."""
_NUMBERS = (IntegerColumn, RealColumn)


def orders(table: pd.DataFrame, schema: Schema, among: Sequence[str], n_units: int) -> list[Inequality]:
    """The inequalities, without those that follow from two others.

    Args:
        table: *Sensitive*. Conforming to the schema.
        schema: names the columns.
        among: the columns to look at.
        n_units: rows, or entities where rows have one.
    """
    found: dict[tuple[str, str], float] = {}
    for names in _alike({name: schema.columns[name] for name in among}):
        places = {name: on_one_line(line.positions(table[name], schema.columns[name]), schema.columns[name])  # type: ignore[arg-type]
                  for name in names}  # fmt: skip
        for low, high in itertools.permutations(names, 2):
            share = _broken_by_chance(places[low], places[high])
            if share is not None and share * n_units >= ENOUGH:
                found[low, high] = share
    return [_inequality(low, high, share) for (low, high), share in found.items() if not _follows(low, high, found)]


def _alike(kept: dict[str, Column]) -> list[list[str]]:
    """Columns that can be compared: numbers, times with a zone, times without."""
    times = {name: column for name, column in kept.items() if isinstance(column, DateColumn | DatetimeColumn)}
    zoned = [name for name, column in times.items() if getattr(column, "timezone", None) is not None]
    return [
        [name for name, column in kept.items() if isinstance(column, _NUMBERS)],
        zoned,
        [name for name in times if name not in zoned],
    ]


def _broken_by_chance(low: np.ndarray, high: np.ndarray) -> float | None:
    """The share of shuffled rows in which `low` is above `high`; none where a row has it so, or it says nothing."""
    if np.any(low > high):  # false where either is missing
        return None
    both = ~(np.isnan(low) | np.isnan(high))
    n = int(both.sum())
    if n == 0 or np.array_equal(low[both], high[both]):
        return None
    share = float(np.searchsorted(np.sort(high[both]), low[both], side="left").mean()) / n
    return share if share >= LEAST_BROKEN and share * n >= ENOUGH else None


def _follows(low: str, high: str, found: dict[tuple[str, str], float]) -> bool:
    """Whether a third column lies between the two."""
    return any((low, middle) in found and (middle, high) in found for _, middle in found)


def _inequality(low: str, high: str, share: float) -> Inequality:
    reason = f"every row keeps it, and about {percent(share)} of rows with shuffled columns would not"
    return Inequality(low=low, high=high, proposed=reason)
