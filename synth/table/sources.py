"""Parts of a table by where it comes from: each is opened where it is read and gives raw rows, as often as asked."""

import csv
import gzip
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from synth.table.cast import as_objects, as_one

ROWS = 1 << 18
"""Rows that are worked on at once."""


def _csv(path: str, delimiter: str = ",") -> Iterator[pa.RecordBatch]:
    """Every field as text; an empty one is missing. Ragged rows, open quotes and other encodings are refused."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        names = next(csv.reader(stream, delimiter=delimiter, strict=True))
    if len(set(names)) < len(names):
        raise ValueError("two columns have one name")
    kinds = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    given, batch = 0, None
    for size in (1 << 24, 1 << 30):  # larger blocks only where a field needs them; small ones make the cast costly
        try:
            at = 0
            with pa.input_stream(path, compression="gzip" if path.endswith(".gz") else None) as stream:
                for batch in pa.csv.open_csv(stream, pa.csv.ReadOptions(block_size=size), parse, kinds):
                    at += batch.num_rows
                    if at > given:
                        yield batch.slice(max(0, batch.num_rows - (at - given)))
                        given = at
            break
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                raise
    last = batch[-1][-1].as_py() if batch is not None and batch.num_rows else None
    if last is not None and last.endswith(("\n", "\r")):  # rare: then see whether the quote was closed at all
        with opened(path, "rb") as stream:
            tail = b""
            for block in iter(lambda: stream.read(1 << 20), b""):
                tail = (tail + block)[-64:]
        if not tail.rstrip(b"\r\n").endswith(b'"'):
            raise ValueError("the last quote is never closed")


def _parquet(path: str, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
    file = pa.parquet.ParquetFile(path)
    texts = [f.name for f in file.schema_arrow if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    yield from pa.parquet.ParquetFile(path, read_dictionary=texts).iter_batches(ROWS, row_groups=list(groups))


def _feather(path: str) -> Iterator[pa.RecordBatch]:

    yield from pa.dataset.dataset(path, format="feather").to_batches(batch_size=ROWS)


def _json_lines(path: str) -> Iterator[pa.RecordBatch]:
    """By DuckDB, whose cells are the text as it stands; pyarrow.json infers a type from a whole block."""
    import duckdb

    names = duckdb.sql("SELECT * FROM read_json(?, format='newline_delimited') LIMIT 0", params=[path]).columns
    kinds = dict.fromkeys(names, "VARCHAR")
    yield from duckdb.read_json(path, format="newline_delimited", columns=kinds).to_arrow_reader(ROWS)


def _excel(path: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Cells as Python objects: a sheet has no types of columns."""
    from python_calamine import CalamineWorkbook

    names, *rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
    yield {name: as_objects(r[i] for r in rows) for i, name in enumerate(names)}


def _database(address: str, name: str) -> Iterator[Any]:
    if not address.startswith("sqlite://"):
        import ibis

        yield from ibis.connect(address).table(name).to_pyarrow_batches(chunk_size=ROWS)
        return
    # SQLite types cells, not columns: Ibis and ADBC guess a column's type and fail on the first cell that differs.
    with sqlite3.connect(f"file:{address.removeprefix('sqlite://')}?mode=ro", uri=True) as base:
        quoted = name.replace('"', '""')
        cursor = base.execute(f'SELECT * FROM "{quoted}"')
        while rows := cursor.fetchmany(ROWS):
            yield {n[0]: as_objects(row[i] for row in rows) for i, n in enumerate(cursor.description)}


def _frame(frame: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    """pandas: columns of objects go cell by cell, since `__arrow_c_stream__` refuses mixed ones."""
    for start in range(0, len(frame), ROWS):
        rows = frame.iloc[start : start + ROWS]
        yield {n: _of_pandas(rows[n]) for n in frame.columns}


def _of_pandas(series: pd.Series) -> Any:
    if series.dtype == object and pd.api.types.infer_dtype(series, skipna=True) not in ("string", "empty"):
        return series.to_numpy()
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    return as_one(pa.array(series, from_pandas=True))


def _held(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(ROWS)


SUFFIXES: dict[str, Callable[..., Any]] = {
    ".csv": _csv, ".csv.gz": _csv, ".tsv": partial(_csv, delimiter="\t"), ".tsv.gz": partial(_csv, delimiter="\t"),
    ".jsonl": _json_lines, ".jsonl.gz": _json_lines, ".feather": _feather, ".arrow": _feather, ".xlsx": _excel,
}  # fmt: skip


def _parts_of(path: str) -> list[Any]:
    found = Path(path)
    if found.is_dir() or any(c in path for c in "*?["):
        files = (
            sorted(found.iterdir())
            if found.is_dir()
            else sorted(
                Path().glob(path)
                if not found.is_absolute()
                else Path(found.anchor).glob(str(found.relative_to(found.anchor)))
            )
        )
        return [part for file in files for part in _parts_of(str(file))]
    if path.endswith(".parquet"):
        n = pa.parquet.ParquetFile(path).num_row_groups
        return [partial(_parquet, path, [g]) for g in range(n)]
    suffix = next(s for s in sorted(SUFFIXES, key=len, reverse=True) if path.lower().endswith(s))
    return [partial(SUFFIXES[suffix], path)]
