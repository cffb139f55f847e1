"""Where a ledger lies: a SQLite file or a PostgreSQL database, named by a URL whose secrets are never shown."""

import contextlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import NullPool

from synth.errors import LedgerError, MissingExtra
from synth.url import ESCAPES, MARKS, SCHEME, lacks_scheme, split

PATIENCE_S = 60.0
"""How long a job waits for others to let go of the ledger."""
CONNECT_S = 10
"""How long a PostgreSQL server has to answer."""

FORMS = 'a ledger is named by a path, by "sqlite:///path" or by "postgresql://user@host/database"'


@dataclass(frozen=True)
class Address:
    """Where a ledger lies.

    Attributes:
        url: for SQLAlchemy; may hold a password, so it is never shown.
        patience_s: how long to wait for others.
    """

    url: URL
    patience_s: float = PATIENCE_S

    def __repr__(self) -> str:
        return f"Address({self.shown})"

    @property
    def path(self) -> Path | None:
        """The SQLite file; none for a server."""
        return Path(str(self.url.database)) if self.url.drivername == "sqlite" else None

    @property
    def shown(self) -> str:
        """The address as messages may show it: without user, password and parameters, which may be secrets too."""
        if self.path is not None:
            return str(self.path)
        host, port = self.url.host or "", f":{self.url.port}" if self.url.port else ""
        return f"postgresql://{host}{port}/{self.url.database or ''}"

    def engine(self) -> Engine:
        """A fresh engine; every transaction has a connection of its own, so that processes may fork.

        Raises:
            MissingExtra: the extra `postgres` is not installed; nothing was reached.
        """
        if self.path is not None:
            engine = sa.create_engine(self.url, poolclass=NullPool, connect_args={"timeout": self.patience_s})
            sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
            return engine
        options: dict[str, Any] = {"client_encoding": "utf8"}
        if "connect_timeout" not in self.url.query:
            options["connect_timeout"] = CONNECT_S
        missing = MissingExtra(
            "a PostgreSQL ledger needs the extra `postgres`, which is not installed; install this project with it "
            "(`pip install '.[postgres]'` in its checkout)"
        )
        if importlib.util.find_spec("psycopg") is None:
            raise missing
        try:
            # What is read under the lock must be newer than the lock: a database may set another isolation by default.
            return sa.create_engine(
                self.url, poolclass=NullPool, connect_args=options, isolation_level="READ COMMITTED"
            )
        except ImportError:  # psycopg without the library it speaks through
            raise missing from None


def parsed(text: str, patience_s: float = PATIENCE_S) -> Address:
    """The address that a text names.

    Args:
        text: a path or a URL.
        patience_s: how long to wait for others.

    Raises:
        LedgerError: it names neither a file nor a PostgreSQL database; nothing was opened.

    >>> parsed("postgresql://ann:secret@db.example/books?password=x")
    Address(postgresql://db.example/books)
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
    if split(text) is None:
        raise LedgerError(
            f"the ledger's address cannot be read; {FORMS}, where {ESCAPES}, and no database whose name holds one of "
            f"{MARKS} is taken"
        )
    return Address(_parts("postgresql" + text[len(scheme) :]).set(drivername="postgresql+psycopg"), patience_s)


def _file(path: str, patience_s: float, has_more: bool = False) -> Address:
    if has_more or not path or path.startswith((":memory:", "file:")):
        raise LedgerError(f"a ledger outlives its process: it needs a plain file; {FORMS}")
    return Address(URL.create("sqlite", database=path), patience_s)


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
