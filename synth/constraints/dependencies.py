"""Functional dependencies between columns, as fixed combinations state them: one column determines another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synth.constraints.kinds import Constraint, FixedCombinations, Formula, Value


@dataclass(frozen=True)
class Dependency:
    """One column determines another."""

    determinant: str
    dependent: str
    mapping: Mapping[Value, Value]

    @property
    def inverse(self) -> Mapping[Value, Value]:
        """The value of the determinant by that of the dependent, where the two determine each other."""
        return {dependent: determinant for determinant, dependent in self.mapping.items()}


def equivalents(
    constraints: Sequence[Constraint], columns: Mapping[str, Any], first: Sequence[str], constant: Sequence[str]
) -> dict[str, Dependency]:
    """Columns that another determines and is determined by, over any number of lists: a model need not hold them.

    A column that may be missing, or that a formula computes, is held. Each determinant is held itself.
    """
    computed = {constraint.column for constraint in constraints if isinstance(constraint, Formula)}
    links, stated = dict[str, list[Dependency]](), list(_listed(constraints))
    determinants = {each.determinant for each in stated}
    for each in stated:
        names = {each.determinant, each.dependent}
        if each.dependent in first and each.dependent not in determinants:
            continue  # a real, which determines nothing, but has to be held
        is_open = names.isdisjoint(computed) and not any(columns[name].missing for name in names)
        if is_open and len(names & set(constant)) != 1 and len(set(each.mapping.values())) == len(each.mapping):
            links.setdefault(each.determinant, []).append(each)

    def rank(name: str) -> tuple[int, bool, bool]:
        """Lowest for the column that is best held: one that matters, else one with an order, else one with levels."""
        column = columns[name]
        return first.index(name) if name in first else len(first), not column.is_ordered, not column.is_categorical

    dependents: dict[str, Dependency] = {}
    for determinant in sorted(links, key=rank):
        if determinant not in dependents:
            dependents |= _reached(determinant, links)
    return dependents


def dependencies(constraints: Sequence[Constraint], computed: Mapping[str, Dependency]) -> list[Dependency]:
    """Dependencies between columns that a model holds, each after those that its determinant depends on.

    Of two columns that determine each other, the first that is listed determines.
    """
    waiting: dict[tuple[str, str], Dependency] = {}
    for each in _listed(constraints):
        rule = each  # between the columns that are held in place of these two
        if rule.determinant in computed:
            rule = _composed(computed[rule.determinant], rule)
        if rule.dependent in computed:
            back = computed[rule.dependent]
            rule = _composed(rule, Dependency(back.dependent, back.determinant, back.inverse))
        if rule.determinant != rule.dependent and (rule.dependent, rule.determinant) not in waiting:
            waiting.setdefault((rule.determinant, rule.dependent), rule)
    placed = []
    while waiting:
        unknown = {dependent for _, dependent in waiting}
        names = next((names for names in waiting if names[0] not in unknown), next(iter(waiting)))
        placed.append(waiting.pop(names))
    return placed


def combinations_of_held(
    constraint: FixedCombinations, computed: Mapping[str, Dependency]
) -> tuple[tuple[str, ...], set[tuple[Value, ...]]]:
    """The columns that a model holds of a constraint, and its possible combinations; computed ones are replaced."""
    replaced = [computed[name].determinant if name in computed else name for name in constraint.columns]
    names = tuple(dict.fromkeys(replaced))
    inverse = {name: computed[name].inverse for name in constraint.columns if name in computed}
    kept = set()
    for combination in constraint.combinations:
        row: dict[str, set[Value | None]] = {name: set() for name in names}
        for name, determinant, value in zip(constraint.columns, replaced, combination, strict=True):
            row[determinant].add(inverse[name].get(value) if name in inverse else value)
        values = [next(iter(known)) for known in row.values() if len(known) == 1]
        if len(values) == len(names) and None not in values:
            kept.add(tuple(value for value in values if value is not None))
    return names, kept


def _listed(constraints: Sequence[Constraint]) -> Iterator[Dependency]:
    """Every dependency that a constraint states, in their order."""
    for constraint in constraints:
        if isinstance(constraint, FixedCombinations):
            for names, mapping in constraint.determined.items():
                yield Dependency(*names, mapping)


def _reached(determinant: str, links: Mapping[str, Sequence[Dependency]]) -> dict[str, Dependency]:
    """Columns that a column determines along links that hold both ways."""
    ends: dict[str, Dependency] = {}
    waiting = list(links[determinant])
    while waiting:
        each = waiting.pop(0)
        if each.dependent != determinant and each.dependent not in ends:
            ends[each.dependent] = each
            waiting += [_composed(each, further) for further in links.get(each.dependent, ())]
    return ends


def _composed(first: Dependency, second: Dependency) -> Dependency:
    """The first's determinant determines the second's dependent, wherever both say so."""
    mapping = {value: second.mapping[middle] for value, middle in first.mapping.items() if middle in second.mapping}
    return Dependency(first.determinant, second.dependent, mapping)
