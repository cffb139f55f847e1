"""Rows to and from the form in which they are counted: columns that are `modeled` as what is left of their formula."""

from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Dependency, Formula
from synth.domain import grid
from synth.domain.relations import compute, determined, exact_positions, has_no_day, settled
from synth.schema import Schema
from synth.schema.counted import ALONE, CLOCK, MONDAY, OF_EXPRESSION, WEEKDAY, beside, modeled_in, usual_word
from synth.schema.kinds.modeled import Modeled
from synth.schema.kinds.moments import DAY

Before = pd.DataFrame | None
_NEAR = 0.5001  # steps by which a value may miss its formula, rounded either way, and still keep it
_FLOAT_NOISE = 1e-11  # the same for a column without steps, in multiples of the value
_MOST_DIGITS = 7  # of a ratio: the shortest number that gives the value back


def to_counted(frame: pd.DataFrame, schema: Schema, before: Before = None) -> pd.DataFrame:
    """The columns that the schema models, as they are counted; others are as they are.
    `frame`: in canonical form, with all columns of these. `before`: the row before each; `None`: there is none.
    """
    counted = schema.counted
    columns: dict[str, Any] = {name: frame[name] for name in frame if name in counted.columns}
    for name in modeled_in(schema):
        if name in frame:
            columns |= _left_of(frame, name, schema, counted, before)
    order = [name for name in counted.columns if name in columns]
    return pd.DataFrame({name: columns[name].array for name in order}, index=frame.index, copy=False)


def from_counted(
    columns: dict[str, pd.Series], drawn: pd.DataFrame, schema: Schema, before: Before = None
) -> np.ndarray:
    """Add what is computed or modeled to columns of rows; true where that is not lawful, shape (n,).
    `columns`: those that are neither. `drawn`: rows as they are counted.
    """
    n = len(drawn)
    unlawful = np.zeros(n, dtype=bool)
    for name, what in schema.worked_out.items():
        frame = pd.DataFrame({each: columns[each] for each in what.parents}, index=pd.RangeIndex(n), copy=False)
        if isinstance(what, Formula):
            columns[name], outside = compute(frame, what, schema.columns, before)
        elif what.usual:
            columns[name], outside = _category(drawn[name], frame, name, schema, before)
        else:
            columns[name], outside = _value(drawn, name, frame, schema, before)
        unlawful |= outside | has_no_day(frame, what, schema.columns)
    return unlawful


def _left_of(frame: pd.DataFrame, name: str, schema: Schema, counted: Schema, before: Before) -> dict[str, pd.Series]:
    """The columns that are counted in place of one."""
    column: Any = schema.columns[name]
    modeled: Modeled = column.modeled
    if modeled.usual:  # whether a category is the one that another column says, or else which it is
        own = frame[name].astype(object)
        usual, says_none = usual_category(frame, name, modeled, schema, before)
        same = (frame[name] == usual.set_axis(own.index)).fillna(value=False).to_numpy(dtype=bool) & ~says_none
        words = own.map(str, na_action="ignore").where(own.notna(), None)
        return {name: words.where(~same, usual_word(column))}
    value, ends = column.ordinary(frame[name]), beside(schema, name)
    formula = _expressed(frame, modeled, column, schema, before)
    stamps = value * column.per_position if modeled.parts else value
    days = np.floor(stamps / DAY)
    if modeled.parts:
        left = _week(value, column) - _week(formula, column)
    elif modeled.left == "ratio":
        left = _ratio(value, formula, column, counted.columns[name])
    else:
        left = _difference(value, formula, column)
    columns: dict[str, pd.Series] = {}
    if ALONE in ends:
        low, high = counted.columns[name].bounds
        room = 1e-9 * max(1.0, abs(low), abs(high))
        left = np.where((left >= low - room) & (left <= high + room), left, np.nan)
        columns[ends[ALONE]] = frame[name].where(np.isnan(left))
    if WEEKDAY in ends:
        columns[ends[WEEKDAY]] = _put(np.where(np.isnan(left), np.nan, (days + MONDAY) % 7), None)
    if CLOCK in ends:
        clock = np.where(np.isnan(left), np.nan, (stamps - days * DAY) / column.micros)
        columns[ends[CLOCK]] = _put(clock, counted.columns[ends[CLOCK]])
    return {name: _put(left, counted.columns[name]), **columns}


def _expressed(frame: pd.DataFrame, modeled: Modeled, column: Any, schema: Schema, before: Before) -> np.ndarray:
    """The values of an expression as positions, NaN where nothing is left of it: a ratio is to what is above zero."""
    if modeled.expression is None:
        return np.zeros(len(frame))  # which is in week 0
    formula = exact_positions(frame, modeled, column, schema.columns, before)
    return np.where(formula > 0, formula, np.nan) if modeled.left == "ratio" else formula


def _difference(value: np.ndarray, formula: np.ndarray, column: Any) -> np.ndarray:
    """What is left of a sum: zero where the formula gives the value, rounded either way."""
    unit = column.unit
    if unit is None:
        left = value - formula
        return np.asarray(np.where(np.abs(left) <= _FLOAT_NOISE * np.abs(value), 0.0, left))
    counts, exact = (grid.ratio(line, unit) for line in (value, formula))
    left = np.where(np.abs(counts - exact) <= _NEAR, 0.0, np.rint(counts) - np.rint(exact))
    return np.asarray(np.where(np.isnan(counts - exact), np.nan, left * _scale(column)))


def _ratio(value: np.ndarray, formula: np.ndarray, column: Any, left: Any) -> np.ndarray:
    """What is left of a product: the shortest decimal number that gives the value back."""
    exact = value / formula
    if left.unit is not None:
        return np.asarray(exact)
    short = exact
    for digits in range(_MOST_DIGITS, -1, -1):
        rounded = np.round(exact, digits)
        short = np.where(np.abs(rounded * formula - value) <= _NEAR * (column.unit or 0.0), rounded, short)
    return np.asarray(short)


def _value(
    drawn: pd.DataFrame, name: str, frame: pd.DataFrame, schema: Schema, before: Before
) -> tuple[pd.Series, np.ndarray]:  # fmt: skip
    """A modeled column, and true where it is not lawful: what is left of its formula, else its value alone."""
    column: Any = schema.columns[name]
    modeled: Modeled = column.modeled
    ends, unit, left = beside(schema, name), column.unit, _floats(drawn[name])
    formula = _expressed(frame, modeled, column, schema, before)
    if modeled.parts:
        days = (left + _week(formula, column)) * 7 + _floats(drawn[ends[WEEKDAY]]) - MONDAY
        counts = days * (DAY // column.micros)  # in steps of the precision, as below where there is one
        if CLOCK in ends:
            counts = counts + _floats(drawn[ends[CLOCK]])
    elif modeled.left == "ratio":
        value, spacing = formula * left, column.spacing
        counts = value if unit is None else np.rint(value / spacing) * np.rint(spacing / unit)
    elif unit is None:
        counts = formula + left
    else:
        counts = np.rint(grid.ratio(formula, unit)) + np.rint(left / _scale(column))
    series, outside = settled(counts, column)
    if ALONE in ends:
        missing, alone = np.isnan(counts), drawn[ends[ALONE]]
        series = series.where(~missing, alone)
        outside = np.where(missing, alone.isna().to_numpy() & (not column.missing), outside)
    return series, outside


def _floats(series: pd.Series) -> np.ndarray:
    return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))


def _week(formula: np.ndarray, column: Any) -> np.ndarray:
    """The week of each position since 1970, counted from Mondays on."""
    return np.asarray(np.floor((np.floor(formula * column.per_position / DAY) + MONDAY) / 7))


def _scale(column: Any) -> float:
    """The size of a step in what is left: of a time it is counted in steps, of a number it has its scale."""
    return 1.0 if column.is_time else float(column.unit)


def _put(values: np.ndarray, column: Any) -> pd.Series:
    """What is left in canonical form, clamped to its bounds; `None`: as whole numbers."""
    missing = ~np.isfinite(values)
    filled = np.where(missing, 0.0, values)
    if column is None:
        return pd.Series(pd.arrays.IntegerArray(np.rint(filled).astype(np.int64), missing))
    filled = np.clip(filled, *column.ends)
    unit = column.unit
    series: pd.Series = column.values(filled if unit is None else np.rint(filled / unit).astype(np.int64), missing)
    return series


def usual_category(
    frame: pd.DataFrame, name: str, modeled: Modeled, schema: Schema, before: Before = None
) -> tuple[pd.Series, np.ndarray]:
    """The category that another column says, or an expression, and true where it says none; shape (n,) each."""
    if modeled.by is not None:
        return determined(frame[modeled.by], Dependency(modeled.by, name, dict(modeled.usual)), schema.columns)
    by = _put(exact_positions(frame, modeled, OF_EXPRESSION, schema.columns, before), OF_EXPRESSION)
    return determined(by, Dependency("", name, dict(modeled.usual)), {name: schema.columns[name], "": OF_EXPRESSION})


def _category(
    drawn: pd.Series, frame: pd.DataFrame, name: str, schema: Schema, before: Before
) -> tuple[pd.Series, np.ndarray]:  # fmt: skip
    """Categories that another column says, or others; and true where it was to say one and does not."""
    column: Any = schema.columns[name]
    usual, says_none = usual_category(frame, name, column.modeled, schema, before)
    is_usual = (drawn == usual_word(column)).fillna(value=False).to_numpy(dtype=bool)
    own = drawn.map(dict(zip(map(str, column.levels), column.levels, strict=True)))
    series = own.astype(object).where(own.notna(), None).astype(usual.dtype).where(~is_usual, usual)
    return series, (is_usual & says_none) | (series.isna().to_numpy() & (not column.missing))
