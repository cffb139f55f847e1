"""Private counts of rows on a cluster: each part of a table is counted there, and sums come here.

What comes here is what `TrainingTable` counts of a part, and no whole row: of columns whose categories or frequent
values are measured the distinct values with their counts. The rows of an entity move between workers, into one part.
"""

import operator
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from synth.domain import Attribute, Discretizer
from synth.domain.counts import CoarseCounts, Coarsening, in_batches
from synth.errors import JobError, TableError
from synth.generators.fitting.counted import MappedSource
from synth.generators.fitting.training_data import Counted, TrainingTable, counted_rows, with_least_coins
from synth.row_hash import content_hashes, entity_hashes, mix
from synth.schema import Schema
from synth.table.chunk import Chunk, concat_chunks
from synth.table.conforming import of_names
from synth.table.rows import Rows
from synth.table.table import Table

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class MappedTable:
    """A table that a fit reads by counts, which are made where its rows are.
    `cast`: the schema that cells are read under.
    `schema`: that one with its measured domains.
    `key`: *Sensitive*. Which rows of an entity stay is a function of it and of what that entity's own rows hold.
    """

    table: Table = field(repr=False)
    cast: Schema = field(repr=False)
    schema: Schema
    key: int = field(repr=False)

    @classmethod
    def of(cls, source: Any, schema: Schema) -> Self | None:
        """The table, if its rows lie elsewhere; `None` where they are read here."""
        known = source if isinstance(source, MappedSource) else MappedSource.of(source, schema)
        if known is None:
            return None
        table, cast = known.table, known.schema
        for violation in of_names(table.names, cast, extra=False):
            raise TableError(str(violation))
        if schema.entity is not None:
            table = _together(table, schema, schema.entity)
        return cls(table, cast, schema, secrets.randbits(64))

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """Number of values in each cell of each attribute; shapes (n_cells,)."""
        parts = self._map(partial(_cell_counts, attributes))
        return (sum(counts) for counts in zip(*parts, strict=True))

    def coded(self, discretizer: Discretizer) -> "MappedCounts":
        """The rows in the codes of a discretizer."""
        return MappedCounts(self, discretizer)

    def rows_per_entity(self) -> Counted:
        """Number of entities with 1, 2, ..., k rows; shape (k,)."""
        counts: Counted = sum(self._map(operator.methodcaller("rows_per_entity")))
        return counts

    def category_counts(self, name: str) -> dict[Any, int]:
        """Counts of the present values of a column of categories."""
        return _added(self._map(operator.methodcaller("category_counts", name)))

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number: at the column's precision, within its bounds; one zero."""
        return _added(self._map(operator.methodcaller("value_counts", name)))

    def place_counts(self, name: str, column: Any, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost."""
        counts: Counted = sum(self._map(operator.methodcaller("place_counts", name, column, edges)))
        return counts

    def _map(self, count: Callable[[TrainingTable], T]) -> list[T]:
        return self.table.map(partial(_count, count, self.cast, self.schema, self.key), self.cast)


@dataclass(frozen=True, eq=False)
class MappedCounts:
    """Counts of the codes of rows that stay where they are."""

    table: MappedTable
    discretizer: Discretizer

    @property
    def domain(self) -> dict[str, int]:
        """Number of codes of each attribute, in the order of the columns."""
        return dict(self.discretizer.sizes)

    def counts(self, clique: Sequence[str]) -> Counted:
        """Counts of rows by combination of codes; shaped by the clique, one axis for each attribute."""
        return next(self.each([clique]))

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[Counted]:
        """The counts of many cliques, in their order: many in one pass over the rows."""
        for batch in in_batches(cliques, self.domain):
            parts = self.table._map(partial(_clique_counts, self.discretizer, batch))
            yield from (sum(counts) for counts in zip(*parts, strict=True))

    def coarse(self, coarsening: Coarsening) -> CoarseCounts:
        """The same table, which has coarse attributes as well."""
        return CoarseCounts(self, coarsening)


_TEXTS, _NUMBERS = ("string", "str"), ("int", "bigint", "int32", "int64")


def _together(table: Table, schema: Schema, entity: str) -> Table:
    """The table with all rows of one entity in one part."""
    frame = table.cluster
    if frame is None:
        raise JobError(
            f"entity={entity!r}: rows of an entity are counted together, and an executor reads them in several parts; "
            "leave it out, or give a frame of Spark or Dask"
        )
    # Cells that are cast to one name must lie in one part: texts stay as they are, and so do whole numbers.
    kinds = _TEXTS if getattr(schema.columns[entity], "template", None) else _NUMBERS
    if str(dict(frame.dtypes)[entity]).lower() not in kinds:
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


def _kept(chunk: Chunk, schema: Schema, key: int) -> np.ndarray:
    """Flags of the rows that stay: of each entity those with the least keyed hashes; shape (n,), boolean.

    A pass over a part finds its rows in another order, but keeps the same: equal rows count alike.
    """
    entities, _ = pd.factorize(chunk.frame(schema, [str(schema.entity)])[schema.entity])
    hashes = content_hashes(chunk, schema)
    for name in schema.measured:  # categories that nobody knows yet are all alike to a hash of the content
        hashes = mix(hashes) ^ entity_hashes(chunk, name, schema)
    return with_least_coins(entities, mix(hashes ^ np.uint64(key)), schema.max_rows_per_unit)


def _cell_counts(attributes: Sequence[Attribute], table: TrainingTable) -> list[Counted]:
    return list(table.cell_counts(attributes))


def _clique_counts(discretizer: Discretizer, cliques: Sequence[Sequence[str]], table: TrainingTable) -> list[Counted]:
    return list(table.coded(discretizer).each(cliques))


def _added(parts: Sequence[dict[Any, int]]) -> dict[Any, int]:
    return dict(sum(map(Counter, parts), Counter[Any]()))
