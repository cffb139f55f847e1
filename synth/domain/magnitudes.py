"""Public cells on which unknown bounds are found: coarse ones over everything a column could hold, then even ones.

Numbers fall into powers of two on either side of zero, times into decades. Where all values lie in a small part of what
these show (a latitude, a week), a second histogram of even cells finds that part.
"""

import datetime as dt
import math
from typing import Any

import numpy as np
from scipy import stats

from synth.columns import DateColumn, DatetimeColumn, IntegerColumn
from synth.domain import grid, line

SMALLEST = 2.0**-20
"""Reals without a declared precision are told apart from zero down to this."""
FALSE_CELL = 0.01
"""Probability with which any empty cell of a histogram is taken for one that holds values."""
EVEN_CELLS = 1_000
WORTH = 8.0
"""Even cells narrow the bounds only where what they show is so many times smaller: they cut off thin tails."""
FINE_SHARE = 0.05
"""A number is resolved geometrically where more of its mass than this lies below the width of an even cell."""


def magnitude_edges(column: line.LineColumn) -> np.ndarray:
    """Edges of the coarse cells within the column's outer limits; shape (n_cells + 1,), ascending."""
    low, high = line.bounds(column)
    if isinstance(column, DateColumn | DatetimeColumn):
        inner = np.array([line.place(_start(column, decade), column) for decade in range(10, 10_000, 10)])
    else:
        unit = line.step(column)
        base = SMALLEST if unit is None else unit
        n_powers = math.ceil(math.log2(max(abs(low), abs(high), base) / base)) + 1
        powers = base * 2.0 ** np.arange(n_powers)
        # On a lattice a negative cell ends with its least magnitude, so that zero has a cell of its own.
        negative = -powers if unit is None else unit - powers
        inner = np.unique(np.concatenate([negative, [0.0], powers]))
    return np.concatenate([[low], inner[(inner > low) & (inner < high)], [np.nextafter(high, np.inf)]])


def even_edges(column: line.LineColumn) -> np.ndarray:
    """Edges of even cells between the column's bounds; shape (EVEN_CELLS + 1,), ascending."""
    low, high = line.bounds(column)
    return np.linspace(low, np.nextafter(max(high, low + EVEN_CELLS * 1e-300), np.inf), EVEN_CELLS + 1)


def _start(column: DateColumn | DatetimeColumn, year: int) -> dt.date:
    return dt.date(year, 1, 1) if isinstance(column, DateColumn) else dt.datetime(year, 1, 1)


def histogram(positions: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many present positions lie in each cell, those beyond the limits in the outermost; shape (n_cells,).

    Args:
        positions: *Sensitive*. On the line, NaN where missing, shape (n,).
        edges: of the cells.
    """
    present = positions[~np.isnan(positions)]
    cells = np.clip(np.searchsorted(edges, present, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(cells, minlength=len(edges) - 1)


def bounded(column: Any, edges: np.ndarray, noisy: np.ndarray, sigma: float) -> Any:
    """The column with the bounds of the coarse cells that hold values beyond doubt; reads only the noisy histogram.

    Args:
        column: a number's or a time's, with its outer limits.
        edges: of the cells, shape (n_cells + 1,).
        noisy: the histogram, shape (n_cells,).
        sigma: standard deviation of its noise.
    """
    surely = _surely(noisy, sigma)
    found = np.flatnonzero(surely) if surely.any() else np.array([int(np.argmax(noisy))])
    narrowed = _between(column, float(edges[found[0]]), float(edges[found[-1] + 1]))
    if getattr(column, "scale", None) == "linear" and _is_fine(narrowed, edges, np.where(surely, noisy, 0)):
        return narrowed.model_copy(update={"scale": "log"})
    return narrowed


def narrowed(column: Any, edges: np.ndarray, noisy: np.ndarray, sigma: float) -> Any:
    """The column with the bounds of the even cells that hold values, where these are a small part of all.

    Args:
        column: with the bounds that the even cells lie between.
        edges: of the cells, shape (n_cells + 1,).
        noisy: the histogram, shape (n_cells,).
        sigma: standard deviation of its noise.
    """
    found = np.flatnonzero(_surely(noisy, sigma))
    if len(found) == 0:
        return column
    first, last = max(found[0] - 1, 0), min(found[-1] + 1, len(noisy) - 1)
    outside = noisy[:first].sum() + noisy[last + 1 :].sum()
    n_outside = len(noisy) - (last + 1 - first)
    # Values spread thinly over many cells show in none of them, but in their sum.
    if (last + 1 - first) * WORTH > len(noisy) or outside > 3 * sigma * math.sqrt(n_outside):
        return column
    return _between(column, float(edges[first]), float(edges[last + 1]))


def _surely(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Which cells hold values beyond doubt."""
    return np.asarray(noisy > sigma * stats.norm.isf(FALSE_CELL / len(noisy)))


def _between(column: Any, first: float, last: float) -> Any:
    """The column with half-open [first, last) as its bounds, in its own type and within its outer limits."""
    low, high = column.bounds
    unit = line.step(column)
    if unit is not None:  # on a lattice bounds are values that the column can hold
        first, last = math.floor(first / unit) * unit, math.ceil(last / unit) * unit
    if isinstance(column, DateColumn | DatetimeColumn):
        limits = line.bounds(column)
        bounds = (
            low if first <= limits[0] else line.moment(first, column),
            high if last >= limits[1] else line.moment(last, column),
        )
    elif isinstance(column, IntegerColumn):
        least = max(low, int(first))
        bounds = (least, max(least, min(high, int(last) - 1)))
    else:
        ends = (
            (first, last) if column.decimals is None else (round(first, column.decimals), round(last, column.decimals))
        )
        bounds = (max(low, ends[0]), min(high, ends[1]))
    return column.model_copy(update={"bounds": bounds, "measure": False})


def _is_fine(column: Any, edges: np.ndarray, mass: np.ndarray) -> bool:
    """Whether even cells of the public grid would hide much of what lies near zero."""
    low, high = line.bounds(column)
    unit = line.step(column)
    width = (high - low) / grid.EVEN_CELLS
    if unit is not None and width <= unit:
        return False
    return bool(mass[np.diff(edges) < width].sum() > FINE_SHARE * mass.sum() > 0)
