"""A junction tree: the cliques among which beliefs about a distribution are passed.

Every clique keeps its attributes in the order of the domain. So axes of length 1 line a separator up with both of its
cliques, and nothing is transposed while beliefs are passed.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from synth.marginals.factor import Clique, axes_beside, broadcast_shape, shape_of


@dataclass(frozen=True)
class JunctionTree:
    """Maximal cliques of a triangulated graph, parents before children, joined by separators.

    It is one tree even where the graph falls apart: pieces are joined by empty separators.
    """

    domain: Mapping[str, int]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The attributes that each clique shares with its parent; nothing, for the root."""
        pairs = zip(self.cliques, self.parents, strict=True)
        return tuple(
            tuple(name for name in clique if parent >= 0 and name in self.cliques[parent]) for clique, parent in pairs
        )

    @cached_property
    def edges(self) -> tuple["Edge", ...]:
        """The edge of each clique to its parent, one for each clique; the root's is not to be followed."""
        edges = []
        for clique, parent, separator in zip(self.cliques, self.parents, self.separators, strict=True):
            above, shape = self.cliques[parent] if parent >= 0 else (), shape_of(self.domain, separator)
            axes = axes_beside(clique, separator), axes_beside(above, separator)
            shapes = broadcast_shape(separator, shape, clique), broadcast_shape(separator, shape, above)
            edges.append(Edge(parent, *axes, *shapes))
        return tuple(edges)

    @property
    def n_cells(self) -> int:
        """Cells of all cliques together: time and memory grow with it."""
        return sum(math.prod(shape_of(self.domain, clique)) for clique in self.cliques)

    def home(self, attributes: Iterable[str]) -> int | None:
        """The smallest clique that holds all the attributes; `None` where no clique does."""
        names = set(attributes)
        holding = [index for index, clique in enumerate(self.cliques) if names.issubset(clique)]
        return min(holding, key=lambda index: math.prod(shape_of(self.domain, self.cliques[index])), default=None)


@dataclass(frozen=True)
class Edge:
    """The axes by which a separator lines up with the child's and the parent's table."""

    parent: int
    child_axes: tuple[int, ...]
    parent_axes: tuple[int, ...]
    child_shape: tuple[int, ...]
    parent_shape: tuple[int, ...]


def junction_tree(domain: Mapping[str, int], cliques: Iterable[Clique]) -> JunctionTree:
    """A junction tree in which each of the given cliques lies within one of the tree's."""
    maximal = maximal_cliques(domain, cliques)
    order, parents = _spanning_tree(domain, maximal)
    return JunctionTree(dict(domain), tuple(maximal[index] for index in order), parents)


def maximal_cliques(domain: Mapping[str, int], cliques: Iterable[Clique]) -> list[Clique]:
    """The maximal cliques of the graph, triangulated by greedy elimination: smallest resulting clique first."""
    names = list(domain)
    sizes, around = list(domain.values()), _surroundings(domain, cliques)
    cells = _counting(sizes)
    eliminated = _eliminate(cells, around, {index: cells(mask) for index, mask in enumerate(around)})
    return [tuple(name for bit, name in enumerate(names) if clique >> bit & 1) for clique, _ in eliminated] or [()]


def cells_with_one_more(domain: Mapping[str, int], cliques: Iterable[Clique]) -> Callable[[Clique], int]:
    """The cells of the junction tree of the cliques and one more, as a function of that one.

    >>> cells = cells_with_one_more({"a": 2, "b": 3, "c": 5}, [("a", "b")])
    >>> cells(("c",)), cells(("b", "c")), cells(("a", "b", "c"))
    (11, 21, 30)
    """
    sizes, around = list(domain.values()), _surroundings(domain, cliques)
    of_set = _counting(sizes)
    costs = [of_set(mask) for mask in around]
    position = {name: index for index, name in enumerate(domain)}
    parts = _pieces(around)
    part_of = {index: number for number, part in enumerate(parts) for index in part}
    part_cells = [_eliminated_cells(of_set, around, {index: costs[index] for index in part}) for part in parts]
    total = sum(part_cells)

    def cells(clique: Clique) -> int:
        joined = list(around)
        whole = sum(1 << position[name] for name in clique)
        touched = sorted({part_of[position[name]] for name in clique})
        joined_costs = {index: costs[index] for part in touched for index in parts[part]}
        for name in clique:
            index = position[name]
            joined[index] |= whole
            joined_costs[index] = of_set(joined[index])
        untouched = total - sum(part_cells[part] for part in touched)
        return untouched + _eliminated_cells(of_set, joined, joined_costs)

    return cells


def pieces(domain: Mapping[str, int], cliques: Iterable[Clique]) -> dict[str, int]:
    """The number of the connected piece of the graph that each attribute lies in.

    >>> pieces({"a": 2, "b": 3, "c": 5}, [("a", "c")])
    {'a': 0, 'c': 0, 'b': 1}
    """
    names = list(domain)
    parts = _pieces(_surroundings(domain, cliques))
    return {names[index]: number for number, piece in enumerate(parts) for index in piece}


def _pieces(around: Sequence[int]) -> list[list[int]]:
    """The connected pieces of the graph; eliminating one leaves the others as they are."""
    parts, seen = [], 0
    for index in range(len(around)):
        if seen >> index & 1:
            continue
        piece, grown = 0, 1 << index
        while grown != piece:
            fresh, piece = grown & ~piece, grown
            while fresh:
                grown |= around[(fresh & -fresh).bit_length() - 1]
                fresh &= fresh - 1
        seen |= piece
        parts.append([other for other in range(len(around)) if piece >> other & 1])
    return parts


def _eliminated_cells(cells: Callable[[int], int], around: Sequence[int], costs: dict[int, int]) -> int:
    """Cells of the maximal cliques over the attributes that have a cost, which it uses up."""
    return sum(n_cells for _, n_cells in _eliminate(cells, list(around), costs))


def _eliminate(cells: Callable[[int], int], around: list[int], costs: dict[int, int]) -> list[tuple[int, int]]:
    """Maximal cliques and their cells; sets of attributes are whole numbers, one bit an attribute.

    Uses up what it is given: for each attribute itself and its neighbors, and (for those to eliminate) the cells of
    these together.

    Sets as numbers: a search for the next marginal asks this for a thousand trees a second. A clique lies within an
    earlier one where it is what that one left when its attribute was taken out; no other can hold it.
    """
    eliminated: list[tuple[int, int]] = []
    left: set[int] = set()
    while costs:
        index = min(costs, key=costs.__getitem__)
        clique, cost = around[index], costs.pop(index)
        if clique not in left:
            eliminated.append((clique, cost))
        gone = ~(1 << index)
        rest = clique & gone
        left.add(rest)
        while rest:
            other = (rest & -rest).bit_length() - 1
            rest &= rest - 1
            joined = (around[other] | clique) & gone
            if joined != around[other]:
                around[other] = joined
                costs[other] = cells(joined)
    return eliminated


def _counting(sizes: Sequence[int]) -> Callable[[int], int]:
    """Cells of the table of a set of attributes, as a function that works each set out once."""
    known: dict[int, int] = {}

    def cells(mask: int) -> int:
        size = known.get(mask)
        if size is None:
            size, rest = 1, mask
            while rest:
                size *= sizes[(rest & -rest).bit_length() - 1]
                rest &= rest - 1
            known[mask] = size
        return size

    return cells


def _surroundings(domain: Mapping[str, int], cliques: Iterable[Clique]) -> list[int]:
    """For each attribute itself and the others that share a clique with it, one bit each."""
    position = {name: index for index, name in enumerate(domain)}
    around = [1 << index for index in range(len(domain))]
    for clique in cliques:
        unknown = [name for name in clique if name not in position]
        if unknown:
            raise ValueError(f"a clique names attributes of the domain: attribute={unknown[0]!r} is not in it")
        whole = 0
        for name in clique:
            whole |= 1 << position[name]
        for name in clique:
            around[position[name]] |= whole
    return around


def _spanning_tree(domain: Mapping[str, int], cliques: list[Clique]) -> tuple[list[int], tuple[int, ...]]:
    """Prim's maximum-weight spanning tree by the number of shared attributes, rooted in the largest clique."""
    sets = [frozenset(clique) for clique in cliques]
    order = [max(range(len(cliques)), key=lambda index: math.prod(shape_of(domain, cliques[index])))]
    parents = [-1]
    best = {index: (len(sets[index] & sets[order[0]]), 0) for index in range(len(cliques)) if index != order[0]}
    while best:
        nearest = max(best, key=lambda index: best[index][0])
        parents.append(best.pop(nearest)[1])
        order.append(nearest)
        for index, (weight, _) in best.items():
            shared = len(sets[index] & sets[nearest])
            if shared > weight:
                best[index] = (shared, len(order) - 1)
    return order, tuple(parents)
