"""Keys of rows of tables that may be stored in different places, counted together in one of them.

A database is only read, and as few keys as possible leave it. Tables of one database meet there, though each address
has opened a connection of its own (`at_home`). Others meet in an embedded engine: that of a real side that has one,
else one that is opened once for the whole evaluation (`meeting_place`). Distinct keys and their counts are brought
there: keys are digests of rows, so they are no less sensitive than these, and they go when the engine is closed.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow.parquet as pq

from synth.errors import PlaceError
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.connection import StorageLocation, embedded, work_folder
from synth.stored.errors import told
from synth.stored.row_hash import KEY, TARGET, TIE, with_keys

EMBEDDED = "duckdb"


def at_home(table: StoredTable, other: StoredTable) -> StoredTable:
    """A table read through another's connection where both are in one database, so that one query may name both.

    Args:
        table: *Sensitive* where it is real.
    """
    old, new = table.place.connection, other.place.connection
    # By server, database, user and parameters: what the one may read there, the other may.
    if old is new or old.db_identity != new.db_identity:
        return table

    def moved(node: Any, changed: Mapping[str, Any] | None) -> Any:
        made = node if changed is None else node.__recreate__(changed)
        return made.copy(source=new) if getattr(made, "source", None) is old else made

    place = StorageLocation(new, table.place.shown, table.place.memory_mb, table.place.threads)
    return type(table)(place, table.rows.op().replace(moved).to_expr(), table.slot)


def meeting_place(real: Sequence[StoredTable], *others: StoredTable, kept: dict[Any, Any]) -> StorageLocation:
    """The place where keys of tables are counted together.

    Args:
        kept: *Sensitive*. Holds the engine of the evaluation, once there is one.
    """
    places = [table.place for table in (*real, *others)]
    if all(place.connection is places[0].connection for place in places):
        return places[0]
    if "engine" not in kept:
        embedded_ones = (table.place for table in real if table.place.backend == EMBEDDED)
        kept["engine"] = next(embedded_ones, None) or _opened(places[0])
    found: StorageLocation = kept["engine"]
    return found


def _opened(beside: StorageLocation) -> StorageLocation:
    """An engine of its own, which closes with the place and takes no more than was granted."""
    block = embedded(memory_mb=beside.memory_mb, threads=beside.threads)
    place = StorageLocation(block.__enter__(), "keys of rows", beside.memory_mb, beside.threads)
    weakref.finalize(place, block.__exit__, None, None, None)
    return place


N, STRATUM, UNIT_NAME = "n_rows", "stratum", "unit_name"


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """Counts of each distinct row of a table, in the place where they are counted.

    Attributes:
        counts: *Sensitive*. `understudy_key`, `stratum` (the target where it has categories, else 0), `n_rows`.
        of_units: *Sensitive*. The same for each entity, `unit_name`; `None` where a row is a unit.
    """

    place: StorageLocation
    counts: ir.Table = field(repr=False)
    of_units: ir.Table | None = field(repr=False)

    @classmethod
    def of(cls, table: StoredTable, schema: Schema, place: StorageLocation) -> "KeyCounts":
        """The counts of a table, in a place."""
        keyed = with_keys(table, schema)
        stratum = keyed[TARGET].cast("int64") if TARGET in keyed.columns else ibis.literal(0, "int64")
        keys = keyed.select(KEY, *([TIE] if schema.entity else []), **{STRATUM: stratum})
        if schema.entity is None:
            return cls(place, brought(_counted(keys, [KEY]), table.place, place), None)
        of_units = brought(_counted(keys, [KEY, TIE]).rename({UNIT_NAME: TIE}), table.place, place)
        summed = of_units.group_by(KEY).agg(
            **{STRATUM: of_units[STRATUM].min(), N: of_units[N].sum().cast("int64")}
        )  # fmt: skip
        return cls(place, place.written(summed), of_units)

    def forget(self) -> None:
        """Remove them where they were written down."""
        for written in (self.counts, self.of_units):
            if written is not None:
                self.place.forget(written)


_FIRST, _SECOND, _TIMES = "n_first", "n_second", "times"


def counted_together(first: KeyCounts, second: KeyCounts) -> np.ndarray:
    """Distinct rows by their counts in two tables: stratum, count in the first, in the second, and how many rows have
    them; shape (k, 4).
    """
    place = first.place

    def fetched(cells: ir.Table) -> dict[tuple[int, int, int], int]:
        names = [STRATUM, _FIRST, _SECOND]
        found = place.fetch(cells.group_by(names).agg(**{_TIMES: cells.count()}))
        *of_cells, times = (column.to_pylist() for column in found.columns)
        return dict(zip(zip(*of_cells, strict=True), times, strict=True))

    none, ours, theirs = ibis.literal(0, "int64"), first.counts, second.counts
    shared = ours.inner_join(theirs.select(KEY, **{_SECOND: theirs[N]}), KEY)
    both = fetched(shared.select(STRATUM, **{_FIRST: shared[N], _SECOND: shared[_SECOND]}))
    of_first = fetched(ours.select(STRATUM, **{_FIRST: ours[N], _SECOND: none}))
    of_second = fetched(theirs.select(STRATUM, **{_FIRST: none, _SECOND: theirs[N]}))
    for (stratum, a, b), times in both.items():
        of_first[stratum, a, 0] -= times
        of_second[stratum, 0, b] -= times
    cells = {cell: times for table in (both, of_first, of_second) for cell, times in table.items() if times}
    return np.array([(*cell, times) for cell, times in sorted(cells.items())], dtype=np.int64).reshape(-1, 4)


def _counted(keys: ir.Table, by: list[str]) -> ir.Table:
    # Rows of one key have one target.
    return keys.group_by(by).agg(**{STRATUM: keys[STRATUM].min(), N: keys.count().cast("int64")})


def brought(asked: ir.Table, origin: StorageLocation, place: StorageLocation) -> ir.Table:
    """Rows that are worked out in one place, written down in another that is embedded, by way of a file of its own."""
    if origin.connection is place.connection:
        return place.written(asked)
    with work_folder() as folder:
        path = folder / "keys.parquet"
        with told(origin.shown):
            _write(asked, origin, path)
        with told(place.shown):
            return place.written(place.connection.read_parquet(path))


def _write(asked: ir.Table, origin: StorageLocation, path: Path) -> None:
    if origin.backend == EMBEDDED:
        # Not by Arrow's batches: what DuckDB lends to another engine so may be overwritten before it is read.
        origin.connection.to_parquet(asked, path)
        return
    reason = None
    try:
        with pq.ParquetWriter(path, asked.schema().to_pyarrow()) as writer:
            for batch in origin.connection.to_pyarrow_batches(asked):
                writer.write_batch(batch)
    except OSError as error:
        reason = error.strerror
    if reason is not None:
        raise PlaceError(
            f"keys of rows cannot be written beside the system's temporary files ({reason}); make room there"
        )
