"""What every encoding of a table can do: rows to codes and scalars, and back."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.transforms.columns import Columns
from synth.transforms.layout import Encoded, Layout


class Match(NamedTuple):
    """The codes under which a value may be found.

    Attributes:
        weights: one for such a code of the span, of several in (0, 1] and as dense as each is about the value; zero for
            the others, shape (size,); all zero where no row that the encoding knows, or can make, holds the value.
        scalars: what goes with each of them, shape (size,), NaN where the code alone says the value; none where the
            column has no scalar.
    """

    weights: NDArray[np.float64]
    scalars: NDArray[np.float64] | None


class Encoding(Protocol):
    """How the modeled columns of a table become codes and scalars, and back."""

    @property
    def discretizer(self) -> Discretizer:
        """The modeled columns in the order of the spans, with their kinds, bounds and precision."""
        ...

    @property
    def layout(self) -> Layout:
        """What an encoded row is made of."""
        ...

    def apply(self, table: pd.DataFrame | Columns, rng: np.random.Generator) -> Encoded:
        """The rows encoded, kept where the table is: the same for the same state of the generator.

        Args:
            table: *Sensitive*. Canonical rows.
            rng: draws where a value has several codes.
        """
        ...

    def invert(self, encoded: Encoded, rng: np.random.Generator) -> pd.DataFrame:
        """Canonical rows of the modeled columns, within their bounds and on their precision.

        Args:
            encoded: as `apply` gives it, or as a network made it.
            rng: draws where a code has several values.
        """
        ...

    def match(self, name: str, value: pd.Series) -> Match:
        """Where rows that hold a value are to be looked for.

        Args:
            name: of a modeled column.
            value: a canonical column of one row.

        Raises:
            KeyError: the column is not modeled; nothing was looked up.
        """
        ...

    def to_plain(self) -> dict[str, Any]:
        """The encoding as plain data, without the schema's part."""
        ...


def place_of(discretizer: Discretizer, name: str) -> int:
    """Which of the modeled columns a name is.

    Raises:
        KeyError: none; nothing was looked up.
    """
    if name not in discretizer.columns:
        raise KeyError(name)
    return discretizer.columns.index(name)
