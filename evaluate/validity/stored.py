"""Validity of a synthetic table that stays where it is stored: counted there, and a few broken rows shown masked.

`Flags` are what is wrong with each row, worked out there. Whether a value of personal data has its form is told here,
of each distinct value once (`misshapen`); which rows hold such a value, there.

Of identifiers that repeat each other all but one are at fault. The choice among them differs between backends. So the
number of rows with any violation can differ where such a row breaks another rule, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluate.intervals import design_effect_of_sums, design_effect_of_units
from evaluate.stored.keys import EMBEDDED
from evaluate.tables import MetricResult, Tables
from evaluate.validity.masking import shapes
from evaluate.validity.shares import Judged, Landmarks, Law, ViolationCounts, rules_of_personal
from synth.constraints import Constraint, Unique
from synth.errors import PlaceError
from synth.personal.formats import ill_formed
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn
from synth.stored import StoredTable
from synth.stored.connection import batches, work_folder
from synth.stored.constraint_checks import Laws, placed
from synth.stored.decode import Reader
from synth.stored.errors import told
from synth.stored.violations import Looked, later, looked, own_values
from synth.table import conform
from synth.table.arrow import from_arrow
from synth.table.faults import words
from synth.table.restore_dtypes import dtype_trouble

LISTED = 5_000
"""Values that one list of a query holds."""
_BATCH = 100_000
"""Values that are fetched at once."""
_VALUE = "value"


def misshapen(table: StoredTable, texts: Any, column: Any) -> Any:
    """Mask of the rows that hold a value without the form; never null.

    In an embedded engine such values are written down, and looked up. Elsewhere a query lists them, so that their
    number is limited by what the server takes.

    Args:
        table: *Sensitive* where it is real.
    """
    wrong = _ill_formed(table, texts, column)
    if table.place.backend == EMBEDDED:
        return texts.isin(_written(table, wrong)[_VALUE]).fill_null(False)
    values = [value for batch in wrong for value in batch]
    found: Any = ibis.literal(False)
    for start in range(0, len(values), LISTED):
        found = found | texts.isin(values[start : start + LISTED]).fill_null(False)
    return found


def _ill_formed(table: StoredTable, texts: Any, column: Any) -> Iterator[list[str]]:
    """The distinct values that have not the form, read a batch at a time."""
    distinct = table.rows.select(value=texts).distinct()
    for batch in batches(table.place, distinct, _BATCH):
        values = pd.Series(batch.column(0).to_pylist(), dtype=object)
        yield values[ill_formed(values, column)].tolist()


def _written(table: StoredTable, values: Iterator[list[str]]) -> Any:
    """A table of texts in the engine that holds another."""
    place, schema, reason = table.place, pa.schema({_VALUE: pa.string()}), None
    with work_folder() as folder:
        path = folder / "values.parquet"
        try:
            with pq.ParquetWriter(path, schema) as writer:
                for some in values:
                    writer.write_table(pa.table({_VALUE: some}, schema=schema))
        except OSError as error:
            reason = error.strerror
        if reason is not None:
            raise PlaceError(
                f"values without their form cannot be written beside the system's temporary files ({reason}); make "
                "room there"
            )
        with told(place.shown):
            return place.written(place.connection.read_parquet(path))


UNIT, ANY = "unit", "any"
"""The entity of a row, and whether it has any violation."""


@dataclass(frozen=True, eq=False)
class Flags:
    """One table under judgment."""

    table: StoredTable
    schema: Schema
    laws: Laws

    @cached_property
    def looked(self) -> dict[str, Looked]:
        """The faults of every column."""
        return looked(self.table, self.schema)

    def units(self, entity: str) -> Any:
        """The entity of each row, null for a row without one."""
        return own_values(self.table.rows[entity], self.schema.columns[entity], self.laws.reader)

    @cached_property
    def rows(self) -> ir.Table:
        """Ones and zeros of every row, under short names, beside `unit`.

        By the place of a column: "m0" missing, "f0_0" each fault, "p0_0" what is wrong with a value of personal data,
        "c0" any of these faults. By the place of a constraint: "b0" broken, "n0" how many rows repeat each other, "u0"
        a fault in its columns, "l0" broken or a fault. And `any`.
        """
        asked: dict[str, Any] = {} if self.schema.entity is None else {UNIT: self.units(self.schema.entity)}
        for place, name in enumerate(self.schema.kept):
            seen = self.looked[name]
            asked[f"m{place}"] = seen.missing
            asked |= {f"f{place}_{number}": flag for number, flag in enumerate(seen.faults.values())}
            asked |= {f"p{place}_{number}": flag for number, flag in enumerate(self._misshapen(name))}
        for place, constraint in enumerate(self.schema.constraints):
            asked[f"b{place}"] = self.laws.broken(constraint)
            if isinstance(constraint, Unique):
                asked[f"n{place}"] = self.laws.repeats(constraint)
        ones = {
            key: flag if key == UNIT or key.startswith("n") else ibis.ifelse(flag, 1, 0) for key, flag in asked.items()
        }
        first = self.table.place.apart(self.table.rows.select(**ones))
        columns = {
            f"c{place}": _any([first[key] for key in asked if key.startswith((f"f{place}_", f"p{place}_"))])
            for place in range(len(self.schema.kept))
        }
        second = first.mutate(**columns)
        unread = {
            f"u{place}": _any([second[f"c{self.schema.kept.index(name)}"] for name in constraint.columns])
            for place, constraint in enumerate(self.schema.constraints)
        }
        third = second.mutate(**unread)
        broken = {f"l{place}": _any([third[f"b{place}"], third[f"u{place}"]]) for place in range(len(unread))}
        whole = _any([third[key] for key in (*columns, *unread, *(f"b{place}" for place in range(len(unread))))])
        return self.table.place.written(third.mutate(**broken, **{ANY: whole}))

    def _misshapen(self, name: str) -> list[Any]:
        """Masks of rows of a column of personal data with a value not of its form, or with a repeated unique value."""
        column = self.schema.columns[name]
        if not column.is_personal:
            return []
        cells: Any = self.table.rows[name]
        texts = self.laws.reader.present(cells if cells.type().is_string() else cells.cast("string"))
        found = [misshapen(self.table, texts, column)]
        return [*found, later(self.table, texts)] if column.unique else found


def _any(flags: list[Any]) -> Any:
    """One where one of the flags is, which are ones and zeros."""
    return ibis.greatest(*flags, 0) if flags else ibis.literal(0)


SHOWN_ROWS = 100_000
"""Rows that break a constraint, of which shapes are told, at most."""
_TIMES = "times"


def measure_stored(tables: Tables, offered: StoredTable) -> MetricResult:
    """As `validity.measure`, of all rows of a stored table."""
    schema = tables.declared
    offered.check(schema)
    reader = Reader.of(offered.place.backend, schema)
    table, places = placed(offered, reader, schema.constraints, tables.schema.columns)
    judging = _Judging(Flags(table, schema, Laws(table.rows, reader, tables.schema.columns, places)))
    faulty, laws = judging.columns, judging.laws
    judged = Judged(
        judging.tally(ANY),
        faulty,
        {name: judging.rules(name) for name, tally in faulty.items() if tally.n_broken},
        laws,
    )
    return judged.measurement(Landmarks.of(tables))


@dataclass(frozen=True, eq=False)
class _Judging:
    """One table under judgment."""

    flags: Flags

    @property
    def schema(self) -> Schema:
        """The schema, which alone says what is valid."""
        return self.flags.schema

    @property
    def table(self) -> StoredTable:
        """The table, beside places of its cells."""
        return self.flags.table

    @property
    def columns(self) -> dict[str, ViolationCounts]:
        """The rows of each column that break a rule."""
        return {name: self.tally(f"c{place}") for place, name in enumerate(self.schema.kept)}

    @property
    def laws(self) -> tuple[Law, ...]:
        """The constraints."""
        return tuple(self._law(place, constraint) for place, constraint in enumerate(self.schema.constraints))

    def tally(self, flag: str) -> ViolationCounts:
        """The rows that have a flag."""
        n_broken = self.counts[flag]
        return ViolationCounts(self.n, n_broken, self._effect(flag, n_broken))

    def rules(self, name: str) -> list[str]:
        """The rules that a column breaks, in the words of memory."""
        column, declared = self.schema.columns[name], self.schema.status == "declared"
        place = self.schema.kept.index(name)
        found = [
            words(fault, column, declared=declared)[0]
            for number, fault in enumerate(self.flags.looked[name].faults)
            if self.counts[f"f{place}_{number}"]
        ]
        known_empty = isinstance(column, CategoricalColumn) and not (column.categories or column.measure)
        if self.counts[f"m{place}"] == self.n and not known_empty:
            found.append("has missing values only")
        if name == self.schema.target and self._n_values(name) == 1:
            found.append("is the target and has one value only")
        trouble = dtype_trouble(name, column)
        found += [] if trouble is None else [trouble[0]]
        return [*found, *self._units_rule(name), *rules_of_personal(column)]

    def _n_values(self, name: str) -> int:
        return self.table.place.number(self.flags.laws.told_apart(name).nunique())

    def _units_rule(self, name: str) -> list[str]:
        n_units, entity = self.schema.n_units, self.schema.entity
        if n_units is None or entity not in (None, name):
            return []
        what = "rows" if entity is None else "entities"
        found = self.n if entity is None else self.table.place.number(self.flags.units(entity).nunique())
        return [f"has more {what} than n_units={n_units}"] if found > n_units else []

    @cached_property
    def counts(self) -> dict[str, int]:
        """Counts of rows with each flag, and "n" of all."""
        names = [name for name in self.flags.rows.columns if name != UNIT and name[:1] != "n"]
        sums = {name: self.flags.rows[name].sum().fill_null(0).cast("int64") for name in names}
        answer = self.table.place.fetch(self.flags.rows.agg(n=self.flags.rows.count(), **sums))
        return {name: int(answer.column(name)[0].as_py()) for name in ("n", *names)}

    @property
    def n(self) -> int:
        """Rows of the table."""
        return self.counts["n"]

    def _law(self, place: int, constraint: Constraint) -> Law:
        n_broken = self.counts[f"l{place}"]
        unique = isinstance(constraint, Unique)
        effect = self._effect_of_key(place) if unique else self._effect(f"l{place}", n_broken)
        found = self._shapes(constraint) if self.counts[f"b{place}"] else []
        return Law(constraint, ViolationCounts(self.n, n_broken, effect), self.counts[f"u{place}"], tuple(found))

    @cached_property
    def _moments(self) -> dict[str, int]:
        """Of rows of each entity: sums over entities of squares, and of products with the rows that have a flag."""
        names = [ANY, *(name for name in self.flags.rows.columns if name[0] in "cl")]
        sums = {name: self.flags.rows[name].sum().cast("int64") for name in names}
        units = self.flags.rows.group_by(UNIT).agg(size=self.flags.rows.count(), **sums)
        # Rows without an entity stand alone, and what holds for them is the same as for one row of any.
        stray = units[UNIT].isnull()  # noqa: PD003 (of Ibis)
        asked = {"size": ibis.ifelse(stray, units["size"], units["size"] * units["size"])}
        for name in names:
            asked[f"square_{name}"] = ibis.ifelse(stray, units[name], units[name] * units[name])
            asked[f"product_{name}"] = ibis.ifelse(stray, units[name], units[name] * units["size"])
        answer = self.table.place.fetch(units.select(**asked).agg(**{k: _total(ibis._[k]) for k in asked}))
        return {name: int(answer.column(name)[0].as_py()) for name in asked}

    def _effect(self, flag: str, n_broken: int) -> float:
        """The design effect of a flag, as rows of an entity are alike: `evaluate.intervals.design_effect`, by sums."""
        if self.schema.entity is None:
            return 1.0
        sums = (self._moments[name] for name in ("size", f"square_{flag}", f"product_{flag}"))
        return design_effect_of_sums(self.n, n_broken, *sums)

    def _effect_of_key(self, place: int) -> float:
        """The design effect of a key: rows that repeat each other are one unit, any other row is its own."""
        rows = self.flags.rows
        asked = rows.group_by(size=rows[f"n{place}"], hits=rows[f"l{place}"]).agg(times=rows.count())
        sizes, hits, times = self._three(asked)
        return design_effect_of_units(sizes, hits * sizes, times / sizes)

    def _three(self, asked: ir.Table) -> np.ndarray:
        """Columns of sizes, hits and times; shape (3, k)."""
        found = self.table.place.fetch(asked.select("size", "hits", _TIMES))
        return np.array([column.to_numpy() for column in found.columns], dtype=np.float64)

    def _shapes(self, constraint: Constraint) -> list[tuple[str, int]]:
        """The shapes of rows that break a constraint with values that columns allow, of many only some."""
        names = list(dict.fromkeys(constraint.columns))
        faults = [flag for name in names for flag in self.flags.looked[name].faults.values()]
        cells = {f"x{place}": self.table.rows[name] for place, name in enumerate(names)}
        asked = self.table.rows.select(**cells, broken=self.flags.laws.broken(constraint), unread=_or(faults))
        rows = asked.filter(asked["broken"] & ~asked["unread"]).select(*cells)
        if isinstance(constraint, Unique):  # whole groups, should they be cut off
            rows = rows.order_by(list(cells))
        found = self.table.place.fetch(rows.limit(SHOWN_ROWS + 1))
        among = f"among {SHOWN_ROWS:,} of them: " if len(found) > SHOWN_ROWS else ""
        found = found.slice(0, SHOWN_ROWS)
        frame = pd.DataFrame({name: from_arrow(found.column(key)) for key, name in zip(cells, names, strict=True)})
        alone = self.schema.model_copy(update={"columns": {name: self.schema.columns[name] for name in names}})
        seen = self.schema.model_copy(update={"columns": dict(self.flags.laws.columns)})
        if not len(frame):
            return []
        counted = shapes(conform(frame, alone, outside="clamp", part=True), constraint, seen)
        return [(among + shape, n) for shape, n in counted]


def _total(numbers: Any) -> Any:
    return numbers.sum().fill_null(0).cast("int64")


def _or(flags: list[Any]) -> Any:
    found: Any = ibis.literal(False)
    for flag in flags:
        found = found | flag
    return found
