"""Tables read from files: CSV strictly and as text, Parquet as typed.

A Parquet file may claim any number of rows, and a dictionary or a run length makes a few bytes stand for any amount of
text. So its own figures are looked at first, and texts are read as codes of a dictionary. They are written out only
once their lengths are summed.

The names of a table's columns can also be read off its head alone: no row, and not how many there are.
"""

import codecs
import csv
import gzip
import io
import json
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from synth.errors import TableError, TableNote
from synth.schema import Schema
from synth.table.cells import as_frame_column, from_arrow
from synth.table.conforming import Outside, conform, names_at_fault, readable
from synth.table.limits import HEADER_BYTES, NO_MORE, SizeLimits, content_of, opened

THRIFT_STRING_BYTES, THRIFT_ITEMS = 16 << 20, 4_000_000
"""Bytes of a text and entries of a list in a file's description of itself."""


def arrow_table(content: bytes, limits: SizeLimits, place: str) -> Any:
    """The table in a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = _parquet_file(content, ())
        _refuse_large(file.metadata, limits, place)
        kinds = file.schema_arrow
        _refuse_nested(kinds, place)
        names, delta = list(kinds.names), _delta_encoded(file.metadata)
        texts = [names[i] for i, kind in enumerate(kinds.types) if _is_text(kind) and i not in delta]
        # Of two columns of one name, neither may be read as codes: the caller refuses them by name.
        file = _parquet_file(content, texts if len(set(names)) == len(names) else ())
        for name in {names[i] for i in delta}:
            _refuse_expanding(file, name, limits, place)
        table = file.read(use_threads=False)
    except pa.ArrowNotImplementedError:
        raise TableError(
            f"a Parquet file must be of encodings that pyarrow reads: {place} has another; write it anew with pyarrow"
        ) from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
        raise TableError(
            f"a Parquet file must be whole: {place} is cut short or of another format; copy it again"
        ) from None
    limits.refuse_over("bytes", sum(_written_out(table.column(i)) for i in range(table.num_columns)), place)
    columns = [_as_given(table.column(i), kinds.types[i]) for i in range(table.num_columns)]
    return pa.Table.from_arrays(columns, schema=kinds) if columns else table


def _parquet_file(content: bytes, as_codes: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    return pa.parquet.ParquetFile(
        pa.BufferReader(content), read_dictionary=list(as_codes), thrift_string_size_limit=THRIFT_STRING_BYTES,
        thrift_container_size_limit=THRIFT_ITEMS,
    )  # fmt: skip


_DELTA_ROWS = 1_024
"""Rows that are decoded at once: Arrow gives up where their texts have over 2 GB."""


def _delta_encoded(metadata: Any) -> frozenset[int]:
    """The columns with texts that are told by how they differ from the one before; Arrow reads no codes of these."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    return frozenset(
        i for group in groups for i in range(metadata.num_columns)
        if {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"} & set(group.column(i).encodings)
    )  # fmt: skip


def _refuse_expanding(file: Any, name: str, limits: SizeLimits, place: str) -> None:
    """Refuse a column whose few bytes stand for too much text, before it is held as a whole."""
    total = 0
    for batch in file.iter_batches(batch_size=_DELTA_ROWS, columns=[name], use_threads=False):
        total += batch.nbytes
        limits.refuse_over("bytes", total, place)


def _refuse_large(said: Any, limits: SizeLimits, place: str) -> None:
    """By what the file says of itself: rows, columns, and bytes before its codes are written out."""
    groups = [said.row_group(i) for i in range(said.num_row_groups)]
    limits.refuse_over("columns", said.num_columns, place)
    limits.refuse_over("rows", max(said.num_rows, sum(group.num_rows for group in groups)), place)
    limits.refuse_over("bytes", sum(group.total_byte_size for group in groups), place)


def _refuse_nested(kinds: Any, place: str) -> None:
    import pyarrow as pa

    for name, kind in zip(kinds.names, kinds.types, strict=True):
        if pa.types.is_nested(kind):
            raise TableError(
                f"a column must hold plain values: column={name!r} of {place} is nested; flatten or remove it"
            )


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return kind in kinds


def _written_out(column: Any) -> int:
    """Bytes that a column takes once its codes are values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        values = chunk.dictionary
        if not _is_text(values.type):
            total += len(chunk) * 8
            continue
        lengths = pc.binary_length(values).cast(pa.int64()).take(chunk.indices)
        total += int(pc.sum(lengths).as_py() or 0) + 8 * len(chunk)
    return total


def _as_given(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


SUFFIXES = (".csv", ".csv.gz", ".parquet")
_MARKS = {
    b"\x1f\x8b": "gzip", b"PAR1": "Parquet", b"PK\x03\x04": "zip (a spreadsheet, perhaps)",
    b"\xd0\xcf\x11\xe0": "old spreadsheet", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard", b"%PDF": "PDF",
    b"SQLite format 3": "SQLite",
}  # fmt: skip
"""First bytes of other files than CSV."""
OTHER_SEPARATOR = re.compile("[;\t|]")
"""In a header of one field, the mark of a file whose fields are separated by something else than commas."""
_NUMBERED = re.compile("__index_level_[0-9]+__")
_ONE_QUOTED = re.compile('"([^"]|"")*"')


def read_table(
    path: str | Path, schema: Schema | None = None, *, outside: Outside = "refuse", limits: SizeLimits = NO_MORE
) -> pd.DataFrame:
    """A table from a file.

    Args:
        path: a .csv, .csv.gz (UTF-8, comma, header row) or .parquet file.
        schema: gives a table in canonical form; without one a CSV's columns are all text and a Parquet file's as
            they are typed.
        outside: what to do with values that do not fit the schema: "refuse" or "clamp".
        limits: how large the table may be; for one that is offered by others, `SizeLimits.beside` the training table.

    Raises:
        TableError: the file is not there, is not a table, is too large, or does not fit the schema; no cell value is
            told.
    """
    path = Path(path)
    suffix = check_place(path)
    try:
        frame = _parquet(path, limits) if suffix == ".parquet" else _csv(path, suffix, limits)
    except IsADirectoryError:
        raise TableError(f"a table must be a file: path={str(path)!r} is a folder; name a file in it") from None
    except FileNotFoundError:
        raise no_table(path) from None
    except PermissionError:
        raise TableError(f"the table at path={str(path)!r} may not be read; change its permissions") from None
    except OSError:
        raise TableError(f"the table at path={str(path)!r} cannot be read; check the name and the disk") from None
    for violation in names_at_fault(frame):
        raise TableError(f"{violation} (path={str(path)!r})")
    if frame.shape[1] == 0:
        raise TableError(f"a table needs at least one column: path={str(path)!r} has no columns; export it anew")
    if len(frame) == 0:
        raise TableError(f"a table needs at least one row: path={str(path)!r} has no rows; add some")
    return frame if schema is None else conform(frame, schema, outside=outside)


def check_place(path: Path) -> str:
    """The suffix that says how to read a table."""
    suffix = check_suffix(path)
    if "\0" in str(path):
        raise TableError(f"a path holds no NUL character: path={str(path)!r} does; check the name")
    return suffix


def check_suffix(path: Path) -> str:
    """The suffix that says how to read or write a table."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return suffix
    raise TableError(f"a table must be a file of {', '.join(SUFFIXES)}: path={str(path)!r} is none; convert it")


def _csv(path: Path, suffix: str, limits: SizeLimits) -> pd.DataFrame:
    content = _bytes(path, suffix, limits)
    place = f"path={str(path)!r}"
    _refuse_other(content, suffix, place)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        raise _holds_nul(place)
    while content.startswith(codecs.BOM_UTF8):
        content = content.removeprefix(codecs.BOM_UTF8)
    if not content.endswith((b"\n", b"\r")):
        content += b"\n"
    if not content.strip():
        raise TableError(f"a CSV file needs a header row: {place} is empty; add one")
    header = _header(content, place)
    limits.refuse_over("columns", len(header), place)
    table = _parsed(content, len(header), place)
    limits.refuse_over("rows", table.num_rows - 1, place)
    names = [table.column(i)[0].as_py() or "" for i in range(table.num_columns)]
    _refuse_line_breaks(names, place)
    named = _with_names(names)
    if named != names:
        shown = ", ".join(repr(new) for new, old in zip(named, names, strict=True) if not old)
        note = f"the first column of {place} has no name, as row names have none; it is read as {shown}"
        warnings.warn(TableNote(note), stacklevel=2)
    columns = [from_arrow(table.column(i).slice(1)) for i in range(table.num_columns)]
    frame = pd.DataFrame(dict(enumerate(columns)))
    frame.columns = pd.Index(named, dtype=object)
    return frame


def _with_names(names: list[str]) -> list[str]:
    """The names with those of leading columns that have none, such as row names of pandas and R, as pandas calls them.

    >>> _with_names(["", "a", ""])
    ['Unnamed: 0', 'a', '']
    """
    n_unnamed = next((i for i, name in enumerate(names) if name), 0)
    return [f"Unnamed: {i}" if i < n_unnamed else name for i, name in enumerate(names)]


def _bytes(path: Path, suffix: str, limits: SizeLimits) -> bytes:
    place = f"path={str(path)!r}"
    with opened(path, limits) as file:
        if suffix != ".csv.gz":
            return content_of(file, limits, place)
        try:
            with gzip.GzipFile(fileobj=file) as stream:
                return content_of(stream, limits, place)
        except EOFError:
            raise TableError(f"the gzip file at {place} is cut short; copy it again") from None
        except (gzip.BadGzipFile, zlib.error):
            raise TableError(f"a .gz file must be gzip-compressed: {place} is not; rename or copy it") from None


def _refuse_other(content: bytes, suffix: str, place: str) -> None:
    """Refuse a file of another format that was named like a CSV file, or was compressed twice."""
    for mark, kind in _MARKS.items():
        if content.startswith(mark):
            held = "once it is uncompressed" if suffix == ".csv.gz" else "whatever its name says"
            raise TableError(f"a CSV file must be text: {place} is a {kind} file {held}; convert it")


def _header(content: bytes, place: str) -> list[str]:
    """The fields of the first row."""
    if content.find(b"\n", 0, HEADER_BYTES) < 0 and content.find(b"\r", 0, HEADER_BYTES) < 0:
        raise no_header(place)
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")
    try:
        return header_names(stream, place)
    except UnicodeDecodeError:
        raise not_utf8(place) from None
    except (csv.Error, StopIteration):
        raise no_header(place) from None


def header_names(lines: Iterable[str], place: str) -> list[str]:
    """The fields of the first line; were it blank, or a quote left open in it, names would be made of rows."""
    line = next(iter(lines))
    if "\0" in line:
        raise _holds_nul(place)
    names = next(csv.reader([line if line.endswith(("\n", "\r")) else f"{line}\n"]))
    if not names:
        raise TableError(
            f"the first line of a CSV file is its header: {place} begins with a blank one; remove it, or write the "
            "names of the columns there"
        )
    _refuse_line_breaks(names, place)
    if len(names) == 1 and OTHER_SEPARATOR.search(line) and not _ONE_QUOTED.fullmatch(line.rstrip("\r\n")):
        raise TableError(f"a CSV file separates fields by commas: {place} has one column only; convert its separators")
    return names


def _refuse_line_breaks(names: Iterable[str], place: str) -> None:
    if any(mark in name for name in names for mark in "\n\r"):
        raise TableError(
            f"every quote in the header of a CSV file must be closed in its line: {place} has one that is not; close "
            "it, and take line breaks out of the names of columns"
        )


def _holds_nul(place: str) -> TableError:
    return TableError(f"a CSV file must be UTF-8 text: {place} holds NUL bytes; save it as UTF-8")


def no_table(path: Path) -> TableError:
    """There is no file."""
    return TableError(f"there is no table at path={str(path)!r}; check the name")


def not_utf8(place: str) -> TableError:
    """A CSV file is in another encoding."""
    return TableError(f"a CSV file must be UTF-8 text: {place} is in another encoding; save it as UTF-8")


def no_header(place: str) -> TableError:
    """A CSV file's first row is none of names."""
    return TableError(f"a CSV file needs a header row of names: {place} has none that can be read; add one")


def _parsed(content: bytes, n_columns: int, place: str) -> Any:
    """All rows, the header's among them, as text columns."""
    import pyarrow as pa
    import pyarrow.csv

    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row.number)
        return "error"

    names = [str(index) for index in range(n_columns)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(content),
            # Arrow's threads would still be starting where a small table is refused, and abort the process as it ends.
            read_options=pa.csv.ReadOptions(
                column_names=names, block_size=max(1 << 24, min(len(content), 1 << 30)), use_threads=False
            ),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowInvalid as error:
        if ragged:
            raise TableError(f"every row of a CSV file needs as many fields as its header: {place} has one with more "
                             "or fewer; quote fields that hold commas, and complete short rows") from None  # fmt: skip
        if "UTF8" in str(error):
            raise not_utf8(place) from None
        raise TableError(
            f"a CSV file must have rows of comma-separated fields: {place} has not; export it anew"
        ) from None
    _refuse_open_quote(table, content, place)
    return table


def _refuse_open_quote(table: Any, content: bytes, place: str) -> None:
    """Refuse a file whose last field runs to the end because its quote is never closed."""
    last = table.column(table.num_columns - 1)[-1].as_py() or ""
    # Content ends in a line break: a field holds it only if it is open, or was closed right after one of its own.
    if last.endswith(("\n", "\r")) and not content.rstrip(b"\r\n").endswith((b'\n"', b'\r"')):
        raise TableError(f"every quote in a CSV file must be closed: {place} ends inside one; close it")


def _parquet(path: Path, limits: SizeLimits) -> pd.DataFrame:
    place = f"path={str(path)!r}"
    with opened(path, limits) as file:
        content = content_of(file, limits, place)
    table = arrow_table(content, limits, place)
    index = index_names(table.schema)
    if index:
        shown = ", ".join(map(repr, sorted(index)))
        note = f"the row numbers that pandas stored in {place} ({shown}) are left out"
        warnings.warn(TableNote(note), stacklevel=2)
    kept = [i for i, name in enumerate(table.schema.names) if name not in index]
    columns = {i: as_frame_column(table.column(i)) for i in kept}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows))
    frame.columns = pd.Index([table.schema.names[i] for i in kept], dtype=object)
    return frame


def index_names(kinds: Any) -> frozenset[str]:
    """The columns of a Parquet file's schema that are nothing but the row numbers that pandas stored beside a table.

    The file says so itself: a column of such a name that pandas did not number, or that holds texts, is one like any
    other.
    """
    import pyarrow as pa

    metadata: Mapping[bytes, bytes] = kinds.metadata or {}
    try:
        named = json.loads(metadata.get(b"pandas", b"{}"))["index_columns"]
        listed = {name for name in named if isinstance(name, str) and _NUMBERED.fullmatch(name)}
        numbers = {name for name, kind in zip(kinds.names, kinds.types, strict=True) if pa.types.is_integer(kind)}
        return frozenset(listed & numbers)
    except (ValueError, KeyError, TypeError, RecursionError):  # somebody's own, of which nothing follows
        return frozenset()


_BOM = "\ufeff"


def read_header(path: str | Path) -> tuple[str, ...]:
    """The names of a table's columns in order: a CSV file's first line, a Parquet file's schema."""
    path = Path(path)
    suffix, place = check_place(path), f"path={str(path)!r}"
    try:
        return _names_of_parquet(path) if suffix == ".parquet" else _names_of_csv(path, suffix, place)
    except FileNotFoundError:
        raise no_table(path) from None
    except (OSError, EOFError, zlib.error):
        raise TableError(f"the header of the table at {place} cannot be read; check the file and its rights") from None
    except UnicodeDecodeError:
        raise not_utf8(place) from None
    except (csv.Error, StopIteration):
        raise no_header(place) from None


def check_header(path: str | Path, schema: Schema) -> None:
    """Refuse a table whose column names are not those of the schema; neither a row nor their number is read."""
    readable(pd.DataFrame([], columns=pd.Index(read_header(path), dtype=object), dtype=object), schema)


def _names_of_csv(path: Path, suffix: str, place: str) -> tuple[str, ...]:
    # Latin-1 stands for the bytes as they are, so that rows behind the header need not even be text.
    opened = gzip.open if suffix == ".csv.gz" else open
    with opened(path, "rt", encoding="latin-1", newline="") as stream:
        return tuple(_with_names(header_names(_header_lines(stream), place)))


def _header_lines(stream: Iterable[str]) -> Iterator[str]:
    """Lines one at a time, each decoded only once it is asked for: what follows the header is never looked at."""
    first = True
    for line in stream:
        text = line.encode("latin-1").decode("utf-8")
        yield text.lstrip(_BOM) if first else text
        first = False


def _names_of_parquet(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        kinds = pa.parquet.read_schema(path)
    except pa.ArrowException:
        raise TableError(
            f"a Parquet file must be whole: path={str(path)!r} is cut short or of another format; copy it again"
        ) from None
    index = index_names(kinds)
    return tuple(name for name in kinds.names if name not in index)
