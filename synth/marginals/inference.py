"""Exact inference on a junction tree: beliefs by message passing, and marginals of any attributes.

`propagate` finds what potentials say about each clique of the tree. `eliminate` gives the joint distribution of
attributes that no single clique need hold, by variable elimination.

`Projections` gives many marginals of one table with few passes over it, and the way back. A table of half a million
cells may hold a dozen measured marginals; summing it anew for each reads it a dozen times. Here one axis is summed out
once for all marginals that lack it, and these are found in the smaller table alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from synth.marginals.factor import Array, Clique, Factor, axes_beside, broadcast_shape, finite_peak, shape_of
from synth.marginals.junction_tree import JunctionTree


@dataclass(frozen=True, eq=False, repr=False)
class Beliefs:
    """The distribution that potentials on a junction tree define, clique by clique."""

    tree: JunctionTree
    conditionals: tuple[Array, ...]
    marginals: tuple[Array, ...]


def place(tree: JunctionTree, factors: Iterable[Factor]) -> list[Array]:
    """The log potential of each clique of the tree: the product of the factors that find their home there."""
    potentials = [Factor.uniform(tree.domain, clique).log_values for clique in tree.cliques]
    for factor in factors:
        home = tree.home(factor.attributes)
        assert home is not None  # the tree was made of the factors
        potentials[home] += factor.aligned(tree.cliques[home])
    return potentials


def propagate(tree: JunctionTree, potentials: Sequence[Array]) -> Beliefs:
    """The beliefs that log potentials define, by passing messages up and down the tree.

    The way up is in log space, with the peak taken for each value of the separator. It leaves each clique's conditional
    distribution. The way down multiplies these by the separator's marginal. So there is one exponential a cell, and
    nothing underflows that is not negligible given its separator.

    Source: Lauritzen & Spiegelhalter 1988; the distribution of private-PGM (McKenna et al. 1901.09136, section 3).
    """
    with np.errstate(divide="ignore"):
        conditionals = _upward(tree, potentials)
    marginals = conditionals[:1]
    for child, edge in enumerate(tree.edges[1:], 1):
        separator = np.add.reduce(marginals[edge.parent], axis=edge.parent_axes).reshape(edge.child_shape)
        marginals.append(conditionals[child] * separator)
    return Beliefs(tree, tuple(conditionals), tuple(marginals))


def _upward(tree: JunctionTree, potentials: Sequence[Array]) -> list[Array]:
    tables = list(potentials)
    touched = [False] * len(tables)
    for child in range(len(tables) - 1, -1, -1):
        edge = tree.edges[child]
        peak = finite_peak(tables[child], edge.child_axes)
        table = np.asarray(np.subtract(tables[child], peak))
        np.exp(table, out=table)
        mass = np.add.reduce(table, axis=edge.child_axes, keepdims=True)
        if child > 0:
            message = (np.log(mass) + peak).reshape(edge.parent_shape)
            if touched[edge.parent]:
                tables[edge.parent] += message
            else:
                tables[edge.parent] = tables[edge.parent] + message
                touched[edge.parent] = True
        table /= np.where(mass > 0, mass, 1.0)
        tables[child] = table
    return tables


def eliminate(beliefs: Beliefs, attributes: Clique) -> Array:
    """The joint distribution of the attributes, axes in the order named; sums to one.

    Only the part of the tree that connects them is touched. A branch that holds none of them sums to one given its
    separator. The highest clique that is needed starts from its own marginal.
    """
    home = beliefs.tree.home(attributes)
    if home is not None:
        return _contract([(beliefs.marginals[home], beliefs.tree.cliques[home])], attributes)
    wanted = frozenset(attributes)
    needed = _needed(beliefs, wanted)
    top = _top(beliefs, wanted, needed)
    return _contract(_operands(beliefs, top, wanted, needed), attributes)


def _needed(beliefs: Beliefs, wanted: frozenset[str]) -> list[frozenset[str]]:
    """For each clique the wanted attributes in its branch that its separator does not hold."""
    tree = beliefs.tree
    needed = [wanted & (set(clique) - set(above)) for clique, above in zip(tree.cliques, tree.separators, strict=True)]
    for child in range(len(needed) - 1, 0, -1):
        needed[tree.parents[child]] |= needed[child]
    return [attributes - set(above) for attributes, above in zip(needed, tree.separators, strict=True)]


def _children(beliefs: Beliefs, clique: int, needed: Sequence[frozenset[str]]) -> list[int]:
    parents = beliefs.tree.parents
    return [child for child in range(clique + 1, len(parents)) if parents[child] == clique and needed[child]]


def _top(beliefs: Beliefs, wanted: frozenset[str], needed: Sequence[frozenset[str]]) -> int:
    """The lowest clique whose branch holds every wanted attribute."""
    top = 0
    while True:
        children = _children(beliefs, top, needed)
        if len(children) != 1 or not wanted <= needed[children[0]] | set(beliefs.tree.cliques[children[0]]):
            return top
        top = children[0]


def _operands(
    beliefs: Beliefs, top: int, wanted: frozenset[str], needed: Sequence[frozenset[str]]
) -> list[tuple[Array, Clique]]:
    """The top clique's marginal and the messages of its branches."""
    tree = beliefs.tree
    messages: dict[int, list[tuple[Array, Clique]]] = {top: []}
    branch = [top]
    for clique in branch:
        branch += _children(beliefs, clique, needed)
    for clique in reversed(branch[1:]):
        operands = [(beliefs.conditionals[clique], tree.cliques[clique]), *messages.pop(clique, [])]
        onto = tree.separators[clique] + tuple(sorted(needed[clique]))
        messages.setdefault(tree.parents[clique], []).append((_contract(operands, onto), onto))
    return [(beliefs.marginals[top], tree.cliques[top]), *messages[top]]


def _contract(operands: Sequence[tuple[Array, Clique]], onto: Clique) -> Array:
    """The product of tables summed onto some attributes, pair by pair so that nothing large is built between."""
    labels: dict[str, int] = {}
    terms: list[Any] = []
    for table, attributes in operands:
        terms += [table, [labels.setdefault(name, len(labels)) for name in attributes]]
    summed = np.einsum(*terms, [labels[name] for name in onto], optimize="greedy")
    return np.array(summed, dtype=np.float64, order="C")


@dataclass(frozen=True)
class Projection:
    """A table summed from another."""

    attributes: Clique
    source: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Projections:
    """Projections of a table over some attributes to its marginals, from one another."""

    projections: tuple[Projection, ...]
    index: Mapping[Clique, int]

    @classmethod
    def of(cls, domain: Mapping[str, int], attributes: Clique, cliques: Iterable[Clique]) -> Self:
        """Projections of a table over the attributes onto each of the cliques.

        >>> Projections.of({"a": 2, "b": 3, "c": 4}, ("a", "b", "c"), [("a",), ("a", "b")]).index
        {('a', 'b'): 1, ('a',): 2}
        """
        projections: list[Projection] = []
        index: dict[Clique, int] = {}
        waiting = [(0, attributes, list(dict.fromkeys(cliques)))]
        while waiting:
            source, held, wanted = waiting.pop()
            if held in wanted:
                index[held] = source
                wanted.remove(held)
            while wanted:
                group = _most_that_lack_one(domain, held, wanted)
                names = {name for clique in group for name in clique}
                kept = tuple(name for name in held if name in names)
                shape = broadcast_shape(kept, shape_of(domain, kept), held)
                projections.append(Projection(kept, source, axes_beside(held, kept), shape))
                waiting.append((len(projections), kept, group))
                wanted = [clique for clique in wanted if clique not in group]
        return cls(tuple(projections), index)

    def down(self, table: Array) -> list[Array]:
        """The table, and every one that is summed from it."""
        tables = [table]
        for projection in self.projections:
            tables.append(np.add.reduce(tables[projection.source], axis=projection.axes))
        return tables

    def up(self, parts: Mapping[Clique, Array]) -> Array:
        """The sum of tables over the cliques, each spread evenly: what broadcasts over the table itself."""
        sums: list[Array | None] = [None] * (len(self.projections) + 1)
        for clique, part in parts.items():
            sums[self.index[clique]] = part
        for level in range(len(self.projections), 0, -1):
            projection, total = self.projections[level - 1], sums[level]
            if total is not None:
                spread, there = total.reshape(projection.shape), sums[projection.source]
                sums[projection.source] = spread if there is None else there + spread
        return np.zeros(()) if sums[0] is None else sums[0]


def _most_that_lack_one(domain: Mapping[str, int], source: Clique, wanted: Sequence[Clique]) -> list[Clique]:
    """The cliques that lack the attribute which most of them lack; of two such, the one with more codes."""
    lacking = {name: [clique for clique in wanted if name not in clique] for name in source}
    return lacking[max(source, key=lambda name: (len(lacking[name]), domain[name]))]
