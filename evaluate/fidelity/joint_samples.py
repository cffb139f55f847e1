"""The rows that whole-row measures compare: equally many of each table, as points, in groups for half-samples.

Synthetic and training rows are drawn by one seed: a table that equals train gives the sample that train gives. Shuffled
rows are made of training rows that are not in the sample, as far as there are any.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from evaluate.intervals import N_GROUPS
from evaluate.neighbors import embed
from evaluate.sampling import entity_codes, shuffle_columns
from evaluate.tables import Tables
from synth.row_hash import drawn_order
from synth.schema import Schema
from synth.split import row_keys

MAX_ROWS = 5_000  # Rows of each table that are compared at most
MIN_UNITS = 20  # Rows (entities, where the table has them) of each table that a comparison needs


@dataclass(frozen=True)
class JointSide:
    """Rows of one table. *Sensitive* where the table is."""

    rows: pd.DataFrame  # canonical, shape (n, columns)
    points: np.ndarray  # in the space of `evaluate.neighbors`, shape (n, d_space), float64
    units: np.ndarray  # entity of each row, or a number of its own, from 0 in random order; shape (n,)

    @property
    def groups(self) -> np.ndarray:
        """The half-sample group of each row, whole entities together; shape (n,)."""
        return self.units % N_GROUPS


@dataclass(frozen=True)
class JointSamples:
    train: JointSide  # *Sensitive*. Training rows
    fresh: JointSide  # *Sensitive*. Rows of the holdout
    synthetic: JointSide
    shuffled: JointSide  # *Sensitive*. Training rows, each column shuffled on its own

    @classmethod
    def draw(cls, tables: Tables) -> Self:
        """The samples of one evaluation, by its seed; they do not depend on the order of rows or columns. `tables`:
        *Sensitive*. As `Tables.prepare` gives them.
        """
        schema, seed = tables.schema, tables.seed
        n = min(len(tables.train), len(tables.synthetic), len(tables.fresh) + len(tables.control), MAX_ROWS)
        order = drawn_order(_keys(tables.train, schema), 2 * seed)
        train = _rows(tables.train, order[:n], schema)
        shuffled = shuffle_columns(_rows(tables.train, order[-n:], schema), np.random.default_rng([seed, 8]))
        synthetic = _rows(tables.synthetic, drawn_order(_keys(tables.synthetic, schema), 2 * seed)[:n], schema)
        frames = [train, _fresh(tables, n), synthetic, shuffled]
        points = embed(frames, schema)
        return cls(
            *(JointSide(f, p.astype(np.float64), _units(f, schema)) for f, p in zip(frames, points, strict=True))
        )

    @property
    def n(self) -> int:
        return len(self.train.rows)

    @property
    def n_units(self) -> int:
        """Rows, or entities, of the table that has the fewest of them; the shuffled rows do not count."""
        return min(int(side.units.max()) + 1 for side in (self.train, self.fresh, self.synthetic))


def joint_samples(tables: Tables) -> JointSamples:
    """The samples of an evaluation, drawn once for the same tables."""
    return tables.kept.once("joint samples", lambda: JointSamples.draw(tables))


def _columns(schema: Schema) -> list[str]:
    return sorted({*schema.learned, *([schema.entity] if schema.entity is not None else [])})


def _keys(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A key for each row, equal for equal rows of one entity; shape (len(frame),), uint64."""
    return row_keys(frame, _columns(schema))


def _rows(frame: pd.DataFrame, positions: np.ndarray, schema: Schema) -> pd.DataFrame:
    """The rows at some positions; columns in the order of their names."""
    return pd.DataFrame({name: frame[name].take(positions).reset_index(drop=True) for name in _columns(schema)})


def _fresh(tables: Tables, n: int) -> pd.DataFrame:
    """A sample of the holdout, whose two parts are never joined as a whole."""
    schema, parts = tables.schema, (tables.fresh, tables.control)
    order = drawn_order(np.concatenate([_keys(part, schema) for part in parts]), 2 * tables.seed + 1)[:n]
    second = order >= len(parts[0])
    taken = [_rows(parts[0], order[~second], schema), _rows(parts[1], order[second] - len(parts[0]), schema)]
    place = np.argsort(np.r_[np.flatnonzero(~second), np.flatnonzero(second)])
    return pd.concat(taken, ignore_index=True).take(place).reset_index(drop=True)


def _units(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The unit of each row; one without an entity is a unit of its own."""
    return np.asarray(pd.factorize(entity_codes(frame, schema))[0])
