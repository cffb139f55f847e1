"""Cell faults: what may be wrong with cells of a column, the sentence for each, and cells read with their faults."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from synth.columns import Column, DatetimeColumn
from synth.table.raw_column import RawColumn


class Fault(StrEnum):
    """What is wrong with a cell."""

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


def words(fault: Fault, column: Column, *, declared: bool) -> tuple[str, str]:
    """The rule that a fault breaks and the remedy; neither tells a value.

    Args:
        fault: of a cell.
        column: of the cell.
        declared: whether the schema is public: what it lists and bounds is then not to be set by looking at the table.
    """
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
    """Cells read as a kind.

    Attributes:
        values: canonical values of the cells, brought inside the bounds where asked; missing where unreadable.
        faults: for each kind of fault, which cells have it, boolean.
    """

    values: Any
    faults: Faults


def each(given: RawColumn, parse: Callable[[Any], Any]) -> tuple[list[Any], Faults]:
    """Every cell parsed, none where missing or at fault, and the faults."""
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
