"""The columns that files of one table have, by their heads alone: DuckDB looks at those of the first file only."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from synth.errors import TableError
from synth.stored.address import TableAddress
from synth.table.conforming import names_at_fault
from synth.table.reading import read_header

RESERVED = "understudy_"
"""What the names begin with that columns are given while a table is read."""
_PLAIN = {"Int(bitWidth=32, isSigned=true)": "None", "Int(bitWidth=64, isSigned=true)": "None"}
"""Types of the format that some writers leave unsaid."""


def names_of(address: TableAddress) -> tuple[str, ...]:
    """The columns of files, all alike.

    Raises:
        TableError: a header cannot be read, or is not that of the first file, or DuckDB cannot tell its names apart.
    """
    first, *others = address.files
    names = read_header(first)
    for violation in names_at_fault(pd.DataFrame([], columns=pd.Index(names, dtype=object))):
        raise TableError(f"{violation} (path={str(first)!r})")
    if first.suffix.lower() == ".parquet":
        _refuse_unlike(address, names)
    elif any(read_header(other) != names for other in others):
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: the files do not have the same "
            "header; export them anew, all with the same columns in the same order"
        )
    if (trouble := trouble_with(names)) is not None:
        raise _unreadable(address.shown, trouble)
    return names


def trouble_with(names: Sequence[str]) -> str | None:
    """The first name that cannot be read from files where they are, as a rule and its remedy; `None` where all can.

    >>> trouble_with(["age", "job"])
    >>> trouble_with(["age", "Age"])[:43]
    "column='Age' has the name of another but fo"
    """
    alike = {name.casefold(): name for name in reversed(names)}
    twice = next((name for name in names if alike[name.casefold()] != name), None)
    if twice is None:
        return _reserved(names)
    return f"column={twice!r} has the name of another but for its case, which DuckDB does not tell apart; rename one"


def refuse_reserved(names: Iterable[str], shown: str) -> None:
    """Refuse a column that would be taken for one of those that are added while a table is read.

    Raises:
        TableError: there is one; nothing was read.
    """
    if (trouble := _reserved(names)) is not None:
        raise _unreadable(shown, trouble)


def _reserved(names: Iterable[str]) -> str | None:
    name = next((name for name in names if name.casefold().startswith(RESERVED)), None)
    if name is None:
        return None
    return (
        f"the names of its columns do not begin with {RESERVED!r}, which are given to columns while it is read: "
        f"column={name!r}; rename it, in a database by a view"
    )


def _unreadable(shown: str, trouble: str) -> TableError:
    return TableError(f"the table at {shown!r} cannot be read where it is stored: {trouble}")


def _refuse_unlike(address: TableAddress, names: Sequence[str]) -> None:
    """Refuse Parquet files with other columns, or columns of other types, than the first: they would be cast, or cut.

    Raises:
        TableError: a file has, or its footer cannot be read.
    """
    first: Mapping[str, tuple[str, int]] | None = None
    for path in address.files:
        others = read_header(path)  # which says what is wrong with a file
        kinds = _kinds(path)
        first = kinds if first is None else first
        name = next((name for name in [*first, *kinds] if first.get(name) != kinds.get(name)), None)
        if name is None:  # row numbers of pandas in one file, and a column of that name in the other
            name = next((name for name in [*names, *others] if (name in names) != (name in others)), None)
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
