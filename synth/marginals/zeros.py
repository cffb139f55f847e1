"""Structural zeros: combinations that a distribution rules out, as far as its junction tree has room for them."""

from collections.abc import Iterable, Mapping

from synth.marginals.factor import Factor
from synth.marginals.junction_tree import cells_with_one_more


def affordable(zeros: Iterable[Factor], domain: Mapping[str, int], max_cells: float) -> tuple[Factor, ...]:
    """The structural zeros that add at most `max_cells` cells to a model of lone attributes, first come first served.

    Args:
        zeros: factors that are ``-inf`` where the distribution is zero, 0 elsewhere.
        domain: number of codes of each attribute.
        max_cells: cells that the junction tree may have beyond one for each code.
    """
    held: list[Factor] = []
    alone = sum(domain.values())
    for zero in zeros:
        cells = cells_with_one_more(domain, [factor.attributes for factor in held])
        if cells(zero.attributes) <= max_cells + alone:
            held.append(zero)
    return tuple(held)
