"""Rows of a stored table brought here some at a time, as places and cells: what a network is trained on.

What a cell stands for is worked out where the table is stored, as it is for counts; a batch holds numbers only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synth.domain.discretizer import Discretizer
from synth.stored.connection import StorageLocation, batches
from synth.stored.table import OWNER, StoredRows
from synth.transforms.columns import CHUNK_ROWS, Disk, FiledColumns


@dataclass(frozen=True, eq=False)
class FiledRows:
    """A stored table as it was brought here.

    Attributes:
        columns: *Sensitive*. Its rows, in a file.
        first_row: *Sensitive*. Where each entity's rows start among them, shape (n_entities,); none where rows were not
            asked for by entity.
    """

    columns: FiledColumns
    first_row: NDArray[np.int64] | None = field(default=None, repr=False)


SHARE = "understudy_share"
"""The column that holds one over the rows of each row's entity."""


def in_order(rows: StoredRows, discretizer: Discretizer, disk: Disk, *, shares: bool = False) -> FiledRows:
    """The rows ordered by what they hold, so that the same rows come in the same order from every backend.

    Args:
        rows: *Sensitive*. Where they are stored.
        discretizer: names the columns, under the schema of the rows.
        disk: where they are kept.
        shares: whether to add the column `SHARE`; the schema names an entity.

    Raises:
        TableError: the backend failed.
        OutputError: the disk has no room; nothing is left there.
    """
    owned = rows.rows.count().over(group_by=rows.rows[OWNER]) if shares else None
    more = {} if owned is None else {SHARE: ibis.ifelse(rows.rows[OWNER].isnull(), 1.0, 1.0 / owned)}
    read = _read(rows, discretizer, **more)
    read = read.order_by([ibis.asc(read[name], nulls_first=True) for name in read.columns])
    return FiledRows(disk.keep(_blocks(rows.place, read), (*discretizer.columns, *more)))


def by_entity(rows: StoredRows, discretizer: Discretizer, disk: Disk) -> FiledRows:
    """The rows of each entity side by side, where the schema names entities; else in the order in which they come.

    A private fit looks at no row's place, and rows are not ordered by anything that other rows have a say in.

    Args:
        rows: *Sensitive*. Where they are stored, contributions bounded.
        discretizer: names the columns, under the schema of the rows.
        disk: where they are kept.

    Raises:
        TableError: the backend failed.
        OutputError: the disk has no room; nothing is left there.
    """
    if rows.schema.entity is None:
        return FiledRows(disk.keep(_blocks(rows.place, _read(rows, discretizer)), discretizer.columns))
    read = _read(rows, discretizer, **{OWNER: rows.rows[OWNER]})
    starts = _Starts()
    columns = disk.keep(map(starts.see, batches(rows.place, read.order_by(OWNER), CHUNK_ROWS)), discretizer.columns)
    return FiledRows(columns, np.concatenate([np.empty(0, np.int64), *starts.found]))


class _Starts:
    """Where the rows of a new owner start, batch by batch."""

    def __init__(self) -> None:
        self.found: list[NDArray[np.int64]] = []
        self._n, self._last = 0, pa.scalar("")

    def see(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """The block of a batch, whose owners are noted."""
        owners = batch.column(OWNER)
        before = pa.concat_arrays([pa.array([self._last.as_py()], owners.type), owners.slice(0, len(owners) - 1)])
        is_new = pc.not_equal(owners, before).to_numpy(zero_copy_only=False)
        self.found.append(np.flatnonzero(is_new) + self._n)
        self._n, self._last = self._n + len(owners), owners[-1]
        return _block(batch.drop_columns([OWNER]))


def _read(rows: StoredRows, discretizer: Discretizer, **more: Any) -> ir.Table:
    """Places and cells of the columns, x0, x1, ...; null where a place is missing."""
    found = {f"x{i}": rows.read(rows.rows[attr.name], attr) for i, attr in enumerate(discretizer.attributes)}
    return rows.rows.select(**found, **more)


def _blocks(place: StorageLocation, asked: ir.Table) -> Iterator[NDArray[np.float64]]:
    return map(_block, batches(place, asked, CHUNK_ROWS))


def _block(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Shape (n_columns, n); NaN where a cell is null."""
    made = np.empty((batch.num_columns, batch.num_rows))
    for index, column in enumerate(batch.columns):
        made[index] = column.to_numpy(zero_copy_only=False)
    return made
