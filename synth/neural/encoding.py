"""Encodings of a table's rows as codes and scalars, which a network reads and makes: by bins, and by modes.

By bins, every column is a span of the discretizer's codes, and nothing beside. The encoding holds what the discretizer
holds. Where that was made of histograms with noise, it tells no more of the table than their statement says. By modes,
categories are those that a column really takes, and numbers and times are told by their modes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer, grid, plain_arrays
from synth.domain.discretizer import Attribute
from synth.neural.modes import Match, Modes
from synth.row_hash import Table, frames_of
from synth.schema import Schema
from synth.table.spool import TEMPORARY, Disk

Codes = NDArray[np.int16] | NDArray[np.int32]


@dataclass(frozen=True)
class Span:
    """One choice among several: a softmax of the network, one-hot in its input. `whole`: its code says the value.
    `line`: of a number, where each code lies on its line (NaN: missing), and how far from there a scalar of 1 is.
    """

    column: str
    size: int
    whole: bool
    line: tuple[tuple[float, float], ...] = ()

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

    `ModalEncoding` has the same methods. Equal rows are encoded alike, and come back canonical, within their bounds and
    on their precision; plain data leaves out the schema's part.
    """

    discretizer: Discretizer

    @cached_property
    def layout(self) -> Layout:
        """One span a column, `other` and `missing` its last two codes; no scalars."""
        return Layout(tuple(Span(name, size, whole=True) for name, size in self.discretizer.sizes.items()))

    def apply(self, table: pd.DataFrame | Columns) -> Encoded:
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


@dataclass(frozen=True, eq=False)
class Categories:
    """The codes that a column with categories really takes; a missing value is one of them.
    `known`: codes of the attribute, strictly ascending, shape (size,).
    """

    known: NDArray[np.int64]
    n_codes: int

    def __post_init__(self) -> None:
        known = self.known
        if len(known) == 0 or known[0] < 0 or known[-1] >= self.n_codes or not (np.diff(known) > 0).all():
            raise ValueError("codes of categories are not ascending, or not the column's")

    @classmethod
    def fit(cls, parts: Iterable[NDArray[np.int64]], attribute: Attribute) -> Self:
        """The categories of a column; missing where there is none. `parts`: *Sensitive*. The cells of its values."""
        occurs = np.zeros(attribute.size, dtype=bool)
        for cells in parts:
            occurs[attribute.group[cells]] = True
        occurs[-1] |= not occurs.any()
        return cls(np.flatnonzero(occurs).astype(np.int64), attribute.size)

    @property
    def size(self) -> int:
        return len(self.known)


_MOST = float(np.nextafter(2.0**63, 0))  # the greatest number of float64 that int64 holds
_EXACT = 2.0**53  # up to here float64 tells all whole numbers apart


@dataclass(frozen=True, eq=False)
class ModalEncoding:
    """An encoding of the modeled columns of a table as codes and scalars, and back.

    It tells values of single rows: it is never for a private fit. Whole numbers and times beyond 2**53 steps come back
    as near as float64 can tell them.
    """

    discretizer: Discretizer
    columns: tuple[Categories | Modes, ...]

    @classmethod
    def fit(cls, table: pd.DataFrame | Columns, schema: Schema, rng: np.random.Generator) -> Self:
        """The encoding of a table of canonical rows, one column in memory at a time. `table`: *Sensitive*."""
        columns, discretizer = columns_of(table), Discretizer.by_schema(schema)
        fitted: list[Categories | Modes] = []
        for attribute in discretizer.attributes:
            if attribute.edges is None:
                fitted.append(Categories.fit(columns.parts(attribute), attribute))
            else:
                fitted.append(_modes(np.concatenate([np.empty(0), *columns.parts(attribute)]), attribute.column, rng))
        return cls(discretizer, tuple(fitted))

    @cached_property
    def layout(self) -> Layout:
        """One span a column; a scalar for each column of numbers that has components."""
        spans, scalars = [], []
        for attribute, column in zip(self.discretizer.attributes, self.columns, strict=True):
            is_open, line = (column.has_scalar, column.line) if isinstance(column, Modes) else (False, ())
            spans.append(Span(attribute.name, column.size, whole=not is_open, line=line))
            scalars += [attribute.name] * is_open
        return Layout(tuple(spans), tuple(scalars))

    def apply(self, table: pd.DataFrame | Columns, rng: np.random.Generator | None = None) -> Encoded:
        """The rows encoded; `rng` draws components. `table`: *Sensitive*. Rows of what the encoding was fitted on."""
        columns, attributes = columns_of(table), self.discretizer.attributes
        encoded, start = columns.encoded(self.layout), 0
        draws = [None] * len(attributes) if rng is None else rng.spawn(len(attributes))
        for parts in zip(*map(columns.parts, attributes), strict=True):
            rows = slice(start, start := start + len(parts[0]))
            for index, (attribute, column, part) in enumerate(zip(attributes, self.columns, parts, strict=True)):
                if isinstance(column, Categories):
                    encoded.codes[rows, index] = np.searchsorted(column.known, attribute.group[part])
                    continue
                encoded.codes[rows, index], scalars = column.apply(part, draws[index])
                if column.has_scalar:
                    encoded.scalars[rows, self.layout.scalars.index(attribute.name)] = scalars
        return encoded

    def invert(self, encoded: Encoded, rng: np.random.Generator) -> pd.DataFrame:
        frame: dict[str, pd.Series] = {}
        for index, (attribute, column) in enumerate(zip(self.discretizer.attributes, self.columns, strict=True)):
            codes = encoded.codes[:, index]
            if isinstance(column, Categories):
                frame[attribute.name] = attribute.values(column.known[codes], rng)
                continue
            scalars = np.zeros(len(codes), np.float32)
            if column.has_scalar:
                scalars = encoded.scalars[:, self.layout.scalars.index(attribute.name)]
            positions, drawn = column.invert(codes, scalars), column.leaves_open(codes)
            positions[drawn] = grid.settle(positions[drawn], attribute.column, column.atoms, column.step_shares, rng)
            frame[attribute.name] = _values(positions, attribute)
        return pd.DataFrame(frame, index=pd.RangeIndex(len(encoded)), copy=False)

    def match(self, name: str, value: pd.Series) -> Match:
        """The codes under which a value may be found.

        One for a category, or for a number that is a mode of its own, unless the table held none. Any other number has
        those of all components that reach it, each with the scalar of the value in that component.
        """
        index = self.discretizer.columns.index(name)
        attribute, column = self.discretizer.attributes[index], self.columns[index]
        if isinstance(column, Modes):
            return column.match(float(attribute.column.positions(value)[0]))
        return Match((column.known == attribute.codes(value)[0]).astype(np.float64), None)

    def to_plain(self) -> dict[str, Any]:
        return {
            attribute.name: {"codes": column.known.tolist()} if isinstance(column, Categories) else column.to_plain()
            for attribute, column in zip(self.discretizer.attributes, self.columns, strict=True)
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], schema: Schema) -> Self:
        """An encoding from plain data and the observed schema it was made under."""
        schema = schema.counted
        plain_arrays.require_columns(content, schema.modeled)
        discretizer = Discretizer.by_schema(schema)
        return cls(discretizer, tuple(_column(content[a.name], a) for a in discretizer.attributes))


def _column(content: Mapping[str, Any], attribute: Attribute) -> Categories | Modes:
    if attribute.edges is None:
        return Categories(plain_arrays.whole_numbers(content, "codes"), attribute.size)
    modes, column = Modes.from_plain(content), attribute.column
    low, high = column.ends
    if (
        (modes.missing and not column.missing)
        or (len(modes.atoms) and (modes.atoms[0] < low or modes.atoms[-1] > high))
        or len(modes.step_shares) not in (0, len(getattr(column, "steps", ())))
    ):
        raise ValueError("modes are not of the column: its bounds, steps or missing values are others")
    return modes


def _modes(values: NDArray[np.float64], column: Any, rng: np.random.Generator) -> Modes:
    beside = [position for position, _ in column.beside.values()]
    spikes = np.unique(np.array([*getattr(column, "spikes", ()), *beside], dtype=np.float64))
    log = getattr(column, "scale", "linear") == "log"
    return Modes.fit(values, log=log, rng=rng, spikes=spikes, ladder=column.ladder)


def _values(positions: NDArray[np.float64], attribute: Attribute) -> pd.Series:
    """Positions as the column's own kind and precision, within its bounds."""
    column = attribute.line[1]
    missing = np.isnan(positions)
    low, high = column.ends
    filled = np.clip(np.where(missing, low, positions), low, high)
    steps = filled if column.unit is None else np.round(grid.ratio(filled, column.unit))
    if column.is_number and not column.is_whole:
        reals = filled if column.decimals is None else _rounded(filled, column.decimals)
        reals = column.put_beside(np.clip(reals, *column.bounds), steps)
        return pd.Series(np.where(missing, np.nan, reals))
    counts = np.minimum(steps, _MOST).astype(np.int64)
    counts[steps > _MOST] = np.iinfo(np.int64).max
    return column.values(counts, missing)


def _rounded(reals: NDArray[np.float64], decimals: int) -> NDArray[np.float64]:
    """Numbers to so many digits after the point, as far as float64 tells them apart."""
    told_apart = np.abs(reals) < _EXACT / 10.0**decimals
    return np.where(told_apart, np.round(np.where(told_apart, reals, 0.0), decimals), reals)
