"""Training by sampling: conditions on one column at a time, and real rows that meet them.

Source: Xu et al. 2019 (1907.00503), section 4.3.

DEVIATES: the paper's conditions name categories alone; these name numbers, too, where a code says all of the value.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.transforms.layout import Encoded, Layout
from synth.transforms.memmap_storage import Room

SORTED_ROWS = 1 << 20
"""Rows that are sorted at once."""
LESS_THAN_ONE = 1 - 2.0**-40
"""Keeps a column's number plus a share of 1 below the next column's number in double precision."""


@dataclass(frozen=True, eq=False)
class ConditionIndex:
    """The codes that a condition may name, side by side, and where the rows that hold each of them are.

    Attributes:
        spans: of the layout, whose codes say all of a value, shape (n_columns,).
        span_of: span of each condition, shape (d_condition,).
        place_of: of each condition's code among all codes of the layout, shape (d_condition,).
        running: for each condition its column's number plus the running share of the codes up to it, float64 of shape
            (d_condition,).
        rows: *Sensitive*. Rows sorted by code, one column after the other, shape (n_columns * n,).
        first_row: of each condition among these, shape (d_condition,).
        n_rows: *Sensitive*. Of each condition, shape (d_condition,).
    """

    spans: Tensor
    span_of: Tensor
    place_of: Tensor
    running: Tensor
    rows: Tensor
    first_row: Tensor
    n_rows: Tensor

    @classmethod
    def of(cls, encoded: Encoded, layout: Layout, device: torch.device, room: Room = np.zeros) -> Self:
        """The conditions of a table, drawn by the logarithm of how often each code occurs.

        Args:
            encoded: *Sensitive*. The table, at least one row.
            layout: its layout.
            device: where they are kept.
            room: where the sorted rows are written down before.
        """
        chosen, n = layout.whole, len(encoded)
        counts = [_counts(encoded.codes[:, index], layout.sizes[index]) for index in chosen]
        rows = room((len(chosen) * n,), np.int32)
        for place, (index, count) in enumerate(zip(chosen, counts, strict=True)):
            _sort(encoded.codes[:, index], count, rows[place * n : (place + 1) * n])
        places = [np.arange(layout.sizes[index]) + layout.offsets[index] for index in chosen]
        n_rows = _joined(counts, np.int64)
        parts: tuple[NDArray[Any], ...] = (
            np.array(chosen, dtype=np.int64),
            np.repeat(np.array(chosen, dtype=np.int64), [len(count) for count in counts]),
            _joined(places, np.int64),
            _joined([column + _running(np.log1p(count)) for column, count in enumerate(counts)], np.float64),
            rows,
            np.cumsum(n_rows) - n_rows,
            n_rows,
        )
        return cls(*(torch.from_numpy(part).to(device) for part in parts))

    @property
    def width(self) -> int:
        """Number of conditions there are."""
        return len(self.running)

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        """Conditions, and the column of each among `spans`; int64 of shape (n,) both."""
        column = torch.randint(len(self.spans), (n,), device=self.running.device)
        share = torch.rand(n, dtype=torch.float64, device=self.running.device)
        return torch.searchsorted(self.running, column + share * LESS_THAN_ONE, right=True), column

    def matching(self, conditions: Tensor) -> Tensor:
        """A row that meets each condition, any of them as likely; int64 of shape (n,)."""
        n_rows = self.n_rows[conditions]
        share = torch.rand(len(conditions), dtype=torch.float64, device=n_rows.device)
        place = torch.minimum((share * n_rows).long(), n_rows - 1)
        return self.rows[self.first_row[conditions] + place].long()

    def frequencies(self) -> tuple[NDArray[np.float64], ...]:
        """How often each code occurs, *sensitive*; for each column one share a code, which sum to one."""
        counts = [self.n_rows[self.span_of == span].cpu().numpy() for span in self.spans]
        return tuple(count / count.sum() for count in counts)

    def one_hot(self, conditions: Tensor) -> Tensor:
        """Shape: (n,), to (n, d_condition)."""
        hot = torch.zeros(len(conditions), self.width, device=conditions.device)
        return hot.scatter_(1, conditions[:, None], 1.0)


def _counts(codes: NDArray[Any], size: int) -> NDArray[np.int64]:
    """How often each code occurs, shape (size,)."""
    return sum((np.bincount(codes[rows], minlength=size) for rows in _slices(len(codes))), np.zeros(size, np.int64))


def _sort(codes: NDArray[Any], counts: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
    """Write down the places of the codes sorted by code, equal ones in their order; some at a time.

    Args:
        codes: *Sensitive*. Shape (n,).
        counts: *Sensitive*. How often each occurs.
        rows: to be filled, shape (n,).
    """
    free = np.cumsum(counts) - counts
    for part in _slices(len(codes)):
        order = np.argsort(codes[part], kind="stable").astype(np.int32)
        found = np.bincount(codes[part], minlength=len(counts))
        ends = np.cumsum(found)
        for code in np.flatnonzero(found):
            n = found[code]
            rows[free[code] : free[code] + n] = part.start + order[ends[code] - n : ends[code]]
        free += found


def _slices(n: int) -> Iterator[slice]:
    return (slice(start, min(start + SORTED_ROWS, n)) for start in range(0, n, SORTED_ROWS))


def _running(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The running share of each weight; exactly 1 from the last positive one on, so that none beyond is drawn."""
    total = np.cumsum(weights)
    shares: NDArray[np.float64] = total / total[-1]
    return shares


def _joined(parts: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False)
