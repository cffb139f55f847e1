"""Sampling: rows whose counts are the model's, rounded; drawn at random only where rounding leaves a choice."""

import math

import numpy as np
from numpy.typing import NDArray

from synth.marginals.factor import Array, Clique
from synth.marginals.model import MarkovRandomField

Codes = NDArray[np.int32]


def sample(model: MarkovRandomField, n_rows: int, rng: np.random.Generator) -> Codes:
    """Rows drawn from the model, with no more randomness than rounding needs.

    Clique by clique down the tree, the rows that agree on the separator share out the clique's other attributes in the
    proportions of the model: each cell gets its expected count rounded up or down, with the expected count as its mean,
    and which of the rows gets which is random.

    Args:
        model: the distribution.
        n_rows: number of rows; its own, not the model's total.
        rng: drawn from.

    Returns:
        Codes, ``(n_rows, len(model.domain))``, columns in the domain's order (stored column by column).

    Raises:
        ValueError: a negative number of rows.
    """
    if n_rows < 0:
        raise ValueError(f"a number of rows is not negative: n_rows={n_rows}")
    tree, names = model.tree, list(model.domain)
    codes: Codes = np.zeros((n_rows, len(names)), dtype=np.int32, order="F")
    columns = {name: codes[:, position] for position, name in enumerate(names)}
    for clique, separator, conditional in zip(tree.cliques, tree.separators, model.beliefs.conditionals, strict=True):
        fresh = tuple(name for name in clique if name not in separator)
        if fresh:
            table = conditional.transpose([clique.index(name) for name in separator + fresh])
            _fill(columns, separator, fresh, table, rng)
    return codes


def round_counts(expected: Array, n_rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole counts for each line of expected counts: each rounded up or down, unbiased, adding up exactly.

    The running sum of a line is shifted by one uniform number and cut off to whole numbers (systematic sampling): a
    cell's count differs from its expectation by less than one, and so does the count of any run of neighboring cells.

    Args:
        expected: expected counts, ``(n_groups, n_cells)``, nonnegative; only proportions within a line matter.
        n_rows: what each line adds up to, ``(n_groups,)``.
        rng: drawn from, one number a line.

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


def _fill(columns: dict[str, Codes], given: Clique, fresh: Clique, table: Array, rng: np.random.Generator) -> None:
    """Write the columns of the fresh attributes, by a table of their distribution given the columns already there."""
    given_shape, fresh_shape = table.shape[: len(given)], table.shape[len(given) :]
    n_rows = len(columns[fresh[0]])
    if given:
        groups = np.ravel_multi_index([columns[name] for name in given], given_shape)
    else:
        groups = np.zeros(n_rows, dtype=np.intp)
    cells = _share_out(table.reshape(math.prod(given_shape), -1), groups, rng)
    for name, codes in zip(fresh, np.unravel_index(cells, fresh_shape), strict=True):
        columns[name][:] = codes


def _share_out(table: Array, groups: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """For each row a cell of its group's line in the table."""
    sizes = np.bincount(groups, minlength=len(table))
    present = np.flatnonzero(sizes)
    counts = round_counts(table[present], sizes[present], rng)
    cells = np.repeat(np.tile(np.arange(table.shape[1]), len(present)), counts.ravel())
    order = rng.permutation(len(groups))
    if len(present) > 1:
        # Sorting 16-bit keys is a radix sort, an order of magnitude faster than comparing.
        keys = groups.astype(np.uint16) if len(table) <= 1 << 16 else groups
        order = order[np.argsort(keys[order], kind="stable")]
    drawn = np.empty(len(groups), dtype=np.intp)
    drawn[order] = cells
    return drawn
