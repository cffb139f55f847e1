"""Parquet, Feather and Excel files, typed as they are.

Such a file may claim any number of rows, and a dictionary, a run length or a compressed part makes a few bytes stand
for any amount of text. So its own figures are looked at first. Texts of Parquet are read as codes of a dictionary, and
their lengths are summed before anything writes them out.
"""

import datetime as dt
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from synth.errors import MissingExtra, TableError
from synth.table.text_files import ROWS, Batch, SizeLimits, in_batches, opened

_THRIFT_STRING_BYTES, _THRIFT_ITEMS = 16 << 20, 4_000_000
"""Bytes of a text and entries of a list in a file's description of itself."""
_DELTA_ROWS, _DELTA_BYTES = 1_024, 64 << 20
"""Rows that are decoded at once where texts are told by how they differ: Arrow gives up where they have over 2 GB."""
_NUMBERED = re.compile("__index_level_[0-9]+__")
_BROKEN = (
    pa.ArrowException, EOFError, UnicodeDecodeError, IndexError, NotImplementedError, struct.error, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
"""Errors of libraries that read a file which is not whole."""


def parquet_facts(path: Path, limits: SizeLimits) -> tuple[pa.Schema, tuple[str, ...], int]:
    """The columns of a Parquet file, which of them are row numbers that pandas stored, and how many row groups it has.

    A file that is too large by what it says of itself is refused, before its codes are written out.
    """
    shown = f"path={str(path)!r}"
    with _parquet(path, limits) as file:
        facts, kinds = file.metadata, file.schema_arrow
        groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
        limits.refuse_over("columns", facts.num_columns, shown)
        limits.refuse_over("rows", max(facts.num_rows, sum(group.num_rows for group in groups)), shown)
        limits.refuse_over("bytes", sum(group.total_byte_size for group in groups), shown)
        _refuse_nested(kinds, shown)
        return kinds, _index_names(kinds), len(groups)


@contextmanager
def _whole(kind: str, path: Path) -> Iterator[None]:
    """A block in which a file is read that may be cut short, of another format, or made to do harm."""
    shown = f"path={str(path)!r}"
    try:
        yield
        return
    except pa.ArrowNotImplementedError:
        reason = (
            f"a file of {kind} must be of encodings that pyarrow reads: {shown} has another; write it anew with pyarrow"
        )
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, which the caller tells
            raise
        reason = f"a file of {kind} must be whole: {shown} is cut short or of another format; copy or export it anew"
    raise TableError(reason)


@contextmanager
def _parquet(path: Path, limits: SizeLimits, codes: Sequence[str] = ()) -> Iterator[Any]:
    with _whole("Parquet", path), opened(path, limits) as file:
        yield pa.parquet.ParquetFile(
            file, read_dictionary=list(codes), thrift_string_size_limit=_THRIFT_STRING_BYTES,
            thrift_container_size_limit=_THRIFT_ITEMS,
        )  # fmt: skip


def read_parquet(path: Path, kinds: pa.Schema, limits: SizeLimits, group: int) -> Iterator[Batch]:
    """The rows of one row group; texts stay codes."""
    shown, names = f"path={str(path)!r}", list(kinds.names)
    with _parquet(path, limits) as file:
        delta = _delta_encoded(file.metadata)
    texts = [
        name for i, (name, kind) in enumerate(zip(names, kinds.types, strict=True)) if _is_long(kind) and i not in delta
    ]
    with _parquet(path, limits, texts) as file:
        size = _DELTA_ROWS if delta else ROWS
        n_bytes = 0
        for batch in _gathered(file.iter_batches(size, row_groups=[group], use_threads=False)):
            if not batch.schema.remove_metadata().names == names:
                raise pa.ArrowInvalid("the columns of a file changed")
            n_bytes += sum(map(_written_out, batch.columns))
            limits.refuse_over("bytes", n_bytes, shown)
            yield dict(zip(names, batch.columns, strict=True)), batch.num_rows


def _gathered(batches: Iterator[Any]) -> Iterator[Any]:
    """Small batches as large ones, each of limited bytes."""
    some: list[Any] = []
    for batch in batches:
        some.append(batch)
        if sum(b.num_rows for b in some) >= ROWS or sum(b.nbytes for b in some) >= _DELTA_BYTES:
            yield pa.concat_batches(some)
            some = []
    if some:
        yield pa.concat_batches(some)


def _delta_encoded(facts: Any) -> frozenset[int]:
    """The columns with texts that are told by how they differ from the one before; Arrow reads no codes of these."""
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    return frozenset(
        i for group in groups for i in range(facts.num_columns)
        if {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"} & set(group.column(i).encodings)
    )  # fmt: skip


def _refuse_nested(kinds: pa.Schema, shown: str) -> None:
    for name, kind in zip(kinds.names, kinds.types, strict=True):
        if pa.types.is_nested(kind):
            raise TableError(
                f"a column must hold plain values: column={name!r} of {shown} is nested; flatten or remove it"
            )


def _is_long(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _written_out(column: Any) -> int:
    """Bytes that a column takes once its codes are values."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    if not _is_long(values.type):
        return len(column) * 8
    lengths = pc.binary_length(values).cast(pa.int64()).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0) + 8 * len(column)


def _index_names(kinds: pa.Schema) -> tuple[str, ...]:
    """The columns that are nothing but the row numbers that pandas stored beside a table.

    The file says so itself: a column of such a name that pandas did not number, or that holds texts, is one like any
    other.
    """
    metadata: Mapping[bytes, bytes] = kinds.metadata or {}
    try:
        named = json.loads(metadata.get(b"pandas", b"{}"))["index_columns"]
        listed = {name for name in named if isinstance(name, str) and _NUMBERED.fullmatch(name)}
    except (ValueError, KeyError, TypeError, RecursionError):  # somebody's own, of which nothing follows
        return ()
    pairs = zip(kinds.names, kinds.types, strict=True)
    return tuple(name for name, kind in pairs if name in listed and pa.types.is_integer(kind))


_FEATHER = b"ARROW1\0\0"


def feather_kinds(path: Path, limits: SizeLimits) -> pa.Schema:
    with _feather(path, limits) as file:
        limits.refuse_over("columns", len(file.schema), f"path={str(path)!r}")
        _refuse_nested(file.schema, f"path={str(path)!r}")
        return file.schema


def read_feather(path: Path, limits: SizeLimits) -> Iterator[Batch]:
    """The rows, once it is certain that no index in them points elsewhere."""
    shown, n_rows, n_bytes = f"path={str(path)!r}", 0, 0
    with opened(path, limits) as file, _whole("Feather", path):
        limits.refuse_over("bytes", sum(_bytes_of_messages(file)), shown)
    with _feather(path, limits) as file:
        for batch in file:
            batch.validate(full=True)
            n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + sum(map(_written_out, batch.columns))
            limits.refuse_over("rows", n_rows, shown)
            limits.refuse_over("bytes", n_bytes, shown)
            yield from in_batches([batch])


@contextmanager
def _feather(path: Path, limits: SizeLimits) -> Iterator[Any]:
    with opened(path, limits) as file, _whole("Feather", path):
        # In the order of its messages, which were looked through, and not by its footer.
        if file.read(8) != _FEATHER:
            raise EOFError
        yield pa.ipc.open_stream(file)


def _bytes_of_messages(file: Any) -> Iterator[int]:
    """Bytes of the messages of a Feather file once they are uncompressed, as each of their parts says of itself.

    Arrow makes room for what is said, and refuses a part that holds another number of bytes.
    """
    if file.read(8) != _FEATHER:
        raise EOFError
    with suppress(StopIteration):
        for message in pa.ipc.MessageReader.open_stream(file):
            yield _bytes_of_message(memoryview(message.metadata), message.body)


def _bytes_of_message(meta: memoryview, body: Any) -> int:
    """By the layout of Flatbuffers that Arrow's Message.fbs lays down."""

    def number(form: str, position: int) -> int:
        return int(struct.unpack_from(form, meta, position)[0])

    def field(table: int, index: int) -> int:
        """The position of a table's field; 0 where it has none."""
        slots = table - number("<i", table)
        where = 4 + 2 * index
        offset = number("<H", slots + where) if where < number("<H", slots) else 0
        return table + offset if offset else 0

    def follow(position: int) -> int:
        return position + number("<I", position)

    message = follow(0)
    kind, header = field(message, 1), field(message, 2)
    what = number("<B", kind) if kind else 0
    if what not in (2, 3) or not header:  # a schema
        return 0
    batch = follow(header)
    if what == 2:  # a dictionary, which holds a batch
        batch = follow(field(batch, 1))
    buffers, is_compressed = field(batch, 2), field(batch, 3)
    if body is None or not buffers or not is_compressed:
        return 0 if body is None else int(body.size)
    start, total = follow(buffers), 0
    for index in range(number("<I", start)):
        offset, length = struct.unpack_from("<qq", meta, start + 4 + 16 * index)
        if length:
            total += max(struct.unpack_from("<q", body, offset)[0], length)
    return total


_CELL = re.compile(rb"<(?:\w+:)?(c|row)\b([^>]*)>")
_TEXT_END = re.compile(rb"</(?:\w+:)?si>")
_REFERENCE = re.compile(rb'\br="([A-Z]{0,3})(\d{1,7})"')
_BYTES_OF_CELL = 64


def excel_rows(path: Path, limits: SizeLimits) -> list[list[Any]]:
    """The rows of a workbook's first sheet as Python objects, the header first; whole numbers are such.

    A workbook is compressed, and its reader makes room for all cells up to the last and copies a text for each cell
    that points at it. So its parts are looked through before.
    """
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise MissingExtra(
            "tables of .xlsx need python-calamine; install it (`pip install 'understudy-tables[excel]'`)"
        ) from None
    shown = f"path={str(path)!r}"
    with opened(path, limits) as file, _whole("Excel (.xlsx)", path):
        _refuse_expanding(file, limits, shown)
        file.seek(0)
        try:
            rows: list[list[Any]] = CalamineWorkbook.from_object(file).get_sheet_by_index(0).to_python()
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - whatever its reader meets, whose message may hold a cell
            raise EOFError from None
    if not rows:
        raise TableError(f"a table needs a header row: {shown} is empty; add one")
    limits.refuse_over("rows", len(rows), shown)
    return [[_excel_cell(cell) for cell in row] for row in rows]


def _excel_cell(cell: Any) -> Any:
    """A spreadsheet knows no whole numbers, and days as midnights; an empty cell is missing."""
    if type(cell) is dt.date:
        return dt.datetime.combine(cell, dt.time())
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2.0**53:
        return int(cell)
    return None if cell == "" else cell


def _refuse_expanding(file: Any, limits: SizeLimits, shown: str) -> None:
    """Refuse a workbook that would not fit: by the bytes of its parts, its cells, and the texts that these point at."""
    total, n_cells, longest, widest, last_row = 0, 0, 0, 0, 0
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if not any(member.filename == "xl/workbook.xml" for member in members):
        raise EOFError
    for member in members:
        tail, unclosed = b"", 0
        for block in _member(file, member):
            total += len(block)
            limits.refuse_over("bytes", total, shown)
            head, _, rest = (tail + block).rpartition(b"<")
            text, tail = (head, b"<" + rest) if head else (b"", tail + block)
            *texts, after = _TEXT_END.split(text)
            longest = max([longest, *(unclosed * (not i) + len(t) for i, t in enumerate(texts))])
            unclosed = len(after) + (0 if texts else unclosed)
            for tag in _CELL.finditer(text):
                n_cells += tag[1] == b"c"
                if (reference := _REFERENCE.search(tag[2])) is not None:
                    last_row = max(last_row, int(reference[2]))
                    widest = max(widest, _column_number(reference[1]))
    limits.refuse_over("columns", widest, shown)
    limits.refuse_over("rows", last_row, shown)
    dense = max(n_cells, widest * last_row) * _BYTES_OF_CELL
    limits.refuse_over("bytes", dense + n_cells * longest, shown)


def _column_number(letters: bytes) -> int:
    return reduce(lambda number, letter: 26 * number + letter - ord("A") + 1, letters, 0)


def _member(file: Any, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of a part of an archive as they are, whatever the archive says of their number."""
    file.seek(member.header_offset)
    header = file.read(30)
    file.seek(sum(struct.unpack_from("<HH", header, 26)), 1)
    left = member.compress_size
    inflate = zlib.decompressobj(-15) if member.compress_type == zipfile.ZIP_DEFLATED else None
    if inflate is None and member.compress_type != zipfile.ZIP_STORED:
        raise NotImplementedError
    while left > 0 and (raw := file.read(min(left, 1 << 16))):
        left -= len(raw)
        if inflate is None:
            yield raw
        while inflate is not None and raw:
            yield inflate.decompress(raw, 1 << 20)
            raw = inflate.unconsumed_tail
