"""Identifiers made anew in a declared format: they name synthetic rows and entities and mean nothing."""

import math
from functools import cache

import numpy as np

from synth.columns import IdentifierColumn
from synth.errors import SchemaError

ALPHABETS = {
    "#": "0123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
    "x": "0123456789abcdef",
    "X": "0123456789ABCDEF",
}
"""What each placeholder of a template stands for."""


def generate(column: IdentifierColumn, n: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct identifiers, shape (n,): int64 for a column with bounds, else an object array of texts.

    Raises:
        SchemaError: the declared format has fewer than `n` distinct identifiers; nothing was made.

    >>> generate(IdentifierColumn(template="P-##"), 3, np.random.default_rng(0)).tolist()
    ['P-86', 'P-65', 'P-55']
    """
    room = capacity(column)
    if n > room:
        raise SchemaError(
            f"the identifier's format has room for {room} values, too few for this table; declare a wider one"
        )
    made: np.ndarray = np.zeros(0, dtype=np.int64 if column.bounds is not None else object)
    while len(made) < n:
        more = draw(column, max(2 * (n - len(made)), 16), rng)
        _, first = np.unique(np.concatenate([made, more]), return_index=True)
        made = np.concatenate([made, more])[np.sort(first)]
        if len(made) < n and n > room // 2:
            return rng.permutation(_all(column))[:n]
    return made[:n]


def capacity(column: IdentifierColumn) -> int:
    """How many distinct identifiers the declared format admits.

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
    if column.bounds is not None:
        return rng.integers(*column.bounds, size=n, endpoint=True)
    characters = [np.array(list(a))[rng.integers(len(a), size=n)] for a in positions(column.template or "")]
    return _joined(characters)


def _all(column: IdentifierColumn) -> np.ndarray:
    """Every identifier of a narrow format."""
    if column.bounds is not None:
        return np.arange(column.bounds[0], column.bounds[1] + 1)
    grids = np.meshgrid(*[np.array(list(a)) for a in positions(column.template or "")], indexing="ij")
    return _joined([axis.ravel() for axis in grids])


def _joined(characters: list[np.ndarray]) -> np.ndarray:
    """Texts from one array of characters per position."""
    texts = np.array(["".join(row) for row in zip(*characters, strict=True)], dtype=object)
    return texts
