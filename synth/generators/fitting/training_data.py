"""Training data of a fit on marginals: real rows of which every read is a count, wherever the rows are.

One unit of privacy contributes a bounded number of rows: at most k of each entity, chosen by a keyed hash.

Source: bounding user contribution as in Wilson et al. 2020 (1909.01917).
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer, dp_bounds, numeric_scale
from synth.domain.counts import CodedTable, Counts
from synth.schema import Schema
from synth.split import row_keys
from synth.table.decode import holds_whole_numbers

Counted = NDArray[np.int64]


def bound_contributions(train: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table with at most `max_rows_per_unit` rows of each entity; unchanged where the unit is a row.

    The choice of an entity's rows depends on these rows alone. Each is ranked by a keyed hash of its entity, its
    content and, among equal rows, its turn. The key comes from the operating system and is forgotten. A row without an
    entity belongs to nobody whose contribution could be bounded, so it contributes nothing.

    Args:
        train: *Sensitive*. Conforming to the schema.
        schema: names the entity and k.
    """
    if schema.entity is None:
        return train
    train = train[train[schema.entity].notna()].reset_index(drop=True)
    entities = pd.factorize(train[schema.entity])[0]
    keys = row_keys(train, [name for name in schema.kept if name != schema.entity])
    turns = pd.Series(keys).groupby([entities, keys]).cumcount().to_numpy()
    secret = os.urandom(32)
    rows = zip(train[schema.entity], keys, turns, strict=True)
    hashes = np.array([_hash(secret, *row) for row in rows], dtype=np.int64)
    rank = pd.Series(hashes).groupby(entities).rank(method="first").to_numpy()
    return train[rank <= schema.max_rows_per_unit].reset_index(drop=True)


def _hash(secret: bytes, entity: object, key: object, turn: object) -> int:
    digest = hashlib.blake2b(f"{entity}\0{key}\0{turn}".encode(), digest_size=6, key=secret).digest()
    return int.from_bytes(digest, "little")


class TrainingTable(Protocol):
    """*Sensitive*. Rows read cell by cell, at most k of each entity."""

    def __len__(self) -> int:
        """Number of rows."""

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """Number of values in each cell of each attribute; shapes (n_cells,)."""

    def coded(self, discretizer: Discretizer) -> Counts:
        """The rows in the codes of a discretizer."""

    def rows_per_entity(self) -> Counted:
        """Number of entities with 1, 2, ..., k rows; shape (k,)."""

    def category_counts(self, name: str) -> dict[Any, int]:
        """Counts of the present values of a column of categories."""

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number: at the column's precision, within its bounds; one zero."""

    def place_counts(self, name: str, column: numeric_scale.LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost.

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
        schema: the public facts about them.
    """

    rows: pd.DataFrame = field(repr=False)
    schema: Schema

    def __len__(self) -> int:
        return len(self.rows)

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """Number of values in each cell of each attribute; shapes (n_cells,)."""
        for attribute in attributes:
            yield np.bincount(attribute.cells(self.rows[attribute.name]), minlength=attribute.n_cells)

    def coded(self, discretizer: Discretizer) -> CodedTable:
        """The rows in the codes of a discretizer."""
        return CodedTable(discretizer.sizes, discretizer.encode(self.rows))

    def rows_per_entity(self) -> Counted:
        """Number of entities with 1, 2, ..., k rows; shape (k,)."""
        sizes = self.rows.groupby(self.schema.entity, sort=False).size().to_numpy()
        return np.bincount(sizes, minlength=self.schema.max_rows_per_unit + 1)[1:]

    def category_counts(self, name: str) -> dict[Any, int]:
        """Counts of the present values of a column of categories."""
        column: Any = self.schema.columns[name]
        plain: type[Any] = int if holds_whole_numbers(column) else str
        return {plain(value): int(n) for value, n in self.rows[name].dropna().value_counts().items()}

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number: at the column's precision, within its bounds; one zero."""
        column: Any = self.schema.columns[name]
        places = numeric_scale.positions(self.rows[name], column)
        inside = np.clip(places[~np.isnan(places)], *numeric_scale.bounds(column)) + 0.0
        distinct, counts = np.unique(inside, return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist(), strict=True))

    def place_counts(self, name: str, column: numeric_scale.LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost."""
        return dp_bounds.histogram(numeric_scale.positions(self.rows[name], column), edges)
