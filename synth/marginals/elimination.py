"""Variable elimination: the exact marginal of any attributes, whether or not one clique holds them all."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from synth.marginals.beliefs import Beliefs
from synth.marginals.factor import Array, Clique


def eliminate(beliefs: Beliefs, attributes: Clique) -> Array:
    """The joint distribution of the attributes, axes in the order named; sums to one.

    Only the part of the tree that connects them is touched: a branch that holds none of them sums to one given its
    separator, and the highest clique that is needed starts from its own marginal.

    Args:
        beliefs: of a junction tree whose domain holds the attributes.
        attributes: each once; none gives the number one.
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
    return [found - set(above) for found, above in zip(needed, tree.separators, strict=True)]


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
