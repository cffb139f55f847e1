"""Training data of a network: encoded rows, in memory or on a disk, and the unit that each row belongs to."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from synth.domain import Discretizer
from synth.dp.events import SubsampledGaussianEvent
from synth.generators.fitting.training_data import HeldTable, TrainingTable
from synth.marginals import Measurement
from synth.marginals.measurement import estimate_total
from synth.schema import Schema
from synth.transforms.columns import Columns, HeldColumns
from synth.transforms.layout import Encoded, Layout
from synth.transforms.memmap_storage import Disk, Room

if TYPE_CHECKING:
    from synth.neural.batches import UnitIndex
    from synth.stored.table import StoredRows


@dataclass(frozen=True)
class Owned:
    """Whose the rows of a table are, where the unit is an entity.

    Attributes:
        entities: *Sensitive*. The entity of each row, shape (n,).
        first_row: *Sensitive*. Where the rows of each entity start, of rows that stand side by side; shape
            (n_entities,). One of the two is none.
    """

    entities: np.ndarray | None = field(default=None, repr=False)
    first_row: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class NetworkRows:
    """A table as a network is trained on it.

    Attributes:
        encoded: *Sensitive*. The rows.
        layout: of a row.
        room: where else something is kept that is as long as the table.
    """

    encoded: Encoded
    layout: Layout
    room: Room


@dataclass(frozen=True)
class PrivateRows(NetworkRows):
    """A table as a network is trained on it with a guarantee.

    Attributes:
        encoded: *Sensitive*. The rows.
        layout: of a row.
        room: where else something is kept that is as long as the table.
        owned: whose each row is; none where the unit is a row.
        max_rows_per_unit: k.
        one_way: released counts of the codes of each span.
        n_units: released, about.
        event: the steps that are paid for.
    """

    owned: Owned | None
    max_rows_per_unit: int
    one_way: Sequence[np.ndarray]
    n_units: float
    event: SubsampledGaussianEvent

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
        schema: observed.
        place: the folder of the fit; none: a table that is not held is kept beside the system's temporary files.

    Raises:
        TableError: the table cannot be read where it is stored.
        OutputError: the disk has no room; nothing is left there.
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
        discretizer: names the columns.
        schema: names the entity.
        place: the folder of the fit; none: a table that is not held is kept beside the system's temporary files.

    Raises:
        TableError: the table cannot be read where it is stored.
        OutputError: the disk has no room; nothing is left there.
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

    assert isinstance(train, StoredRows)
    return train


def units_of(one_way: Sequence[Measurement], shares: Sequence[float] | None) -> float:
    """About how many units there are, from what was released: rows by the histograms, over rows per unit."""
    rows_per_unit = 1.0 if shares is None else sum(size * share for size, share in enumerate(shares, start=1))
    return max(estimate_total(one_way) / rows_per_unit, 1.0)
