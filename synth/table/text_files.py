"""CSV and JSON lines, strictly and as text: what a cell stands for is told by its column's kind.

Whoever offers a file may mean harm, or have erred by a zero: its size is limited, whatever its format.
"""

import codecs
import csv
import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from synth.errors import TableError
from synth.table.typed_cells import as_one
from synth.validation import is_plain

MAX_BYTES = 8 << 30  # of any table that is held in memory, uncompressed
MAX_ROWS = 1 << 31
MAX_COLUMNS = 20_000

TIMES = 20  # the factor by which a table may need more than the training table beside it
LEAST_BYTES, LEAST_ROWS, LEAST_COLUMNS = 64 << 20, 1_000_000, 2_000
"""The allowance of a table, however small the training table is."""


@dataclass(frozen=True)
class SizeLimits:
    n_bytes: int = MAX_BYTES
    n_rows: int = MAX_ROWS
    n_columns: int = MAX_COLUMNS

    @classmethod
    def beside(cls, train: pd.DataFrame, n_rows: int | None = None) -> Self:
        """For a table that claims to be like this one: `TIMES` what it needs, and no less than the least.
        `n_rows`: the rows of the table that `train` is a sample of; `None`: it is whole.
        """
        n_rows = len(train) if n_rows is None else n_rows
        n_bytes = TIMES * int(train.memory_usage(index=False, deep=True).sum() * n_rows / max(len(train), 1))
        return cls(
            min(MAX_BYTES, max(LEAST_BYTES, n_bytes)),
            min(MAX_ROWS, max(LEAST_ROWS, TIMES * n_rows)),
            min(MAX_COLUMNS, max(LEAST_COLUMNS, TIMES * train.shape[1])),
        )

    def refuse_over(self, what: str, n: int, shown: str) -> None:
        limit = {"bytes": self.n_bytes, "rows": self.n_rows, "columns": self.n_columns}[what]
        if n <= limit:
            return
        unit = "bytes once it is uncompressed" if what == "bytes" else what
        remedy = "leave out columns that the schema does not name" if what == "columns" else "offer fewer rows"
        raise TableError(f"a table may have {limit:,} {unit} here: {shown} has more; {remedy}")


NO_MORE = SizeLimits()  # for a table whose owner is trusted, and that is held in memory
IN_PARTS = SizeLimits(n_bytes=1 << 62, n_rows=1 << 62)  # for one that is read some rows at a time


@contextmanager
def opened(path: Path, limits: SizeLimits) -> Iterator[BufferedReader]:
    """A file that is one, open for reading from its start, which did not change until the block ended."""
    shown = f"path={str(path)!r}"
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer is not waited for
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        os.close(handle)
        raise TableError(f"a table must be a file on a disk: {shown} is a pipe or a device; save it as a file")
    with os.fdopen(handle, "rb") as file:
        limits.refuse_over("bytes", before.st_size, shown)
        yield file
        after = os.fstat(handle)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise TableError(f"a table must stay as it is while it is read: {shown} changed; wait until it is written")


ROWS = 1 << 18  # rows that are worked on at once
HEADER_BYTES = 16 << 20  # of a first line
_BLOCK, _LONGEST_ROW = 16 << 20, 1 << 30
"""Bytes that are parsed at once, and those of a row; small blocks make the cast costly."""
_ONE_QUOTED = re.compile('"([^"]|"")*"')
_LINE_END = re.compile(rb"\r\n|\r|\n")

Batch = tuple[Mapping[str, Any], int]
"""Raw rows: Arrow arrays, or objects as NumPy arrays, by name; and how many rows they are."""


def in_batches(reader: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """The rows of record batches, at most `ROWS` at once."""
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS):
            rows = batch.slice(start, ROWS)
            yield dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows


class TextStream:
    """The bytes of a text file, looked through and counted as they are read; they end in a line break."""

    def __init__(self, stream: Any, shown: str, limits: SizeLimits) -> None:
        self.shown = shown
        self._stream, self._limits = stream, limits
        self._ahead, self._n, self._tail = b"", 0, b""
        while (start := self._take(len(codecs.BOM_UTF8))) == codecs.BOM_UTF8:
            pass
        self._ahead = start

    def read(self, n: int) -> bytes:
        block = self._take(n)
        if b"\0" in block:
            raise _not_utf8(self.shown)
        if not block and self._tail not in (b"\n", b"\r", b""):
            block = b"\n"
        self._tail = block[-1:]
        return block

    def read_line(self) -> bytes:
        block = b""
        while more := self.read(1 << 16):
            block += more
            end = _LINE_END.search(block)
            if end and end.end() < len(block):  # else a line feed may follow
                break
            if len(block) > HEADER_BYTES:
                raise _no_header(self.shown)
        end = _LINE_END.search(block)
        line, self._ahead = (block[: end.start()], block[end.end() :] + self._ahead) if end else (block, b"")
        if not line.strip():
            self._ahead = self._ahead or self._take(1 << 20)
            if not self._ahead.strip():
                raise TableError(f"a table needs a header row: {self.shown} is empty; add one")
        return line

    def _take(self, n: int) -> bytes:
        if self._ahead:
            block, self._ahead = self._ahead[:n], self._ahead[n:]
            return block
        try:
            block = self._stream.read(n)
        except EOFError:
            raise TableError(f"the gzip file at {self.shown} is cut short; copy it again") from None
        except (gzip.BadGzipFile, zlib.error):
            raise TableError(f"a .gz file must be gzip-compressed: {self.shown} is not; rename or copy it") from None
        self._n += len(block)
        self._limits.refuse_over("bytes", self._n, self.shown)
        return bytes(block)


@contextmanager
def open_text(path: Path, limits: SizeLimits) -> Iterator[TextStream]:
    """A text file, or one that is compressed by gzip, from its start."""
    with opened(path, limits) as file:
        stream: Any = gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file
        yield TextStream(stream, f"path={str(path)!r}", limits)


def csv_names(path: Path, limits: SizeLimits, delimiter: str = ",") -> list[str]:
    with open_text(path, limits) as stream:
        names = _parse_header(stream.read_line(), stream.shown, delimiter)
    limits.refuse_over("columns", len(names), f"path={str(path)!r}")
    return names


def _parse_header(line: bytes, shown: str, delimiter: str) -> list[str]:
    """The fields of a first line; were it blank, or a quote left open in it, names would be made of rows."""
    try:
        text = line.decode()
        names = next(csv.reader([f"{text}\n"], delimiter=delimiter))
    except UnicodeDecodeError:
        raise _not_utf8(shown) from None
    except (csv.Error, StopIteration):
        raise _no_header(shown) from None
    if not names:
        raise TableError(
            f"the first line of a CSV file is its header: {shown} begins with a blank one; remove it, or write the "
            "names of the columns there"
        )
    if any(mark in name for name in names for mark in "\n\r"):
        raise TableError(
            f"every quote in the header of a CSV file must be closed in its line: {shown} has one that is not; close "
            "it, and take line breaks out of the names of columns"
        )
    if len(names) == 1 and {*text} & {*";\t|,"} - {delimiter} and not _ONE_QUOTED.fullmatch(text):
        raise TableError(f"a CSV file separates fields by commas: {shown} has one column only; convert its separators")
    return names


def _no_header(shown: str) -> TableError:
    return TableError(f"a CSV file needs a header row of names: {shown} has none that can be read; add one")


def _not_utf8(shown: str) -> TableError:
    return TableError(
        f"a table in a text file is UTF-8: {shown} is in another encoding, compressed, or no text; save it as UTF-8"
    )


def read_csv(path: Path, names: Sequence[str], limits: SizeLimits, delimiter: str = ",") -> Iterator[Batch]:
    """The rows, every field as text; an empty one is missing."""
    n_rows = 0
    with open_text(path, limits) as stream:
        stream.read_line()
        for rows in _whole_rows(stream, delimiter, min(_BLOCK, limits.n_bytes)):
            batch = _parse_csv(rows, len(names), stream.shown, delimiter)
            n_rows += batch.num_rows
            limits.refuse_over("rows", n_rows, stream.shown)
            if batch.num_rows:
                yield dict(zip(names, map(as_one, batch.columns), strict=True)), batch.num_rows


def _whole_rows(stream: TextStream, delimiter: str, size: int) -> Iterator[bytes]:
    """Bytes of whole rows, some at a time: all at once where only the parser can tell where rows end.

    Arrow's own reader of blocks loses a line feed of a field where a block ends between it and its carriage return.
    """
    rest, is_regular = b"", True
    while block := stream.read(size):
        rest += block
        if len(rest) > _LONGEST_ROW:
            raise TableError(
                f"a row of a CSV file has at most {_LONGEST_ROW:,} bytes: {stream.shown} has a longer one; close its "
                "quotes, or write a .parquet file"
            )
        end = _row_end(rest, delimiter) if is_regular else None
        is_regular = end is not None
        if end:
            yield rest[:end]
            rest = rest[end:]
    if is_regular and rest.count(b'"') % 2:
        raise _open_quote(stream.shown)
    if rest:
        yield rest


def _row_end(block: bytes, delimiter: str) -> int | None:
    r"""The end of the last whole row; 0 where there is none, `None` where a quote stands within a field.

    >>> _row_end(b'a,"b"\n"c', ","), _row_end(b'"a\n', ","), _row_end(b'5" pipe\n', ",")
    (6, 0, None)
    """
    quotes = np.flatnonzero(np.frombuffer(block, np.uint8) == ord('"'))
    end = max(block.rfind(b"\n"), block.rfind(b"\r"))
    if len(quotes):
        around = np.frombuffer(b"\n" + block + b"\n", np.uint8)
        ends = np.frombuffer(b"\n\r" + delimiter.encode(), np.uint8)
        doubled = np.append(quotes[2::2] == quotes[1:-1:2] + 1, False)  # a quote within quotes is written twice
        opens = np.isin(around[quotes[::2]], ends) | np.append(False, doubled)[: len(quotes[::2])]
        closes = np.isin(around[quotes[1::2] + 2], ends) | doubled[: len(quotes[1::2])]
        if not (opens.all() and closes.all()):
            return None
    while end >= 0 and (n_before := int(np.searchsorted(quotes, end))) % 2:  # within quotes: on to where they begin
        start = int(quotes[n_before - 1])
        end = max(block.rfind(b"\n", 0, start), block.rfind(b"\r", 0, start))
    return end + 1


def _parse_csv(rows: bytes, n_columns: int, shown: str, delimiter: str) -> pa.Table:
    """Rows as columns of text, named by their numbers."""
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row.number)
        return "error"

    names = [str(index) for index in range(n_columns)]
    # Arrow's threads would still be starting where a small table is refused, and abort the process as it ends.
    how = pa.csv.ReadOptions(column_names=names, block_size=len(rows) + 1, use_threads=False)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note)
    kinds = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    if not rows.strip(b"\r\n"):
        return pa.table({name: pa.nulls(0, pa.string()) for name in names})
    try:
        table = pa.csv.read_csv(pa.BufferReader(rows), how, parse, kinds)
    except pa.ArrowInvalid as error:
        if ragged:
            raise TableError(
                f"every row of a CSV file needs as many fields as its header: {shown} has one with more or fewer; "
                "quote fields that hold commas, and complete short rows"
            ) from None
        if "UTF8" in str(error):
            raise _not_utf8(shown) from None
        raise TableError(
            f"a CSV file must have rows of comma-separated fields: {shown} has not; export it anew"
        ) from None
    last = table.column(n_columns - 1)[-1].as_py() if table.num_rows else None
    # A field holds the last line break only if it is open, or was closed right after one of its own.
    if last is not None and last.endswith(("\n", "\r")) and not rows.rstrip(b"\r\n").endswith((b'\n"', b'\r"')):
        raise _open_quote(shown)
    return table


def _open_quote(shown: str) -> TableError:
    return TableError(f"every quote in a CSV file must be closed: {shown} ends inside one; close it")


def json_names(path: Path, limits: SizeLimits) -> list[str]:
    """The names in the first line, which has them all."""
    with open_text(path, limits) as stream:
        for row in _json_rows(stream):
            limits.refuse_over("columns", len(row), stream.shown)
            return list(row)
    raise TableError(f"a table needs at least one row: path={str(path)!r} has no rows; add some")


def read_json_lines(path: Path, names: Sequence[str], limits: SizeLimits) -> Iterator[Batch]:
    """The rows, every value as its text; one that a line leaves out is missing."""
    n_rows, known = 0, set(names)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    with open_text(path, limits) as stream:
        for row in _json_rows(stream):
            if not row.keys() <= known:
                raise TableError(
                    "the first line of a JSON lines file names all columns: "
                    f"{stream.shown} has a line with another; write null in the first line for what it lacks"
                )
            for name, cells in columns.items():
                cells.append(row.get(name))
            n_rows += 1
            limits.refuse_over("rows", n_rows, stream.shown)
            if n_rows % ROWS == 0:
                yield {name: pa.array(cells, pa.string()) for name, cells in columns.items()}, ROWS
                columns = {name: [] for name in names}
    if n_rows % ROWS:
        yield {name: pa.array(cells, pa.string()) for name, cells in columns.items()}, n_rows % ROWS


def _json_rows(stream: TextStream) -> Iterator[dict[str, str | None]]:
    decoder = json.JSONDecoder(object_pairs_hook=_one_of_each, parse_int=str, parse_float=str, parse_constant=str)
    try:
        for line in _lines(stream):
            row = decoder.decode(line)
            if not isinstance(row, dict):
                raise _NoRow("has a line that is no object")
            yield {name: _json_text(value) for name, value in row.items()}
        return
    except (json.JSONDecodeError, RecursionError):
        reason = "has a line that is none"
    except _NoRow as error:
        reason = str(error)
    except UnicodeDecodeError:
        raise _not_utf8(stream.shown) from None
    raise TableError(
        "every line of a JSON lines file is an object of names and plain values: "
        f"{stream.shown} {reason}; export it anew"
    )


def _lines(stream: TextStream) -> Iterator[str]:
    rest = b""
    while block := stream.read(1 << 20):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > HEADER_BYTES:
            raise TableError(f"a line of a JSON lines file has at most {HEADER_BYTES:,} bytes: {stream.shown} has a "
                             "longer one; export it anew")  # fmt: skip
        yield from (line.decode() for line in lines if line.strip())
    if rest.strip():
        yield rest.decode()


class _NoRow(Exception):
    """A line is no row, in words that quote nothing of it."""


def _one_of_each(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    row = dict(pairs)
    if len(row) < len(pairs):
        raise _NoRow("has a line that names a column twice")
    return row


def _json_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        if value is not None and not is_plain(value):
            raise _NoRow("has a text with a NUL character or half a surrogate pair")
        return value
    if isinstance(value, bool):
        return str(value)
    raise _NoRow("has a line with a value that is itself a list or an object")
