"""Edges on the line: public grids by kind, declared bins, and quantile bins of a table for evaluation.

A public grid is made from the schema alone. It is even on a linear scale, and geometric on both sides of a zero of its
own on a logarithmic one. A declared spike has a cell of its own. All cells but its neighbors hold a multiple of a step
that nearly all values keep. A grid has at most `MAX_CELLS` cells.
"""

import numpy as np

from synth.domain import numeric_scale
from synth.schema.kinds import LineColumn

MAX_CELLS = 4_000
EVEN_CELLS = 256  # cells of an even grid over a column that can hold more values than that
CELLS_A_DECADE = 24
DECADES = 6
"""The range below the largest magnitude in which a geometric grid resolves a column without a precision."""


def public_grid(column: LineColumn) -> np.ndarray:
    """Edges of fine half-open cells from what is declared alone; shape (n_cells + 1,), ascending."""
    low, high = column.span
    unit = column.unit
    scale, often = getattr(column, "scale", "linear"), column.spacing
    edges = _geometric(low, high, often) if scale == "log" else _even(low, high, often)
    if often != unit:
        edges = between(edges, often)
    return close(np.concatenate([edges, _declared(column), _around_spikes(column)]), column)


def declared_groups(column: LineColumn, edges: np.ndarray) -> np.ndarray | None:
    """The declared bin of every cell of a grid, shape (n_cells,); `None` where no bins are declared."""
    declared = _declared(column)
    if len(declared) == 0:
        return None
    inner = between(declared, column.unit)[1:-1]
    groups = np.searchsorted(inner, edges[:-1], side="right").astype(np.int64)
    apart = numeric_scale.beside_cells(edges, column)
    groups[apart] = len(inner) + 1 + np.arange(len(apart))
    return groups


def quantile_edges(distinct: np.ndarray, counts: np.ndarray, column: LineColumn, n_bins: int) -> np.ndarray:
    """Edges of about `n_bins` half-open bins of equal mass, every frequent value in a bin of its own.
    `distinct`: *Sensitive*. The places on the line that hold a value, ascending, shape (n_places,).
    `counts`: *Sensitive*. How many values each of them holds, shape (n_places,).
    """
    unit = column.unit
    alone = counts * n_bins >= counts.sum() if len(distinct) > n_bins else np.ones(len(distinct), dtype=bool)
    spikes = distinct[alone]
    after = spikes + unit if unit is not None else np.nextafter(spikes, np.inf)
    rest = quantiles(distinct[~alone], counts[~alone], n_bins)
    return close(np.concatenate([spikes, after, rest]), column)


def quantiles(distinct: np.ndarray, counts: np.ndarray, n_bins: int) -> np.ndarray:
    """The values at even shares of a table, from the least to the largest: NumPy's "inverted_cdf" of counted values.
    `distinct`: ascending, shape (n_places,).
    `counts`: of each place, shape (n_places,).

    >>> quantiles(np.array([1.0, 2.0, 7.0]), np.array([2, 1, 1]), 2)
    array([1., 1., 7.])
    """
    if len(distinct) == 0:
        return distinct
    up_to = np.cumsum(counts)
    ranks = np.maximum(np.ceil(up_to[-1] * np.linspace(0, 1, n_bins + 1) - 1), 0)
    return np.asarray(distinct[np.searchsorted(up_to, ranks, side="right")])


def within(edges: np.ndarray, column: LineColumn) -> bool:
    """True if cells are none but between the column's bounds, as far as a grid goes around them.
    `edges`: ascending, shape (n_cells + 1,).
    """
    around = close(np.zeros(0), column)
    return bool(around[0] <= edges[0] and edges[-1] <= around[-1])


def resolution(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """Edges in cells of the column's public grid: even on a linear scale, geometric around zero on a logarithmic one.
    `edges`: ascending, shape (n_cells + 1,).
    """
    if getattr(column, "scale", "linear") == "linear":
        places = (edges - edges[0]) / (edges[-1] - edges[0]) * EVEN_CELLS
    else:
        smallest = max(column.unit or 0.0, float(np.abs(edges).max()) * 10.0**-DECADES, np.finfo(float).tiny)
        places = np.sign(edges) * np.log10(1 + np.abs(edges) / smallest) * CELLS_A_DECADE
    # Cells that float64 hardly tells apart count alike.
    return np.asarray(places if (np.diff(places) > 0).all() else np.arange(len(edges), dtype=np.float64))


def spike_cells(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """The cells of declared spikes, of values beside the line, and of a logarithmic scale's zero; boolean."""
    zero = (0.0,) if getattr(column, "scale", "linear") == "log" else ()
    places = np.array([*getattr(column, "spikes", ()), *zero], dtype=np.float64)
    bare = np.zeros(len(edges) - 1, dtype=bool)
    bare[np.searchsorted(edges, places[(places >= edges[0]) & (places < edges[-1])], side="right") - 1] = True
    bare[numeric_scale.beside_cells(edges, column)] = True
    return bare


def close(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """Inner edges between the bounds, the bounds around them, and a cell for each value beside them."""
    unit, (low, high) = column.unit, column.span

    def top_of(position: float) -> float:
        return float(
            np.nextafter(position, np.inf) if unit is None else max(position + unit / 2, np.nextafter(position, np.inf))
        )

    bottom, top = low if unit is None else low - unit / 2, top_of(high)
    inner = np.unique(between(edges, unit))
    places = [near for near, _ in column.beside.values()]
    below = [near if unit is None else near - unit / 2 for near in places if near < low]
    above = [top_of(near) for near in places if near > high]
    return np.concatenate([below[::-1], [bottom], inner[(inner > bottom) & (inner < top)], [top], above])


def between(edges: np.ndarray, unit: float | None) -> np.ndarray:
    """Edges moved half a step below the first value they admit: no value of a lattice ever lies on an edge."""
    return edges if unit is None else (np.ceil(numeric_scale.ratio(edges, unit)) - 0.5) * unit


def _declared(column: LineColumn) -> np.ndarray:
    return np.array([column.position(edge) for edge in getattr(column, "bins", ())], dtype=np.float64)


def _around_spikes(column: LineColumn) -> np.ndarray:
    """Edges of the cells of declared spikes; of one on a step without exceptions, half a step to either side."""
    spikes = np.array(getattr(column, "spikes", ()), dtype=np.float64)
    unit, often = column.unit, column.spacing
    if unit is None or often is None:
        return np.concatenate([spikes, np.nextafter(spikes, np.inf)])
    steps, strict = numeric_scale.ratio(spikes, often), (often, 1.0) in column.ladder
    around = np.where(strict & (steps == np.round(steps)), often, unit) / 2
    return np.concatenate([spikes - around, spikes + around])


def _even(low: float, high: float, unit: float | None) -> np.ndarray:
    n_values = np.inf if unit is None else round((high - low) / unit) + 1
    if unit is not None and n_values <= EVEN_CELLS:
        return np.asarray((np.ceil(numeric_scale.ratio(np.array(low), unit)) + np.arange(n_values)) * unit)
    return np.linspace(low, high, EVEN_CELLS + 1)


def _geometric(low: float, high: float, unit: float | None) -> np.ndarray:
    """Zero plus geometric cells on either side, down to the precision or `DECADES` below the largest magnitude."""
    largest = max(abs(low), abs(high))
    smallest = max(unit or 0.0, largest * 10.0**-DECADES)
    if largest == 0.0 or smallest == 0.0:  # the second for magnitudes too small to be divided
        return np.zeros(0)
    n_steps = int(np.ceil(np.log10(largest / smallest) * CELLS_A_DECADE)) + 1
    magnitudes = smallest * 10.0 ** (np.arange(n_steps + 1) / CELLS_A_DECADE)
    after_zero = np.array([0.0, unit if unit is not None else np.nextafter(0.0, 1.0)])
    # A negative magnitude m opens the cell [-m, ...) toward zero, as a positive one opens [m, ...) away from it.
    return np.concatenate([-magnitudes[::-1], after_zero, magnitudes])
