"""Tables opened where they are stored: files through an embedded DuckDB, databases by their URL."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis

from synth.errors import MissingExtra, TableError
from synth.stored.address import FORMS, Address, parsed
from synth.stored.faults import told
from synth.stored.place import Place
from synth.stored.table import StoredTable

MEMORY_MB = 1_500
"""What DuckDB may take; what does not fit goes to a folder beside."""
ROWS, SLOT = "understudy_rows", "understudy_slot"


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
        with _reached(address) as table:
            yield table
        return
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        options: dict[str, Any] = {"memory_limit": f"{memory_mb}MB", "temp_directory": folder}
        options |= {} if threads is None else {"threads": threads}
        with told(address.shown):
            connection = ibis.duckdb.connect(Path(folder) / "work.duckdb", **options)
        try:
            with told(address.shown):
                yield _of_files(connection, address)
        finally:
            connection.disconnect()


@contextmanager
def _reached(address: Address) -> Iterator[StoredTable]:
    with told(address.shown):
        connection = _connected(address)
        try:
            *schema, name = address.table.split(".", 1) if "." in address.table else [address.table]
            rows = connection.table(name, database=schema[0] if schema else None)
            yield StoredTable(Place(connection, address.shown), rows)
        finally:
            connection.disconnect()


def _connected(address: Address) -> Any:
    """Ibis's connection, which may write nothing.

    Raises:
        MissingExtra: the libraries of the backend are not installed.
        TableError: Ibis knows no such backend.
    """
    scheme, _, rest = str(address.url).partition("://")
    try:
        return ibis.duckdb.connect(rest, read_only=True) if scheme == "duckdb" else ibis.connect(address.url)
    except ImportError:
        reason: Exception = MissingExtra(
            f"tables of scheme={scheme!r} need libraries that are not installed; install them "
            f"(`pip install 'ibis-framework[{scheme}]'`)"
        )
    except ValueError:  # its message holds the address
        reason = TableError(f"the table at {address.shown!r} has no backend: scheme={scheme!r}; {FORMS}")
    raise reason


def _of_files(connection: Any, address: Address) -> StoredTable:
    files = [str(path) for path in address.files]
    place = Place(connection, address.shown)
    if not files[0].lower().endswith(".parquet"):
        # Texts, as in memory: what a cell stands for is told by its column's kind, not by its neighbors.
        options = {"all_varchar": True, "header": True, "delim": ",", "strict_mode": True}
        return StoredTable(place, connection.read_csv(files, table_name=ROWS, **options))
    named = connection.read_parquet(files, table_name=ROWS, file_row_number=True, filename=True)
    number = named["file_row_number"].cast("string")
    folder = len(str(address.files[0].parent)) + 1 if len(files) == 1 else len(address.shown) + 1
    # A row's slot: its number in its file, with the file's name in the folder where there are several.
    slot = number if len(files) == 1 else named["filename"].substr(folder) + ":" + number
    return StoredTable(place, named.mutate(**{SLOT: slot}).drop("file_row_number", "filename"), SLOT)
