"""Strict decoding: what a cell stands for depends on the cell and the declared column, never on its neighbors.

A private fit reads tables this way. Were a column's form inferred from all its cells, one row could change how every
other row is read. No noise on counts would hide that.
"""

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from synth.schema.kinds import (
    BooleanColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    RealColumn,
    WeightColumn,
)
from synth.table import datetime_codec
from synth.table.cells import RawColumn, from_arrow, look
from synth.table.decode import holds_whole_numbers
from synth.validation import is_plain

_ZONE_PACKAGES = frozenset({"datetime", "zoneinfo", "pytz", "dateutil", "pandas"})
_LARGEST_EXPONENT = 400
"""Decimals beyond ten to this are out of any bounds, and slow to write out."""


def look_alone(series: pd.Series, column: Column, missing_texts: frozenset[str]) -> RawColumn:
    """The column in a form that reads each cell as if it were alone.

    Args:
        series: *Sensitive*. Of any dtype, holding anything; it is not changed.
    """
    series = _unwrapped(series)
    if _reads_alike(series.dtype, column):
        given = look(series, missing_texts)
        if given.form == "time":
            return _within_the_calendar(given)
        if given.form != "mixed":
            return given
    cells = as_objects(series)
    if isinstance(column, DateColumn | DatetimeColumn):
        return _given("mixed", [_time(cell, missing_texts) for cell in cells])
    return _given("text", [cell_text(cell, column, missing_texts) for cell in cells])


def _unwrapped(series: pd.Series) -> pd.Series:
    """The column without the wrappers of Arrow, of categories and of sparse storage."""
    dtype: Any = series.dtype
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"):
        return from_arrow(series.array.__arrow_array__())
    if isinstance(dtype, pd.CategoricalDtype):
        levels = np.append(as_objects(pd.Series(series.cat.categories)), [None])
        return pd.Series(levels[series.cat.codes.to_numpy()], dtype=object)
    return series.astype(dtype.subtype) if isinstance(dtype, pd.SparseDtype) else series


def _within_the_calendar(given: RawColumn) -> RawColumn:
    """Times with those missing that lie in years (of UTC, where there is a zone) beyond Python's datetimes."""
    years = given.cells.astype("datetime64[Y]").astype(np.int64) + 1970
    return replace(given, missing=given.missing | (years < dt.MINYEAR) | (years > dt.MAXYEAR))


def as_objects(series: pd.Series) -> np.ndarray:
    """The cells as Python objects; pandas itself may crash on times of far years."""
    dtype: Any = series.dtype
    if not isinstance(dtype, pd.DatetimeTZDtype) and dtype.kind != "M":
        return series.to_numpy(dtype=object)
    given = _within_the_calendar(look(series))
    known = given.zone is None or _is_known(given.zone)
    stamps = np.where(given.missing, np.datetime64("NaT", "us"), given.cells).astype("datetime64[us]").tolist()
    made = np.empty(len(stamps), dtype=object)
    for index, stamp in enumerate(stamps if known else []):
        made[index] = stamp if stamp is None or given.zone is None else datetime_codec.in_zone(stamp, given.zone)
    return made


def _is_known(zone: Any) -> bool:
    return type(zone).__module__.split(".")[0] in _ZONE_PACKAGES


def _reads_alike(dtype: Any, column: Column) -> bool:
    """True if a typed column is read cell by cell as objects of that type would be."""
    if isinstance(column, DateColumn | DatetimeColumn):
        zone = column.timezone if isinstance(column, DatetimeColumn) else None
        if isinstance(dtype, pd.DatetimeTZDtype):
            return zone not in (None, "mixed")
        return bool(dtype.kind == "M") and zone is None
    numeric = is_number(column) or isinstance(column, BooleanColumn)
    return numeric and bool(dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize <= 8))


def _given(form: Any, cells: list[Any]) -> RawColumn:
    if form == "text":
        numbers: dict[str, int] = {}
        codes = [-1 if cell is None else numbers.setdefault(cell, len(numbers)) for cell in cells]
        texts = np.array([*numbers, None], dtype=object)[:-1]  # without the last, numpy would make text of it
        return RawColumn("text", texts, np.zeros(len(texts), dtype=bool), codes=np.array(codes, dtype=np.int64))
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return RawColumn(form, values, np.fromiter((cell is None for cell in cells), dtype=bool, count=len(cells)))


def cell_text(cell: Any, column: Column, missing_texts: frozenset[str]) -> str | None:
    """The content of a cell as text; `None` where it is missing or nothing that a table holds."""
    kind = type(cell)
    if kind is str or issubclass(kind, np.str_):
        return _plain_text(cell, missing_texts)
    if kind is bool or issubclass(kind, np.bool_):
        return _truth(bool(cell), column)
    number = _number(cell)
    if number is None:
        return None
    if isinstance(column, BooleanColumn):
        return column.tokens[int(number)] if number in (0, 1) else None
    return str(number)


def _plain_text(cell: Any, missing_texts: frozenset[str]) -> str | None:
    text = str(cell)
    # To pandas, what follows a NUL is nothing: rows would be taken for others.
    return None if text in missing_texts or not is_plain(text) else text


def _truth(cell: bool, column: Column) -> str:
    """True and false in the words of a boolean column, as 1 and 0 where numbers are, else as Python writes them."""
    if isinstance(column, BooleanColumn):
        return column.tokens[int(cell)]
    return str(int(cell)) if is_number(column) else str(cell)


def is_number(column: Column) -> bool:
    """True if a column holds numbers."""
    return isinstance(column, IntegerColumn | RealColumn | WeightColumn) or holds_whole_numbers(column)


def _number(cell: Any) -> int | float | None:
    """A number, whole where it is whole, so that 1 and 1.0 say the same; `None` where it is none or not finite."""
    kind = type(cell)
    if kind is int or (issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64)):
        whole = int(cell)
        return whole if abs(whole) < 10**40 else None
    if kind is Decimal:
        return _of_decimal(cell)
    if kind is complex or issubclass(kind, np.complexfloating):
        cell = cell.real if cell.imag == 0 else None
        kind = type(cell)
    if kind is not float and not issubclass(kind, np.floating):
        return None
    with np.errstate(over="ignore"):
        real = float(cell)
    if not math.isfinite(real):
        return None
    return int(real) if real.is_integer() and abs(real) < 2.0**63 else real


def _of_decimal(cell: Decimal) -> int | float | None:
    if not cell.is_finite() or abs(cell.adjusted()) > _LARGEST_EXPONENT:
        return None
    if cell.adjusted() < 20 and cell == cell.to_integral_value():
        return int(cell)
    real = float(cell)
    return real if math.isfinite(real) else None


def _time(cell: Any, missing_texts: frozenset[str]) -> str | dt.datetime | None:
    """A text or a datetime to the microsecond; `None` for anything else."""
    kind = type(cell)
    if kind is str or issubclass(kind, np.str_):
        return _plain_text(cell, missing_texts)
    if kind is pd.Timestamp or issubclass(kind, np.datetime64):
        return _of_timestamp(cell) if kind is pd.Timestamp else _of_stamp(cell)
    if kind is dt.date:
        return dt.datetime.combine(cell, dt.time())
    if kind is not dt.datetime:
        return None
    found: dt.datetime = cell
    if found.tzinfo is None:
        return found.replace(fold=0)  # a typed column of times cannot tell the second of two equal hours
    return found if _is_known(found.tzinfo) and _in_calendar(found) else None


def _of_stamp(stamp: np.datetime64) -> dt.datetime | None:
    """The year comes first: pandas and numpy overflow, or crash, on times of far years."""
    if np.isnat(stamp) or not dt.MINYEAR <= int(stamp.astype("datetime64[Y]").astype(np.int64)) + 1970 <= dt.MAXYEAR:
        return None
    moment: dt.datetime = stamp.astype("datetime64[us]").item()
    return moment


def _of_timestamp(stamp: pd.Timestamp) -> dt.datetime | None:
    """The same moment as a typed column holds it: its year is that of UTC."""
    zone = stamp.tzinfo
    if zone is not None and not _is_known(zone):
        return None
    moment = _of_stamp(stamp.to_datetime64())
    return moment if moment is None or zone is None else datetime_codec.in_zone(moment, zone)


def _in_calendar(moment: dt.datetime) -> bool:
    try:
        moment.astimezone(dt.UTC)
    except OverflowError:
        return False
    return True
