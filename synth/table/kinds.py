"""Cells as values of a declared kind, with what is wrong with each."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    RealColumn,
    WeightColumn,
)
from synth.table import moments
from synth.table.faults import Fault
from synth.table.given import INT64_MAX, Given

Faults = dict[Fault, np.ndarray]
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FLOAT_BELOW_INT64 = 2.0**63 - 1024


@dataclass(frozen=True)
class Read:
    """Cells read as a kind.

    Attributes:
        values: canonical values of the cells, brought inside the bounds where asked; missing where unreadable.
        faults: for each kind of fault, which cells have it, boolean.
    """

    values: Any
    faults: Faults


def read(given: Given, column: Column, *, clamp: bool) -> Read:
    """The cells as values of the column's kind.

    Args:
        given: *Sensitive*. The cells.
        column: their declared kind.
        clamp: bring numbers and times that lie outside the bounds to the nearest bound.
    """
    if isinstance(column, IntegerColumn) or holds_whole_numbers(column):
        return _integers(given, column, clamp)
    if isinstance(column, RealColumn | WeightColumn):
        return _reals(given, column, clamp)
    if isinstance(column, BooleanColumn):
        return _booleans(given, column)
    if isinstance(column, DateColumn | DatetimeColumn):
        return _times(given, column, clamp)
    return _texts(given, column, clamp)


def holds_whole_numbers(column: Column) -> bool:
    """Whether categories or identifiers are whole numbers rather than text."""
    if isinstance(column, CategoricalColumn):
        return bool(column.categories) and isinstance(column.categories[0], int)
    return isinstance(column, IdentifierColumn) and column.bounds is not None


def _each(given: Given, parse: Callable[[Any], Any]) -> tuple[list[Any], Faults]:
    """Every cell parsed, none where missing or at fault, and the faults."""
    results = [None if absent else parse(cell) for cell, absent in zip(given.cells, given.missing, strict=True)]
    faults: Faults = {}
    for index, result in enumerate(results):
        if isinstance(result, Fault):
            faults.setdefault(result, np.zeros(len(results), dtype=bool))[index] = True
            results[index] = None
    return results, faults


def _none(given: Given) -> np.ndarray:
    return np.zeros(len(given.cells), dtype=bool)


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


def _integers(given: Given, column: Any, clamp: bool) -> Read:
    values, missing, faults = _whole(given)
    if isinstance(column, CategoricalColumn):
        faults[Fault.CATEGORY] = ~missing & ~np.isin(values, np.array(column.categories, dtype=np.int64))
        return Read(pd.arrays.IntegerArray(values, missing), faults)
    low, high = (min(max(bound, -INT64_MAX - 1), INT64_MAX) for bound in column.bounds)
    outside = ~missing & ((values < low) | (values > high))
    faults[Fault.BOUNDS] = faults.get(Fault.BOUNDS, _none(given)) | outside
    if clamp and isinstance(column, IntegerColumn):
        values = np.clip(values, low, high)
    return Read(pd.arrays.IntegerArray(values, missing), faults)


def _whole(given: Given) -> tuple[np.ndarray, np.ndarray, Faults]:
    """Cells as int64, which of them are missing, and faults."""
    if given.form in ("integer", "boolean"):
        return given.cells.astype(np.int64), given.missing.copy(), {}
    if given.form == "time":
        return np.zeros(len(given.cells), dtype=np.int64), np.ones_like(given.missing), {Fault.NUMBER: ~given.missing}
    if given.form == "real":
        return _whole_of_reals(given.cells, given.missing)
    results, faults = _each(given, _number)
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
            faults.setdefault(fault, _none(given))[where] |= flags
    return values, missing, faults


def _whole_of_reals(reals: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, np.ndarray, Faults]:
    infinite = np.isinf(reals)
    safe = np.where(missing | infinite, 0.0, reals)
    rounded = np.rint(safe)
    faults = {Fault.INFINITE: infinite, Fault.FRACTION: rounded != safe, Fault.BOUNDS: np.abs(rounded) >= 2.0**63}
    return np.clip(rounded, -(2.0**63), _FLOAT_BELOW_INT64).astype(np.int64), missing | infinite, faults


def _reals(given: Given, column: RealColumn | WeightColumn, clamp: bool) -> Read:
    values, faults = _floats(given)
    infinite = np.isinf(values)
    faults[Fault.INFINITE] = infinite
    values = np.where(infinite, np.nan, values)
    if column.decimals is not None:
        values, faults[Fault.PRECISION] = rounded(values, column.decimals, given.digits)
    low, high = column.bounds
    faults[Fault.BOUNDS] = (values < low) | (values > high)
    return Read(np.clip(values, low, high) if clamp else values, faults)


def _floats(given: Given) -> tuple[np.ndarray, Faults]:
    """Cells as float64, NaN where missing or unreadable."""
    if given.form in ("real", "integer", "boolean"):
        return np.where(given.missing, np.nan, given.cells.astype(np.float64)), {}
    if given.form == "time":
        return np.full(len(given.cells), np.nan), {Fault.NUMBER: ~given.missing}
    results, faults = _each(given, _number)
    return np.array([_float(r) for r in results], dtype=np.float64), faults


def _float(number: int | float | None) -> float:
    if number is None:
        return float("nan")
    return float(number) if abs(number) < 2**1023 else float("inf")


def rounded(reals: np.ndarray, decimals: int, digits: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Reals rounded to a precision, and which of them had more digits than that.

    Args:
        reals: shape (n,), NaN where missing.
        decimals: digits after the point.
        digits: significant digits that the source holds; noise beyond them is none of the value.
    """
    scale = 10.0**decimals
    with np.errstate(over="ignore"):
        exact = np.abs(reals) * scale < 2.0**52
    near = np.where(exact, np.rint(np.where(exact, reals, 0.0) * scale) / scale, reals)
    tolerance = np.abs(reals) * (1e-12 if digits >= 15 else 3e-7)
    return near, np.abs(near - reals) > tolerance


def _booleans(given: Given, column: BooleanColumn) -> Read:
    if given.form == "boolean":
        return Read(pd.arrays.BooleanArray(given.cells.astype(bool), given.missing.copy()), {})
    if given.form in ("integer", "real"):
        wrong = ~given.missing & (given.cells != 0) & (given.cells != 1)
        absent = given.missing | wrong
        return Read(pd.arrays.BooleanArray(np.where(absent, 0, given.cells).astype(bool), absent), {Fault.BOOLEAN: wrong})
    known = dict(zip(column.tokens, (False, True), strict=True))
    results, faults = _each(given, lambda cell: _truth(cell, known))
    absent = np.array([r is None for r in results], dtype=bool)
    return Read(pd.arrays.BooleanArray(np.array([r is True for r in results], dtype=bool), absent), faults)


def _truth(cell: Any, known: dict[str, bool]) -> bool | Fault:
    if isinstance(cell, str):
        return known.get(cell, Fault.BOOLEAN)  # type: ignore[arg-type]
    if isinstance(cell, bool | np.bool_ | int | np.integer) and cell in (0, 1):
        return bool(cell)
    return Fault.BOOLEAN


def _texts(given: Given, column: Column, clamp: bool) -> Read:
    faults: Faults = {}
    if given.form == "text":
        values = np.where(given.missing, None, given.cells)
    elif given.form == "integer":
        values = np.array([None if m else str(v) for v, m in zip(given.cells, given.missing, strict=True)], dtype=object)
    else:
        values, faults = _forced_texts(given, clamp)
    if isinstance(column, CategoricalColumn):
        faults[Fault.CATEGORY] = _outside(values, column.categories)
    return Read(values, faults)


def _forced_texts(given: Given, clamp: bool) -> tuple[np.ndarray, Faults]:
    """Cells that are not all text: those that are, and the others as text where clamped, else missing."""
    is_text = np.fromiter((isinstance(cell, str) for cell in given.cells), dtype=bool, count=len(given.cells))
    values = np.full(len(given.cells), None, dtype=object)
    for index in np.flatnonzero(~given.missing & (is_text | clamp)):
        values[index] = str(given.cells[index])
    return values, {Fault.TEXT: ~given.missing & ~is_text}


def _outside(values: np.ndarray, categories: Iterable[Any]) -> np.ndarray:
    known = set(categories)
    return np.fromiter((v is not None and v not in known for v in values), dtype=bool, count=len(values))


def _times(given: Given, column: DateColumn | DatetimeColumn, clamp: bool) -> Read:
    wall, ahead, missing, faults = _stamps(given, column)
    zoned = isinstance(column, DatetimeColumn) and column.timezone is not None
    line = wall - ahead if zoned else wall
    unit = moments.DAY if isinstance(column, DateColumn) else moments.MICROSECONDS[column.precision]
    fine = ~missing & (line % unit != 0)
    faults[Fault.CLOCK if isinstance(column, DateColumn) else Fault.PRECISION] = fine | faults.get(
        Fault.PRECISION, _none(given)
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
        return moments.with_offsets(line, ahead, missing)
    stamps = line.astype("datetime64[us]")
    stamps[missing] = np.datetime64("NaT")
    if zone is None:
        return stamps
    return pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(zone).array


def _stamps(given: Given, column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Wall clock and offset in microseconds, what is missing, and faults, for every cell."""
    zone = column.timezone if isinstance(column, DatetimeColumn) else None
    if given.form == "time" and (zone != "mixed" and (given.zone is None or zone is not None)):
        return _stamps_of_times(given, zone)
    if given.form == "time":
        stamps = given.cells.astype("datetime64[us]")
        aware = pd.Series(stamps)
        if given.zone is not None:
            aware = aware.dt.tz_localize("UTC").dt.tz_convert(given.zone)
        results: list[Any] = list(aware.dt.to_pydatetime()) if False else _objects(aware)
        faults: Faults = {}
    elif given.form in ("text", "mixed"):
        results, faults = _each(given, _reader(column))
    else:
        results, faults = [None] * len(given.cells), {Fault.TIME: ~given.missing}
    return _stamps_of_objects(results, faults, zone)


def _objects(series: pd.Series) -> list[Any]:
    return [None if pd.isna(stamp) else stamp.to_pydatetime() for stamp in series]


def _reader(column: Any) -> Callable[[Any], Any]:
    parse = moments.parser(column)

    def one(cell: Any) -> Any:
        if isinstance(cell, str):
            moment = parse(cell)
            return Fault.TIME if moment is None else moment
        return moments.plain(cell)

    return one


def _stamps_of_times(given: Given, zone: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
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
        results = moments.localized(results, str(zone))
    aware = np.array([r is not None and r.tzinfo is not None for r in results], dtype=bool)
    missing = np.array([r is None for r in results], dtype=bool)
    wrong = aware if zone is None else ~missing & ~aware
    faults[Fault.ZONE] = wrong
    missing = missing | wrong
    wall = np.where(missing, 0, moments.micros(results))
    return wall, np.where(missing, 0, moments.offsets(results)), missing, faults
