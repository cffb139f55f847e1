"""Tables opened where they are stored: files through an embedded DuckDB, databases by their URL.

The columns of files are told by the header of each: DuckDB looks at those of the first file only.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow.parquet as pq

from synth.errors import MissingExtra, TableError
from synth.stored.address import FORMS, TableAddress, parsed
from synth.stored.connection import MEMORY_MB, StorageLocation, embedded, patient
from synth.stored.errors import silent, told
from synth.stored.table import StoredTable
from synth.table.reading import read_header
from synth.table.table import names_at_fault

RESERVED = "understudy_"
"""The prefix of columns that are added while a table is read."""
_PLAIN = {"Int(bitWidth=32, isSigned=true)": "None", "Int(bitWidth=64, isSigned=true)": "None"}
"""Types of the format that some writers leave unsaid."""


def names_of(address: TableAddress) -> tuple[str, ...]:
    """The columns of files, all alike."""
    first, *others = address.files
    names = read_header(first)
    for rule, remedy in names_at_fault(names):
        raise TableError(f"the table {rule}; {remedy} (path={str(first)!r})")
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
    """Refuse a column that would be taken for one of those that are added while a table is read."""
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
    """Refuse Parquet files with other columns or types than the first: they would be cast, or cut."""
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


LONGEST_LINE = 16 << 20
"""Bytes of a line of a CSV file at most."""
ROWS, SLOT, FILE = "understudy_rows", "understudy_slot", "understudy_file"
NUMBER = "file_row_number"
"""DuckDB's name for the number of a row in its file."""
_WIDEST, _DUCKDB = 1e38, "duckdb://"


@contextmanager
def open_table(text: str | Path, *, memory_mb: int = MEMORY_MB, threads: int | None = None) -> Iterator[StoredTable]:
    """A table where it is stored, as long as the block lasts."""
    address = parsed(str(text))
    of_databases = _attached if str(address.url).startswith(_DUCKDB) else _reached
    opened = _read if address.url is None else of_databases
    with silent(), ExitStack() as stack:
        # What goes wrong within the caller's block is the caller's, but for what is asked of the table there.
        with told(address.shown):
            table = stack.enter_context(opened(address, memory_mb, threads))
        yield table


@contextmanager
def _read(address: TableAddress, memory_mb: int, threads: int | None) -> Iterator[StoredTable]:
    with embedded(memory_mb=memory_mb, threads=threads) as connection:
        yield _of_files(connection, address)


@contextmanager
def _attached(address: TableAddress, memory_mb: int, threads: int | None) -> Iterator[StoredTable]:
    """A database of DuckDB, to be read only, beside an engine's own: several addresses may name the same file."""
    with embedded(memory_mb=memory_mb, threads=threads) as connection:
        before = _databases(connection)
        connection.attach(str(address.url).removeprefix(_DUCKDB), read_only=True)
        (catalog,) = _databases(connection) - before
        schema, name = _qualified(address)
        rows = connection.table(name, database=(catalog, schema or connection.current_database))
        refuse_reserved(rows.columns, address.shown)
        yield StoredTable(StorageLocation(connection, address.shown, memory_mb, threads), _within_decimals(rows))


def _databases(connection: Any) -> set[str]:
    """The names of what is attached, which Ibis asks for in a way that DuckDB warns of."""
    return {name for (name,) in connection.con.execute("SELECT database_name FROM duckdb_databases()").fetchall()}


@contextmanager
def _reached(address: TableAddress, memory_mb: int, threads: int | None) -> Iterator[StoredTable]:
    connection = _connected(address)
    try:
        schema, name = _qualified(address)
        rows = connection.table(name, database=schema)
        refuse_reserved(rows.columns, address.shown)
        yield StoredTable(StorageLocation(connection, address.shown, memory_mb, threads), rows)
    finally:
        with told(address.shown):
            connection.disconnect()


def _qualified(address: TableAddress) -> tuple[str | None, str]:
    schema, dot, name = address.table.partition(".")
    return (schema, name) if dot else (None, address.table)


def _connected(address: TableAddress) -> Any:
    """Ibis's connection."""
    scheme = str(address.url).partition("://")[0]
    try:
        return ibis.connect(patient(str(address.url)))
    except ImportError:
        reason: Exception = MissingExtra(
            f"tables of scheme={scheme!r} need libraries that are not installed; install them "
            f"(`pip install 'ibis-framework[{scheme}]'`)"
        )
    except ValueError:  # its message holds the address
        reason = TableError(f"the table at {address.shown!r} has no backend: scheme={scheme!r}; {FORMS}")
    raise reason


def _of_files(connection: Any, address: TableAddress) -> StoredTable:
    # Whole paths: a row's slot does not depend on how they were given. Brackets and stars in them are no patterns.
    home = os.path.normpath(Path(address.shown).absolute())  # without a dot in it, as DuckDB tells it
    files = [glob.escape(os.path.normpath(path.absolute())) for path in address.files]
    place = StorageLocation(connection, address.shown)
    if not files[0].lower().endswith(".parquet"):
        # Texts, as in memory: what a cell stands for is told by its column's kind, not by its neighbors.
        # Nothing is sniffed: one long row would have the header taken for a row, and the rows above it for nothing.
        options = {"auto_detect": False, "header": True, "delim": ",", "quote": '"', "escape": '"', "strict_mode": True}
        options["hive_partitioning"] = False
        options |= {"max_line_size": LONGEST_LINE, "buffer_size": 2 * LONGEST_LINE}
        texts = dict.fromkeys(names_of(address), "VARCHAR")
        # In a file of one column a blank line is no row, and two quotes are one; else blank lines are passed over.
        rows = connection.read_csv(files, table_name=ROWS, columns=texts, allow_quoted_nulls=len(texts) > 1, **options)
        return StoredTable(place, rows if len(texts) > 1 else rows.filter(rows[rows.columns[0]].notnull()))
    names = names_of(address)
    options = {"table_name": ROWS, "filename": FILE, "hive_partitioning": False}
    # DEVIATES: a time in milliseconds beyond 290,000 years ends the query, where dp.md would have it missing: DuckDB
    # turns milliseconds into microseconds as it reads a file, and reads them in no other way.
    named = connection.read_parquet(files, **options)
    if any(name.lower() == NUMBER for name in named.columns):
        # DuckDB numbers rows in a column of this name only, and it is taken: rows have no slot.
        return StoredTable(place, named.select(*names))
    named = connection.read_parquet(files, **options, file_row_number=True)
    number = named[NUMBER].cast("string")
    folder = len(home.rstrip("/")) + 1
    # A row's slot: its number in its file, with the file's name in the folder where there are several.
    slot = number if len(files) == 1 else named[FILE].substr(folder) + ":" + number
    return StoredTable(place, named.select(*names, **{SLOT: slot}), SLOT)


def _within_decimals(rows: ir.Table) -> ir.Table:
    """The rows of a DuckDB database with whole numbers of 128 bits missing that no decimal of 38 digits holds."""
    wide = [name for name, kind in rows.schema().items() if kind == dt.Decimal(38, 0)]
    held = {name: ibis.ifelse(rows[name].cast("float64").abs() < _WIDEST, rows[name], ibis.null()) for name in wide}
    return rows.mutate(**held) if held else rows
