"""What goes wrong where a table is stored, as one sentence that quotes nothing of the address or the backend's message.

A backend's message may hold a cell that could not be read, a query, or a password.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from synth.errors import TableError

_ERRORS = (
    "duckdb:Error", "psycopg:Error", "pyspark.errors:PySparkException", "py4j.protocol:Py4JError",
    "ibis.common.exceptions:IbisError", "ibis.common.exceptions:TableNotFound",
    "sqlglot.errors:SqlglotError", "pyarrow:ArrowException",
)  # fmt: skip
"""The roots of what drivers raise, by module; looked up among those that are loaded."""
_AGAIN = "then start again: nothing was written"
_POSTGRES = {
    "28": "the server does not let this user in; check user and password",
    "3D": "the server has no such database; check the address",
    "42501": "this user may not read it; grant SELECT on the table",
    "42P01": "the database has no such table; check the name after # in the address",
    "53100": f"the server's disk is full; make room there, {_AGAIN}",
    "53": f"the server has no room for another connection or query; wait, {_AGAIN}",
    "57": f"the server was stopped or ended the query; start it, {_AGAIN}",
    "08": f"the connection was lost; check server and network, {_AGAIN}",
    "22": "a cell cannot be read there as its column's kind; correct the column, or read it through a view",
}
_UNREACHED = f"the server cannot be reached or refused user or password; check address, user and server, {_AGAIN}"
_NAMED = {
    "TableNotFound": "there is no such table; check the name after # in the address",
    "IOException": f"a file cannot be read or written; check the disk and its room, {_AGAIN}",
    "OutOfMemoryException": "it does not fit the memory that is allowed; allow more, or free some",
    "BinderException": "its columns do not fit together; export the files anew, all with the same columns",
    "InvalidInputException": "a file is none of Parquet or CSV, or is damaged; export it anew",
    "ConversionException": "a cell cannot be read as its column's kind; correct it, or export the files anew",
    "HTTPException": "files are read from disks only; copy them here",
}


@contextmanager
def told(shown: str) -> Iterator[None]:
    """A block whose backend's errors end in one sentence.

    Args:
        shown: the address as messages may show it.

    Raises:
        TableError: the backend failed; nothing was fitted or measured.
    """
    reason = None
    try:
        yield
    except _roots() as error:
        reason = _reason(error)
    if reason is not None:
        raise TableError(f"the table at {shown!r} cannot be read where it is stored: {reason}")


def _roots() -> tuple[type[BaseException], ...]:
    named = (root.split(":") for root in _ERRORS)
    return tuple(getattr(importlib.import_module(module), name) for module, name in named if module in sys.modules)


def _reason(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    if type(error).__module__.split(".")[0] == "psycopg":
        known = (_POSTGRES[key] for key in (state, (state or "")[:2]) if key in _POSTGRES)
        unknown = f"the server refused the query (SQLSTATE {state}); ask whoever runs it" if state else _UNREACHED
        return next(known, unknown)
    return _NAMED.get(type(error).__name__, f"the backend refused it ({type(error).__name__}); check the table there")
