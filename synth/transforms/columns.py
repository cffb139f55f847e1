"""Columns of a table as encodings read them, some rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain.discretizer import Attribute
from synth.row_hash import Table, frames_of
from synth.table.spool import TEMPORARY, Disk
from synth.transforms.layout import Encoded, Layout

CHUNK_ROWS = 1 << 15
"""Rows of a frame that are worked on at once: objects of times take far more room than their positions."""


@dataclass(frozen=True, eq=False)
class Columns:
    """*Sensitive*. Canonical rows, and where what is made of them is kept."""

    table: Table = field(repr=False)
    disk: Disk = TEMPORARY

    def __len__(self) -> int:
        return len(self.table)

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, cut alike for every column: positions, or the numbers of cells."""
        for frame in frames_of(self.table, attribute.name):
            for start in range(0, len(frame), CHUNK_ROWS):
                series = frame[attribute.name].iloc[start : start + CHUNK_ROWS]
                yield attribute.cells(series) if attribute.edges is None else attribute.column.positions(series)

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0."""
        codes = self.disk((len(self), len(layout.spans)), layout.dtype)
        return Encoded(codes, self.disk((len(self), len(layout.scalars)), np.float32))


def columns_of(table: pd.DataFrame | Columns) -> Columns:
    return Columns(table) if isinstance(table, pd.DataFrame) else table
