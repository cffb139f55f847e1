"""The protocol between fidelity and the rows it compares: `SampledRows`, `EncodedRows`, and the counts that they give.

Rows answer with counts and sums by group, in memory (`evaluate.fidelity.in_memory`) or where a table is stored
(`evaluate.fidelity.stored`).

Values of one column are counted on a line: place by place (`OrderedValues`) up to `MAX_VALUES` distinct ones. Beyond
that they are counted in cells of the training table (`Grid`, `CellLine`). None of these holds more than 1 in `LEVELS`
of its rows unless it is a single place; of each cell the sum of its values is known, too. Both give the same numbers
wherever the rows are. `MissingCounts` are missing values, and how alike rows of an entity are in them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from evaluate.intervals import Rate, design_effect_of_sums, replicate_groups, wilson
from synth.domain import Attribute

MAX_VALUES = 300_000
"""Distinct values of a column up to which each of them is counted."""
LEVELS = 250
"""Shares of the training rows that cells are made of where there are more."""

Counted = tuple[np.ndarray, np.ndarray]
"""Places, ascending, and how many values each holds; each of shape (n_places,)."""


@dataclass(frozen=True, eq=False)
class OrderedValues:
    """Values of one column, place by place.

    Attributes:
        values: the distinct ones, ascending; shape (n_values,).
        counts: how many rows of each group have them, shape (n_groups, n_values).
    """

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray, groups: np.ndarray, n_groups: int) -> Self:
        """The present ones of positions that are NaN where missing; both of shape (n,)."""
        present = ~np.isnan(positions)
        values, places = np.unique(positions[present], return_inverse=True)
        return cls(values, _by_group(groups[present], places, len(values), n_groups))

    @classmethod
    def of_counts(cls, values: np.ndarray, groups: np.ndarray, counts: np.ndarray, n_groups: int) -> Self:
        """From how many rows each of some groups and values has; all of shape (n_pairs,)."""
        distinct, places = np.unique(values, return_inverse=True)
        return cls(distinct, _by_group(groups, places, len(distinct), n_groups, counts).astype(np.int64))

    @property
    def is_empty(self) -> bool:
        """True without any present value."""
        return len(self.values) == 0

    @property
    def counted(self) -> Counted:
        """The values and how often they occur."""
        return self.values, self.counts.sum(axis=0)

    def deviation(self) -> np.ndarray:
        """The standard deviation, exactly 0 for one value throughout or none; shape (n_replicates,)."""
        if len(self.values) < 2:
            return np.zeros(len(replicate_groups(len(self.counts))))
        scale = max(-float(self.values[0]), float(self.values[-1]))
        scaled = self.values / scale
        centered = scaled - np.average(scaled, weights=self.counts.sum(axis=0))
        return scale * _deviation(np.array([self.counts @ centered**power for power in range(3)]))


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a line, each up to and with its upper end, and one above them all.

    Attributes:
        ends: ascending, shape (n_cells - 1,).
    """

    ends: np.ndarray

    @classmethod
    def at(cls, places: np.ndarray) -> Self:
        """Cells of single places and of all that is between them, of places in ascending order."""
        return cls(np.unique(np.concatenate([np.nextafter(places, -np.inf), places])))

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.ends) + 1

    @property
    def center(self) -> float:
        """A point near the values, so that sums of their distances to it are exact."""
        return float(self.ends[len(self.ends) // 2])

    @property
    def unit(self) -> float:
        """The unit of these distances."""
        return float(self.ends[-1] - self.ends[0]) or 1.0

    @cached_property
    def edges(self) -> np.ndarray:
        """Edges of the same cells as half-open ones [edge, next edge); shape (n_cells + 1,)."""
        return np.concatenate([[-np.inf], np.nextafter(self.ends, np.inf), [np.inf]])


@dataclass(frozen=True, eq=False)
class CellLine:
    """Values of one column by the cells of a grid.

    Attributes:
        counts: how many rows of each group lie in them, shape (n_groups, n_cells).
        sums: of their distances from the grid's center in its unit, shape (n_groups, n_cells).
        squares: of these distances, shape (n_groups,).
    """

    grid: Grid
    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray, groups: np.ndarray, n_groups: int, grid: Grid) -> Self:
        """The present ones of positions that are NaN where missing; both of shape (n,)."""
        present = ~np.isnan(positions)
        positions, groups = positions[present], groups[present]
        cells = np.searchsorted(grid.ends, positions, side="left")
        distances = (positions - grid.center) / grid.unit
        counts, sums = (_by_group(groups, cells, grid.n_cells, n_groups, weights) for weights in (None, distances))
        return cls(grid, counts, sums, np.bincount(groups, weights=distances**2, minlength=n_groups))

    @property
    def is_empty(self) -> bool:
        """True without any present value."""
        return not self.counts.any()

    def deviation(self) -> np.ndarray:
        """The standard deviation; shape (n_replicates,)."""
        return self.grid.unit * _deviation(np.array([self.counts.sum(axis=1), self.sums.sum(axis=1), self.squares]))


AnyLine = OrderedValues | CellLine


def too_many(n_values: int) -> bool:
    """True where distinct values are too many to be counted one by one."""
    return n_values > MAX_VALUES


def crossings(counts: np.ndarray) -> np.ndarray:
    """Mask of places at which the cumulated rows cross another 1 in `LEVELS` of all; shape (n_places,).

    Args:
        counts: values that each of the places holds, in ascending order; shape (n_places,).
    """
    up_to, n = np.cumsum(counts), max(int(counts.sum()), 1)
    return np.asarray(up_to * LEVELS // n != (up_to - counts) * LEVELS // n)


def some(places: np.ndarray, counts: np.ndarray) -> Counted:
    """Fewer places with as many values: those at crossings, and before each of them all since the one before.

    Args:
        places: all of them, ascending; shape (n_places,).
        counts: values that each of them holds, shape (n_places,).
    """
    chosen = crossings(counts)
    return at_crossings(places[chosen], counts[chosen], np.cumsum(counts)[chosen])


def at_crossings(places: np.ndarray, counts: np.ndarray, up_to: np.ndarray) -> Counted:
    """As `some`, from places at crossings alone.

    Args:
        places: ascending, shape (n_crossings,).
        counts: values that each of them holds, shape (n_crossings,).
        up_to: values up to and with each, shape (n_crossings,).
    """
    between = up_to - counts - np.concatenate([[0], up_to[:-1]])
    found = np.column_stack([np.nextafter(places, -np.inf), places]).ravel()
    held = np.column_stack([between, counts]).ravel()
    return found[held > 0], held[held > 0]


def _by_group(
    groups: np.ndarray, places: np.ndarray, n_places: int, n_groups: int, weights: np.ndarray | None = None
) -> np.ndarray:
    cells = groups * np.int64(n_places) + places
    return np.bincount(cells, weights, minlength=n_groups * n_places).reshape(n_groups, n_places)


def _deviation(moments: np.ndarray) -> np.ndarray:
    """From counts, sums and sums of squares by group, shape (3, n_groups)."""
    n, total, squares = moments @ replicate_groups(moments.shape[1]).T
    n = np.maximum(n, 1.0)
    return np.asarray(np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


@dataclass(frozen=True)
class MissingCounts:
    """Counts of rows that miss a column, and their spread over entities."""

    n: int
    missing: int
    sizes_squared: float
    missing_squared: float
    products: float

    @classmethod
    def of(cls, missing: np.ndarray, units: np.ndarray) -> Self:
        """From which rows miss it, and the entity of each as a code from 0; both of shape (n,)."""
        sizes = np.bincount(units).astype(np.float64)
        gone = np.bincount(units, weights=missing)
        return cls(len(units), int(missing.sum()), float(sizes @ sizes), float(gone @ gone), float(sizes @ gone))

    def rate(self) -> Rate:
        """The share with its score interval, on as many rows as tell as much, as `intervals.clustered` does."""
        sums = self.sizes_squared, self.missing_squared, self.products
        return wilson(self.missing / self.n, self.n / design_effect_of_sums(self.n, self.missing, *sums))


Clique = tuple[int, ...]
"""Columns that are counted together, by their number among the attributes."""


class EncodedRows(Protocol):
    """Rows as codes of some attributes."""

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        """Counts of each combination of codes, by group; each of shape (n_groups, product of sizes)."""

    def products(self) -> np.ndarray:
        """Moments of all pairs of numbers by group, as `evaluate.fidelity.associations.pair_moments` gives them."""

    def moments(self, columns: Sequence[int]) -> Iterator[np.ndarray]:
        """Moments of all numbers by the codes of each of these columns, as `associations.moments` gives them."""

    def close(self) -> None:
        """Remove what was written down to count it."""


class SampledRows(Protocol):
    """Rows of one table in seeded order, each in a group of the half-samples, whole entities together.

    Columns are numbered from 0 in the order of the schema's learned ones.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_groups(self) -> int:
        """Of how many groups: 16, or 1 where there are too few rows for an interval."""

    def n_values(self) -> Mapping[str, int]:
        """Distinct places of each number or time; more of them where no column can have `MAX_VALUES`."""

    def lines(self, grids: Mapping[str, Grid | None]) -> Mapping[str, AnyLine]:
        """Values of numbers and times by group: in the cells of a grid, or place by place where there is none."""

    def grid(self, name: str) -> Grid:
        """Cells in which a number or time is counted whose places are too many."""

    def counted(self) -> Mapping[str, Counted]:
        """Weighted values for quantiles of each number or time: places and counts, only some of too many."""

    def missing(self) -> Mapping[str, Rate]:
        """The share of missing values of each column; rows of an entity that are alike count as one."""

    def coded(self, attributes: Sequence[Attribute]) -> EncodedRows:
        """The rows as codes."""
