"""`validity` of a synthetic table that stays where it is stored: counted there, and a few broken rows shown masked.

Of identifiers that repeat each other all but one are at fault; which of them is not the same on every backend, so that
the number of rows with any violation can differ where such a row breaks another rule besides.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd

from evaluate.intervals import design_effect_of_sums, design_effect_of_units
from evaluate.masking import shapes
from evaluate.tables import Measurement, Tables
from evaluate.validity_flags import ANY, UNIT, Flags
from evaluate.validity_shares import Judged, Landmarks, Law, Tally, rules_of_personal
from synth.columns import CategoricalColumn
from synth.constraints import Constraint, Unique
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.constraint_checks import Laws, placed
from synth.stored.decode import Reader
from synth.table import conform
from synth.table.cells import words
from synth.table.raw_column import from_arrow
from synth.table.restore_dtypes import dtype_trouble

SHOWN_ROWS = 100_000
"""Rows that break a constraint, of which shapes are told, at most."""
_TIMES = "times"


def measure_stored(tables: Tables, offered: StoredTable) -> Measurement:
    """As `validity.measure`, of all rows of a stored table.

    Args:
        tables: the schema, and the real rows of its landmarks.
        offered: the rows to judge.

    Raises:
        TableError: a column is missing, or its type says nothing of its kind; nothing was measured.
    """
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
        tuple(name for name in offered.rows.columns if name != offered.slot),
    )
    return judged.measurement(schema, Landmarks.of(tables))


@dataclass(frozen=True, eq=False)
class _Judging:
    """One table under judgment.

    Attributes:
        flags: what is wrong with its rows.
    """

    flags: Flags

    @property
    def schema(self) -> Schema:
        """That alone says what is valid."""
        return self.flags.schema

    @property
    def table(self) -> StoredTable:
        """It, beside places of its cells."""
        return self.flags.table

    @property
    def columns(self) -> dict[str, Tally]:
        """The rows of each column that break a rule."""
        return {name: self.tally(f"c{place}") for place, name in enumerate(self.schema.kept)}

    @property
    def laws(self) -> tuple[Law, ...]:
        """The constraints."""
        return tuple(self._law(place, constraint) for place, constraint in enumerate(self.schema.constraints))

    def tally(self, flag: str) -> Tally:
        """The rows that have a flag."""
        n_broken = self.counts[flag]
        return Tally(self.n, n_broken, self._effect(flag, n_broken))

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
        found = self.n if entity is None else self.table.place.number(self.flags.units.nunique())
        return [f"has more {what} than n_units={n_units}"] if found > n_units else []

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows have each flag, and "n" of all."""
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
        return Law(constraint, Tally(self.n, n_broken, effect), self.counts[f"u{place}"], tuple(found))

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
