"""A real table where it is stored: split and bounded there, read by counts, or brought here some rows at a time.

`StoredTable` is the table, on either side of a split. `StoredRows` are its rows as a fit on marginals reads them,
`FiledRows` those a network is trained on: places and cells as they are for counts, so that a batch holds numbers only.
"""

import datetime as dt
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer
from synth.errors import TableError, nearest
from synth.observed import observe
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn, DatetimeColumn, LineColumn
from synth.split import check_share, refuse_small_sides, side_bound, side_salt, unit_column
from synth.stored.connection import Counted, StorageLocation, batches
from synth.stored.counts import StoredCounts
from synth.stored.decode import Reader, cell_of, code_of
from synth.stored.histories import PLACE, history_columns, numbered
from synth.stored.row_hash import NAME, OWNER, with_row_names
from synth.stored.sql_functions import exactly, md5, one_text
from synth.table.spool import Disk
from synth.transforms.columns import CHUNK_ROWS
from synth.validation import is_plain

FiledColumns: Any = None
MANY_VALUES = 1_000_000
"""Distinct values up to which a column is counted value by value, and only the values are read as cells."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A training table that stays where it is stored; every read is a count.

    Attributes:
        rows: *Sensitive*. The columns as they are stored, contributions bounded.
    """

    place: StorageLocation
    rows: ir.Table = field(repr=False)
    schema: Schema
    placed: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.place.number(self.rows.count())

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """Counts of values by cell of each attribute; shapes (n_cells,)."""
        for attribute in attributes:
            cells = self.rows[attribute.name]
            read = self.read(cells, attribute)  # refuses a type that cannot be read, and that may not be countable
            if self.place.number(cells.approx_nunique()) > MANY_VALUES:
                places = self.place.apart(self.rows.select(x=read))
                codes = places.select(cell=code_of(places["x"], attribute.fine))
                yield next(self.place.counts(codes, [["cell"]], {"cell": attribute.n_cells}))
            else:
                yield self._by_value(attribute)

    def coded(self, discretizer: Discretizer) -> StoredCounts:
        """The rows in the codes of a discretizer."""
        attributes = discretizer.attributes
        read = {f"x{index}": self.read(self.rows[a.name], a) for index, a in enumerate(attributes)}
        places = self.place.apart(self.rows.select(**read))
        codes = {f"c{index}": code_of(places[f"x{index}"], a) for index, a in enumerate(attributes)}
        kept = self.place.kept(places.select(**codes), discretizer.sizes.values())
        return StoredCounts(discretizer.sizes, kept, self.place)

    def rows_per_entity(self) -> Counted:
        """Counts of entities with 1, 2, ... rows; shape (k,), or longer where contributions are not bounded."""
        owned = self.rows.filter(self.rows[OWNER].notnull())
        entities = owned.group_by(OWNER).agg(n=owned.count())
        found = self.place.fetch(entities.group_by("n").agg(n_entities=entities.count()))
        most = max([self.schema.max_rows_per_unit, *found.column(0).to_pylist()])
        return _by_number(found, most + 1)[1:]

    def category_counts(self, name: str) -> dict[Any, int]:
        """Counts of the present values of a column of categories; every one of them comes here."""
        column: Any = self.schema.columns[name]
        values = self.rows.select(value=self.reader.unlisted(self.rows[name], name, column))
        found = self.place.fetch(self._counted(values))
        pairs = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
        return {value: n for value, n in pairs if value is not None and (not isinstance(value, str) or is_plain(value))}

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number, within its bounds; every one of them comes here."""
        column: Any = self.schema.columns[name]
        values = self.place.apart(self.rows.select(value=self.reader.places(self.rows[name], name, column)))
        found = self.place.fetch(self._counted(values))
        counts: Counter[float] = Counter()
        for value, n in zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True):
            if value is not None:
                counts[value + 0.0] += n  # one zero, whatever its sign
        return dict(counts)

    def place_counts(self, name: str, column: LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost."""
        n_cells = len(edges) - 1
        places = self.place.apart(self.rows.select(x=self.reader.places(self.rows[name], name, column)))
        codes = places.select(cell=cell_of(places["x"], edges))
        present = codes.filter(codes["cell"].notnull())
        return next(self.place.counts(present, [["cell"]], {"cell": n_cells}))

    @property
    def reader(self) -> Reader:
        """The reader of its cells."""
        return Reader.of(self.place.backend, self.schema, self.placed)

    def read(self, cells: ir.Column, attribute: Attribute) -> Any:
        """Places of cells on the line, null where they are missing, or the numbers of their categories.

        Args:
            cells: *Sensitive*. Of the column, or values of it.
        """
        column = attribute.column
        if column.is_categorical:
            return self.reader.members(cells, attribute.name, column)
        return self.reader.places(cells, attribute.name, column)

    def _by_value(self, attribute: Attribute) -> Counted:
        """Counts of cells by counts of distinct values: only these are read as cells."""
        values = self._counted(self.rows.select(value=self.rows[attribute.name]))
        places = self.place.apart(values.select(x=self.read(values["value"], attribute), n=values["n"]))
        cells = places.select(cell=code_of(places["x"], attribute.fine), n=places["n"])
        found = self.place.fetch(cells.group_by("cell").agg(n=cells["n"].sum().cast("int64")))
        return _by_number(found, attribute.n_cells)

    def _counted(self, values: ir.Table) -> ir.Table:
        """Counts by value; texts by their bytes, since a collation may take different ones for one another.

        DuckDB groups by bytes whatever the collation.
        """
        if self.place.backend == "duckdb" or not values["value"].type().is_string():
            return values.group_by("value").agg(n=values.count())
        by_bytes = values.mutate(digest=md5(values["value"]))
        return by_bytes.group_by("digest").agg(value=by_bytes["value"].min(), n=by_bytes.count()).drop("digest")


def _by_number(found: Any, size: int) -> Counted:
    """The counts of numbers below `size`, those that none has among them; the numbers come first, then the counts."""
    made = np.zeros(size, dtype=np.int64)
    made[found.column(0).to_numpy().astype(np.int64)] = found.column(1).to_numpy()
    return made


_HASH, _RANK, _SIDE = "understudy_hash", "understudy_rank", "understudy_side"


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table, or one side of it, where it is stored. Nothing is read until something asks for a count.

    Attributes:
        rows: *Sensitive*. Its columns as they are stored.
    """

    place: StorageLocation
    rows: ir.Table = field(repr=False)
    slot: str | None = None
    is_written: bool = False

    def __len__(self) -> int:
        return self.place.number(self.rows.count())

    def training(self, schema: Schema, *, in_order: bool = False) -> StoredRows:
        """The rows as a private fit reads them: cell by cell, at most k of each entity.

        Which rows of an entity stay depends on these rows alone: each is ranked by a keyed hash of its entity and its
        content, as it is written. The key comes from the operating system.
        """
        self.check(schema)
        if schema.entity is None:
            return self.whole(schema)
        key = os.urandom(16).hex()
        if in_order:
            found = numbered(self, schema, self._owner(schema.entity, schema, key), key)
            first = found.filter(found[OWNER].notnull() & (found[PLACE] <= schema.max_rows_per_unit))
            return self._numbered(first, schema)
        content = [self._written_as(name) for name in schema.kept]
        owned = self._owned(schema.entity, schema, key)
        owned = owned.mutate(**{_HASH: md5(_set_apart([ibis.literal(key), *content]))})
        owned = owned.filter(owned[OWNER].notnull())
        rank = ibis.row_number().over(group_by=owned[OWNER], order_by=owned[_HASH])
        bounded = owned.mutate(**{_RANK: rank})
        return self._written(bounded.filter(bounded[_RANK] < schema.max_rows_per_unit), schema)

    def whole(self, schema: Schema, *, in_order: bool = False) -> StoredRows:
        """All rows: of a table without entities, or for a fit without epsilon. *Sensitive*."""
        if schema.entity is None:
            return self._written(self.rows, schema)
        key = os.urandom(16).hex()
        if in_order:  # without a key for rows of one order, so that the same table gives the same model
            found = numbered(self, schema, self._owner(schema.entity, schema, key), "")
            return self._numbered(found, schema)
        return self._written(self._owned(schema.entity, schema, key), schema)

    def _written(self, rows: ir.Table, schema: Schema) -> StoredRows:
        names = [*([] if schema.entity is None else [OWNER]), *schema.modeled]
        chosen = rows.select(*names)
        return StoredRows(self.place, chosen if self.is_written else self.place.written(chosen), schema)

    def _numbered(self, rows: ir.Table, schema: Schema) -> StoredRows:
        chosen = rows.select(OWNER, *schema.modeled, *history_columns(schema))
        return StoredRows(self.place, self.place.materialized(chosen), schema)

    def _owned(self, entity: str, schema: Schema, key: str) -> ir.Table:
        """The rows with a keyed digest of the name of each one's entity, null where it has none."""
        return self.rows.mutate(**{OWNER: self._owner(entity, schema, key)})

    def _owner(self, entity: str, schema: Schema, key: str) -> Any:
        """A keyed digest of the name of each row's entity, null where it has none.

        The name, not the cell: that may be spelled in several ways, and a collation may take two names for one.
        """
        return md5(ibis.literal(key) + self.text(entity, schema))

    def check(self, schema: Schema) -> None:
        """Refuse a table that lacks a column of the schema."""
        known = [name for name in self.rows.columns if name not in (self.slot, *schema.columns)]
        for name in schema.kept:
            if name not in self.rows.columns:
                hint = nearest(name, known) if known else "add it, or set drop = true for it in the schema"
                raise TableError(
                    f"column={name!r} is in the schema and not in the table at {self.place.shown!r}; {hint}"
                )

    def split(self, schema: Schema, *, holdout_share: float, seed: int, any_size: bool = False) -> tuple[Self, Self]:
        """Train and holdout, each unit by the hash of its name: those of `synth.split.split_table` in memory.

        Where what a row holds is its name, the kept columns are written down with their sides where that is ours to do.
        """
        check_share(holdout_share)
        self.check(schema)
        sided = self._sided(schema, holdout_share, seed)
        inside = sided.rows[_SIDE]
        n_inside = ibis.ifelse(inside, 1, 0).sum().fill_null(0)
        sizes = self.place.fetch(sided.rows.agg(inside=n_inside, rows=sided.rows.count()))
        n_holdout, n_rows = (int(column[0].as_py()) for column in sizes.columns)
        if not any_size:
            refuse_small_sides(n_rows - n_holdout, n_holdout, holdout_share)
        train, holdout = (replace(sided, rows=sided.rows.filter(which).drop(_SIDE)) for which in (~inside, inside))
        return train, holdout

    def _sided(self, schema: Schema, holdout_share: float, seed: int) -> Self:
        """The table with `understudy_side`, which is true for the holdout."""
        if (column := unit_column(schema)) is not None:
            return replace(
                self, rows=self.rows.mutate(**{_SIDE: _inside(self.text(column, schema), holdout_share, seed)})
            )
        named = with_row_names(self, schema)
        sided = named.select(*schema.kept, **{_SIDE: _inside(named[NAME], holdout_share, seed)})
        # Turns take a look at all rows: once, where they can be written down.
        return replace(self, rows=self.place.written(sided), slot=None, is_written=self.place.keeps)

    def text(self, name: str, schema: Schema) -> Any:
        """Cells of a column as text, null where they are missing."""
        cells, column = self.rows[name], schema.columns.get(name)  # none for the slot
        reader = Reader.of(self.place.backend, schema)
        if column is not None and column.holds_whole_numbers:
            # A whole number has one name, however it is written.
            return reader.wholes(cells, name).cast("string")
        text = self._written_as(name)
        if cells.type().is_floating():
            return ibis.ifelse(reader.reals(cells, name).isnull(), ibis.null("string"), text)
        return reader.present(text) if cells.type().is_string() else text

    def _written_as(self, name: str) -> Any:
        return one_text(self.rows[name], self.place.backend)


def _inside(unit: Any, holdout_share: float, seed: int) -> Any:
    """True if a unit of that name goes to the holdout; one without a name stays in train, as in memory."""
    digest = md5(ibis.literal(side_salt(seed)) + unit)
    return ibis.ifelse(unit.isnull(), False, digest < side_bound(holdout_share))


def _set_apart(texts: list[Any]) -> Any:
    """Texts one after the other, so that no other texts give the same."""
    parts = [ibis.coalesce(text.length().cast("string") + ":" + text, "-") for text in texts]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + part
    return joined


@dataclass(frozen=True, eq=False)
class FiledRows:
    """A stored table as it was brought here.

    Attributes:
        columns: *Sensitive*. Its rows, in a file.
        first_row: *Sensitive*. First row of each entity, shape (n_entities,); `None` where rows were not asked for by
            entity.
    """

    columns: FiledColumns
    first_row: NDArray[np.int64] | None = field(default=None, repr=False)


SHARE = "understudy_share"
"""The column that holds one over the rows of each row's entity."""


def in_order(rows: StoredRows, discretizer: Discretizer, disk: Disk, *, shares: bool = False) -> FiledRows:
    """The rows ordered by what they hold, so that the same rows come in the same order from every backend.

    Args:
        rows: *Sensitive*. Where they are stored.
    """
    owned = rows.rows.count().over(group_by=rows.rows[OWNER]) if shares else None
    more = {} if owned is None else {SHARE: ibis.ifelse(rows.rows[OWNER].isnull(), exactly(1.0), exactly(1.0) / owned)}
    read = _read(rows, discretizer, **more)
    read = read.order_by([ibis.asc(read[name], nulls_first=True) for name in read.columns])
    return FiledRows(disk.keep(_blocks(rows.place, read), (*discretizer.columns, *more)))


def by_entity(rows: StoredRows, discretizer: Discretizer, disk: Disk) -> FiledRows:
    """The rows of each entity side by side, where the schema names entities; else in the order in which they come.

    A private fit looks at no row's place, and rows are not ordered by anything that other rows have a say in.

    Args:
        rows: *Sensitive*. Where they are stored, contributions bounded.
    """
    if rows.schema.entity is None:
        return FiledRows(disk.keep(_blocks(rows.place, _read(rows, discretizer)), discretizer.columns))
    read = _read(rows, discretizer, **{OWNER: rows.rows[OWNER]})
    starts = _Starts()
    columns = disk.keep(map(starts.see, batches(rows.place, read.order_by(OWNER), CHUNK_ROWS)), discretizer.columns)
    return FiledRows(columns, np.concatenate([np.empty(0, np.int64), *starts.found]))


class _Starts:
    """Positions where the rows of a new owner start, batch by batch."""

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


def observed(schema: Schema, *tables: StoredTable) -> Schema:
    """The schema with bounds and categories read off the tables wherever they are to be measured.

    What comes out tells values of single rows. It is never for a private fit, which measures under its budget.

    Args:
        tables: *Sensitive*. Conforming to it.
    """
    return observed_rows(schema, *(StoredRows(table.place, table.rows, schema) for table in tables))


def observed_rows(schema: Schema, *sides: StoredRows) -> Schema:
    """The same of rows that are read already, by counts.

    Args:
        sides: *Sensitive*. Conforming to it.
    """
    telling = [
        pd.DataFrame({name: pd.Series(_telling(name, schema.columns[name], side), dtype=object)})
        for side in sides for name in schema.measured
    ]  # fmt: skip
    return observe(schema, pd.concat(telling, ignore_index=True)) if telling else schema


def _telling(name: str, column: Any, side: StoredRows) -> list[Any]:
    """The categories of a column, or the ends of its numbers or times."""
    if isinstance(column, CategoricalColumn):
        return list(side.category_counts(name))
    places = side.rows.select(x=side.reader.places(side.rows[name], name, column))
    found = side.place.fetch(places.agg(low=places["x"].min(), high=places["x"].max()))
    ends = [end for end in (found.column(0)[0].as_py(), found.column(1)[0].as_py()) if end is not None]
    return [_value(end, column) for end in ends]


def _value(place: float, column: Any) -> Any:
    if column.is_date:
        return dt.datetime.combine(column.value_at(place), dt.time())
    if isinstance(column, DatetimeColumn):
        return column.value_at(place)
    return min(max(int(place), column.bounds[0]), column.bounds[1]) if column.is_whole else place
