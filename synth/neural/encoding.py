"""Encodings of a table's rows as codes and scalars, and the encoding by bins.

By bins, every column is a span of the discretizer's codes, and nothing beside. The encoding holds what the discretizer
holds. Where that was made of histograms with noise, it tells no more of the table than their statement says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.discretizer import Attribute
from synth.neural.modes import Match
from synth.row_hash import Table, frames_of
from synth.schema import Schema
from synth.table.spool import TEMPORARY, Disk

Codes = NDArray[np.int16] | NDArray[np.int32]


@dataclass(frozen=True)
class Span:
    """One choice among several: a softmax of the network, one-hot in its input. `whole`: its code says the value."""

    column: str
    size: int
    whole: bool

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a span has at least one code: size={self.size}")


@dataclass(frozen=True)
class Layout:
    """Spans first, then one scalar in [-1, 1] for each column that has one.

    >>> layout = Layout((Span("age", 3, whole=False), Span("job", 2, whole=True)), ("age",))
    >>> layout.sizes, layout.width, layout.offsets.tolist()
    ((3, 2), 6, [0, 3])
    """

    spans: tuple[Span, ...]
    scalars: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(span.size for span in self.spans)

    @property
    def whole(self) -> tuple[int, ...]:
        """Indices of the spans that rows can be asked for by."""
        return tuple(index for index, span in enumerate(self.spans) if span.whole)

    @property
    def n_codes(self) -> int:
        return sum(self.sizes)

    @property
    def width(self) -> int:
        """Numbers in an encoded row."""
        return self.n_codes + len(self.scalars)

    @property
    def dtype(self) -> np.dtype[np.int16] | np.dtype[np.int32]:
        """The smallest dtype that holds every code."""
        small = max(self.sizes, default=1) - 1 <= np.iinfo(np.int16).max
        return np.dtype(np.int16) if small else np.dtype(np.int32)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The start of each span, shape (n_spans,)."""
        return np.cumsum([0, *self.sizes], dtype=np.int64)[:-1]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as small whole numbers and scalars: a one-hot row is made when a batch needs it.
    `codes`: *Sensitive*. Of each span, shape (n, n_spans), of the layout's dtype.
    `scalars`: *Sensitive*. Shape (n, n_scalars), float32 in [-1, 1]; 0 where a code has none.
    """

    codes: Codes
    scalars: NDArray[np.float32]

    @classmethod
    def zeros(cls, n: int, layout: Layout) -> Self:
        return cls(np.zeros((n, len(layout.spans)), layout.dtype), np.zeros((n, len(layout.scalars)), np.float32))

    def __len__(self) -> int:
        return len(self.codes)


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


@dataclass(frozen=True, eq=False)
class BinnedEncoding:
    """Codes of bins and categories; within a code a value is drawn by the mass of its cells.

    `ModalEncoding` has the same methods. Rows are encoded alike for the same state of the generator, and come back
    canonical, within their bounds and on their precision; plain data leaves out the schema's part.
    """

    discretizer: Discretizer

    @cached_property
    def layout(self) -> Layout:
        """One span a column, `other` and `missing` its last two codes; no scalars."""
        return Layout(tuple(Span(name, size, whole=True) for name, size in self.discretizer.sizes.items()))

    def apply(self, table: pd.DataFrame | Columns, rng: np.random.Generator) -> Encoded:
        """The rows of any table encoded: what is unknown has a code of its own."""
        columns, attributes = columns_of(table), self.discretizer.attributes
        encoded, start = columns.encoded(self.layout), 0
        for parts in zip(*map(columns.parts, attributes), strict=True):
            rows = slice(start, start := start + len(parts[0]))
            for index, (attribute, part) in enumerate(zip(attributes, parts, strict=True)):
                cells = part if attribute.edges is None else attribute.cells_at(part)
                encoded.codes[rows, index] = attribute.group[cells]
        return encoded

    def invert(self, encoded: Encoded, rng: np.random.Generator) -> pd.DataFrame:
        return self.discretizer.decode(encoded.codes, rng)

    def match(self, name: str, value: pd.Series) -> Match:
        """The code of a value, of weight 0 where no synthetic row can have it."""
        attribute = self.discretizer.attributes[self.discretizer.columns.index(name)]
        weights = np.zeros(attribute.size)
        weights[attribute.codes(value)] = 1.0
        weights[attribute.impossible] = 0.0
        return Match(weights, None)

    def to_plain(self) -> dict[str, Any]:
        return self.discretizer.to_plain()

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], schema: Schema) -> Self:
        return cls(Discretizer.from_plain(content, schema))
