"""Encodings of a table's rows as codes and scalars, and the encoding by bins.

By bins, every column is a span of the discretizer's codes, and nothing beside. The encoding holds what the discretizer
holds. Where that was made of histograms with noise, it tells no more of the table than their statement says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.schema import Schema
from synth.transforms.columns import Columns, columns_of
from synth.transforms.layout import Encoded, Layout, Span


class Match(NamedTuple):
    """The codes under which a value may be found.

    Attributes:
        weights: weights of the span's codes, shape (size,): one for the code of the value; of several, in (0, 1] and as
            dense as each is about the value. All are zero where no row of the encoding can hold the value.
        scalars: of these codes, shape (size,), NaN where the code alone says the value; `None` where the
            column has no scalar.
    """

    weights: NDArray[np.float64]
    scalars: NDArray[np.float64] | None


class Encoding(Protocol):
    """An encoding of the modeled columns of a table as codes and scalars, and back."""

    @property
    def discretizer(self) -> Discretizer:
        """The modeled columns in the order of the spans, with their kinds, bounds and precision."""
        ...

    @property
    def layout(self) -> Layout: ...

    def apply(self, table: pd.DataFrame | Columns, rng: np.random.Generator) -> Encoded:
        """The rows encoded, kept where the table is: the same for the same state of the generator.
        `table`: *Sensitive*. Canonical rows.
        """
        ...

    def invert(self, encoded: Encoded, rng: np.random.Generator) -> pd.DataFrame:
        """Canonical rows of the modeled columns, within their bounds and on their precision."""
        ...

    def match(self, name: str, value: pd.Series) -> Match:
        """The codes and scalars of rows that hold a value."""
        ...

    def to_plain(self) -> dict[str, Any]:
        """The encoding as plain data, without the schema's part."""
        ...


def place_of(discretizer: Discretizer, name: str) -> int:
    """The place of a name among the modeled columns."""
    if name not in discretizer.columns:
        raise KeyError(name)
    return discretizer.columns.index(name)


@dataclass(frozen=True, eq=False)
class BinnedEncoding:
    """Codes of bins and categories; within a code a value is drawn by the mass of its cells."""

    discretizer: Discretizer

    @cached_property
    def layout(self) -> Layout:
        """One span a column, `other` and `missing` its last two codes; no scalars."""
        return Layout(tuple(Span(name, size, whole=True) for name, size in self.discretizer.sizes.items()))

    def apply(self, table: pd.DataFrame | Columns, rng: np.random.Generator) -> Encoded:
        """The rows encoded; every value has one code.
        `table`: *Sensitive*. Canonical rows: of any table, for what is unknown has a code of its own.
        """
        columns, attributes = columns_of(table), self.discretizer.attributes
        made, start = columns.encoded(self.layout), 0
        for parts in zip(*map(columns.parts, attributes), strict=True):
            rows = slice(start, start := start + len(parts[0]))
            for index, (attribute, part) in enumerate(zip(attributes, parts, strict=True)):
                cells = part if attribute.edges is None else attribute.cells_at(part)
                made.codes[rows, index] = attribute.group[cells]
        return made

    def invert(self, encoded: Encoded, rng: np.random.Generator) -> pd.DataFrame:
        """Canonical rows of codes."""
        return self.discretizer.decode(encoded.codes, rng)

    def match(self, name: str, value: pd.Series) -> Match:
        """The code of a value; `None` where no synthetic row can have it."""
        attribute = self.discretizer.attributes[place_of(self.discretizer, name)]
        weights = np.zeros(attribute.size)
        weights[attribute.codes(value)] = 1.0
        weights[attribute.impossible] = 0.0
        return Match(weights, None)

    def to_plain(self) -> dict[str, Any]:
        """The encoding as plain data, without the schema's part."""
        return self.discretizer.to_plain()

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], schema: Schema) -> Self:
        """An encoding from plain data and the schema it was made under."""
        return cls(Discretizer.from_plain(content, schema))
