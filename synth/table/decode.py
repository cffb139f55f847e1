"""Decoding of cells into values of a declared kind, each alone, with what is wrong with it as a bit of a number.

Numbers are whole ones within 64 bits, or reals of a declared precision; days and times are on the wall clock or in a
zone.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from synth.schema.kinds import Column
from synth.table import datetime_codec
from synth.validation import is_plain


class Fault(StrEnum):
    NUMBER = "number"
    FRACTION = "fraction"
    INFINITE = "infinite"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    CLOCK = "clock"
    ZONE = "zone"
    PRECISION = "precision"
    BOUNDS = "bounds"
    CATEGORY = "category"
    MISSING = "missing"
    REPEATED = "repeated"


BIT: dict[Fault, np.uint16] = {fault: np.uint16(1 << number) for number, fault in enumerate(Fault)}
"""A cell's faults are the sum of their bits; 0 says that it fits."""
UNREADABLE = (Fault.NUMBER, Fault.INFINITE, Fault.TEXT, Fault.BOOLEAN, Fault.TIME, Fault.ZONE)
"""Cells that no value of the column's kind stands for: writing them would lose them."""
CLAMPED = (Fault.BOUNDS, Fault.CATEGORY, *UNREADABLE)
"""Faults of cells that clamping replaces: by the nearest bound, by whatever is unknown, by a missing cell."""

GUESSED = (Fault.BOUNDS, Fault.CATEGORY, Fault.MISSING, Fault.PRECISION, Fault.FRACTION)
"""Faults of cells beyond what a proposed schema read off another table: they count against none."""


def bits_of(faults: Iterable[Fault]) -> np.uint16:
    return np.uint16(sum(int(BIT[fault]) for fault in faults))


CLAMPED_BITS = bits_of(CLAMPED)


def faults_in(bits: np.ndarray) -> list[Fault]:
    total = np.bitwise_or.reduce(bits) if len(bits) else np.uint16(0)
    return [fault for fault in Fault if total & BIT[fault]]


_OR_MISSING = "correct them, or list their text in missing_values where it stands for missing"
_WORDS: dict[Fault, tuple[str, str]] = {
    Fault.NUMBER: ("mixes in values that are not numbers, which kind={column.kind!r} needs", _OR_MISSING),
    Fault.FRACTION: (
        "holds numbers with a fraction, which kind='integer' excludes",
        "declare the column as kind='real'",
    ),
    Fault.INFINITE: ("holds infinite values", "replace them or leave those cells empty"),
    Fault.TEXT: (
        "holds values that are not text, or text with a NUL character or half a surrogate pair",
        "convert or correct them",
    ),
    Fault.BOOLEAN: ("holds values that are neither of tokens={tokens}", _OR_MISSING),
    Fault.TIME: ("holds values that are no {column.kind} of format={form!r}", _OR_MISSING),
    Fault.CLOCK: ("holds times of day, which kind='date' excludes", "declare the column as kind='datetime'"),
    Fault.ZONE: ("holds times with a zone where none is declared", 'set timezone to an IANA name or to "mixed"'),
    Fault.PRECISION: ("holds numbers with more digits than decimals={column.decimals}", "raise decimals in the schema"),
    Fault.BOUNDS: ("holds values outside bounds=[{low}, {high}]", "correct them or widen the bounds in the schema"),
    Fault.CATEGORY: ("holds values outside its categories", "correct them or add them to categories in the schema"),
    Fault.MISSING: (
        "holds missing values, which missing=false excludes",
        "fill them or set missing = true in the schema",
    ),
    Fault.REPEATED: (
        "is an identifier and repeats itself",
        "name it as the entity in the schema, give every row its own, or set drop = true",
    ),
}


def words(fault: Fault, column: Any, *, declared: bool) -> tuple[str, str]:
    """The rule that a fault breaks and the remedy; neither tells a value."""
    rule, remedy = _WORDS[fault]
    if fault is Fault.PRECISION and column.is_time:
        rule, remedy = "holds times finer than precision={column.precision!r}", "set a finer precision in the schema"
    elif fault is Fault.ZONE and column.kind != "date" and column.timezone is not None:
        rule, remedy = "holds times without an offset, which timezone='mixed' needs", "write every time with its offset"
    elif declared and fault in (Fault.BOUNDS, Fault.CATEGORY):
        remedy = (
            'correct the table or let it be clamped (outside = "clamp" in the [table] of a job, --clamp of a command); '
            "the limits of a declared schema are public, so they must not be set by looking at the table"
        )
    low, high = getattr(column, "bounds", None) or ("", "")
    form, tokens = getattr(column, "format", None) or "ISO 8601", list(getattr(column, "tokens", ()))
    return rule.format(column=column, low=low, high=high, form=form, tokens=tokens), remedy


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,9})?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FLOAT_BELOW_INT64 = 2.0**63 - 1024

Faults = defaultdict[Fault, np.ndarray]
"""Flags of the cells with each fault, shape (n,), boolean."""


@dataclass(frozen=True)
class Cells:
    """Cells in one form: numbers, truth values or times as NumPy has them; texts; or texts and datetimes as objects.

    `zone` is that of times (`None`: the wall clock), and `digits` is how many a real is held with.
    """

    form: Literal["integer", "real", "boolean", "time", "text", "moments"]
    raw: np.ndarray
    missing: np.ndarray
    zone: Any = None
    digits: int = 15

    def parse(self, parse: Callable[[Any], Any]) -> tuple[list[Any], Faults]:
        """Every cell parsed, `None` where missing or at fault, and the faults."""
        results, faults = [], self.no_faults()
        for index, (cell, absent) in enumerate(zip(self.raw, self.missing, strict=True)):
            result = None if absent else parse(cell)
            if isinstance(result, Fault):
                faults[result][index], result = True, None
            results.append(result)
        return results, faults

    def no_faults(self) -> Faults:
        return defaultdict(lambda: np.zeros(len(self.raw), dtype=bool))


def decode(cells: Cells, column: Column, *, clamp: bool) -> tuple[Any, Faults]:
    """The cells as values of the column's kind, and flags of those with each fault. *Sensitive*."""
    if column.is_line and column.beside:
        return _with_beside(cells, column, clamp)
    return _decode(cells, column, clamp)


def _with_beside(cells: Cells, column: Any, clamp: bool) -> tuple[Any, Faults]:
    """Cells of a line, and those that hold a value beside it, which is never out of bounds."""
    own, spelled = column.own_texts, np.zeros(len(cells.raw), dtype=bool)
    if own and cells.form in ("text", "moments"):
        spelled = np.array([isinstance(cell, str) and cell in own for cell in cells.raw], dtype=bool) & ~cells.missing
    cells = replace(cells, missing=cells.missing | spelled)
    values, faults = _decode(cells, column, clamp=False)
    at = column.is_beside(pd.Series(values))
    if clamp:
        true, (values, faults) = values, _decode(cells, column, clamp)
        values[at] = true[at]
    faults[Fault.BOUNDS] &= ~at
    for index in np.flatnonzero(spelled):
        values[index] = column.canonical(own[cells.raw[index]])
    return values, faults


def _decode(cells: Cells, column: Column, clamp: bool) -> tuple[Any, Faults]:
    if column.has_own_texts and cells.form == "text":
        return _spelled(cells, column, clamp)
    if column.is_whole or column.holds_whole_numbers:
        return _integers(cells, column, clamp)
    if column.is_number:
        return _reals(cells, column, clamp)
    if column.is_boolean:
        return _booleans(cells, column)
    if column.is_time:
        return _times(cells, column, clamp)
    return _texts(cells, column)


def _spelled(cells: Cells, column: Column, clamp: bool) -> tuple[Any, Faults]:
    """Texts that the column reads itself as the numbers that they stand for, plain numbers as they are."""

    def parse(cell: Any) -> Any:
        number = column.parse(cell) if isinstance(cell, str) else cell
        return f"{number}" if number is not None else cell if NUMBER.fullmatch(cell) else Fault.NUMBER

    numbers, faults = cells.parse(parse)
    missing = np.array([number is None for number in numbers], dtype=bool)
    read = _integers if column.is_whole else _reals
    values, more = read(Cells("text", np.array(numbers, dtype=object), missing), column, clamp)
    for fault, flags in more.items():
        faults[fault] |= flags & ~missing
    return values, faults


def _integers(cells: Cells, column: Any, clamp: bool) -> tuple[Any, Faults]:
    """Cells as whole numbers: of an integer column, of integer categories, or of integer identifiers."""
    values, missing, faults = _whole(cells)
    unlisted = column.is_categorical and column.is_measured
    if clamp and (column.is_identifier or unlisted):
        # A name that is no whole number of 64 bits is nobody's: rounded or cut off, it would be somebody else's.
        missing |= faults[Fault.FRACTION] | faults[Fault.BOUNDS]
    if column.is_categorical:
        low, high = column.limits
        listed = np.array(column.categories, dtype=np.int64)
        known = (values >= low) & (values <= high) if unlisted else np.isin(values, listed)
        faults[Fault.CATEGORY] = ~missing & (~known | faults[Fault.BOUNDS])
        del faults[Fault.BOUNDS]
        missing |= faults[Fault.CATEGORY] & (clamp and unlisted)
        return pd.arrays.IntegerArray(values, missing), faults
    ends = map(column.canonical, column.bounds) if column.is_line else column.bounds
    low, high = (min(max(bound, INT64_MIN), INT64_MAX) for bound in ends)
    faults[Fault.BOUNDS] |= ~missing & ((values < low) | (values > high))
    if clamp and column.is_whole:
        values = np.clip(values, low, high)
    return pd.arrays.IntegerArray(values, missing), faults


def _whole(cells: Cells) -> tuple[np.ndarray, np.ndarray, Faults]:
    """Cells as int64, which of them are missing, and faults."""
    if cells.form in ("integer", "boolean"):
        return cells.raw.astype(np.int64), cells.missing.copy(), cells.no_faults()
    if cells.form == "real":
        return _whole_of_reals(cells)
    numbers, faults = cells.parse(lambda text: int(text) if WHOLE.fullmatch(text) else _real(text))
    missing = np.array([number is None for number in numbers], dtype=bool)
    whole = [number if isinstance(number, int) else 0 for number in numbers]
    faults[Fault.BOUNDS] = np.array([not INT64_MIN <= number <= INT64_MAX for number in whole], dtype=bool)
    values = np.array([min(max(number, INT64_MIN), INT64_MAX) for number in whole], dtype=np.int64)
    real = np.array([isinstance(number, float) for number in numbers], dtype=bool)
    if real.any():
        reals = np.array([number for number in numbers if isinstance(number, float)])
        values[real], missing[real], more = _whole_of_reals(Cells("real", reals, np.isnan(reals)))
        for fault, flags in more.items():
            faults[fault][real] |= flags
    return values, missing, faults


def _whole_of_reals(cells: Cells) -> tuple[np.ndarray, np.ndarray, Faults]:
    infinite, faults = np.isinf(cells.raw), cells.no_faults()
    safe = np.where(cells.missing | infinite, 0.0, cells.raw)
    near = np.rint(safe)
    faults[Fault.INFINITE], faults[Fault.FRACTION], faults[Fault.BOUNDS] = (
        infinite,
        near != safe,
        np.abs(near) >= 2.0**63,
    )
    return np.clip(near, -(2.0**63), _FLOAT_BELOW_INT64).astype(np.int64), cells.missing | infinite, faults


def _reals(cells: Cells, column: Column, clamp: bool) -> tuple[Any, Faults]:
    """Cells as float64 of the declared precision, NaN where missing or unreadable."""
    if cells.form == "text":
        results, faults = cells.parse(_real)
        values = np.array([np.nan if r is None else r for r in results], dtype=np.float64)
    else:
        values, faults = np.where(cells.missing, np.nan, cells.raw.astype(np.float64)), cells.no_faults()
    faults[Fault.INFINITE] = np.isinf(values)
    values = np.where(faults[Fault.INFINITE], np.nan, values)
    if column.decimals is not None:
        values, faults[Fault.PRECISION] = rounded(values, column.decimals, cells.digits)
    low, high = column.bounds
    faults[Fault.BOUNDS] = (values < low) | (values > high)
    return np.clip(values, low, high) if clamp else values, faults


def _real(text: str) -> float | Fault:
    return float(text) if NUMBER.fullmatch(text) or INFINITY.fullmatch(text) else Fault.NUMBER


def rounded(reals: np.ndarray, decimals: int, digits: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Reals rounded to a precision, and which of them had more digits than that; both shape (n,)."""
    scale = 10.0**decimals
    with np.errstate(over="ignore"):
        exact = np.abs(reals) * scale < 2.0**52
    near = np.where(exact, np.rint(np.where(exact, reals, 0.0) * scale) / scale, reals)
    tolerance = np.abs(reals) * (1e-12 if digits >= 15 else 3e-7)
    return near, np.abs(near - reals) > tolerance


def _times(cells: Cells, column: Column, clamp: bool) -> tuple[Any, Faults]:
    """Cells as days or times in the form that the column's zone asks for."""
    wall, ahead, missing, faults = _stamps(cells, column, column.zone)
    line = wall if column.zone is None else wall - ahead
    fine = ~missing & (line % column.micros != 0)
    too_fine = Fault.CLOCK if column.is_date else Fault.PRECISION
    faults[too_fine] = fine | faults[Fault.PRECISION]
    line = np.where(missing, 0, line - line % column.micros)
    low, high = (np.datetime64(bound, "us").astype(np.int64) for bound in column.bounds)
    faults[Fault.BOUNDS] = ~missing & ((line < low) | (line > high))
    if clamp:
        line = np.clip(line, low, high)
    if column.zone == "mixed":
        return datetime_codec.with_offsets(line, ahead, missing), faults
    stamps = line.astype("datetime64[us]")
    stamps[missing] = np.datetime64("NaT", "us")
    return stamps if column.zone is None else pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(
        column.zone
    ).array, faults


def _stamps(cells: Cells, column: Any, zone: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Wall clock and offset in microseconds, what is missing, and faults, for every cell."""
    if cells.form == "time":  # of a datetime dtype that fits the declared zone or its absence
        stamps = cells.raw.astype("datetime64[us]")
        finer = ~cells.missing & (stamps.astype(cells.raw.dtype) != cells.raw)
        line, faults = np.where(cells.missing, 0, stamps.astype(np.int64)), cells.no_faults()
        faults[Fault.PRECISION] = finer
        return line, np.zeros_like(line), cells.missing.copy(), faults
    parse = datetime_codec.parser(column)
    results, faults = cells.parse(lambda cell: cell if not isinstance(cell, str) else parse(cell) or Fault.TIME)
    if zone not in (None, "mixed"):
        info = ZoneInfo(str(zone))
        results = [r if r is None or r.tzinfo is not None else r.replace(tzinfo=info) for r in results]
    aware = np.array([r is not None and r.tzinfo is not None for r in results], dtype=bool)
    missing = np.array([r is None for r in results], dtype=bool)
    faults[Fault.ZONE] = aware if zone is None else ~missing & ~aware
    if column.is_date and column.timezone is not None:  # on the wall clock of the zone, whose midnights are the days
        del faults[Fault.ZONE]
        local = ZoneInfo(column.timezone)
        results = [r if r is None or r.tzinfo is None else datetime_codec.in_zone(r, local) for r in results]
    missing |= faults[Fault.ZONE]
    wall = np.where(missing, 0, datetime_codec.micros(results))
    return wall, np.where(missing, 0, datetime_codec.offsets(results)), missing, faults


def _booleans(cells: Cells, column: Column) -> tuple[Any, Faults]:
    if cells.form != "text":
        faults = cells.no_faults()
        faults[Fault.BOOLEAN] = ~cells.missing & (cells.raw != 0) & (cells.raw != 1)
        absent = cells.missing | faults[Fault.BOOLEAN]
        return pd.arrays.BooleanArray(np.where(absent, 0, cells.raw).astype(bool), absent), faults
    known = dict(zip(column.tokens, (False, True), strict=True))
    results, faults = cells.parse(lambda text: known.get(text, Fault.BOOLEAN))
    absent = np.array([r is None for r in results], dtype=bool)
    return pd.arrays.BooleanArray(np.array([r is True for r in results], dtype=bool), absent), faults


def _texts(cells: Cells, column: Column) -> tuple[Any, Faults]:
    values, faults = cells.raw.copy(), cells.no_faults()
    values[cells.missing] = None
    if column.is_categorical and not column.is_measured:
        # A listed text that no cell may hold is nobody's value.
        known = {c for c in column.categories if not isinstance(c, str) or is_plain(c)}
        faults[Fault.CATEGORY] = np.array([v is not None and v not in known for v in values], dtype=bool)
    return values, faults
