"""A table as encodings read it: column by column, some rows at a time, wherever the rows are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import numeric_scale
from synth.domain.discretizer import Attribute
from synth.transforms.layout import Encoded, Layout

CHUNK_ROWS = 65_536
"""Rows of a column that are worked on at once: what is needed on the way does not grow with the table."""
N_DRAWN = 5_000
"""Values that are looked at for frequent ones, and that a mixture is fitted on."""

Array = NDArray[np.float64]


class PresentValues(Protocol):
    """*Sensitive*. The values of a column of numbers that are present and not taken out."""

    @property
    def missing(self) -> bool:
        """Whether a value of the column is missing."""

    def without(self, taken: Array) -> Self:
        """The same but for some values."""

    def counts(self, asked: Array) -> NDArray[np.int64]:
        """How many of them are each of some values, ascending; shape (n_asked,)."""

    def draw(self, rng: np.random.Generator) -> Array:
        """Some of them, without repetition; all of them where there are no more than `N_DRAWN`."""

    def __len__(self) -> int:
        """How many there are."""

    def ends(self) -> tuple[float, float]:
        """The least and the greatest of them; there is one at least."""


class Columns(Protocol):
    """*Sensitive*. Canonical rows."""

    def __len__(self) -> int:
        """Number of rows."""

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, cut alike for every column.

        Yields:
            Places on the line, NaN where missing, of a number or a time; else the number of each value's cell.
        """

    def values(self, attribute: Attribute) -> PresentValues:
        """The values of a column of numbers or times."""

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0, kept where the table is."""


@dataclass(frozen=True, eq=False)
class HeldValues:
    """Values that are held in memory.

    Attributes:
        present: *Sensitive*. Shape (n,).
        missing: whether a value of the column is missing.
    """

    present: Array = field(repr=False)
    missing: bool

    @classmethod
    def of(cls, values: Array) -> Self:
        """The values of a column, shape (n,), NaN where missing."""
        gone = np.isnan(values)
        return cls(values[~gone], bool(gone.any()))

    def __len__(self) -> int:
        return len(self.present)

    def without(self, taken: Array) -> Self:
        """The same but for some values."""
        return type(self)(self.present[~np.isin(self.present, taken)], self.missing)

    def counts(self, asked: Array) -> NDArray[np.int64]:
        """How many of them are each of some values, ascending; shape (n_asked,)."""
        return counts_of(self.present, asked)

    def draw(self, rng: np.random.Generator) -> Array:
        """Some of them, without repetition; all of them where there are no more than `N_DRAWN`."""
        return rng.choice(self.present, N_DRAWN, replace=False) if len(self.present) > N_DRAWN else self.present

    def ends(self) -> tuple[float, float]:
        """The least and the greatest of them; there is one at least."""
        return float(self.present.min()), float(self.present.max())


@dataclass(frozen=True, eq=False)
class HeldColumns:
    """A table that is held in memory.

    Attributes:
        frame: *Sensitive*. Canonical rows.
    """

    frame: pd.DataFrame = field(repr=False)

    def __len__(self) -> int:
        return len(self.frame)

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, as `Columns` says."""
        series = self.frame[attribute.name]
        for start in range(0, len(series), CHUNK_ROWS):
            part = series.iloc[start : start + CHUNK_ROWS]
            yield attribute.cells(part) if attribute.edges is None else numeric_scale.positions(part, attribute.column)  # type: ignore[arg-type]

    def values(self, attribute: Attribute) -> HeldValues:
        """The values of a column of numbers or times; made in parts, as objects of times take far more room."""
        made = np.empty(len(self.frame))
        for start, part in zip(range(0, len(made), CHUNK_ROWS), self.parts(attribute), strict=True):
            made[start : start + CHUNK_ROWS] = part
        return HeldValues.of(made)

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0, in memory."""
        return Encoded.zeros(len(self.frame), layout)


def counts_of(values: Array, asked: Array) -> NDArray[np.int64]:
    """How many values are each of some others.

    Args:
        values: *Sensitive*. Shape (n,).
        asked: ascending, shape (n_asked,).

    >>> counts_of(np.array([3.0, 1.0, 3.0]), np.array([2.0, 3.0])).tolist()
    [0, 2]
    """
    held = values[np.isin(values, asked)]
    return np.bincount(np.searchsorted(asked, held), minlength=len(asked)).astype(np.int64)


def columns_of(table: pd.DataFrame | Columns) -> Columns:
    """A table as encodings read it."""
    return HeldColumns(table) if isinstance(table, pd.DataFrame) else table
