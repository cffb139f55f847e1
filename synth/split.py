"""Train and holdout, whole entities on one side.

Where something private is asked for, a unit's side is a hash of its name: of its entity, of the identifier that names
its row, or of what the row holds and its turn among equal rows. No other unit has a say in it: one more unit in the
table is one more on one side, and no other moves. Where rows stand does not matter. Otherwise the sides are drawn by
seed, stratified on the target.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synth.errors import JobError, TableError
from synth.row_hash import Table, entity_codes, frames_of, row_names
from synth.schema import Schema
from synth.table import Table as Source
from synth.table.rows import Rows

MIN_SIDE_ROWS = 40  # rows that either side needs, so that the evaluation's intervals mean something


@dataclass(frozen=True, repr=False)
class Split:
    """The two sides of one table, which unpack as train and holdout.

    Attributes:
        train: *Sensitive*. What generators are fitted on: a frame as the table was one, of a file or a database rows
            that are read in chunks, whose `frame()` is a DataFrame.
        holdout: *Sensitive*. What no generator sees.
        inside: *Sensitive*. Which rows of the table are the holdout, boolean.
    """

    train: Any
    holdout: Any
    keyed: bool
    inside: np.ndarray

    def __iter__(self) -> Iterator[Any]:
        return iter((self.train, self.holdout))

    def __repr__(self) -> str:
        return f"<Split: {len(self.train):,} training rows and {len(self.holdout):,} held out>"


def split_table(
    table: Any,
    schema: Schema,
    *,
    holdout_share: float = 0.2,
    seed: int = 0,
    private: bool = False,
    any_size: bool = False,
    folder: Path | None = None,
) -> Split:
    """Train and holdout of a table.

    Args:
        table: *Sensitive*. Fits the schema: a DataFrame, or anything else that `synth.fit` takes.
        schema: names the entity and the target.
        holdout_share: share of units that go to the holdout, in (0, 1).
        seed: names the split; another seed is another release of the same table.
        private: by hashes of names, never stratified.
        any_size: true where a refusal would tell how many rows there are.
        folder: for what does not fit into memory; `None`: that of the system's temporary files.

    Raises:
        JobError: the share is not inside (0, 1).
        TableError: the table does not fit the schema (where nothing private is asked for), or too few rows are on one
            side; nothing was split.
    """
    if not 0.0 < holdout_share < 1.0:
        raise JobError(f"holdout_share={holdout_share} must lie between 0 and 1; 0.2 is customary")
    source = table if isinstance(table, Rows) else Source.of(table)
    rows = Rows.of(source, schema, outside="clamp" if private else "refuse", folder=folder)
    inside = _keyed(rows, schema, holdout_share, seed) if private else _drawn(rows, schema, holdout_share, seed)
    train, holdout = rows.where(~inside), rows.where(inside)
    if not any_size and min(len(train), len(holdout)) < MIN_SIDE_ROWS:
        raise TableError(
            f"train and holdout need at least {MIN_SIDE_ROWS} rows each, which this table does not give at "
            f"holdout_share={holdout_share}; use a larger table or a share nearer to 0.5"
        )
    if isinstance(source, Rows) or not hasattr(table, "__len__") or isinstance(table, str):
        return Split(train, holdout, private, inside)
    return Split(source.back(train.frame()), source.back(holdout.frame()), private, inside)


def halves(frame: pd.DataFrame, schema: Schema, *, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two disjoint halves of a table, whole entities on one side, stratified on the target."""
    second = _drawn(Rows.from_frames([frame], schema), schema, 0.5, seed)
    return frame[~second].reset_index(drop=True), frame[second].reset_index(drop=True)


def twins(rows: Table, others: Table, columns: Iterable[str]) -> np.ndarray:
    """Flags of the rows with an exact twin among `others`, in the given columns; shape (len(rows),), boolean."""
    names = list(columns)
    return np.isin(row_keys(rows, names), row_keys(others, names))


def row_keys(table: Table, columns: Iterable[str]) -> np.ndarray:
    """A 64-bit key for each row, equal for equal rows (missing equals missing); shape (len(table),), uint64."""
    names = list(columns)
    if not names:
        return np.zeros(len(table), dtype=np.uint64)
    parts = []
    for frame in frames_of(table, *names):
        plain = pd.DataFrame({f"{i}": _hashable(frame[name]) for i, name in enumerate(names)})
        parts.append(np.asarray(pd.util.hash_pandas_object(plain, index=False), dtype=np.uint64))
    return np.concatenate(parts)


def _hashable(column: pd.Series) -> pd.Series:
    """The column such that equal values, and only they, hash alike: a missing text is not the text "None"."""
    if column.dtype == object:
        return column.map(str).where(column.notna(), "\0missing")
    if pd.api.types.is_float_dtype(column.dtype):
        return column + 0.0  # makes one zero of -0.0 and 0.0
    return column


def _keyed(rows: Rows, schema: Schema, share: float, seed: int) -> np.ndarray:
    """Flags of the rows of the holdout, each unit by the hash of its name; shape (len(rows),), boolean.

    MD5 is fast, and nobody has to be kept from finding two names of one side.
    """
    bound = int(share * 2**64).to_bytes(8, "big")

    def inside(units: Iterable[object]) -> np.ndarray:
        names = (f"understudy.split {seed}\n{unit}".encode() for unit in units)
        return np.array([hashlib.md5(name, usedforsecurity=False).digest() < bound for name in names], dtype=bool)

    named = (name for name in schema.kept if schema.columns[name].is_identifier)
    name = schema.entity or next((name for name in named if not schema.columns[name].missing), None)
    if name is None:  # what a row holds is its name
        return np.concatenate([inside(names) for names in row_names(rows, schema)])
    sides = []
    for frame in rows.frames(name):
        codes, units = pd.factorize(frame[name])
        # A row without a name stays in train; without an entity, a private fit lets it contribute nothing.
        sides.append(np.append(inside(units), False)[codes])
    return np.concatenate(sides)


def _drawn(rows: Rows, schema: Schema, share: float, seed: int) -> np.ndarray:
    """Flags of the rows of the second side, drawn unit by unit within strata of the target."""
    rng = np.random.default_rng([seed, 1])
    units = _units(rows, schema)
    _, first = np.unique(units, return_index=True)
    strata = _strata(rows, first, schema)
    order = np.lexsort((rng.random(len(first)), strata))
    starts = np.flatnonzero(np.r_[True, np.diff(strata[order]) != 0]) if len(order) else np.zeros(0, dtype=np.int64)
    sizes = np.diff(np.r_[starts, len(order)])
    ranks = np.arange(len(order)) - np.repeat(starts, sizes)
    offsets = np.repeat(rng.random(len(starts)), sizes)
    inside = np.empty(len(first), dtype=bool)
    # Systematic sampling: every stratum gives its share to within one unit, the odd one by chance.
    inside[order] = np.floor((ranks + 1) * share + offsets) > np.floor(ranks * share + offsets)
    return np.asarray(inside[units], dtype=bool)


def _units(rows: Rows, schema: Schema) -> np.ndarray:
    """A number from 0 for the unit of every row, shape (len(rows),); a row without an entity is a unit of its own."""
    if schema.entity is None:
        return np.arange(len(rows))
    codes = entity_codes(rows, schema)
    alone = codes < 0
    return np.asarray(np.where(alone, codes.max(initial=-1) + np.cumsum(alone), codes))


def _strata(rows: Rows, chosen: np.ndarray, schema: Schema) -> np.ndarray:
    """A stratum for each chosen row by its target: the category, or the decile of a number; 0 without a target."""
    if schema.target is None:
        return np.zeros(len(chosen), dtype=np.int64)
    target = rows.frame(schema.target)[schema.target].iloc[chosen]
    if schema.columns[schema.target].is_categorical:
        return np.asarray(pd.factorize(target)[0], dtype=np.int64)
    ranks = target.rank(pct=True).to_numpy(dtype=float, na_value=0.0)
    return np.ceil(ranks * 10).astype(np.int64)
