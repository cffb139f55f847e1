"""The numeric scale: positions on the line of a number or time, drawn within cells and put on its precision."""

from collections.abc import Callable, Sequence

import numpy as np

from synth.schema.kinds import LineColumn

ROUNDING = 8.0  # float spacings by which a quotient may miss a whole number
LARGEST = 2.0**62
"""Steps of a precision that are counted at most, either way: as many as int64 holds."""


def draw(edges: np.ndarray, cells: np.ndarray, column: LineColumn, rng: np.random.Generator) -> np.ndarray:
    """Values drawn uniformly from half-open cells [edge, next edge), on the column's own precision.

    Of a column with steps, the share that is on each is drawn from its multiples, in cells that hold any.
    `edges`: ascending, shape (n_cells + 1,).
    `cells`: of the values, shape (n,).

    Returns:
        Positions on the line, shape (n,): int64 counts of its `unit` where there is one, else float64.
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
    `positions`: on the line, shape (n,).
    `shares`: of the positions that are on each step in the end, shape (n_steps,); empty: on none but by chance.

    Returns:
        Positions on the line, shape (n,).
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
    """The multiple of a step nearest to each count, among those between the ends that are not taken.
    `counts`: of the precision, shape (n,).
    `ends`: least and greatest count, shape (2,).

    Returns:
        Counts, and whether there is such a multiple; shape (n,) both.
    """
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
    `drawn`: counts of `unit`, shape (n,).
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
    """The length of line that the values of each cell stand for: its width, or its multiples of steps by their shares.
    `edges`: ascending, shape (n_cells + 1,).
    """
    unit = column.unit
    if unit is None:
        return np.diff(edges)
    ladder = column.ladder
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
