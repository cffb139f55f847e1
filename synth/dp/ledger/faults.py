"""What goes wrong with a database, as one sentence that quotes nothing of the address or of the driver's message."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from synth.dp.ledger.address import Address
from synth.errors import LedgerError

_AGAIN = "then try again: the same token counts once"
_SQLITE = {
    sqlite3.SQLITE_BUSY: f"others kept it locked for too long; let them end, {_AGAIN}",
    sqlite3.SQLITE_LOCKED: f"others kept it locked for too long; let them end, {_AGAIN}",
    sqlite3.SQLITE_FULL: f"its disk is full; make room there, {_AGAIN}",
    sqlite3.SQLITE_READONLY: "it may not be written; change the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the name and the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "it cannot be opened; check the name and the permissions of the file and its folder",
    sqlite3.SQLITE_AUTH: "it cannot be opened; check the name and the permissions of the file and its folder",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "its file is damaged; restore a copy that is whole",
    sqlite3.SQLITE_IOERR: f"its disk failed to read or write; check it, {_AGAIN}",
    sqlite3.SQLITE_CONSTRAINT: "its database forbids the entry; only add to a ledger through this project",
}
_POSTGRES = {
    "28": "the server does not let this user in; check user and password",
    "3D": "the server has no such database; create it first",
    "42501": "this user may not read or write it; grant SELECT and INSERT, and CREATE for opening the first total",
    "53100": f"the server's disk is full; make room there, {_AGAIN}",
    "53": f"the server has no room for another connection; wait, {_AGAIN}",
    "55P03": f"others kept it locked for too long; let them end, {_AGAIN}",
    "57": f"the server was stopped or ended the request; start it, {_AGAIN}",
    "25006": "the server takes no writes; name the primary server",
    "23": "its database forbids the entry; only add to a ledger through this project",
}
_UNREACHED = f"the server cannot be reached or refused user or password; check address, user and server, {_AGAIN}"


@contextmanager
def told(address: Address) -> Iterator[None]:
    """A block whose database errors end in one sentence.

    Raises:
        LedgerError: the database failed; its transaction is undone, except that of a server that went away while it
            was confirming one.
    """
    reason = ""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        reason = _reason(error)
    except UnicodeDecodeError:  # SQLite's own message quotes names and statements of a damaged file
        reason = _SQLITE[sqlite3.SQLITE_CORRUPT]
    if reason:
        raise LedgerError(f"the ledger at {address.shown!r} cannot be used: {reason}") from None


def _reason(error: Exception) -> str:
    cause: Any = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        # The low byte is the kind; the others say more than the sentence does.
        return _SQLITE.get((code or 0) & 0xFF, f"SQLite refused it ({type(cause).__name__}); restore a copy that works")
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return _UNREACHED
    known = (_POSTGRES[key] for key in (state, state[:2]) if key in _POSTGRES)
    return next(known, f"the server refused it (SQLSTATE {state}); ask whoever runs the server")
