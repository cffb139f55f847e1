"""Cells of a stored column as finite reals, or as whole numbers, in expressions that no cell can make fail."""

from typing import Any

import ibis
import ibis.expr.types as ir

from synth.schema.kinds.number import INT64
from synth.stored.sql_functions import cut_off, exactly, floor, is_finite, matches

LONGEST = 400
# DEVIATES: in memory 400 digits may stand on either side of the point.
"""Characters of a text that is read as a number."""
NUMBER = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,9})?"
_MANTISSA = "[+-]?([0-9]{{1,{n}}}([.][0-9]{{0,{n}}})?|[.][0-9]{{1,{n}}})"
_HELD = (
    _MANTISSA.format(n=200) + "([eE][+-]?0{0,9}[0-9]{1,2})?|"
    + _MANTISSA.format(n=40) + "[eE][+-]?0{0,9}(1[0-9]{2}|2[0-4][0-9])"
)  # fmt: skip
# DEVIATES: in memory larger numbers lie beyond the bounds, and smaller ones are zero; here they are missing.
"""Numbers that are neither too large nor too small for float64, where a cast of others ends the query."""
_PRECISE = 15
"""Digits up to which a decimal is turned into a float64 without a rounding of its own."""
TRIES_CASTS = ("duckdb", "pyspark")
"""Backends on which a text that is no number can be null; on others it ends the query."""
_TOO_LARGE, _TOO_SMALL, _NOTHING = "1.797693134862315807e308", "3e-324", "1e-400"
"""Decimals from which float64 is infinite; below which it is zero; below which memory reads none."""
_DIGITS = "[+-]?[0-9]{1,40}"
"""Texts that are read as whole numbers digit by digit, as in memory; others by way of float64, as there."""
ABOVE_INT64 = 2.0**63


def of_texts(texts: ir.StringColumn, backend: str) -> ir.FloatingColumn:
    """Texts as finite reals, null where they are no number.

    Args:
        texts: *Sensitive*. Null where they stand for a missing value.
    """
    # Not even looked at unless it is a number: a cast that fails would end the query.
    if backend in TRIES_CASTS:
        return finite(_only(texts, is_number(texts, backend)).try_cast("float64"), backend)
    return _only(texts, whole_match(texts, _HELD, backend)).cast("float64")


def is_number(texts: ir.StringColumn, backend: str) -> ir.BooleanColumn:
    """Flags of the texts that are a number."""
    return (texts.length() <= LONGEST) & whole_match(texts, NUMBER, backend)


def whole_match(texts: ir.StringColumn, pattern: str, backend: str) -> ir.BooleanColumn:
    """Flags of the texts of a pattern, from their first character to their last, be it a line break."""
    return matches(texts, f"^({pattern})" + ("\\z" if backend == "pyspark" else "$"))


def of_decimals(cells: ir.DecimalColumn, backend: str) -> ir.FloatingColumn:
    """Decimals as finite reals, null where they are not a number or infinite."""
    if backend == "postgres":
        return _of_unbounded(cells)
    precision = cells.type().precision
    if backend == "duckdb" and (precision is None or precision > _PRECISE):
        return cells.cast("string").cast("float64")  # its own cast rounds twice
    return cells.cast("float64")


def whole_of_texts(texts: ir.StringColumn, backend: str) -> ir.IntegerColumn:
    """Texts as whole numbers, null where they are none of 64 bits.

    Args:
        texts: *Sensitive*. Null where they stand for a missing value.
    """
    digits = _only(texts, whole_match(texts, _DIGITS, backend))
    exact = digits.try_cast("int64") if backend in TRIES_CASTS else _of_64_bits(digits.cast("decimal"))
    return ibis.coalesce(exact, whole_of_reals(of_texts(texts, backend)))


def whole_of_decimals(cells: ir.DecimalColumn, backend: str) -> ir.IntegerColumn:
    """Decimals as whole numbers, null where they are none of 64 bits; not by way of float64, where two may be one."""
    # DEVIATES: in memory 2**53 + 0.5 is 2**53, since a decimal with a fraction is a float64 there; here it is missing.
    if backend not in TRIES_CASTS:
        return _of_64_bits(ibis.ifelse(cells % 1 == 0, cells, ibis.null(cells.type())))
    if cells.type().scale != 0:
        # Cut off as it is, since its neighbor may have a digit too many for the type; Spark rests on remainders.
        whole = cut_off(cells) == cells if backend == "duckdb" else cells % 1 == 0
        cells = ibis.ifelse(whole, cells, ibis.null(cells.type()))
    return cells.try_cast("int64")


def whole_of_reals(reals: ir.FloatingColumn) -> ir.IntegerColumn:
    """Finite reals as whole numbers, null where they are none of 64 bits."""
    whole = (reals == floor(reals)) & (reals.abs() < exactly(ABOVE_INT64))
    return ibis.ifelse(whole, reals, ibis.null("float64")).cast("int64")


def _of_64_bits(whole: ir.DecimalColumn) -> ir.IntegerColumn:
    """Whole decimals of PostgreSQL, whose cast ends the query where they have more bits; infinite ones have."""
    low, high = (ibis.literal(str(end)).cast("decimal") for end in INT64)
    return ibis.ifelse((whole >= low) & (whole <= high), whole, ibis.null(whole.type())).cast("int64")


def finite(reals: ir.FloatingColumn, backend: str) -> ir.FloatingColumn:
    """Reals, null where they are not finite."""
    if backend == "duckdb":
        return ibis.ifelse(is_finite(reals), reals, ibis.null("float64"))
    # What is not finite has no difference to itself; Ibis's own test for infinity is always false on Spark.
    return ibis.ifelse((reals - reals).isnan(), ibis.null("float64"), reals)


def _of_unbounded(cells: ir.DecimalColumn) -> ir.FloatingColumn:
    """Decimals of PostgreSQL, which may be infinite, no number, or beyond float64 on either side."""
    too_large, too_small, nothing, zero = (
        ibis.literal(text).cast("decimal") for text in (_TOO_LARGE, _TOO_SMALL, _NOTHING, "0")
    )
    size = cells.abs()
    held = ibis.ifelse((size < too_large) & (size >= too_small), cells, ibis.null(cells.type())).cast("float64")
    vanishing = (size == zero) | ((size >= nothing) & (size < too_small))
    return ibis.ifelse(vanishing, exactly(0.0), held)


def _only(texts: Any, where: Any) -> Any:
    return ibis.ifelse(where, texts, ibis.null("string"))
