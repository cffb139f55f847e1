"""The columns that files of one table have, by their heads alone: DuckDB looks at those of the first file only."""

import codecs
import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from synth.errors import TableError
from synth.stored.address import Address
from synth.table.header import read_header

RESERVED = "understudy_"
"""What the names begin with that columns are given while a table is read."""
_PLAIN = {"Int(bitWidth=32, isSigned=true)": "None", "Int(bitWidth=64, isSigned=true)": "None"}
"""Types of the format that some writers leave unsaid."""


def names_of(address: Address) -> tuple[str, ...]:
    """The columns of files, all alike.

    Raises:
        TableError: a header cannot be read, or is not that of the first file, or DuckDB cannot tell its names apart.
    """
    first, *others = address.files
    names = read_header(first)
    if first.suffix.lower() == ".parquet":
        _refuse_unlike(address)
    elif any(map(_begins_blank, address.files)):
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: the first line of a CSV file is its "
            "header, and here a blank one is; remove it"
        )
    elif any(read_header(other) != names for other in others):
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: the files do not have the same "
            "header; export them anew, all with the same columns in the same order"
        )
    refuse_reserved(names, address.shown)
    alike = {name.casefold(): name for name in reversed(names)}
    twice = next((name for name in names if alike[name.casefold()] != name or names.count(name) > 1), None)
    if twice is not None:
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: column={twice!r} has the name of "
            "another but for its case, which DuckDB does not tell apart; rename one"
        )
    return names


def refuse_reserved(names: Iterable[str], shown: str) -> None:
    """Refuse a column that would be taken for one of those that are added while a table is read.

    Raises:
        TableError: there is one; nothing was read.
    """
    for name in names:
        if name.casefold().startswith(RESERVED):
            raise TableError(
                f"the table at {shown!r} cannot be read where it is stored: the names of its columns do not "
                f"begin with {RESERVED!r}, which are given to columns while it is read: column={name!r}; rename it, "
                "in a database by a view"
            )


def _refuse_unlike(address: Address) -> None:
    """Refuse Parquet files with other columns, or columns of other types, than the first: they would be cast, or cut.

    Raises:
        TableError: a file has, or its footer cannot be read.
    """
    first: Mapping[str, tuple[str, int]] | None = None
    for path in address.files:
        read_header(path)  # which says what is wrong with a file
        kinds = _kinds(path)
        first = kinds if first is None else first
        name = next((name for name in [*first, *kinds] if first.get(name) != kinds.get(name)), None)
        if name is not None:
            raise TableError(
                f"the table at {address.shown!r} cannot be read where it is stored: its files have not the same "
                f"columns and types: file={path.name!r} and the first differ in column={name!r}; export them anew, all "
                "alike"
            )


def _kinds(path: Path) -> Mapping[str, tuple[str, int]]:
    """The types of the columns of a Parquet file by their names, of nested ones by their paths, in any order.

    They are those of the format: what Arrow adds to them, and whether cells may be missing, is of no matter.
    """
    footer = pq.read_metadata(path).schema
    columns = (footer.column(at) for at in range(len(footer)))
    return {one.path: (_kind(one.physical_type, str(one.logical_type)), one.max_repetition_level) for one in columns}


def _kind(held: str, meant: str) -> str:
    """A type's name: how cells are held, and what is meant by them, however the writer spelled it."""
    if meant.startswith("Decimal"):
        return meant
    return f"{held} {_PLAIN.get(meant, meant.partition(', is_from_converted_type')[0])}"


def _begins_blank(path: Path) -> bool:
    """Whether the header of a CSV file is not in its first line, where DuckDB looks for it."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as stream:
        return stream.read(4).removeprefix(codecs.BOM_UTF8).startswith((b"\n", b"\r"))
