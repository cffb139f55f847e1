"""Tables read into memory, and written to files, whole or not at all."""

import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from synth.errors import TableError
from synth.output import whole_file
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.conforming import Outside, conform, matching, refuse, shown_column, texts, violation_of, written_cells
from synth.table.decode import UNREADABLE, faults_in
from synth.table.files import WRITTEN, check_suffix
from synth.table.table import Table
from synth.table.text_files import NO_MORE, SizeLimits

_OTHER_SEPARATOR = re.compile("[;\t|]")
_QUOTED = re.compile('[",\r\n\ufeff]')


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


def write_table(frame: pd.DataFrame, path: str | Path, schema: Schema) -> None:
    """Write a table to a .csv, .csv.gz or .parquet file, whole or not at all; an older file is replaced.

    Args:
        frame: canonical or as presented.
        path: where to; its suffix says how.
        schema: gives the text forms of a CSV and the types of a Parquet file.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
        TableError: the table lacks a column or holds values that its kind cannot express; nothing was written.
    """
    path = Path(path)
    suffix = check_suffix(path, WRITTEN)
    check_names(list(schema.written), path)
    chunk = matching(frame, schema, extra=True).chunk(schema, clamp=False)  # bounds and categories unchecked
    for name, bits in chunk.faults.items():
        refuse(violation_of(name, fault, schema) for fault in faults_in(bits) if fault in UNREADABLE)
    rows = chunk.frame(schema)
    with whole_file(path) as beside:
        if suffix == ".parquet":
            _write_parquet(rows, beside, schema)
        elif suffix == ".csv":
            beside.write_bytes(_csv(rows, schema))
        else:  # no name and no time in the header: the same rows give the same bytes
            with beside.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
                stream.write(_csv(rows, schema))


def check_names(names: Sequence[str], path: Path) -> None:
    """Refuse a file whose header could not be read back, before there are any rows to write."""
    if check_suffix(path, WRITTEN) == ".parquet":
        return
    longest = csv.field_size_limit()
    for name in names:
        if "\n" in name or "\r" in name or len(name) > longest:
            raise TableError(
                f"the name of a column of a CSV file holds no line break and at most {longest:,} characters: "
                f"column={name[:60]!r}; rename it, or write a .parquet file"
            )


def _csv(rows: pd.DataFrame, schema: Schema) -> bytes:
    missing = schema.missing_values[0] if schema.missing_values else ""
    names = [_quoted(name) for name in schema.written]
    if len(names) == 1 and _OTHER_SEPARATOR.search(names[0]) and names[0] == next(iter(schema.written)):
        names = [f'"{names[0]}"']  # else it would be taken for a header of several names
    columns = [_fields(written_cells(rows, name, schema), missing) for name in schema.written]
    if len(columns) == 1:  # an empty line would be no row
        columns = [[field or '""' for field in columns[0]]]
    lines = [",".join(names), *map(",".join, zip(*columns, strict=True)), ""]
    return "\n".join(lines).encode()


def _fields(values: Sequence[str | None], missing: str) -> list[str]:
    known = {text: _quoted(missing if text is None else text) for text in dict.fromkeys(values)}
    return [known[text] for text in values]


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if _QUOTED.search(field) else field


def _write_parquet(rows: pd.DataFrame, path: Path, schema: Schema) -> None:
    arrays = [
        _array(rows[name], name, schema.columns[name])
        if schema.columns[parts[0]].part is None
        else pa.array(written_cells(rows, name, schema), pa.string())
        for name, parts in schema.written.items()
    ]
    pa.parquet.write_table(pa.table(arrays, names=list(schema.written)), path)


def _array(series: pd.Series, name: str, column: Column) -> Any:
    if column.shows_texts or column.dtype == "str" or column.zone == "mixed":
        return pa.array(texts(series, column), type=pa.string())
    if column.is_date and (column.dtype or "object") in ("object", "category"):
        return pa.array(series.to_numpy().astype("datetime64[D]"), type=pa.date32())
    shown = series if column.dtype in (None, "object") and not column.is_span else shown_column(series, name, column)
    if isinstance(shown.dtype, pd.SparseDtype):  # which Arrow does not know
        shown = shown.astype(shown.dtype.subtype)
    kind = None
    if shown.dtype == object:  # which pandas leaves open: they may all be missing
        kind = pa.int64() if column.holds_whole_numbers else pa.bool_() if column.is_boolean else pa.string()
        if column.is_span:
            kind = pa.time64("us") if column.kind == "clock" else pa.duration("us")
    return pa.array(shown, type=kind, from_pandas=True)
