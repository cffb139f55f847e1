"""Rows of mixed type as points, one space for every distance and every attack, and the exact search for nearest rows.

The squared distance of two rows adds up over the learned columns: 1 where categories differ or one value is missing,
and `RANK_SCALE`^2 times the squared difference of ranks among all real rows. Levels of a column with more than
`MAX_LEVELS` of them get random directions, so that two different levels are 1 +- 0.2 apart.

Rows are at distance zero if and only if they are equal, which keys decide, not floats. Products in single precision
find candidates; their distances are computed again in double precision. Gower's differences, by some columns, are added
up in whole steps, so that equal sums are equal whatever the order of the columns. The pool's own order decides between
rows that are equally near: attacks hand it over in a seeded random order.

Source: Gower 1971, "A general coefficient of similarity and some of its properties"; Giomi et al. 2023 (2211.10459) for
attacks by it.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from evaluate.tables import Tables
from synth.row_hash import content_hashes
from synth.schema import Schema

MAX_LEVELS = 32
RANK_SCALE = 3.0**0.5  # Makes the mean squared difference of two random ranks 1/2, that of two fair coins
N_KNOTS = 2_000
MISSING = 2.0
"""Stands for a missing number or time among ranks in [0, 1]: no value is as near to it as another missing one."""


@dataclass(frozen=True)
class SpaceRows:
    """Rows of one table in the space. *Sensitive* where the table is."""

    keys: np.ndarray  # equal for equal rows, shape (n,), uint64
    points: np.ndarray  # coordinates, shape (n, d_space), float32
    # for each learned column, by name, the codes of its categories (int32; -1 for one that no real row has) or its
    # ranks among the real rows (float32, in [0, 1], `MISSING` where missing); shape (n,).
    columns: Mapping[str, np.ndarray]

    def take(self, positions: np.ndarray) -> "SpaceRows":
        columns = {name: values[positions] for name, values in self.columns.items()}
        return SpaceRows(self.keys[positions], self.points[positions], columns)

    def joined(self, other: "SpaceRows") -> "SpaceRows":
        columns = {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()}
        keys, points = np.concatenate([self.keys, other.keys]), np.concatenate([self.points, other.points])
        return SpaceRows(keys, points, columns)

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Space:
    train: SpaceRows
    fresh: SpaceRows
    control: SpaceRows
    synthetic: SpaceRows


def space_of(tables: Tables) -> Space:
    """The space of an evaluation, made once for the same tables."""
    return tables.kept.once("space", lambda: _space(tables))


def _space(tables: Tables) -> Space:
    real, schema = [tables.train, tables.fresh, tables.control], tables.schema
    frames = [*real, tables.synthetic]
    columns: list[dict[str, np.ndarray]] = [{} for _ in frames]
    blocks: list[list[np.ndarray]] = [[np.zeros((len(frame), 0), np.float32)] for frame in frames]
    for name, values, points in _encoded(frames, real, schema):
        for column, block, part, coordinates in zip(columns, blocks, values, points, strict=True):
            column[name] = part
            block.append(coordinates)
    keys = (content_hashes(frame, schema) for frame in frames)
    return Space(*(SpaceRows(*parts) for parts in zip(keys, map(np.hstack, blocks), columns, strict=True)))


def embed(frames: list[pd.DataFrame], schema: Schema) -> list[np.ndarray]:
    """Coordinates of every frame, float32, without constant ones; the first gives ranks and levels. *Sensitive*."""
    blocks: list[list[np.ndarray]] = [[np.zeros((len(frame), 0), np.float32)] for frame in frames]
    for _, _, points in _encoded(frames, frames[:1], schema):
        for block, coordinates in zip(blocks, points, strict=True):
            block.append(coordinates)
    return [np.hstack(block) for block in blocks]


def _encoded(
    frames: list[pd.DataFrame], known: list[pd.DataFrame], schema: Schema
) -> Iterator[tuple[str, list[np.ndarray], list[np.ndarray]]]:
    """Codes or ranks of each column in every frame, and its coordinates but those that are the same in all rows. By all
    `known` rows: train's alone would be spread out by train alone. *Sensitive*.
    """
    for name in sorted(schema.learned):
        scale = Scale.of(pd.concat([frame[name] for frame in known], ignore_index=True), schema.columns[name])
        values = [scale.apply(frame[name]) for frame in frames]
        points = [scale.points(part) for part in values]
        varies = np.any([(part != points[0][:1]).any(axis=0) for part in points], axis=0)
        yield name, values, [part[:, varies] for part in points]


@dataclass(frozen=True)
class Scale:
    """The scale of one column. *Sensitive*."""

    column: Any
    levels: pd.Index | None = None
    known: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, known: pd.Series, column: Any) -> "Scale":
        if column.is_categorical:
            return cls(column, levels=pd.Index(known.dropna().unique()).sort_values())
        positions = column.positions(known)
        return cls(column, known=positions[~np.isnan(positions)])

    def apply(self, series: pd.Series) -> np.ndarray:
        """Codes or ranks of some rows, as `SpaceRows` keeps them; shape (n,)."""
        if self.levels is not None:
            codes = self.levels.get_indexer(pd.Index(series.array))
            return np.where(series.isna().to_numpy(), len(self.levels) + 1, codes).astype(np.int32)
        values = self.column.positions(series)
        return np.where(np.isnan(values), MISSING, _ranks(values, self.known) + 0.5).astype(np.float32)

    def points(self, values: np.ndarray) -> np.ndarray:
        """Coordinates of codes or ranks; shape (n, d), float32."""
        if self.levels is not None:
            return np.asarray(_directions(len(self.levels) + 2)[np.where(values < 0, len(self.levels), values)])
        missing = values == MISSING
        # The half by which a missing value's rank could differ is left to the second coordinate.
        ranks = np.where(missing, np.float32(0.0), values - np.float32(0.5))
        return np.column_stack([ranks * np.float32(RANK_SCALE), missing]).astype(np.float32)


def share_of(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The share of a column's known values that equal each value, at least one of them; shape (len(values),)."""
    ranked = np.sort(known)
    n_equal = np.searchsorted(ranked, values, "right") - np.searchsorted(ranked, values, "left")
    return np.asarray(np.maximum(n_equal, 1) / max(len(ranked), 1))


def _ranks(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Ranks in [-1/2, 1/2] among known values, ties in the middle, straight lines between the knots."""
    if len(known) == 0:
        return np.zeros(len(values))
    knots, counts = np.unique(known, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2) / len(known) - 0.5
    if len(knots) > N_KNOTS:
        kept = np.unique(np.searchsorted(middles, np.linspace(middles[0], middles[-1], N_KNOTS)))
        knots, middles = knots[kept], middles[kept]
    return np.asarray(np.interp(values, knots, middles))


def _directions(n_levels: int) -> np.ndarray:
    """A point for each level, any two of them 1 apart (about 1, where there are many); float32."""
    if n_levels <= MAX_LEVELS:
        return np.asarray(np.eye(n_levels) / 2**0.5, dtype=np.float32)
    points = np.random.default_rng(n_levels).standard_normal((n_levels, MAX_LEVELS))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True) / 2**0.5, dtype=np.float32)


CELLS = 1 << 15
"""Pairs of a target and a row of the pool that are looked at together: their sums stay in a processor's cache."""
FINEST = 1 << 17  # Steps that a difference of 1 is counted in, at most
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class _Column:
    targets: np.ndarray  # codes or ranks, shape (n_targets,), int32; twice `unit` where a rank is missing
    pool: np.ndarray  # the same of the pool, shape (n_pool,)
    unit: int
    is_line: bool
    is_cut: bool

    @classmethod
    def of(cls, targets: np.ndarray, pool: np.ndarray, unit: int) -> "_Column":
        if targets.dtype.kind == "i":
            return cls(targets, pool, unit, is_line=False, is_cut=False)
        steps, other = (np.rint(values.astype(np.float64) * unit).astype(np.int32) for values in (targets, pool))
        return cls(steps, other, unit, is_line=True, is_cut=bool((steps > unit).any() or (other > unit).any()))

    def gaps(self, block: slice) -> np.ndarray:
        """Of some targets on a line from all rows of the pool; shape (n_block, n_pool), int32."""
        gaps = np.asarray(self.targets[block, None] - self.pool)
        np.abs(gaps, out=gaps)
        return np.asarray(np.minimum(gaps, self.unit, out=gaps)) if self.is_cut else gaps


def gower_nearest(targets: SpaceRows, pool: SpaceRows, columns: Sequence[str], k: int = 1) -> np.ndarray:
    """Positions of the k nearest rows of the pool by some columns, nearest first; shape (n, k)."""
    parts = _columns(targets, pool, columns)
    nearest = [_first(sums, k) for _, sums in _sums(len(targets), len(pool), parts)]
    return np.concatenate(nearest) if nearest else np.zeros((0, k), dtype=np.int64)


def gower_without_each(targets: SpaceRows, pool: SpaceRows, secrets: Sequence[str]) -> dict[str, np.ndarray]:
    """For each secret column, the nearest row of the pool by all the other columns; shape (n,) each."""
    names = sorted(targets.columns)
    parts = _columns(targets, pool, names)
    left_out, unit = [parts[names.index(name)] for name in secrets], parts[0].unit
    ours, theirs = (np.stack([getattr(part, side) for part in left_out]) for side in ("targets", "pool"))
    are_lines = np.array([part.is_line for part in left_out])[:, None]
    nearest = np.zeros((len(targets), len(secrets)), dtype=np.int64)
    for start, sums in _sums(len(targets), len(pool), parts):
        least = sums.min(axis=1)
        for row, total in enumerate(sums):
            # Leaving out one column takes at most a unit off: no other row can come first.
            near = np.flatnonzero(total <= least[row] + unit)
            gaps = np.abs(ours[:, start + row, None] - theirs[:, near])
            differ = np.where(are_lines, np.minimum(gaps, unit), np.where(gaps > 0, unit, 0))
            nearest[start + row] = near[(total[near] - differ).argmin(axis=1)]
    return dict(zip(secrets, nearest.T, strict=True))


def _columns(targets: SpaceRows, pool: SpaceRows, names: Sequence[str]) -> list[_Column]:
    unit = min(FINEST, LARGEST // (2 * len(names)))
    return [_Column.of(targets.columns[name], pool.columns[name], unit) for name in names]


def _sums(n_targets: int, n_pool: int, parts: Sequence[_Column]) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of targets: where each starts, and what they differ from each row of the pool by; (n_block, n_pool)."""
    size = max(1, CELLS // max(1, n_pool))
    lines, others = ([part for part in parts if part.is_line == is_line] for is_line in (True, False))
    # Of categories only the number that differ counts: it is summed in the fewest bytes, which is several times faster.
    counted = np.uint8 if len(others) < np.iinfo(np.uint8).max else np.uint16
    for start in range(0, n_targets, size):
        block = slice(start, min(start + size, n_targets))
        differ = np.zeros((block.stop - start, n_pool), dtype=counted)
        for part in others:
            differ += part.targets[block, None] != part.pool
        total = np.multiply(differ, parts[0].unit, dtype=np.int32)
        for part in lines:
            total += part.gaps(block)
        yield start, total


def _first(sums: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest sums, ascending, of equal ones the first; shape (n, k)."""
    if k == 1:
        return np.asarray(sums.argmin(axis=1))[:, None]
    if k >= sums.shape[1]:
        return np.asarray(np.argsort(sums, axis=1, kind="stable")[:, :k])
    least = np.partition(sums, k - 1, axis=1)[:, k - 1 : k]
    first = np.empty((len(sums), k), dtype=np.int64)
    for row, below in enumerate(sums <= least):
        near = np.flatnonzero(below)
        first[row] = near[np.argsort(sums[row, near], kind="stable")[:k]]
    return first


LEAST = 1e-6  # Distance of two rows that differ by less than the space can tell
BLOCK_ROWS, CHUNK_ROWS = 512, 32_768
GROUP_ROWS = 64  # Rows of the pool whose least distance is looked at first, where several neighbors are wanted


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of a pool, for each target. *Sensitive* where the rows are."""

    distances: np.ndarray  # ascending, shape (n, k), float64; zero if and only if the rows are equal
    positions: np.ndarray  # of these rows in the pool, shape (n, k)

    def joined(self, other: "Neighbors") -> "Neighbors":
        distances = np.concatenate([self.distances, other.distances])
        return Neighbors(distances, np.concatenate([self.positions, other.positions]))


def nearest(targets: SpaceRows, pool: SpaceRows, k: int = 1) -> np.ndarray:
    """Distances from each target to its k nearest rows of the pool, as `search` finds them; shape (n, k)."""
    return search(targets, pool, k).distances


def search(targets: SpaceRows, pool: SpaceRows, k: int = 1) -> Neighbors:
    """The k nearest rows of the pool to each target. `targets`: shape (n,) rows."""
    chunks = np.array_split(np.arange(len(pool)), -(-len(pool) // CHUNK_ROWS))
    chunks = chunks if min(map(len, chunks)) >= k else [np.arange(len(pool))]
    # The squared norm as one more coordinate: one matrix product then ranks the distances.
    norms = np.einsum("ij,ij->i", pool.points, pool.points)
    augmented = [np.column_stack([pool.points[chunk], norms[chunk]]) for chunk in chunks]
    parts = []
    for start in range(0, len(targets), BLOCK_ROWS):
        block = targets.points[start : start + BLOCK_ROWS]
        doubled = np.column_stack([-2.0 * block, np.ones(len(block), dtype=np.float32)])
        near = [chunk[0] + _smallest(doubled @ rows.T, k) for chunk, rows in zip(chunks, augmented, strict=True)]
        parts.append(_exact(block, pool.points, np.hstack(near), k))
    if not parts:
        return Neighbors(np.zeros((0, k)), np.zeros((0, k), dtype=np.int64))
    distances, positions = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _with_twins(Neighbors(np.maximum(distances, LEAST), positions), targets.keys, pool.keys)


def kept_search(tables: Tables, key: Hashable, find: Callable[[], Neighbors]) -> Neighbors:
    """As `find` of real rows alone, found once for all synthetic tables beside them. `tables`: *Sensitive*. Keep it."""
    return tables.kept_of_real.once(("neighbors", key), find)


def _smallest(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest scores in each row, in any order; shape (n, k)."""
    n, width = scores.shape
    if k == 1:
        return np.asarray(scores.argmin(axis=1))[:, None]
    n_groups = width // GROUP_ROWS
    if n_groups <= 2 * k:
        return np.asarray(np.argpartition(scores, k - 1, axis=1)[:, :k])
    # The k smallest lie in the k groups that have the smallest minima, and among the few that fill no group.
    grouped = scores[:, : n_groups * GROUP_ROWS].reshape(n, GROUP_ROWS, n_groups)
    groups = np.argpartition(grouped.min(axis=1), k - 1, axis=1)[:, :k]
    members = (groups[:, :, None] + n_groups * np.arange(GROUP_ROWS)).reshape(n, -1)
    rest = np.broadcast_to(np.arange(n_groups * GROUP_ROWS, width), (n, width - n_groups * GROUP_ROWS))
    members = np.hstack([members, rest])
    best = np.argpartition(np.take_along_axis(scores, members, axis=1), k - 1, axis=1)[:, :k]
    return np.take_along_axis(members, best, axis=1)


def _exact(block: np.ndarray, pool: np.ndarray, candidates: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the k nearest candidates in double precision, ascending, and their positions in the pool. Equal
    distances are equal in every digit kept; of these the row that stands first in the pool comes first.
    """
    gaps = block[:, None, :].astype(np.float64) - pool[candidates]
    distances = np.round(np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps)), 7)
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def _with_twins(neighbors: Neighbors, keys: np.ndarray, pool: np.ndarray) -> Neighbors:
    """Distance zero, and the position of an equal row, for as many of the neighbors as equal the target."""
    order = np.argsort(pool, kind="stable")
    ranked = pool[order]
    first, after = (np.searchsorted(ranked, keys, side) for side in ("left", "right"))
    distances, positions = neighbors.distances.copy(), neighbors.positions.copy()
    for rank in range(distances.shape[1]):
        equal = after - first > rank
        distances[equal, rank] = 0.0
        positions[equal, rank] = order[first[equal] + rank]
    return Neighbors(distances, positions)
