"""The place of a cell in a list, and what stands at a place of one, in expressions that stay short however long it is.

A list is one text, split there into an array: thousands of branches, or of literals, would be planned for seconds.
"""

import math
from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.types as ir

from synth.stored.functions import ARRAY_POSITION, exactly
from synth.stored.numbers import ABOVE_INT64

_SEPARATORS = (*range(31, 0, -1), *range(0xE000, 0xF900))
"""Characters that hardly any text holds; the first ones are in every encoding of a database."""


def place_in(listed: Sequence[Any], cells: ir.Column) -> ir.IntegerColumn:
    """The place of each cell in a list, from 0; one past its end where it is none of it, or null.

    Args:
        listed: values of the cells' kind; none for one that no cell is.
        cells: *Sensitive*. Texts, whole numbers of 64 bits, truths or reals.
    """
    beyond = ibis.literal(len(listed), "int32")
    if all(value is None for value in listed):
        return beyond
    kind: Any = cells.type()
    if kind.is_string() or kind.is_integer():
        # No whole number is written as nothing.
        texts = _split(["" if value is None else str(value) for value in listed])
        found = ARRAY_POSITION["string"](texts, cells.cast("string"))
    else:
        found = ARRAY_POSITION["boolean" if kind.is_boolean() else "float64"](_array(listed, kind), cells)
    return ibis.coalesce((found.nullif(0) - 1).cast("int32"), beyond)


def value_at(listed: Sequence[int], places: ir.IntegerColumn) -> ir.IntegerColumn:
    """The whole number at each place of a list.

    Args:
        listed: small whole numbers.
        places: *Sensitive*. Within the list, never null.
    """
    if len(set(listed)) == 1:
        return ibis.literal(int(listed[0]), "int32")
    return places if list(listed) == list(range(len(listed))) else _split([*map(str, listed)])[places].cast("int32")


def number_of(text: str) -> int | float | None:
    """The number that is written like this in memory; none where no number is."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        whole = float(number).is_integer() and abs(number) < ABOVE_INT64
        if str(number) == text and math.isfinite(number) and whole == (kind is int):
            return number
    return None


def _split(texts: Sequence[str]) -> ir.ArrayValue:
    held = set().union(*texts)
    separator = next(chr(code) for code in _SEPARATORS if chr(code) not in held)
    return ibis.literal(separator.join(texts)).split(separator)


def _array(listed: Sequence[Any], kind: Any) -> ir.ArrayValue:
    if kind.is_boolean():
        return ibis.literal(list(listed), "array<boolean>")
    return ibis.array([ibis.null("float64") if value is None else exactly(value) for value in listed])
