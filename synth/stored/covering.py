"""Few wide counts that hold many narrow ones: the counts of three columns are the sums of the counts of four.

A database pays for each row and each set of columns, hardly for the cells: 105 pairs of 15 columns are in 30 sets of
up to 16,384 cells, and are counted in about half the time (`benchmarks.stored_counts`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

Clique = frozenset[str]
Block = tuple[str, ...]


def covering(cliques: Sequence[Sequence[str]], sizes: Mapping[str, int], n_cells: int) -> dict[Block, list[Clique]]:
    """Sets of columns, and the cliques that each holds: every clique is in one of them.

    A set grows from the first clique that none holds yet, by the column that brings most others in.

    Args:
        cliques: columns to be counted together, at least one in each.
        sizes: how many codes each column has.
        n_cells: of a set at most, unless one clique alone has more.

    >>> covering(  # doctest: +ELLIPSIS
    ...     [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], {"a": 2, "b": 3, "c": 4, "d": 50}, 24
    ... )
    {('a', 'b', 'c'): [...], ('c', 'd'): [...]}
    """
    left: dict[Clique, None] = dict.fromkeys(map(frozenset, cliques))
    holding: dict[str, dict[Clique, None]] = {}
    for clique in left:
        for name in clique:
            holding.setdefault(name, {})[clique] = None
    found = {}
    for seed in list(left):
        if seed not in left:
            continue
        block = _grown(set(seed), holding, sizes, n_cells)
        held = list(dict.fromkeys(clique for name in block for clique in holding[name] if clique <= block))
        for clique in held:
            del left[clique]
            for name in clique:
                del holding[name][clique]
        found[tuple(sorted(block))] = held
    return found


def _grown(
    block: set[str], holding: Mapping[str, Mapping[Clique, None]], sizes: Mapping[str, int], n_cells: int
) -> set[str]:
    size = math.prod(sizes[name] for name in block)
    while True:
        near = {clique for name in block for clique in holding[name] if len(clique - block) == 1}
        gains = Counter(name for clique in near for name in clique - block)
        fitting = [(gain, -sizes[name], name) for name, gain in gains.items() if size * sizes[name] <= n_cells]
        if not fitting:
            return block
        name = max(fitting)[-1]
        block, size = block | {name}, size * sizes[name]
