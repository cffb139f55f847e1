"""The store of a ledger: a table to which rows are added one at a time, under a lock, and never changed or removed.

It lies in a SQLite file or a PostgreSQL database, named by a URL whose secrets are never shown. SQLite: `BEGIN
IMMEDIATE` lets one writer in at a time, and a commit is on the disk when it returns. PostgreSQL: an advisory lock, held
until the transaction ends, does the first, `synchronous_commit` the second. What goes wrong with a database ends in one
sentence that quotes nothing of the address or of the driver's message.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import NullPool

from synth.dp.ledger.records import LedgerEntry
from synth.errors import LedgerError
from synth.extras import missing_extra
from synth.validation import ESCAPES, MARKS, SCHEME, lacks_scheme, split_address

PATIENCE_S = 60.0  # seconds that a job waits for others to let go of the ledger
CONNECT_S = 10  # seconds that a PostgreSQL server has to answer

FORMS = 'a ledger is named by a path, by "sqlite:///path" or by "postgresql://user@host/database"'
_AGAIN = "then try again: the same token counts once"
_BUSY = f"others kept it locked for too long; let them end, {_AGAIN}"
_SQLITE = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), _BUSY),
    sqlite3.SQLITE_FULL: f"its disk is full; make room there, {_AGAIN}",
    **dict.fromkeys(
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
        "it cannot be opened or written; check the name and the permissions of the file and its folder",
    ),
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database; name another file",
}
_POSTGRES = {
    "28": "the server does not let this user in; check user and password",
    "42501": "this user may not read or write it; grant SELECT and INSERT, and CREATE for opening the first total",
    "53": f"the server has no room for another connection or its disk is full; wait or make room, {_AGAIN}",
    "55P03": _BUSY,
    "57": f"the server was stopped or ended the request; start it, {_AGAIN}",
}
_UNREACHED = f"the server cannot be reached or refused user or password; check address, user and server, {_AGAIN}"
TABLE = "understudy_ledger"
LOCK = 0x6C6564676572  # key of the advisory lock: "ledger" in ASCII
_COLUMNS = ("seq", "time", "kind", "dataset", "unit", "token", "body", "previous", "hash")
_table = sa.Table(
    TABLE,
    sa.MetaData(),
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in _COLUMNS[1:]),
)
_SAYS = "a ledger only grows: entries are never changed or removed"
_GUARDS = {
    "sqlite": {
        f"{TABLE}_no_update": f"BEFORE UPDATE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{_SAYS}'); END",
        f"{TABLE}_no_delete": f"BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{_SAYS}'); END",
        # INSERT OR REPLACE removes a row without waking the trigger on DELETE.
        f"{TABLE}_in_order": (
            f"BEFORE INSERT ON {TABLE} WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM {TABLE}) "  # noqa: S608
            f"BEGIN SELECT RAISE(ABORT, '{_SAYS}'); END"
        ),
    },
    "postgresql": {
        f"{TABLE}_no_change": f"BEFORE UPDATE OR DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_guard()",
        f"{TABLE}_no_truncate": f"BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_guard()",
    },
}
_GUARD_FUNCTION = (
    f"CREATE FUNCTION {TABLE}_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{_SAYS}'; END $$"
)


@dataclass(frozen=True)
class LedgerAddress:
    url: URL
    patience_s: float = PATIENCE_S

    def __repr__(self) -> str:
        return f"LedgerAddress({self.shown})"

    @property
    def path(self) -> Path | None:
        """The SQLite file; `None` for a server."""
        return Path(str(self.url.database)) if self.url.drivername == "sqlite" else None

    @property
    def shown(self) -> str:
        """The address as messages may show it: without user, password and parameters, which may be secrets too."""
        if self.path is not None:
            return str(self.path)
        host, port = self.url.host or "", f":{self.url.port}" if self.url.port else ""
        return f"postgresql://{host}{port}/{self.url.database or ''}"

    def engine(self) -> Engine:
        """A fresh engine; every transaction has a connection of its own, so that processes may fork."""
        if self.path is not None:
            engine = sa.create_engine(self.url, poolclass=NullPool, connect_args={"timeout": self.patience_s})
            sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
            return engine
        options: dict[str, Any] = {"client_encoding": "utf8"}
        if "connect_timeout" not in self.url.query:
            options["connect_timeout"] = CONNECT_S
        try:
            # What is read under the lock must be newer than the lock: a database may set another isolation by default.
            return sa.create_engine(
                self.url, poolclass=NullPool, connect_args=options, isolation_level="READ COMMITTED"
            )
        except ImportError:  # no psycopg, or one without the library it speaks through
            raise missing_extra("a PostgreSQL ledger", "postgres") from None


def parsed(text: str, patience_s: float = PATIENCE_S) -> LedgerAddress:
    """The address that a text names.

    >>> parsed("postgresql://ann:secret@db.example/books?password=x")
    LedgerAddress(postgresql://db.example/books)
    """
    if not text.strip() or "\0" in text:
        raise LedgerError(f"the ledger has no name; {FORMS}")
    if "://" not in text:
        if lacks_scheme(text):
            raise LedgerError(f"the ledger's address has no scheme; {FORMS}")
        return _file(text, patience_s)
    scheme = text.partition("://")[0].lower()
    if scheme in ("sqlite", "sqlite+pysqlite"):
        url = _parts(text)
        return _file(url.database or "", patience_s, has_more=bool(url.query or url.host or url.username))
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        where = repr(scheme[:20]) if SCHEME.fullmatch(scheme) else "a place of this name"
        raise LedgerError(f"a ledger cannot lie in {where}; {FORMS}")
    if split_address(text) is None:
        raise LedgerError(
            f"the ledger's address cannot be read; {FORMS}, where {ESCAPES}, and no database whose name holds one of "
            f"{MARKS} is taken"
        )
    return LedgerAddress(_parts("postgresql" + text[len(scheme) :]).set(drivername="postgresql+psycopg"), patience_s)


def _file(path: str, patience_s: float, has_more: bool = False) -> LedgerAddress:
    if has_more or not path or path.startswith((":memory:", "file:")):
        raise LedgerError(f"a ledger outlives its process: it needs a plain file; {FORMS}")
    return LedgerAddress(URL.create("sqlite", database=path), patience_s)


def _parts(text: str) -> URL:
    url = None
    with contextlib.suppress(sa.exc.ArgumentError, ValueError):
        url = make_url(text)
    if url is None:
        raise LedgerError(f"the ledger's address cannot be read; {FORMS}, special characters in it as %XX")
    return url


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # Python's own transactions would begin too late, at the first write.
    connection.isolation_level = None
    # A damaged text must be readable, to be named.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    # FULL and, beyond it, the folder: otherwise a power cut just after a commit may bring the journal back.
    connection.execute("PRAGMA synchronous = EXTRA")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def errors_in_words(address: LedgerAddress) -> Iterator[None]:
    """A block whose database errors end in one sentence."""
    reason = ""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        reason = _reason(error)
    if reason:  # outside, so that no traceback holds the driver's message
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


class Store:
    def __init__(self, address: LedgerAddress) -> None:
        self.address = address
        self._engine = address.engine()
        self._known = False

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the table."""
        self._check_file(may_make=False)
        with errors_in_words(self.address), self._engine.begin() as connection:
            self._check_table(connection)
            self._known = True
            yield connection

    @contextmanager
    def writing(self, may_make: bool = False) -> Iterator[sa.Connection]:
        """A transaction that no other one can come between; what it added is durable when the block has ended."""
        self._check_file(may_make)
        with errors_in_words(self.address), self._engine.connect() as connection:
            writer = connection.execution_options(writes=True)
            with writer.begin():
                self._lock(writer)
                if may_make and not self._known and not sa.inspect(writer).has_table(TABLE):
                    self._make(writer)
                self._check_table(writer)
                yield writer
            self._known = True  # not before: a table that was made may have been undone

    def _check_file(self, may_make: bool) -> None:
        path = self.address.path
        if path is None:
            return
        shown, fault = repr(str(path)), ""
        try:
            if path.is_dir():
                fault = f"a ledger is a file: {shown} is a folder; name a file in it"
            elif not path.exists() and not may_make:
                fault = f"there is no ledger at {shown}; check the name, or `understudy ledger open` one"
            elif not path.absolute().parent.is_dir():
                fault = f"the folder of the ledger {shown} does not exist; create it first"
        except PermissionError:
            fault = f"the ledger {shown} cannot be opened; check the permissions of the file and its folder"
        if fault:
            raise LedgerError(fault)

    def _lock(self, connection: sa.Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET LOCAL lock_timeout = {round(self.address.patience_s * 1000)}"))
            connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})

    def _check_table(self, connection: sa.Connection) -> None:
        if self._known:
            return
        if not sa.inspect(connection).has_table(TABLE):
            raise LedgerError(
                f"there is no ledger at {self.address.shown!r}: the database has none; check the name, or `understudy "
                "ledger open` one"
            )
        columns = tuple(column["name"] for column in sa.inspect(connection).get_columns(TABLE))
        if columns != _COLUMNS:
            raise LedgerError(
                f"the table {TABLE} at {self.address.shown!r} is not a ledger of this version; name another database"
            )

    def _make(self, connection: sa.Connection) -> None:
        dialect = connection.dialect.name
        if dialect == "sqlite" and sa.inspect(connection).get_table_names():
            raise LedgerError(f"{self.address.shown!r} is the database of another program; name a file of its own")
        _table.create(connection)
        if dialect == "postgresql":
            connection.exec_driver_sql(_GUARD_FUNCTION)
        for name, rule in _GUARDS[dialect].items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {rule}")


def entries_after(connection: sa.Connection, seq: int | None = None) -> list[LedgerEntry]:
    """The entries in order, from after `seq`; all of them where it is None, whatever their number."""
    query = sa.select(_table).order_by(_table.c.seq)
    if seq is not None:
        query = query.where(_table.c.seq > seq)
    return [LedgerEntry(*row) for row in connection.execute(query)]


def entry_at(connection: sa.Connection, seq: int) -> LedgerEntry | None:
    row = connection.execute(sa.select(_table).where(_table.c.seq == seq)).one_or_none()
    return None if row is None else LedgerEntry(*row)


def add(connection: sa.Connection, entry: LedgerEntry) -> None:
    """Write one more entry, durable when its transaction ends."""
    connection.execute(_table.insert().values({name: getattr(entry, name) for name in _COLUMNS}))
