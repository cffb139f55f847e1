"""Constraint checks of a stored table: the rows that break a constraint, in expressions of its backend.

They are the checks of `synth.domain` where rows are stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ibis
import ibis.expr.types as ir

from synth.constraints import Constraint, FixedCombinations, Formula, Inequality, Unique
from synth.constraints.expression import ConstantTerm, Expression, Name
from synth.domain.constraint_checks import NOISE, compares_days
from synth.schema.kinds import BooleanColumn, CategoricalColumn, Column, IdentifierColumn
from synth.schema.kinds.moments import DAY
from synth.stored.decode import Reader, place_in, value_at
from synth.stored.numeric import finite
from synth.stored.sql_functions import exactly, floor
from synth.stored.table import StoredTable
from synth.stored.violations import own_values

_MODERATE = 1e150
"""Numbers between its inverse and this can be multiplied and divided without overflow, which ends some queries."""
_SPACING = 2.0**-52
_BETWEEN = "|"


def placed(
    table: StoredTable, reader: Reader, constraints: Sequence[Constraint], columns: Mapping[str, Column]
) -> tuple[StoredTable, dict[str, str]]:
    """The table beside the places of numbers and times that constraints name, each worked out once, and their columns.

    A constraint names a place many times over, and a place may be a long expression.

    Args:
        table: *Sensitive* where it is real.
    """
    named = dict.fromkeys(name for constraint in constraints for name in constraint.columns)
    apart = (BooleanColumn, CategoricalColumn, IdentifierColumn)
    found = {name: f"understudy_place_{i}" for i, name in enumerate(named) if not isinstance(columns[name], apart)}
    if not found:
        return table, found
    places = {key: reader.places(table.rows[name], name, columns[name]) for name, key in found.items()}  # type: ignore[arg-type]
    rows = table.place.written(table.place.apart(table.rows.mutate(**places)))
    return replace(table, rows=rows), found


@dataclass(frozen=True)
class Laws:
    """Constraint checks on the rows of one table, clamped to its schema.

    Attributes:
        rows: *Sensitive* where they are real. The columns as they are stored, and places of some of them.
    """

    rows: ir.Table = field(repr=False)
    reader: Reader
    columns: Mapping[str, Column]
    placed: Mapping[str, str]

    def broken(self, constraint: Constraint) -> ir.BooleanColumn:
        """Flags of the rows that break a constraint; of rows that repeat each other, all of them do. Never null."""
        if isinstance(constraint, Inequality):
            by_day = compares_days(constraint, self.columns)
            low, high = (self._on_one_line(name, by_day=by_day) for name in constraint.columns)
            return (low >= high if constraint.strict else low > high).fill_null(False)
        if isinstance(constraint, FixedCombinations):
            return self._unlisted(constraint)
        if isinstance(constraint, Unique):
            return self.repeats(constraint) > 1
        return self._miscalculated(constraint)

    def repeats(self, constraint: Unique) -> ir.IntegerColumn:
        """The count of rows with the values of each row; 1 where one of them is missing."""
        values = [self.told_apart(name) for name in constraint.columns]
        missing = values[0].isnull()
        for value in values[1:]:
            missing = missing | value.isnull()
        together = self.rows.count().over(group_by=values)
        return ibis.ifelse(missing, 1, together).cast("int64")

    def told_apart(self, name: str) -> Any:
        """The cells of a column in a form in which equal values are equal; null where they are missing."""
        column: Any = self.columns[name]
        cells = self.rows[name]
        if column.is_identifier:
            return own_values(cells, column, self.reader)
        if column.is_boolean:
            members = self.reader.members(cells, name, column)
            return ibis.ifelse(members > 1, ibis.null("int32"), members)
        if not isinstance(column, CategoricalColumn):
            return self._place(name)
        if column.holds_whole_numbers:
            return self.reader.rounded_wholes(cells, name)
        return self.reader.present(cells) if cells.type().is_string() else cells

    def _place(self, name: str) -> Any:
        return self.rows[self.placed[name]]

    def _on_one_line(self, name: str, *, by_day: bool) -> Any:
        place, day = self._place(name), exactly(float(DAY))
        if self.columns[name].is_date:
            return place * day
        return floor(place / day) * day if by_day else place

    def _unlisted(self, constraint: FixedCombinations) -> Any:
        """The rows whose values, each as its number among those that are listed, are no listed combination."""
        numbers, missing = [], ibis.literal(False)
        known: list[dict[Any, int]] = []
        for index, name in enumerate(constraint.columns):
            values = dict.fromkeys(combination[index] for combination in constraint.combinations)
            known.append({value: number for number, value in enumerate(values)})
            number, absent = self._numbered(name, list(values))
            numbers.append(number.cast("string"))
            missing = missing | absent
        # As texts, which hold any number of columns.
        listed = {
            _BETWEEN.join(str(places[value]) for value, places in zip(combination, known, strict=True))
            for combination in constraint.combinations
        }
        return ibis.literal(_BETWEEN).join(numbers).notin(sorted(listed)) & ~missing

    def _numbered(self, name: str, known: list[Any]) -> tuple[Any, Any]:
        """The number of each cell's value among those that are listed, one past the last for others; the missing."""
        column: Any = self.columns[name]
        if column.is_categorical:
            members = self.reader.members(self.rows[name], name, column)
            numbers = {value: number for number, value in enumerate(known)}
            # Of each category, of one that is unknown, and of a missing one.
            listed = [*(numbers.get(value, len(known)) for value in column.levels), len(known), len(known)]
            return value_at(listed, members), members == len(listed) - 1
        place = self._place(name)
        return place_in([float(value) for value in known], place), place.isnull()

    def _miscalculated(self, formula: Formula) -> Any:
        given, exact = self._place(formula.column), self._value(formula.parsed)
        unit = self.columns[formula.column].unit
        if unit is None:
            allowed = ibis.greatest(exact.abs(), exactly(1.0)) * exactly(NOISE)
        else:
            allowed = exactly(unit / 2 * (1 + 1e-6)) + exact.abs() * exactly(4 * _SPACING)
        differs = (given - exact).abs() > allowed
        return ibis.ifelse(given.isnull() | exact.isnull(), given.isnull() != exact.isnull(), differs)

    def _value(self, expression: Expression) -> Any:
        """The result of an expression in each row; null where an operand is missing or a divisor is zero."""
        if isinstance(expression, ConstantTerm):
            return exactly(expression.value)
        if isinstance(expression, Name):
            return self._place(expression.name)
        left, right = self._value(expression.left), self._value(expression.right)
        if expression.symbol == "+":
            return self._finite(left + right)
        if expression.symbol == "-":
            return self._finite(left - right)
        left, right = self._moderate(left), self._moderate(right)
        if expression.symbol == "*":
            return self._finite(left * right)
        divisor = ibis.ifelse(right == exactly(0.0), ibis.null("float64"), right)
        return self._finite(left / divisor)

    def _finite(self, made: Any) -> Any:
        return made if self.reader.backend == "postgres" else finite(made, self.reader.backend)

    def _moderate(self, reals: Any) -> Any:
        if self.reader.backend != "postgres":
            return reals
        size = reals.abs()
        held = ibis.ifelse(size < exactly(1.0 / _MODERATE), exactly(0.0), reals)
        return ibis.ifelse(size > exactly(_MODERATE), ibis.null("float64"), held)
