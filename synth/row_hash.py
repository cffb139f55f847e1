"""Row hashes: keys, tickets and names of rows that memory and every database compute alike.

Every learned column, in the order of names, gives one whole number, or two:

* a number or time with steps: its place on the line in steps;
* one without steps, or too large for float64 to count its steps: its place as three digits to the base 2**52, or as it
  is written where it lies closer to zero than these reach, so that float64 is told apart;
* a category: its place in the list, one past the last where it is unknown;
* "-" where it is missing.

The MD5 of these texts, joined by "|", begins with the row's *key* (16 hexadecimal digits). Keys are equal for equal
rows, and for no others but by a chance of about n**2 / 2**65. A *ticket* is the MD5 of a salt with the seed, the key
and the row's count among equal rows. Rows in the order of their tickets are a random order that depends on nothing but
what they hold.

A row's *name* is the MD5 of the texts of all its kept columns and its turn among rows with the same texts: 0, 1, 2 and
so on. Whoever takes a row away takes one name away, the last of its kind, and changes no other.

`synth.stored.row_hash` says the same in expressions of a database.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.schema.kinds import LineColumn

BASE = 2.0**52
"""Whole numbers below it are counted exactly in float64, and so are their halves."""
MISSING, BETWEEN, DIGITS = "-", "|", 16
_LEAST_EXPONENT = -900
"""Places are not magnified further, however narrow the bounds: float64 ends there."""


@dataclass(frozen=True)
class Ruler:
    """The ruler of one column: it makes whole numbers of places on its line."""

    factor: float
    n_digits: int
    least: float = 0.0

    @classmethod
    def of(cls, column: LineColumn) -> Self:
        """The ruler of a column; its bounds limit how far places lie from zero."""
        decimals, reach = getattr(column, "decimals", None), max(map(abs, column.ends))
        factor = 10.0 ** (decimals or 0)
        if column.unit is not None and reach * factor < BASE:
            return cls(factor, 1)
        exponent = max(math.frexp(reach)[1], _LEAST_EXPONENT)
        return cls(math.ldexp(1.0, 52 - exponent), 3, math.ldexp(1.0, exponent - 104))


def draw_salt(seed: int) -> str:
    """The salt of a seed: it stands before key and count in the text whose MD5 is a row's ticket."""
    return f"understudy.draw {seed}\n"


def content_keys(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A key for each row, equal for rows that agree in all learned columns; shape (len(frame),), uint64.

    Args:
        frame: *Sensitive*. In canonical form; the order of its columns does not matter.
    """
    parts = [part for name in sorted(schema.learned) for part in _texts(frame[name], schema.columns[name])]
    if not parts:
        return _digests([b""] * len(frame))
    return _digests([BETWEEN.join(row).encode() for row in zip(*parts, strict=True)])


@dataclass(frozen=True)
class ContentSums:
    """The sums of a table's rows, whatever their order: equal for equal tables, in memory and where stored."""

    n_rows: int
    sums: tuple[int, int, int, int]


def content_sums(frame: pd.DataFrame, schema: Schema) -> ContentSums:
    """The sums of the digests of all rows over `schema.kept`.

    Two cells are equal as two learned cells of a key are; where categories are to be measured, where their values are;
    and in identifiers, personal data and text where their texts are, to the last blank.

    Args:
        frame: *Sensitive*. In canonical form.
    """
    digests = b"".join([hashlib.md5(row, usedforsecurity=False).digest() for row in _kept_rows(frame, schema)])
    first, second, third, fourth = (
        int(word) for word in np.frombuffer(digests, dtype=">u4").reshape(-1, 4).sum(axis=0, dtype=np.uint64)
    )
    return ContentSums(len(frame), (first, second, third, fourth))


def row_names(frame: pd.DataFrame, schema: Schema) -> list[str]:
    """A name for each row, from what it holds and its turn among rows that hold the same; shape (len(frame),).

    Args:
        frame: *Sensitive*. In canonical form; neither the order of its rows nor that of its columns matters.
    """
    met: Counter[bytes] = Counter()
    names = []
    for row in _kept_rows(frame, schema):
        # Turns are counted among equal texts, not among equal digests: somebody may find two texts of one digest.
        names.append(f"{hashlib.md5(row, usedforsecurity=False).hexdigest()}:{met[row]}")
        met[row] += 1
    return names


def is_spelled(column: Any) -> bool:
    """True if cells of a column stand for themselves, as texts, rather than for places or members of a list."""
    return not column.is_learned or (column.is_categorical and column.is_measured)


def _kept_rows(frame: pd.DataFrame, schema: Schema) -> Iterator[bytes]:
    """The texts of all kept columns of each row, as one."""
    parts = [part for name in sorted(schema.kept) for part in _kept_texts(frame[name], schema.columns[name])]
    return (BETWEEN.join(row).encode(errors="surrogatepass") for row in zip(*parts, strict=True))


def _kept_texts(series: pd.Series, column: Any) -> list[list[str]]:
    if not is_spelled(column):
        return _texts(series, column)
    codes, distinct = pd.factorize(series)
    # Its length before each text, so that no two rows run together alike.
    texts = np.array([*(f"{len(str(value))}:{value}" for value in distinct), MISSING], dtype=object)
    return [texts[codes].tolist()]


def tickets(keys: np.ndarray, counts: np.ndarray, seed: int) -> np.ndarray:
    """The ticket of each row as a number, shape (n,), uint64.

    Args:
        keys: of the rows, shape (n,), uint64.
        counts: how many equal rows come before each, shape (n,).
    """
    salt, names = draw_salt(seed).encode(), keys.astype(">u8").tobytes().hex().encode()
    starts = range(0, DIGITS * len(keys), DIGITS)
    named = zip(starts, counts.tolist(), strict=True)
    return _digests([b"%s%s:%d" % (salt, names[i : i + DIGITS], n) for i, n in named])


def _digests(texts: list[bytes]) -> np.ndarray:
    """The first 64 bits of the MD5 of each text, as a number."""
    md5 = hashlib.md5
    firsts = b"".join([md5(text, usedforsecurity=False).digest()[:8] for text in texts])
    return np.frombuffer(firsts, dtype=">u8").astype(np.uint64)


def _texts(series: pd.Series, column: Any) -> list[list[str]]:
    """The whole numbers of a column as texts: one list, or three."""
    if column.is_categorical:
        known = column.levels
        members = pd.Index(known).get_indexer(pd.Index(series.array))
        named = np.array([*map(str, range(len(known) + 1)), MISSING], dtype=object)
        members = np.where(members < 0, len(known), members)
        return [named[np.where(series.isna().to_numpy(), len(known) + 1, members)].tolist()]
    ruler = Ruler.of(column)
    places = column.positions(series)
    absent = np.isnan(places)
    texts = [_spelled(digit, absent) for digit in _digits(np.where(absent, 0.0, places), ruler)]
    for row in np.flatnonzero((places != 0.0) & (np.abs(places) < ruler.least)):
        texts[0][row] = repr(float(places[row]))
    return texts


def _digits(places: np.ndarray, ruler: Ruler) -> list[np.ndarray]:
    if ruler.n_digits == 1:
        return [np.rint(places * ruler.factor).astype(np.int64)]
    rest, digits = np.where(np.abs(places) < ruler.least, 0.0, np.abs(places)) * ruler.factor, []
    for _ in range(ruler.n_digits):
        digits.append(np.floor(rest))
        rest = (rest - digits[-1]) * BASE
    return [np.where(places < 0.0, -digit, digit).astype(np.int64) for digit in digits]


def _spelled(digits: np.ndarray, absent: np.ndarray) -> list[str]:
    """Whole numbers as texts; those that repeat are written once."""
    codes, distinct = pd.factorize(digits)
    texts = np.array([*map(str, distinct.tolist()), MISSING], dtype=object)
    return texts[np.where(absent, len(distinct), codes)].tolist()  # type: ignore[no-any-return]
