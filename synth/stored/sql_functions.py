"""SQL functions that Ibis does not say alike for every backend: floors that stay reals, microseconds, hashes."""

import datetime
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np

_MILLION = 1_000_000
CALENDAR = tuple(
    int(np.datetime64(end, "us").astype(np.int64)) for end in (datetime.datetime.min, datetime.datetime.max)
)
"""The first and the last microsecond that Python's datetimes reach, since 1970."""
_BEFORE = 1_000_000 * 86_400_000_000
"""Microseconds from a time before the calendar to 1970, whole in every unit."""


@ibis.udf.scalar.builtin(name="floor")
def floor(x: float) -> float:  # type: ignore[empty-body]
    """The whole number at or below, as a real: Ibis's own is cast to 64 bits, which large ones overflow."""


@ibis.udf.scalar.builtin(name="md5")
def md5(text: str) -> str:  # type: ignore[empty-body]
    """Of the text in UTF-8, as 32 lower-case hexadecimal digits."""


@ibis.udf.scalar.builtin(name="epoch_us", signature=(("timestamp",), "int64"))
def _epoch_us(moment: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="unix_micros", signature=(("timestamp",), "int64"))
def _unix_micros(moment: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="date_part", signature=(("string", "timestamp"), "float64"))
def _date_part(part: str, moment: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="epoch_ns", signature=(("timestamp",), "int64"))
def _epoch_ns(moment: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="trim_scale", signature=(("decimal",), "decimal"))
def _trim_scale(number: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="trunc", signature=(("decimal",), "decimal"))
def cut_off(number: Any) -> Any:
    """A decimal of DuckDB without what is behind its point."""


@ibis.udf.scalar.builtin(name="convert_to", signature=(("string", "string"), "binary"))
def _convert_to(text: Any, encoding: Any) -> Any: ...


def by_bytes(texts: ir.StringColumn, backend: str) -> Any:
    """Texts such that they sort by their bytes in UTF-8, as in memory; a collation of PostgreSQL has another order."""
    return _convert_to(texts, "UTF8") if backend == "postgres" else texts


@ibis.udf.scalar.builtin(name="has_database_privilege")
def _has_database_privilege(database: str, privilege: str) -> bool:  # type: ignore[empty-body]
    """True where the user has this privilege."""


@ibis.udf.scalar.builtin(name="current_setting")
def _current_setting(setting: str) -> str:  # type: ignore[empty-body]
    """Of the session."""


def may_have_temporary_tables(database: str) -> Any:
    """True where the user of a session of PostgreSQL may have temporary tables."""
    return _has_database_privilege(database, "TEMP") & (_current_setting("transaction_read_only") == "off")


def _array_position(kind: str) -> Any:
    def array_position(listed: Any, value: Any) -> Any: ...

    return ibis.udf.scalar.builtin(array_position, signature=((f"array<{kind}>", kind), "int64"))


ARRAY_POSITION = {kind: _array_position(kind) for kind in ("string", "float64", "boolean")}
"""The place of a value in an array of its kind, counted from 1; null or 0 where it is none of it."""


def one_text(cells: ir.Column, backend: str) -> ir.StringColumn:
    """Cells as texts, one for each value: a `numeric` of PostgreSQL has as many as there are scales to write it in."""
    if cells.type().is_floating():
        cells = ibis.ifelse(cells == exactly(0.0), cells.abs(), cells)  # one zero
    return (_trim_scale(cells) if backend == "postgres" and cells.type().is_decimal() else cells).cast("string")


def holds_nul(texts: ir.StringColumn, backend: str) -> ir.BooleanColumn:
    """Flags of the texts that hold a NUL; in PostgreSQL none can."""
    if backend not in ("duckdb", "pyspark"):
        return ibis.literal(False)
    return matches(texts, r"\x00")


@ibis.udf.scalar.builtin(name="divide", signature=(("int64", "int64"), "int64"))
def _divide(whole: Any, by: Any) -> Any: ...


@ibis.udf.scalar.builtin(name="div", signature=(("int64", "int64"), "decimal"))
def _div(whole: Any, by: Any) -> Any: ...


def matches(texts: ir.StringColumn, pattern: str) -> ir.BooleanColumn:
    """Flags of the texts with a match of a pattern, in the syntax that RE2, Java and PostgreSQL share."""
    return texts.re_search(pattern)


def exactly(number: float) -> ir.FloatingScalar:
    """A literal that every backend reads as this very float64: bare, `0.1` may be a decimal there."""
    return ibis.literal(repr(float(number))).cast("float64")


def half_even(reals: ir.FloatingColumn) -> ir.FloatingColumn:
    """Rounded to whole numbers as IEEE 754 rounds: halves to the even neighbor; still reals."""
    # Beside 2^52 a float64 has no room for a fraction, so that adding it rounds, and subtracting it is exact.
    most = exactly(2.0**52)
    held = ibis.ifelse(reals < exactly(0.0), (reals - most) + most, (reals + most) - most)
    return ibis.ifelse(reals.abs() < most, held, reals)


@ibis.udf.scalar.builtin(name="isfinite")
def is_finite(x: float) -> bool:  # type: ignore[empty-body]
    """True if a real of DuckDB is neither infinite nor no number."""


def microseconds(moments: ir.TimestampColumn, backend: str) -> ir.IntegerColumn:
    """Since 1970, of UTC where the times have a zone; null beyond the years 1 to 9999.

    Args:
        moments: *Sensitive*. Times, infinite ones among them.
    """
    kind: Any = moments.type()
    if backend == "duckdb":
        if kind.scale == 9:
            # DuckDB cuts nanoseconds off towards 1970, memory downwards.
            return _epoch_us(moments) - ibis.ifelse(_epoch_ns(moments) % 1_000 < 0, 1, 0)
        return within(_epoch_us(moments), *CALENDAR)
    if backend == "pyspark":
        return within(_of_spark(moments), *CALENDAR)
    # Infinity has no epoch, and that of far years overflows: neither may be asked for.
    zone = None if kind.timezone is None else datetime.UTC
    low, high = (ibis.literal(end.replace(tzinfo=zone), kind) for end in (datetime.datetime.min, datetime.datetime.max))
    sound = ibis.ifelse((moments >= low) & (moments <= high), moments, ibis.null(kind))
    return microseconds_within(sound, backend)


def microseconds_within(moments: ir.TimestampColumn, backend: str) -> ir.IntegerColumn:
    """The same of times that are known to be of the calendar, and are without a zone or null."""
    if backend == "duckdb":
        return _epoch_us(moments)
    if backend == "pyspark":
        return _of_spark(moments)
    whole = _date_part("epoch", moments.truncate("s")).cast("int64") * _MILLION
    return whole + _date_part("microseconds", moments).cast("int64") % _MILLION


def _of_spark(moments: Any) -> Any:
    # On the clock of the session, which Ibis sets to UTC.
    return _unix_micros(moments if moments.type().timezone else moments.cast(dt.Timestamp(timezone="UTC")))


def floored(micros: ir.IntegerColumn, unit: int, backend: str) -> ir.IntegerColumn:
    """Whole units since 1970 at or below; each is named once, as a long expression would be worked out as often.

    Args:
        micros: *Sensitive*. Of the calendar, or a day beyond.
    """
    if unit == 1:
        return micros
    if backend == "pyspark":  # it divides as reals do, and works out alike expressions once
        return (micros - ((micros % unit) + unit) % unit) // unit
    # Counted from before the calendar, so that cutting off is rounding down.
    start = _BEFORE // unit
    if backend == "postgres":
        return _div(micros + _BEFORE, unit).cast("int64") - start
    units = _divide(micros + _BEFORE, unit) if backend == "duckdb" else (micros + _BEFORE) // unit
    return units - start


def finer_than_micros(moments: ir.TimestampColumn, backend: str) -> ir.BooleanColumn:
    """Flags of the times with nanoseconds that microseconds do not hold."""
    kind: Any = moments.type()
    if backend != "duckdb" or not kind.is_timestamp() or kind.scale != 9:
        return ibis.literal(False)
    return _epoch_ns(moments) % 1_000 != 0


def days(dates: ir.DateColumn) -> ir.IntegerColumn:
    """Since 1970, null beyond the years 1 to 9999.

    Args:
        dates: *Sensitive*. Days, infinite ones among them.
    """
    low, high = (ibis.literal(end) for end in (datetime.date.min, datetime.date.max))
    sound = ibis.ifelse((dates >= low) & (dates <= high), dates, ibis.null("date"))
    return sound.delta(ibis.date("1970-01-01"), unit="day").cast("int64")


def within(found: Any, low: int, high: int) -> Any:
    """Whole numbers, null where they are not between two others."""
    return ibis.ifelse((found >= low) & (found <= high), found, ibis.null(found.type()))
