"""Whether constraints fit the columns that they name."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    TextColumn,
    WeightColumn,
    is_measured,
    measures_spikes,
)
from synth.constraints.kinds import Constraint, FixedCombinations, Formula, Inequality, Unique
from synth.errors import nearest

Columns = Mapping[str, Column]
_NUMERIC = (IntegerColumn, RealColumn, WeightColumn)


def check(constraints: Sequence[Constraint], columns: Columns) -> None:
    """Refuse constraints that the columns do not allow.

    Args:
        constraints: all of a schema's.
        columns: all of its columns.

    Raises:
        ValueError: a constraint names no column, or not one of its kind, or formulas do not fit together; the message
            says which by its number, from 0.
    """
    for place, constraint in enumerate(constraints):
        try:
            _check_names(constraint, columns)
            _CHECKS[type(constraint)](constraint, columns)
        except ValueError as error:
            raise ValueError(f"constraints.{place}: {error}") from None
    formulas = [constraint for constraint in constraints if isinstance(constraint, Formula)]
    computed = [formula.column for formula in formulas]
    twice = next((name for name in computed if computed.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"column={twice!r} has two formulas; keep one")
    in_order(formulas)


def in_order(formulas: Sequence[Formula]) -> list[Formula]:
    """The formulas with each after those that its operands need.

    Raises:
        ValueError: formulas refer to each other in a circle.
    """
    waiting, placed = list(formulas), list[Formula]()
    while waiting:
        unknown = {formula.column for formula in waiting}
        ready = [formula for formula in waiting if unknown.isdisjoint(formula.operands)]
        if not ready:
            circle = ", ".join(repr(formula.column) for formula in waiting)
            raise ValueError(f"formulas need each other in a circle: columns {circle}; take one of them out")
        placed += ready
        waiting = [formula for formula in waiting if formula not in ready]
    return placed


def _check_names(constraint: Constraint, columns: Columns) -> None:
    for name in constraint.columns:
        if name not in columns:
            raise ValueError(f"{name!r} is not a column; {nearest(name, columns)}")
        if columns[name].drop:
            raise ValueError(f"column={name!r} is dropped; keep the column, or leave the constraint out")
        in_key = isinstance(constraint, Unique) and isinstance(columns[name], IdentifierColumn)
        if isinstance(columns[name], IdentifierColumn | PersonalColumn | TextColumn) and not in_key:
            raise ValueError(f"column={name!r} is of kind {columns[name].kind}, which is made anew; name another")


def _check_inequality(constraint: Inequality, columns: Columns) -> None:
    low, high = columns[constraint.low], columns[constraint.high]
    for name, column in ((constraint.low, low), (constraint.high, high)):
        if not isinstance(column, (*_NUMERIC, DateColumn, DatetimeColumn)):
            raise ValueError(f"column={name!r} is of kind {column.kind}, which has no order; name a number or a time")
    if isinstance(low, _NUMERIC) != isinstance(high, _NUMERIC):
        raise ValueError(
            f"columns {constraint.low!r} and {constraint.high!r} are a number and a time; compare like with like"
        )
    if _has_zone(low) != _has_zone(high):
        raise ValueError(
            f"columns {constraint.low!r} and {constraint.high!r} are a time with a zone and one without, which cannot "
            "be compared; declare timezone for both or for neither"
        )
    if constraint.by_day:
        _check_days(constraint, columns)


def _check_days(constraint: Inequality, columns: Columns) -> None:
    for name in constraint.columns:
        column = columns[name]
        if isinstance(column, _NUMERIC):
            raise ValueError(f"by_day=true compares times: column={name!r} is of kind {column.kind}; leave by_day out")
        zone = getattr(column, "timezone", None)
        if zone not in (None, "UTC"):
            raise ValueError(
                f"by_day=true compares days by wall clock or in UTC: column={name!r} has timezone={zone!r}; leave "
                "by_day out, or declare another timezone"
            )


def _has_zone(column: Column) -> bool:
    return isinstance(column, DatetimeColumn) and column.timezone is not None


def _check_combinations(constraint: FixedCombinations, columns: Columns) -> None:
    for index, name in enumerate(constraint.columns):
        column = columns[name]
        if not isinstance(column, CategoricalColumn | BooleanColumn | IntegerColumn):
            raise ValueError(
                f"column={name!r} is of kind {column.kind}; combinations are of categorical, boolean or integer columns"
            )
        if is_measured(column):
            raise ValueError(
                f"column={name!r} is to be measured, while its combinations name its values as public; leave out "
                "measure = true, or the constraint"
            )
        for place, combination in enumerate(constraint.combinations):
            if not _allows(column, combination[index]):
                raise ValueError(
                    f"combination {place} has {combination[index]!r}, which column={name!r} cannot hold; correct the "
                    "combination, or the column's declaration"
                )


def _allows(column: Column, value: Any) -> bool:
    if isinstance(column, BooleanColumn):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if isinstance(column, IntegerColumn):
        return isinstance(value, int) and column.bounds[0] <= value <= column.bounds[1]
    return isinstance(column, CategoricalColumn) and value in column.categories


def _check_formula(constraint: Formula, columns: Columns) -> None:
    for name in constraint.columns:
        if not isinstance(columns[name], _NUMERIC):
            raise ValueError(
                f"column={name!r} is of kind {columns[name].kind}; a formula is about integer, real and weight columns"
            )
    if is_measured(columns[constraint.column]):
        raise ValueError(
            f"column={constraint.column!r} is computed, and what is computed is not measured; declare its bounds"
        )
    if measures_spikes(columns[constraint.column]):
        raise ValueError(
            f"column={constraint.column!r} is computed, and what is computed is not measured; leave out "
            "measure_spikes = true"
        )


def _check_unique(constraint: Unique, columns: Columns) -> None:
    """All kinds that pass `_check_names` can be compared; the schema knows which identifier is the entity."""


_CHECKS: Mapping[type[Any], Any] = {
    Inequality: _check_inequality,
    FixedCombinations: _check_combinations,
    Formula: _check_formula,
    Unique: _check_unique,
}
