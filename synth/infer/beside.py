"""Values that stand far off the line for something else: 9999999, -999, 9999-12-31."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from synth.infer.facts import ColumnFacts
from synth.table.arrow import as_objects
from synth.table.cast import cast
from synth.table.chunk import as_series

FEWEST_ROWS, MOST, LEAST_OTHERS = 3, 5, 10
"""Rows of each such value at least, such values at either end at most, and different ordinary ones at least."""
_REPEATED = re.compile(r"-?(([1789])\2+(\.\2+)?|10{6,}|2147483647|2147483648)(\.0)?")
_ENDS_OF_DAYS = {(1, 1), (1, 2), (12, 30), (12, 31), (6, 6), (4, 11)}  # of years, and of what computers count days in


def is_sentinel(value: float) -> bool:
    """True if a number looks like one that stands for something else.

    >>> is_sentinel(-999.0), is_sentinel(99.99), is_sentinel(120000.0)
    (True, True, False)
    """
    return _REPEATED.fullmatch(repr(float(value))) is not None


def sentinels(distinct: np.ndarray, counts: np.ndarray, fits: Callable[[Any], bool]) -> tuple[int, int]:
    """How many values at either end are beside the line: in several rows, and farther off than all others reach.
    `distinct`: *Sensitive*. Positions, ascending.

    >>> sentinels(np.array([*range(18, 90), 999.0]), np.array([9] * 73), is_sentinel)
    (0, 1)
    """
    ends = [0, 0]
    for side in (0, 1, 0):
        kept = slice(ends[0], len(distinct) - ends[1])
        line, rows = (distinct[kept], counts[kept]) if side == 0 else (-distinct[kept][::-1], counts[kept][::-1])
        for n in range(1, min(MOST, len(line) - LEAST_OTHERS) + 1):
            is_far = line[n] - line[n - 1] > line[-1] - line[n] and rows[:n].min() >= FEWEST_ROWS
            if is_far and all(map(fits, line[:n] if side == 0 else -line[:n])):
                ends[side] += n
                break
    return ends[0], ends[1]


def set_apart(column: Any, about: ColumnFacts) -> Any:
    """A column of days or times, those beside the line apart from all others."""
    codes, cells = pd.factorize(about.per_row)
    if about.raw.form == "time":
        line = cells.astype("datetime64[us]").astype(np.int64)
    else:
        line = column.instants(as_series(cast(as_objects(cells), column)[0], column)).astype(np.int64)
    order = np.argsort(line, kind="stable")

    def fits(micros: float) -> bool:
        moment = np.datetime64(int(micros), "us").item()
        return isinstance(moment, dt.datetime) and (moment.year >= 2070 or (moment.month, moment.day) in _ENDS_OF_DAYS)

    n_below, n_above = sentinels(line[order], np.bincount(codes)[order], fits)
    if not (n_below or n_above):
        return column
    known = [column.plain(moment) for moment in line[order].astype("datetime64[us]").tolist()]
    end = len(known) - n_above
    parts = {"below": tuple(known[:n_below]), "above": tuple(known[end:]), "bounds": (known[n_below], known[end - 1])}
    return column.model_copy(update=parts)
