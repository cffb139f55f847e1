"""Real rows as a fit on marginals reads them: every read is a count, wherever the rows are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.columns import CategoricalColumn
from synth.domain import Attribute, Discretizer, line, magnitudes
from synth.domain.counting import CodedTable, Counts
from synth.schema import Schema
from synth.table.kinds import holds_whole_numbers

Counted = NDArray[np.int64]


class TrainingTable(Protocol):
    """*Sensitive*. Rows read cell by cell, at most k of each entity."""

    def __len__(self) -> int:
        """Number of rows."""

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """How many values are in each cell of each attribute; shapes (n_cells,)."""

    def coded(self, discretizer: Discretizer) -> Counts:
        """The rows in the codes of a discretizer."""

    def rows_per_entity(self) -> Counted:
        """How many entities have 1, 2, ..., k rows; shape (k,)."""

    def category_counts(self, name: str) -> dict[Any, int]:
        """How often each present value of a column of categories occurs."""

    def value_counts(self, name: str) -> dict[float, int]:
        """How often each present value of a number occurs: at the column's precision, within its bounds; one zero."""

    def place_counts(self, name: str, column: line.LineColumn, edges: np.ndarray) -> Counted:
        """How many present values of a number or time lie between edges, those beyond in the outermost.

        Args:
            name: of the column.
            column: with the bounds so far.
            edges: ascending, shape (n_cells + 1,).
        """


@dataclass(frozen=True, eq=False)
class HeldTable:
    """A training table that is held in memory.

    Attributes:
        rows: *Sensitive*. Conforming to the schema, contributions bounded.
        schema: what is public about them.
    """

    rows: pd.DataFrame = field(repr=False)
    schema: Schema

    def __len__(self) -> int:
        return len(self.rows)

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """How many values are in each cell of each attribute; shapes (n_cells,)."""
        for attribute in attributes:
            yield np.bincount(attribute.cells(self.rows[attribute.name]), minlength=attribute.n_cells)

    def coded(self, discretizer: Discretizer) -> CodedTable:
        """The rows in the codes of a discretizer."""
        return CodedTable(discretizer.sizes, discretizer.encode(self.rows))

    def rows_per_entity(self) -> Counted:
        """How many entities have 1, 2, ..., k rows; shape (k,)."""
        sizes = self.rows.groupby(self.schema.entity, sort=False).size().to_numpy()
        return np.bincount(sizes, minlength=self.schema.max_rows_per_unit + 1)[1:]

    def category_counts(self, name: str) -> dict[Any, int]:
        """How often each present value of a column of categories occurs."""
        column = self.schema.columns[name]
        assert isinstance(column, CategoricalColumn)
        plain: type[Any] = int if holds_whole_numbers(column) else str
        return {plain(value): int(n) for value, n in self.rows[name].dropna().value_counts().items()}

    def value_counts(self, name: str) -> dict[float, int]:
        """How often each present value of a number occurs: at the column's precision, within its bounds; one zero."""
        column: Any = self.schema.columns[name]
        places = line.positions(self.rows[name], column)
        inside = np.clip(places[~np.isnan(places)], *line.bounds(column)) + 0.0
        distinct, counts = np.unique(inside, return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist(), strict=True))

    def place_counts(self, name: str, column: line.LineColumn, edges: np.ndarray) -> Counted:
        """How many present values of a number or time lie between edges, those beyond in the outermost."""
        return magnitudes.histogram(line.positions(self.rows[name], column), edges)
