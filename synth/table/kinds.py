"""Cells as values of a declared kind, with what is wrong with each."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from synth.columns import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    PersonalColumn,
    RealColumn,
    WeightColumn,
)
from synth.table.cells import Faults, Read, each, none
from synth.table.faults import Fault
from synth.table.given import Given
from synth.table.numeric import integers, reals_of
from synth.table.temporal import times
from synth.texts import is_plain


def read(given: Given, column: Column, *, clamp: bool) -> Read:
    """The cells as values of the column's kind.

    Args:
        given: *Sensitive*. The cells.
        column: their declared kind.
        clamp: bring numbers and times that lie outside the bounds to the nearest bound.
    """
    if isinstance(column, IntegerColumn) or holds_whole_numbers(column):
        return integers(given, column, clamp)
    if isinstance(column, RealColumn | WeightColumn):
        return reals_of(given, column, clamp)
    if isinstance(column, BooleanColumn):
        return _booleans(given, column)
    if isinstance(column, DateColumn | DatetimeColumn):
        return times(given, column, clamp)
    if isinstance(column, PersonalColumn):
        return _personal(given)
    return _texts(given, column, clamp)


def holds_whole_numbers(column: Column) -> bool:
    """Whether categories or identifiers are whole numbers rather than text."""
    if isinstance(column, CategoricalColumn):
        return column.whole_numbers or (bool(column.categories) and isinstance(column.categories[0], int))
    return isinstance(column, IdentifierColumn) and column.bounds is not None


def _booleans(given: Given, column: BooleanColumn) -> Read:
    if given.form == "boolean":
        return Read(pd.arrays.BooleanArray(given.cells.astype(bool), given.missing.copy()), {})
    if given.form in ("integer", "real"):
        wrong = ~given.missing & (given.cells != 0) & (given.cells != 1)
        absent = given.missing | wrong
        return Read(
            pd.arrays.BooleanArray(np.where(absent, 0, given.cells).astype(bool), absent), {Fault.BOOLEAN: wrong}
        )
    known = dict(zip(column.tokens, (False, True), strict=True))
    results, faults = each(given, lambda cell: _truth(cell, known))
    absent = np.array([r is None for r in results], dtype=bool)
    return Read(pd.arrays.BooleanArray(np.array([r is True for r in results], dtype=bool), absent), faults)


def _truth(cell: Any, known: dict[str, bool]) -> bool | Fault:
    if isinstance(cell, str):
        return known.get(cell, Fault.BOOLEAN)
    if isinstance(cell, bool | np.bool_ | int | np.integer) and cell in (0, 1):
        return bool(cell)
    return Fault.BOOLEAN


def _personal(given: Given) -> Read:
    """Cells as texts, whole numbers without a point. Nothing in them is learned, so that none can be at fault."""
    values = np.full(len(given.cells), None, dtype=object)
    for index in np.flatnonzero(~given.missing):
        cell = given.cells[index]
        whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
        values[index] = str(int(cell) if whole else cell)
    return Read(values, {})


def _texts(given: Given, column: Column, clamp: bool) -> Read:
    faults: Faults = {}
    if given.form == "text":
        values = given.cells.copy()
        values[given.missing] = None
    elif given.form == "integer":
        values = np.array(
            [None if m else str(v) for v, m in zip(given.cells, given.missing, strict=True)], dtype=object
        )
    else:
        values, faults = _forced_texts(given, clamp)
    if isinstance(column, CategoricalColumn):
        if column.measure:
            faults[Fault.TEXT] = faults.get(Fault.TEXT, none(given)) | _take_unwritable(values)
        else:
            faults[Fault.CATEGORY] = _outside(values, column.categories)
    return Read(values, faults)


def _forced_texts(given: Given, clamp: bool) -> tuple[np.ndarray, Faults]:
    """Cells that are not all text: those that are, and the others as text where clamped, else missing."""
    is_text = np.fromiter((isinstance(cell, str) for cell in given.cells), dtype=bool, count=len(given.cells))
    values = np.full(len(given.cells), None, dtype=object)
    for index in np.flatnonzero(~given.missing & (is_text | clamp)):
        values[index] = str(given.cells[index])
    return values, {Fault.TEXT: ~given.missing & ~is_text}


def _take_unwritable(values: np.ndarray) -> np.ndarray:
    """Which texts no list of categories can name, for a NUL or half a surrogate pair; they are taken out."""
    flags = np.fromiter((v is not None and not is_plain(v) for v in values), dtype=bool, count=len(values))
    values[flags] = None
    return flags


def _outside(values: np.ndarray, categories: Iterable[Any]) -> np.ndarray:
    known = set(categories)
    return np.fromiter((v is not None and v not in known for v in values), dtype=bool, count=len(values))
