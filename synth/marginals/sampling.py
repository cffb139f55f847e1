"""Sampling: rows whose counts are the model's, rounded; drawn at random only where rounding leaves a choice.

`sample_given` draws the rest of rows of which some codes are known.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.marginals.distributions import LatentClasses, MarkovRandomField
from synth.marginals.factor import Array, Clique, Factor, finite_peak
from synth.marginals.inference import place
from synth.marginals.junction_tree import JunctionTree, junction_tree

Codes = NDArray[np.int32]
MOST_CELLS = 2_000_000  # of one clique's tables, that are in memory at a time
FEW_GROUPS = 8  # rows of a group, on average, from which on its choices are spread evenly
MOST_POSTERIORS = 4_000_000  # shares of classes, of some rows, that are in memory at a time
EVEN_ROWS = 200_000
"""Up to so many rows the choices that rounding leaves are spread evenly; beyond, chance does that by itself."""


def sample(model: MarkovRandomField, n_rows: int, rng: np.random.Generator, *, even: bool = True) -> Codes:
    """Rows drawn from the model, with no more randomness than rounding needs.

    Clique by clique down the tree, the rows that agree on the separator share out the clique's other attributes in the
    proportions of the model. Each cell gets its expected count rounded up or down, with the expected count as its mean.
    The cell of each row is random, but spread evenly. Each row has a point of a scrambled Sobol sequence, one
    coordinate a clique. The rows of a group take their cells in the order of that coordinate. So counts across cliques,
    which the tree says nothing of, are closer to their means than those of independent rows.

    Source: Owen 1995 (randomly permuted nets); conditional distributions one after the other, Rosenblatt 1952.
    """
    if n_rows < 0:
        raise ValueError(f"a number of rows is not negative: n_rows={n_rows}")
    tree, names = model.tree, list(model.domain)
    codes: Codes = np.zeros((n_rows, len(names)), dtype=np.int32, order="F")
    columns = {name: codes[:, position] for position, name in enumerate(names)}
    ranks = even_ranks(n_rows, len(tree.cliques), rng) if even and n_rows <= EVEN_ROWS else None
    parts = zip(tree.cliques, tree.separators, model.beliefs.conditionals, strict=True)
    for index, (clique, separator, conditional) in enumerate(parts):
        fresh = tuple(name for name in clique if name not in separator)
        if fresh:
            table = conditional.transpose([clique.index(name) for name in separator + fresh])
            order = rng.permutation(n_rows) if ranks is None else ranks[index]
            _fill(columns, separator, fresh, table, order, rng)
    return codes


def sample_classes(
    model: LatentClasses, n_rows: int, rng: np.random.Generator, known: Mapping[str, Codes] | None = None
) -> Codes:
    """Rows drawn from a latent class model, with no more randomness than rounding needs.

    Classes share out the rows, or are drawn for each row by their posterior given its known codes; where no class can
    have these, by the shares of all rows. The rows of a class share out its codes, attribute by attribute, as in
    `sample` the rows of a group do.

    Source: Si & Reiter 2013 (conditional draws by latent classes).
    """
    if n_rows < 0:
        raise ValueError(f"a number of rows is not negative: n_rows={n_rows}")
    codes: Codes = np.zeros((n_rows, len(model.domain)), dtype=np.int32, order="F")
    ranks = even_ranks(n_rows, len(model.domain) + 1, rng) if n_rows <= EVEN_ROWS else None
    orders = ranks or [rng.permutation(n_rows) for _ in range(len(model.domain) + 1)]
    if known:
        classes = _posterior_classes(model, known, rng)
    else:
        classes = share_out(model.shares[np.newaxis], np.zeros(n_rows, dtype=np.intp), orders[0], rng)
    for index, (name, table) in enumerate(zip(model.domain, model.tables, strict=True)):
        drawn = known[name] if known and name in known else share_out(table.T, classes, orders[index + 1], rng)
        codes[:, index] = drawn
    return codes


def _posterior_classes(
    model: LatentClasses, known: Mapping[str, Codes], rng: np.random.Generator
) -> NDArray[np.intp]:  # fmt: skip
    tables = dict(zip(model.domain, model.tables, strict=True))
    n = len(next(iter(known.values())))
    parts, size = [], max(MOST_POSTERIORS // len(model.shares), 1)
    with np.errstate(divide="ignore"):
        prior, logs = np.log(model.shares), {name: np.log(tables[name]) for name in known}
    for start in range(0, n, size):
        rows = slice(start, start + size)
        log_shares = sum((logs[name][each[rows]] for name, each in known.items()), prior)
        peaks = log_shares.max(axis=1, keepdims=True)
        log_shares = np.where(np.isfinite(peaks), log_shares - np.where(np.isfinite(peaks), peaks, 0), prior)
        parts.append(sample_categorical(np.exp(log_shares), rng))
    return np.concatenate(parts)


def sample_categorical(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """For each line of nonnegative weights one cell, by chances in their proportion."""
    running = np.cumsum(weights, axis=1)
    # Strictly below the end, so that a cell without weight is never drawn.
    marks = rng.random((len(weights), 1)) * running[:, -1:] * (1 - np.finfo(np.float64).eps)
    return np.asarray((running <= marks).sum(axis=1), dtype=np.intp)


def even_ranks(n_rows: int, n_cliques: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """For each clique an order of the rows, evenly spread against all the others."""
    from scipy.stats import qmc

    if n_rows == 0:
        return [np.zeros(0, dtype=np.intp)] * n_cliques
    points = qmc.Sobol(n_cliques, rng=rng).random_base2(math.ceil(math.log2(max(n_rows, 2))))
    # The sequence is even along the rows, too: these come in random order.
    chosen = points[rng.permutation(n_rows)]
    return [np.argsort(coordinate, kind="stable") for coordinate in chosen.T]


def round_counts(expected: Array, n_rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole counts for each line of expected counts: each rounded up or down, unbiased, adding up exactly.

    The running sum of a line is shifted by one uniform number and cut off to whole numbers (systematic sampling). A
    cell's count differs from its expectation by less than one, and so does that of any run of neighboring cells.

    Source: Madow 1949, systematic sampling with unequal probabilities.
    """
    running = np.cumsum(expected, axis=1)
    end = running[:, -1:]
    target = n_rows[:, np.newaxis].astype(np.float64)
    # Cells after the last that has any mass must stay empty, whatever the rounding error of the sum.
    running = np.where(running >= end, target, running * (target / np.where(end > 0, end, 1.0)))
    running += rng.random((len(running), 1))
    np.floor(running, out=running)
    return np.diff(running, axis=1, prepend=0.0).astype(np.int64)


def _fill(
    columns: dict[str, Codes],
    known: Clique,
    fresh: Clique,
    table: Array,
    order: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Write the columns of the fresh attributes, by a table of their distribution given the columns already there."""
    given_shape, fresh_shape = table.shape[: len(known)], table.shape[len(known) :]
    if known:
        groups = np.ravel_multi_index([columns[name] for name in known], given_shape)
    else:
        groups = np.zeros(len(order), dtype=np.intp)
    cells = share_out(table.reshape(math.prod(given_shape), -1), groups, order, rng)
    for name, codes in zip(fresh, np.unravel_index(cells, fresh_shape), strict=True):
        columns[name][:] = codes


def share_out(
    table: Array, groups: NDArray[np.intp], order: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.intp]:
    """For each row a cell of its group's line in the table; the rows of a group take theirs in the order given."""
    sizes = np.bincount(groups, minlength=len(table))
    present = np.flatnonzero(sizes)
    counts = round_counts(table[present], sizes[present], rng)
    cells = np.repeat(np.tile(np.arange(table.shape[1]), len(present)), counts.ravel())
    if len(present) > 1:
        # Sorting 16-bit keys is a radix sort, an order of magnitude faster than comparing.
        keys = groups.astype(np.uint16) if len(table) <= 1 << 16 else groups
        order = order[np.argsort(keys[order], kind="stable")]
    drawn = np.empty(len(groups), dtype=np.intp)
    drawn[order] = cells
    return drawn


def sample_given(model: MarkovRandomField, known: Mapping[str, Codes], rng: np.random.Generator) -> dict[str, Codes]:
    """The codes of the other attributes, drawn from their distribution given those that are known of each row.

    Rows that know the same share out the cells, as in `sample` the rows of a group do. A row whose known codes have no
    mass at all has codes drawn evenly.

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
        # The log values at the known codes of each group, with an axis for each other attribute.
        axes = [axis for axis, name in enumerate(factor.attributes) if name in known]
        moved = np.moveaxis(factor.log_values, axes, range(len(axes)))
        reduced = np.asarray(moved[tuple(known[factor.attributes[axis]] for axis in axes)])
        names = tuple(name for name in factor.attributes if name not in known)
        home = tree.home(names)
        assert home is not None  # the tree was made of the factors
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
