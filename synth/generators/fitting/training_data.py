"""Training data of a fit: rows read by counts alone, here or on a cluster, and encoded rows of a network.

One unit of privacy contributes a bounded number of rows: at most k of each entity. Of rows on a cluster each part is
counted there, and sums come here, and no whole row: of columns whose categories or frequent values are measured the
distinct values with their counts. The rows of an entity move between workers, into one part.

Source: bounding user contribution as in Wilson et al. 2020 (1909.01917).
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer
from synth.domain.counts import ByEach, SpooledTable, in_batches
from synth.domain.relations import to_counted
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import system_words
from synth.errors import JobError
from synth.identifiers import mix
from synth.infer.relations import with_modeled
from synth.marginals import Measurement
from synth.marginals.factor import estimate_total
from synth.neural.encoding import Columns, Encoded, Layout
from synth.row_hash import content_hashes, entity_codes, entity_hashes
from synth.row_order import histories_of, rows_before
from synth.schema import Schema
from synth.schema.kinds import LineColumn
from synth.table import Table
from synth.table.conforming import of_names, refuse
from synth.table.rows import Rows
from synth.table.spool import Disk
from synth.table.table import Chunk, concat_chunks

if TYPE_CHECKING:
    from synth.neural.training import UnitIndex

T = TypeVar("T")
Counted = NDArray[np.int64]
ROWS_AT_ONCE = 1 << 19  # rows of whole entities that are put in order at a time, about
MOST_ROWS = 200_000  # in which relations are looked for


def bound_contributions(rows: Rows, schema: Schema, *, in_order: bool = False) -> Rows:
    """The rows with at most `max_rows_per_unit` of each entity; unchanged where the unit is a row.

    A row without an entity belongs to nobody whose contribution could be bounded, so it contributes nothing.
    `in_order`: the first rows of each entity in its order, and in that order; else any of them.
    """
    if schema.entity is None:
        return rows
    k = schema.max_rows_per_unit
    if in_order:
        frames = (frame.iloc[histories_of(frame, schema).first(k).rows] for frame in by_entity(rows, schema))
        return Rows.from_frames(frames, schema, rows.folder)
    # Each row throws a coin of the operating system, and the k rows of an entity with the least ones stay. Whether a
    # row stays is so a function of the coins of its entity's rows alone. Pair the two worlds, with an entity and
    # without it, such that every other row has the same coin in both: then every other entity keeps the same rows, and
    # what differs are at most k rows of the one. The coins are independent of all else and as likely in one world as
    # in the other, so that this pairing bounds the distributions. Equal coins are settled by the order of an entity's
    # own rows. The coins are thrown once and kept as flags, so that every pass over the rows sees the same ones.
    entities = entity_codes(rows, schema)
    return rows.where(with_least_coins(entities, system_words(len(entities), np.uint64), k))


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
    """*Sensitive*. The rows as they are counted, each made from itself and the row of its entity before it."""
    counted = schema.counted
    if counted is schema:
        return rows
    looks_back = any(what.looks_back for what in schema.worked_out.values())
    frames = by_entity(rows, schema) if looks_back else rows.frames()
    counted_frames = (to_counted(each, schema, rows_before(each, schema) if looks_back else None) for each in frames)
    return Rows.from_frames(counted_frames, counted, rows.folder)


def counted_source(train: Any, schema: Schema, *, promises: bool, mapped: bool) -> Any:
    """What a fit under the counted schema reads. `train`: *Sensitive*. Real rows under the schema."""
    if isinstance(train, RowsElsewhere):
        return train  # they are brought to that form where they are
    if mapped and (table := MappedTable.of(train, schema)) is not None:
        return table
    rows = Rows.of(train, schema, outside="clamp" if promises else "refuse")
    return counted_rows(rows, schema)


def find_relations(train: Any, schema: Schema) -> tuple[Any, Schema]:
    """The rows of a fit without epsilon, and the schema with what its columns are modeled as where it says nothing."""
    if schema.status != "declared" or any(column.modeled is not None for column in schema.columns.values()):
        return train, schema
    rows = Rows.of(train, schema, outside="refuse")
    n, some = len(rows), np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return rows, with_modeled(rows.frame() if n <= MOST_ROWS else rows.take(np.sort(some)), schema, n)


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows, *Sensitive*, that a fit reads by counts; of a private fit, contributions bounded."""

    rows: Rows = field(repr=False)

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema) -> Self:
        """The rows of a frame that is in canonical form already."""
        return cls(Rows.from_frames([frame], schema))

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    def __len__(self) -> int:
        return len(self.rows)

    def under(self, schema: Schema) -> Self:
        return type(self)(self.rows.under(schema))

    def cell_counts(self, attributes: Sequence[Attribute]) -> list[Counted]:
        """Number of values in each cell of each attribute; shapes (n_cells,)."""
        return [
            sum(
                (np.bincount(chunk.cells(each), minlength=each.n_cells) for chunk in self.rows.chunks(each.name)),
                np.zeros(each.n_cells, dtype=np.int64),
            )
            for each in attributes
        ]

    def coded(self, discretizer: Discretizer) -> SpooledTable:
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
            positions = column.positions(frame[name])
            inside = np.clip(positions[~np.isnan(positions)], *column.ends) + 0.0
            distinct, n_rows = np.unique(inside, return_counts=True)
            counts.update(dict(zip(distinct.tolist(), n_rows.tolist(), strict=True)))
        return dict(counts)

    def place_counts(self, name: str, column: LineColumn, count: Callable[[np.ndarray], Counted]) -> Counted:
        """*Sensitive*. Sums of what `count`, in which each value adds to one count at most, gives for positions."""
        return sum((count(column.positions(frame[name])) for frame in self.rows.frames(name)), count(np.zeros(0)))

    def columns(self, folder: Path | None) -> Columns:
        """The rows as networks read them; what does not fit into memory of what is made of them lies in the folder."""
        return Columns(self.rows, Disk(folder))


class RowsElsewhere:
    """A table whose rows never come here: a private fit gets noisy counts of it."""

    def training(self, schema: Schema, *, in_order: bool = False) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class MappedTable:
    """A table that a fit reads by counts, which are made where its rows are.

    Cells are read under `cast`, and counted under the schema with its measured domains. Which rows of an entity stay is
    a function of the key, *Sensitive*, and of what that entity's own rows hold.
    """

    table: Table = field(repr=False)
    cast: Schema = field(repr=False)
    schema: Schema
    key: int = field(repr=False)

    @classmethod
    def of(cls, source: Any, schema: Schema) -> Self | None:
        """A table whose rows lie elsewhere, such as a frame of Spark or Dask; `None`: they are read here."""
        library = type(source).__module__.split(".")[0]
        if not isinstance(source, Table) and library not in ("pyspark", "dask", "dask_expr"):
            return None
        table = Table.of(source)
        if table.distributed is None:
            return None
        refuse(of_names(table.names, schema, extra=False))
        if schema.entity is not None:
            table = _together(table, schema, schema.entity)
        return cls(table, schema, schema, secrets.randbits(64))

    def under(self, schema: Schema) -> Self:
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> list[Counted]:
        parts = self.map(methodcaller("cell_counts", attributes))
        return [sum(counts) for counts in zip(*parts, strict=True)]

    def coded(self, discretizer: Discretizer) -> "MappedCounts":
        return MappedCounts(self, discretizer)

    def rows_per_entity(self) -> Counted:
        counts: Counted = sum(self.map(methodcaller("rows_per_entity")))
        return counts

    def category_counts(self, name: str) -> dict[Any, int]:
        return dict(sum(map(Counter, self.map(methodcaller("category_counts", name))), Counter[Any]()))

    def value_counts(self, name: str) -> dict[float, int]:
        return dict(sum(map(Counter, self.map(methodcaller("value_counts", name))), Counter[Any]()))

    def place_counts(self, name: str, column: Any, count: Callable[[np.ndarray], Counted]) -> Counted:
        counts: Counted = sum(self.map(methodcaller("place_counts", name, column, count)))
        return counts

    def map(self, count: Callable[[TrainingTable], T]) -> list[T]:
        return self.table.map(partial(_count, count, self.cast, self.schema, self.key), self.cast)


@dataclass(frozen=True, eq=False)
class MappedCounts(ByEach):
    """Counts of the codes of rows that stay where they are."""

    table: MappedTable
    discretizer: Discretizer

    @property
    def domain(self) -> dict[str, int]:
        return dict(self.discretizer.sizes)

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[Counted]:
        for batch in in_batches(cliques, self.domain):
            parts = self.table.map(partial(_clique_counts, self.discretizer, batch))
            yield from (sum(counts) for counts in zip(*parts, strict=True))


def _together(table: Table, schema: Schema, entity: str) -> Table:
    """The table with all rows of one entity in one part."""
    frame = table.cluster
    if frame is None:
        raise JobError(
            f"entity={entity!r}: rows of an entity are counted together, and an executor reads them in several parts; "
            "leave it out, or give a frame of Spark or Dask"
        )
    # Cells that are cast to one name must lie in one part: texts stay as they are, and so do whole numbers.
    is_text = getattr(schema.columns[entity], "template", None)
    dtypes = ("string", "str") if is_text else ("int", "bigint", "int32", "int64")
    if str(dict(frame.dtypes)[entity]).lower() not in dtypes:
        raise JobError(f"entity={entity!r} has another type on the cluster than in the schema; cast the column there")
    return Table.of(frame.repartition(entity) if hasattr(frame, "mapInArrow") else frame.shuffle(on=entity))


def _count(
    count: Callable[[TrainingTable], T], cast: Schema, schema: Schema, key: int, chunks: Iterator[Chunk]
) -> T:  # fmt: skip
    """What is counted of the rows of one part, at most k of each entity."""
    if cast.entity is not None:
        whole = concat_chunks(list(chunks), cast)
        chunks = iter([whole.filter(_kept(whole, cast, key))])
    rows = counted_rows(Rows.from_chunks(chunks, cast), cast)
    return count(TrainingTable(rows.under(schema)))


def _kept(chunk: Chunk, schema: Schema, key: int) -> NDArray[np.bool_]:
    """Flags of the rows that stay, of each entity those with the least keyed hashes.

    A pass over a part meets its rows in another order, but keeps the same: equal rows count alike.
    """
    entities, _ = pd.factorize(chunk.frame(schema, [str(schema.entity)])[schema.entity])
    hashes = content_hashes(chunk, schema)
    for name in schema.measured:  # categories that nobody knows yet are all alike to a hash of the content
        hashes = mix(hashes) ^ entity_hashes(chunk, name, schema)
    return with_least_coins(entities, mix(hashes ^ np.uint64(key)), schema.max_rows_per_unit)


def _clique_counts(discretizer: Discretizer, cliques: Sequence[Sequence[str]], table: TrainingTable) -> list[Counted]:
    return list(table.coded(discretizer).each(cliques))


@dataclass(frozen=True)
class PrivateRows:
    """A table, *Sensitive*, as a network is trained on it with a guarantee.
    `entities`: a number for the entity of each row, shape (n,); `None`: each row is a unit.
    """

    encoded: Encoded
    layout: Layout
    entities: Counted | None
    max_rows_per_unit: int
    one_way: Sequence[np.ndarray]
    estimated_units: float  # from noisy histograms
    event: SubsampledGaussianEvent
    budget: Budget

    @property
    def expected_batch(self) -> float:
        return self.event.sampling_rate * self.estimated_units

    def units(self) -> "UnitIndex":
        """*Sensitive*. The rows by unit of privacy."""
        from synth.neural.training import UnitIndex

        return UnitIndex.of(self.encoded, self.entities, self.max_rows_per_unit)


def estimate_units(one_way: Sequence[Measurement], shares: Sequence[float] | None) -> float:
    """About how many units there are, from what was released: rows by the histograms, over rows per unit."""
    rows_per_unit = 1.0 if shares is None else sum(size * share for size, share in enumerate(shares, start=1))
    return max(estimate_total(one_way) / rows_per_unit, 1.0)
