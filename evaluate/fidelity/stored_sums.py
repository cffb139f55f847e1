"""Counts and sums by a few columns at a time, worked out where the rows are stored."""

from collections.abc import Iterator, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from synth.stored.connection import N_ROWS, Place
from synth.stored.errors import told

SMALL_ROWS = 1_000_000
"""Rows of a sample that are written down on a server at most."""


@ibis.udf.scalar.builtin(name="has_database_privilege")  # type: ignore[untyped-decorator]
def _has_database_privilege(database: str, privilege: str) -> bool:  # type: ignore[empty-body]
    """Whether the user has it there."""


@ibis.udf.scalar.builtin(name="current_setting")  # type: ignore[untyped-decorator]
def _current_setting(setting: str) -> str:  # type: ignore[empty-body]
    """Of the session."""


def kept(place: Place, rows: ir.Table, n_rows: int) -> ir.Table:
    """Rows that are read many times: written down as `Place.written` does; a sample also on PostgreSQL.

    There it is a temporary table, which only this session sees and which ends with it, where the user may have one:
    drawing a sample reads the whole table. Elsewhere the rows are drawn again in each scan.

    Args:
        place: where they are.
        rows: *Sensitive*. Few columns of numbers.
        n_rows: how many there are.
    """
    if place.backend != "postgres" or n_rows > SMALL_ROWS:
        return place.written(place.apart(rows))
    database = ibis.literal(place.connection.current_catalog)
    may = _has_database_privilege(database, "TEMP") & (_current_setting("transaction_read_only") == "off")
    if not place.fetch(may.name("may").as_table()).column(0)[0].as_py():
        return place.apart(rows)
    with told(place.shown):
        return place.connection.create_table(ibis.util.gen_name("understudy"), rows, temp=True)


def grouped(
    place: Place, rows: ir.Table, sets: Sequence[Sequence[str]], sums: Sequence[str] = (), *, sets_a_scan: int = 64
) -> Iterator[pa.Table]:
    """How many rows have each combination of values of a few columns, and sums of others over these rows.

    Args:
        place: where the rows are.
        rows: *Sensitive*. Numbers; those that are summed are never null. Rows with a null in a column that they are
            counted by are left out.
        sets: columns that they are counted by together, no set twice.
        sums: columns that are summed.
        sets_a_scan: how many sets are counted in one scan at most, where scans are dear.

    Yields:
        For each set its columns, `n_rows` and the sums, in this order.
    """
    if place.backend == "duckdb":
        for by in sets:
            present = rows.filter([rows[name].notnull() for name in by])
            summed = {f"sum_{name}": present[name].sum() for name in sums}
            yield place.fetch(present.group_by(list(by)).agg(**{N_ROWS: present.count()}, **summed))
        return
    for start in range(0, len(sets), sets_a_scan):
        yield from place.in_one_scan(rows, sets[start : start + sets_a_scan], sums)


def one_row(place: Place, rows: ir.Table, asked: dict[str, Any], most: int = 400) -> dict[str, Any]:
    """A few numbers about all rows, by name: so many in one scan at most."""
    names, found = list(asked), {}
    for start in range(0, len(names), most):
        some = {name: asked[name] for name in names[start : start + most]}
        found.update(place.fetch(rows.aggregate(**some)).to_pylist()[0])
    return found
