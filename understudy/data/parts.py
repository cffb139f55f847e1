"""A synthetic table that is a folder of parts, each a table of the same columns."""

from collections.abc import Sequence
from pathlib import Path

from synth.schema import Schema
from synth.table import conform, read_table, write_table


def parts_of(table: Path) -> Sequence[Path]:
    """The files of a table: itself, or those of a folder in their order.

    Raises:
        TableError: the folder holds none, or files of several kinds.
    """
    if not table.is_dir():
        return (table,)
    from synth.stored.address import parsed

    return parsed(str(table)).files


def rewrite(source: Path, to: Path, schema: Schema) -> None:
    """A synthetic table written anew as every measure had it: by the schema, in the same parts.

    Args:
        source: a file, or a folder of parts.
        to: of the same kind; is not there.
        schema: names the columns that are written.

    Raises:
        TableError: the table lacks a column of the schema.
        OutputError: it cannot be written.
    """
    for part in parts_of(source):
        place = to / part.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_table(conform(read_table(part), schema, outside="clamp", part=True), place, schema)
