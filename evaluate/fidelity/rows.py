"""Rows of a table in a seeded order: each column is read once, then counted by group of the half-samples."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from evaluate.fidelity import associations
from evaluate.intervals import replicate_groups
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.domain import Attribute
from synth.schema import Schema


@dataclass(frozen=True, eq=False)
class OrderedValues:
    values: np.ndarray  # the distinct ones, ascending; shape (n_values,)
    counts: np.ndarray  # how many rows of each group have them, shape (n_groups, n_values)

    @classmethod
    def of(cls, positions: np.ndarray, groups: np.ndarray, n_groups: int) -> Self:
        """The present ones of positions that are NaN where missing; both of shape (n,)."""
        present = ~np.isnan(positions)
        values, places = np.unique(positions[present], return_inverse=True)
        cells = groups[present] * np.int64(len(values)) + places
        return cls(values, np.bincount(cells, minlength=n_groups * len(values)).reshape(n_groups, len(values)))

    @property
    def is_empty(self) -> bool:
        return len(self.values) == 0

    def deviation(self) -> np.ndarray:
        """The standard deviation, exactly 0 for one value throughout or none; shape (n_replicates,)."""
        if len(self.values) < 2:
            return np.zeros(len(replicate_groups(len(self.counts))))
        scale = max(-float(self.values[0]), float(self.values[-1]))
        scaled = self.values / scale
        centered = scaled - np.average(scaled, weights=self.counts.sum(axis=0))
        moments = np.array([self.counts @ centered**power for power in range(3)])
        n, total, squares = moments @ replicate_groups(len(self.counts)).T
        n = np.maximum(n, 1.0)
        return np.asarray(scale * np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


Clique = tuple[int, ...]  # Columns that are counted together, by their number among the attributes
Counted = tuple[np.ndarray, np.ndarray]  # Places, ascending, and how many values each holds; each of shape (n_places,)


@dataclass(frozen=True, eq=False)
class SeededTable:
    rows: pd.DataFrame  # *Sensitive*. Canonical, shape (n_rows, columns)
    # entity of each row, or a number of its own, from 0 in the order of first appearance; shape (n_rows,).
    units: np.ndarray
    schema: Schema
    # *Sensitive*. The table whose columns are moved here, and by how much each; `None` where none is.
    unmoved: "tuple[SeededTable, Mapping[str, int]] | None" = None
    _read: dict[str, np.ndarray] = field(default_factory=dict, init=False)
    _counted: dict[tuple[str, int], Counted] = field(default_factory=dict, init=False)

    @classmethod
    def drawn(cls, rows: pd.DataFrame, order: np.ndarray, tables: Tables) -> Self:
        """The rows of a table in an order, no more than are to be compared."""
        order = order[: tables.n_rows]
        units = pd.factorize(entity_codes(rows, tables.schema)[order])[0]
        return cls(rows.iloc[order].reset_index(drop=True), units, tables.schema)

    @property
    def n_rows(self) -> int:
        """Rows that may be compared at most."""
        return len(self.units)

    def n_units(self, n_rows: int) -> int:
        """Entities of the first rows, or these rows."""
        return int(self.units[:n_rows].max()) + 1

    def cut(self, n_rows: int, n_groups: int) -> "SampledRows":
        return SampledRows(self, n_rows, n_groups)

    def read(self, name: str, n_rows: int) -> np.ndarray:
        """Places of the first rows' cells on the line, NaN where missing; or the cells of their categories."""
        if len(self._read.get(name, ())) < n_rows:
            self._read[name] = self._values(name, n_rows)
        return self._read[name][:n_rows]

    def counted(self, name: str, n_rows: int) -> Counted:
        """The distinct places of a number or time in the first rows, and how many values each holds."""
        if (name, n_rows) not in self._counted:
            read = self.read(name, n_rows)
            self._counted[name, n_rows] = np.unique(read[~np.isnan(read)], return_counts=True)
        return self._counted[name, n_rows]

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.learned if not self.schema.columns[name].is_categorical)

    def _values(self, name: str, n_rows: int) -> np.ndarray:
        if self.unmoved is not None:
            table, offsets = self.unmoved
            return np.asarray(table.read(name, table.n_rows)[_places(n_rows, offsets[name], table.n_rows)])
        column: Any = self.schema.columns[name]
        cells = self.rows[name].iloc[:n_rows]
        if column.is_categorical:
            n_cells = len(column.levels) + 2
            return Attribute(name, column, None, np.arange(n_cells), np.ones(n_cells)).cells(cells)
        positions: np.ndarray = column.positions(cells)
        return positions


def moved(table: SeededTable, offsets: Mapping[str, int]) -> SeededTable:
    """The same rows with each learned column moved along them, around the end; entities stay where they are."""
    n = table.n_rows
    rows = {
        str(name): column.take(_places(n, offsets.get(str(name), 0), n)).reset_index(drop=True)
        for name, column in table.rows.items()
    }
    return SeededTable(pd.DataFrame(rows), table.units, table.schema, (table, offsets))


def _places(n_rows: int, offset: int, n: int) -> np.ndarray:
    return np.asarray((np.arange(n_rows) + offset) % n)


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The first rows of a table, whole entities together in a group of the half-samples."""

    table: SeededTable  # *Sensitive*. The table
    n_rows: int
    n_groups: int

    @cached_property
    def rows(self) -> pd.DataFrame:
        """*Sensitive*. Canonical, shape (n_rows, columns)."""
        return self.table.rows.iloc[: self.n_rows]

    @property
    def units(self) -> np.ndarray:
        """Entity of each row, or a number of its own, from 0; shape (n_rows,)."""
        return self.table.units[: self.n_rows]

    @cached_property
    def groups(self) -> np.ndarray:
        """The half-sample group of each row, in [0, n_groups), whole entities together."""
        return self.units % self.n_groups

    @cached_property
    def numbers(self) -> np.ndarray:
        """Numbers and times, standardized, NaN where missing; shape (n_rows, d_numbers)."""
        values = np.empty((self.n_rows, len(self.table.numbers)), order="F")
        for index, name in enumerate(self.table.numbers):
            values[:, index] = self._read(name)
        return associations.standardized(values)

    def lines(self) -> Mapping[str, OrderedValues]:
        """Values of numbers and times by group."""
        return {n: OrderedValues.of(self._read(n), self.groups, self.n_groups) for n in self.table.numbers}

    def counted(self) -> Mapping[str, Counted]:
        """The distinct places of each number or time, and how many values each holds."""
        return {name: self.table.counted(name, self.n_rows) for name in self.table.numbers}

    def coded(self, attributes: Sequence[Attribute]) -> "EncodedRows":
        codes = np.empty((self.n_rows, len(attributes)), dtype=np.int64, order="F")
        for index, attribute in enumerate(attributes):
            read = self._read(attribute.name)
            cells = read if attribute.edges is None else attribute.cells_at(read)
            codes[:, index] = attribute.group[cells]
        return EncodedRows(codes, tuple(attributes), self)

    def _read(self, name: str) -> np.ndarray:
        return self.table.read(name, self.n_rows)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    codes: np.ndarray  # *Sensitive*. Shape (n_rows, d)
    attributes: tuple[Attribute, ...]
    rows: SampledRows  # *Sensitive*. The rows

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        n_groups, before, leading = self.rows.n_groups, None, self.rows.groups
        for clique in cliques:
            if clique[:-1] != before:  # cliques that begin alike follow each other
                before, leading = clique[:-1], self.rows.groups
                for i in before:
                    leading = leading * self.attributes[i].size + self.codes[:, i]
            cells = leading * self.attributes[clique[-1]].size + self.codes[:, clique[-1]]
            n_cells = math.prod(self.attributes[i].size for i in clique)
            yield np.bincount(cells, minlength=n_groups * n_cells).reshape(n_groups, n_cells)
