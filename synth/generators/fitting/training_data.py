"""Training data of a fit: rows read by counts alone, and encoded rows of a network, wherever the rows are.

One unit of privacy contributes a bounded number of rows: at most k of each entity. A network also knows the unit that
each row belongs to.

Source: bounding user contribution as in Wilson et al. 2020 (1909.01917).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer, dp_bounds
from synth.domain.counted_form import to_counted
from synth.domain.counts import SpooledTable
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import system_words
from synth.marginals import Measurement
from synth.marginals.measurement import estimate_total
from synth.row_hash import entity_codes
from synth.row_order import histories_of, rows_before
from synth.schema import Schema
from synth.schema.kinds import LineColumn
from synth.table.rows import Rows
from synth.table.spool import Disk
from synth.transforms.columns import Columns
from synth.transforms.layout import Encoded, Layout

if TYPE_CHECKING:
    from synth.neural.batches import UnitIndex

Counted = NDArray[np.int64]
ROWS_AT_ONCE = 1 << 19
"""Rows of whole entities that are put in order at a time, about."""


def bound_contributions(rows: Rows, schema: Schema, *, in_order: bool = False) -> Rows:
    """The rows with at most `max_rows_per_unit` of each entity; unchanged where the unit is a row.

    A row without an entity belongs to nobody whose contribution could be bounded, so it contributes nothing.
    `in_order`: the first rows of each entity in its order, and in that order; else any of them.
    """
    if schema.entity is None:
        return rows
    if in_order:
        frames = (
            frame.iloc[histories_of(frame, schema).first(schema.max_rows_per_unit).rows]
            for frame in by_entity(rows, schema)
        )
        return Rows.from_frames(frames, schema, rows.folder)
    # Each row throws a coin of the operating system, and the k rows of an entity with the least ones stay. Whether a
    # row stays is so a function of the coins of its entity's rows alone. Pair the two worlds, with an entity and
    # without it, such that every other row has the same coin in both: then every other entity keeps the same rows, and
    # what differs are at most k rows of the one. The coins are independent of all else and as likely in one world as
    # in the other, so that this pairing bounds the distributions. Equal coins are settled by the order of an entity's
    # own rows. The coins are thrown once and kept as flags, so that every pass over the rows sees the same ones.
    entities = entity_codes(rows, schema)
    return rows.where(with_least_coins(entities, system_words(len(entities), np.uint64), schema.max_rows_per_unit))


def with_least_coins(entities: np.ndarray, coins: np.ndarray, most: int) -> NDArray[np.bool_]:
    """Flags of the rows of each entity with the least coins, at most so many; shape (n,). -1 is no entity."""
    order = np.lexsort((coins, entities))
    starts = np.flatnonzero(np.diff(entities[order], prepend=-2))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    kept = np.zeros(len(order), dtype=bool)
    kept[order[rank < most]] = True
    flags: NDArray[np.bool_] = kept & (entities >= 0)
    return flags


def by_entity(rows: Rows, schema: Schema) -> Iterator[pd.DataFrame]:
    """The rows with an entity in frames of whole entities, in the order in which these first appear."""
    return (part.frame() for part in rows.together(entity_codes(rows, schema), ROWS_AT_ONCE))


def counted_rows(rows: Rows, schema: Schema) -> Rows:
    """The rows as they are counted; the same ones where nothing is modeled.

    Each row is made from itself, and what looks back at the row before from rows of the same entity alone.
    `rows`: *Sensitive*. Under the schema.
    """
    counted = schema.counted
    if counted is schema:
        return rows
    looks_back = any(what.looks_back for what in schema.worked_out.values())
    frames = by_entity(rows, schema) if looks_back else rows.frames()
    counted_frames = (to_counted(each, schema, rows_before(each, schema) if looks_back else None) for each in frames)
    return Rows.from_frames(counted_frames, counted, rows.folder)


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows that a fit reads by counts.
    `rows`: *Sensitive*. Conforming to their schema; of a private fit, contributions bounded.
    """

    rows: Rows = field(repr=False)

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema) -> Self:
        """The rows of a frame that is in canonical form already."""
        return cls(Rows.from_frames([frame], schema))

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.rows.schema

    def __len__(self) -> int:
        return len(self.rows)

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return type(self)(self.rows.under(schema))

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """Number of values in each cell of each attribute; shapes (n_cells,)."""
        for attribute in attributes:
            chunks = self.rows.chunks(attribute.name)
            counts = (np.bincount(chunk.cells(attribute), minlength=attribute.n_cells) for chunk in chunks)
            yield sum(counts, np.zeros(attribute.n_cells, dtype=np.int64))

    def coded(self, discretizer: Discretizer) -> SpooledTable:
        """The rows in the codes of a discretizer."""
        return SpooledTable.of(self.rows, discretizer)

    def entities(self) -> Counted:
        """A number for the entity of each row, -1 where it has none; shape (n,)."""
        return entity_codes(self.rows, self.schema)

    def rows_per_entity(self) -> Counted:
        """Number of entities with 1, 2, ... rows; shape (k,), or longer where contributions are not bounded."""
        entities = self.entities()
        sizes = np.bincount(entities[entities >= 0])
        return np.bincount(sizes, minlength=self.schema.max_rows_per_unit + 1)[1:]

    def category_counts(self, name: str) -> dict[Any, int]:
        """Counts of the present values of a column of categories."""
        column: Any = self.schema.columns[name]
        plain: type[Any] = int if column.holds_whole_numbers else str
        counts: Counter[Any] = Counter()
        for frame in self.rows.frames(name):
            counts.update({plain(value): int(n) for value, n in frame[name].dropna().value_counts().items()})
        return dict(counts)

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number: at the column's precision, within its bounds; one zero."""
        column: Any = self.schema.columns[name]
        counts: Counter[float] = Counter()
        for frame in self.rows.frames(name):
            places = column.positions(frame[name])
            inside = np.clip(places[~np.isnan(places)], *column.ends) + 0.0
            distinct, held = np.unique(inside, return_counts=True)
            counts.update(dict(zip(distinct.tolist(), held.tolist(), strict=True)))
        return dict(counts)

    def place_counts(self, name: str, column: LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost.
        `edges`: ascending, shape (n_cells + 1,).
        """
        places = (column.positions(frame[name]) for frame in self.rows.frames(name))
        return sum((dp_bounds.histogram(some, edges) for some in places), np.zeros(len(edges) - 1, dtype=np.int64))

    def columns(self, folder: Path | None) -> Columns:
        """The rows as networks read them; what is made of them lies in a folder where it does not fit into memory."""
        return Columns(self.rows, Disk(folder))


class RowsElsewhere:
    """A table whose rows never come here: a private fit gets noisy counts of it."""

    def training(self, schema: Schema, *, in_order: bool = False) -> Any:
        """What counts as a `TrainingTable` does, contributions bounded."""
        raise NotImplementedError


@dataclass(frozen=True)
class NetworkRows:
    """A table as a network is trained on it.
    `encoded`: *Sensitive*. The rows.
    """

    encoded: Encoded
    layout: Layout
    disk: Disk


@dataclass(frozen=True)
class PrivateRows(NetworkRows):
    """A table as a network is trained on it with a guarantee.
    `encoded`: *Sensitive*. The rows.
    `entities`: *Sensitive*. A number for the entity of each row, shape (n,); `None`: each row is a unit.
    """

    entities: Counted | None
    max_rows_per_unit: int
    one_way: Sequence[np.ndarray]
    n_units: float
    event: SubsampledGaussianEvent
    budget: Budget

    @property
    def expected_batch(self) -> float:
        """Units of a sample, about."""
        return self.event.sampling_rate * self.n_units

    def units(self) -> "UnitIndex":
        """*Sensitive*. The rows by unit of privacy."""
        from synth.neural.batches import UnitIndex

        return UnitIndex.of(self.encoded, self.entities, self.max_rows_per_unit)


def units_of(one_way: Sequence[Measurement], shares: Sequence[float] | None) -> float:
    """About how many units there are, from what was released: rows by the histograms, over rows per unit."""
    rows_per_unit = 1.0 if shares is None else sum(size * share for size, share in enumerate(shares, start=1))
    return max(estimate_total(one_way) / rows_per_unit, 1.0)
