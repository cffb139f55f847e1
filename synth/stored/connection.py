"""Connections to stored tables: the embedded DuckDB, the few questions that are put, and answers of any size.

Answers come as a whole, or some rows at a time. A server that stays silent is given up after a while, so that nothing
waits for ever. The folder of the embedded engine holds real rows. It is removed when the block ends, and where the
process was killed in between, by the next one that starts: a folder whose lock is free has no owner any more.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import sqlglot.expressions as sge
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from synth.errors import PlaceError
from synth.stored.errors import each_told, told
from synth.stored.sql_functions import may_have_temporary_tables

MEMORY_MB = 1_500
"""Memory of the embedded engine; the rest goes to its folder."""
PREFIX, LOCK = "understudy-", "lock"
CATALOG = "understudy_work"
"""The name of its own database: tables written there are compressed, as a database's temporary ones are not."""
_WORK, _HELD = f"{CATALOG}.duckdb", "held"
_OPTIONS = {
    "storage_compatibility_version": "latest",  # texts are written in a third less time, and read in a quarter less
    "perfect_ht_threshold": 20,  # up to 2**20 cells are counted in an array; by default 2**12
}


@contextmanager
def embedded(*, memory_mb: int = MEMORY_MB, threads: int | None = None) -> Iterator[Any]:
    """Ibis's connection to an engine of its own, as long as the block lasts."""
    with work_folder() as folder:
        options: dict[str, Any] = {"memory_limit": f"{memory_mb}MB", "temp_directory": str(folder), **_OPTIONS}
        options |= {} if threads is None else {"threads": threads}
        connection = ibis.duckdb.connect(folder / _WORK, **options)
        try:
            yield connection
        finally:
            connection.con.interrupt()  # a query that Ctrl-C has left behind goes on, and closing waits for it
            connection.disconnect()


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for real rows beside the system's temporary files, as long as the block lasts; orphans are removed."""
    _remove_orphans(Path(tempfile.gettempdir()))
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        reason = error.strerror
    else:
        reason = None
    if reason is not None:
        raise PlaceError(
            f"no folder can be made beside the system's temporary files ({reason}); make room there, or name another "
            "place with the environment's TMPDIR"
        )
    try:
        # Locked before it holds a row, so that a folder that holds some and is not locked has no owner.
        with FileLock(folder / LOCK):
            (folder / _HELD).touch()
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        if not _holds_rows(folder):
            continue
        try:
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except (Timeout, OSError):  # it is another's, or was removed by another in between
            continue


def _holds_rows(folder: Path) -> bool:
    """True if it is a folder of this user's that was locked once; links are not followed."""
    try:
        ours = not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
        return ours and not folder.is_symlink() and (folder / LOCK).is_file() and (folder / _HELD).is_file()
    except OSError:
        return False


_POSTGRES_TIMEOUTS = {
    "connect_timeout": "20",  # seconds
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}
"""A server may work on a query for as long as it takes, but its machine answers within a minute."""


def patient(url: str) -> str:
    """The URL of a database with limits on what its machine may leave unanswered, unless it sets its own.

    >>> patient("postgresql://db.example/clinic?connect_timeout=5").split("&")[:2]
    ['postgresql://db.example/clinic?connect_timeout=5', 'keepalives_idle=30']
    >>> patient("trino://db.example/clinic")
    'trino://db.example/clinic'
    """
    if not url.startswith(("postgres://", "postgresql://")):
        return url
    place, _, query = url.partition("?")
    return f"{place}?{urlencode(_POSTGRES_TIMEOUTS | dict(parse_qsl(query)), quote_via=quote)}"


Counted = NDArray[np.int64]
_Rows = tuple[Sequence[Any], Any]
"""Columns of codes, and how many rows have each combination."""
N_ROWS = "n_rows"
_COUNTED = sge.Count(this=sge.Star()).as_(N_ROWS, quoted=True)

_SET = "understudy_set"
"""The column that tells which of several counts a row belongs to."""


@dataclass(frozen=True, eq=False)
class StorageLocation:
    """The place where tables are stored."""

    connection: Any = field(repr=False)
    shown: str
    memory_mb: int = MEMORY_MB
    threads: int | None = None

    @property
    def backend(self) -> str:
        """Ibis's name of the backend."""
        return str(self.connection.name)

    def fetch(self, asked: ir.Table) -> Any:
        """The rows of a small answer, as an Arrow table."""
        with told(self.shown):
            return self.connection.to_pyarrow(asked)

    def number(self, asked: Any) -> int:
        """One whole number."""
        return int(self.fetch(asked.as_table()).column(0)[0].as_py())

    def counts(self, codes: ir.Table, cliques: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Iterator[Counted]:
        """Counts of rows by combination of codes in a few columns.

        Args:
            codes: *Sensitive*. Columns of whole numbers, never null.
        """
        found = self._branches(codes, cliques) if self.backend == "duckdb" else self._sets(codes, cliques)
        for clique, (columns, n_rows) in zip(cliques, found, strict=True):
            yield _filled(columns, n_rows, clique, sizes)

    def apart(self, asked: ir.Table) -> ir.Table:
        """The same rows, whose columns are worked out once however often they are named in what is asked of them.

        A code is a dozen comparisons with a place, and a place may be a long expression: written into each of them, it
        would be worked out as often, and planned for longer than the rows are read.
        """
        if self.backend == "duckdb":  # it works out alike expressions once
            return asked
        # The offset keeps PostgreSQL from writing the inner query into the outer one.
        inner = self._compiled(asked).offset(0)
        return self.connection.sql(inner.sql(self.connection.dialect), schema=asked.schema())

    def kept(self, codes: ir.Table, sizes: Iterable[int]) -> ir.Table:
        """The codes as they are read many times: written down where that is ours to do, else worked out in each scan.

        Args:
            codes: *Sensitive*. Columns of whole numbers.
        """
        if self.backend != "duckdb":
            return self.written(codes)
        narrow = {
            n: codes[n].cast("uint16" if size <= 1 << 16 else "int32")
            for n, size in zip(codes.columns, sizes, strict=True)
        }
        return self.written(codes.mutate(**narrow))

    def written(self, rows: ir.Table) -> ir.Table:
        """Rows that are read many times: written down compressed in the embedded engine's own folder, in Spark's cache,
        else as they are.

        Args:
            rows: *Sensitive*.
        """
        if not self.keeps:
            return rows
        name = ibis.util.gen_name("understudy")
        with told(self.shown):
            if self.backend == "pyspark":
                self.connection.raw_sql(sge.Cache(this=sge.to_table(name), expression=self._compiled(rows)))
                return self.connection.table(name)
            return self.connection.create_table(name, rows)

    def materialized(self, rows: ir.Table) -> ir.Table:
        """Rows that are dear to work out, written down as `written` does; also on PostgreSQL, in a temporary table.

        Only this session sees it, and it ends with it. Where the user may have none, each scan works them out again.

        Args:
            rows: *Sensitive*.
        """
        if self.backend != "postgres":
            return self.written(rows)
        may = may_have_temporary_tables(self.connection.current_catalog)
        if not self.fetch(may.name("may").as_table()).column(0)[0].as_py():
            return self.apart(rows)
        with told(self.shown):
            return self.connection.create_table(ibis.util.gen_name("understudy"), rows, temp=True)

    def forget(self, rows: ir.Table) -> None:
        """Remove rows that were written down, before the connection ends and they with it."""
        if not self.keeps:
            return
        with told(self.shown):
            if self.backend == "pyspark":
                self.connection.raw_sql(sge.Uncache(this=sge.to_table(rows.get_name()), exists=True))
                self.connection.drop_view(rows.get_name(), force=True)
            else:
                self.connection.drop_table(rows.get_name(), force=True)

    @property
    def keeps(self) -> bool:
        """True if rows can be written down there."""
        return self.backend in ("duckdb", "pyspark")

    def _compiled(self, asked: ir.Table) -> Any:
        """The query, as sqlglot has it."""
        with told(self.shown):
            return self.connection.compiler.to_sqlglot(asked)

    def _branches(self, codes: ir.Table, cliques: Sequence[Sequence[str]]) -> Iterator[_Rows]:
        """Counts of every clique, each by a grouping of its own within one query, which reads it as often.

        DuckDB counts small whole numbers in arrays, faster than it sets rows apart for several counts.
        """
        inner = self._compiled(codes).subquery("codes")
        width = max(map(len, cliques))
        branches = []
        for number, clique in enumerate(cliques):
            columns = [sge.column(name, quoted=True) for name in clique]
            padded = [*columns, *[sge.Null()] * (width - len(clique))]
            named = [column.as_(f"x{at}", quoted=True) for at, column in enumerate(padded)]
            which = sge.Literal.number(number).as_(_SET, quoted=True)
            branches.append(sge.select(which, *named, _COUNTED).from_(inner).group_by(*columns))
        query = sge.union(*branches, distinct=False) if len(branches) > 1 else branches[0]
        widest = dt.highest_precedence(codes[name].type() for clique in cliques for name in clique)
        kinds = {_SET: "int32", **{f"x{at}": widest for at in range(width)}, N_ROWS: "int64"}
        found = self.fetch(self.connection.sql(query.sql(self.connection.dialect), schema=ibis.schema(kinds)))
        sets = found.column(_SET).to_numpy()
        for number, clique in enumerate(cliques):
            rows = found.filter(pa.array(sets == number))
            yield [rows.column(f"x{at}") for at in range(len(clique))], rows.column(N_ROWS)

    def _sets(self, codes: ir.Table, cliques: Sequence[Sequence[str]]) -> Iterator[_Rows]:
        """Counts of every clique in one scan."""
        for clique, found in zip(cliques, self.in_one_scan(codes, cliques), strict=True):
            yield [found.column(name) for name in clique], found.column(N_ROWS)

    def in_one_scan(
        self, rows: ir.Table, sets: Sequence[Sequence[str]], sums: Sequence[str] = ()
    ) -> Iterator[pa.Table]:  # fmt: skip
        """Counts of rows by combination of values of a few columns, and sums of others over these rows.

        Args:
            rows: *Sensitive*. Numbers; those that are summed are never null. Rows with a null in a column that they are
                counted by are left out.
        """
        names = [name for name in rows.columns if any(name in by for by in sets)]
        inner = self._compiled(self.apart(rows.select(*names, *sums))).subquery("rows")
        columns = {name: sge.column(name, quoted=True) for name in (*names, *sums)}
        summed = [sge.Sum(this=columns[name]).as_(f"sum_{name}", quoted=True) for name in sums]
        query = sge.select(*(columns[name] for name in names), _COUNTED, *summed).from_(inner)
        tuples = [sge.Tuple(expressions=[columns[name] for name in by]) for by in sets]
        query.set("group", sge.Group(grouping_sets=[sge.GroupingSets(expressions=tuples)]))
        kinds = {name: rows[name].type() for name in names} | {N_ROWS: "int64"} | {f"sum_{n}": "float64" for n in sums}
        found = self.fetch(self.connection.sql(query.sql(self.connection.dialect), schema=ibis.schema(kinds)))
        present = np.array([found.column(name).is_valid().to_numpy() for name in names])
        for by in sets:
            # A null tells a column that is not counted by here; a row with one where it is belongs to no set.
            here = (present == np.array([name in by for name in names])[:, None]).all(axis=0)
            yield found.filter(pa.array(here)).select([*by, N_ROWS, *(f"sum_{name}" for name in sums)])


def _filled(columns: Sequence[Any], n_rows: Any, clique: Sequence[str], sizes: Mapping[str, int]) -> Counted:
    made = np.zeros([sizes[name] for name in clique], dtype=np.int64)
    made[tuple(column.to_numpy().astype(np.int64) for column in columns)] = n_rows.to_numpy()
    return made


def batches(place: StorageLocation, asked: ir.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, about so many at a time and none of the batches empty."""
    with told(place.shown):
        if place.backend == "pyspark":  # whose own batches are cut from an answer that is here as a whole
            found = _of_partitions(place, asked, n_rows)
        else:
            found = _first_drawn(iter(place.connection.to_pyarrow_batches(asked, chunk_size=n_rows)))
    yield from (batch for batch in each_told(found, place.shown) if batch.num_rows)


def _first_drawn(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, of which the first is there: with it comes DuckDB's warning of how Ibis asks for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        first = list(islice(found, 1))
    return chain(first, found)


def _of_partitions(place: StorageLocation, asked: ir.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
    """One partition after the other."""
    rows = place.connection.raw_sql(place.connection.compile(asked)).toLocalIterator()
    kinds = asked.schema().to_pyarrow()
    while some := list(islice(rows, n_rows)):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), kinds.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=kinds)
