"""Tables in databases: addresses, connections that read some rows at a time, and errors that quote neither.

A backend's message may hold a cell that could not be read, a query, or a password. So each ends in one sentence.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from synth.errors import MissingExtra, PlaceError, TableError, UnderstudyError, raise_alone
from synth.table.files import Files
from synth.table.text_files import ROWS, Batch, in_batches
from synth.table.typed_cells import as_objects
from synth.validation import ESCAPES, MARKS, split_address

FILE_SCHEMES = ("duckdb", "sqlite")  # databases that are a file
FORMS = 'a table in a database is named like "postgresql://host/database#table" or "duckdb:///data/clinic.db#visits"'
_PATIENCE = {
    "connect_timeout": "20",  # seconds
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}
"""A server may work on a query for as long as it takes, but its machine answers within a minute."""


@dataclass(frozen=True)
class Address:
    """The address of a table in a database; `shown` is what of it may be told."""

    url: str = field(repr=False)
    table: str
    shown: str

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def path(self) -> str:
        return self.url.partition("://")[2]


def parse_address(text: str) -> Address:
    """The address that a text names.

    >>> parse_address("postgresql://ann:secret@db.example/clinic?password=x#public.visits").shown
    'postgresql://db.example/clinic#public.visits'
    """
    scheme, _, rest = text.partition("#")[0].partition("://")
    is_file = scheme in FILE_SCHEMES and rest.startswith("/") and Path(rest.partition("?")[0]).is_file()
    parts = split_address(text, is_file=is_file)
    if parts is None:
        raise TableError(
            f"the address of the table cannot be read; {FORMS}, and {ESCAPES}; parameters stand behind a '?' before "
            f"the '#', and a table whose name holds one of {MARKS} is read through a view"
        )
    if not parts.fragment:
        raise TableError(f"the address of a database lacks the table's name; {FORMS}")
    if parts.scheme in FILE_SCHEMES:
        if parts.hostname or not parts.path:
            raise TableError(
                "a database that is a file is named by its whole path behind three slashes, like "
                f'"{parts.scheme}:///data/clinic.db#visits"; write it so'
            )
        if not Path(parts.path).is_file():  # which the engine would make, empty
            raise TableError(f"there is no database at path={parts.path!r}; check the name")
    server = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    shown = f"{parts.scheme}://{server}{parts.path}#{parts.fragment}"
    return Address(text.partition("#")[0], parts.fragment, shown)


def open_database(address: Address) -> Files:
    """The table at an address; its one part connects anew each time it is read."""
    read = {"sqlite": _read_sqlite, "duckdb": _read_duckdb}.get(address.scheme, _read_ibis)
    with told(address.shown):
        names = next(read(address, 0))
    return Files(tuple(names), (partial(_rows, read, address),))


def _rows(read: Any, address: Address) -> Iterator[Batch]:
    batches = read(address, ROWS)
    with told(address.shown):
        next(batches)
    while True:
        with told(address.shown):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _read_sqlite(address: Address, n: int) -> Iterator[Any]:
    """SQLite types cells, not columns: Ibis guesses a column's type and fails on the first cell that differs."""
    base = sqlite3.connect(f"file:{quote(address.path)}?mode=ro", uri=True)
    base.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        cursor = base.execute(f"SELECT * FROM {_quoted(address.table)}")  # noqa: S608
        names = [description[0] for description in cursor.description]
        yield names
        while n and (rows := cursor.fetchmany(n)):
            yield {name: as_objects(row[i] for row in rows) for i, name in enumerate(names)}, len(rows)
    finally:
        base.close()


def _quoted(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split(".", 1))


def _read_duckdb(address: Address, n: int) -> Iterator[Any]:
    import duckdb

    with duckdb.connect(address.path, read_only=True) as connection:
        rows = connection.execute(f"SELECT * FROM {_quoted(address.table)}")  # noqa: S608
        yield [description[0] for description in rows.description]
        yield from in_batches(rows.to_arrow_reader(n)) if n else ()


def _read_ibis(address: Address, n: int) -> Iterator[Any]:
    import ibis

    try:
        connection = ibis.connect(_patient(address.url))
    except ImportError:
        need = f"tables of scheme={address.scheme!r} need libraries that are not installed; install them "
        raise_alone(MissingExtra(f"{need}(`pip install 'ibis-framework[{address.scheme}]'`)"))
    except ValueError:  # its message holds the address
        reason = f"the table at {address.shown!r} has no backend: scheme={address.scheme!r}; {FORMS}"
        raise_alone(TableError(reason))
    try:
        schema, dot, name = address.table.partition(".")
        rows = connection.table(name if dot else schema, database=schema if dot else None)
        yield list(rows.columns)
        yield from in_batches(connection.to_pyarrow_batches(rows, chunk_size=n)) if n else ()
    finally:
        connection.disconnect()


def _patient(url: str) -> str:
    """The URL of a database with limits on what its machine may leave unanswered, unless it sets its own.

    >>> _patient("postgresql://db.example/clinic?connect_timeout=5").split("&")[:2]
    ['postgresql://db.example/clinic?connect_timeout=5', 'keepalives_idle=30']
    """
    if not url.startswith(("postgres://", "postgresql://")):
        return url
    start, _, query = url.partition("?")
    return f"{start}?{urlencode(_PATIENCE | dict(parse_qsl(query)), quote_via=quote)}"


_AGAIN = "then start again: nothing was written"  # of the server and not of the table: another start may go well
_NO_TABLE = (
    "there is no such table; check the name after # in the address: what stands before its first dot is read as the "
    "name of a schema"
)
_UNREACHED = f"the server cannot be reached or refused user or password; check address, user and server, {_AGAIN}"
_LOST = f"the connection was lost; check server and network, {_AGAIN}"
_POSTGRES = {
    "28": "the server does not let this user in; check user and password",
    "3D": "the server has no such database; check the address",
    "42501": "this user may not read it; grant SELECT on the table",
    "42P01": _NO_TABLE,
    "53": f"the server has no room for another connection or query; wait, {_AGAIN}",
    "57": f"the server was stopped or ended the query; start it, {_AGAIN}",
    "08": _LOST,
    "22": "a cell cannot be read there as its column's kind; correct the column, or read it through a view",
}
_NAMED = {
    "TableNotFound": _NO_TABLE,
    "CatalogException": _NO_TABLE,
    "IOException": f"the file cannot be read, or another process has it open to write; check it, {_AGAIN}",
    "Py4JNetworkError": _LOST,
}
_quiet = threading.local()
for _driver in ("psycopg", "py4j.java_gateway", "py4j.clientserver"):  # they log who connects, and what was sent
    logging.getLogger(_driver).addFilter(lambda record: not getattr(_quiet, "on", False))


@contextmanager
def told(shown: str) -> Iterator[None]:
    """A block whose backend's errors end in one sentence: whatever a driver says may quote a cell or a password."""
    _quiet.on = True
    try:
        yield
    except (UnderstudyError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - of any driver
        if str(error) == "Query interrupted":  # DuckDB's error of Ctrl-C
            raise KeyboardInterrupt from None
        reason = _reason(error)
        kind = PlaceError if _AGAIN in reason else TableError
        raise_alone(kind(f"the table at {shown!r} cannot be read: {reason}"))
    finally:
        _quiet.on = False


def _reason(error: Exception) -> str:
    kind = type(error)
    if kind.__module__.split(".")[0] == "psycopg":
        return _of_a_server(error)
    if isinstance(error, ConnectionError):
        return _LOST
    if isinstance(error, sqlite3.Error):
        known = {"no such table": _NO_TABLE, "locked": _NAMED["IOException"]}
        refused = "SQLite refused the query; check the table or view there"
        damaged = "it is no SQLite database, or is damaged; export it anew"
        otherwise = refused if isinstance(error, sqlite3.OperationalError) else damaged
        return next((reason for part, reason in known.items() if part in str(error)), otherwise)
    return _NAMED.get(kind.__name__, f"the backend refused it ({kind.__name__}); check the table there")


def _of_a_server(error: BaseException) -> str:
    state, kind = getattr(error, "sqlstate", None), type(error).__name__
    if state is not None:
        known = (_POSTGRES[key] for key in (state, state[:2]) if key in _POSTGRES)
        return next(known, f"the server refused the query (SQLSTATE {state}); ask whoever runs it")
    if kind == "ProgrammingError":
        return "the driver does not know a parameter of the address; correct it"
    # The driver names the connection in errors of connecting alone; it has no SQLSTATE in others where the network or
    # the server is gone.
    connecting = getattr(error, "pgconn", None) is not None or kind == "ConnectionTimeout"
    return _UNREACHED if connecting else _LOST
