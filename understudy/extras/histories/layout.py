"""The layout of histories as two tables of independent rows: the first row of each entity, and every later one.

A first row holds the number of rows of its history, too. A later one stands beside the row before it, its own place,
and the rows that are left. So a Markov chain of the first order has its exact form, and ends where it was to end. What
never falls within an entity is laid out as its gain since the row before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.constraints import FixedCombinations, Formula, Steps, Unique
from synth.domain import grid
from synth.errors import TableError
from synth.row_order import Histories
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn, RealColumn
from synth.schema.residual_schema import free_name, unordered

FIRST, LATER = "first", "later"  # the names of the two tables, in files and in statements
BEFORE, AVERAGE, GAIN = "row before", "average before", "gain"


def has_histories(schema: Schema) -> bool:
    """True if the schema names an order, and a learned column that may change from row to row."""
    return schema.order is not None and not {*schema.modeled} <= {*schema.constant_in_entity}


@dataclass(frozen=True)
class HistoryLayout:
    schema: Schema
    longest: int
    reads_domains: bool = True
    averages: bool = True

    @cached_property
    def _names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        of_columns = [f"{name}, {what}" for name in self.schema.modeled for what in (BEFORE, AVERAGE, GAIN)]
        for name in ("rows of the history", "rows left", "place in the history", *of_columns):
            names[name] = free_name(name, {*self.schema.columns, *names.values()})
        return names

    @property
    def n_rows(self) -> str:
        """The column that holds the rows of a history; the others are of rows after this one, and its place from 1."""
        return self._names["rows of the history"]

    @property
    def left(self) -> str:
        return self._names["rows left"]

    @property
    def place(self) -> str:
        return self._names["place in the history"]

    def before(self, name: str) -> str:
        return self._names[f"{name}, {BEFORE}"]

    def average(self, name: str) -> str:
        return self._names[f"{name}, {AVERAGE}"]

    def gain(self, name: str) -> str:
        return self._names[f"{name}, {GAIN}"]

    @cached_property
    def constant(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.modeled if name in self.schema.constant_in_entity)

    @cached_property
    def varying(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.modeled if name not in self.schema.constant_in_entity)

    @cached_property
    def averaged(self) -> tuple[str, ...]:
        """Varying columns whose averages over the rows before are known, too."""
        columns = ((n, self.schema.columns[n]) for n in self.varying if self.averages and n not in self.schema.growing)
        return tuple(n for n, column in columns if column.is_boolean or (column.is_number and not column.is_weight))

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Columns of a later row that are known before it is drawn: they come first."""
        before = [self.before(name) for name in self.varying]
        return (*self.constant, self.left, self.place, *before, *(self.average(name) for name in self.averaged))

    @cached_property
    def first_rows(self) -> Schema:
        columns = {name: self.schema.columns[name] for name in self.schema.learned}
        ordered = {name: column for name, column in columns.items() if name in self.schema.constant_in_entity}
        ordered |= {self.n_rows: IntegerColumn(bounds=(1, self.longest)), **columns}
        kept = [each for each in self.schema.constraints if not isinstance(each, Unique | Steps)]
        return self._schema(ordered, kept, 1)

    @cached_property
    def later_rows(self) -> Schema:
        growing, columns, entity = self.schema.growing, self.schema.columns, str(self.schema.entity)
        later: dict[str, Any] = {entity: unordered(columns[entity])}
        later |= {name: columns[name] for name in self.constant}
        later[self.left] = IntegerColumn(bounds=(0, max(self.longest - 2, 0)))
        later[self.place] = IntegerColumn(bounds=(2, max(self.longest, 2)))
        later |= {self.before(name): columns[name] for name in self.varying}
        for name in self.averaged:  # between the bounds of what it is of; none before a value that is there
            column: Any = columns[name]
            ends = (0.0, 1.0) if column.is_boolean else tuple(map(float, column.bounds))
            later[self.average(name)] = RealColumn(bounds=ends, missing=True)
        later |= {self.gain(name): self._gain_column(name) for name in self.varying if name in growing}
        later |= {name: columns[name] for name in self.varying if name not in growing}
        kept: list[Any] = [
            each
            for each in self.schema.constraints
            if not isinstance(each, Unique | Formula | Steps) and {*each.columns} <= later.keys()
        ]
        for steps in self.steps:
            pairs = tuple(steps.allowed(columns[steps.column].levels))
            rule = FixedCombinations(columns=(self.before(steps.column), steps.column), combinations=pairs)
            kept += [] if rule.determined else [rule]
        return self._schema(later, kept, max(self.schema.max_rows_per_unit - 1, 1), entity=entity)

    @property
    def steps(self) -> list[Steps]:
        """What rules out that categories follow each other: public, so that a model holds it as zeros at no cost."""
        return [each for each in self.schema.constraints if isinstance(each, Steps) and each.column in self.varying]

    @cached_property
    def drawn_alone(self) -> Schema:
        """The schema of later rows without the columns that are known before they are drawn."""
        columns = {name: column for name, column in self.later_rows.columns.items() if name not in self.known}
        kept = [each for each in self.later_rows.constraints if {*each.columns} <= columns.keys()]
        return self._schema(columns, kept, self.later_rows.max_rows_per_unit, self.schema.entity)

    def _schema(
        self, columns: Mapping[str, Any], constraints: Sequence[Any], k: int, entity: str | None = None
    ) -> Schema:
        return Schema(
            status=self.schema.status,
            # Plans take it for the signal, and rows of one unit weigh k times as much in the noise.
            n_units=None if self.schema.n_units is None else max(self.schema.n_units // k, 1),
            max_rows_per_unit=k,
            target=self.schema.target if self.schema.target in columns else None,
            sensitive=tuple(name for name in self.schema.sensitive if name in columns),
            entity=entity,
            missing_values=self.schema.missing_values,
            columns=dict(columns),
            constraints=tuple(constraints),
        ).with_missing_pairs(self.schema.missing_pairs)

    def _gain_column(self, name: str) -> Any:
        column: Any = self.schema.columns[name]
        (low, high), unit = column.ends, column.unit
        if self.reads_domains:
            kind: Any = IntegerColumn if unit is not None else RealColumn
            return kind(measure=True, measure_spikes=True)
        if unit is None:
            return RealColumn(bounds=(0.0, high - low), scale="log")
        # At least one step of its precision lies between two rows where the order names a row.
        key = {self.schema.entity, name}
        least = int(any(isinstance(each, Unique) and {*each.columns} == key for each in self.schema.constraints))
        return IntegerColumn(bounds=(least, int(np.clip(round((high - low) / unit), least, 2**62))), scale="log")

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """Pairs of columns whose codes may rule each other out: states, those before them, and the rows to come."""
        states = [each for each in self.varying if self.schema.columns[each].is_categorical]
        if name == FIRST:
            return [(self.n_rows, each) for each in states]
        return [pair for each in states for pair in ((self.before(each), each), (self.left, each))]

    def check(self, table: pd.DataFrame, histories: Histories) -> None:
        """Refuse a *sensitive* table that breaks what the schema says of an entity's rows; not for a private fit."""
        for name in (*self.constant, *self.schema.growing):
            if broken_steps(table, name, histories, self.schema).any():
                how, key = ("varies", "constant") if name in self.constant else ("falls", "nondecreasing")
                raise TableError(
                    f"column={name!r} {how} within an entity, and {key}_in_entity names it; correct the table, or take "
                    "it out there"
                )

    def taken_apart(self, table: pd.DataFrame, histories: Histories) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The first rows and the later rows of a table. `table`: *Sensitive*. In canonical form."""
        table = self._filled(table.reset_index(drop=True), histories)
        first = table.iloc[histories.rows[histories.starts]].reset_index(drop=True)
        first[self.n_rows] = whole_numbers(histories.lengths)
        now, before = histories.pairs
        rows, earlier = (table.iloc[at].reset_index(drop=True) for at in (now, before))
        places, lengths = histories.places, np.repeat(histories.lengths, histories.lengths)
        follows = np.flatnonzero(places > 1)
        later: dict[str, Any] = {str(name): rows[name] for name in rows}
        later[self.left] = whole_numbers((lengths - places)[follows])
        later[self.place] = whole_numbers(places[follows])
        later |= {self.before(name): earlier[name] for name in self.varying}
        for name in self.averaged:
            values = table[name].iloc[histories.rows].to_numpy(dtype=np.float64, na_value=np.nan)
            column = self.schema.columns[name]  # whole steps add up to the same wherever they are added
            unit = (column.unit or 1.0) if column.is_line else 1.0
            values = np.round(values / unit) if unit != 1.0 else values
            later[self.average(name)] = _averages_before(values, histories)[follows] * unit
        for name in (n for n in self.varying if n in self.schema.growing):
            growing: Any = self.schema.columns[name]
            counts = [_counts(growing.positions(each[name]), growing) for each in (rows, earlier)]
            gains = np.maximum(counts[0] - counts[1], 0)
            later[self.gain(name)] = pd.Series(gains) if growing.unit is None else whole_numbers(gains)
        return (
            pd.DataFrame({name: first[name] for name in self.first_rows.kept}, copy=False),
            pd.DataFrame({name: later[name] for name in self.later_rows.kept}, copy=False),
        )

    def _filled(self, table: pd.DataFrame, histories: Histories) -> pd.DataFrame:
        """The table with what never falls filled in where a cell could not be read, from its entity's rows alone: by
        the row before, else the least.
        """
        filled = {}
        for name in (n for n in self.schema.growing if table[n].isna().any()):
            column: Any = self.schema.columns[name]
            cells = table[name].iloc[histories.rows]
            last = pd.Series(np.arange(len(cells))).where(cells.notna().to_numpy()).groupby(histories.owners).ffill()
            ends = np.full(len(cells), column.ends[0])
            least = column.values(_counts(ends, column), np.zeros(len(cells), dtype=bool)).set_axis(cells.index)
            above = cells.iloc[last.fillna(0).astype(np.int64)].set_axis(cells.index)
            filled[name] = above.where(last.notna().to_numpy(), least).reindex(table.index)
        return table.assign(**filled)

    def grown(self, name: str, before: pd.Series, gain: pd.Series) -> tuple[pd.Series, NDArray[np.bool_]]:
        """A column that never falls after a gain, within its bounds, and whether the gain would leave these."""
        column: Any = self.schema.columns[name]
        unit, gains = column.unit, gain.to_numpy(dtype=np.float64)
        counts = _counts(column.positions(before), column) + (gains if unit is None else gains.astype(np.int64))
        outside = counts > column.ends[1] + 1e-9 if unit is None else counts * unit > column.ends[1] + unit / 2
        return column.values(counts, np.zeros(len(before), dtype=bool)), outside


def broken_steps(table: pd.DataFrame, name: str, histories: Histories, schema: Schema) -> NDArray[np.bool_]:
    """Where a column differs from the row before though it is constant, or else falls; shape (n_pairs,)."""
    now, before = histories.pairs
    if name in schema.constant_in_entity:
        codes = pd.factorize(table[name])[0]
        return np.asarray(codes[now] != codes[before])
    line = schema.columns[name].positions(table[name])
    return np.asarray(line[now] < line[before])


def step_codes(before: pd.Series, now: pd.Series, levels: Sequence[Any]) -> NDArray[np.intp]:
    """A number for each step from a category to the next, missing ones among them; shape (n,)."""
    known = pd.Index(levels)
    codes = [known.get_indexer(pd.Index(each.array)) % (len(levels) + 1) for each in (before, now)]
    return np.asarray(codes[0] * (len(levels) + 1) + codes[1])


def _counts(line: NDArray[Any], column: Any) -> NDArray[Any]:
    """Positions as whole steps of a column's precision, or as they are where it has none; shape (n,)."""
    if column.unit is None:
        return np.asarray(line)
    most = grid.LARGEST / 2  # the difference of two counts is a count, too
    steps = np.clip(np.nan_to_num(grid.ratio(line, column.unit)), -most, most)
    return np.asarray(np.round(steps).astype(np.int64))


def _averages_before(values: NDArray[np.float64], histories: Histories) -> NDArray[np.float64]:
    """The mean of the values above each row within its history, NaN where there is none; shape (n,)."""
    present = ~np.isnan(values)
    sums, counts = np.cumsum(np.where(present, values, 0.0)), np.cumsum(present)
    sums, counts = (np.concatenate([[0.0], line[:-1]]) for line in (sums, counts))
    firsts = np.repeat(histories.starts, histories.lengths)
    with np.errstate(invalid="ignore"):
        return np.asarray((sums - sums[firsts]) / (counts - counts[firsts]))


def whole_numbers(values: NDArray[Any]) -> pd.Series:
    return pd.Series(pd.arrays.IntegerArray(values.astype(np.int64), np.zeros(len(values), dtype=bool)))
