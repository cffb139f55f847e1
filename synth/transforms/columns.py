"""Columns of a table as encodings read them, some rows at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain.discretizer import Attribute
from synth.row_hash import Table, frames_of
from synth.table.spool import TEMPORARY, Disk
from synth.transforms.layout import Encoded, Layout

CHUNK_ROWS = 65_536
"""Rows of a column that are worked on at once: what is needed on the way does not grow with the table."""
N_DRAWN = 5_000  # values that are looked at for frequent ones, and that a mixture is fitted on

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """*Sensitive*. Canonical rows."""

    table: Table = field(repr=False)
    disk: Disk = TEMPORARY

    def __len__(self) -> int:
        return len(self.table)

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, cut alike for every column: places on the line, or numbers of cells."""
        left: list[NDArray[Any]] = []
        n_left = 0
        for frame in frames_of(self.table, attribute.name):
            for start in range(0, len(frame), CHUNK_ROWS):  # objects of times take far more room than their places
                part = _line(frame[attribute.name].iloc[start : start + CHUNK_ROWS], attribute)
                while n_left + len(part) >= CHUNK_ROWS:
                    yield np.concatenate([*left, part[: CHUNK_ROWS - n_left]])
                    part, left, n_left = part[CHUNK_ROWS - n_left :], [], 0
                left, n_left = [*left, part], n_left + len(part)
        if n_left:
            yield np.concatenate(left)

    def values(self, attribute: Attribute) -> "PresentValues":
        return PresentValues(lambda: self.parts(attribute))

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0."""
        codes = self.disk((len(self), len(layout.spans)), layout.dtype)
        return Encoded(codes, self.disk((len(self), len(layout.scalars)), np.float32))


def columns_of(table: pd.DataFrame | Columns) -> Columns:
    """A table as encodings read it."""
    return Columns(table) if isinstance(table, pd.DataFrame) else table


def _line(series: pd.Series, attribute: Attribute) -> NDArray[Any]:
    if attribute.edges is None:
        return attribute.cells(series)
    return np.asarray(attribute.column.positions(series))


def counts_of(values: Array, asked: Array) -> NDArray[np.int64]:
    """Counts of the values equal to each of some others.
    `values`: *Sensitive*. Shape (n,).
    `asked`: ascending, shape (n_asked,).

    >>> counts_of(np.array([3.0, 1.0, 3.0]), np.array([2.0, 3.0])).tolist()
    [0, 2]
    """
    held = values[np.isin(values, asked)]
    return np.bincount(np.searchsorted(asked, held), minlength=len(asked)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PresentValues:
    """Present values of a column that are not taken out: gone through anew for every question, never all in memory.
    `parts`: *Sensitive*. The column, NaN where missing.
    """

    parts: Callable[[], Iterator[Array]] = field(repr=False)
    taken: Array = field(default_factory=lambda: np.empty(0), repr=False)

    @classmethod
    def of(cls, values: Array) -> Self:
        """The values of a column, shape (n,), NaN where missing."""
        return cls(lambda: iter([values]))

    def __len__(self) -> int:
        return self._facts[0]

    @property
    def missing(self) -> bool:
        return self._facts[3]

    def ends(self) -> tuple[float, float]:
        """The least and the greatest of them; there is one at least."""
        return self._facts[1:3]

    def without(self, taken: Array) -> "PresentValues":
        """The same but for some values."""
        return PresentValues(self.parts, np.union1d(self.taken, taken))

    def counts(self, asked: Array) -> NDArray[np.int64]:
        """Counts of each of some values, ascending; shape (n_asked,)."""
        return sum((counts_of(part, asked) for part in self._kept()), np.zeros(len(asked), np.int64))

    def draw(self, rng: np.random.Generator) -> Array:
        """Some of them, without repetition; all of them where there are no more than `N_DRAWN`."""
        n = len(self)
        places = rng.choice(n, N_DRAWN, replace=False) if n > N_DRAWN else np.arange(n)
        order = np.argsort(places)
        made, start, done = np.empty(len(places)), 0, 0
        for part in self._kept():
            end = done + int(np.searchsorted(places[order[done:]], start + len(part)))
            made[order[done:end]] = part[places[order[done:end]] - start]
            start, done = start + len(part), end
        return made

    def _kept(self) -> Iterator[Array]:
        for part in self.parts():
            present = part[~np.isnan(part)]
            yield present[~np.isin(present, self.taken)] if len(self.taken) else present

    @cached_property
    def _facts(self) -> tuple[int, float, float, bool]:
        """The number of values, the least and the greatest, and whether one of the column is missing."""
        n, low, high = 0, np.inf, -np.inf
        for part in self._kept():
            if len(part):
                n, low, high = n + len(part), min(low, float(part.min())), max(high, float(part.max()))
        return n, low, high, any(bool(np.isnan(part).any()) for part in self.parts())
