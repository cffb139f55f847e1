"""Stored cells as places on the line, or as numbers of their categories, in expressions of the backend.

They are what `synth.table.strict_decode` makes of the same cells in memory, where each is read alone. What does not fit
is clamped, unknown, or missing, and no row has a say in how another is read.

A list of categories is one text, split there into an array: thousands of branches, or of literals, would be planned for
seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import ibis
import ibis.expr.types as ir
import numpy as np

from synth.domain.discretizer import MISSING, OTHER, Attribute
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn, LineColumn
from synth.schema.kinds.moments import DAY, MICROSECONDS
from synth.schema.kinds.number import INT64
from synth.stored.numeric import (
    ABOVE_INT64,
    finite,
    of_decimals,
    of_texts,
    whole_of_decimals,
    whole_of_reals,
    whole_of_texts,
)
from synth.stored.sql_functions import ARRAY_POSITION, exactly, floored, half_even, holds_nul, within
from synth.stored.temporal import Moments, cannot, moments

_SEPARATORS = (*range(31, 0, -1), *range(0xE000, 0xF900))
"""Characters that hardly any text holds; the first ones are in every encoding of a database."""


def place_in(listed: Sequence[Any], cells: ir.Column) -> ir.IntegerColumn:
    """The place of each cell in a list, from 0; one past its end where it is none of it, or null.

    Args:
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
        places: *Sensitive*. Within the list, never null.
    """
    if len(set(listed)) == 1:
        return ibis.literal(int(listed[0]), "int32")
    return places if list(listed) == list(range(len(listed))) else _split([*map(str, listed)])[places].cast("int32")


def number_of(text: str) -> int | float | None:
    """The number that is written like this in memory; `None` where no number is."""
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


_LARGEST_EXACT = 2.0**52
_BELOW_INT64 = ABOVE_INT64 - 1024


@dataclass(frozen=True)
class Reader:
    """The reader of the cells of one stored table."""

    backend: str
    missing_texts: frozenset[str]
    placed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, backend: str, schema: Schema, placed: frozenset[str] = frozenset()) -> Self:
        """The reader of a table that a schema describes."""
        return cls(backend, frozenset({"", *schema.missing_values}), placed)

    def places(self, cells: ir.Column, name: str, column: LineColumn) -> ir.FloatingColumn:
        """The place of each cell on the line, within the bounds; null where it is missing or cannot be read.

        Args:
            cells: *Sensitive*. Of any type.
        """
        low, high = column.ends
        if name in self.placed:
            return clip(cells, low, high)
        if column.is_time:
            return self._places_of_moments(cells, name, column)
        reals = self.reals(cells, name)
        if column.is_whole:
            return clip(half_even(reals), low, high)
        if column.decimals is not None:
            reals = rounded(reals, column.decimals)
        return clip(reals, low, high)

    def members(self, cells: ir.Column, name: str, column: Any) -> ir.IntegerColumn:
        """The number of each cell's category; one past the last where it is unknown, two where it is missing.

        Args:
            cells: *Sensitive*. Of any type.
        """
        known = column.levels
        if column.is_boolean:
            values, listed = self._truths(cells, name, column)
        elif column.holds_whole_numbers:
            values, listed = self.rounded_wholes(cells, name), known
        else:
            values, listed = self._texts(cells, name, known)
        return ibis.ifelse(values.isnull(), ibis.literal(len(known) + 1, "int32"), place_in(listed, values))

    def unlisted(self, cells: ir.Column, name: str, column: CategoricalColumn) -> ir.Column:
        """The value of each cell of a column whose categories are to be measured; null where it is missing."""
        kind = cells.type()
        if not column.holds_whole_numbers:
            if kind.is_boolean():
                return ibis.cases((cells, "True"), (~cells, "False"), else_=ibis.null("string"))
            if kind.is_integer():
                return cells.cast("string")
            if not kind.is_string():
                raise cannot(name, kind, "texts to be measured")
            return self.present(cells)
        return within(self.wholes(cells, name), *column.limits)

    def _truths(self, cells: ir.Column, name: str, column: Any) -> tuple[ir.Column, Sequence[Any]]:
        """Cells in which whatever is neither true nor false is missing, and what false and true are there."""
        kind = cells.type()
        if kind.is_string():
            return ibis.ifelse(cells.isin(list(column.tokens)), cells, ibis.null("string")), column.tokens
        if kind.is_boolean():
            return cells, [False, True]
        reals = self.reals(cells, name)
        return ibis.ifelse(reals.isin([0.0, 1.0]), reals, ibis.null("float64")), [0.0, 1.0]

    def rounded_wholes(self, cells: ir.Column, name: str) -> ir.IntegerColumn:
        """Cells as whole numbers of 64 bits, rounded and cut off; null where they are no number."""
        if cells.type().is_integer():
            return _of_64_bits(cells, beyond=INT64[1])
        near = clip(half_even(self.reals(cells, name)), -ABOVE_INT64, _BELOW_INT64).cast("int64")
        return ibis.coalesce(self.wholes(cells, name), near)

    def _texts(self, cells: ir.Column, name: str, known: tuple[Any, ...]) -> tuple[ir.Column, Sequence[Any]]:
        kind = cells.type()
        if kind.is_string():
            return self.present(cells), known
        if kind.is_boolean():
            return cells, [{"False": False, "True": True}.get(text) for text in known]
        numbers = [number_of(text) for text in known]
        if kind.is_integer():
            whole = [number if isinstance(number, int) else None for number in numbers]
            return self.rounded_wholes(cells, name), whole
        return self.reals(cells, name), numbers

    def present(self, texts: ir.StringColumn) -> ir.StringColumn:
        """Texts, null where they stand for a missing value, or hold a NUL, which no reader takes for a text."""
        absent = texts.isin(sorted({"", *self.missing_texts})) | holds_nul(texts, self.backend)
        return ibis.ifelse(absent, ibis.null("string"), texts)

    def reals(self, cells: ir.Column, name: str) -> ir.FloatingColumn:
        """Cells as finite reals, null where they are none."""
        kind: Any = cells.type()
        if kind.is_string():
            return of_texts(self.present(cells), self.backend)
        if kind.is_boolean():
            return ibis.cases((cells, exactly(1.0)), (~cells, exactly(0.0)), else_=ibis.null("float64"))
        if kind.is_decimal():
            return of_decimals(cells, self.backend)
        if not kind.is_numeric():
            raise cannot(name, kind, "a number")
        return finite(cells.cast("float64"), self.backend) if kind.is_floating() else cells.cast("float64")

    def wholes(self, cells: ir.Column, name: str) -> ir.IntegerColumn:
        """Cells as whole numbers of 64 bits, null where they are none: rounded or cut off, one would be another."""
        kind: Any = cells.type()
        if kind.is_integer():
            return _of_64_bits(cells, beyond=None)
        if kind.is_string():
            return whole_of_texts(self.present(cells), self.backend)
        return whole_of_decimals(cells, self.backend) if kind.is_decimal() else whole_of_reals(self.reals(cells, name))

    def moments(self, cells: ir.Column, name: str, column: Any) -> Moments:
        """Cells as times."""
        return moments(self.present(cells) if cells.type().is_string() else cells, name, column, self.backend)

    def _places_of_moments(self, cells: ir.Column, name: str, column: Any) -> Any:
        unit = DAY if column.is_date else MICROSECONDS[column.precision]
        units = floored(self.moments(cells, name, column).micros, unit, self.backend)
        low, high = (int(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
        if column.is_date:
            return clip(units, low // unit, high // unit).cast("float64")
        return clip(units * unit, low, high).cast("float64")


def rounded(reals: ir.FloatingColumn, decimals: int) -> ir.FloatingColumn:
    """Reals rounded to so many digits after the point, where they have any."""
    scale = exactly(10.0**decimals)
    # Multiplied only where that cannot overflow, which ends the query on some backends.
    exact = reals.abs() < exactly(_LARGEST_EXACT / 10.0**decimals)
    return ibis.ifelse(exact, half_even(reals * scale) / scale, reals)


def code_of(found: ir.NumericColumn, attribute: Attribute) -> ir.IntegerColumn:
    """The code of every cell that was read, total as `Attribute.codes` is.

    Args:
        found: *Sensitive*. Places, or numbers of categories, as a `Reader` gives them.
    """
    if attribute.edges is None:
        return value_at(attribute.group.tolist(), found)
    codes = _between(found, attribute.edges, attribute.group[:OTHER], 0, attribute.n_cells - 3)
    return ibis.ifelse(found.isnull(), _code(int(attribute.group[MISSING])), codes)


def cell_of(found: ir.FloatingColumn, edges: np.ndarray) -> ir.IntegerColumn:
    """The cell between edges that every place lies in, those beyond in the outermost; null where it is missing."""
    cells = _between(found, edges, np.arange(len(edges) - 1), 0, len(edges) - 2)
    return ibis.ifelse(found.isnull(), ibis.null("int32"), cells)


def _between(found: ir.NumericColumn, edges: np.ndarray, codes: np.ndarray, low: int, high: int) -> Any:
    """The code of the cell that a place lies in, by halving; cells [low, high] hold it."""
    if (codes[low : high + 1] == codes[low]).all():
        return _code(int(codes[low]))
    middle = (low + high + 1) // 2
    # Between cells of one code there is nothing to decide: the nearest edge between codes is.
    return ibis.ifelse(
        found < exactly(edges[middle]),
        _between(found, edges, codes, low, middle - 1),
        _between(found, edges, codes, middle, high),
    )


def _of_64_bits(cells: ir.IntegerColumn, beyond: int | None) -> ir.IntegerColumn:
    """Whole numbers of 64 bits; `beyond` for unsigned ones that have more."""
    kind: Any = cells.type()
    held = ibis.ifelse(cells > INT64[1], ibis.literal(beyond, kind), cells) if kind.is_uint64() else cells
    return held.cast("int64")


def clip(found: Any, low: Any, high: Any) -> Any:
    """Within the bounds; null where it was."""
    least, most = (exactly(end) if isinstance(low, float) else ibis.literal(end, "int64") for end in (low, high))
    return ibis.ifelse(found.isnull(), ibis.null(found.type()), ibis.least(ibis.greatest(found, least), most))


def _code(code: int) -> ir.IntegerScalar:
    return ibis.literal(code, "int32")
