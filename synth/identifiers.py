"""Identifiers made anew in a declared format: they name synthetic rows and entities and mean nothing."""

import math
from functools import cache

import numpy as np

from synth.chunks import LARGEST, Part
from synth.errors import SchemaError
from synth.schema.kinds import IdentifierColumn

ENOUGH = 2**48  # numbers that tell the rows of any table apart

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
    return math.prod(_told(column.template or ""))


def named(column: IdentifierColumn, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The identifiers of some numbers, different ones for different numbers; shape as `numbers`."""
    if column.bounds is not None:
        spread = capacity(column) // room_of(column)
        numbers = numbers * np.uint64(spread) + rng.integers(spread, size=len(numbers), dtype=np.uint64)
        # Unsigned numbers wrap around to the negative ones.
        return (numbers + np.uint64(column.bounds[0] % 2**64)).view(np.int64)
    alphabets = positions(column.template or "")
    told = _told(column.template or "")
    characters = np.empty((len(numbers), len(alphabets)), dtype=np.uint32)
    for position, alphabet in enumerate(alphabets):
        if position < len(told):
            numbers, digits = np.divmod(numbers, np.uint64(told[position]))
        else:
            digits = rng.integers(len(alphabet), size=len(numbers), dtype=np.uint64)
        characters[:, position] = np.array([ord(character) for character in alphabet], dtype=np.uint32)[digits]
    return _texts(characters)


def _told(template: str) -> tuple[int, ...]:
    """The count of characters that each of the first positions admits, as many positions as can be numbered."""
    sizes: list[int] = []
    for alphabet in positions(template):
        if math.prod(sizes) * len(alphabet) > LARGEST:
            break
        sizes.append(len(alphabet))
    return tuple(sizes)


def _texts(characters: np.ndarray) -> np.ndarray:
    n, width = characters.shape
    if width == 0 or not characters[:, -1].all():  # NumPy takes a NUL at a text's end for no part of it
        return np.array(["".join(map(chr, row)) for row in characters.tolist()], dtype=object)
    return np.ascontiguousarray(characters).view(f"<U{width}").reshape(n).astype(object)
