"""Distances between rows of mixed type, and the nearest rows: one space for every distance and every attack.

The squared distance of two rows adds up over the learned columns: 1 where categories differ or one value is missing,
and `RANK_SCALE`^2 times the squared difference of ranks where both are numbers or times, ranks being taken among the
training rows. Levels of a column with more than `MAX_LEVELS` of them get random directions, so that two different
levels are 1 +- 0.2 apart. Rows are at distance zero if and only if they are equal, which keys decide, not floats.

Memory is a block of targets times a chunk of the pool: never all pairs.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.sampling import learned_keys
from evaluate.tables import Tables
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import line
from synth.schema import Schema

MAX_LEVELS = 32
RANK_SCALE = 3.0**0.5
"""Makes the mean squared difference of two random ranks 1/2, that of two fair coins."""
N_KNOTS = 2_000
LEAST = 1e-6
"""Distance of two rows that differ by less than the space can tell."""
BLOCK_ROWS, CHUNK_ROWS = 512, 32_768


@dataclass(frozen=True)
class Rows:
    """Rows of one table in the space. *Sensitive* where the table is.

    Attributes:
        keys: equal for equal rows, shape (n,), uint64.
        points: coordinates, shape (n, d_space), float32.
    """

    keys: np.ndarray
    points: np.ndarray

    def take(self, positions: np.ndarray) -> "Rows":
        """The rows at some positions."""
        return Rows(self.keys[positions], self.points[positions])

    def joined(self, other: "Rows") -> "Rows":
        """These rows and then the other ones."""
        return Rows(np.concatenate([self.keys, other.keys]), np.concatenate([self.points, other.points]))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Space:
    """The four tables of an evaluation in one space."""

    train: Rows
    fresh: Rows
    control: Rows
    synthetic: Rows


def space_of(tables: Tables) -> Space:
    """The space of an evaluation, made once for the same tables."""
    if "space" not in tables.kept:
        frames = [tables.train, tables.fresh, tables.control, tables.synthetic]
        points = embed(frames, tables.schema)
        rows = (Rows(learned_keys(f, tables.schema), p) for f, p in zip(frames, points, strict=True))
        tables.kept["space"] = Space(*rows)
    found: Space = tables.kept["space"]
    return found


def embed(frames: list[pd.DataFrame], schema: Schema) -> list[np.ndarray]:
    """Coordinates of the rows of every frame; those that are constant throughout are left out.

    Args:
        frames: *Sensitive* where they are real. The first one gives ranks and levels.
        schema: names the learned columns.

    Returns:
        For each frame its points, shape (len(frame), d_space), float32.
    """
    blocks: list[list[np.ndarray]] = [[np.zeros((len(frame), 0), np.float32)] for frame in frames]
    for name in sorted(schema.learned):
        column = [_coordinates(frame[name], frames[0][name], schema.columns[name]) for frame in frames]
        varies = np.any([(part != column[0][:1]).any(axis=0) for part in column], axis=0)
        for block, part in zip(blocks, column, strict=True):
            block.append(part[:, varies])
    return [np.hstack(block) for block in blocks]


def _coordinates(series: pd.Series, train: pd.Series, column: object) -> np.ndarray:
    """One column of a table in the space; shape (n, d), float32."""
    if isinstance(column, CategoricalColumn | BooleanColumn):
        levels = pd.Index(train.dropna().unique()).sort_values()
        codes = levels.get_indexer(pd.Index(series.array))
        codes = np.where(series.isna().to_numpy(), len(levels) + 1, np.where(codes < 0, len(levels), codes))
        return np.asarray(_directions(len(levels) + 2)[codes])
    values, known = (line.positions(part, column) for part in (series, train))  # type: ignore[arg-type]
    missing = np.isnan(values)
    ranks = np.where(missing, 0.0, _ranks(values, known[~np.isnan(known)]))
    # The half by which a missing value's rank could differ is left to the second coordinate.
    return np.column_stack([ranks * RANK_SCALE, missing]).astype(np.float32)


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


def nearest(targets: Rows, pool: Rows, k: int = 1) -> np.ndarray:
    """Distances from each target to its k nearest rows of the pool.

    Args:
        targets: shape (n,) rows.
        pool: at least k rows.
        k: 1 or 2.

    Returns:
        Ascending distances, shape (n, k), float64; zero if and only if the rows are equal.
    """
    twins = _twins(targets.keys, pool.keys)
    distances = np.empty((len(targets), k))
    chunks = np.array_split(np.arange(len(pool)), -(-len(pool) // CHUNK_ROWS))
    augmented = [_augmented(pool.points[chunk]) for chunk in chunks]
    for start in range(0, len(targets), BLOCK_ROWS):
        block = targets.points[start : start + BLOCK_ROWS]
        doubled = np.column_stack([-2.0 * block, np.ones(len(block), dtype=np.float32)])
        candidates = [chunk[_smallest(doubled @ rows.T, k)] for chunk, rows in zip(chunks, augmented, strict=True)]
        distances[start : start + BLOCK_ROWS] = _exact(block, pool.points, np.hstack(candidates))[:, :k]
    distances = np.maximum(distances, LEAST)
    for rank in range(k):
        distances[twins > rank, rank] = 0.0
    return distances


def _augmented(points: np.ndarray) -> np.ndarray:
    """The points with their squared norm as one more coordinate: one matrix product then ranks the distances."""
    return np.column_stack([points, np.einsum("ij,ij->i", points, points)])


def _smallest(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest scores in each row; shape (n, k). Overwrites the scores."""
    rows = np.arange(len(scores))
    first = np.asarray(scores.argmin(axis=1))
    if k == 1:
        return first[:, None]
    scores[rows, first] = np.inf
    return np.column_stack([first, scores.argmin(axis=1)])


def _exact(block: np.ndarray, pool: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Distances to the candidates in double precision, ascending; equal ones are equal in every digit kept."""
    gaps = block[:, None, :].astype(np.float64) - pool[candidates]
    return np.sort(np.round(np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps)), 7), axis=1)


def _twins(keys: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """How many rows of the pool equal each target; shape (n,)."""
    ranked = np.sort(pool)
    return np.asarray(np.searchsorted(ranked, keys, "right") - np.searchsorted(ranked, keys, "left"))
