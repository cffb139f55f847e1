"""Training data of a fit: rows read by counts alone, and encoded rows of a network, wherever the rows are.

One unit of privacy contributes a bounded number of rows: at most k of each entity, chosen by a keyed hash. A network
also knows the unit that each row belongs to.

Source: bounding user contribution as in Wilson et al. 2020 (1909.01917).
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer, dp_bounds
from synth.domain.counts import CodedTable, Counts
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.errors import TableError
from synth.histories.layout import HistoryLayout
from synth.histories.ordering import histories_of
from synth.marginals import Measurement
from synth.marginals.measurement import estimate_total
from synth.observed import observe
from synth.schema import Schema
from synth.schema.kinds import LineColumn
from synth.split import row_keys
from synth.transforms.columns import Columns, Disk, HeldColumns, Room
from synth.transforms.layout import Encoded, Layout

if TYPE_CHECKING:
    from synth.neural.batches import UnitIndex
    from synth.stored.table import StoredRows

Counted = NDArray[np.int64]


def bound_contributions(train: pd.DataFrame, schema: Schema, *, in_order: bool = False) -> pd.DataFrame:
    """The table with at most `max_rows_per_unit` rows of each entity; unchanged where the unit is a row.

    The choice of an entity's rows depends on these rows alone. Each is ranked by a keyed hash of its entity, its
    content and, among equal rows, its turn. The key comes from the operating system and is forgotten. A row without an
    entity belongs to nobody whose contribution could be bounded, so it contributes nothing.

    Args:
        train: *Sensitive*. Conforming to the schema.
    """
    if schema.entity is None:
        return train
    if in_order:
        kept = histories_of(train, schema).first(schema.max_rows_per_unit).rows
        return train.iloc[kept].reset_index(drop=True)
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

    def place_counts(self, name: str, column: LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost.

        Args:
            edges: ascending, shape (n_cells + 1,).
        """


@dataclass(frozen=True, eq=False)
class HeldTable:
    """A training table that is held in memory.

    Attributes:
        rows: *Sensitive*. Conforming to the schema, contributions bounded.
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
        plain: type[Any] = int if column.holds_whole_numbers else str
        return {plain(value): int(n) for value, n in self.rows[name].dropna().value_counts().items()}

    def value_counts(self, name: str) -> dict[float, int]:
        """Counts of the present values of a number: at the column's precision, within its bounds; one zero."""
        column: Any = self.schema.columns[name]
        places = column.positions(self.rows[name])
        inside = np.clip(places[~np.isnan(places)], *column.ends) + 0.0
        distinct, counts = np.unique(inside, return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist(), strict=True))

    def place_counts(self, name: str, column: LineColumn, edges: np.ndarray) -> Counted:
        """Counts of the present values of a number or time between edges, those beyond in the outermost."""
        return dp_bounds.histogram(column.positions(self.rows[name]), edges)


@dataclass(frozen=True)
class Owned:
    """Whose the rows of a table are, where the unit is an entity.

    Attributes:
        entities: *Sensitive*. The entity of each row, shape (n,).
        first_row: *Sensitive*. Where the rows of each entity start, of rows that stand side by side; shape
            (n_entities,). One of the two is `None`.
    """

    entities: np.ndarray | None = field(default=None, repr=False)
    first_row: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class NetworkRows:
    """A table as a network is trained on it.

    Attributes:
        encoded: *Sensitive*. The rows.
    """

    encoded: Encoded
    layout: Layout
    room: Room


@dataclass(frozen=True)
class PrivateRows(NetworkRows):
    """A table as a network is trained on it with a guarantee.

    Attributes:
        encoded: *Sensitive*. The rows.
    """

    owned: Owned | None
    max_rows_per_unit: int
    one_way: Sequence[np.ndarray]
    n_units: float
    event: SubsampledGaussianEvent
    budget: Budget

    @property
    def expected_batch(self) -> float:
        """Units of a sample, about."""
        return self.event.sampling_rate * self.n_units

    def units(self) -> "UnitIndex":
        """*Sensitive*. The rows by unit of privacy."""
        from synth.neural.batches import UnitIndex

        k = self.max_rows_per_unit
        if self.owned is None:
            return UnitIndex.of(self.encoded)
        if self.owned.first_row is not None:
            return UnitIndex.side_by_side(self.encoded, self.owned.first_row, k)
        return UnitIndex.of(self.encoded, self.owned.entities, k)


def columns_of(train: TrainingTable, schema: Schema, place: Path | None) -> tuple[Columns, Room]:
    """A table for a fit without epsilon, and where else there is room; on a disk where it is not held in memory.

    Args:
        train: *Sensitive*. In memory, or where it is stored.
    """
    if isinstance(train, HeldTable):
        return HeldColumns(train.rows), np.zeros
    from synth.stored.table import in_order

    disk = disk_of(place)
    return in_order(stored_rows(train), Discretizer.by_schema(schema), disk).columns, disk


def owned_columns_of(
    train: TrainingTable, discretizer: Discretizer, schema: Schema, place: Path | None
) -> tuple[Columns, Room, Owned | None]:
    """The same for a fit with epsilon, and whose each row is where the unit is an entity.

    Args:
        train: *Sensitive*. In memory, or where it is stored; contributions bounded.
    """
    if isinstance(train, HeldTable):
        owned = None if schema.entity is None else Owned(entities=train.rows[schema.entity].to_numpy())
        return HeldColumns(train.rows), np.zeros, owned
    from synth.stored.table import by_entity

    disk = disk_of(place)
    filed = by_entity(stored_rows(train), discretizer, disk)
    return filed.columns, disk, None if filed.first_row is None else Owned(first_row=filed.first_row)


def disk_of(place: Path | None) -> Disk:
    """The folder of a fit as a disk, made if need be; `None`: that of the system's temporary files."""
    if place is None:
        return Disk(Path(tempfile.gettempdir()))
    place.mkdir(parents=True, exist_ok=True)
    return Disk(place)


def stored_rows(train: TrainingTable) -> "StoredRows":
    """The rows of a table that stays where it is stored."""
    from synth.stored.table import StoredRows

    if not isinstance(train, StoredRows):
        raise TableError("rows are held in memory, or read where they are stored; give a DataFrame or a stored table")
    return train


def units_of(one_way: Sequence[Measurement], shares: Sequence[float] | None) -> float:
    """About how many units there are, from what was released: rows by the histograms, over rows per unit."""
    rows_per_unit = 1.0 if shares is None else sum(size * share for size, share in enumerate(shares, start=1))
    return max(estimate_total(one_way) / rows_per_unit, 1.0)


def histories_apart(
    train: TrainingTable, layout: HistoryLayout, *, checked: bool
) -> tuple[TrainingTable, TrainingTable]:
    """The first rows and the later rows of a table, wherever its rows are.

    Args:
        train: *Sensitive*. Of a stored table, its rows are in order.
    """
    if isinstance(train, HeldTable):
        histories = histories_of(train.rows, layout.schema).first(layout.longest)
        if checked:
            layout.check(train.rows, histories)
        first, later = layout.taken_apart(train.rows, histories)
        return HeldTable(first, layout.first_rows), HeldTable(later, layout.later_rows)
    from synth.stored.histories import check, taken_apart

    rows = stored_rows(train)
    if checked:
        check(rows, layout)
    return taken_apart(rows, layout)


def observed_domains(train: TrainingTable, schema: Schema) -> Schema:
    """The schema with bounds and categories read off the rows, wherever they are: for fits that promise nothing.

    Args:
        train: *Sensitive*. Every row counts.
    """
    if isinstance(train, HeldTable):
        return observe(schema, train.rows)
    from synth.stored.table import observed_rows

    return observed_rows(schema, stored_rows(train))
