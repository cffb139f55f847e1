"""What Ibis does not say alike for every backend: floors that stay reals, microseconds, hashes, exact literals."""

from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

_MILLION = 1_000_000


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


def exactly(number: float) -> ir.FloatingScalar:
    """A literal that every backend reads as this very float64: bare, `0.1` may be a decimal there."""
    return ibis.literal(repr(float(number))).cast("float64")


def half_even(reals: ir.FloatingColumn) -> ir.FloatingColumn:
    """Rounded to whole numbers as IEEE 754 rounds: halves to the even neighbor; still reals."""
    below = floor(reals)
    rest = reals - below
    odd = below - 2.0 * floor(below / 2.0) == 1.0
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    return ibis.ifelse(up, below + 1.0, below)


def microseconds(moments: ir.TimestampColumn, backend: str) -> ir.IntegerColumn:
    """Since 1970, of times of any year; of UTC where the times have a zone.

    Args:
        moments: *Sensitive*. Times.
        backend: Ibis's name of it.
    """
    if backend == "duckdb":
        return _epoch_us(moments)
    if backend == "pyspark":
        # On the clock of the session, which Ibis sets to UTC.
        return _unix_micros(moments if moments.type().timezone else moments.cast(dt.Timestamp(timezone="UTC")))
    whole = _date_part("epoch", moments.truncate("s")).cast("int64") * _MILLION
    return whole + _date_part("microseconds", moments).cast("int64") % _MILLION
