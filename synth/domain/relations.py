"""Relations between columns of rows: which rows break a constraint, columns that a formula computes, and rows to and
from the form in which they are counted, where columns that are `modeled` are what is left of their formula.

Everything is compared as float64: whole numbers beyond 2^53 only as exactly as that. Frames are in canonical form, and
*Sensitive* where they are real; `before` is the row before each, of the same entity, `None` where there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Constraint, Dependency, FixedCombinations, Formula, Inequality, Steps, Unique
from synth.constraints.expression import UNITS, dates, evaluate, names
from synth.constraints.kinds import numbers_of
from synth.domain import grid
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.schema.kinds.dates import DAY
from synth.schema.kinds.modeled import Modeled
from synth.schema.residual_schema import ALONE, CLOCK, MONDAY, OF_EXPRESSION, WEEKDAY, beside, modeled_in, usual_word

NOISE = 1e-9  # relative difference that is an artifact of floating point
Columns = Mapping[str, Column]
Before = pd.DataFrame | None
_NEAR = 0.5001  # steps by which a value may miss its formula, rounded either way, and still keep it
_FLOAT_NOISE = 1e-11  # the same for a column without steps, in multiples of the value
_MOST_DIGITS = 7  # of a ratio: the shortest number that gives the value back


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
    earlier = None if before is None else _values(before, names(formula.parsed, before=True), formula, columns)
    now = _values(frame, formula.parents, formula, columns)
    exact = np.broadcast_to(evaluate(formula.parsed, now, earlier, formula.unit), len(frame))
    return np.asarray(exact * (UNITS[formula.unit] / column.per_position) if column.is_time else exact)


def has_no_day(frame: pd.DataFrame, formula: Any, columns: Columns) -> np.ndarray:
    """True for rows in which an expression dates a day that the calendar does not have; shape (n,)."""
    impossible = np.zeros(len(frame), dtype=bool)
    for each in dates(formula.parsed) if formula.parsed is not None else ():
        now = _values(frame, names(each), formula, columns)
        parts = (evaluate(part, now, None, formula.unit) for part in each.arguments)
        is_whole = np.isfinite(sum(parts, np.zeros(len(frame))))
        impossible |= is_whole & np.isnan(evaluate(each, now, None, formula.unit))
    return impossible


def _values(frame: pd.DataFrame, named: Iterable[str], formula: Any, columns: Columns) -> dict[str, np.ndarray]:
    """Columns as an expression counts them: numbers, times in its unit, categories that stand for numbers."""
    values: dict[str, np.ndarray] = {}
    numbers = formula.added if isinstance(formula, Modeled) else {}
    for name in named:
        column: Any = columns[name]
        if column.is_line:
            scale = column.per_position / UNITS[formula.unit or "day"] if column.is_time else 1.0
            values[name] = column.ordinary(frame[name]) * scale
        else:
            told = numbers.get(name) or numbers_of(column.levels) or {}
            values[name] = frame[name].map(told).to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _slack(values: Any) -> Any:
    return NOISE * np.maximum(1.0, np.abs(values))


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
