"""Seeded samples of rows, and the sides of an evaluation that they are drawn from.

A sample depends on what the rows hold, not on the order in which they or their columns stand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from synth.constraints import Unique
from synth.domain.relations import key_hashes
from synth.identifiers import mix
from synth.row_hash import ABSENT, cell_hashes, content_hashes, entity_hashes, seeded_order, turns, whole_entities
from synth.schema import Schema
from synth.table.decode import BIT, Fault
from synth.table.rows import Rows
from synth.table.table import Chunk


def one_per_entity(order: np.ndarray, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The order with only the first row of each entity; unchanged where rows have no entity."""
    if schema.entity is None:
        return order
    later = frame[schema.entity].iloc[order].duplicated().to_numpy(dtype=bool)
    return np.asarray(order[~later])


def entity_codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The entity of each row as a code from 0; a row without one is its own; shape (len(frame),)."""
    if schema.entity is None:
        return np.arange(len(frame))
    codes, names = pd.factorize(frame[schema.entity])
    alone = codes < 0
    return np.where(alone, len(names) + np.cumsum(alone) - 1, codes)


MIN_TRAIN_ROWS = 40
MIN_HOLDOUT_ROWS = 40
MIN_SYNTHETIC_ROWS = 2
MOSTLY = 0.5  # Share of rows above which a table is one without twins, and a holdout is not held out

Side = Literal["train", "synthetic", "holdout", "shuffled", "fresh", "control"]
SIDES: tuple[Side, ...] = get_args(Side)[:4]  # Those whose rows have an order of their own


def side_seed(seed: int, side: Side) -> int:
    """The seed of the order of one table's rows: tables are drawn independently of each other."""
    return len(SIDES) * seed + SIDES.index(side)


def refuse_few(n_train: int, n_holdout: int, *, held_out: bool = True) -> None:
    if not held_out and min(n_train, n_holdout) < MIN_TRAIN_ROWS:
        raise EvaluationError(
            f"an evaluation without a holdout halves the real rows and needs at least {MIN_TRAIN_ROWS} in either half; "
            "give it a larger table"
        )
    for name, n, least in (("train", n_train, MIN_TRAIN_ROWS), ("holdout", n_holdout, MIN_HOLDOUT_ROWS)):
        if n < least:
            raise EvaluationError(f"an evaluation needs at least {least} rows of {name}; give it a larger table")


def refuse_one_unit(*halves: pd.DataFrame) -> None:
    """Refuse a holdout that has no two halves, since all of its rows are of one entity."""
    if any(half.empty for half in halves):
        raise EvaluationError(
            "the holdout is halved, whole entities together: it has the rows of one entity alone; give it more entities"
        )


def refuse_overlap(train: tuple[np.ndarray, np.ndarray], holdout: np.ndarray) -> None:
    """Refuse a holdout whose rows stand in train, though the table is not one of twins. Keys: *Sensitive*."""
    keys, counts = train
    alone = counts[counts == 1].sum() / counts.sum()
    shared = np.isin(holdout, keys[counts == 1]).mean()
    if alone > MOSTLY and shared > MOSTLY:
        raise EvaluationError(
            "a holdout is held out, and most rows of this one are rows of train; pass the two parts that "
            "`understudy split` made"
        )


def shuffle_columns(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The table with every column permuted on its own: right in each column, wrong in every pair."""
    shuffled = {name: frame[name].take(rng.permutation(len(frame))).reset_index(drop=True) for name in frame.columns}
    return pd.DataFrame(shuffled)


@dataclass(frozen=True, eq=False, repr=False)
class RowHashes:
    """*Sensitive*. A number for each row of a table, equal for rows that are equal in all learned columns."""

    keys: np.ndarray  # shape (n,), uint64
    # the same of their entities, `ABSENT` where there is none; `None` where a row is a unit.
    entities: np.ndarray | None = None
    # the same of a target with categories, the place on the line of another one; `None` without a target.
    targets: np.ndarray | None = None

    @classmethod
    def of(cls, parts: Iterable[pd.DataFrame | Chunk], schema: Schema) -> "RowHashes":
        keys, entities, targets = [], [], []
        for rows in parts:
            keys.append(content_hashes(rows, schema))
            if schema.entity is not None:
                entities.append(entity_hashes(rows, schema.entity, schema))
            if schema.target is not None:
                targets.append(_targets(rows, schema.target, schema))
        return cls(*(np.concatenate(part) if part else None for part in (keys, entities, targets)))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, positions: np.ndarray) -> "RowHashes":
        vectors = (self.keys, self.entities, self.targets)
        return RowHashes(*(None if vector is None else vector[positions] for vector in vectors))  # type: ignore[arg-type]

    @cached_property
    def units(self) -> np.ndarray:
        """The entity of each row as a code from 0; a row without one is its own; shape (n,)."""
        return np.arange(len(self)) if self.entities is None else units_of(self.entities)

    @cached_property
    def n_units(self) -> int:
        """Entities, or rows."""
        return int(self.units.max(initial=-1)) + 1

    @cached_property
    def _unique(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys, first, counts = np.unique(self.keys, return_index=True, return_counts=True)
        return keys, first, counts

    @property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys, ascending, each once, and how many rows have it; both of shape (k,)."""
        return self._unique[0], self._unique[2]

    @property
    def strata(self) -> np.ndarray:
        """The targets of the distinct rows, zeros without one; shape (k,)."""
        first = self._unique[1]
        return np.zeros(len(first), dtype=np.uint64) if self.targets is None else self.targets[first]

    def times(self, keys: np.ndarray) -> np.ndarray:
        """How many of these rows have each of some keys; shape (len(keys),)."""
        distinct, counts = self.distinct
        if not len(distinct):
            return np.zeros(len(keys), dtype=np.int64)
        at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        return np.where(distinct[at] == keys, counts[at], 0)


def units_of(entities: np.ndarray) -> np.ndarray:
    """The entity of each row as a code from 0, those without one last, each its own; shape (n,).

    >>> units_of(np.array([9, 0, 8, 9, 0], dtype=np.uint64)).tolist()
    [0, 2, 1, 0, 3]
    """
    codes, distinct = pd.factorize(entities)
    alone = entities == ABSENT
    if alone.any():
        codes = np.where(alone, len(distinct) - 2 + np.cumsum(alone), codes - (codes > codes[alone][0]))
    return np.asarray(codes)


def _targets(rows: pd.DataFrame | Chunk, name: str, schema: Schema) -> np.ndarray:
    column: Any = schema.columns[name]
    if column.is_categorical:
        return cell_hashes(rows, name, schema)
    cells = rows.frame(schema, [name])[name] if isinstance(rows, Chunk) else rows[name]
    return np.asarray(column.positions(cells))


@dataclass(frozen=True, eq=False, repr=False)
class CellFaults:
    """*Sensitive*. The cells of all rows that do not fit the schema, as they were before any clamping."""

    flags: Mapping[str, np.ndarray]  # for each kept column the rows at fault, shape (n,), boolean
    kinds: Mapping[str, tuple[Fault, ...]]  # for each kept column the kinds of its faults
    empty: frozenset[str]  # columns without any value

    @classmethod
    def of(cls, rows: Rows, schema: Schema, ranks: np.ndarray | None = None) -> "CellFaults":
        """Of the rows, which were read under the schema; of names that repeat each other all but the first by rank."""
        flags = {name: np.zeros(len(rows), dtype=bool) for name in schema.kept}
        bits, n_missing, start = dict.fromkeys(schema.kept, 0), dict.fromkeys(schema.kept, 0), 0
        for chunk in rows.chunks():
            for name in schema.kept:
                is_fault, array = chunk.faults.get(name), chunk.columns[name]
                faults = np.zeros(chunk.n, dtype=np.uint16) if is_fault is None else is_fault
                if array.null_count or faults.any():
                    missing = array.is_null().to_numpy(zero_copy_only=False) & (faults & ~BIT[Fault.MISSING] == 0)
                    n_missing[name] += int(missing.sum())
                    if not schema.columns[name].missing:
                        faults = faults | np.where(missing, BIT[Fault.MISSING], 0)
                    bits[name] |= int(np.bitwise_or.reduce(faults, initial=0))
                    flags[name][start : start + chunk.n] = faults != 0
            start += chunk.n
        for name in schema.kept:
            if schema.columns[name].is_identifier and name != schema.entity:
                later = repeated(rows, (name,), schema, later=np.arange(len(rows)) if ranks is None else ranks)
                flags[name] |= later
                bits[name] |= int(BIT[Fault.REPEATED]) * int(later.any())
        kinds = {name: tuple(fault for fault in Fault if bit & int(BIT[fault])) for name, bit in bits.items()}
        return cls(flags, kinds, frozenset(name for name, n in n_missing.items() if n == len(rows)))

    def frame(self, positions: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame({name: flags[positions] for name, flags in self.flags.items()})


def repeated(rows: Rows, names: Sequence[str], schema: Schema, *, later: np.ndarray | None = None) -> np.ndarray:
    """Rows (n,) that repeat another's values in some columns, none missing; `later`: that come after an equal one."""
    key = Unique(columns=tuple(names))
    parts = [key_hashes(frame, key, schema.columns) for frame in rows.frames(*names)]
    hashes, whole = (np.concatenate(part) for part in zip(*parts, strict=True))
    positions = np.flatnonzero(whole)
    if later is not None:
        positions = positions[np.argsort(later[positions], kind="stable")]
    _, first, codes, counts = np.unique(hashes[positions], return_index=True, return_inverse=True, return_counts=True)
    again = counts[codes] > 1
    if later is not None:
        again[first] = False
    flags = np.zeros(len(whole), dtype=bool)
    flags[positions] = again
    return flags


def draw(rows: Rows, hashes: RowHashes, schema: Schema, seed: int, limit: int) -> tuple[np.ndarray, pd.DataFrame]:
    """A seeded sample of whole entities, `limit` rows at most, by what the rows hold alone: positions, and the rows."""
    if len(rows) <= limit:
        chosen, frame = np.arange(len(rows)), rows.frame()
    else:
        entity = schema.entity is not None
        flags = whole_entities(rows, schema, seed=seed, limit=limit) if entity else _drawn(hashes, seed, limit)
        chosen, frame = np.flatnonzero(flags), rows.where(flags).frame()
    order = seeded_order(frame, schema, seed)
    return chosen[order], frame.iloc[order].reset_index(drop=True)


def tickets(hashes: RowHashes, seed: int) -> np.ndarray:
    """A number for each row that looks random, equal rows told apart by their turn; shape (n,), uint64."""
    return mix(mix(hashes.keys + np.uint64(seed + 1)) + turns(hashes.keys).astype(np.uint64))


def _drawn(hashes: RowHashes, seed: int, limit: int) -> np.ndarray:
    """Flags of `limit` of the rows."""
    flags = np.zeros(len(hashes), dtype=bool)
    flags[np.argpartition(tickets(hashes, seed), limit)[:limit]] = True
    return flags
