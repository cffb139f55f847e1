"""Cells of a stored column as places on the line, or as numbers of its categories, in expressions of its backend.

They are what `synth.table` makes of the same cells in memory where each is read alone: what does not fit is clamped,
unknown, or missing, and no row has a say in how another is read.
"""

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from synth.columns import BooleanColumn, CategoricalColumn, DateColumn, DatetimeColumn, IntegerColumn
from synth.domain import line
from synth.domain.discretizer import MISSING, OTHER, Attribute, categories
from synth.errors import TableError
from synth.stored.functions import exactly, floor, half_even, microseconds
from synth.table.kinds import holds_whole_numbers

# DEVIATES: in memory exponents may be longer; backends disagree on what they overflow to.
NUMBER = r"^[+-]?([0-9]{1,200}([.][0-9]{0,200})?|[.][0-9]{1,200})([eE][+-]?[0-9]{1,2})?$"
DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
CLOCK = r"[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
_LARGEST_EXACT = 2.0**52
_LARGEST_WHOLE = 2.0**63
_CALENDAR = tuple(
    int(np.datetime64(end, "us").astype(np.int64)) for end in ("0001-01-01", "9999-12-31T23:59:59.999999")
)
_TRIES_CASTS = ("duckdb", "pyspark")
"""Backends on which a text that is no day is null; on others it ends the query."""


@dataclass(frozen=True)
class Reader:
    """How the cells of one stored table are read.

    Attributes:
        backend: Ibis's name of where they are.
        missing_texts: texts that stand for a missing value.
    """

    backend: str
    missing_texts: frozenset[str]

    def places(self, cells: ir.Column, name: str, column: line.LineColumn) -> ir.FloatingColumn:
        """Where each cell lies on the line, within the bounds; null where it is missing or cannot be read.

        Args:
            cells: *Sensitive*. Of any type.
            name: of the column, for messages.
            column: a number, a date or a time.

        Raises:
            TableError: this type cannot be read as that kind where the table is; nothing was read.
        """
        low, high = line.bounds(column)
        if isinstance(column, DateColumn | DatetimeColumn):
            return self._moments(cells, name, column)
        reals = self._reals(cells, name)
        if isinstance(column, IntegerColumn):
            return _clip(half_even(reals), low, high)
        if column.decimals is not None:
            scale = exactly(10.0**column.decimals)
            steps = reals * scale
            reals = ibis.ifelse(steps.abs() < exactly(_LARGEST_EXACT), half_even(steps) / scale, reals)
        return _clip(reals, low, high)

    def members(self, cells: ir.Column, name: str, column: CategoricalColumn | BooleanColumn) -> ir.IntegerColumn:
        """The number of each cell's category; one past the last where it is unknown, two where it is missing.

        Args:
            cells: *Sensitive*. Of any type.
            name: of the column, for messages.
            column: lists the categories.
        """
        known = categories(column)
        if isinstance(column, BooleanColumn):
            values, listed = self._truths(cells, name, column)
        elif holds_whole_numbers(column):
            values, listed = self._whole_numbers(cells, name, known)
        else:
            values, listed = self._texts(cells, name, known)
        branches = [(values.isnull(), _code(len(known) + 1))]
        branches += [(values == value, _code(place)) for place, value in enumerate(listed) if value is not None]
        return ibis.cases(*branches, else_=_code(len(known)))

    def unlisted(self, cells: ir.Column, name: str, column: CategoricalColumn) -> ir.Column:
        """The value of each cell of a column whose categories are to be measured; null where it is missing."""
        kind = cells.type()
        if not holds_whole_numbers(column):
            if not kind.is_string():
                raise self._cannot(name, kind, "texts to be measured")
            return self.present(cells)
        low, high = column.limits
        if kind.is_integer():
            return _within(cells, low, high).cast("int64")
        reals = self._reals(cells, name)
        within = (reals == floor(reals)) & (reals.abs() < exactly(_LARGEST_WHOLE))
        whole = ibis.ifelse(within, reals, ibis.null("float64")).cast("int64")
        return _within(whole, low, high)

    def _truths(self, cells: ir.Column, name: str, column: BooleanColumn) -> tuple[ir.Column, list[Any]]:
        """Cells in which whatever is neither true nor false is missing, and what false and true are there."""
        kind = cells.type()
        if kind.is_string():
            known = list(column.tokens)
            return ibis.ifelse(cells.isin(known), cells, ibis.null("string")), known
        if kind.is_boolean():
            return cells, [False, True]
        reals = self._reals(cells, name)
        return ibis.ifelse(reals.isin([0.0, 1.0]), reals, ibis.null("float64")), [exactly(0.0), exactly(1.0)]

    def _whole_numbers(self, cells: ir.Column, name: str, known: tuple[Any, ...]) -> tuple[ir.Column, list[Any]]:
        if cells.type().is_integer():
            return cells, list(known)
        return half_even(self._reals(cells, name)), [exactly(float(category)) for category in known]

    def _texts(self, cells: ir.Column, name: str, known: tuple[Any, ...]) -> tuple[ir.Column, list[Any]]:
        kind = cells.type()
        if kind.is_string():
            return self.present(cells), list(known)
        if kind.is_boolean():
            return cells, [{"False": False, "True": True}.get(text) for text in known]
        numbers = [_number_of(text) for text in known]
        if kind.is_integer():
            return cells, [number if isinstance(number, int) else None for number in numbers]
        return self._reals(cells, name), [None if number is None else exactly(number) for number in numbers]

    def present(self, texts: ir.StringColumn) -> ir.StringColumn:
        """Texts, null where they stand for a missing value."""
        return ibis.ifelse(texts.isin(sorted({"", *self.missing_texts})), ibis.null("string"), texts)

    def _reals(self, cells: ir.Column, name: str) -> ir.FloatingColumn:
        """Cells as finite reals, null where they are none."""
        kind = cells.type()
        if kind.is_string():
            # Not even looked at unless it is a number: a cast that fails would end the query.
            number = ibis.ifelse(self.present(cells).re_search(NUMBER), cells, ibis.null("string"))
            return number.cast("float64")
        if kind.is_boolean():
            return cells.ifelse(1.0, 0.0)
        if not kind.is_numeric():
            raise self._cannot(name, kind, "a number")
        reals = cells.cast("float64")
        if kind.is_floating():
            # What is not finite has no difference to itself; Ibis's own test for infinity is always false on Spark.
            return ibis.ifelse((reals - reals).isnan(), ibis.null("float64"), reals)
        return reals

    def _moments(self, cells: ir.Column, name: str, column: DateColumn | DatetimeColumn) -> ir.FloatingColumn:
        micros = self._micros(cells, name, column)
        unit = line.DAY if isinstance(column, DateColumn) else line.MICROSECONDS[column.precision]
        late = ((micros % unit) + unit) % unit
        low, high = (int(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
        held = _clip(micros - late, low, high)
        return (held // unit if isinstance(column, DateColumn) else held).cast("float64")

    def _micros(self, cells: ir.Column, name: str, column: DateColumn | DatetimeColumn) -> ir.IntegerColumn:
        """Microseconds since 1970 of each cell, of UTC where the column has a zone; null where it is missing."""
        kind, zone = cells.type(), getattr(column, "timezone", None)
        if kind.is_string():
            cells, kind = self._parsed(cells, name, column)
        if kind.is_date():
            if zone is not None:
                raise self._cannot(name, kind, f"a time of timezone={zone!r}")
            found = cells.delta(ibis.date("1970-01-01"), unit="day").cast("int64") * line.DAY
        elif kind.is_timestamp() and ((kind.timezone is None) == (zone is None) or self.backend == "pyspark"):
            # Spark's own type is a moment that is shown on the clock of the session, with a zone or without.
            found = microseconds(cells, self.backend)
        else:
            raise self._cannot(name, kind, "a time without a zone" if zone is None else f"one of timezone={zone!r}")
        return _within(found, *_CALENDAR)

    def _parsed(self, texts: ir.StringColumn, name: str, column: DateColumn | DatetimeColumn) -> tuple[Any, Any]:
        """Texts in ISO's form as days or times, null where there is no such day; where the backend can tell."""
        form = "%Y-%m-%d" if isinstance(column, DateColumn) else None
        if self.backend not in _TRIES_CASTS or column.format != form or getattr(column, "timezone", None) is not None:
            raise self._cannot(name, texts.type(), "a day or a time")
        pattern = f"^{DATE}$" if isinstance(column, DateColumn) else f"^{DATE}({CLOCK})?$"
        sound = ibis.ifelse(self.present(texts).re_search(pattern), texts, ibis.null("string"))
        moments = sound.try_cast("date" if isinstance(column, DateColumn) else "timestamp")
        return moments, moments.type()

    def _cannot(self, name: str, kind: Any, wanted: str) -> TableError:
        return TableError(
            f"column={name!r} is of type={str(kind)!r} where it is stored, which is not read as {wanted}; convert it "
            "there, in a view for example, or change its kind in the schema"
        )


def code_of(found: ir.NumericColumn, attribute: Attribute) -> ir.IntegerColumn:
    """The code of every cell that was read, total as `Attribute.codes` is.

    Args:
        found: *Sensitive*. Places, or numbers of categories, as a `Reader` gives them.
        attribute: gives cells and the codes that they are merged into.
    """
    if attribute.edges is None:
        return _looked_up(found, attribute.group)
    codes = _between(found, attribute.edges, attribute.group[:OTHER], 0, attribute.n_cells - 3)
    return ibis.ifelse(found.isnull(), _code(int(attribute.group[MISSING])), codes)


def cell_of(found: ir.FloatingColumn, edges: np.ndarray) -> ir.IntegerColumn:
    """The cell between edges that every place lies in, those beyond in the outermost; null where it is missing."""
    cells = _between(found, edges, np.arange(len(edges) - 1), 0, len(edges) - 2)
    return ibis.ifelse(found.isnull(), ibis.null("int16"), cells)


def _looked_up(members: ir.NumericColumn, group: np.ndarray) -> ir.IntegerColumn:
    branches = [(members == place, _code(int(code))) for place, code in enumerate(group[:-1])]
    return ibis.cases(*branches, else_=_code(int(group[-1])))


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


def _within(found: Any, low: int, high: int) -> Any:
    """Whole numbers, null where they are not between two others."""
    return ibis.ifelse((found >= low) & (found <= high), found, ibis.null(found.type()))


def _clip(found: Any, low: Any, high: Any) -> Any:
    """Within the bounds; null where it was."""
    bound = exactly if isinstance(low, float) else ibis.literal
    return ibis.cases((found < bound(low), bound(low)), (found > bound(high), bound(high)), else_=found)


def _code(code: int) -> ir.IntegerScalar:
    return ibis.literal(code, "int16")


def _number_of(text: str) -> int | float | None:
    """The number that is written like this in memory; none where no number is."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and (kind is int or not float(text).is_integer()):
            return number
    return None
