"""Errors of backends, as one sentence that quotes nothing of the address or of the backend's message.

A backend's message may hold a cell that could not be read, a query, or a password.
"""

import importlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from synth.errors import PlaceError, TableError

Item = TypeVar("Item")

_ERRORS = (
    "duckdb:Error", "psycopg:Error", "pyspark.errors:PySparkException", "py4j.protocol:Py4JError",
    "ibis.common.exceptions:IbisError", "ibis.common.exceptions:TableNotFound",
    "sqlglot.errors:SqlglotError", "pyarrow:ArrowException", "sqlite3:Error", "MySQLdb:Error", "pyodbc:Error",
    "oracledb:Error", "trino.exceptions:Error", "snowflake.connector.errors:Error",
    "google.api_core.exceptions:GoogleAPIError", "clickhouse_connect.driver.exceptions:ClickHouseError",
    "builtins:ConnectionRefusedError", "builtins:ConnectionResetError",
)  # fmt: skip
"""The roots of what drivers raise, by module; looked up among those that are loaded."""
_AGAIN = "then start again: nothing was written"
"""Endings of reasons that are of the place and not of the table: another start may go well."""
_NO_TABLE = (
    "there is no such table; check the name after # in the address: what stands before its first dot is read as the "
    "name of a schema"
)
_POSTGRES = {
    "28": "the server does not let this user in; check user and password",
    "3D": "the server has no such database; check the address",
    "42501": "this user may not read it; grant SELECT on the table",
    "42P01": _NO_TABLE,
    "53100": f"the server's disk is full; make room there, {_AGAIN}",
    "53": f"the server has no room for another connection or query; wait, {_AGAIN}",
    "57": f"the server was stopped or ended the query; start it, {_AGAIN}",
    "08": f"the connection was lost; check server and network, {_AGAIN}",
    "22": "a cell cannot be read there as its column's kind; correct the column, or read it through a view",
}
_UNREACHED = f"the server cannot be reached or refused user or password; check address, user and server, {_AGAIN}"
_LOST = f"the connection was lost; check server and network, {_AGAIN}"
_FULL = f"the disk of the temporary files is full; make room there, or name another with TMPDIR, {_AGAIN}"
_GONE = f"a file is no longer there; leave the files alone while they are read, {_AGAIN}"
_DAMAGED = "a file is none of Parquet or CSV, or is damaged or changed while it was read; export it anew"
_UNLIKE = "its files have not the same columns and types; export them anew, all alike"
_FAILED = f"the embedded engine failed; {_AGAIN.removeprefix('then ')}"
_SAID = {
    "No space left on device": _FULL,
    "max_temp_directory_size": _FULL,
    "Could not write file": _FULL,
    "No files found": _GONE,
    "No such file": _GONE,
    "Permission denied": "this user may not read one of its files; allow it, or name another",
    "GZIP": _DAMAGED,
    "TProtocolException": _DAMAGED,
    "schema mismatch": _UNLIKE,
    "failed to cast column": _UNLIKE,
    "Timestamp(MS)": (
        "a time in milliseconds lies beyond 290,000 years, which DuckDB does not read; write times in microseconds"
    ),
    "Expected Number of Columns": (
        "every row of a CSV file needs as many fields as its header; quote fields that hold commas, and complete short "
        "rows"
    ),
    "unterminated quote": (
        "every quote in a CSV file must be closed at the end of its field, and all lines must end alike; export it anew"
    ),
    "not utf-8 encoded": "a CSV file must be UTF-8 text; save it as UTF-8",
    "Maximum line size": "a line of a CSV file is too long, or a quote in it is not closed; export it anew",
    "invalid state": "all lines of a CSV file must end alike, by \\n or by \\r\\n; export it anew",
}
"""By words that DuckDB says, of errors whose type does not tell; the first that are found."""
_NAMED = {
    "TableNotFound": _NO_TABLE,
    "IOException": f"a file cannot be read or written; check the disk and its room, {_AGAIN}",
    "OutOfMemoryException": f"the work does not fit the memory that is allowed; give a larger memory_mb, {_AGAIN}",
    "BinderException": _UNLIKE,
    "InvalidInputException": _DAMAGED,
    "ConversionException": "a cell cannot be read as its column's kind; correct it, or export the files anew",
    "HTTPException": "files are read from disks only; copy them here",
    "FatalException": _FAILED,
    "InternalException": _FAILED,
    "Py4JNetworkError": _LOST,
}
_LOGGERS = ("psycopg", "py4j")
_INTERRUPTED = "Query interrupted"
"""DuckDB's error of Ctrl-C: a RuntimeError."""


@dataclass
class _Silence:
    """The number of silent blocks now, and the levels of the drivers' loggers that the first of them found."""

    n_blocks: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_silence = _Silence()


@contextmanager
def told(shown: str) -> Iterator[None]:
    """A block whose backend's errors end in one sentence."""
    reason = None
    try:
        with silent():
            yield
    except _roots() as error:
        reason = _reason(error)
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None
    if reason is None:
        return
    kind = PlaceError if _AGAIN in reason else TableError
    refused = kind(f"the table at {shown!r} cannot be read where it is stored: {reason}")
    try:
        raise refused from None
    finally:
        # A block's own error is the context of what is raised at its end, and its text may be a cell.
        refused.__context__ = None


def each_told(items: Iterator[Item], shown: str) -> Iterator[Item]:
    """The same items, each asked of the backend within `told`: what is done between them is the caller's own."""
    while some := _next(items, shown):
        yield from some


def _next(items: Iterator[Item], shown: str) -> list[Item]:
    with told(shown):
        return list(islice(items, 1))


@contextmanager
def silent() -> Iterator[None]:
    """A block in which drivers log nothing: they log who connects, queries and answers.

    Blocks may overlap and end in any order; with the last one the levels are those that the first one found.
    """
    with _silence.lock:
        if _silence.n_blocks == 0:
            _silence.levels = {name: logging.getLogger(name).level for name in _LOGGERS}
            _set_levels(dict.fromkeys(_LOGGERS, logging.CRITICAL + 1))
        _silence.n_blocks += 1
    try:
        yield
    finally:
        with _silence.lock:
            _silence.n_blocks -= 1
            if _silence.n_blocks == 0:
                _set_levels(_silence.levels)


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _roots() -> tuple[type[BaseException], ...]:
    named = (root.split(":") for root in _ERRORS)
    return tuple(getattr(importlib.import_module(module), name) for module, name in named if module in sys.modules)


def _reason(error: BaseException) -> str:
    kind, origin = type(error).__name__, type(error).__module__.split(".")[0]
    if origin == "psycopg":
        return _of_a_server(error)
    if isinstance(error, ConnectionError):
        return _LOST
    said = str(error) if origin in ("duckdb", "_duckdb") else ""
    known = (reason for words, reason in _SAID.items() if words in said)
    return next(known, _NAMED.get(kind, f"the backend refused it ({kind}); check the table there"))


def _of_a_server(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    if type(error).__name__ == "ProgrammingError" and state is None:
        return "the driver does not know a parameter of the address; correct it"
    if state is None:
        # The driver names the connection in errors of connecting alone; it has no SQLSTATE in others where the network
        # or the server is gone.
        connecting = getattr(error, "pgconn", None) is not None or type(error).__name__ == "ConnectionTimeout"
        return _UNREACHED if connecting else _LOST
    known = (_POSTGRES[key] for key in (state, state[:2]) if key in _POSTGRES)
    return next(known, f"the server refused the query (SQLSTATE {state}); ask whoever runs it")
