"""Train and holdout, whole entities on one side.

Where something private is asked for, a unit's side is a hash of its name: of its entity, of the identifier that names
its row, or of what the row holds and its turn among equal rows. No other unit has a say in it: one more unit in the
table is one more on one side, and no other moves. Where rows stand does not matter. Otherwise the sides are drawn by
seed, stratified on the target.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.errors import JobError, TableError
from synth.row_hash import row_names
from synth.schema import Schema
from synth.table import conform

MIN_SIDE_ROWS = 40
"""Rows that either side needs, so that the evaluation's intervals mean something."""


@dataclass(frozen=True, repr=False)
class Split:
    """The two sides of one table, which unpack as train and holdout.

    Attributes:
        train: *Sensitive*. What generators are fitted on.
        holdout: *Sensitive*. What no generator sees.
        inside: *Sensitive*. Which rows of the table are the holdout, boolean.
    """

    train: pd.DataFrame
    holdout: pd.DataFrame
    duplicates_across: int
    keyed: bool
    inside: np.ndarray

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Train, then holdout: `train, holdout = split_table(table, schema)`."""
        return iter((self.train, self.holdout))

    def __repr__(self) -> str:
        """The sides in one line."""
        return f"<Split: {len(self.train):,} training rows and {len(self.holdout):,} held out>"


def split_table(
    frame: pd.DataFrame,
    schema: Schema,
    *,
    holdout_share: float = 0.2,
    seed: int = 0,
    private: bool = False,
    any_size: bool = False,
) -> Split:
    """Train and holdout of a table.

    Args:
        frame: *Sensitive*. Fits the schema.
        schema: names the entity and the target.
        holdout_share: share of units that go to the holdout, in (0, 1).
        seed: names the split; another seed is another release of the same table.
        private: by hashes of names, never stratified.
        any_size: true where a refusal would tell how many rows there are.

    Raises:
        JobError: the share is not inside (0, 1).
        TableError: the table does not fit the schema (where nothing private is asked for), or too few rows are on one
            side; nothing was split.
    """
    check_share(holdout_share)
    frame = conform(frame, schema, outside="clamp" if private else "refuse", part=True)
    inside = _keyed(frame, schema, holdout_share, seed) if private else _drawn(frame, schema, holdout_share, seed)
    train, holdout = frame[~inside].reset_index(drop=True), frame[inside].reset_index(drop=True)
    if not any_size:
        refuse_small_sides(len(train), len(holdout), holdout_share)
    return Split(train, holdout, int(twins(holdout, train, schema.learned).sum()), private, inside)


def check_share(holdout_share: float) -> None:
    """Refuse a share of the holdout that no split has."""
    if not 0.0 < holdout_share < 1.0:
        raise JobError(f"holdout_share={holdout_share} must lie between 0 and 1; 0.2 is customary")


def refuse_small_sides(n_train: int, n_holdout: int, holdout_share: float) -> None:
    """Refuse sides on which an evaluation would mean nothing."""
    if min(n_train, n_holdout) < MIN_SIDE_ROWS:
        raise TableError(
            f"train and holdout need at least {MIN_SIDE_ROWS} rows each, which this table does not give at "
            f"holdout_share={holdout_share}; use a larger table or a share nearer to 0.5"
        )


def halves(frame: pd.DataFrame, schema: Schema, *, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two disjoint halves of a table, whole entities on one side, stratified on the target."""
    second = _drawn(frame, schema, 0.5, seed)
    return frame[~second].reset_index(drop=True), frame[second].reset_index(drop=True)


def twins(rows: pd.DataFrame, others: pd.DataFrame, columns: Iterable[str]) -> np.ndarray:
    """Flags of the rows with an exact twin among `others`, in the given columns; shape (len(rows),), boolean."""
    return np.isin(row_keys(rows, columns), row_keys(others, columns))


def row_keys(frame: pd.DataFrame, columns: Iterable[str]) -> np.ndarray:
    """A 64-bit key for each row, equal for equal rows (missing equals missing); shape (len(frame),), uint64."""
    names = list(columns)
    if not names:
        return np.zeros(len(frame), dtype=np.uint64)
    plain = pd.DataFrame({f"{i}": _hashable(frame[name]) for i, name in enumerate(names)})
    return np.asarray(pd.util.hash_pandas_object(plain, index=False), dtype=np.uint64)


def _hashable(column: pd.Series) -> pd.Series:
    """The column such that equal values, and only they, hash alike: a missing text is not the text "None"."""
    if column.dtype == object:
        return column.map(str).where(column.notna(), "\0missing")
    if pd.api.types.is_float_dtype(column.dtype):
        return column + 0.0  # makes one zero of -0.0 and 0.0
    return column


def unit_column(schema: Schema) -> str | None:
    """The column whose text names the unit that goes to one side as a whole; `None` where its content names a row."""
    named = (name for name in schema.kept if schema.columns[name].is_identifier)
    return schema.entity or next((name for name in named if not schema.columns[name].missing), None)


def side_salt(seed: int) -> str:
    """The salt of a split: it stands before a unit's name in the text whose MD5 decides on its side."""
    return f"understudy.split {seed}\n"


def side_bound(holdout_share: float) -> str:
    """The hexadecimal digits below which a digest puts a unit into the holdout.

    >>> side_bound(0.25)
    '4000000000000000'
    """
    return f"{int(holdout_share * 2**64):016x}"


def _keyed(frame: pd.DataFrame, schema: Schema, share: float, seed: int) -> np.ndarray:
    """Flags of the rows of the holdout, each unit by the hash of its name; shape (len(frame),), boolean.

    MD5 because every database has it: a table is split alike in memory and where it is stored. Nobody has to be kept
    from finding two names of one side.
    """
    salt, bound = side_salt(seed), side_bound(share)

    def inside(unit: object) -> bool:
        return hashlib.md5(f"{salt}{unit}".encode(), usedforsecurity=False).hexdigest() < bound

    name = unit_column(schema)
    if name is None:
        return np.fromiter(map(inside, row_names(frame, schema)), dtype=bool, count=len(frame))
    codes, units = pd.factorize(frame[name])
    sides = np.fromiter(map(inside, units), dtype=bool, count=len(units))
    # A row without a name stays in train; without an entity, a private fit lets it contribute nothing.
    return np.asarray(np.append(sides, False)[codes], dtype=bool)


def _drawn(frame: pd.DataFrame, schema: Schema, share: float, seed: int) -> np.ndarray:
    """Flags of the rows of the second side, drawn unit by unit within strata of the target."""
    rng = np.random.default_rng([seed, 1])
    units = _units(frame, schema)
    _, first = np.unique(units, return_index=True)
    strata = _strata(frame.iloc[first], schema)
    order = np.lexsort((rng.random(len(first)), strata))
    starts = np.flatnonzero(np.r_[True, np.diff(strata[order]) != 0]) if len(order) else np.zeros(0, dtype=np.int64)
    sizes = np.diff(np.r_[starts, len(order)])
    ranks = np.arange(len(order)) - np.repeat(starts, sizes)
    offsets = np.repeat(rng.random(len(starts)), sizes)
    inside = np.empty(len(first), dtype=bool)
    # Systematic sampling: every stratum gives its share to within one unit, the odd one by chance.
    inside[order] = np.floor((ranks + 1) * share + offsets) > np.floor(ranks * share + offsets)
    return np.asarray(inside[units], dtype=bool)


def _units(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A number from 0 for the unit of every row, shape (len(frame),); a row without an entity is a unit of its own."""
    if schema.entity is None:
        return np.arange(len(frame))
    codes, entities = pd.factorize(frame[schema.entity])
    alone = codes < 0
    return np.asarray(np.where(alone, len(entities) + np.cumsum(alone) - 1, codes))


def _strata(rows: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A stratum for each row by its target: the category, or the decile of a number; 0 for all without a target."""
    if schema.target is None:
        return np.zeros(len(rows), dtype=np.int64)
    target = rows[schema.target]
    if schema.columns[schema.target].is_categorical:
        return np.asarray(pd.factorize(target)[0], dtype=np.int64)
    ranks = target.rank(pct=True).to_numpy(dtype=float, na_value=0.0)
    return np.ceil(ranks * 10).astype(np.int64)
