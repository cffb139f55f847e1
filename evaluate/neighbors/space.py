"""Rows of mixed type as points: one space for every distance and every attack.

The squared distance of two rows adds up over the learned columns: 1 where categories differ or one value is missing,
and `RANK_SCALE`^2 times the squared difference of ranks among all real rows. Levels of a column with more than
`MAX_LEVELS` of them get random directions, so that two different levels are 1 +- 0.2 apart.

Source: Gower 1971, "A general coefficient of similarity and some of its properties".
"""

from collections.abc import Mapping
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
    real = [tables.train, tables.fresh, tables.control]
    frames, schema = [*real, tables.synthetic], tables.schema
    keys = [content_hashes(frame, schema) for frame in frames]
    columns: list[dict[str, np.ndarray]] = [{} for _ in frames]
    blocks: list[list[np.ndarray]] = [[] for _ in frames]
    for name in sorted(schema.learned):
        scale = Scale.of(pd.concat([frame[name] for frame in real], ignore_index=True), schema.columns[name])
        values = [scale.apply(frame[name]) for frame in frames]
        for column, block, part, points in zip(columns, blocks, values, _varying(scale, values), strict=True):
            column[name] = part
            block.append(points)
    stacked = [np.hstack([np.zeros((len(k), 0), np.float32), *part]) for k, part in zip(keys, blocks, strict=True)]
    return Space(*(SpaceRows(*parts) for parts in zip(keys, stacked, columns, strict=True)))


def embed(frames: list[pd.DataFrame], schema: Schema) -> list[np.ndarray]:
    """Coordinates of every frame, float32, without constant ones; the first gives ranks and levels. *Sensitive*."""
    blocks: list[list[np.ndarray]] = [[np.zeros((len(frame), 0), np.float32)] for frame in frames]
    for name in sorted(schema.learned):
        scale = Scale.of(frames[0][name], schema.columns[name])
        for block, points in zip(blocks, _varying(scale, [scale.apply(frame[name]) for frame in frames]), strict=True):
            block.append(points)
    return [np.hstack(block) for block in blocks]


def _varying(scale: "Scale", values: list[np.ndarray]) -> list[np.ndarray]:
    """Coordinates of one column in each table, without those that are the same in all rows of all tables."""
    points = [scale.points(part) for part in values]
    varies = np.any([(part != points[0][:1]).any(axis=0) for part in points], axis=0)
    return [part[:, varies] for part in points]


@dataclass(frozen=True)
class Scale:
    """The scale of one column. *Sensitive*."""

    column: Any
    levels: pd.Index | None = None
    known: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, known: pd.Series, column: Any) -> "Scale":
        """The scale of a column by all real rows (train's would be spread out by train alone). `known`: *Sensitive*."""
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
