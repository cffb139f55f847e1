"""Histories of a stored table, by windows of its database: those that `synth.histories` makes of rows in memory.

`numbered` puts the rows of each entity in their order. `taken_apart` lays them out as first and later rows, and `check`
counts what breaks the schema. Every window is of one entity, so that no row has a say in another entity's.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from synth.domain import Discretizer, numeric_scale
from synth.errors import SchemaError, TableError
from synth.histories.layout import HistoryLayout, falls, varies
from synth.histories.ordering import NUMBER
from synth.schema import Schema
from synth.stored.decode import Reader, clip
from synth.stored.numeric import whole_match
from synth.stored.row_hash import OWNER, with_content
from synth.stored.sql_functions import by_bytes, exactly, half_even

if TYPE_CHECKING:
    from synth.stored.table import StoredRows, StoredTable

PLACE = "understudy_place"
"""The column that holds the place of a row in its history, from 1 on."""
_CONTENT, _NUMBER, _TEXT = "understudy_content", "understudy_number", "understudy_text"
LARGEST_POSITION = 8e307
"""Positions on the line further from zero count as this one: a gain that overflows ends the query on some backends."""


def history_columns(schema: Schema) -> tuple[str, ...]:
    """The names of the columns that `numbered` adds: the place in the history, and places on lines."""
    return (PLACE, *_lines(schema).values())


def _lines(schema: Schema) -> dict[str, str]:
    """For each column that never falls, the name of the one that holds its places on the line as they were read."""
    return {name: f"understudy_line_{at}" for at, name in enumerate(schema.growing)}


def numbered(table: "StoredTable", schema: Schema, owner: Any, key: str) -> ir.Table:
    """The modeled columns of a table beside the owner of each row, its place in the history, and places on lines.

    Rows with one order follow each other by what never falls, and then by a hash of what they hold. So a history
    depends on its own rows alone, and never on their places in the table.

    Args:
        table: *Sensitive*. Where the rows are.
        owner: *Sensitive*. A digest of the entity of each row, null where there is none.
    """
    reader, lines = Reader.of(table.place.backend, schema), _lines(schema)
    read: dict[str, Any] = {OWNER: owner}
    read |= {line: reader.places(table.rows[n], n, schema.columns[n]) for n, line in lines.items()}  # type: ignore[arg-type]
    order = [lines[schema.order]] if schema.order in lines else []
    if schema.order is not None and not order:
        read |= _order_of_identifiers(table, schema)
        order = [_NUMBER, _TEXT]
    order += [line for name, line in lines.items() if name != schema.order]
    told = with_content(table, schema, {name: table.rows[name] for name in schema.modeled} | read, _CONTENT, key)
    by = [*(ibis.asc(told[name], nulls_first=False) for name in order), told[_CONTENT]]
    place = ibis.row_number().over(group_by=told[OWNER], order_by=by) + 1
    return told.select(OWNER, *schema.modeled, *lines.values(), **{PLACE: place})


def _order_of_identifiers(table: "StoredTable", schema: Schema) -> dict[str, Any]:
    """Identifiers as two columns that sort as in memory: whole numbers as such, and others after them, as texts."""
    name, backend = str(schema.order), table.place.backend
    if not schema.columns[name].is_identifier:
        raise SchemaError(
            f"rows follow each other by a date, a time, a number or an identifier: order={name!r} is none of them; "
            "name another column"
        )
    texts = table.text(name, schema)
    whole = whole_match(texts, NUMBER, backend).fill_null(False)
    other = ibis.ifelse(whole, ibis.null("string"), texts)
    number = ibis.ifelse(whole, texts, ibis.null("string")).cast("float64")
    return {_NUMBER: number, _TEXT: by_bytes(other, backend)}


def check(rows: "StoredRows", layout: HistoryLayout) -> None:
    """Refuse a table that breaks what the schema says of the rows of an entity, by counts; not for a private fit.

    Args:
        rows: *Sensitive*. Numbered.
    """
    attributes = {each.name: each for each in Discretizer.by_schema(layout.schema).attributes}
    held, lines = rows.rows.filter(rows.rows[OWNER].notnull()), _lines(layout.schema)
    read = {f"understudy_{at}": rows.read(held[n], attributes[n]) for at, n in enumerate(layout.constant)}
    seen = rows.place.apart(held.select(OWNER, PLACE, *lines.values(), **read))
    ordered = ibis.window(group_by=seen[OWNER], order_by=seen[PLACE])
    broken: dict[str, Any] = {n: ~seen[n].identical_to(seen[n].lag().over(ordered)) for n in read}
    broken |= {line: (seen[line] < seen[line].lag().over(ordered)).fill_null(False) for line in lines.values()}
    if not broken:
        return
    flags = seen.select(PLACE, **{name: ibis.ifelse(flag, 1, 0) for name, flag in broken.items()})
    later = flags.filter(flags[PLACE] > 1)
    found = rows.place.fetch(later.agg(**{name: later[name].sum().fill_null(0).cast("int64") for name in broken}))
    refused: list[tuple[str, str, Callable[[str], TableError]]] = [
        *((of_read, name, varies) for of_read, name in zip(read, layout.constant, strict=True)),
        *((line, name, falls) for name, line in lines.items()),
    ]
    for column, name, error in refused:
        if found.column(column)[0].as_py():
            raise error(name)


def taken_apart(rows: "StoredRows", layout: HistoryLayout) -> "tuple[StoredRows, StoredRows]":
    """The first rows and the later rows of a table: those that `HistoryLayout.taken_apart` gives in memory.

    Args:
        rows: *Sensitive*. Numbered.
    """
    growing = _lines(layout.schema)
    held = _filled(rows.rows.filter(rows.rows[OWNER].notnull()), layout.schema)
    steps = {f"understudy_step_{at}": _steps(held[line], layout, n) for at, (n, line) in enumerate(growing.items())}
    values = {f"understudy_value_{at}": _value(held[n], rows.reader, n, layout) for at, n in enumerate(layout.averaged)}
    read = rows.place.apart(held.mutate(**steps, **values))
    of_entity, ordered = ibis.window(group_by=read[OWNER]), ibis.window(group_by=read[OWNER], order_by=read[PLACE])
    above = ibis.window(group_by=read[OWNER], order_by=read[PLACE], preceding=(None, 1))
    n_rows = read.count().over(of_entity)
    own = {name: read[growing.get(name, name)] for name in layout.schema.modeled}
    made: dict[str, Any] = {
        layout.n_rows: n_rows,
        layout.left: n_rows - read[PLACE],
        layout.place: read[PLACE],
    }
    made |= {layout.before(name): own[name].lag().over(ordered) for name in layout.varying}
    for name, value in zip(layout.averaged, values, strict=True):
        n_above = read[value].count().over(above).nullif(0)
        average = read[value].sum().over(above) / n_above.cast("float64")
        made[layout.average(name)] = average * exactly(layout.averaged_in(name))
    for step, name in zip(steps, growing, strict=True):
        if name in layout.varying:
            gain = read[step] - read[step].lag().over(ordered)
            made[layout.gain(name)] = ibis.greatest(gain, exactly(0.0))
    beside = rows.place.materialized(read.select(OWNER, **own, **made))
    first, later = (beside.filter(which) for which in (beside[layout.place] == 1, beside[layout.place] > 1))
    places = [layout.before(name) for name in growing if name in layout.varying]
    return (
        replace(
            rows,
            rows=first.select(*layout.first_rows.modeled),
            schema=layout.first_rows,
            placed=frozenset(growing),
        ),
        replace(
            rows,
            rows=later.select(OWNER, *layout.later_rows.modeled),
            schema=layout.later_rows,
            placed=frozenset(places),
        ),
    )


def _filled(held: ir.Table, schema: Schema) -> ir.Table:
    """The rows with what never falls filled in where a cell could not be read: by the row before, else the least."""
    so_far = ibis.window(group_by=held[OWNER], order_by=held[PLACE], rows=(None, 0))
    lines = _lines(schema)
    # The rows after a cell that was read, up to the next one that was, have as many of such cells above them.
    runs = {f"{line}_run": held[line].count().over(so_far) for name, line in lines.items() if name != schema.order}
    known = held.mutate(**runs)
    filled = {}
    for name, line in lines.items():
        if name == schema.order:  # the row before has the greatest so far
            last = known[line].max().over(ibis.window(group_by=known[OWNER], order_by=known[PLACE], rows=(None, 0)))
        else:
            last = known[line].max().over(ibis.window(group_by=[known[OWNER], known[f"{line}_run"]]))
        least = schema.columns[name].ends[0]
        filled[line] = ibis.coalesce(last, exactly(least))
    return known.mutate(**filled).drop(*runs)


def _steps(line: Any, layout: HistoryLayout, name: str) -> Any:
    """Places on the line in steps of the column's precision, or as they are where it has none."""
    unit = layout.schema.columns[name].unit
    if unit is None:
        return clip(line, -LARGEST_POSITION, LARGEST_POSITION)
    # DEVIATES: in memory counts of steps are int64; here float64, which is exact up to 2**53.
    return half_even(clip(line, -numeric_scale.LARGEST * unit, numeric_scale.LARGEST * unit) / exactly(unit))


def _value(cells: ir.Column, reader: Reader, name: str, layout: HistoryLayout) -> Any:
    """Cells as reals, truths among them, in the steps that they are averaged in; null where they are missing."""
    column: Any = layout.schema.columns[name]
    if column.is_boolean:
        truth = reader.members(cells, name, column)
        return ibis.ifelse(truth < 2, truth, ibis.null("int32")).cast("float64")
    places, unit = reader.places(cells, name, column), layout.averaged_in(name)
    return places if unit == 1.0 else half_even(places / exactly(unit))
