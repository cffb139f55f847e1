"""Conditional sampling: rows of a Markov random field, each given codes of its own in some attributes.

What is known takes an axis off every factor that holds it. So the junction tree is over the other attributes alone, and
rows that know the same have the same messages. They are passed for many such groups at a time.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.marginals.factor import Array, Factor, finite_peak
from synth.marginals.inference import place
from synth.marginals.junction_tree import JunctionTree, junction_tree
from synth.marginals.markov_random_field import MarkovRandomField
from synth.marginals.sampling import Codes, even_ranks, share_out

MOST_CELLS = 2_000_000
"""Cells of one clique's tables that are in memory at a time."""
FEW_GROUPS = 8  # rows of a group, on average, from which on its choices are spread evenly


def sample_given(model: MarkovRandomField, known: Mapping[str, Codes], rng: np.random.Generator) -> dict[str, Codes]:
    """The codes of the other attributes, drawn from their distribution given those that are known of each row.

    Rows that know the same share out the cells, as in `sample` the rows of a group do. A row whose known codes have no
    mass at all has codes drawn evenly.

    Args:
        known: codes of at least one attribute, shape (n,) each.

    Returns:
        Codes by attribute, shape (n,) each, in the order of the domain.

    Source: Koller & Friedman 2009, Probabilistic Graphical Models, chapter 10 (clique trees with evidence).
    """
    n = len(next(iter(known.values())))
    domain = {name: size for name, size in model.domain.items() if name not in known}
    sampled = {name: np.zeros(n, dtype=np.int32) for name in domain}
    if n == 0 or not domain:
        return sampled
    cliques = [tuple(name for name in factor.attributes if name not in known) for factor in model.potentials]
    tree = junction_tree(domain, cliques)
    shared = place(tree, [factor for factor in model.potentials if known.keys().isdisjoint(factor.attributes)])
    apart = [f for f in model.potentials if {*f.attributes} & known.keys() and {*f.attributes} - known.keys()]
    groups = row_groups({name: known[name] for factor in apart for name in factor.attributes if name in known}, n)
    order = np.argsort(groups, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(groups[order], prepend=-1)), n)
    size = max(MOST_CELLS // max(max(table.size for table in shared), 1), 1)
    for start in range(0, len(ends) - 1, size):
        rows = order[ends[start] : ends[min(start + size, len(ends) - 1)]]
        firsts = order[ends[start : start + size][: len(ends) - 1 - start]]
        codes = {name: each[firsts] for name, each in known.items()}
        for name, drawn in _drawn(tree, shared, apart, codes, groups[rows] - start, rng).items():
            sampled[name][rows] = drawn
    return sampled


def row_groups(codes: Mapping[str, NDArray[Any]], n: int) -> NDArray[np.intp]:
    """A number for every row, equal where all codes are, from zero on without gaps; shape (n,)."""
    groups = np.zeros(n, dtype=np.intp)
    for each in codes.values():
        groups = np.unique(groups * (int(each.max()) + 1) + each, return_inverse=True)[1]
    return groups


def _drawn(
    tree: JunctionTree,
    shared: list[Array],
    apart: list[Factor],
    known: Mapping[str, Codes],
    groups: NDArray[np.intp],
    rng: np.random.Generator,
) -> dict[str, Codes]:
    """The rows of some groups. `known`: codes of each group, shape (n_groups,) each."""
    n, n_groups = len(groups), len(next(iter(known.values())))
    tables = [table[np.newaxis] for table in shared]
    for factor in apart:
        reduced = _reduced(factor, known)
        names = tuple(name for name in factor.attributes if name not in known)
        home = tree.home(names)
        if home is None:
            raise ValueError(f"a factor needs a clique that holds it: attributes={names}")
        shape = tuple(tree.domain[name] if name in names else 1 for name in tree.cliques[home])
        order = sorted(range(len(names)), key=lambda axis: tree.cliques[home].index(names[axis]))
        tables[home] = tables[home] + reduced.transpose([0, *(axis + 1 for axis in order)]).reshape(n_groups, *shape)
    _pass_upward(tree, tables)
    ranks = even_ranks(n, len(tree.cliques), rng) if n_groups * FEW_GROUPS <= n else None
    codes: dict[str, Codes] = {}
    for index, (clique, separator, table) in enumerate(zip(tree.cliques, tree.separators, tables, strict=True)):
        fresh = tuple(name for name in clique if name not in separator)
        axes = [0, *(clique.index(name) + 1 for name in (*separator, *fresh))]
        above = [tree.domain[name] for name in separator]
        flat = table.transpose(axes).reshape(len(table) * math.prod(above), -1)
        line = np.ravel_multi_index([codes[name] for name in separator], above) if separator else np.zeros(n, dtype=int)
        line = line + (groups * math.prod(above) if len(table) == n_groups else 0)
        weights = np.where(flat.sum(axis=1, keepdims=True) > 0, flat, 1.0)
        drawn = share_out(weights, line, rng.permutation(n) if ranks is None else ranks[index], rng)
        cells = np.unravel_index(drawn, [tree.domain[name] for name in fresh])
        codes |= {name: part.astype(np.int32) for name, part in zip(fresh, cells, strict=True)}
    return codes


def _reduced(factor: Factor, known: Mapping[str, Codes]) -> Array:
    """The log values of a factor at the known codes of each row; shape (n, ...), an axis for each other attribute."""
    axes = [axis for axis, name in enumerate(factor.attributes) if name in known]
    moved = np.moveaxis(factor.log_values, axes, range(len(axes)))
    return np.asarray(moved[tuple(known[factor.attributes[axis]] for axis in axes)])


def _pass_upward(tree: JunctionTree, tables: list[NDArray[np.float64]]) -> None:
    """Turn log potentials, a table for each row or one for all, into weights given the separator, up to a factor."""
    with np.errstate(divide="ignore"):
        for child in range(len(tables) - 1, -1, -1):
            edge = tree.edges[child]
            axes = tuple(axis + 1 for axis in edge.child_axes)
            peak = finite_peak(tables[child], axes)
            weights = np.exp(tables[child] - peak)
            if child > 0:
                mass = weights.sum(axis=axes, keepdims=True)
                message = (np.log(mass) + peak).reshape(len(weights), *edge.parent_shape)
                tables[edge.parent] = tables[edge.parent] + message
            tables[child] = weights
