"""A part of a table that is made piece by piece: its share of what may not repeat in the table."""

import hashlib
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from synth.permutation import permuted


class Seen(Protocol):
    """What the parts before hold in places where nothing may repeat, as hashes of 64 bits."""

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the values a part before holds; shape (n,)."""

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a table.

    Attributes:
        seed: of the table as a whole, below 2**64.
        first: rows of the table before these.
        n_rows: how many these are.
        n_table: rows of the table.
        seen: what the parts before hold where values are no mere numbers; none: there are no such parts.
    """

    seed: int
    first: int
    n_rows: int
    n_table: int
    seen: Seen | None = None

    @classmethod
    def whole(cls, n_rows: int, rng: np.random.Generator) -> Self:
        """A table of one part."""
        return cls(int(rng.integers(2**63)), 0, n_rows, n_rows)

    @property
    def is_whole(self) -> bool:
        """Whether the table has no other part."""
        return self.n_rows == self.n_table

    def numbers(self, place: str, n: int, room: int) -> NDArray[np.uint64] | None:
        """Distinct numbers that no other part has, shape (n,); none where the part's share holds too few.

        The numbers below `room` are shuffled, and each part has a stretch of them in proportion to its rows.

        Args:
            place: what the numbers are for, such as a column's name: each place has an order of its own.
            n: how many.
            room: how many there are for the table, at most `synth.permutation.LARGEST`.

        >>> halves = [Part(seed=0, first=first, n_rows=2, n_table=4) for first in (0, 2)]
        >>> sorted(int(number) for half in halves for number in half.numbers("id", 2, 4))
        [0, 1, 2, 3]
        """
        start, end = (room * rows // self.n_table for rows in (self.first, self.first + self.n_rows))
        if n > end - start:
            return None
        return permuted(np.arange(start, start + n, dtype=np.uint64), room, self._key(place))

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which values a part before holds; shape (n,)."""
        return np.zeros(len(hashes), dtype=bool) if self.seen is None else self.seen.among(place, hashes)

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values for the parts after this one."""
        if self.seen is not None:
            self.seen.add(place, hashes)

    def _key(self, place: str) -> int:
        digest = hashlib.blake2b(f"{self.seed}\0{place}".encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")
