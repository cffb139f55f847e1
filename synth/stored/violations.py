"""How a stored table does not fit its schema, counted where it is: what `synth.table` finds in memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import pandas as pd

from synth.columns import Column, IdentifierColumn
from synth.errors import TableError
from synth.schema import Schema
from synth.stored.cell_faults import Looked, look
from synth.stored.reading import Reader
from synth.stored.table import StoredTable
from synth.table.conforming import Violation, of_names
from synth.table.faults import Fault, words
from synth.table.kinds import holds_whole_numbers

COLUMNS_A_SCAN = 16
"""Columns whose faults one scan counts."""


@dataclass(frozen=True)
class ColumnFaults:
    """What is wrong with one column.

    Attributes:
        counts: how many cells have each fault, in the order in which they are told; those that none has are left out.
        n_missing: cells that are missing, allowed or not.
    """

    counts: Mapping[Fault, int]
    n_missing: int


def violations_of(table: StoredTable, schema: Schema) -> list[Violation]:
    """All that does not fit, in the order and the words of `synth.table`; empty where the table conforms.

    The table may be a part of one that was checked as a whole: a column may be empty by chance.

    Args:
        table: *Sensitive*. Where it is stored.
        schema: what the columns should hold.

    Raises:
        TableError: nothing can be said of the type of a column; nothing was read.
    """
    names = [name for name in table.rows.columns if name != table.slot]
    found = list(of_names(pd.DataFrame(columns=pd.Index(names, dtype=object)), schema, extra=True))
    if found:
        return found
    declared = schema.status == "declared"
    return [
        Violation(name, *words(fault, schema.columns[name], declared=declared))
        for name, faults in counted_faults(table, schema).items()
        for fault in faults.counts
    ]


def refuse_violations(table: StoredTable, schema: Schema) -> None:
    """Refuse a table that does not fit, by the first violation.

    Raises:
        TableError: it does not fit.
    """
    for violation in violations_of(table, schema):
        raise TableError(str(violation))


def counted_faults(table: StoredTable, schema: Schema) -> dict[str, ColumnFaults]:
    """The faults of every kept column that the table has."""
    names = [name for name in schema.kept if name in table.rows.columns]
    found: dict[str, ColumnFaults] = {}
    for start in range(0, len(names), COLUMNS_A_SCAN):
        found |= _counted(table, schema, names[start : start + COLUMNS_A_SCAN])
    return found


def looked(table: StoredTable, schema: Schema) -> dict[str, Looked]:
    """Which cells have which fault, repeated identifiers among them."""
    reader = Reader.of(table.place.backend, schema)
    found = {}
    for name in schema.kept:
        seen = look(table.rows[name], name, schema.columns[name], reader)
        if is_key(name, schema):
            own = own_values(table.rows[name], schema.columns[name], reader)
            again = later(table, own)
            seen = Looked(seen.missing, {**seen.faults, Fault.REPEATED: again})
        found[name] = seen
    return found


def later(table: StoredTable, own: Any) -> ir.BooleanColumn:
    """Which rows repeat a value of an earlier one; where rows have no order, all but one of them, whichever it is.

    Args:
        table: *Sensitive*.
        own: values of its rows, null where there is none.
    """
    order = [] if table.slot is None else [table.rows[table.slot].length(), table.rows[table.slot]]
    place = ibis.row_number().over(group_by=own, order_by=order)
    return ~own.isnull() & (place > 0)  # noqa: PD003 (of Ibis)


def is_key(name: str, schema: Schema) -> bool:
    """Whether a column is an identifier that names rows, so that it may not repeat."""
    return isinstance(schema.columns[name], IdentifierColumn) and name != schema.entity


def own_values(cells: ir.Column, column: Column, reader: Reader) -> Any:
    """Cells of an identifier such that equal names are equal; null where there is none."""
    kind: Any = cells.type()
    if not holds_whole_numbers(column):
        return reader.present(cells) if kind.is_string() else cells
    return reader.wholes(cells, "") if kind.is_string() or kind.is_numeric() else ibis.null("int64")


def _counted(table: StoredTable, schema: Schema, names: list[str]) -> dict[str, ColumnFaults]:
    reader = Reader.of(table.place.backend, schema)
    seen = {name: look(table.rows[name], name, schema.columns[name], reader) for name in names}
    flags = dict(_named(seen))
    repeated = {name: f"r{place}" for place, name in enumerate(names) if is_key(name, schema)}
    own = {number: own_values(table.rows[name], schema.columns[name], reader) for name, number in repeated.items()}
    read = table.place.apart(
        table.rows.select(**{key: ibis.ifelse(flag, 1, 0) for key, (_, _, flag) in flags.items()}, **own)
    )
    asked = {key: read[key].sum().fill_null(0).cast("int64") for key in flags}
    asked |= {number: read[number].count() - read[number].nunique() for number in own}
    answer = table.place.fetch(read.agg(**asked))
    counts = {key: int(answer.column(key)[0].as_py()) for key in asked}
    found = {}
    for name in names:
        of_name = {
            fault: counts[key] for key, (whose, fault, _) in flags.items() if whose == name and fault is not None
        }
        if name in repeated:
            of_name[Fault.REPEATED] = counts[repeated[name]]
        n_missing = next(counts[key] for key, (whose, fault, _) in flags.items() if whose == name and fault is None)
        found[name] = ColumnFaults({fault: n for fault, n in of_name.items() if n}, n_missing)
    return found


def _named(seen: Mapping[str, Looked]) -> Iterator[tuple[str, tuple[str, Fault | None, Any]]]:
    """Every flag under a short key, with its column and fault; no fault: which cells are missing."""
    for place, (name, column) in enumerate(seen.items()):
        yield f"m{place}", (name, None, column.missing)
        for number, (fault, flag) in enumerate(column.faults.items()):
            yield f"f{place}_{number}", (name, fault, flag)
