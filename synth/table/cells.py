"""Cells of a column: raw columns, reduced to one of a few forms whatever their dtype, and the faults of their cells."""

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.schema.kinds import Column, DatetimeColumn

Form = Literal["integer", "real", "boolean", "time", "text", "mixed"]

INT64_MAX = 2**63 - 1
EXACT_FLOAT = 2**53
"""Up to here every whole number is a float64."""

_AGES = (np.datetime64("-99999-01-01"), np.datetime64("99999-12-31"))
"""Times beyond these are brought to them: they lie outside any bounds, which reach from the year 1 to 9999."""

_DAY = 24 * 3600 * 10**6
_START = dt.datetime(1970, 1, 1)

_FORMS: dict[str, Form] = {
    "integer": "integer",
    "floating": "real",
    "mixed-integer-float": "real",
    "boolean": "boolean",
}


@dataclass(frozen=True)
class RawColumn:
    """Cells of a column in one form."""

    form: Form
    cells: np.ndarray
    missing: np.ndarray
    codes: np.ndarray | None = None
    zone: Any = None
    digits: int = 15

    def rows(self, flags: np.ndarray) -> np.ndarray:
        """Flags of cells as flags of rows; a missing row has none."""
        if self.codes is None:
            return np.asarray(flags & ~self.missing, dtype=bool)
        return np.asarray(np.append(flags & ~self.missing, False)[self.codes], dtype=bool)

    @property
    def missing_rows(self) -> np.ndarray:
        """Flags of the missing rows, boolean."""
        return self.missing if self.codes is None else np.asarray(np.append(self.missing, True)[self.codes], dtype=bool)

    def taken(self, values: Any) -> Any:
        """Values of cells as values of rows, missing where the row is."""
        if self.codes is None:
            return values
        if isinstance(values, np.ndarray) and values.dtype == object:
            return np.append(values, [None])[self.codes]
        return pd.api.extensions.take(values, self.codes, allow_fill=True)


def look(series: pd.Series, missing_texts: frozenset[str] = frozenset({""})) -> RawColumn:
    """The column in one of the forms.

    Args:
        series: *Sensitive*. Of any dtype; it is not changed.
    """
    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(series, missing_texts)
    if isinstance(dtype, pd.ArrowDtype):
        series = from_arrow(series.array.__arrow_array__())
        dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = series.astype(dtype.subtype)
        dtype = series.dtype
    if isinstance(dtype, pd.DatetimeTZDtype) or dtype.kind == "M":
        return _times(series)
    if pd.api.types.is_bool_dtype(dtype):
        missing = series.isna().to_numpy()
        return RawColumn("boolean", series.to_numpy(dtype=bool, na_value=False), missing)
    if dtype.kind in "iu":
        return _integers(series)
    if dtype.kind == "f":
        reals = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return RawColumn("real", reals, np.isnan(reals), digits=15 if dtype.itemsize >= 8 else 6)
    return _objects(series.to_numpy(dtype=object), missing_texts)


def from_arrow(column: Any) -> pd.Series:
    """A column of Arrow as pandas, without loss: whole numbers stay whole and days become times."""
    import pyarrow as pa

    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _days(column) if pa.types.is_date(kind) else _clocks(column)
    if pa.types.is_null(kind):
        return pd.Series([None] * len(column), dtype=object)
    if column.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        name = "boolean" if pa.types.is_boolean(kind) else str(kind).replace("int", "Int").replace("uI", "UI")
        dtype: Any = pd.api.types.pandas_dtype(name)
        return pd.Series(dtype.__from_arrow__(column))
    if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
        return from_arrow(column.cast(kind.value_type))
    try:
        series: pd.Series = column.to_pandas()
    except (pa.ArrowException, UnicodeDecodeError):
        return _decoded(column)
    return series


def as_frame_column(column: Any) -> pd.Series:
    """A column of Arrow as a frame keeps it: as `from_arrow`, but for decimals, whose type is that of Arrow."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    return from_arrow(column)


_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d+), ?(-?\d+)\)\[pyarrow\]", re.ASCII)


def dtype_of(text: str) -> Any:
    """The dtype of a name, also of decimals, which pandas writes so and does not read.

    >>> dtype_of("decimal128(10, 2)[pyarrow]").pyarrow_dtype.scale
    2
    """
    import pyarrow as pa

    digits = _DECIMAL.fullmatch(text)
    if digits is None:
        return pd.api.types.pandas_dtype(text)
    try:
        return pd.ArrowDtype(getattr(pa, digits[1])(int(digits[2]), int(digits[3])))
    except (AttributeError, ValueError):  # more digits than there are, or than this version of Arrow has
        raise TypeError(text) from None


def _decoded(column: Any) -> pd.Series:
    """Texts that are not all UTF-8: what is not becomes half surrogate pairs, which no reader takes for text."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    wide = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    texts = [None if cell is None else cell.decode(errors="surrogateescape") for cell in column.cast(wide).to_pylist()]
    return pd.Series(texts, dtype=object)


def _days(column: Any) -> pd.Series:
    """Days of Arrow as times; those that microseconds do not reach are brought to the ages."""
    import pyarrow as pa

    unit = "D" if pa.types.is_date32(column.type) else "ms"
    counts = column.cast(pa.int32() if unit == "D" else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    first, last = (age.astype(f"datetime64[{unit}]").astype(np.int64) for age in _AGES)
    stamps = np.clip(counts, first, last).astype(f"datetime64[{unit}]").astype("datetime64[us]")
    stamps[column.is_null().to_numpy()] = np.datetime64("NaT", "us")
    return pd.Series(stamps)


def _clocks(column: Any) -> pd.Series:
    """Times of day of Arrow as Python's, to the microsecond; missing where there is no such time."""
    import pyarrow as pa

    kind = column.type
    counts = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).to_pylist()
    steps = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    micros = [None if count is None else count * 10**6 // steps for count in counts]
    clocks = [None if m is None or not 0 <= m < _DAY else _START + dt.timedelta(microseconds=m) for m in micros]
    return pd.Series([None if clock is None else clock.time() for clock in clocks], dtype=object)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _categorical(series: pd.Series, missing_texts: frozenset[str]) -> RawColumn:
    levels = look(pd.Series(series.cat.categories), missing_texts)
    codes = series.cat.codes.to_numpy().astype(np.int64)
    if levels.codes is not None:
        codes = np.append(levels.codes, -1)[codes]
    return replace(levels, codes=codes)


def _times(series: pd.Series) -> RawColumn:
    zone = series.dt.tz
    naive = series.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else series
    stamps = naive.to_numpy()
    if np.datetime_data(stamps.dtype)[0] != "ns":  # coarser units reach further than microseconds do
        stamps = np.where(np.isnat(stamps), stamps, np.clip(stamps, *(limit.astype(stamps.dtype) for limit in _AGES)))
    return RawColumn("time", stamps, np.isnat(stamps), zone=zone)


def _integers(series: pd.Series) -> RawColumn:
    missing = series.isna().to_numpy()
    if series.dtype.kind == "u" and series.dtype.itemsize == 8 and bool((series.dropna() > INT64_MAX).any()):  # type: ignore[union-attr]
        return RawColumn("mixed", series.to_numpy(dtype=object), missing)
    return RawColumn("integer", series.to_numpy(dtype=np.int64, na_value=0), missing)


def _objects(cells: np.ndarray, missing_texts: frozenset[str]) -> RawColumn:
    found = _text_codes(cells)
    if found is None:
        return _uniform(cells, _missing(cells, missing_texts))
    codes, texts = found
    absent = np.fromiter((text in missing_texts for text in texts), dtype=bool, count=len(texts))
    return RawColumn("text", texts, absent, codes=codes)


def _text_codes(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The number of each cell's text, -1 where missing, and the distinct texts; `None` where a cell is neither.

    pandas compares texts as C strings: to it all that follows a NUL is nothing, and one cell would stand for others.

    Args:
        cells: *Sensitive*. Objects of any type, shape (n,).

    Returns:
        Codes, shape (n,), int64, and texts in the order they were met, as objects.
    """
    numbers: dict[str, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    for index, cell in enumerate(cells):
        if isinstance(cell, str):
            codes[index] = numbers.setdefault(str(cell), len(numbers))
        elif cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and math.isnan(cell)):
            codes[index] = -1
        else:
            return None
    texts = np.empty(len(numbers), dtype=object)
    texts[:] = list(numbers)
    return codes, texts


def _missing(cells: np.ndarray, missing_texts: frozenset[str]) -> np.ndarray:
    texts = np.fromiter((isinstance(v, str) and v in missing_texts for v in cells), dtype=bool, count=len(cells))
    absent: np.ndarray = pd.isna(cells) | texts
    return absent


def _uniform(cells: np.ndarray, missing: np.ndarray) -> RawColumn:
    """Objects that are all of one numeric kind in that form, all others as they are."""
    form = _FORMS.get(pd.api.types.infer_dtype(cells[~missing], skipna=True))
    present = cells[~missing]
    if form is None or (form != "boolean" and not _exact(present)):
        return RawColumn("mixed", cells, missing)
    dtype = {"integer": np.int64, "real": np.float64, "boolean": bool}[form]
    values = np.zeros(len(cells), dtype=dtype)
    values[~missing] = present.astype(dtype)
    return RawColumn(form, values, missing)


def _exact(present: np.ndarray) -> bool:
    """True if all whole numbers fit 64 bits, and a float where there are floats beside them."""
    whole = [int(v) for v in present if isinstance(v, int | np.integer)]
    limit = INT64_MAX if len(whole) == len(present) else EXACT_FLOAT
    return all(-limit - 1 <= v <= limit for v in whole)


class Fault(StrEnum):
    """A kind of fault in a cell."""

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


UNREADABLE = (Fault.NUMBER, Fault.INFINITE, Fault.TEXT, Fault.BOOLEAN, Fault.TIME, Fault.ZONE)
"""Cells that no value of the column's kind stands for: writing them would lose them."""
CLAMPED = (Fault.BOUNDS, Fault.CATEGORY, *UNREADABLE)
"""Faults of cells that clamping replaces: by the nearest bound, by whatever is unknown, by a missing cell."""
BIT = {fault: np.uint16(1 << i) for i, fault in enumerate(Fault)}
"""The bit of each kind in the faults of a chunk's cells; 0 is a cell that fits."""


def words(fault: Fault, column: Column, *, declared: bool) -> tuple[str, str]:
    """The rule that a fault breaks and the remedy; neither tells a value."""
    rule, remedy = _PLAIN[fault] if fault in _PLAIN else _TELLING[fault](column)
    return rule, _OF_LIMITS if declared and fault in _LIMITS else remedy


_OR_MISSING = "correct them, or list their text in missing_values where it stands for missing"

_LIMITS = (Fault.BOUNDS, Fault.CATEGORY)
_OF_LIMITS = (
    'correct the table or let it be clamped (outside = "clamp" in the [table] of a job, --clamp of a command); '
    "the limits of a declared schema are public, so they must not be set by looking at the table"
)

_PLAIN: dict[Fault, tuple[str, str]] = {
    Fault.FRACTION: (
        "holds numbers with a fraction, which kind='integer' excludes",
        "declare the column as kind='real'",
    ),
    Fault.INFINITE: ("holds infinite values", "replace them or leave those cells empty"),
    Fault.TEXT: ("mixes in values that are not text", "convert the whole column to text first"),
    Fault.CLOCK: ("holds times of day, which kind='date' excludes", "declare the column as kind='datetime'"),
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


def _bounds(column: Any) -> tuple[str, str]:
    low, high = column.bounds
    return f"holds values outside bounds=[{low}, {high}]", "correct them or widen the bounds in the schema"


def _precision(column: Any) -> tuple[str, str]:
    if isinstance(column, DatetimeColumn):
        return f"holds times finer than precision={column.precision!r}", "set a finer precision in the schema"
    return f"holds numbers with more digits than decimals={column.decimals}", "raise decimals in the schema"


def _zone(column: Any) -> tuple[str, str]:
    if column.kind == "date" or column.timezone is None:
        return "holds times with a zone where none is declared", 'set timezone to an IANA name or to "mixed"'
    return "holds times without an offset, which timezone='mixed' needs", "write every time with its offset"


def _time(column: Any) -> tuple[str, str]:
    return f"holds values that are no {column.kind} of format={column.format or 'ISO 8601'!r}", _OR_MISSING


def _boolean(column: Any) -> tuple[str, str]:
    return f"holds values that are neither of tokens={list(column.tokens)}", _OR_MISSING


def _number(column: Any) -> tuple[str, str]:
    return f"mixes in values that are not numbers, which kind={column.kind!r} needs", _OR_MISSING


_TELLING: dict[Fault, Callable[[Any], tuple[str, str]]] = {
    Fault.BOUNDS: _bounds,
    Fault.PRECISION: _precision,
    Fault.ZONE: _zone,
    Fault.TIME: _time,
    Fault.BOOLEAN: _boolean,
    Fault.NUMBER: _number,
}


Faults = dict[Fault, np.ndarray]


@dataclass(frozen=True)
class Read:
    """Cells read as a kind."""

    values: Any
    faults: Faults


def each(given: RawColumn, parse: Callable[[Any], Any]) -> tuple[list[Any], Faults]:
    """Every cell parsed, `None` where missing or at fault, and the faults."""
    results = [None if absent else parse(cell) for cell, absent in zip(given.cells, given.missing, strict=True)]
    faults: Faults = {}
    for index, result in enumerate(results):
        if isinstance(result, Fault):
            faults.setdefault(result, np.zeros(len(results), dtype=bool))[index] = True
            results[index] = None
    return results, faults


def none(given: RawColumn) -> np.ndarray:
    """No cell at all, as flags."""
    return np.zeros(len(given.cells), dtype=bool)
