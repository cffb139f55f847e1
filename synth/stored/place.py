"""A connection to where a table is stored, and the few questions that are put there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import sqlglot.expressions as sge
from numpy.typing import NDArray

from synth.stored.embedded import CATALOG
from synth.stored.faults import told

Counted = NDArray[np.int64]
_Rows = tuple[Sequence[Any], Any]
"""Columns of codes, and how many rows have each combination."""
_N_ROWS = sge.Count(this=sge.Star()).as_("n_rows", quoted=True)

_SET = "understudy_set"
"""The column that tells which of several counts a row belongs to."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where tables are stored.

    Attributes:
        connection: Ibis's.
        shown: the address as messages may show it.
    """

    connection: Any = field(repr=False)
    shown: str

    @property
    def backend(self) -> str:
        """Ibis's name of the backend."""
        return str(self.connection.name)

    def fetch(self, asked: ir.Table) -> Any:
        """The rows of a small answer, as an Arrow table.

        Raises:
            TableError: the backend failed; nothing of its message is told, which may hold cells or credentials.
        """
        with told(self.shown):
            return self.connection.to_pyarrow(asked)

    def number(self, asked: Any) -> int:
        """One whole number."""
        return int(self.fetch(asked.as_table()).column(0)[0].as_py())

    def counts(self, codes: ir.Table, cliques: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Iterator[Counted]:
        """How many rows have each combination of codes in a few columns.

        Args:
            codes: *Sensitive*. Columns of whole numbers, never null.
            cliques: columns to be counted together.
            sizes: how many codes each column has.

        Yields:
            For each clique an array of one axis for each of its columns.
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
        inner = self.connection.compiler.to_sqlglot(asked).offset(0)
        return self.connection.sql(inner.sql(self.connection.dialect), schema=asked.schema())

    def kept(self, codes: ir.Table) -> ir.Table:
        """The codes as they are read many times: written down where that is ours to do, else worked out in each scan.

        Args:
            codes: *Sensitive*. Columns of small whole numbers.
        """
        if self.backend != "duckdb":
            return self.written(codes)
        return self.written(codes.mutate(**{name: codes[name].cast("uint16") for name in codes.columns}))

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
                self.connection.raw_sql(f"CACHE TABLE {name} AS {self.connection.compile(rows)}")
                return self.connection.table(name)
            # Elsewhere than in the engine's own database nothing may stay.
            return self.connection.create_table(name, rows, temp=self.connection.current_catalog != CATALOG)

    def forget(self, rows: ir.Table) -> None:
        """Remove rows that were written down, before the connection ends and they with it.

        Args:
            rows: what `written` or `kept` gave.
        """
        if not self.keeps:
            return
        with told(self.shown):
            if self.backend == "pyspark":
                self.connection.raw_sql(f"UNCACHE TABLE IF EXISTS {rows.get_name()}")
                self.connection.raw_sql(f"DROP VIEW IF EXISTS {rows.get_name()}")
            else:
                self.connection.drop_table(rows.get_name(), force=True)

    @property
    def keeps(self) -> bool:
        """Whether rows can be written down there."""
        return self.backend in ("duckdb", "pyspark")

    def _branches(self, codes: ir.Table, cliques: Sequence[Sequence[str]]) -> Iterator[_Rows]:
        """Counts of every clique, each by a grouping of its own within one query, which reads it as often.

        DuckDB counts small whole numbers in arrays, faster than it sets rows apart for several counts.
        """
        inner = self.connection.compiler.to_sqlglot(codes).subquery("codes")
        width = max(map(len, cliques))
        branches = []
        for number, clique in enumerate(cliques):
            columns = [sge.column(name, quoted=True) for name in clique]
            padded = [*columns, *[sge.Null()] * (width - len(clique))]
            named = [column.as_(f"x{at}", quoted=True) for at, column in enumerate(padded)]
            which = sge.Literal.number(number).as_(_SET, quoted=True)
            branches.append(sge.select(which, *named, _N_ROWS).from_(inner).group_by(*columns))
        query = sge.union(*branches, distinct=False) if len(branches) > 1 else branches[0]
        kinds = {_SET: "int32", **{f"x{at}": "uint16" for at in range(width)}, "n_rows": "int64"}
        found = self.fetch(self.connection.sql(query.sql(self.connection.dialect), schema=ibis.schema(kinds)))
        sets = found.column(_SET).to_numpy()
        for number, clique in enumerate(cliques):
            rows = found.filter(pa.array(sets == number))
            yield [rows.column(f"x{at}") for at in range(len(clique))], rows.column("n_rows")

    def _sets(self, codes: ir.Table, cliques: Sequence[Sequence[str]]) -> Iterator[_Rows]:
        """Counts of every clique in one scan: a row for each combination of codes, null in the other columns."""
        names = [name for name in codes.columns if any(name in clique for clique in cliques)]
        inner = self.connection.compiler.to_sqlglot(self.apart(codes.select(*names))).subquery("codes")
        columns = {name: sge.column(name, quoted=True) for name in names}
        query = sge.select(*columns.values(), _N_ROWS).from_(inner)
        sets = [sge.Tuple(expressions=[columns[name] for name in clique]) for clique in cliques]
        query.set("group", sge.Group(grouping_sets=[sge.GroupingSets(expressions=sets)]))
        kinds = ibis.schema({**{name: codes[name].type() for name in names}, "n_rows": "int64"})
        found = self.fetch(self.connection.sql(query.sql(self.connection.dialect), schema=kinds))
        present = np.array([found.column(name).is_valid().to_numpy() for name in names])
        for clique in cliques:
            # No code is null, so that a null tells columns that are not counted here.
            here = (present == np.array([name in clique for name in names])[:, None]).all(axis=0)
            rows = found.filter(pa.array(here))
            yield [rows.column(name) for name in clique], rows.column("n_rows")


def _filled(columns: Sequence[Any], n_rows: Any, clique: Sequence[str], sizes: Mapping[str, int]) -> Counted:
    made = np.zeros([sizes[name] for name in clique], dtype=np.int64)
    made[tuple(column.to_numpy().astype(np.int64) for column in columns)] = n_rows.to_numpy()
    return made
