"""Beliefs: what the potentials on a junction tree say about each of its cliques."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from synth.marginals.factor import Array, Factor, finite_peak
from synth.marginals.junction_tree import JunctionTree


@dataclass(frozen=True, eq=False, repr=False)
class Beliefs:
    """The distribution that potentials on a junction tree define, clique by clique.

    Attributes:
        tree: the tree.
        conditionals: for each clique its distribution given its separator; sums to one (or to zero, where the separator
            has no mass) over the other attributes.
        marginals: for each clique its joint distribution; sums to one.
    """

    tree: JunctionTree
    conditionals: tuple[Array, ...]
    marginals: tuple[Array, ...]


def place(tree: JunctionTree, factors: Iterable[Factor]) -> list[Array]:
    """The log potential of each clique of the tree: the product of the factors that find their home there.

    Raises:
        ValueError: no clique of the tree holds a factor's attributes.
    """
    potentials = [Factor.uniform(tree.domain, clique).log_values for clique in tree.cliques]
    for factor in factors:
        home = tree.home(factor.attributes)
        if home is None:
            raise ValueError(f"a factor needs a clique that holds it: attributes={factor.attributes}")
        potentials[home] += factor.aligned(tree.cliques[home])
    return potentials


def propagate(tree: JunctionTree, potentials: Sequence[Array]) -> Beliefs:
    """The beliefs that log potentials define, by passing messages up and down the tree.

    The way up is in log space, with the peak taken for each value of the separator, and leaves each clique's
    conditional distribution; the way down multiplies these by the separator's marginal. So there is one exponential a
    cell, and nothing underflows that is not negligible given its separator.

    Args:
        tree: a junction tree.
        potentials: one table for each clique, in log space; ``-inf`` is a structural zero. Not changed.

    Source: Lauritzen & Spiegelhalter 1988; the distribution of private-PGM (McKenna et al. 1901.09136, section 3).
    """
    with np.errstate(divide="ignore"):
        conditionals = _upward(tree, potentials)
    return Beliefs(tree, tuple(conditionals), tuple(_downward(tree, conditionals)))


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


def _downward(tree: JunctionTree, conditionals: list[Array]) -> list[Array]:
    marginals = conditionals[:1]
    for child in range(1, len(conditionals)):
        edge = tree.edges[child]
        separator = np.add.reduce(marginals[edge.parent], axis=edge.parent_axes).reshape(edge.child_shape)
        marginals.append(conditionals[child] * separator)
    return marginals
