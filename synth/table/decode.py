"""Decoding of cells into values of a declared kind, with what is wrong with each.

`read` takes any kind. Numbers are whole ones within 64 bits, or reals of a declared precision; days and times are on
the wall clock or in a zone.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from synth.schema.kinds import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    PersonalColumn,
    RealColumn,
    WeightColumn,
)
from synth.schema.kinds.moments import DAY, MICROSECONDS
from synth.table import datetime_codec
from synth.table.cells import INT64_MAX, Fault, Faults, RawColumn, Read, each, none
from synth.validation import is_plain

NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,9})?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FLOAT_BELOW_INT64 = 2.0**63 - 1024


def integers(given: RawColumn, column: Any, clamp: bool) -> Read:
    """Cells as whole numbers: of an integer column, of integer categories, or of integer identifiers."""
    values, missing, faults = _whole(given)
    unlisted = isinstance(column, CategoricalColumn) and column.measure
    if clamp and (isinstance(column, IdentifierColumn) or unlisted):
        # A name that is no whole number of 64 bits is nobody's: rounded or cut off, it would be somebody else's.
        missing |= faults.get(Fault.FRACTION, none(given)) | faults.get(Fault.BOUNDS, none(given))
    if isinstance(column, CategoricalColumn):
        low, high = column.limits
        listed = np.array(column.categories, dtype=np.int64)
        known = (values >= low) & (values <= high) if unlisted else np.isin(values, listed)
        faults[Fault.CATEGORY] = ~missing & (~known | faults.pop(Fault.BOUNDS, none(given)))
        missing |= faults[Fault.CATEGORY] & (clamp and unlisted)
        return Read(pd.arrays.IntegerArray(values, missing), faults)
    low, high = (min(max(bound, -INT64_MAX - 1), INT64_MAX) for bound in column.bounds)
    outside = ~missing & ((values < low) | (values > high))
    faults[Fault.BOUNDS] = faults.get(Fault.BOUNDS, none(given)) | outside
    if clamp and isinstance(column, IntegerColumn):
        values = np.clip(values, low, high)
    return Read(pd.arrays.IntegerArray(values, missing), faults)


def _whole(given: RawColumn) -> tuple[np.ndarray, np.ndarray, Faults]:
    """Cells as int64, which of them are missing, and faults."""
    if given.form in ("integer", "boolean"):
        return given.cells.astype(np.int64), given.missing.copy(), {}
    if given.form == "time":
        return np.zeros(len(given.cells), dtype=np.int64), np.ones_like(given.missing), {Fault.NUMBER: ~given.missing}
    if given.form == "real":
        return _whole_of_reals(given.cells, given.missing)
    results, faults = each(given, _number)
    reals = [isinstance(r, float) for r in results]
    missing = np.array([r is None for r in results], dtype=bool)
    wide = np.array([isinstance(r, int) and not -INT64_MAX - 1 <= r <= INT64_MAX for r in results], dtype=bool)
    clipped = [min(max(r, -INT64_MAX - 1), INT64_MAX) if isinstance(r, int) else 0 for r in results]
    values = np.array(clipped, dtype=np.int64)
    faults[Fault.BOUNDS] = wide
    if any(reals):
        where = np.array(reals)
        floats = np.array([r for r in results if isinstance(r, float)])
        values[where], missing[where], more = _whole_of_reals(floats, np.isnan(floats))
        for fault, flags in more.items():
            faults.setdefault(fault, none(given))[where] |= flags
    return values, missing, faults


def _whole_of_reals(reals: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, np.ndarray, Faults]:
    infinite = np.isinf(reals)
    safe = np.where(missing | infinite, 0.0, reals)
    rounded = np.rint(safe)
    faults = {Fault.INFINITE: infinite, Fault.FRACTION: rounded != safe, Fault.BOUNDS: np.abs(rounded) >= 2.0**63}
    return np.clip(rounded, -(2.0**63), _FLOAT_BELOW_INT64).astype(np.int64), missing | infinite, faults


def reals_of(given: RawColumn, column: RealColumn | WeightColumn, clamp: bool) -> Read:
    """Cells as float64 of the declared precision, NaN where missing or unreadable."""
    values, faults = _floats(given)
    infinite = np.isinf(values)
    faults[Fault.INFINITE] = infinite
    values = np.where(infinite, np.nan, values)
    if column.decimals is not None:
        values, faults[Fault.PRECISION] = rounded(values, column.decimals, given.digits)
    low, high = column.bounds
    faults[Fault.BOUNDS] = faults.get(Fault.BOUNDS, none(given)) | (values < low) | (values > high)
    return Read(np.clip(values, low, high) if clamp else values, faults)


def _floats(given: RawColumn) -> tuple[np.ndarray, Faults]:
    """Cells as float64, NaN where missing or unreadable."""
    if given.form in ("real", "integer", "boolean"):
        return np.where(given.missing, np.nan, given.cells.astype(np.float64)), {}
    if given.form == "time":
        return np.full(len(given.cells), np.nan), {Fault.NUMBER: ~given.missing}
    results, faults = each(given, _real)
    return np.array([np.nan if r is None else r for r in results], dtype=np.float64), faults


def _real(value: Any) -> float | Fault:
    """A Python object as a float; the sign of a zero stays."""
    if isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value) or INFINITY.fullmatch(value) else Fault.NUMBER
    number = _number(value)
    if isinstance(number, int) and abs(number) >= 2**1023:
        return Fault.BOUNDS
    return number if isinstance(number, Fault) else float(number)


def rounded(reals: np.ndarray, decimals: int, digits: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Reals rounded to a precision, and which of them had more digits than that.

    Args:
        reals: shape (n,), NaN where missing.
    """
    scale = 10.0**decimals
    with np.errstate(over="ignore"):
        exact = np.abs(reals) * scale < 2.0**52
    near = np.where(exact, np.rint(np.where(exact, reals, 0.0) * scale) / scale, reals)
    tolerance = np.abs(reals) * (1e-12 if digits >= 15 else 3e-7)
    return near, np.abs(near - reals) > tolerance


def _number(value: Any) -> int | float | Fault:
    """A Python object as a number; booleans are not numbers among others."""
    if isinstance(value, str):
        if WHOLE.fullmatch(value):
            return int(value)
        return float(value) if NUMBER.fullmatch(value) or INFINITY.fullmatch(value) else Fault.NUMBER
    if isinstance(value, bool | np.bool_):
        return Fault.NUMBER
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return float(value) if isinstance(value, float | np.floating | Decimal) else Fault.NUMBER


def times(given: RawColumn, column: DateColumn | DatetimeColumn, clamp: bool) -> Read:
    """Cells as days or times in the form that the column's zone asks for."""
    wall, ahead, missing, faults = _stamps(given, column)
    zoned = isinstance(column, DatetimeColumn) and column.timezone is not None
    line = wall - ahead if zoned else wall
    unit = DAY if isinstance(column, DateColumn) else MICROSECONDS[column.precision]
    fine = ~missing & (line % unit != 0)
    faults[Fault.CLOCK if isinstance(column, DateColumn) else Fault.PRECISION] = fine | faults.get(
        Fault.PRECISION, none(given)
    )
    line = np.where(missing, 0, line - line % unit)
    low, high = (np.datetime64(bound, "us").astype(np.int64) for bound in column.bounds)
    faults[Fault.BOUNDS] = ~missing & ((line < low) | (line > high))
    if clamp:
        line = np.clip(line, low, high)
    return Read(_canonical_times(line, ahead, missing, column), faults)


def _canonical_times(line: np.ndarray, ahead: np.ndarray, missing: np.ndarray, column: Any) -> Any:
    zone = column.timezone if isinstance(column, DatetimeColumn) else None
    if zone == "mixed":
        return datetime_codec.with_offsets(line, ahead, missing)
    stamps = line.astype("datetime64[us]")
    stamps[missing] = np.datetime64("NaT", "us")
    if zone is None:
        return stamps
    return pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(zone).array


def _stamps(given: RawColumn, column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Wall clock and offset in microseconds, what is missing, and faults, for every cell."""
    zone = column.timezone if isinstance(column, DatetimeColumn) else None
    if given.form == "time" and (zone != "mixed" and (given.zone is None or zone is not None)):
        return _stamps_of_times(given, zone)
    if given.form == "time":
        results, faults = each(replace(given, cells=_moments(given)), _in_range)
    elif given.form in ("text", "mixed"):
        results, faults = each(given, _reader(column))
    else:
        results, faults = [None] * len(given.cells), {Fault.TIME: ~given.missing}
    return _stamps_of_objects(results, faults, zone)


def _moments(given: RawColumn) -> np.ndarray:
    """Times of a datetime dtype as Python datetimes, numbers where they lie outside the years that those reach."""
    moments_of = given.cells.astype("datetime64[us]").tolist()
    if given.zone is not None:
        moments_of = [datetime_codec.in_zone(m, given.zone) if isinstance(m, dt.datetime) else m for m in moments_of]
    made = np.empty(len(moments_of), dtype=object)
    made[:] = moments_of
    return made


def _in_range(moment: Any) -> Any:
    return moment if isinstance(moment, dt.datetime) else Fault.TIME


def _reader(column: Any) -> Callable[[Any], Any]:
    parse = datetime_codec.parser(column)

    def one(cell: Any) -> Any:
        if isinstance(cell, str):
            moment = parse(cell)
            return Fault.TIME if moment is None else moment
        return datetime_codec.plain(cell)

    return one


def _stamps_of_times(given: RawColumn, zone: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Times of a datetime dtype that fit the declared zone or its absence."""
    stamps = given.cells.astype("datetime64[us]")
    faults = {Fault.PRECISION: ~given.missing & (stamps.astype(given.cells.dtype) != given.cells)}
    if zone is not None and given.zone is None:
        index = pd.DatetimeIndex(stamps)
        local = index.tz_localize(zone, ambiguous=np.ones(len(index), dtype=bool), nonexistent="shift_forward")
        stamps = local.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[us]")
    line = np.where(given.missing, 0, stamps.astype(np.int64))
    return line, np.zeros_like(line), given.missing.copy(), faults


def _stamps_of_objects(
    results: list[Any], faults: Faults, zone: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    if zone not in (None, "mixed"):
        results = datetime_codec.localized(results, str(zone))
    aware = np.array([r is not None and r.tzinfo is not None for r in results], dtype=bool)
    missing = np.array([r is None for r in results], dtype=bool)
    wrong = aware if zone is None else ~missing & ~aware
    faults[Fault.ZONE] = wrong
    missing = missing | wrong
    wall = np.where(missing, 0, datetime_codec.micros(results))
    return wall, np.where(missing, 0, datetime_codec.offsets(results)), missing, faults


def read(given: RawColumn, column: Column, *, clamp: bool) -> Read:
    """The cells as values of the column's kind.

    Args:
        given: *Sensitive*. The cells.
    """
    if column.has_own_texts and given.form in ("text", "mixed"):
        return _spelled(given, column, clamp)
    if isinstance(column, IntegerColumn) or holds_whole_numbers(column):
        return integers(given, column, clamp)
    if isinstance(column, RealColumn | WeightColumn):
        return reals_of(given, column, clamp)
    if isinstance(column, BooleanColumn):
        return _booleans(given, column)
    if isinstance(column, DateColumn | DatetimeColumn):
        return times(given, column, clamp)
    if isinstance(column, PersonalColumn):
        return _personal(given)
    return _texts(given, column, clamp)


def _spelled(given: RawColumn, column: Column, clamp: bool) -> Read:
    """Cells of a kind that reads its texts itself: the numbers that they stand for."""
    numbers, faults = each(given, lambda cell: _or_fault(column.parse(cell) if isinstance(cell, str) else None))
    cells = np.array([*numbers, None], dtype=object)[:-1]
    parsed = replace(given, form="mixed", cells=cells, missing=np.array([n is None for n in numbers], dtype=bool))
    done = (integers if column.is_whole else reals_of)(parsed, column, clamp)
    return Read(done.values, done.faults | faults)


def _or_fault(number: Any) -> Any:
    return Fault.NUMBER if number is None else number


def holds_whole_numbers(column: Column) -> bool:
    """True if categories or identifiers are whole numbers rather than text."""
    if isinstance(column, CategoricalColumn):
        return column.whole_numbers or (bool(column.categories) and isinstance(column.categories[0], int))
    return isinstance(column, IdentifierColumn) and column.bounds is not None


def _booleans(given: RawColumn, column: BooleanColumn) -> Read:
    if given.form == "boolean":
        return Read(pd.arrays.BooleanArray(given.cells.astype(bool), given.missing.copy()), {})
    if given.form in ("integer", "real"):
        wrong = ~given.missing & (given.cells != 0) & (given.cells != 1)
        absent = given.missing | wrong
        return Read(
            pd.arrays.BooleanArray(np.where(absent, 0, given.cells).astype(bool), absent), {Fault.BOOLEAN: wrong}
        )
    known = dict(zip(column.tokens, (False, True), strict=True))
    results, faults = each(given, lambda cell: _truth(cell, known))
    absent = np.array([r is None for r in results], dtype=bool)
    return Read(pd.arrays.BooleanArray(np.array([r is True for r in results], dtype=bool), absent), faults)


def _truth(cell: Any, known: dict[str, bool]) -> bool | Fault:
    if isinstance(cell, str):
        return known.get(cell, Fault.BOOLEAN)
    if isinstance(cell, bool | np.bool_ | int | np.integer) and cell in (0, 1):
        return bool(cell)
    return Fault.BOOLEAN


def _personal(given: RawColumn) -> Read:
    """Cells as texts, whole numbers without a point. Nothing in them is learned, so that none can be at fault."""
    values = np.full(len(given.cells), None, dtype=object)
    for index in np.flatnonzero(~given.missing):
        cell = given.cells[index]
        whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
        values[index] = str(int(cell) if whole else cell)
    return Read(values, {})


def _texts(given: RawColumn, column: Column, clamp: bool) -> Read:
    faults: Faults = {}
    if given.form == "text":
        values = given.cells.copy()
        values[given.missing] = None
    elif given.form == "integer":
        values = np.array(
            [None if m else str(v) for v, m in zip(given.cells, given.missing, strict=True)], dtype=object
        )
    else:
        values, faults = _forced_texts(given, clamp)
    if isinstance(column, CategoricalColumn):
        if column.measure:
            faults[Fault.TEXT] = faults.get(Fault.TEXT, none(given)) | _take_unwritable(values)
        else:
            faults[Fault.CATEGORY] = _outside(values, column.categories)
    return Read(values, faults)


def _forced_texts(given: RawColumn, clamp: bool) -> tuple[np.ndarray, Faults]:
    """Cells that are not all text: those that are, and the others as text where clamped, else missing."""
    is_text = np.fromiter((isinstance(cell, str) for cell in given.cells), dtype=bool, count=len(given.cells))
    values = np.full(len(given.cells), None, dtype=object)
    for index in np.flatnonzero(~given.missing & (is_text | clamp)):
        values[index] = str(given.cells[index])
    return values, {Fault.TEXT: ~given.missing & ~is_text}


def _take_unwritable(values: np.ndarray) -> np.ndarray:
    """Flags of the texts with a NUL or half a surrogate pair, which no category can be; they are taken out."""
    flags = np.fromiter((v is not None and not is_plain(v) for v in values), dtype=bool, count=len(values))
    values[flags] = None
    return flags


def _outside(values: np.ndarray, categories: Iterable[Any]) -> np.ndarray:
    known = set(categories)
    return np.fromiter((v is not None and v not in known for v in values), dtype=bool, count=len(values))
