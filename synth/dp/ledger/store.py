"""The table that holds a ledger: rows can be added one at a time, under a lock, and never be changed or removed.

SQLite: `BEGIN IMMEDIATE` lets one writer in at a time, and a commit is on the disk when it returns. PostgreSQL: an
advisory lock, held until the transaction ends, does the first, `synchronous_commit` the second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from synth.dp.ledger.address import Address
from synth.dp.ledger.entries import Entry
from synth.dp.ledger.faults import told
from synth.errors import LedgerError

TABLE = "understudy_ledger"
LOCK = 0x6C6564676572
"""Key of the advisory lock: "ledger" in ASCII."""

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


class Store:
    """Transactions on the table at an address."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine = address.engine()
        self._known = False

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the table.

        Raises:
            LedgerError: there is no ledger, or its database cannot be read; none was made.
        """
        self._check_file(may_make=False)
        with told(self.address), self._engine.begin() as connection:
            self._check_table(connection)
            self._known = True
            yield connection

    @contextmanager
    def writing(self, may_make: bool = False) -> Iterator[sa.Connection]:
        """A transaction that no other one can come between; what it added is durable when the block has ended.

        Args:
            may_make: make the file and the table where there are none.

        Raises:
            LedgerError: there is no ledger, or its database cannot be written.
        """
        self._check_file(may_make)
        with told(self.address), self._engine.connect() as connection:
            writer = connection.execution_options(writes=True)
            with writer.begin():
                self._lock(writer)
                if may_make and not self._known and not sa.inspect(writer).has_table(TABLE):
                    self._make(writer)
                self._check_table(writer)
                yield writer
            self._known = True  # not before: a table that was made may have been undone

    def guards_missing(self, connection: sa.Connection) -> tuple[str, ...]:
        """The names of the triggers that should forbid changes and are not there."""
        if connection.dialect.name == "sqlite":
            query = sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name")
            found = set(connection.execute(query, {"name": TABLE}).scalars())
        else:
            active = "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(:name) AND tgenabled IN ('O', 'A')"
            found = set(connection.execute(sa.text(active), {"name": TABLE}).scalars())
        return tuple(sorted(set(_GUARDS[connection.dialect.name]) - found))

    def _check_file(self, may_make: bool) -> None:
        path = self.address.path
        if path is None:
            return
        try:
            self._check_path(path, may_make)
        except PermissionError:
            raise LedgerError(
                f"the ledger {str(path)!r} cannot be opened; check the name and the permissions of the file and its "
                "folder"
            ) from None

    @staticmethod
    def _check_path(path: Path, may_make: bool) -> None:
        if path.is_dir():
            raise LedgerError(f"a ledger is a file: {str(path)!r} is a folder; name a file in it")
        if not path.exists() and not may_make:
            raise LedgerError(f"there is no ledger at {str(path)!r}; check the name, or `understudy ledger open` one")
        if not path.absolute().parent.is_dir():
            raise LedgerError(f"the folder of the ledger {str(path)!r} does not exist; create it first")

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


def entries_after(connection: sa.Connection, seq: int | None = None) -> list[Entry]:
    """The entries in order, from after `seq`; all of them where it is None, whatever their number."""
    query = sa.select(_table).order_by(_table.c.seq)
    if seq is not None:
        query = query.where(_table.c.seq > seq)
    return [Entry(*row) for row in connection.execute(query)]


def entry_at(connection: sa.Connection, seq: int) -> Entry | None:
    """The entry of that number."""
    row = connection.execute(sa.select(_table).where(_table.c.seq == seq)).one_or_none()
    return None if row is None else Entry(*row)


def add(connection: sa.Connection, entry: Entry) -> None:
    """Write one more entry, durable when its transaction ends."""
    connection.execute(_table.insert().values({name: getattr(entry, name) for name in _COLUMNS}))
