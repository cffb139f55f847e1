"""The rows that fidelity compares with the training table: equally many of each, in groups for half-samples.

So small-sample bias is the same for synthetic, fresh and shuffled rows, and cancels in differences. Of tables larger
than `Real.n_rows` a sample is taken. Shuffled rows are the training rows in their seeded order, each column moved along
it by an offset of its own, around the end.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from evaluate.intervals import N_GROUPS, WITHOUT, blended, jackknife, replicate_groups
from evaluate.result import Estimate
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
    """Rows of a table in a seeded order, of which each column is read once."""

    rows: pd.DataFrame  # *Sensitive*. Canonical, shape (n_rows, columns)
    units: np.ndarray  # entity of each row, or a number of its own, from 0 in the order of first appearance
    schema: Schema
    _read: dict[str, np.ndarray] = field(default_factory=dict, init=False)
    _counted: dict[tuple[str, int], Counted] = field(default_factory=dict, init=False)

    @classmethod
    def drawn(cls, rows: pd.DataFrame, order: np.ndarray, tables: Tables) -> Self:
        """The rows of a table in an order, no more than are to be compared."""
        order = order[: tables.n_rows]
        units = pd.factorize(entity_codes(rows, tables.schema)[order])[0]
        return cls(rows.iloc[order].reset_index(drop=True), units, tables.schema)

    def moved(self, offsets: Mapping[str, int]) -> "SeededTable":
        """The same rows with each learned column moved along them, around the end; entities stay where they are."""
        n = len(self.units)
        rows = {
            str(name): column.take((np.arange(n) + offsets.get(str(name), 0)) % n).reset_index(drop=True)
            for name, column in self.rows.items()
        }
        result = SeededTable(pd.DataFrame(rows), self.units, self.schema)
        result._read.update({name: np.roll(self.read(name, n), -offset) for name, offset in offsets.items()})
        return result

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.learned if not self.schema.columns[name].is_categorical)

    def read(self, name: str, n_rows: int) -> np.ndarray:
        """Places of the first rows' cells on the line, NaN where missing; or the cells of their categories."""
        if len(self._read.get(name, ())) < n_rows:
            column: Any = self.schema.columns[name]
            cells = self.rows[name].iloc[:n_rows]
            if column.is_categorical:
                n_cells = len(column.levels) + 2
                attribute = Attribute(name, column, None, np.arange(n_cells), np.ones(n_cells))
                self._read[name] = attribute.cells(cells)
            else:
                self._read[name] = column.positions(cells)
        return self._read[name][:n_rows]

    def counted(self, name: str, n_rows: int) -> Counted:
        """The distinct places of a number or time in the first rows, and how many values each holds."""
        if (name, n_rows) not in self._counted:
            read = self.read(name, n_rows)
            self._counted[name, n_rows] = np.unique(read[~np.isnan(read)], return_counts=True)
        return self._counted[name, n_rows]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The first rows of a table, whole entities together in a group of the half-samples."""

    table: SeededTable  # *Sensitive*
    n_rows: int
    n_groups: int

    @cached_property
    def rows(self) -> pd.DataFrame:
        """*Sensitive*. Canonical, shape (n_rows, columns)."""
        return self.table.rows.iloc[: self.n_rows]

    @property
    def units(self) -> np.ndarray:
        return self.table.units[: self.n_rows]

    @property
    def n_units(self) -> int:
        return int(self.units.max()) + 1

    @cached_property
    def groups(self) -> np.ndarray:
        """The half-sample group of each row, in [0, n_groups)."""
        return self.units % self.n_groups

    @cached_property
    def numbers(self) -> np.ndarray:
        """Numbers and times, standardized, NaN where missing; shape (n_rows, d_numbers)."""
        values = np.empty((self.n_rows, len(self.table.numbers)), order="F")
        for index, name in enumerate(self.table.numbers):
            values[:, index] = self.table.read(name, self.n_rows)
        return standardized(values)

    def lines(self) -> Mapping[str, OrderedValues]:
        """Values of numbers and times by group."""
        read = {name: self.table.read(name, self.n_rows) for name in self.table.numbers}
        return {name: OrderedValues.of(values, self.groups, self.n_groups) for name, values in read.items()}

    def counted(self) -> Mapping[str, Counted]:
        return {name: self.table.counted(name, self.n_rows) for name in self.table.numbers}

    def coded(self, attributes: Sequence[Attribute]) -> "EncodedRows":
        codes = np.empty((self.n_rows, len(attributes)), dtype=np.int64, order="F")
        for index, attribute in enumerate(attributes):
            read = self.table.read(attribute.name, self.n_rows)
            codes[:, index] = attribute.group[read if attribute.edges is None else attribute.cells_at(read)]
        return EncodedRows(codes, tuple(attributes), self)


def standardized(positions: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, constant ones exactly 0; NaN where missing; shape as given, (n, d)."""
    scaled = np.full(positions.shape, np.nan)
    for index, column in enumerate(positions.T):
        present = np.flatnonzero(~np.isnan(column))
        if len(present) == 0:
            continue
        values = column[present] - column[present[0]]  # exactly 0 for a constant column, whatever its size
        values = values / max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
        values = values - values.mean()
        deviation = float(values.std())
        scaled[present, index] = values / deviation if deviation > 0 else 0.0
    return scaled


@dataclass(frozen=True, eq=False)
class EncodedRows:
    codes: np.ndarray  # *Sensitive*. Shape (n_rows, d)
    attributes: tuple[Attribute, ...]
    rows: SampledRows  # *Sensitive*

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        """Counts of the codes of each clique by group, shape (n_groups, n_cells)."""
        n_groups, before, leading = self.rows.n_groups, None, self.rows.groups
        for clique in cliques:
            if clique[:-1] != before:  # cliques that begin alike follow each other
                before, leading = clique[:-1], self.rows.groups
                for i in before:
                    leading = leading * self.attributes[i].size + self.codes[:, i]
            cells = leading * self.attributes[clique[-1]].size + self.codes[:, clique[-1]]
            n_cells = math.prod(self.attributes[i].size for i in clique)
            yield np.bincount(cells, minlength=n_groups * n_cells).reshape(n_groups, n_cells)


SYNTHETIC, FRESH, SHUFFLED = 0, 1, 2  # Order of the landmarks in every array that has one entry for each


@dataclass(frozen=True, eq=False)
class Samples:
    train: SampledRows  # *Sensitive*
    others: tuple[SampledRows, ...]  # *Sensitive*. Of synthetic, fresh and shuffled rows
    n_groups: int
    n_holdout: int

    @classmethod
    def draw(cls, tables: Tables) -> "Samples":
        """The samples of one evaluation, by its seed, drawn once; they do not depend on the order of rows."""
        return tables.kept.once("samples", lambda: cls._draw(tables))

    @classmethod
    def _draw(cls, tables: Tables) -> "Samples":
        holdout = tables.holdout
        train = SeededTable.drawn(tables.train, tables.order("train"), tables)
        synthetic = SeededTable.drawn(tables.synthetic, tables.order("synthetic"), tables)
        fresh = SeededTable.drawn(holdout, tables.order("holdout"), tables)
        shuffled = train.moved(offsets(tables.schema, len(train.units), tables.seed))
        return cls._cut((train, synthetic, fresh, shuffled), len(holdout), min(len(synthetic.units), len(fresh.units)))

    @classmethod
    def _cut(cls, tables: Sequence[SeededTable], n_holdout: int, n: int) -> "Samples":
        """All training rows, and at most n of each other table."""
        limits = [len(tables[0].units), *(min(n, len(table.units)) for table in tables[1:])]
        n_units = min(SampledRows(*part, 1).n_units for part in zip(tables, limits, strict=True))
        n_groups = N_GROUPS if n_units >= N_GROUPS else 1
        train, *others = (SampledRows(*part, n_groups) for part in zip(tables, limits, strict=True))
        return cls(train, tuple(others), n_groups, n_holdout)

    def whole(self) -> "Samples":
        """All rows, as many as train has at most, not cut to one n: for figures that a small sample does not bias."""
        return self._cut([rows.table for rows in self.all], self.n_holdout, self.train.n_rows)

    @property
    def n(self) -> int:
        """Synthetic rows that are compared with the training table."""
        return self.others[SYNTHETIC].n_rows

    @property
    def all(self) -> tuple[SampledRows, ...]:
        return (self.train, *self.others)


def offsets(schema: Schema, n_rows: int, seed: int) -> Mapping[str, int]:
    """Shift of each learned column of the shuffled rows: all differ, where there are rows enough."""
    names = sorted(schema.learned)
    drawn = np.random.default_rng([seed, 12]).permutation(max(n_rows, len(names)))[: len(names)] % n_rows
    return dict(zip(names, drawn.tolist(), strict=True))


@dataclass(frozen=True)
class Distance:
    """The distance of synthetic, fresh and shuffled rows from train, on all rows and on parts of them: value, interval,
    fresh real sample and shuffled columns of a number. Lower is better.
    """

    replicates: np.ndarray  # shape (3, n_replicates), as `replicate_groups` has them
    n: int
    n_distances: int = 1  # that it is the mean of
    bound: float = 1.0  # the most that it comes to

    @classmethod
    def between(
        cls, distance: Callable[[Any, Any], np.ndarray], sides: Sequence[Any], n: int, bound: float = 1.0
    ) -> Self:  # fmt: skip
        """By the distance of two sides on each replicate, of the four that `Samples.all` has: train is the first."""
        return cls(np.array([distance(sides[0], other) for other in sides[1:]]), n, bound=bound)

    def plain(self, measure: str, *, subject: tuple[str, ...] = (), note: str = "") -> Estimate:
        return self._estimate(
            measure, self.replicates, subject, note,
            lambda value, drawn: jackknife(value, drawn[WITHOUT], bounds=(0.0, self.bound)),
        )  # fmt: skip

    def excess(
        self, measure: str, *, subject: tuple[str, ...] = (), note: str = "", landmark: int = FRESH,
        n_comparisons: int = 1,
    ) -> Estimate:  # fmt: skip
        """Its excess over that of a fresh real sample of the same size, or of shuffled columns."""
        bounds = (-self.bound, self.bound)
        return self._estimate(
            measure, self.replicates - self.replicates[landmark], subject, note,
            lambda value, drawn: blended(value, drawn, self.n_distances, bounds=bounds, n_comparisons=n_comparisons),
        )  # fmt: skip

    def _estimate(
        self, measure: str, replicates: np.ndarray, subject: tuple[str, ...], note: str,
        interval: Callable[[float, np.ndarray], tuple[float, float]],
    ) -> Estimate:  # fmt: skip
        value, fresh, shuffled = (float(number) for number in replicates[:, 0])
        low, high = None, None
        if replicates.shape[1] > 1:
            low, high = interval(value, replicates[SYNTHETIC])
        else:
            note = f"{note} Too few rows for an interval.".strip()
        return Estimate(measure, value, self.n, "lower", subject, low, high, fresh, shuffled, note)


def worst(
    measure: str, replicates: np.ndarray, n: int, names: Sequence[tuple[str, ...]], bound: float = 1.0
) -> Estimate:  # fmt: skip
    """The largest excess of many distances, (n_distances, 3, n) replicates; its interval allows for the choice."""
    position = int(np.argmax(replicates[:, SYNTHETIC, 0] - replicates[:, FRESH, 0]))
    note = f"The worst is {' and '.join(map(repr, names[position]))}."
    return Distance(replicates[position], n, bound=bound).excess(measure, note=note, n_comparisons=len(names))
