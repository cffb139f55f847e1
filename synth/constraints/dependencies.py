"""Functional dependencies between columns, as fixed combinations state them: one column determines another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from synth.columns import BooleanColumn, CategoricalColumn, Column
from synth.constraints.kinds import Constraint, FixedCombinations, Formula, Value


@dataclass(frozen=True)
class Dependency:
    """One column determines another.

    Attributes:
        determinant: the column that determines.
        dependent: the column that is determined.
        mapping: the value of the dependent by that of the determinant.
    """

    determinant: str
    dependent: str
    mapping: Mapping[Value, Value]


def dependencies(constraints: Sequence[Constraint]) -> Iterator[Dependency]:
    """Every functional dependency that the constraints state, in their order."""
    for constraint in constraints:
        if isinstance(constraint, FixedCombinations):
            for (determinant, dependent), values in constraint.determined.items():
                yield Dependency(determinant, dependent, values)


def equivalents(
    constraints: Sequence[Constraint], columns: Mapping[str, Column], first: Sequence[str], constant: Sequence[str]
) -> dict[str, Dependency]:
    """Columns that another determines and is determined by, so that a model need not hold them.

    A column that may be missing, or that a formula computes, is held. Each determinant is held itself.

    Args:
        constraints: checked against the columns.
        columns: all of the schema's.
        first: columns that are rather held than computed.
        constant: columns that hold one value in all rows of an entity; others do not determine these, or the reverse.

    Returns:
        For each column that is not held, what determines it.
    """
    computed = {constraint.column for constraint in constraints if isinstance(constraint, Formula)}
    found: dict[str, Dependency] = {}
    held: set[str] = set()
    for constraint in constraints:
        if not isinstance(constraint, FixedCombinations):
            continue
        for dependency in _by_rank(constraint, columns, first, held):
            names = {dependency.determinant, dependency.dependent}
            if (
                dependency.dependent not in held
                and names.isdisjoint(computed | found.keys())
                and not any(columns[name].missing for name in names)
                and len(names & set(constant)) != 1
            ):
                found[dependency.dependent] = dependency
                held.add(dependency.determinant)
    return found


def _by_rank(
    constraint: FixedCombinations, columns: Mapping[str, Column], first: Sequence[str], held: set[str]
) -> list[Dependency]:
    """The dependencies that hold both ways, those with the better determinant first."""

    def rank(name: str) -> tuple[bool, bool, bool, bool]:
        column = columns[name]
        has_order = isinstance(column, CategoricalColumn) and column.ordered
        has_levels = isinstance(column, CategoricalColumn | BooleanColumn)
        return name not in held, name not in first, not has_order, not has_levels

    determined = constraint.determined
    both_ways = [names for names in determined if names[::-1] in determined]
    return [Dependency(*names, determined[names]) for names in sorted(both_ways, key=lambda names: rank(names[0]))]
