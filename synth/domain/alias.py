"""The alias method: one of many outcomes at random in constant time, whatever their masses."""

from typing import NamedTuple

import numpy as np


class Aliases(NamedTuple):
    """Tables for drawing a cell within each of several groups.

    A group's cells stand side by side. Each has a column of height one, filled with its own mass up to `share` and with
    that of one other cell above.

    Attributes:
        order: the cells sorted by group, shape (n_cells,); what `alias` names are positions in it.
        starts: position of each group's first cell, shape (n_groups,).
        sizes: number of cells of each group, shape (n_groups,).
        share: share of the column that is the cell's own, in [0, 1], shape (n_cells,).
        alias: the cell that has the rest, shape (n_cells,).

    Source: Walker 1977; built as by Vose 1991.
    """

    order: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    share: np.ndarray
    alias: np.ndarray

    def draw(self, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A cell for every group named, in proportion to mass; shape (n,).

        >>> tables = aliases(np.array([0, 1, 1]), np.array([5.0, 0.0, 2.0]))
        >>> tables.draw(np.array([1, 0, 1, 1]), np.random.default_rng(0)).tolist()
        [2, 0, 2, 2]
        """
        if len(self.order) == len(self.sizes):
            return np.asarray(self.order[groups])
        sizes = self.sizes[groups]
        place = rng.random(len(groups)) * sizes
        # Rounding may carry the product of the largest random number and a size up to the size itself.
        drawn = np.minimum(place.astype(np.int64), sizes - 1)
        place -= drawn
        drawn += self.starts[groups]
        return np.asarray(self.order[np.where(place < self.share[drawn], drawn, self.alias[drawn])])


def aliases(group: np.ndarray, mass: np.ndarray) -> Aliases:
    """Tables for drawing cells within groups in proportion to their mass.

    Args:
        group: group of each cell, shape (n_cells,), whole numbers from zero on without gaps.
        mass: of each cell, nonnegative, shape (n_cells,); a group without any has its last cell drawn.
    """
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    share, alias = np.ones(len(group)), np.arange(len(group))
    for start, size in zip(starts, sizes, strict=True):
        if size > 1:
            cells = slice(start, start + size)
            share[cells], alias[cells] = _columns(mass[order[cells]])
            alias[cells] += start
    return Aliases(order, starts, sizes, share, alias)


def _columns(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of each column that is its own cell's, and the cell that fills the rest; both shape (n,)."""
    n, total = len(mass), mass.sum()
    height = mass * (n / total) if total > 0 else n * (np.arange(n) == n - 1.0)
    share, alias = np.ones(n), np.arange(n)
    left = height.tolist()
    low, high = [i for i in range(n) if left[i] < 1], [i for i in range(n) if left[i] >= 1]
    largest = int(np.argmax(height))
    while low:
        cell = low.pop()
        share[cell] = left[cell]
        # What float noise leaves over goes to the largest, so that a cell without mass is never drawn.
        alias[cell] = high[-1] if high else largest
        if not high:
            continue
        left[high[-1]] -= 1 - left[cell]
        if left[high[-1]] < 1:
            low.append(high.pop())
    return share, alias
