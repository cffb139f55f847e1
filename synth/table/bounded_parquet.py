"""A Parquet file as an Arrow table, its size checked before its values are written out.

A Parquet file may say of itself that it has any number of rows, and a dictionary or a run length makes a few bytes
stand for any amount of text. So its own figures are looked at first, texts are read as codes of a dictionary, and only
once their lengths are summed are they written out.
"""

from typing import Any

from synth.errors import TableError
from synth.table.limits import Limits

STRINGS, CONTAINERS = 16 << 20, 4_000_000
"""Bytes of a text and entries of a list in a file's description of itself."""


def arrow_table(content: bytes, limits: Limits, place: str) -> Any:
    """The table in a Parquet file.

    Args:
        content: of the file.
        limits: how large the table may be.
        place: of the file, for messages.

    Raises:
        TableError: it is not whole, is too large, or a column is nested; nothing was kept.
    """
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = _file(content, ())
        _refuse_large(file.metadata, limits, place)
        kinds = file.schema_arrow
        _refuse_nested(kinds, place)
        texts = [name for name, kind in zip(kinds.names, kinds.types, strict=True) if _is_text(kind)]
        # Of two columns of one name, neither may be read as codes: the caller refuses them by name.
        table = _file(content, texts if len(set(kinds.names)) == len(kinds.names) else ()).read(use_threads=False)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
        raise TableError(
            f"a Parquet file must be whole: {place} is cut short or of another format; copy it again"
        ) from None
    limits.refuse_over("bytes", sum(_written_out(table.column(i)) for i in range(table.num_columns)), place)
    columns = [_as_given(table.column(i), kinds.types[i]) for i in range(table.num_columns)]
    return pa.Table.from_arrays(columns, schema=kinds) if columns else table


def _file(content: bytes, as_codes: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    return pa.parquet.ParquetFile(
        pa.BufferReader(content), read_dictionary=list(as_codes), thrift_string_size_limit=STRINGS,
        thrift_container_size_limit=CONTAINERS,
    )  # fmt: skip


def _refuse_large(said: Any, limits: Limits, place: str) -> None:
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
