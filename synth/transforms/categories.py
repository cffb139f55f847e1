"""The categories of one column, those that it really takes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.domain.discretizer import Attribute


@dataclass(frozen=True, eq=False)
class Categories:
    """The codes that a column with categories really takes; a missing value is one of them.

    Attributes:
        known: codes of the attribute, strictly ascending, shape (size,).
        n_codes: of the attribute.

    Raises:
        ValueError: these are no codes of it; nothing was made.
    """

    known: NDArray[np.int64]
    n_codes: int

    def __post_init__(self) -> None:
        known = self.known
        if len(known) == 0 or known[0] < 0 or known[-1] >= self.n_codes or not (np.diff(known) > 0).all():
            raise ValueError("codes of categories are not ascending, or not the column's")

    @classmethod
    def fit(cls, parts: Iterable[NDArray[np.int64]], attribute: Attribute) -> Self:
        """The categories of a column; missing where there is none.

        Args:
            parts: *Sensitive*. The cells of its values, some at a time.
            attribute: how cells become codes.
        """
        held = np.zeros(attribute.size, dtype=bool)
        for cells in parts:
            held[attribute.group[cells]] = True
        held[-1] |= not held.any()
        return cls(np.flatnonzero(held).astype(np.int64), attribute.size)

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.known)

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """The place of each code of the attribute among the known ones, -1 for the others; shape (n_codes,)."""
        places = np.full(self.n_codes, -1, np.int32)
        places[self.known] = np.arange(self.size, dtype=np.int32)
        return places

    def apply(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """The places of codes of the attribute.

        Raises:
            ValueError: one is not known; nothing was encoded.
        """
        found: NDArray[np.int32] = self.places[codes]
        if (found < 0).any():
            raise ValueError("a value has no code: encode rows of the table that the encoding was fitted on")
        return found
