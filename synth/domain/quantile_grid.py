"""Quantile grids: cells and codes read off a table. Values of few units share codes, but for booleans and missing ones.

For fits that promise nothing. A frequent value has a cell of its own, and the others are in cells between quantiles.
Values of fewer units than the least share a cell with their neighbors on the line; rare categories are in `other`. So
numbers, times and categories of few units share codes, and what is drawn within a cell follows its ends and its mean.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.domain import grid
from synth.domain.discretizer import Attribute, Discretizer, regroup
from synth.schema import Schema
from synth.schema.kinds import BooleanColumn, CategoricalColumn, LineColumn

FEW_CELLS = 2.5
"""A number or time has a code for each of its cells up to so many times the codes that are asked for."""
MOST_CELLS = 1_000
"""Cells that values of a number are in at most, about; each holds at least that part of them."""
SPLIT = 8  # parts of a cell whose mean is off its middle
OFF_MIDDLE = 0.15
"""The distance of a cell's mean from its middle, in widths, beyond which the cell is split into parts."""

SMALLEST = 1e-300
LEAST_LENGTH = 1e-6  # of the cell of one value alone, as a share of it

Places = NDArray[np.float64]


def quantile_discretizer(
    schema: Schema,
    places: Mapping[str, Places],
    weights: Places,
    *,
    n_bins: int,
    least_units: float,
    least_of_class: float | None = None,
) -> Discretizer:
    """Codes of all modeled columns, read off rows.
    `places`: *Sensitive*. For each column where its values lie on the line, NaN where missing, or the number of its
    category; shape (n,) each.
    `least_of_class`: units of a category of the target that is a code of its own; `None`: as of any.
    """
    columns = []
    for name in schema.modeled:
        column: Any = schema.columns[name]
        if column.is_categorical:
            least = least_of_class if name == schema.target and least_of_class else least_units
            columns.append(_categories(name, column, places[name], weights, least))
        else:
            columns.append(line_attribute(name, column, places[name], weights, n_bins, least_units))
    return Discretizer(tuple(columns))


def _categories(
    name: str, column: CategoricalColumn | BooleanColumn, cells: Places, weights: Places, least: float
) -> Attribute:
    """Categories on their own; the rarest are in `other`, with the next one where too few units hold them."""
    n_cells = len(column.levels) + 2
    mass = np.bincount(cells.astype(np.int64), weights=weights, minlength=n_cells).astype(np.float64)
    known = mass[:-2]
    order = np.argsort(known, kind="stable")
    below = np.cumsum(known[order])
    n_rare = int((known < least).sum())
    if 0 < n_rare < len(known) and known[order[n_rare - 1]] > 0:
        n_rare = max(n_rare, int(np.searchsorted(below, least)) + 1)
    groups = np.arange(len(known))
    if not column.is_boolean:
        groups[order[:n_rare]] = -1
    attribute = Attribute(name, column, None, np.arange(n_cells), mass)
    # Of the rare ones, each is as likely as the next: their own frequencies are those of few units.
    rare = np.concatenate([(groups < 0) & (known > 0) & (known < least), [False, False]])
    if rare.any():
        mass[rare] = mass[rare].mean()
    return regroup(attribute, groups, mass)


def line_attribute(
    name: str, column: LineColumn, positions: Places, weights: Places, n_bins: int, least: float
) -> Attribute:
    """A number or time: frequent values, and cells between quantiles, merged into codes of about even mass."""
    present = ~np.isnan(positions)
    distinct, inverse = np.unique(np.clip(positions[present], *column.ends), return_inverse=True)
    weight = np.bincount(inverse, weights=weights[present]).astype(np.float64)
    missing = float(weights[~present].sum())
    if len(distinct) == 0:
        edges = grid.close(np.zeros(0), column)
        return Attribute(name, column, edges, np.arange(3), np.array([0.0, 0.0, missing or 1.0]))
    enough = max(least, weight.sum() / MOST_CELLS)
    # Each frequent value on its own, and the runs of others between them.
    frequent = weight >= enough
    firsts = np.flatnonzero(np.append(True, frequent[1:] | frequent[:-1]))
    runs = itertools.pairwise([*firsts.tolist(), len(distinct)])
    inner = np.concatenate([_ends(distinct, weight, first, end, enough, column) for first, end in runs])
    edges = grid.close(inner, column)
    cells = np.searchsorted(edges, distinct, side="right") - 1
    n_cells = len(edges) - 1
    mass = np.bincount(cells, weights=weight, minlength=n_cells).astype(np.float64)
    means = np.bincount(cells, weights=weight * distinct, minlength=n_cells) / np.maximum(mass, SMALLEST)
    n_distinct = np.bincount(cells, minlength=n_cells)
    pools = _pools(mass, least)
    kept = np.zeros(n_cells, dtype=bool)
    kept[grid.beside_cells(edges, column)] = True
    few = kept & (pools == -2)
    pools[few] = -1
    mass = _blurred(mass, pools, grid.lattice_measure(edges, column), kept)
    groups = _groups(mass, pools, n_bins, enough)
    others = np.flatnonzero((mass > 0) & ~few)
    if few.any() and len(others):  # a code of enough units, in which they keep their own mass
        groups[few] = groups[_beside(others, np.flatnonzero(few))]
    n_distinct[pools != -1] = 0
    edges, mass, groups = _split(edges, mass, groups, means, n_distinct, column)
    attribute = Attribute(name, column, edges, np.arange(len(mass) + 2), np.concatenate([mass, [0.0, missing]]))
    return regroup(attribute, groups)


def _ends(distinct: Places, weights: Places, first: int, end: int, enough: float, column: LineColumn) -> Places:
    """Edges that a frequent value has around it, or that cut a run into cells of enough mass.

    The outermost cells go beyond their values, to the next tenth but one of a power of ten: no edge is at an extreme
    value. The only value of a column, held by too few units, may be anything.
    """
    unit = column.unit
    if end - first == 1 and weights[first] >= enough:
        value = distinct[first]
        return np.array([value, np.nextafter(value, np.inf) if unit is None else value + unit])
    running = np.cumsum(weights[first:end])
    n_cells = max(int(running[-1] / enough), 1)
    before = np.concatenate([[0.0], running[:-1]])
    cuts = [first]
    for index in range(1, end - first):
        so_far, left = before[index] - before[cuts[-1] - first], running[-1] - before[index]
        if so_far >= running[-1] / n_cells and left >= enough:
            cuts.append(first + index)
    if len(distinct) == 1:
        return np.zeros(0)
    # Between two values, and rounded beyond the last: no edge is a value of a single row.
    between = [(distinct[cut - 1] + distinct[cut]) / 2 for cut in cuts[1:]]
    outer = []
    if first == 0:
        tenth = _tenth(distinct[[first, [*cuts, end][1] - 1]], unit)
        outer.append((np.floor(distinct[first] / tenth) - 1) * tenth)
    if end == len(distinct):
        tenth = _tenth(distinct[[cuts[-1], end - 1]], unit)
        outer.append((np.ceil(distinct[end - 1] / tenth) + 1) * tenth)
    return np.array([*between, *outer])


def _tenth(ends: Places, unit: float | None) -> float:
    """A tenth of the power of ten at or above the length of a cell; of a value alone, above its precision."""
    length = max(float(np.ptp(ends)) or unit or LEAST_LENGTH * float(np.abs(ends).max()), LEAST_LENGTH**2)
    return float(10.0 ** np.ceil(np.log10(length)) / 10)


def _pools(mass: Places, enough: float) -> NDArray[np.int64]:
    """Numbers of pools, from 0, in which cells of too little mass have enough together; -1 for cells in none.

    A pool takes one cell after another, whatever frequent values lie between. Where all of them together have too
    little, their number is -2.
    """
    pools = np.full(len(mass), -1)
    few = np.flatnonzero((mass > 0) & (mass < enough))
    number, running = 0, 0.0
    for cell in few.tolist():
        pools[cell] = number
        running += mass[cell]
        if running >= enough:
            number, running = number + 1, 0.0
    pools[pools == number] = number - 1 if number else -2
    return pools


def _blurred(mass: Places, pools: NDArray[np.int64], measure: Places, kept: NDArray[np.bool_]) -> Places:
    """Masses of cells, those of each pool spread by the values that its cells can hold, and of those kept evenly.

    Cells that are in too small a pool lose their mass to the cell next to them.
    """
    mass = mass.copy()
    for pool in range(pools.max() + 1):
        for cells in (np.flatnonzero((pools == pool) & some) for some in (kept, ~kept)):
            share = measure[cells] if measure[cells].any() else np.ones(len(cells))
            mass[cells] = mass[cells].sum() * share / max(share.sum(), SMALLEST)
    lost = np.flatnonzero(pools == -2)
    left = np.flatnonzero((mass > 0) & (pools != -2))
    if len(left):
        np.add.at(mass, _beside(left, lost), mass[lost])
        mass[lost] = 0.0
    return mass


def _beside(full: NDArray[np.intp], cells: NDArray[np.intp]) -> NDArray[np.intp]:
    """Of the held cells, ascending, the one nearest to each cell."""
    after = np.minimum(np.searchsorted(full, cells), len(full) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(cells - full[before] <= full[after] - cells, full[before], full[after])


def _groups(mass: Places, pools: NDArray[np.int64], n_bins: int, enough: float) -> NDArray[np.int64]:
    """The code of each cell: its own or its pool's where there are few; else about even mass, a heavy cell alone.

    Light cells share a code with the next of them, whatever heavy ones lie between. A cell without mass is in the code
    of one beside it.
    """
    full = np.flatnonzero(mass > 0)
    some = mass[full]
    if len(some) <= FEW_CELLS * n_bins:
        numbers, places = np.unique(pools[full], return_index=True)
        firsts = dict(zip(numbers.tolist(), places.tolist(), strict=True))
        codes = np.array([index if pool < 0 else firsts[pool] for index, pool in enumerate(pools[full].tolist())])
    else:
        target = max(some.sum() / n_bins, enough)
        heavy = (some >= max(target / 2, enough)) & (pools[full] == -1)
        light = np.flatnonzero(~heavy)
        n_codes = max(round(some[light].sum() / target), 1)
        middles = np.cumsum(some[light]) - some[light] / 2
        level = np.floor(middles / max(some[light].sum(), SMALLEST) * n_codes)
        numbers, first, inverse = np.unique(pools[full][light], return_index=True, return_inverse=True)
        if (numbers >= 0).any():  # cells of a pool are all in the level of its first one
            level = np.where(pools[full][light] >= 0, level[first][inverse], level)
        _, places, number = np.unique(level, return_index=True, return_inverse=True)
        codes = np.arange(len(some))
        codes[light] = light[places][number]
    return codes[np.searchsorted(full, _beside(full, np.arange(len(mass))))]


def _split(
    edges: Places, mass: Places, groups: NDArray[np.int64], means: Places, n_distinct: NDArray[np.int64], column: Any
) -> tuple[Places, Places, NDArray[np.int64]]:
    """The cells, those of several values whose mean is off the middle in parts, whose masses give that mean.

    Within such a cell the distribution function is a power of the place: F(x) = x^a. The mean, a / (a + 1), sets it.
    """
    made_edges, made_mass, made_groups = [edges[:1]], [], []
    for cell, (low, high) in enumerate(itertools.pairwise(edges)):
        middle = float(np.clip((means[cell] - low) / (high - low), 1e-3, 1 - 1e-3))
        if n_distinct[cell] < 2 or abs(middle - 0.5) <= OFF_MIDDLE:
            ends, parts = np.array([high]), mass[cell : cell + 1]
        else:
            even = np.linspace(0, 1, SPLIT + 1) ** ((1 - middle) / middle)  # even shares of the values lie between
            inner = grid.between(low + (high - low) * even[1:-1], column.unit)
            ends = np.append(np.unique(inner[(inner > low) & (inner < high)]), high)
            places = (np.concatenate([[low], ends]) - low) / (high - low)
            parts = mass[cell] * np.diff(places ** (middle / (1 - middle)))
        made_edges.append(ends)
        made_mass.append(parts)
        made_groups.append(np.full(len(parts), groups[cell]))
    return np.concatenate(made_edges), np.concatenate(made_mass), np.concatenate(made_groups)
