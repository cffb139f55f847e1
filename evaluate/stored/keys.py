"""Keys of rows of tables that may be stored in different places, counted together in one of them.

A database is only read. Where two tables are in different places, distinct keys and their counts are brought to an
embedded engine (`evaluate.stored.meeting`): keys are digests of rows, so they are no less sensitive than these, and
they go when the engine is closed.
"""

from dataclasses import dataclass, field
from pathlib import Path

import ibis
import ibis.expr.types as ir
import pyarrow.parquet as pq

from evaluate.stored.meeting import EMBEDDED
from synth.errors import PlaceError
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.connection import Place
from synth.stored.embedded import work_folder
from synth.stored.errors import told
from synth.stored.row_hash import KEY, TARGET, TIE, with_keys

N, STRATUM, UNIT_NAME = "n_rows", "stratum", "unit_name"


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """How often each distinct row stands in a table, in the place where it is counted.

    Attributes:
        place: where that is.
        counts: *Sensitive*. `understudy_key`, `stratum` (the target where it has categories, else 0), `n_rows`.
        of_units: *Sensitive*. The same for each entity, `unit_name`; none where a row is a unit.
    """

    place: Place
    counts: ir.Table = field(repr=False)
    of_units: ir.Table | None = field(repr=False)

    @classmethod
    def of(cls, table: StoredTable, schema: Schema, place: Place) -> "KeyCounts":
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


def _counted(keys: ir.Table, by: list[str]) -> ir.Table:
    # Rows of one key have one target.
    return keys.group_by(by).agg(**{STRATUM: keys[STRATUM].min(), N: keys.count().cast("int64")})


def brought(asked: ir.Table, origin: Place, place: Place) -> ir.Table:
    """Rows that are worked out in one place, written down in another that is embedded, by way of a file of its own.

    Raises:
        TableError: one of the two failed, or, as a PlaceError, the disk is full; nothing was measured.
    """
    if origin.connection is place.connection:
        return place.written(asked)
    with work_folder() as folder:
        path = folder / "keys.parquet"
        with told(origin.shown):
            _write(asked, origin, path)
        with told(place.shown):
            return place.written(place.connection.read_parquet(path))


def _write(asked: ir.Table, origin: Place, path: Path) -> None:
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
