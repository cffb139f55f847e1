"""Days and times: from text and Python objects to microseconds, and back to text without loss."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from synth.schema.kinds import Column
from synth.schema.kinds.dates import filled, is_bare_number, read_as, write_as
from synth.table.decode import Fault

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
ISO_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,6}0{0,3})?)?(Z|[+-]\d\d:?\d\d(:?\d\d)?)?)?", re.ASCII
)

Parse = Callable[[str], dt.datetime | None]


def parser(column: Column) -> Parse:
    """The parser of one text of the column; it gives `None` for a text that is not in the column's form."""
    if column.is_date and column.format == "%Y-%m-%d":
        return lambda text: iso(text) if ISO_DATE.fullmatch(text) else None
    if column.format is None:
        return lambda text: iso(text) if ISO_DATETIME.fullmatch(text) else None
    form, pattern = read_as(column.format), _iso_pattern(column.format)

    def by_format(text: str) -> dt.datetime | None:
        if pattern is not None and (known := pattern.fullmatch(text)) is not None:
            return iso(known[1])
        try:
            return dt.datetime.strptime(filled(text, column.format) if is_bare_number(column.format) else text, form)
        except ValueError:
            return None

    return by_format


_ISO_PARTS = {"%.": r"(?:\.\d{1,9})?", "%Y": r"\d{4}", "%f": r"\d{6}", "%:z": r"[+-]\d\d:\d\d", "%z": r"[+-]\d{4}"}
_ISO_PARTS |= {f"%{letter}": r"\d\d" for letter in "mdHMS"} | {f"%{n}f": rf"\d{{{n}}}" for n in range(1, 10)}
_ISO_FORM = re.compile(r"(%Y-%m-%d[T ]%H:%M(?::%S(?:[.,]%\d?f|%\.\d?f)?)?(?:%:?z)?)([^%]*)")


@cache
def _iso_pattern(form: str) -> re.Pattern[str] | None:
    """The texts of a format that are ISO 8601, in a group without what follows; `strptime` is slow, and reads less."""
    known = _ISO_FORM.fullmatch(form)
    if known is None:
        return None
    form = re.sub(r"%\.\d?f", "%.", known[1])
    pattern = re.sub(r"%:?\d?[a-zA-Z.]|.", lambda part: _ISO_PARTS.get(part[0]) or re.escape(part[0]), form)
    return re.compile(f"({pattern}){re.escape(known[2])}", re.ASCII)


def iso(text: str) -> dt.datetime | None:
    """The moment of a text of ISO 8601; `None` where it is of no calendar."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def plain(value: Any) -> dt.datetime | Fault:
    if isinstance(value, pd.Timestamp):
        return Fault.PRECISION if value.nanosecond else value.to_pydatetime()
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    if isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]").item()
        return moment if isinstance(moment, dt.datetime) else Fault.TIME
    return Fault.TIME


def micros(moments: Sequence[dt.datetime | None]) -> np.ndarray:
    """Microseconds of the wall clock since 1970, shape (n,), int64; the lowest number where there is none."""
    naive = [None if moment is None else moment.replace(tzinfo=None) for moment in moments]
    return np.array(naive, dtype="datetime64[us]").astype(np.int64)


def offsets(moments: Sequence[dt.datetime | None]) -> np.ndarray:
    """Microseconds that each moment's zone is ahead of UTC, shape (n,), int64; 0 without a zone."""
    ahead = [None if moment is None else moment.utcoffset() for moment in moments]
    return np.array([0 if delta is None else delta // dt.timedelta(microseconds=1) for delta in ahead], dtype=np.int64)


def in_zone(moment: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """A moment, of UTC without a zone, on the clock of another; as it is where that shows no year of the calendar."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    try:
        return aware.astimezone(zone)
    except OverflowError:
        return aware


def with_offsets(utc: np.ndarray, ahead: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Datetimes that each keep their own offset, shape (n,), object with `None` where absent."""
    wall = (utc + ahead).astype("datetime64[us]").tolist()
    moments = np.empty(len(utc), dtype=object)
    for index, (moment, shift) in enumerate(zip(wall, ahead.tolist(), strict=True)):
        if not absent[index] and isinstance(moment, dt.datetime):
            moments[index] = moment.replace(tzinfo=_offset(shift))
    return moments


@cache
def _offset(ahead: int) -> dt.timezone:
    return dt.timezone(dt.timedelta(microseconds=ahead)) if ahead else dt.UTC


def texts(series: pd.Series, column: Column) -> list[str | None]:
    write = writer(column)
    if column.is_date and column.timezone is not None:
        series = column.in_zone(series)
    return [None if moment is None else write(moment) for moment in pythonic(series)]


def pythonic(series: pd.Series) -> list[dt.datetime | None]:
    if series.dtype == object:
        return list(series)
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        utc = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy().astype("datetime64[us]").tolist()
        zone = ZoneInfo(str(series.dt.tz))
        return [None if moment is None else moment.replace(tzinfo=dt.UTC).astimezone(zone) for moment in utc]
    naive: list[dt.datetime | None] = series.to_numpy().astype("datetime64[us]").tolist()
    return naive


def writer(column: Column) -> Callable[[dt.datetime], str]:
    if column.is_date and column.format == "%Y-%m-%d":
        return lambda moment: moment.date().isoformat()
    if column.format is None:
        return lambda moment: moment.isoformat()
    return partial(write_as, column.format)
