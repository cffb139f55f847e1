"""Rows of tables: of a real one under its schema, of a synthetic one in parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from evaluate.text import percent
from synth.errors import TableError
from synth.schema import Schema
from synth.table import conform, read_table, write_table
from synth.table.conforming import Outside, of_names, refuse, shares_clamped, violations_of
from synth.table.files import list_files
from synth.table.rows import Rows
from synth.table.table import Table
from synth.table.text_files import Batch
from synth.table.translating import translate
from understudy.data.source import RealTable


def read_rows(
    table: RealTable,
    schema: Schema,
    outside: Outside,
    folder: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Rows:
    """The real rows, read once; what memory does not hold lies in a nameless file. `tell` hears of clamped cells."""
    rows = Rows.of(table.address, schema, outside=outside, folder=folder)
    if outside == "refuse":
        refuse(violations_of(rows.chunks(), schema))
    if len(rows) == 0:
        raise TableError(f"a table needs at least one row: {table.shown!r} has no rows; add some")
    if tell is not None and outside == "clamp" and (shares := shares_clamped(rows.chunks())):
        tell(clamped(shares))
    return rows


def read_side(name: str, table: RealTable, schema: Schema, outside: Outside) -> Rows:
    """Some real rows: train or the holdout, which may lack or have by chance what the whole table does not."""
    try:
        return Rows.of(table.address, schema, outside=outside, other=True)
    except TableError as error:
        raise type(error)(f"{name}: {error}") from None


MOST_ROWS = 1_000_000
"""Rows from which a schema is inferred at most."""


def first_rows(table: RealTable) -> tuple[pd.DataFrame, bool]:
    """The rows to infer a schema from, `MOST_ROWS` at most, as they came, and whether they are all. *Sensitive*."""
    source, batches, n_rows = Table.of(table.address), list[Batch](), 0
    for batch in (batch for part in source.parts for batch in part()):
        batches.append(batch)
        n_rows += batch[1]
        if n_rows > MOST_ROWS:
            break
    frame = replace(source, parts=(lambda: iter(batches),)).frame()
    return frame.head(MOST_ROWS), n_rows <= MOST_ROWS


MAX_NAMED = 5
"""Columns that a sentence names."""


def clamped(shares: Mapping[str, float]) -> str:
    """A warning that cells were clamped, without a final stop. *Sensitive*: it is counted on real rows."""
    ranked = sorted(shares, key=lambda name: -shares[name])
    shown = [f"{name!r} {percent(shares[name])}" for name in ranked[:MAX_NAMED]]
    n_more = len(ranked) - len(shown)
    more = f", and {n_more} more column{'' if n_more == 1 else 's'}" if n_more else ""
    return (
        f"values outside the schema were clamped, or became missing where they cannot be read: {', '.join(shown)} of "
        f"cells{more}, counted on the real rows outside any guarantee; every number but the share of valid rows is "
        "about the table as clamped; check the bounds and categories in the schema"
    )


def check_columns(table: RealTable, schema: Schema, *, extra: bool = True) -> None:
    """Refuse a table whose column names are not those of the schema; neither a row nor their number is read."""
    refuse(of_names(Table.of(table.address).names, schema, extra=extra))


def parts_of(table: Path) -> Sequence[Path]:
    """The files of a table: itself, or those of a folder in their order."""
    return list_files(table) if table.is_dir() else (table,)


def rewrite(source: Path, to: Path, schema: Schema) -> None:
    """A synthetic table written anew as every measure had it: by the schema, in the same parts."""
    for part in parts_of(source):
        path = to / part.relative_to(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, _ = translate(read_table(part), schema)
        write_table(conform(rows, schema, outside="clamp", part=True), path, schema)
