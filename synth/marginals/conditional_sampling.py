"""Conditional sampling: rows of a Markov random field, each given codes of its own in some attributes.

What is known takes an axis off every factor that holds it. So the junction tree is over the other attributes alone, and
each row has its own messages. They are passed for many rows at a time.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from synth.marginals.factor import Array, Factor, finite_peak
from synth.marginals.inference import place
from synth.marginals.junction_tree import JunctionTree, junction_tree
from synth.marginals.markov_random_field import MarkovRandomField
from synth.marginals.sampling import Codes, sample_categorical

MOST_CELLS = 2_000_000
"""Cells of one clique's tables that are in memory at a time."""


def sample_given(model: MarkovRandomField, known: Mapping[str, Codes], rng: np.random.Generator) -> dict[str, Codes]:
    """The codes of the other attributes, drawn from their distribution given those that are known of each row.

    A row whose known codes have no mass at all has codes drawn evenly.

    Args:
        known: codes of at least one attribute, shape (n,) each.

    Returns:
        Codes by attribute, shape (n,) each, in the order of the domain.

    Source: Koller & Friedman 2009, Probabilistic Graphical Models, chapter 10 (clique trees with evidence).
    """
    n = len(next(iter(known.values())))
    domain = {name: size for name, size in model.domain.items() if name not in known}
    cliques = [tuple(name for name in factor.attributes if name not in known) for factor in model.potentials]
    tree = junction_tree(domain, cliques)
    shared = place(tree, [factor for factor in model.potentials if known.keys().isdisjoint(factor.attributes)])
    apart = [factor for factor in model.potentials if not known.keys().isdisjoint(factor.attributes)]
    largest = max(table.size for table in shared)
    size = max(MOST_CELLS // max(largest, 1), 1)
    made: dict[str, list[Codes]] = {name: [] for name in domain}
    for start in range(0, n, size):
        rows = {name: codes[start : start + size] for name, codes in known.items()}
        for name, codes in _drawn(tree, shared, apart, rows, rng).items():
            made[name].append(codes)
    return {name: np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32) for name, parts in made.items()}


def _drawn(
    tree: JunctionTree, shared: list[Array], apart: list[Factor], known: Mapping[str, Codes], rng: np.random.Generator
) -> dict[str, Codes]:
    """The rows of one batch."""
    n = len(next(iter(known.values())))
    tables = [table[np.newaxis] for table in shared]
    for factor in apart:
        reduced = _reduced(factor, known)
        names = tuple(name for name in factor.attributes if name not in known)
        home = tree.home(names)
        if home is None:
            raise ValueError(f"a factor needs a clique that holds it: attributes={names}")
        shape = tuple(tree.domain[name] if name in names else 1 for name in tree.cliques[home])
        order = sorted(range(len(names)), key=lambda axis: tree.cliques[home].index(names[axis]))
        tables[home] = tables[home] + reduced.transpose([0, *(axis + 1 for axis in order)]).reshape(n, *shape)
    _pass_upward(tree, tables)
    codes: dict[str, Codes] = {}
    for clique, separator, table in zip(tree.cliques, tree.separators, tables, strict=True):
        fresh = tuple(name for name in clique if name not in separator)
        axes = [0, *(clique.index(name) + 1 for name in (*separator, *fresh))]
        above = [tree.domain[name] for name in separator]
        flat = table.transpose(axes).reshape(len(table), math.prod(above), -1)
        line = np.ravel_multi_index([codes[name] for name in separator], above) if separator else np.zeros(n, dtype=int)
        weights = flat[np.arange(n) if len(flat) == n else np.zeros(n, dtype=int), line]
        weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
        cells = np.unravel_index(sample_categorical(weights, rng), [tree.domain[name] for name in fresh])
        codes |= {name: part.astype(np.int32) for name, part in zip(fresh, cells, strict=True)}
    return {name: codes[name] for name in tree.domain}


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
