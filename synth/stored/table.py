"""A real table where it is stored: split there, bounded there, and read by counts."""

import os
from dataclasses import dataclass, field, replace
from typing import Any, Self

import ibis
import ibis.expr.types as ir

from synth.errors import TableError, nearest
from synth.schema import Schema
from synth.split import check_share, refuse_small_sides, side_bound, side_salt, unit_column
from synth.stored.content import NAME, with_row_names
from synth.stored.functions import md5, one_text
from synth.stored.place import Place
from synth.stored.reading import Reader
from synth.stored.rows import OWNER, StoredRows
from synth.table.kinds import holds_whole_numbers

_HASH, _RANK, _SIDE = "understudy_hash", "understudy_rank", "understudy_side"


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table, or one side of it, where it is stored. Nothing is read until something asks for a count.

    Attributes:
        place: where it is.
        rows: *Sensitive*. Its columns as they are stored.
        slot: the column that holds each row's place in its files; none where rows have no order.
        is_written: whether the rows were written down where they are read from, so that nobody need do it again.
    """

    place: Place
    rows: ir.Table = field(repr=False)
    slot: str | None = None
    is_written: bool = False

    def __len__(self) -> int:
        return self.place.number(self.rows.count())

    def training(self, schema: Schema) -> StoredRows:
        """The rows as a private fit reads them: cell by cell, at most k of each entity.

        Which rows of an entity stay depends on these rows alone: each is ranked by a keyed hash of its entity and its
        content, as it is written. The key comes from the operating system.
        """
        self.check(schema)
        if schema.entity is None:
            return self.whole(schema)
        key, content = os.urandom(16).hex(), [self._written_as(name) for name in schema.kept]
        owned = self._owned(schema.entity, schema, key)
        owned = owned.mutate(**{_HASH: md5(_set_apart([ibis.literal(key), *content]))})
        owned = owned.filter(owned[OWNER].notnull())
        rank = ibis.row_number().over(group_by=owned[OWNER], order_by=owned[_HASH])
        bounded = owned.mutate(**{_RANK: rank})
        return self._written(bounded.filter(bounded[_RANK] < schema.max_rows_per_unit), schema)

    def whole(self, schema: Schema) -> StoredRows:
        """All rows: of a table without entities, or for a fit without epsilon. *Sensitive*."""
        key = os.urandom(16).hex()
        return self._written(self.rows if schema.entity is None else self._owned(schema.entity, schema, key), schema)

    def _written(self, rows: ir.Table, schema: Schema) -> StoredRows:
        names = [*([] if schema.entity is None else [OWNER]), *schema.modeled]
        chosen = rows.select(*names)
        return StoredRows(self.place, chosen if self.is_written else self.place.written(chosen), schema)

    def _owned(self, entity: str, schema: Schema, key: str) -> ir.Table:
        """The rows with a keyed digest of the name of each one's entity, null where it has none.

        The name, not the cell: that may be spelled in several ways, and a collation may take two names for one.
        """
        return self.rows.mutate(**{OWNER: md5(ibis.literal(key) + self.text(entity, schema))})

    def check(self, schema: Schema) -> None:
        """Refuse a table that lacks a column of the schema.

        Raises:
            TableError: it does; nothing was read.
        """
        known = [name for name in self.rows.columns if name not in (self.slot, *schema.columns)]
        for name in schema.kept:
            if name not in self.rows.columns:
                hint = nearest(name, known) if known else "add it, or set drop = true for it in the schema"
                raise TableError(
                    f"column={name!r} is in the schema and not in the table at {self.place.shown!r}; {hint}"
                )

    def split(self, schema: Schema, *, holdout_share: float, seed: int) -> tuple[Self, Self]:
        """Train and holdout, each unit by the hash of its name: those of `synth.split.split_table` in memory.

        Where what a row holds is its name, the kept columns are written down with their sides where that is ours to do.

        Raises:
            JobError: the share is not inside (0, 1); nothing was read.
            TableError: too few rows are on one side; nothing was split.
        """
        check_share(holdout_share)
        self.check(schema)
        sided = self._sided(schema, holdout_share, seed)
        inside = sided.rows[_SIDE]
        n_inside = ibis.ifelse(inside, 1, 0).sum().fill_null(0)
        sizes = self.place.fetch(sided.rows.agg(inside=n_inside, rows=sided.rows.count()))
        n_holdout, n_rows = (int(column[0].as_py()) for column in sizes.columns)
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
        if column is not None and holds_whole_numbers(column):
            # A whole number has one name, however it is written.
            return reader.wholes(cells, name).cast("string")
        text = self._written_as(name)
        return reader.present(text) if cells.type().is_string() else text

    def _written_as(self, name: str) -> Any:
        return one_text(self.rows[name], self.place.backend)


def _inside(unit: Any, holdout_share: float, seed: int) -> Any:
    """Whether a unit of that name goes to the holdout; one without a name stays in train, as in memory."""
    digest = md5(ibis.literal(side_salt(seed)) + unit)
    return ibis.ifelse(unit.isnull(), False, digest < side_bound(holdout_share))


def _set_apart(texts: list[Any]) -> Any:
    """Texts one after the other, so that no other texts give the same."""
    parts = [ibis.coalesce(text.length().cast("string") + ":" + text, "-") for text in texts]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + part
    return joined
