"""The line of numbers and times: edges of cells on it, values drawn within cells and put on the precision.

A public grid is made from the schema alone. It is even on a linear scale, and geometric on both sides of a zero of its
own on a logarithmic one. A declared spike has a cell of its own. All cells but its neighbors hold a multiple of a step
that nearly all values keep. A grid has at most `MAX_CELLS` cells.

Edges are ascending, shape (n_cells + 1,), of half-open cells. Positions are float64, shape (n,); on a precision values
are int64 counts of the column's `unit`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from synth.schema.kinds import LineColumn

MAX_CELLS = 4_000
EVEN_CELLS = 256  # cells of an even grid over a column that can hold more values than that
CELLS_A_DECADE = 24
ROUNDING = 8.0  # float spacings by which a quotient may miss a whole number
LARGEST = 2.0**62  # steps of a precision that are counted at most, either way: as many as int64 holds
DECADES = 6
"""The range below the largest magnitude in which a geometric grid resolves a column without a precision."""


def public_grid(column: LineColumn) -> np.ndarray:
    """Edges of fine cells from what is declared alone."""
    low, high = column.span
    unit = column.unit
    scale, often = getattr(column, "scale", "linear"), column.spacing
    ticks = column.ticks
    if ticks is not None and len(ticks):
        every = -(-len(ticks) // EVEN_CELLS)
        edges = (np.floor((ticks[:-1] + ticks[1:]) / 2) + 1)[every - 1 :: every]  # `values` takes the nearest tick
    elif scale == "log":
        edges = _geometric(low, high, often)
    elif often is not None and (n_values := round((high - low) / often) + 1) <= EVEN_CELLS:
        edges = (np.ceil(ratio(np.array(low), often)) + np.arange(n_values)) * often
    else:
        edges = np.linspace(low, high, EVEN_CELLS + 1)
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
    apart = beside_cells(edges, column)
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

    >>> quantiles(np.array([1.0, 2.0, 7.0]), np.array([2, 1, 1]), 2)
    array([1., 1., 7.])
    """
    if len(distinct) == 0:
        return distinct
    up_to = np.cumsum(counts)
    ranks = np.maximum(np.ceil(up_to[-1] * np.linspace(0, 1, n_bins + 1) - 1), 0)
    return np.asarray(distinct[np.searchsorted(up_to, ranks, side="right")])


def within(edges: np.ndarray, column: LineColumn) -> bool:
    """True if cells are none but between the column's bounds, as far as a grid goes around them."""
    around = close(np.zeros(0), column)
    return bool(around[0] <= edges[0] and edges[-1] <= around[-1])


def resolution(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """Edges in cells of the column's public grid: even on a linear scale, geometric around zero on another."""
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
    bare[beside_cells(edges, column)] = True
    return bare


def close(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """Inner edges between the bounds, the bounds around them, and a cell for each value beside them."""
    unit, (low, high) = column.unit, column.span

    def top_of(position: float) -> float:
        return float(max(position + (unit or 0.0) / 2, np.nextafter(position, np.inf)))

    bottom, top = low if unit is None else low - unit / 2, top_of(high)
    inner = np.unique(between(edges, unit))
    places = [near for near, _ in column.beside.values()]
    below = [near if unit is None else near - unit / 2 for near in places if near < low]
    above = [top_of(near) for near in places if near > high]
    return np.concatenate([below[::-1], [bottom], inner[(inner > bottom) & (inner < top)], [top], above])


def between(edges: np.ndarray, unit: float | None) -> np.ndarray:
    """Edges moved half a step below the first value they admit: no value of a lattice ever lies on an edge."""
    return edges if unit is None else (np.ceil(ratio(edges, unit)) - 0.5) * unit


def _declared(column: LineColumn) -> np.ndarray:
    return np.array([column.position(edge) for edge in getattr(column, "bins", ())], dtype=np.float64)


def _around_spikes(column: LineColumn) -> np.ndarray:
    """Edges of the cells of declared spikes; of one on a step without exceptions, half a step to either side."""
    spikes = np.array(getattr(column, "spikes", ()), dtype=np.float64)
    unit, often = column.unit, column.spacing
    if unit is None or often is None:
        return np.concatenate([spikes, np.nextafter(spikes, np.inf)])
    steps, strict = ratio(spikes, often), (often, 1.0) in column.ladder
    around = np.where(strict & (steps == np.round(steps)), often, unit) / 2
    return np.concatenate([spikes - around, spikes + around])


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


def draw(edges: np.ndarray, cells: np.ndarray, column: LineColumn, rng: np.random.Generator) -> np.ndarray:
    """Values drawn uniformly from half-open cells [edge, next edge), on the column's own precision.

    Of a column with steps, the share that is on each is drawn from its multiples, in cells that hold any.
    """
    unit = column.unit
    low, high = column.ends
    if unit is None:
        drawn = edges[cells] + rng.random(len(cells)) * np.diff(edges)[cells]
        return np.asarray(np.clip(np.minimum(drawn, np.nextafter(edges[cells + 1], -np.inf)), low, high))
    whole = np.ceil(ratio(edges, unit))
    first, last = whole[:-1], np.maximum(whole[:-1], whole[1:] - 1)
    starts, ends = (np.clip(edge, -LARGEST, LARGEST).astype(np.int64) for edge in (first, last))
    if np.array_equal(starts, ends):
        return np.asarray(starts[cells])
    drawn = np.asarray(rng.integers(starts[cells], ends[cells], endpoint=True))
    ladder, of_cells = column.ladder, (starts[cells], ends[cells])
    return _on_steps(drawn, lambda _: of_cells, ladder, unit, rng) if ladder else drawn


def settle(
    positions: np.ndarray, column: LineColumn, taken: np.ndarray, shares: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Positions folded into the bounds and put on the precision, the share of each step on its nearest multiples.
    `shares`: of the positions that are on each step in the end, shape (n_steps,); empty: on none but by chance.
    """
    unit, ends = column.unit, np.array(column.span)
    inside = _folded(positions, *ends)
    if unit is None:
        return inside
    counts, ends, taken = (ratio(line, unit) for line in (inside, ends, taken))

    def around(every: int) -> tuple[np.ndarray, np.ndarray]:
        near, free = _nearest(counts, every, ends, taken)
        whole = np.clip(near, -LARGEST, LARGEST).astype(np.int64)
        return np.where(free, whole, 1), np.where(free, whole, 0)

    near, free = _nearest(counts, 1, ends, taken)
    settled = np.where(free, near, np.round(counts))
    if len(shares):
        ladder = [(size, share) for (size, _), share in zip(column.ladder, shares, strict=True)]
        whole = np.clip(settled, -LARGEST, LARGEST).astype(np.int64)
        settled = _on_steps(whole, around, ladder, unit, rng)
    return np.asarray(np.clip(settled * unit, *column.span))


def _folded(positions: np.ndarray, low: float, high: float) -> np.ndarray:
    """Positions mirrored at the bound they lie beyond, so that none heap on it; clipped where they are too far off."""
    over, under = (np.maximum(beyond, 0.0) for beyond in (positions - high, low - positions))
    folded = np.clip(positions, low, high) - np.where(over <= high - low, over, 0.0)
    return np.asarray(np.clip(folded + np.where(under <= high - low, under, 0.0), low, high))


def _nearest(counts: np.ndarray, every: int, ends: np.ndarray, taken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The multiple of a step nearest to each count, of those between the ends that are free, and if there is one."""
    quotients, first, last = counts / every, np.ceil(ends[0] / every), np.floor(ends[1] / every)
    near, free = np.clip(np.round(quotients), first, last), np.full(len(counts), first <= last)
    filled = np.unique(np.round(taken[taken % every == 0] / every))
    if len(filled) == 0:
        return near * every, free
    breaks = np.flatnonzero(np.diff(filled) > 1)
    starts, stops = filled[np.append(0, breaks + 1)], filled[np.append(breaks, -1)]
    run = np.maximum(np.searchsorted(starts, near, side="right") - 1, 0)
    inside = (starts[run] <= near) & (near <= stops[run])
    below, above = starts[run] - 1, stops[run] + 1
    down = np.where(below >= first, quotients - below, np.inf)
    up = np.where(above <= last, above - quotients, np.inf)
    beside = np.where(down <= up, below, above)
    return np.where(inside, beside, near) * every, free & ~(inside & np.isinf(down) & np.isinf(up))


def _on_steps(
    drawn: np.ndarray,
    ends: Callable[[int], tuple[np.ndarray, np.ndarray]],
    ladder: Sequence[tuple[float, float]],
    unit: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Drawn counts, many of them replaced by multiples of steps between ends of their own, the finest first.
    `ends`: for a step in counts, least and greatest count that each value may be moved to, two of shape (n,).
    """
    level, up_to = rng.random(len(drawn)), np.cumsum(step_weights(ladder, unit))
    for (size, _), weight in reversed(list(zip(ladder, up_to, strict=True))):
        every = round(size / unit)
        least, greatest = ends(every)
        first, last = -(-least // every), greatest // every
        chosen = (level < weight) & (first <= last)
        drawn[chosen] = every * rng.integers(first[chosen], last[chosen], endpoint=True)
    return drawn


def step_weights(ladder: Sequence[tuple[float, float]], unit: float) -> np.ndarray:
    """Shares of values to draw from each step's multiples, so that as many are on each step as its share says.

    A multiple of a fine step is on a coarser one now and then; that is taken off.

    >>> step_weights([(100.0, 0.55), (10.0, 1.0)], 1.0).round(3).tolist()
    [0.5, 0.5]
    """
    sizes = np.array([size for size, _ in ladder] + [unit])
    on = np.minimum(sizes[None, :] / sizes[:, None], 1.0)  # row: the step asked of; column: the one drawn from
    on[np.tril_indices(len(sizes))] = 1.0
    weights = np.linalg.solve(on, np.array([share for _, share in ladder] + [1.0]))
    return np.asarray(np.clip(weights, 0.0, 1.0)[:-1])


def lattice_measure(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """The length of line that values of each cell stand for: its width, or its multiples of steps by their shares."""
    unit = column.unit
    if unit is None:
        return np.diff(edges)
    ladder, ticks = column.ladder, column.ticks
    if ticks is not None and len(ticks):
        measure = np.diff(np.searchsorted(ticks, edges)) * (edges[-1] - edges[0]) / len(ticks)
        measure[beside_cells(edges, column)] = 1.0
        return np.asarray(measure)
    counts = np.ceil(ratio(edges, unit))
    weights = step_weights(ladder, unit) if ladder else np.zeros(0)
    measure = (1 - weights.sum()) * np.diff(counts)
    for (size, _), weight in zip(ladder, weights, strict=True):
        every = round(size / unit)
        measure += weight * every * np.diff(np.ceil(counts / every))
    measure[beside_cells(edges, column)] = 1.0
    return np.asarray(np.maximum(measure, 0.0) * unit)


def beside_cells(edges: np.ndarray, column: LineColumn) -> np.ndarray:
    """Which cells hold the values beside the line, shape (n_beside,), outward from either bound."""
    places = np.array([position for position, _ in column.beside.values()], dtype=np.float64)
    return np.searchsorted(edges, places, side="right") - 1


def ratio(line: np.ndarray, unit: float) -> np.ndarray:
    """Positions in steps of `unit`, rounded where only float noise keeps them from a whole number."""
    steps = line / unit
    near = np.round(steps)
    return np.where(np.abs(steps - near) <= np.maximum(1e-9, ROUNDING * np.spacing(np.abs(near))), near, steps)


def label(low: float, high: float, column: LineColumn) -> str:
    """The values of a half-open stretch in words: "17", "17 to 22", "2011-03-28 to 2011-04-02", "[0.5, 0.75)"."""
    unit = column.unit
    known = [str(value) for value, (position, _) in column.beside.items() if low <= position < high]
    if len(known) == 1 and high - low <= (unit or np.spacing(high)):
        return known[0]
    if unit is None:
        top = column.ends[1]
        return f"[{low:.6g}, {high:.6g})" if high <= top else f"[{low:.6g}, {top:.6g}]"
    first, last = int(np.ceil(ratio(np.array(low), unit))), int(np.ceil(ratio(np.array(high), unit))) - 1
    texts = [column.show(count) for count in (first, max(first, last))]
    return texts[0] if first >= last else f"{texts[0]} to {texts[1]}"
