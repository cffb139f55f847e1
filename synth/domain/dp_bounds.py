"""DP bounds of a column that declares none: public cells over all it could hold, and the window that holds its values.

Bounds are read off one noisy histogram. Its cells are even parts of powers of two on either side of zero, or of the
decades of the calendar. They are finer, the larger the public number of units is beside the noise. The bounds are those
of the window with the largest noisy sum, less a penalty for its cells. So they are wide where little is known. A window
that had to prove its cells one by one would leave out most values of a small table. All counts beside `noisy` are in
standard deviations of the noise. A second histogram, of even parts of these bounds, may narrow them, and noisy counts
tell the steps that values keep.
"""

import datetime as dt
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from synth.domain import grid
from synth.domain.density import posterior_means
from synth.domain.steps import FEWEST_STEPS, steps_of_shares, usual_steps
from synth.schema.kinds import LineColumn

SMALLEST = 2.0**-20  # reals without a declared precision are told apart from zero down to this
SIGNAL_OF_A_POWER, SIGNAL_OF_A_DECADE = 200.0, 100.0
"""Units, in standard deviations of the noise, for which a power of two or a decade is one cell. It has as many parts as
the square of the multiple. As far as cells can be divided, the penalty of a window of eight powers of two, or of two
decades, is at most a ninth of the units.
"""
PARTS, DECADE_PARTS = (1, 2, 4, 8, 16, 32), (1, 2, 10, 40)
"""Parts that a power of two and a decade may have; those of a decade are halves, years and quarters."""
MOST_CELLS = 2_000
"""Cells of a histogram, about."""
LEAST_SIGNAL = 28.0
"""With fewer units, in standard deviations of the noise, a cell holds two powers of two."""
ORDINARY = (2.0**-7, 2.0**20)
"""Magnitudes at which most numbers lie: beyond them a power of two has at most `FEW_PARTS`, all of them `MOST_FAR`."""
FEW_PARTS, MOST_FAR = 2, 100
ERA = (1900, 2100)  # years in which most dates lie: before and after them a century is one cell
PENALTY, ROOT_PENALTY, OTHER_PENALTY = 1.5, 8.0, 6.0
"""The least mass of a window of m cells, in standard deviations of a cell's noise: the less of `PENALTY` m and
`ROOT_PENALTY` sqrt(m). The first keeps noise beside few cells out; the noise of many grows with their root only. A
window beside the best one is looked for with `OTHER_PENALTY`, so that it holds all of what is spread, and then tested.
"""
FALSE_NEAR, FALSE_FAR = 1e-2, 1e-5
"""Probabilities with which noise alone adds to a window: numbers of the other sign that are no larger, and any."""
FAR_SHARE = 0.02
"""Numbers apart from the others, or of another sign, are clamped where they are no more than this beside them."""
LESSER_SHARE = 0.25  # the least share of either sign in a window that both show together
NEAR_ZERO = 1 / 8
"""A window of one sign goes on to zero where it reaches below this share of its largest magnitude."""
ZERO_HELD = 2.0
"""Standard deviations of the noise beyond which a count is taken for one: that of zero keeps it in such a window of a
lattice, and those near zero make its column one to resolve geometrically."""
RANGE_PARTS, FEW_OF_PARTS = (16, 64), 1 / 4
"""Least and most even parts of measured bounds; bounds are narrowed to at most this share of the parts."""
LARGEST_STEP = 1e6  # the largest step that is looked for, in counts of the precision
FINE_CELLS, FINE_SHARE = 2, 0.05
"""A number is resolved geometrically where more of its mass than this lies within so many even cells of zero."""


def public_edges(column: LineColumn, signal: float) -> np.ndarray:
    """Edges of the cells within the column's outer limits; shape (n_cells + 1,), ascending."""
    low, high = column.ends
    if column.is_time:
        inner = _calendar(column, _finest(DECADE_PARTS, (signal / SIGNAL_OF_A_DECADE) ** 2))
    else:
        inner = _powers(column.unit, max(abs(low), abs(high)), signal)
    return np.concatenate([[low], inner[(inner > low) & (inner <= high)], [np.nextafter(high, np.inf)]])


def _finest(known: tuple[int, ...], most: float) -> int:
    return max((parts for parts in known if parts <= most), default=known[0])


def _powers(unit: float | None, largest: float, signal: float) -> np.ndarray:
    """Powers of two of either sign up to the largest magnitude, and zero, in even parts of whole lattice steps."""
    base = SMALLEST if unit is None else unit
    n_powers = math.floor(max(math.log2(max(largest, base)) - math.log2(base), 0.0)) + 1
    starts = np.ldexp(base, np.arange(0, n_powers, 1 if signal >= LEAST_SIGNAL else 2))
    ordinary = (starts >= ORDINARY[0]) & (starts < ORDINARY[1])
    most = (signal / SIGNAL_OF_A_POWER) ** 2
    far = _finest(PARTS, min(most, FEW_PARTS, MOST_FAR / len(starts)))
    room = (MOST_CELLS / 2 - far * len(starts[~ordinary])) / max(ordinary.sum(), 1)
    near = _finest(PARTS, min(most, room))
    parts = np.where(ordinary, near, far)
    powers = np.concatenate([start * (1 + np.arange(n) / n) for start, n in zip(starts, parts, strict=True)])
    if unit is None:
        return np.concatenate([-powers[::-1], [0.0], powers])
    powers = np.unique(np.ceil(grid.ratio(powers, unit)) * unit)
    # On a lattice a negative cell ends with its least magnitude, so that zero has a cell of its own.
    return np.concatenate([unit - powers[::-1], powers])


def _calendar(column: Any, parts: int) -> np.ndarray:
    """Starts of all centuries, and of the parts of the decades of the era."""
    months = [(year, 1) for year in range(100, 10_000, 100)]
    step = 120 // parts
    months += [(year, 1 + month) for year in range(*ERA) for month in range(12) if (year % 10 * 12 + month) % step == 0]
    kind = dt.date if column.is_date else dt.datetime
    return np.unique([column.position(kind(year, month, 1)) for year, month in months])


def histogram(positions: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts of the present positions, *Sensitive*, in each cell, those beyond the limits in the outermost."""
    present = positions[~np.isnan(positions)]
    cells = np.clip(np.searchsorted(edges, present, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(cells, minlength=len(edges) - 1)


def step_sizes(column: Any) -> list[int]:
    """Steps that a column may keep, in counts of its precision; none where some are declared, or cells tell all."""
    low, high = column.ends
    if column.is_time or column.unit is None or column.steps or (high - low) / column.unit < grid.EVEN_CELLS:
        return []
    return usual_steps(min(max(abs(low), abs(high)) / column.unit, LARGEST_STEP))


def step_counts(positions: np.ndarray, sizes: Sequence[int], unit: float) -> np.ndarray:
    """*Sensitive*. Counts of values by the largest size that they are multiples of, the last count of those on none.

    One count a value is enough: a multiple of a size is one of all sizes that divide it. Zero is one of all sizes, and
    is left out.
    """
    steps = grid.ratio(positions[~np.isnan(positions) & (positions != 0)], unit)
    largest = np.full(len(steps), len(sizes))
    for index, size in enumerate(sizes):
        largest[np.mod(steps, size) == 0] = index
    return np.bincount(largest, minlength=len(sizes) + 1)


def with_steps(column: Any, sizes: Sequence[int], noisy: np.ndarray, sigma: float) -> Any:
    """A column of known bounds with the steps that its values keep, by noisy counts of sizes."""
    low, high = column.ends
    counts, unit = posterior_means(noisy, sigma), column.unit
    total = max(float(counts.sum()), 1.0)
    shares = {
        size: float(counts[:-1][[larger % size == 0 for larger in sizes]].sum()) / total
        for size in sizes
        if (high - low) / (size * unit) >= FEWEST_STEPS
    }
    if (high - low) / unit < grid.EVEN_CELLS or not (steps := steps_of_shares(shares, unit, sigma / total)):
        return column
    kind = int if column.is_whole else float
    told = {"steps": tuple(kind(size) for size, _ in steps)}
    return column.model_copy(update=told | {"step_shares": tuple(share for _, share in steps)})


def range_edges(column: Any, signal: float) -> np.ndarray:
    """Edges of even parts of measured bounds: more of them, the larger the signal (units over the noise)."""
    low, high = column.ends
    return np.linspace(low, np.nextafter(high, np.inf), int(np.clip(signal / 2, *RANGE_PARTS)) + 1)


def narrowed(column: Any, edges: np.ndarray, noisy: np.ndarray, sigma: float) -> Any:
    """The column with narrower bounds, where few parts surely hold most of its values.

    It is for latitudes or years, which are further from zero than from each other. Near zero tails are long, and bounds
    stay.
    """
    counts, (low, high) = noisy / sigma, column.ends
    window = _joined(_with_others(counts, _best_window(counts, 0, len(counts)), []))
    first, end = max(window.first - 1, 0), min(window.last + 2, len(counts))
    outside = counts.sum() - counts[first:end].sum() + 2 * math.sqrt(len(counts) - (end - first))
    near_zero = not column.is_time and min(abs(low), abs(high)) < NEAR_ZERO * max(abs(low), abs(high))
    if near_zero or low < 0 < high or end - first > FEW_OF_PARTS * len(counts) or outside > LESSER_SHARE * counts.sum():
        return column
    return column.model_copy(update={"bounds": column.between(*_outward(edges[first], edges[end], column.unit))})


def _outward(first: float, last: float, unit: float | None) -> tuple[float, float]:
    """Two positions; on a lattice the values around them that the column can hold."""
    return (first, last) if unit is None else (math.floor(first / unit) * unit, math.ceil(last / unit) * unit)


def bounded(column: Any, edges: np.ndarray, noisy: np.ndarray, sigma: float) -> Any:
    """The column with the bounds of the window that holds its values; reads only the noisy histogram."""
    counts = noisy / sigma
    if column.is_time:
        window = _joined(_with_others(counts, _best_window(counts, 0, len(counts)), []))
    else:
        window = _window_of_numbers(edges, counts, on_lattice=column.unit is not None)
    first, last = _outward(float(edges[window.first]), float(edges[window.last + 1]), column.unit)
    bounded = column.model_copy(update={"bounds": column.between(first, last), "measure": False})
    near = _near_zero(bounded, edges, counts, window) if getattr(column, "scale", None) == "linear" else None
    much = FINE_SHARE * window.sum(counts)
    if near is None or not near.surely(counts, FALSE_NEAR) or not near.sum(counts) > much > 0:
        return bounded
    # Zeros alone have a cell of their own on an even grid, and all other values keep their even cells.
    others = np.where(edges[:-1] == 0.0, 0.0, counts)
    near = _near_zero(bounded, edges, others, window)
    if near is None or near.sum(others) - ZERO_HELD * math.sqrt(near.last + 1 - near.first) <= much:
        return bounded.model_copy(update={"spikes": (0 if bounded.is_whole else 0.0,)})
    return bounded.model_copy(update={"scale": "log"})


class _Window(NamedTuple):
    """Adjacent cells."""

    score: float
    first: int
    last: int
    n_cells: int

    def sum(self, counts: np.ndarray) -> float:
        return float(counts[self.first : self.last + 1].sum())

    def surely(self, counts: np.ndarray, chance: float) -> bool:
        """True if noise alone makes as good a window no more often than that: one of as high a score, or as sure a sum.

        The sum is compared with those of all windows that there are, of which a half have other ends.
        """
        mean = self.sum(counts) / math.sqrt(self.last + 1 - self.first)
        high, sure = stats.norm.isf(chance / 2 / self.n_cells), stats.norm.isf(chance / self.n_cells**2)
        return bool(self.score + PENALTY > high or mean > sure)


def _best_window(counts: np.ndarray, start: int, end: int, root_penalty: float = ROOT_PENALTY) -> _Window:
    """The window of largest score among the cells from `start` to before `end`, at least one."""
    before = np.concatenate([[0.0], np.cumsum(counts[start:end])])
    sizes = np.arange(end - start + 1)
    penalties = np.minimum(PENALTY * sizes, root_penalty * np.sqrt(sizes))
    best = _Window(-np.inf, 0, 0, end - start)
    for size in range(1, end - start + 1):
        sums = before[size:] - before[:-size]
        first = int(np.argmax(sums))
        score = float(sums[first] - penalties[size])
        best = max(best, _Window(score, start + first, start + first + size - 1, end - start))
    return best


def _with_others(counts: np.ndarray, best: _Window, ends: Sequence[int]) -> list[_Window]:
    """The best window, and others that surely hold a good part of the numbers, however far they are."""
    kept, more = [], [best]
    while more:
        kept += more
        starts = {window.first for window in kept}
        cuts = sorted({0, len(counts), *ends, *starts, *(window.last + 1 for window in kept)})
        beside = [_best_window(counts, *cells, OTHER_PENALTY) for cells in pairwise(cuts) if cells[0] not in starts]
        least = FAR_SHARE * best.sum(counts)
        more = [window for window in beside if window.surely(counts, FALSE_FAR) and window.sum(counts) > least]
    return kept


def _joined(windows: Sequence[_Window]) -> _Window:
    """From the first cell of any window to the last one."""
    first, last = min(window.first for window in windows), max(window.last for window in windows)
    return _Window(sum(window.score for window in windows), first, last, windows[0].n_cells)


def _window_of_numbers(edges: np.ndarray, counts: np.ndarray, *, on_lattice: bool) -> _Window:
    """The best window of one sign and those of the others that surely hold numbers, or that of both signs as one."""
    n_below, n_not_above = int((edges[:-1] < 0).sum()), int((edges[:-1] <= 0).sum())
    ends = sorted({0, n_below, n_not_above, len(counts)})
    best = max(_best_window(counts, start, end) for start, end in pairwise(ends))
    window = _to_zero(_joined(_with_others(counts, best, ends)), edges, counts, on_lattice=on_lattice)
    above, below = max(window.last + 1 - n_not_above, 0), max(n_below - window.first, 0)
    opposite = (n_not_above, n_not_above + below) if above == 0 else (n_below - above, n_below)
    start, end = max(opposite[0], 0), min(opposite[1], len(counts))
    # A window that reaches zero is widened twice at most by numbers of the other sign that are no larger.
    if start < end and (window.first in (n_below, n_not_above) or window.last in (n_below - 1, n_not_above - 1)):
        other = _best_window(counts, start, end, OTHER_PENALTY)
        window = _joined([window, other]) if other.surely(counts, FALSE_NEAR) else window
    return max([window, *_folded(counts, n_below, n_not_above)])


def _folded(counts: np.ndarray, n_below: int, n_not_above: int) -> list[_Window]:
    """The best window of magnitudes whatever the sign: what neither sign shows alone, both may show together."""
    n_both = min(n_below, len(counts) - n_not_above)
    if n_both == 0:
        return []
    below, above = counts[n_below - n_both : n_below][::-1], counts[n_not_above : n_not_above + n_both]
    both = (below + above) / math.sqrt(2)
    window = _best_window(both, 0, n_both)
    lesser = min(window.sum(below), window.sum(above))
    if not window.surely(both, FALSE_NEAR) or lesser < LESSER_SHARE * window.sum(below + above):
        return []
    zero = max(0.0, float(counts[n_below:n_not_above].sum()) - PENALTY)
    score = window.score * math.sqrt(2) - PENALTY + zero
    return [_Window(score, n_below - 1 - window.last, n_not_above + window.last, n_both)]


def _to_zero(window: _Window, edges: np.ndarray, counts: np.ndarray, *, on_lattice: bool) -> _Window:
    """The window, on to zero where it reaches far toward it; on a lattice short of a zero that surely holds nothing."""
    low, high = edges[window.first], edges[window.last + 1]
    zero = int(np.searchsorted(edges[:-1], 0.0))
    zero_stays = zero < len(counts) and edges[zero] == 0 and not (on_lattice and counts[zero] <= ZERO_HELD)
    if 0 < low < NEAR_ZERO * high:
        return window._replace(first=zero if zero_stays or edges[zero] > 0 else zero + 1)
    if NEAR_ZERO * low < high <= 0:
        return window._replace(last=zero if zero_stays else zero - 1)
    return window


def _near_zero(column: Any, edges: np.ndarray, counts: np.ndarray, window: _Window) -> _Window | None:
    """What lies near zero, where even cells of the public grid would hide it."""
    low, high = column.ends
    unit = column.unit
    width = high / grid.EVEN_CELLS - low / grid.EVEN_CELLS
    if unit is not None and width <= unit:
        return None
    fine = np.flatnonzero((edges[:-1] >= -FINE_CELLS * width) & (edges[1:] <= FINE_CELLS * width))
    fine = fine[(fine >= window.first) & (fine <= window.last)]
    if len(fine) == 0:
        return None
    return _best_window(counts, int(fine[0]), int(fine[-1]) + 1, OTHER_PENALTY)
