"""Identifiers made anew in a declared format: they name synthetic rows and entities and mean nothing.

They are numbers in a shuffled order that all parts of a table share, written as the format says. The order needs no
memory: any stretch of it is known without the rest. A number is split into two digits, and each in turn is moved round
by a hash of the other: a Feistel network. Its rounds can be undone, so that no two numbers come to the same. A result
outside the range is put through once more.

Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", method 3 and cycle walking. The order is as
good as random for names that mean nothing, and no secret.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import SchemaError
from synth.schema.kinds import IdentifierColumn

LARGEST = 2**62  # numbers that can be shuffled at most
ENOUGH = 2**48  # numbers that tell the rows of any table apart
ROUNDS = 8
ODD = np.uint64(0x9E3779B97F4A7C15)
Numbers = NDArray[np.uint64]


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


def mix(numbers: Numbers) -> Numbers:
    """Numbers that look random, different ones for different numbers; shape as they have.

    Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64).
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a table that is made piece by piece.
    `seen`: memory of the parts before, `None` where there are none: numbers that are taken, and hashes of values.
    """

    seed: int
    n_rows: int
    n_table: int
    seen: Any = None

    @classmethod
    def whole(cls, n_rows: int, rng: np.random.Generator) -> Self:
        return cls(int(rng.integers(2**63)), n_rows, n_rows)

    @property
    def is_whole(self) -> bool:
        return self.n_rows == self.n_table

    def numbers(
        self, name: str, n: int, room: int, order: Literal["shuffled", "rising", "consecutive"] = "shuffled"
    ) -> Numbers | None:
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

    def among(self, name: str, hashes: Numbers) -> NDArray[np.bool_]:
        """Flags of the values that a part before holds; shape (n,)."""
        return np.zeros(len(hashes), dtype=bool) if self.seen is None else np.asarray(self.seen.among(name, hashes))

    def add(self, name: str, hashes: Numbers) -> None:
        """Note values for the parts after this one."""
        if self.seen is not None:
            self.seen.add(name, hashes)

    def _key(self, name: str) -> int:
        digest = hashlib.blake2b(f"{self.seed}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")


ALPHABETS = {
    "#": "0123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
    "x": "0123456789abcdef",
    "X": "0123456789ABCDEF",
}
"""The alphabet of each placeholder of a template."""


def generate(
    column: IdentifierColumn, n: int, rng: np.random.Generator, part: Part | None = None, name: str = ""
) -> np.ndarray:
    """Distinct identifiers, shape (n,): int64 for a column with bounds, else an object array of texts.

    >>> generate(IdentifierColumn(template="P-##"), 3, np.random.default_rng(0)).tolist()
    ['P-79', 'P-69', 'P-37']
    """
    part = Part.whole(n, rng) if part is None else part
    numbers = part.numbers(name, n, room_of(column), column.dealt)
    if numbers is None:
        raise _too_few(column)
    return named(column, numbers, rng)


def check_room(column: IdentifierColumn, n: int) -> None:
    """Refuse, before any is made, a column that cannot have so many distinct identifiers."""
    if n > room_of(column):
        raise _too_few(column)


def _too_few(column: IdentifierColumn) -> SchemaError:
    return SchemaError(
        f"the identifier's format has room for {capacity(column)} values, too few for this table; declare a wider one"
    )


def capacity(column: IdentifierColumn) -> int:
    """The number of distinct identifiers that the declared format admits.

    >>> capacity(IdentifierColumn(template="A#"))
    260
    """
    if column.bounds is not None:
        return column.bounds[1] - column.bounds[0] + 1
    return math.prod(len(alphabet) for alphabet in positions(column.template or ""))


@cache
def positions(template: str) -> tuple[str, ...]:
    """The characters each position of a template admits.

    >>> positions("a-#")[:2]
    ('abcdefghijklmnopqrstuvwxyz', '-')
    """
    admitted, literal = [], False
    for character in template:
        if character == "\\" and not literal:
            literal = True
            continue
        admitted.append(character if literal else ALPHABETS.get(character, character))
        literal = False
    return tuple(admitted)


def draw(column: IdentifierColumn, n: int, rng: np.random.Generator) -> np.ndarray:
    """Values of the declared format that may repeat themselves, shape (n,); as of `generate`."""
    return named(column, rng.integers(room_of(column), size=n, dtype=np.uint64), rng)


def room_of(column: IdentifierColumn) -> int:
    """The count of numbers that `named` tells apart: one for each identifier, or enough for any table.

    >>> room_of(IdentifierColumn(template="A#"))
    260
    """
    if column.bounds is not None:
        room = capacity(column)
        return room if room <= LARGEST else ENOUGH
    return math.prod(_numbered_sizes(column.template or ""))


def named(column: IdentifierColumn, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The identifiers of some numbers, different ones for different numbers; shape as `numbers`."""
    if column.bounds is not None:
        spread = capacity(column) // room_of(column)
        numbers = numbers * np.uint64(spread) + rng.integers(spread, size=len(numbers), dtype=np.uint64)
        # Unsigned numbers wrap around to the negative ones.
        return (numbers + np.uint64(column.bounds[0] % 2**64)).view(np.int64)
    alphabets, sizes = positions(column.template or ""), _numbered_sizes(column.template or "")
    characters = np.empty((len(numbers), len(alphabets)), dtype=np.uint32)
    for position, alphabet in enumerate(alphabets):
        if position < len(sizes):
            numbers, digits = np.divmod(numbers, np.uint64(sizes[position]))
        else:
            digits = rng.integers(len(alphabet), size=len(numbers), dtype=np.uint64)
        characters[:, position] = np.array([ord(character) for character in alphabet], dtype=np.uint32)[digits]
    n, width = characters.shape
    if width == 0 or not characters[:, -1].all():  # NumPy takes a NUL at a text's end for no part of it
        return np.array(["".join(map(chr, row)) for row in characters.tolist()], dtype=object)
    return np.ascontiguousarray(characters).view(f"<U{width}").reshape(n).astype(object)


def _numbered_sizes(template: str) -> tuple[int, ...]:
    """The count of characters that each of the first positions admits, as many positions as can be numbered."""
    sizes: list[int] = []
    for alphabet in positions(template):
        if math.prod(sizes) * len(alphabet) > LARGEST:
            break
        sizes.append(len(alphabet))
    return tuple(sizes)
