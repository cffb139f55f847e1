"""Stored rows as `evaluate.fidelity.protocol` asks for them: nothing but counts and sums comes back.

Each drawn table is read once (`StoredSource`), as places on the line and numbers of categories: `p` is a row's place in
the seeded order, `u` its entity, `x0`, `x1`, ... are the learned columns. Where that is ours to do it is written down.
`StoredSample` are the first of these rows, and `StoredCodes` the same as codes: counts of cliques, and moments of
numbers, by group of the half-samples.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evaluate.fidelity import protocol
from evaluate.fidelity.protocol import (
    AnyLine,
    CellLine,
    Clique,
    Counted,
    Grid,
    MissingCounts,
    OrderedValues,
    at_crossings,
    too_many,
)
from evaluate.intervals import Rate
from synth.domain import Attribute
from synth.schema import Schema
from synth.stored.connection import N_ROWS, StorageLocation
from synth.stored.counts import StoredCounts
from synth.stored.decode import Reader, cell_of, code_of
from synth.stored.errors import told
from synth.stored.row_hash import POSITION, UNIT, DrawnRows
from synth.stored.sql_functions import exactly

SMALL_ROWS = 1_000_000
"""Rows of a sample that are written down on a server at most."""


@ibis.udf.scalar.builtin(name="has_database_privilege")  # type: ignore[untyped-decorator]
def _has_database_privilege(database: str, privilege: str) -> bool:  # type: ignore[empty-body]
    """True where the user has this privilege."""


@ibis.udf.scalar.builtin(name="current_setting")  # type: ignore[untyped-decorator]
def _current_setting(setting: str) -> str:  # type: ignore[empty-body]
    """Of the session."""


def kept(place: StorageLocation, rows: ir.Table, n_rows: int) -> ir.Table:
    """Rows that are read many times: written down as `StorageLocation.written` does; a sample also on PostgreSQL.

    There it is a temporary table, which only this session sees and which ends with it, where the user may have one:
    drawing a sample reads the whole table. Elsewhere the rows are drawn again in each scan.

    Args:
        rows: *Sensitive*. Few columns of numbers.
    """
    if place.backend != "postgres" or n_rows > SMALL_ROWS:
        return place.written(place.apart(rows))
    database = ibis.literal(place.connection.current_catalog)
    may = _has_database_privilege(database, "TEMP") & (_current_setting("transaction_read_only") == "off")
    if not place.fetch(may.name("may").as_table()).column(0)[0].as_py():
        return place.apart(rows)
    with told(place.shown):
        return place.connection.create_table(ibis.util.gen_name("understudy"), rows, temp=True)


def grouped(
    place: StorageLocation,
    rows: ir.Table,
    sets: Sequence[Sequence[str]],
    sums: Sequence[str] = (),
    *,
    sets_a_scan: int = 64,
) -> Iterator[pa.Table]:
    """Row counts by combination of values of a few columns, and sums of others over these rows.

    Args:
        rows: *Sensitive*. Numbers; those that are summed are never null. Rows with a null in a column that they are
            counted by are left out.
    """
    if place.backend == "duckdb":
        for by in sets:
            present = rows.filter([rows[name].notnull() for name in by])
            summed = {f"sum_{name}": present[name].sum() for name in sums}
            yield place.fetch(present.group_by(list(by)).agg(**{N_ROWS: present.count()}, **summed))
        return
    for start in range(0, len(sets), sets_a_scan):
        yield from place.in_one_scan(rows, sets[start : start + sets_a_scan], sums)


def one_row(place: StorageLocation, rows: ir.Table, asked: dict[str, Any], most: int = 400) -> dict[str, Any]:
    """A few numbers about all rows, by name: so many in one scan at most."""
    names, found = list(asked), {}
    for start in range(0, len(names), most):
        some = {name: asked[name] for name in names[start : start + most]}
        found.update(place.fetch(rows.aggregate(**some)).to_pylist()[0])
    return found


_SUMS_A_SCAN = 400


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """Stored rows as codes; the protocol is `evaluate.fidelity.protocol.EncodedRows`.

    Attributes:
        rows: *Sensitive*. The columns as they were read, and the group of each row, `g`.
    """

    place: StorageLocation
    rows: ir.Table = field(repr=False)
    attributes: tuple[Attribute, ...]
    names: Mapping[str, str]
    n_groups: int
    _written: list[ir.Table] = field(default_factory=list, init=False, repr=False)

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        """Counts of each combination of codes, by group."""
        for counts in self._counts.each([("g", *map(str, clique)) for clique in cliques]):
            yield counts.reshape(self.n_groups, -1)

    def products(self) -> np.ndarray:
        """Moments of all pairs of numbers by group."""
        rows, d = self._scaled, len(self._numbers)
        asked: dict[str, Any] = {}
        for a, b in itertools.product(range(d), repeat=2):
            first, second = rows[f"z{a}"], rows[f"z{b}"]
            if a <= b:
                asked[f"3_{a}_{b}"] = (first * second).sum()
            if a == b or not self._complete[a] or not self._complete[b]:
                both = ibis.ifelse(second.notnull(), first, ibis.null("float64"))
                asked |= {f"0_{a}_{b}": both.count(), f"1_{a}_{b}": both.sum(), f"2_{a}_{b}": (both * both).sum()}
        made = np.zeros((self.n_groups, 4, d, d))
        for some in _batches(asked):
            found = self.place.fetch(rows.group_by("g").agg(**some))
            groups = found.column("g").to_numpy()
            for name in some:
                which, a, b = map(int, name.split("_"))
                made[groups, which, a, b] = pc.fill_null(found.column(name), 0).to_numpy()
        for a, b in itertools.product(range(d), repeat=2):
            made[:, 3, a, b] = made[:, 3, min(a, b), max(a, b)]
            if self._complete[a] and self._complete[b]:
                made[:, :3, a, b] = made[:, :3, a, a]
        return made

    def moments(self, columns: Sequence[int]) -> Iterator[np.ndarray]:
        """Moments of all numbers by the codes of each of these columns."""
        rows, d = self._scaled, len(self._numbers)
        sums: dict[str, Any] = {}
        one, none = exactly(1.0), exactly(0.0)
        for b in range(d):
            z = rows[f"z{b}"]
            sums |= {f"i{b}": ibis.ifelse(z.notnull(), one, none), f"z{b}": ibis.coalesce(z, none)}
            sums[f"q{b}"] = ibis.coalesce(z * z, none)
        filled = rows.select("g", *(f"k{column}" for column in columns), **sums)
        tables = grouped(self.place, filled, [["g", f"k{column}"] for column in columns], list(sums))
        for column, found in zip(columns, tables, strict=True):
            groups, codes, _, *numbers = (found.column(i).to_numpy() for i in range(found.num_columns))
            made = np.zeros((d, 3, self.n_groups, self.attributes[column].size))
            made[:, :, groups, codes] = np.array(numbers).reshape(d, 3, -1)
            yield made

    def close(self) -> None:
        """Remove what was written down to count it."""
        while self._written:
            self.place.forget(self._written.pop())

    @cached_property
    def _counts(self) -> StoredCounts:
        coded = {str(index): self._code(attribute) for index, attribute in enumerate(self.attributes)}
        sizes = {"g": self.n_groups, **{str(index): attribute.size for index, attribute in enumerate(self.attributes)}}
        codes = self.place.kept(self.rows.select("g", **coded), sizes.values())
        self._written.append(codes)
        return StoredCounts(sizes, codes, self.place)

    @cached_property
    def _scaled(self) -> ir.Table:
        """The group of each row, codes of categories `k0`, ..., standardized numbers `z0`, ..., null where missing."""
        coded = {f"k{i}": self._code(a) for i, a in enumerate(self.attributes) if a.edges is None}
        scaled = {f"z{index}": self._standardized(name) for index, name in enumerate(self._numbers)}
        written = self.place.written(self.place.apart(self.rows.select("g", **coded, **scaled)))
        self._written.append(written)
        return written

    @property
    def _numbers(self) -> list[str]:
        return [attribute.name for attribute in self.attributes if attribute.edges is not None]

    def _code(self, attribute: Attribute) -> ir.IntegerColumn:
        return code_of(self.rows[self.names[attribute.name]], attribute)

    @cached_property
    def _about(self) -> dict[str, Any]:
        """Of each number how many are present, the least, the largest, and mean and deviation in its own unit."""
        asked = {"n_rows": self.rows.count()}
        for index, name in enumerate(self._numbers):
            x = self.rows[self.names[name]]
            scaled = x * exactly(1 / self._unit(name))
            asked |= {f"n{index}": x.count(), f"low{index}": x.min(), f"high{index}": x.max()}
            asked |= {f"mean{index}": scaled.mean(), f"deviation{index}": scaled.std(how="pop")}
        return one_row(self.place, self.rows, asked)

    @cached_property
    def _complete(self) -> list[bool]:
        """The numbers that no row misses."""
        return [self._about[f"n{index}"] == self._about["n_rows"] for index in range(len(self._numbers))]

    def _standardized(self, name: str) -> ir.FloatingColumn:
        """A number as by `associations.standardized`, but for a shift near 0 and a factor near 1."""
        index, x = self._numbers.index(name), self.rows[self.names[name]]
        low, high, mean, deviation = (self._about[f"{what}{index}"] for what in ("low", "high", "mean", "deviation"))
        if low == high or not deviation:
            return ibis.ifelse(x.isnull(), ibis.null("float64"), exactly(0.0))
        return (x * exactly(1 / self._unit(name)) - exactly(mean)) / exactly(deviation)

    def _unit(self, name: str) -> float:
        """A power of two as large as the bounds: dividing by it changes no digit, and no square overflows."""
        column: Any = next(attribute.column for attribute in self.attributes if attribute.name == name)
        largest = max(map(abs, column.ends))
        return float(2.0 ** np.clip(np.floor(np.log2(largest)), -1_000, 1_000)) if largest else 1.0


def _batches(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = list(asked)
    for start in range(0, len(names), _SUMS_A_SCAN):
        yield {name: asked[name] for name in names[start : start + _SUMS_A_SCAN]}


_VALUES_A_SCAN = 2_000_000
"""Values and groups of all columns together that one scan may bring at most, where it brings many columns."""


@dataclass(frozen=True, eq=False)
class StoredSource:
    """A drawn table, read.

    Attributes:
        read: *Sensitive*. Columns `p`, `u` and, for each learned column, `x0`, `x1`, ...
    """

    place: StorageLocation
    read: ir.Table = field(repr=False)
    schema: Schema
    n_rows: int
    n_all_units: int
    _counted: dict[tuple[str, int], Counted] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def drawn(cls, drawn: DrawnRows, schema: Schema) -> Self:
        """The rows of a table as they were drawn."""
        reader = Reader.of(drawn.place.backend, schema)
        cells = {}
        for index, name in enumerate(schema.learned):
            column: Any = schema.columns[name]
            read = reader.members if column.is_categorical else reader.places
            cells[f"x{index}"] = read(drawn.rows[name], name, column)
        rows = drawn.rows.select(p=drawn.rows[POSITION], u=drawn.rows[UNIT], **cells)
        return cls(drawn.place, kept(drawn.place, rows, drawn.n), schema, drawn.n, drawn.n_units)

    def moved(self, offsets: Mapping[str, int]) -> Self:
        """The same rows with each learned column moved along them, around the end; entities stay where they are."""
        cells = {}
        for index, name in enumerate(self.schema.learned):
            column, offset = self.read[f"x{index}"], offsets[name]
            ahead = {"order_by": [self.read["p"]]}
            after, before = column.lead(offset).over(**ahead), column.lag(self.n_rows - offset).over(**ahead)
            # Beyond either end there is nothing.
            cells[f"x{index}"] = ibis.coalesce(after, before) if offset else column
        rows = kept(self.place, self.read.select("p", "u", **cells), self.n_rows)
        return type(self)(self.place, rows, self.schema, self.n_rows, self.n_all_units)

    def n_units(self, n_rows: int) -> int:
        """Entities of the first rows, or these rows."""
        if n_rows == self.n_rows:
            return self.n_all_units
        return self.place.number(self.first(n_rows)["u"].max()) + 1

    def first(self, n_rows: int) -> ir.Table:
        """*Sensitive*. The first rows."""
        return self.read if n_rows == self.n_rows else self.read.filter(self.read["p"] < n_rows)

    def cut(self, n_rows: int, n_groups: int) -> "StoredSample":
        """The first rows, in so many groups."""
        return StoredSample(self, n_rows, n_groups, self.n_units(n_rows))

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Columns that are numbers or times, and what they are called where they are."""
        kinds = {name: self.schema.columns[name] for name in self.schema.learned}
        return {name: f"x{index}" for index, (name, column) in enumerate(kinds.items()) if not column.is_categorical}


@dataclass(frozen=True, eq=False)
class StoredSample:
    """The first rows of a stored table; the protocol is `evaluate.fidelity.protocol.SampledRows`."""

    source: StoredSource
    n_rows: int
    n_groups: int
    n_units: int

    @cached_property
    def rows(self) -> ir.Table:
        """*Sensitive*. With the group of each, `g`."""
        first = self.source.first(self.n_rows)
        return self.source.place.apart(first.mutate(g=(first["u"] % self.n_groups).cast("int16")))

    @cached_property
    def _n_values(self) -> Mapping[str, int]:
        numbers = self.source.numbers
        if not too_many(self.n_rows) or not numbers:
            return dict.fromkeys(numbers, self.n_rows)
        found = one_row(self.source.place, self.rows, {x: self.rows[x].nunique() for x in numbers.values()})
        return {name: int(found[x]) for name, x in numbers.items()}

    def n_values(self) -> Mapping[str, int]:
        """Distinct places of each number or time; more of them where no column can have `protocol.MAX_VALUES`."""
        return self._n_values

    def lines(self, grids: Mapping[str, Grid | None]) -> Mapping[str, AnyLine]:
        """Values of numbers and times by group."""
        places = [name for name, grid in grids.items() if grid is None]
        found: dict[str, AnyLine] = dict(zip(places, self._by_place(places), strict=True))
        return {name: found[name] if grid is None else self._in(grid, name) for name, grid in grids.items()}

    def grid(self, name: str) -> Grid:
        """Cells in which a number or time is counted whose places are too many."""
        return Grid.at(self._crossings(name)[0])

    def counted(self) -> Mapping[str, Counted]:
        """Weighted values for quantiles of each number or time: places and counts, only some of too many."""
        known, n_values = self.source._counted, self.n_values()
        new = [name for name in n_values if (name, self.n_rows) not in known]
        few = [name for name in new if not too_many(n_values[name])]
        numbers = self.source.numbers
        for name, found in zip(few, self._grouped([[numbers[name]] for name in few]), strict=True):
            values, counts = (found.column(i).to_numpy() for i in range(2))
            order = np.argsort(values)
            known[name, self.n_rows] = values[order], counts[order]
        for name in new:
            if name not in few:
                known[name, self.n_rows] = at_crossings(*self._crossings(name))
        return {name: known[name, self.n_rows] for name in n_values}

    def missing(self) -> Mapping[str, Rate]:
        """The share of missing values of each column."""
        schema = self.source.schema
        gone = {}
        for index, name in enumerate(schema.learned):
            x = self.rows[f"x{index}"]
            absent = x.isnull() if name in self.source.numbers else x == len(schema.columns[name].levels) + 1
            gone[f"m{index}"] = ibis.ifelse(absent, exactly(1.0), exactly(0.0))
        missed = self.rows.select("u", **gone)
        if self.n_units == self.n_rows:
            asked = {name: missed[name].sum() for name in gone}
            found = one_row(self.source.place, missed, asked)
            sums = [(n, float(self.n_rows), n, n) for n in found.values()]
        else:
            sums = self._by_unit(missed, list(gone))
        rates = (MissingCounts(self.n_rows, int(n), *rest).rate() for n, *rest in sums)
        return dict(zip(schema.learned, rates, strict=True))

    def coded(self, attributes: Sequence[Attribute]) -> StoredCodes:
        """The rows as codes."""
        places = {name: f"x{index}" for index, name in enumerate(self.source.schema.learned)}
        return StoredCodes(self.source.place, self.rows, tuple(attributes), places, self.n_groups)

    def _by_unit(self, missed: ir.Table, names: Sequence[str]) -> list[tuple[float, float, float, float]]:
        """For each column its missing values, and the sums that `MissingCounts` has."""
        units = missed.group_by("u").agg(size=missed.count().cast("float64"), **{n: missed[n].sum() for n in names})
        asked = {"sizes": (units["size"] * units["size"]).sum()}
        for name in names:
            asked |= {name: units[name].sum(), f"{name}_2": (units[name] * units[name]).sum()}
            asked[f"{name}_s"] = (units[name] * units["size"]).sum()
        found = one_row(self.source.place, units, asked)
        return [(found[n], found["sizes"], found[f"{n}_2"], found[f"{n}_s"]) for n in names]

    def _by_place(self, names: Sequence[str]) -> list[OrderedValues]:
        found = self._grouped([[self.source.numbers[name], "g"] for name in names])
        made = []
        for of in found:
            values, groups, counts = (of.column(i).to_numpy() for i in range(3))
            made.append(OrderedValues.of_counts(values, groups, counts, self.n_groups))
        return made

    def _grouped(self, sets: Sequence[Sequence[str]]) -> Any:
        a_scan = max(1, _VALUES_A_SCAN // max(self.n_rows, 1))
        return grouped(self.source.place, self.rows, sets, sets_a_scan=a_scan)

    def _in(self, grid: Grid, name: str) -> CellLine:
        x = self.source.numbers[name]
        present = self.rows.filter(self.rows[x].notnull())
        distance = (present[x] - exactly(grid.center)) / exactly(grid.unit)
        present = present.select("g", cell=cell_of(present[x], grid.edges), u=distance)
        present = present.mutate(square=present["u"] * present["u"])
        found = next(iter(grouped(self.source.place, present, [["g", "cell"]], ["u", "square"])))
        groups, cells, *numbers = (found.column(i).to_numpy() for i in range(5))
        made = np.zeros((3, self.n_groups, grid.n_cells))
        made[:, groups, cells] = numbers
        return CellLine(grid, made[0], made[1], made[2].sum(axis=1))

    def _crossings(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places that take the rows up to them over another 1 in `LEVELS`; counts there, and up to there."""
        read = self.rows.select(x=self.rows[self.source.numbers[name]])
        present = read.filter(read["x"].notnull())
        n = self.source.place.number(present.count())
        counts = present.group_by("x").agg(n=present.count())
        summed = counts.mutate(up_to=counts["n"].sum().over(order_by=counts["x"], rows=(None, 0)).cast("int64"))
        after, before = summed["up_to"] * protocol.LEVELS // n, (summed["up_to"] - summed["n"]) * protocol.LEVELS // n
        found = self.source.place.fetch(summed.filter(after != before).order_by("x"))
        x_, n_, up_to = (found.column(i).to_numpy() for i in range(3))
        return x_, n_, up_to
