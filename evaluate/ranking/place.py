"""The overall order: a table is ahead of another where it is told better by some figure and worse by none.

No figure is weighed against another: how much utility a point of fidelity is worth is for the reader to say. Two tables
of which each is better at something are not ordered, and neither are two that nothing tells apart. A table's place is
one more than the number of tables ahead of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluate.ranking.comparison import PairComparison
from evaluate.ranking.letters import letters


@dataclass(frozen=True)
class Place:
    """Where a table stands among those that were compared.

    Attributes:
        name: the table.
        place: from 1; tables may share one.
        behind: those that are ahead of it.
        letters: tables that share one are not ordered.
    """

    name: str
    place: int
    behind: tuple[str, ...]
    letters: str


def places(names: Sequence[str], comparisons: Iterable[PairComparison]) -> list[Place]:
    """The order of tables, the best first; those that share a place stay in the order given."""
    better: dict[frozenset[str], set[str]] = {}
    for one in comparisons:
        if one.better is not None:
            better.setdefault(frozenset((one.first, one.second)), set()).add(one.better)
    # Of a pair in which each is better at something, neither is ahead.
    ahead = {pair: next(iter(who)) for pair, who in better.items() if len(who) == 1}
    behind = {
        name: tuple(other for other in names if ahead.get(frozenset((name, other))) == other and other != name)
        for name in names
    }
    order = sorted(names, key=lambda name: len(behind[name]))
    shown = letters(order, [tuple(sorted(pair)) for pair in ahead])  # type: ignore[misc]
    return [Place(name, len(behind[name]) + 1, behind[name], shown[name]) for name in order]
