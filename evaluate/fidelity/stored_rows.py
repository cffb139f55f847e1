"""Rows that stay where they are stored, as fidelity compares them: nothing but counts and sums comes back.

Each drawn table is read once, as places on the line and numbers of categories: `p` is a row's place in the seeded
order, `u` its entity, `x0`, `x1`, ... are the learned columns. Where that is ours to do it is written down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import ibis
import ibis.expr.types as ir
import numpy as np

from evaluate.fidelity import lines
from evaluate.fidelity.lines import AnyLine, CellLine, Counted, Grid, Line, at_crossings, too_many
from evaluate.fidelity.missing import MissingCounts
from evaluate.fidelity.stored_codes import StoredCodes
from evaluate.fidelity.stored_sums import grouped, kept, one_row
from evaluate.intervals import Rate
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import Attribute
from synth.domain.discretizer import categories
from synth.schema import Schema
from synth.stored.connection import Place
from synth.stored.decode import Reader, cell_of
from synth.stored.drawing import POSITION, UNIT, DrawnRows
from synth.stored.sql_functions import exactly

_VALUES_A_SCAN = 2_000_000
"""Values and groups of all columns together that one scan may bring at most, where it brings many columns."""


@dataclass(frozen=True, eq=False)
class StoredSource:
    """A drawn table, read.

    Attributes:
        place: where it is.
        read: *Sensitive*. Columns `p`, `u` and, for each learned column, `x0`, `x1`, ...
        schema: names the columns.
        n_rows: rows that may be compared at most.
        n_all_units: entities of all of them.
    """

    place: Place
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
            read = reader.members if isinstance(column, CategoricalColumn | BooleanColumn) else reader.places
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

    def cut(self, n_rows: int, n_groups: int) -> "StoredRows":
        """The first rows, in so many groups."""
        return StoredRows(self, n_rows, n_groups, self.n_units(n_rows))

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Columns that are numbers or times, and what they are called where they are."""
        kinds = {name: self.schema.columns[name] for name in self.schema.learned}
        return {
            name: f"x{index}"
            for index, (name, column) in enumerate(kinds.items())
            if not isinstance(column, CategoricalColumn | BooleanColumn)
        }


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The first rows of a stored table; the protocol is `evaluate.fidelity.compared.Rows`.

    Attributes:
        source: the table.
        n_rows: how many of its rows.
        n_groups: groups of the half-samples.
        n_units: entities of these rows, or these rows.
    """

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
        """Distinct places of each number or time; more of them where no column can have `lines.MAX_VALUES`."""
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
        """What quantiles of each number or time are taken of: places and their counts, only some where too many."""
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
            absent = x.isnull() if name in self.source.numbers else x == len(categories(schema.columns[name])) + 1
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

    def _by_place(self, names: Sequence[str]) -> list[Line]:
        found = self._grouped([[self.source.numbers[name], "g"] for name in names])
        made = []
        for of in found:
            values, groups, counts = (of.column(i).to_numpy() for i in range(3))
            made.append(Line.of_counts(values, groups, counts, self.n_groups))
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
        after, before = summed["up_to"] * lines.LEVELS // n, (summed["up_to"] - summed["n"]) * lines.LEVELS // n
        found = self.source.place.fetch(summed.filter(after != before).order_by("x"))
        x_, n_, up_to = (found.column(i).to_numpy() for i in range(3))
        return x_, n_, up_to
