"""Constraint checks: which rows break a constraint, and columns computed by a formula.

Everything is compared as float64: whole numbers beyond 2^53 only as exactly as that. Frames are in canonical form, and
*Sensitive* where they are real; `before` is the row before each, of the same entity, `None` where there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Constraint, Dependency, FixedCombinations, Formula, Inequality, Steps, Unique
from synth.constraints.expression import UNITS, Unit, dates, evaluate, names
from synth.constraints.kinds import numbers_of
from synth.domain import grid
from synth.schema.kinds import Column
from synth.schema.kinds.moments import DAY

NOISE = 1e-9  # relative difference that is an artifact of floating point
Columns = Mapping[str, Column]


def broken(
    frame: pd.DataFrame, constraint: Constraint, columns: Columns, before: pd.DataFrame | None = None
) -> np.ndarray:
    """True for rows that break a constraint; shape (n,). Of rows that repeat each other, all of them do."""
    if isinstance(constraint, Inequality):
        return _out_of_order(frame, constraint, columns)
    if isinstance(constraint, FixedCombinations):
        return _unlisted(frame, constraint, columns)
    if isinstance(constraint, Unique):
        return repeated(frame, constraint, columns)
    if isinstance(constraint, Steps):
        return _out_of_step(frame, constraint, columns, before)
    return _miscalculated(frame, constraint, columns, before)


def repeated(frame: pd.DataFrame, constraint: Unique, columns: Columns) -> np.ndarray:
    """True for rows that repeat the values of another row; shape (n,). A row where one is missing repeats nothing."""
    known = _told_apart(frame, constraint, columns)
    missing = known.isna().to_numpy().any(axis=1)
    return np.asarray(known.duplicated(keep=False).to_numpy() & ~missing)


def key_hashes(frame: pd.DataFrame, constraint: Unique, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """For each row 64 bits that equal values of a key share, uint64, and whether its key is whole; shape (n,) both."""
    known = _told_apart(frame, constraint, columns)
    for name in known.select_dtypes(np.float64):
        known[name] += 0.0  # zero has a sign, which no comparison sees
    whole = np.asarray(known.notna().to_numpy().all(axis=1))
    return pd.util.hash_pandas_object(known, index=False).to_numpy(), whole


def _told_apart(frame: pd.DataFrame, constraint: Unique, columns: Columns) -> pd.DataFrame:
    """The columns of a key in a form in which equal values are equal: one instant, whatever its offset."""
    times = [name for name in constraint.columns if columns[name].is_time]
    known = frame[list(constraint.columns)].reset_index(drop=True)
    return known.assign(**{name: columns[name].instants(frame[name]) for name in times})


def compute(
    frame: pd.DataFrame, formula: Formula, columns: Columns, before: pd.DataFrame | None = None
) -> tuple[pd.Series, np.ndarray]:
    """A formula's column in canonical form, and which rows it is not lawful in; shape (n,) both."""
    column: Any = columns[formula.column]
    exact, unit = exact_positions(frame, formula, column, columns, before), column.unit
    return settled(exact if unit is None else np.rint(grid.ratio(exact, unit)), column)


def settled(computed: np.ndarray, column: Any) -> tuple[pd.Series, np.ndarray]:
    """Computed values in canonical form, and which rows they are not lawful in; shape (n,) both.
    `computed`: whole steps of the precision, where there is one, which float64 compares exactly; NaN where missing.
    """
    missing, unit, (low, high) = np.isnan(computed), column.unit, column.span
    if unit is None:  # with room for noise, which is cut off later
        low, high = low - _slack(low), high + _slack(high)
    else:
        low, high = np.ceil(grid.ratio(np.array(low), unit)), np.floor(grid.ratio(np.array(high), unit))
    outside = (computed < low) | (computed > high)
    inside = np.clip(np.where(missing, 0.0, computed), max(low, -grid.LARGEST), min(high, grid.LARGEST))
    series = column.values(inside if unit is None else inside.astype(np.int64), missing)
    return series, outside | (missing & (not column.missing))


def determined(determinant: pd.Series, dependency: Dependency, columns: Columns) -> tuple[pd.Series, np.ndarray]:
    """The column that another one determines, in canonical form, and which rows say nothing of it; shape (n,) both."""
    known = canonical(tuple(dependency.mapping), columns[dependency.determinant])
    rows = pd.Index(known.array).get_indexer(pd.Index(determinant.array))
    values = canonical(tuple(dependency.mapping.values()), columns[dependency.dependent])
    return values.take(np.maximum(rows, 0)).reset_index(drop=True), rows < 0


def compares_days(constraint: Inequality, columns: Columns) -> bool:
    """True if an inequality is about days: a date has no time, so that a time beside it counts as its day."""
    return constraint.by_day or any(columns[name].is_date for name in constraint.columns)


def on_one_line(values: np.ndarray, column: Column, *, by_day: bool = False) -> np.ndarray:
    """Positions of a column on the line that it shares with every column it can be compared to."""
    if column.is_date:
        return np.asarray(values * DAY)
    return np.asarray(np.floor(values / DAY) * DAY if by_day else values)


def canonical(values: Sequence[Any], column: Column) -> pd.Series:
    """The values of one column in listed combinations, as a canonical column."""
    if column.is_boolean:
        return pd.Series(list(values), dtype="boolean")
    if column.is_number and not column.is_whole:
        return pd.Series(list(values), dtype=np.float64)
    whole = all(isinstance(value, int) for value in values)
    return pd.Series(list(values), dtype="Int64" if whole else object)


def _out_of_order(frame: pd.DataFrame, constraint: Inequality, columns: Columns) -> np.ndarray:
    by_day, compared = compares_days(constraint, columns), [(n, columns[n]) for n in constraint.columns]
    low, high = (on_one_line(each.ordinary(frame[name]), each, by_day=by_day) for name, each in compared)
    # Comparing with NaN is false: the constraint holds where either is missing.
    return np.asarray(low >= high if constraint.strict else low > high)


def _unlisted(frame: pd.DataFrame, constraint: FixedCombinations, columns: Columns) -> np.ndarray:
    rows, listed = [], []
    missing = np.zeros(len(frame), dtype=bool)
    for index, name in enumerate(constraint.columns):
        known = canonical([combination[index] for combination in constraint.combinations], columns[name])
        distinct = pd.Index(known.unique())
        rows.append(distinct.get_indexer(pd.Index(frame[name].array)))
        listed.append(distinct.get_indexer(pd.Index(known.array)))
        missing |= frame[name].isna().to_numpy()
    lawful = pd.MultiIndex.from_arrays(rows).isin(pd.MultiIndex.from_arrays(listed))
    return np.asarray(~lawful & ~missing)


def _out_of_step(frame: pd.DataFrame, steps: Steps, columns: Columns, before: pd.DataFrame | None) -> np.ndarray:
    if before is None:
        return np.zeros(len(frame), dtype=bool)
    levels = pd.Index(columns[steps.column].levels)
    earlier, now = (levels.get_indexer(pd.Index(rows[steps.column].array)) for rows in (before, frame))
    is_allowed = np.zeros((len(levels) + 1, len(levels) + 1), dtype=bool)
    is_allowed[-1] = is_allowed[:, -1] = True  # where one is missing
    pairs = steps.allowed(columns[steps.column].levels)
    if pairs:
        is_allowed[tuple(levels.get_indexer(pd.Index(side)) for side in zip(*pairs, strict=True))] = True
    return np.asarray(~is_allowed[earlier, now])


def _miscalculated(
    frame: pd.DataFrame, formula: Formula, columns: Columns, before: pd.DataFrame | None
) -> np.ndarray:  # fmt: skip
    column: Any = columns[formula.column]
    exact, stated = exact_positions(frame, formula, column, columns, before), column.positions(frame[formula.column])
    unit = column.unit  # half a step, as ties may go either way
    slack = _slack(exact) if unit is None else unit / 2 * (1 + 1e-6) + 4 * np.spacing(np.abs(exact))
    differs = np.abs(stated - exact) > slack
    differs = np.where(np.isnan(stated) | np.isnan(exact), np.isnan(stated) != np.isnan(exact), differs)
    return np.asarray(differs & ~column.is_beside(frame[formula.column]))


def exact_positions(
    frame: pd.DataFrame, formula: Any, column: Any, columns: Columns, before: pd.DataFrame | None = None
) -> np.ndarray:
    """The values of an expression as positions of a column, shape (n,); NaN where there are none.
    `formula`: a formula, or what a column is modeled as.
    """
    earlier = None if before is None else _values(before, names(formula.parsed, before=True), formula.unit, columns)
    now = _values(frame, formula.parents, formula.unit, columns)
    exact = np.broadcast_to(evaluate(formula.parsed, now, earlier, formula.unit), len(frame))
    return np.asarray(exact * (UNITS[formula.unit] / column.per_position) if column.is_time else exact)


def has_no_day(frame: pd.DataFrame, formula: Any, columns: Columns) -> np.ndarray:
    """True for rows in which an expression dates a day that the calendar does not have; shape (n,)."""
    impossible = np.zeros(len(frame), dtype=bool)
    for each in dates(formula.parsed) if formula.parsed is not None else ():
        now = _values(frame, names(each), formula.unit, columns)
        parts = (evaluate(part, now, None, formula.unit) for part in each.arguments)
        is_whole = np.isfinite(sum(parts, np.zeros(len(frame))))
        impossible |= is_whole & np.isnan(evaluate(each, now, None, formula.unit))
    return impossible


def _values(frame: pd.DataFrame, named: Iterable[str], unit: Unit | None, columns: Columns) -> dict[str, np.ndarray]:
    """Columns as an expression counts them: numbers, times in its unit, categories that stand for numbers."""
    values: dict[str, np.ndarray] = {}
    for name in named:
        column: Any = columns[name]
        if column.is_line:
            scale = column.per_position / UNITS[unit or "day"] if column.is_time else 1.0
            values[name] = column.ordinary(frame[name]) * scale
        else:
            values[name] = frame[name].map(numbers_of(column.levels) or {}).to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _slack(values: Any) -> Any:
    return NOISE * np.maximum(1.0, np.abs(values))
