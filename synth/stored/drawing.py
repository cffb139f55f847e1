"""Rows of a stored table in a seeded random order, drawn there."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import ibis
import ibis.expr.types as ir

from synth.row_hash import DIGITS, draw_salt
from synth.schema import Schema
from synth.stored.connection import StorageLocation
from synth.stored.row_hash import KEY, TIE, with_keys
from synth.stored.sql_functions import md5
from synth.stored.table import StoredTable

POSITION, UNIT = "understudy_position", "understudy_unit"
TICKET = "understudy_ticket"
_COUNT, _FIRST = "understudy_count", "understudy_first"


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows of a stored table in a seeded order, which depends on what they hold alone.

    Attributes:
        place: where they are.
        rows: *Sensitive*. The columns of `schema.kept` as they are stored; `understudy_position`, int64, 0 to n - 1;
            `understudy_unit`, int64, the entity of each row, or a number of its own, from 0 in the order of first
            appearance. They stand in no order of themselves.
        n: rows.
        n_units: units.
    """

    place: StorageLocation
    rows: ir.Table = field(repr=False)
    n: int
    n_units: int


def draw_rows(
    table: StoredTable, schema: Schema, *, seed: int, limit: int | None, also: Sequence[str] = ()
) -> DrawnRows:  # fmt: skip
    """The rows of a table in the order that `seed` gives, written down where that is ours to do.

    These are the rows, the order and the units that `evaluate.sampling.drawn_order` gives for the same table in memory.

    Args:
        table: *Sensitive*. Where the rows are.
        schema: names the columns, with domains known.
        seed: another seed gives another order.
        limit: only the first so many; none: all.
        also: other columns of the table to carry along.

    Raises:
        TableError: a column is missing there, or its type cannot be read as its kind; nothing was drawn.
    """
    keyed, names = with_keys(table, schema, also), [*schema.kept, *also]
    n_rows = len(table)
    if limit is not None and limit < n_rows:
        # Of all rows only keys are sorted: rows with a key that none of the first tickets has cannot be among these.
        first = ticketed(keyed.select(KEY), seed).order_by(TICKET, KEY, _COUNT).limit(limit)
        chosen = table.place.written(first.select(KEY).distinct())
        keyed = keyed.semi_join(chosen, KEY)
    found = ticketed(keyed, seed)
    placed = found.mutate(**{POSITION: ibis.row_number().over(order_by=[TICKET, KEY, _COUNT])})
    n = n_rows if limit is None else min(limit, n_rows)
    if n < n_rows:
        placed = placed.filter(placed[POSITION] < n)
    rows = table.place.written(_numbered(placed, names, schema))
    n_units = n if schema.entity is None else table.place.number(rows[UNIT].max().fill_null(-1)) + 1
    return DrawnRows(table.place, rows, n, n_units)


def whole_entities(table: StoredTable, schema: Schema, *, seed: int, limit: int) -> StoredTable:
    """All rows of entities that are drawn by their names, `limit` rows at most; one of more rows is passed over."""
    rows = table.rows.mutate(**{TIE: md5(table.text(str(schema.entity), schema))})
    sizes = rows.group_by(TIE).agg(**{_COUNT: rows.count()})
    sizes = sizes.filter(sizes[_COUNT] <= limit).mutate(**{TICKET: md5(ibis.literal(draw_salt(seed)) + sizes[TIE])})
    up_to = sizes[_COUNT].sum().over(order_by=[sizes[TICKET]], rows=(None, 0))
    drawn = sizes.mutate(**{_FIRST: up_to})
    chosen = table.place.written(drawn.filter(drawn[_FIRST] <= limit).select(TIE))
    return replace(table, rows=rows.semi_join(chosen, TIE).drop(TIE))


def ticketed(keyed: ir.Table, seed: int) -> ir.Table:
    """Each row with its count among equal ones, told apart by their entities, and its ticket.

    Args:
        keyed: *Sensitive*. As `with_keys` gives it.
        seed: another seed gives other tickets.
    """
    order = {"order_by": [keyed[TIE]]} if TIE in keyed.columns else {}
    counted = keyed.mutate(**{_COUNT: ibis.row_number().over(group_by=keyed[KEY], **order)})
    text = ibis.literal(draw_salt(seed)) + counted[KEY] + ":" + counted[_COUNT].cast("string")
    return counted.mutate(**{TICKET: md5(text).substr(0, DIGITS)})


def _numbered(placed: ir.Table, names: Sequence[str], schema: Schema) -> ir.Table:
    """Named columns, positions, and units numbered by first appearance."""
    if schema.entity is None:
        return placed.select(*names, POSITION, **{UNIT: placed[POSITION]})
    first = placed[POSITION].min().over(group_by=placed[TIE])
    # A row without an entity is a unit of its own.
    firsts = placed.mutate(**{_FIRST: ibis.ifelse(placed[TIE].isnull(), placed[POSITION], first)})
    units = ibis.dense_rank().over(order_by=firsts[_FIRST])
    return firsts.select(*names, POSITION, **{UNIT: units})
