"""Tables read into memory."""

from pathlib import Path

import pandas as pd

from synth.errors import TableError
from synth.schema import Schema
from synth.table.conforming import Outside, conform
from synth.table.limits import NO_MORE, SizeLimits
from synth.table.table import Table


def read_table(
    path: str | Path, schema: Schema | None = None, *, outside: Outside = "refuse", limits: SizeLimits = NO_MORE
) -> pd.DataFrame:
    """A table from a file, a folder or a pattern of files that are alike, or a database.

    Args:
        path: of .csv, .tsv, .jsonl (each also .gz; UTF-8, with names), .parquet, .feather or .xlsx; or an address like
            "postgresql://host/database#table".
        schema: gives a table in canonical form; without one, columns of text files are all text and others as they are
            typed.
        outside: what to do with values that do not fit the schema: "refuse" or "clamp".
        limits: how large the table may be; for one that is offered by others, `SizeLimits.beside` the training table.

    Raises:
        TableError: nothing is there, it is no table, is too large, or does not fit the schema; no cell value is told.
    """
    table = Table.of(path, limits=limits)
    rows = table.frame() if schema is None else conform(table, schema, outside=outside, part=outside == "clamp")
    if len(rows) == 0:
        raise TableError(f"a table needs at least one row: path={str(path)!r} has no rows; add some")
    return rows
