"""Columns of a table as encodings read them, some rows at a time: in memory, or in files that are mapped into it.

The files have no name: nobody else can open them. They are gone with the last array that is read from them, or with the
process, however that ends. Where a file system has no such files, they have a name that their owner alone can open. It
is removed at once and before anything is written: a process that is killed in between leaves an empty file.
"""

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray

from synth.domain.discretizer import Attribute
from synth.errors import OutputError
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
        """True if a value of the column is missing."""

    def without(self, taken: Array) -> Self:
        """The same but for some values."""

    def counts(self, asked: Array) -> NDArray[np.int64]:
        """Counts of each of some values, ascending; shape (n_asked,)."""

    def draw(self, rng: np.random.Generator) -> Array:
        """Some of them, without repetition; all of them where there are no more than `N_DRAWN`."""

    def __len__(self) -> int:
        """The number of values."""

    def ends(self) -> tuple[float, float]:
        """The least and the greatest of them; there is one at least."""


class Columns(Protocol):
    """*Sensitive*. Canonical rows."""

    def __len__(self) -> int:
        """Number of rows."""

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, cut alike for every column."""

    def values(self, attribute: Attribute) -> PresentValues:
        """The values of a column of numbers or times."""

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0, kept where the table is."""


@dataclass(frozen=True, eq=False)
class HeldValues:
    """Values that are held in memory.

    Attributes:
        present: *Sensitive*. Shape (n,).
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
        """Counts of each of some values, ascending; shape (n_asked,)."""
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
            yield attribute.cells(part) if attribute.edges is None else attribute.column.positions(part)

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
    """Counts of the values equal to each of some others.

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


Room = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""The maker of an array of zeros that is as long as the table: `numpy.zeros`, or a `Disk`."""
_WRITTEN_BYTES = 1 << 24


@dataclass(frozen=True)
class Disk:
    """A folder on whose disk arrays are kept."""

    folder: Path

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Zeros in a file."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        with self._file() as file:
            # A page of a mapped file for which there is no room would end the process with a signal.
            for start in range(0, n_bytes, _WRITTEN_BYTES):
                _write(file, np.zeros(min(_WRITTEN_BYTES, n_bytes - start), np.uint8), self.folder)
            return _mapped(file, dtype, shape)

    def keep(self, blocks: Iterator[Array], names: tuple[str, ...]) -> "FiledColumns":
        """A table written down as it comes.

        Args:
            blocks: *Sensitive*. Some rows each, shape (n_columns, n): places on the line, or numbers of cells.
        """
        sizes = []
        with self._file() as file:
            for block in blocks:
                _write(file, block, self.folder)
                sizes.append(block.shape[1])
            return FiledColumns(_mapped(file, np.float64, (len(names) * sum(sizes),)), tuple(sizes), names, self)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        with _told(self.folder):
            file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115
        with file:
            yield file


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise OutputError(
            f"the rows that a fit learns from cannot be kept on the disk of folder={str(folder)!r} ({reason}); "
            "make room there, or set TMPDIR to a folder on another disk"
        ) from None


def _write(file: Any, block: NDArray[Any], folder: Path) -> None:
    left = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
    with _told(folder):
        while len(left):
            left = left[file.write(left.data) :]


def _mapped(file: Any, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(file, dtype, "r+", shape=shape))


@dataclass(frozen=True, eq=False)
class FiledColumns:
    """A table in a file.

    Attributes:
        cells: *Sensitive*. Blocks of rows one after the other, each column by column; flat.
    """

    cells: Array = field(repr=False)
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    disk: Disk

    def __len__(self) -> int:
        return sum(self.sizes)

    def parts(self, attribute: Attribute) -> Iterator[NDArray[Any]]:
        """A column in the order of the rows, as `Columns` says."""
        for part in self.column(attribute.name):
            yield part.astype(np.int64) if attribute.edges is None else part

    def column(self, name: str) -> Iterator[Array]:
        """A column as it was kept, in the order of the rows."""
        place, start = self.names.index(name), 0
        for size in self.sizes:
            yield self.cells[start + place * size : start + (place + 1) * size]
            start += len(self.names) * size

    def values(self, attribute: Attribute) -> "FiledValues":
        """The values of a column of numbers or times."""
        return FiledValues(lambda: self.parts(attribute), np.empty(0))

    def encoded(self, layout: Layout) -> Encoded:
        """As many rows to be filled, every code and scalar 0, row by row in files."""
        codes = self.disk((len(self), len(layout.spans)), layout.dtype)
        return Encoded(codes, self.disk((len(self), len(layout.scalars)), np.float32))


@dataclass(frozen=True, eq=False)
class FiledValues:
    """Values of a column in a file: gone through anew for every question, and never together in memory.

    Attributes:
        parts: *Sensitive*. The column, NaN where missing.
    """

    parts: Callable[[], Iterator[Array]] = field(repr=False)
    taken: Array = field(repr=False)

    def __len__(self) -> int:
        return self._facts[0]

    @property
    def missing(self) -> bool:
        """True if a value of the column is missing."""
        return self._facts[3]

    def ends(self) -> tuple[float, float]:
        """The least and the greatest of them; there is one at least."""
        return self._facts[1:3]

    def without(self, taken: Array) -> "FiledValues":
        """The same but for some values."""
        return FiledValues(self.parts, np.union1d(self.taken, taken))

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
