"""A part of a table that is made piece by piece, after others: what they have left of what may not repeat."""

import hashlib
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from synth.permutation import permuted


class Seen(Protocol):
    """What the parts before hold in places where nothing may repeat: numbers in an order, or hashes of 64 bits."""

    def taken(self, place: str) -> int:
        """How many numbers the parts before have taken."""

    def take(self, place: str, n: int) -> None:
        """Note how many numbers this part and those before it have taken, for those after it."""

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the values a part before holds; shape (n,)."""

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a table.

    Attributes:
        seed: of the table as a whole, below 2**64.
        n_rows: how many these are.
        n_table: rows of the table.
        seen: what the parts before hold; none: there are no other parts.
    """

    seed: int
    n_rows: int
    n_table: int
    seen: Seen | None = None

    @classmethod
    def whole(cls, n_rows: int, rng: np.random.Generator) -> Self:
        """A table of one part."""
        return cls(int(rng.integers(2**63)), n_rows, n_rows)

    @property
    def is_whole(self) -> bool:
        """Whether the table has no other part."""
        return self.n_rows == self.n_table

    def numbers(self, place: str, n: int, room: int) -> NDArray[np.uint64] | None:
        """Distinct numbers that no other part has, shape (n,); none where the parts before have left too few.

        The numbers below `room` are shuffled, and each part takes the next of them.

        Args:
            place: what the numbers are for, such as a column's name: each place has an order of its own.
            n: how many; a part asks once for a place.
            room: how many there are for the table, at most `synth.permutation.LARGEST`.

        >>> whole = Part(seed=0, n_rows=4, n_table=4)
        >>> sorted(whole.numbers("id", 4, 4).tolist()), whole.numbers("id", 5, 4)
        ([0, 1, 2, 3], None)
        """
        start = 0 if self.seen is None else self.seen.taken(place)
        if n > room - start:
            return None
        if self.seen is not None:
            self.seen.take(place, start + n)
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
