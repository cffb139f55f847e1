"""Structural zeros: combinations that a distribution rules out, as far as its junction tree has room for them."""

from collections.abc import Iterable, Mapping

from synth.marginals.factor import Factor
from synth.marginals.junction_tree import junction_tree


def affordable(zeros: Iterable[Factor], domain: Mapping[str, int], max_cells: float) -> tuple[Factor, ...]:
    """The structural zeros that fit together into a tree of at most `max_cells` cells, first come first served.

    Args:
        zeros: factors that are ``-inf`` where the distribution is zero, 0 elsewhere.
        domain: number of codes of each attribute.
        max_cells: cells that the cliques of the zeros may take, those of lone attributes aside.
    """
    held: list[Factor] = []
    alone = junction_tree(domain, []).n_cells
    for zero in zeros:
        cliques = [factor.attributes for factor in (*held, zero)]
        if junction_tree(domain, cliques).n_cells <= max_cells + alone:
            held.append(zero)
    return tuple(held)
