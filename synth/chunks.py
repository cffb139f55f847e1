"""Chunks of a table that is made piece by piece, and a shuffled order of whole numbers that all chunks share.

A `Part` knows what those before it have left of values that may not repeat. Numbers are dealt out in an order that
needs no memory: any stretch of it is known without the rest. A number is split into two digits, and each in turn is
moved round by a hash of the other: a Feistel network. Its rounds can be undone, so that no two numbers come to the
same. A result outside the range is put through once more.

Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", method 3 and cycle walking. The order is as
good as random for names that mean nothing, and no secret.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**62  # numbers that can be shuffled at most
ROUNDS = 8
Numbers = NDArray[np.uint64]
Order = Literal["shuffled", "rising", "consecutive"]


def permuted(places: Numbers, room: int, key: int) -> Numbers:
    """The numbers at some places of the numbers below `room`, shuffled; shape as `places`.

    >>> permuted(np.arange(10, dtype=np.uint64), 10, key=7).tolist()
    [7, 9, 0, 1, 6, 4, 5, 3, 8, 2]
    """
    high = math.isqrt(room - 1) + 1 if room > 1 else 1
    low = -(-room // high)
    keys = mix(np.arange(ROUNDS, dtype=np.uint64) + np.uint64(key) + ODD)
    result = _walked(places, np.uint64(high), np.uint64(low), keys)
    outside = np.flatnonzero(result >= room)
    while len(outside):
        result[outside] = _walked(result[outside], np.uint64(high), np.uint64(low), keys)
        outside = outside[result[outside] >= room]
    return result


def _walked(numbers: Numbers, high: np.uint64, low: np.uint64, keys: Numbers) -> Numbers:
    """A permutation of the numbers below `high * low`."""
    left, right = np.divmod(numbers, low)
    for round_number in range(0, ROUNDS, 2):
        left = (left + mix(right + keys[round_number] + ODD) % high) % high
        right = (right + mix(left + keys[round_number + 1] + ODD) % low) % low
    return left * low + right


ODD = np.uint64(0x9E3779B97F4A7C15)


def mix(numbers: Numbers) -> Numbers:
    """Numbers that look random, different ones for different numbers; shape as they have.

    Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64).
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class Seen(Protocol):
    """Memory of the parts before, in places where nothing may repeat: numbers in an order, or hashes of 64 bits."""

    def taken(self, name: str) -> int:
        """The count of numbers that the parts before have taken."""

    def take(self, name: str, n: int) -> None:
        """Note how many numbers this part and those before it have taken, for those after it."""

    def among(self, name: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Flags of the values that a part before holds; shape (n,)."""

    def add(self, name: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a table."""

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
        """True if the table has no other part."""
        return self.n_rows == self.n_table

    def numbers(self, name: str, n: int, room: int, order: Order = "shuffled") -> NDArray[np.uint64] | None:
        """Distinct numbers that no other part has, shape (n,); `None` where the parts before have left too few.

        The numbers below `room` are shuffled, and each part takes the next of them. Or they rise from part to part:
        consecutively, or each within its share of the room.

        >>> whole = Part(seed=0, n_rows=4, n_table=4)
        >>> sorted(whole.numbers("id", 4, 4).tolist()), whole.numbers("id", 5, 4)
        ([0, 1, 2, 3], None)
        """
        start = 0 if self.seen is None else self.seen.taken(name)
        if n > room - start:
            return None
        if self.seen is not None:
            self.seen.take(name, start + n)
        numbers = np.arange(start, start + n, dtype=np.uint64)
        if order == "consecutive":
            return numbers
        if order == "rising" and (share := room // max(self.n_table, start + n)):
            return numbers * np.uint64(share) + mix(numbers + np.uint64(self._key(name)) + ODD) % np.uint64(share)
        return permuted(numbers, room, self._key(name))

    def among(self, name: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Flags of the values that a part before holds; shape (n,)."""
        return np.zeros(len(hashes), dtype=bool) if self.seen is None else self.seen.among(name, hashes)

    def add(self, name: str, hashes: NDArray[np.uint64]) -> None:
        """Note values for the parts after this one."""
        if self.seen is not None:
            self.seen.add(name, hashes)

    def _key(self, name: str) -> int:
        digest = hashlib.blake2b(f"{self.seed}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")
