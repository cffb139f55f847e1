"""The layout of an encoded row: what a network's input and output are made of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

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
