"""Tables opened where they are stored: files through an embedded DuckDB, databases by their URL."""

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from synth.errors import MissingExtra, TableError
from synth.stored.address import FORMS, Address, parsed
from synth.stored.embedded import MEMORY_MB, embedded, engine_options, work_folder
from synth.stored.faults import told
from synth.stored.patience import patient
from synth.stored.place import Place
from synth.stored.table import StoredTable
from synth.table.header import read_header

LONGEST_LINE = 16 << 20
"""Bytes of a line of a CSV file at most."""
ROWS, SLOT, FILE = "understudy_rows", "understudy_slot", "understudy_file"
NUMBER = "file_row_number"
"""How DuckDB names the number of a row in its file."""
_WIDEST = 1e38


@contextmanager
def open_table(text: str | Path, *, memory_mb: int = MEMORY_MB, threads: int | None = None) -> Iterator[StoredTable]:
    """A table where it is stored, as long as the block lasts.

    Args:
        text: a file or a folder of Parquet or CSV files, or the URL of a database with the table's name behind a #.
        memory_mb: what the embedded engine may take.
        threads: of the embedded engine; none: all cores.

    Raises:
        TableError: there is no such table, or it cannot be reached; nothing was read.
    """
    address = parsed(str(text))
    if address.url is not None:
        with _reached(address, memory_mb, threads) as table:
            yield table
        return
    with told(address.shown), embedded(memory_mb=memory_mb, threads=threads) as connection:
        yield _of_files(connection, address)


@contextmanager
def _reached(address: Address, memory_mb: int, threads: int | None) -> Iterator[StoredTable]:
    with told(address.shown), work_folder() as folder:
        # DuckDB would spill rows to a folder beside the database, for all to read.
        connection = _connected(address, engine_options(folder, memory_mb, threads))
        try:
            *schema, name = address.table.split(".", 1) if "." in address.table else [address.table]
            rows = connection.table(name, database=schema[0] if schema else None)
            rows = _within_decimals(rows) if connection.name == "duckdb" else rows
            yield StoredTable(Place(connection, address.shown), rows)
        finally:
            connection.disconnect()


def _connected(address: Address, options: Mapping[str, Any]) -> Any:
    """Ibis's connection, in DuckDB one that only reads.

    Args:
        address: of a database.
        options: of an embedded engine.

    Raises:
        MissingExtra: the libraries of the backend are not installed.
        TableError: Ibis knows no such backend.
    """
    scheme, _, rest = str(address.url).partition("://")
    try:
        if scheme == "duckdb":
            return ibis.duckdb.connect(rest, read_only=True, **options)
        return ibis.connect(patient(str(address.url)))
    except ImportError:
        reason: Exception = MissingExtra(
            f"tables of scheme={scheme!r} need libraries that are not installed; install them "
            f"(`pip install 'ibis-framework[{scheme}]'`)"
        )
    except ValueError:  # its message holds the address
        reason = TableError(f"the table at {address.shown!r} has no backend: scheme={scheme!r}; {FORMS}")
    raise reason


def _of_files(connection: Any, address: Address) -> StoredTable:
    # Whole paths: a row's slot does not depend on how they were given. Brackets and stars in them are no patterns.
    home = os.path.normpath(Path(address.shown).absolute())  # without a dot in it, as DuckDB tells it
    files = [glob.escape(os.path.normpath(path.absolute())) for path in address.files]
    place = Place(connection, address.shown)
    if not files[0].lower().endswith(".parquet"):
        # Texts, as in memory: what a cell stands for is told by its column's kind, not by its neighbors.
        # Nothing is sniffed: one long row would have the header taken for a row, and the rows above it for nothing.
        options = {"auto_detect": False, "header": True, "delim": ",", "quote": '"', "escape": '"', "strict_mode": True}
        options["hive_partitioning"] = False
        options |= {"max_line_size": LONGEST_LINE, "buffer_size": 2 * LONGEST_LINE}
        texts = dict.fromkeys(_names(address), "VARCHAR")
        return StoredTable(place, connection.read_csv(files, table_name=ROWS, columns=texts, **options))
    _names(address)
    options = {"table_name": ROWS, "filename": FILE, "hive_partitioning": False}
    named = connection.read_parquet(files, **options)
    if any(name.lower() == NUMBER for name in named.columns):
        # DuckDB numbers rows in a column of this name only, and it is taken: rows have no slot.
        return StoredTable(place, named.drop(FILE))
    named = connection.read_parquet(files, **options, file_row_number=True)
    number = named[NUMBER].cast("string")
    folder = len(home.rstrip("/")) + 1
    # A row's slot: its number in its file, with the file's name in the folder where there are several.
    slot = number if len(files) == 1 else named[FILE].substr(folder) + ":" + number
    return StoredTable(place, named.mutate(**{SLOT: slot}).drop(NUMBER, FILE), SLOT)


def _names(address: Address) -> tuple[str, ...]:
    """The columns of files, all alike.

    Raises:
        TableError: a header cannot be read, or is not that of the first file, or DuckDB cannot tell its names apart.
    """
    first, *others = address.files
    names = read_header(first)
    if address.files[0].suffix.lower() != ".parquet" and any(read_header(other) != names for other in others):
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: the files do not have the same "
            "header; export them anew, all with the same columns in the same order"
        )
    alike = {name.casefold(): name for name in reversed(names)}
    twice = next((name for name in names if alike[name.casefold()] != name or names.count(name) > 1), None)
    if twice is not None:
        raise TableError(
            f"the table at {address.shown!r} cannot be read where it is stored: column={twice!r} has the name of "
            "another but for its case, which DuckDB does not tell apart; rename one"
        )
    return names


def _within_decimals(rows: ir.Table) -> ir.Table:
    """The rows of a DuckDB database with whole numbers of 128 bits missing that no decimal of 38 digits holds."""
    wide = [name for name, kind in rows.schema().items() if kind == dt.Decimal(38, 0)]
    held = {name: ibis.ifelse(rows[name].cast("float64").abs() < _WIDEST, rows[name], ibis.null()) for name in wide}
    return rows.mutate(**held) if held else rows
