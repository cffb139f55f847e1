"""Faults of cells: what may be wrong with one, as a bit of a number, and in words that tell no value."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import numpy as np


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
_TOO_FINE = "holds times finer than precision={column.precision!r}", "set a finer precision in the schema"
_NO_OFFSET = "holds times without an offset, which timezone='mixed' needs", "write every time with its offset"
_OF_LIMITS = (
    'correct the table or let it be clamped (outside = "clamp" in the [table] of a job, --clamp of a command); '
    "the limits of a declared schema are public, so they must not be set by looking at the table"
)


def words(fault: Fault, column: Any, *, declared: bool) -> tuple[str, str]:
    """The rule that a fault breaks and the remedy; neither tells a value."""
    rule, remedy = _WORDS[fault]
    if fault is Fault.PRECISION and column.is_time:
        rule, remedy = _TOO_FINE
    if fault is Fault.ZONE and column.kind != "date" and column.timezone is not None:
        rule, remedy = _NO_OFFSET
    low, high = getattr(column, "bounds", None) or ("", "")
    form, tokens = getattr(column, "format", None) or "ISO 8601", list(getattr(column, "tokens", ()))
    rule = rule.format(column=column, low=low, high=high, form=form, tokens=tokens)
    return rule, _OF_LIMITS if declared and fault in (Fault.BOUNDS, Fault.CATEGORY) else remedy
