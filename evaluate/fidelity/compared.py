"""What fidelity asks of the rows it compares: counts and sums by group, from memory or from where a table is stored."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from evaluate.fidelity.lines import AnyLine, Counted, Grid
from evaluate.intervals import Rate
from synth.domain import Attribute

Clique = tuple[int, ...]
"""Columns that are counted together, by their number among the attributes."""


class CodedRows(Protocol):
    """Rows as codes of some attributes."""

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        """How many rows of each group have each combination of codes; each of shape (n_groups, product of sizes)."""

    def products(self) -> np.ndarray:
        """Moments of all pairs of numbers by group, as `evaluate.fidelity.associations.pair_moments` gives them."""

    def moments(self, columns: Sequence[int]) -> Iterator[np.ndarray]:
        """Moments of all numbers by the codes of each of these columns, as `associations.moments` gives them."""

    def close(self) -> None:
        """Remove what was written down to count it."""


class Rows(Protocol):
    """Rows of one table in seeded order, each in a group of the half-samples, whole entities together.

    Columns are numbered from 0 in the order of the schema's learned ones.
    """

    @property
    def n_rows(self) -> int:
        """How many there are."""

    @property
    def n_groups(self) -> int:
        """Of how many groups: 16, or 1 where there are too few rows for an interval."""

    def n_values(self) -> Mapping[str, int]:
        """Distinct places of each number or time; more of them where no column can have `lines.MAX_VALUES`."""

    def lines(self, grids: Mapping[str, Grid | None]) -> Mapping[str, AnyLine]:
        """Values of numbers and times by group: in the cells of a grid, or place by place where there is none."""

    def grid(self, name: str) -> Grid:
        """Cells in which a number or time is counted whose places are too many."""

    def counted(self) -> Mapping[str, Counted]:
        """What quantiles of each number or time are taken of: places and their counts, only some where too many."""

    def missing(self) -> Mapping[str, Rate]:
        """The share of missing values of each column; rows of an entity that are alike count as one."""

    def coded(self, attributes: Sequence[Attribute]) -> CodedRows:
        """The rows as codes."""
