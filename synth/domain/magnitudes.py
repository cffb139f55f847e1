"""Coarse public cells over everything a column could hold, on which unknown bounds are found.

Numbers fall into powers of two on either side of zero, times into decades.
"""

import datetime as dt
import math
from typing import Any

import numpy as np
from scipy import stats

from synth.domain import line
from synth.schema import DateColumn, DatetimeColumn, IntegerColumn

SMALLEST = -20
"""Reals without a declared precision are told apart from zero down to two to this power."""
FALSE_CELL = 0.01
"""Probability with which any empty cell is taken for one that holds values."""
SPREAD_CELLS = 3
"""A column whose mass lies to less than half in this many of its largest magnitudes is resolved geometrically."""


def magnitude_edges(column: line.LineColumn) -> np.ndarray:
    """Edges of the cells within the column's outer limits; shape (n_cells + 1,), ascending."""
    low, high = line.bounds(column)
    if isinstance(column, DateColumn | DatetimeColumn):
        inner = np.array([line.place(_start(column, decade), column) for decade in range(10, 10_000, 10)])
    else:
        unit = line.step(column)
        first = SMALLEST if unit is None else math.floor(math.log2(unit))
        powers = 2.0 ** np.arange(first, math.ceil(math.log2(max(abs(low), abs(high), 2.0**first))) + 1)
        inner = np.concatenate([-powers[::-1], powers])
    return np.concatenate([[low], inner[(inner > low) & (inner < high)], [np.nextafter(high, np.inf)]])


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
    """The column with the bounds of the cells that hold values beyond doubt; reads nothing but the noisy histogram.

    Args:
        column: a number's or a time's, with its outer limits.
        edges: of the cells, shape (n_cells + 1,).
        noisy: the histogram, shape (n_cells,).
        sigma: standard deviation of its noise.
    """
    surely = noisy > sigma * stats.norm.isf(FALSE_CELL / len(noisy))
    found = np.flatnonzero(surely) if surely.any() else np.array([int(np.argmax(noisy))])
    first, last = edges[found[0]], edges[found[-1] + 1]
    change: dict[str, Any] = {"bounds": _bounds(column, float(first), float(last)), "measure": False}
    if getattr(column, "scale", None) == "linear" and _spread(edges, np.where(surely, noisy, 0)):
        change["scale"] = "log"
    return column.model_copy(update=change)


def _bounds(column: Any, first: float, last: float) -> tuple[Any, Any]:
    """Half-open [first, last) as bounds in the column's own type, within its outer limits."""
    low, high = column.bounds
    if isinstance(column, DateColumn | DatetimeColumn):
        limits = line.bounds(column)
        return (
            low if first <= limits[0] else line.moment(first, column),
            high if last >= limits[1] else line.moment(last, column),
        )
    if isinstance(column, IntegerColumn):
        return max(low, int(first)), max(int(first), min(high, math.ceil(last) - 1))
    return max(low, first), min(high, last)


def _spread(edges: np.ndarray, mass: np.ndarray) -> bool:
    """Whether most of the mass lies well below the largest magnitude."""
    largest = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    order = np.argsort(-largest, kind="stable")
    held = order[mass[order] > 0]
    return len(held) > SPREAD_CELLS and bool(mass[held[:SPREAD_CELLS]].sum() < mass.sum() / 2)
