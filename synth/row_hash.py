"""Row hashes: keys, tickets and names of rows, the same whatever the table comes from.

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

All of this is of rows one by one, whatever the chunks that they are read in; turns, counts and entities are told on
vectors of all rows, of 8 bytes a row each.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from synth.identifiers import ODD, mix
from synth.schema import Schema
from synth.schema.kinds import LineColumn
from synth.table.rows import Rows
from synth.table.table import Chunk, codes_of

Table = pd.DataFrame | Rows

BASE = 2.0**52  # whole numbers below it are counted exactly in float64, and so are their halves
MISSING, BETWEEN, DIGITS = b"-", b"|", 16
ABSENT = np.uint64(0)  # the hash of a missing cell
_SALT = b"understudy.draw %d\n"
_AT_ONCE = 1 << 18  # tickets that are written out at a time
_LEAST_EXPONENT = -900  # places are not magnified further, however narrow the bounds: float64 ends there


@dataclass(frozen=True)
class Ruler:
    """What makes whole numbers of places on the line of a column, whose bounds limit how far these lie from zero."""

    factor: float
    n_digits: int
    least: float = 0.0

    @classmethod
    def of(cls, column: LineColumn) -> Self:
        decimals, reach = getattr(column, "decimals", None), max(map(abs, column.ends))
        factor = 10.0 ** (decimals or 0)
        if column.unit is not None and reach * factor < BASE:
            return cls(factor, 1)
        exponent = max(math.frexp(reach)[1], _LEAST_EXPONENT)
        return cls(math.ldexp(1.0, 52 - exponent), 3, math.ldexp(1.0, exponent - 104))


def frames_of(table: Table, *names: str) -> Iterator[pd.DataFrame]:
    """A frame, or rows in chunks: some columns at least."""
    return iter([table]) if isinstance(table, pd.DataFrame) else table.frames(*names)


def content_keys(table: Table, schema: Schema) -> np.ndarray:
    """A key for each row, equal for rows that agree in all learned columns; shape (len(table),), uint64."""
    names = sorted(schema.learned)
    parts = (_digests(_rows(frame, names, schema, _texts)) for frame in frames_of(table, *names))
    return np.concatenate([words[:, 0] for words in parts])


def content_hashes(rows: pd.DataFrame | Chunk, schema: Schema) -> np.ndarray:
    """A number for each row, equal where `content_keys` are, and many times faster; shape (n,), uint64.

    It is not the same number in another version or on another machine: count by it, and draw by `content_keys`.
    """
    hashes = np.zeros(rows.n if isinstance(rows, Chunk) else len(rows), dtype=np.uint64)
    for name in sorted(schema.learned):
        hashes = mix(hashes * ODD + cell_hashes(rows, name, schema))
    return hashes


def entity_hashes(rows: pd.DataFrame | Chunk, name: str, schema: Schema) -> np.ndarray:
    """A number for the text of each cell of a column, `ABSENT` where it is missing; shape (n,), uint64."""
    cells = rows.frame(schema, [name])[name] if isinstance(rows, Chunk) else rows[name]
    codes, distinct = pd.factorize(cells)
    texts = np.array([*map(str, distinct), ""], dtype=object)[:-1]
    hashes = np.maximum(pd.util.hash_array(texts, categorize=False), np.uint64(1)) if len(texts) else np.empty(0, "u8")
    return np.asarray(np.append(hashes, ABSENT)[codes], dtype=np.uint64)


def cell_hashes(rows: pd.DataFrame | Chunk, name: str, schema: Schema) -> np.ndarray:
    """A number for each cell of a learned column, `ABSENT` where it is missing; shape (n,), uint64."""
    if not isinstance(rows, Chunk):
        return _hashed(rows[name], schema.columns[name])
    array = rows.columns[name]
    if not pa.types.is_dictionary(array.type):
        return _hashed(rows.frame(schema, [name])[name], schema.columns[name])
    distinct = Chunk({name: array.dictionary}, {}, len(array.dictionary)).frame(schema, [name])[name]
    hashes = np.append(_hashed(distinct, schema.columns[name]), ABSENT)
    return np.asarray(hashes[codes_of(array)])


def _hashed(cells: pd.Series, column: Any) -> np.ndarray:
    """A number for each cell, not 0 unless it is missing."""
    if column.is_categorical:
        known = column.levels
        codes, distinct = pd.factorize(cells)
        members = pd.Index(known).get_indexer(pd.Index(distinct))
        return mix(np.append(np.where(members < 0, len(known), members) + 1, 0).astype(np.uint64)[codes])
    places, ruler = column.positions(cells), Ruler.of(column)
    if ruler.n_digits == 1:
        places = np.rint(places * ruler.factor)
    bits = (places + 0.0).view(np.uint64)  # of zeros one
    return np.asarray(np.where(np.isnan(places), ABSENT, mix(bits ^ ODD)))


@dataclass(frozen=True)
class ContentSums:
    """The sums of a table's rows, whatever their order: equal for equal tables, wherever they lie."""

    n_rows: int
    sums: tuple[int, int, int, int]


def content_sums(table: Table, schema: Schema) -> ContentSums:
    """The sums of the digests of all rows over `schema.kept`.

    Two cells are equal as two learned cells of a key are; where categories are to be measured, where their values are;
    and in identifiers, personal data and text where their texts are, to the last blank.
    """
    names, sums, n_rows = sorted(schema.kept), np.zeros(4, dtype=np.uint64), 0
    for frame in frames_of(table, *names):
        digests = _digests(_rows(frame, names, schema, _kept_texts))
        sums += digests.astype(">u8").view(">u4").reshape(-1, 4).sum(axis=0, dtype=np.uint64)
        n_rows += len(frame)
    first, second, third, fourth = sums.tolist()
    return ContentSums(n_rows, (first, second, third, fourth))


def row_names(table: Table, schema: Schema) -> Iterator[list[str]]:
    """A name for each row, from what it holds and its turn among rows that hold the same; some rows at a time."""
    names, start = sorted(schema.kept), 0
    # Turns are counted among equal texts. Somebody may find two texts of one MD5, but not of a digest with a key that
    # is drawn here and forgotten.
    turns_of_rows = turns(
        _numbers(table, names, lambda frame, key: _keyed(_rows(frame, names, schema, _kept_texts), key))
    )
    for frame in frames_of(table, *names):
        rows = _rows(frame, names, schema, _kept_texts)
        of_rows = zip(rows, turns_of_rows[start : start + len(frame)].tolist(), strict=True)
        yield [f"{hashlib.md5(row, usedforsecurity=False).hexdigest()}:{turn}" for row, turn in of_rows]
        start += len(frame)


def entity_codes(table: Table, schema: Schema) -> np.ndarray:
    """A number for the entity of each row, in the order of first appearance, -1 where it has none; shape (n,)."""
    entity = str(schema.entity)

    def digests(frame: pd.DataFrame, key: bytes) -> np.ndarray:
        codes, values = pd.factorize(frame[entity])
        of_values = _keyed([str(value).encode(errors="surrogatepass") for value in values], key)
        return np.concatenate([of_values, np.zeros((1, 2), dtype=np.uint64)])[codes]

    codes = _numbers(table, [entity], digests)
    missing = np.concatenate([frame[entity].isna().to_numpy(dtype=bool) for frame in frames_of(table, entity)])
    if not missing.any():
        return codes
    nobody = codes[missing.argmax()]
    return np.where(missing, -1, codes - (codes > nobody))


def seeded_order(table: Table, schema: Schema, seed: int) -> np.ndarray:
    """Positions of the rows in a seeded random order, which depends on nothing but what they hold; shape (n,).

    Its first k are a sample of k rows without replacement. Rows that are equal in all learned columns are told apart by
    their entities and free texts, so that units and texts come out alike, too.
    """
    names = [name for name in (schema.entity, *schema.texts) if name is not None]
    keys = content_keys(table, schema)
    return drawn_order(keys, seed, *(_text_digests(table, name) for name in names))


def drawn_order(keys: np.ndarray, seed: int, *ties: np.ndarray) -> np.ndarray:
    """Positions of the rows in a seeded random order; its first k are a sample of k rows without replacement.

    Rows of equal keys are told apart by their count, in the order of `ties`, else as they stand.
    """
    order = np.lexsort((*reversed(ties), keys)) if ties else np.argsort(keys, kind="stable")
    ranked = keys[order]
    return np.asarray(order[np.argsort(tickets(ranked, turns(ranked), seed), kind="stable")])


def whole_entities(table: Table, schema: Schema, *, seed: int, limit: int) -> np.ndarray:
    """Flags of all rows of entities that are drawn by their names, `limit` rows at most; shape (n,).

    An entity of more rows is passed over.
    """
    codes, named = entity_codes(table, schema), _text_digests(table, str(schema.entity), seed)
    known = codes >= 0
    sizes = np.bincount(codes[known], minlength=1)
    ticket = np.zeros(len(sizes), dtype=np.uint64)
    ticket[codes[known]] = named[known]
    order = np.argsort(ticket, kind="stable")
    order = order[sizes[order] <= limit]
    drawn = np.zeros(len(sizes) + 1, dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= limit]] = True
    return np.asarray(drawn[codes])


def tickets(keys: np.ndarray, counts: np.ndarray, seed: int) -> np.ndarray:
    """The ticket of each row as a number, shape (n,), uint64, by its key and the count of equal rows before it."""
    salt, hashes = _SALT % seed, np.empty(len(keys), dtype=np.uint64)
    for at in range(0, len(keys), _AT_ONCE):
        names = keys[at : at + _AT_ONCE].astype(">u8").tobytes().hex().encode()
        named = zip(range(0, len(names), DIGITS), counts[at : at + _AT_ONCE].tolist(), strict=True)
        hashes[at : at + _AT_ONCE] = _digests([b"%s%s:%d" % (salt, names[i : i + DIGITS], n) for i, n in named])[:, 0]
    return hashes


def _digests(texts: list[bytes]) -> np.ndarray:
    """The MD5 of each text as two numbers of 64 bits; shape (n, 2), uint64."""
    md5 = hashlib.md5
    return _words([md5(text, usedforsecurity=False).digest() for text in texts])


def _keyed(texts: list[bytes], key: bytes) -> np.ndarray:
    """128 bits of each text under a key, shape (n, 2), uint64."""
    return _words([hashlib.blake2b(text, digest_size=16, key=key).digest() for text in texts])


def _words(digests: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)


def _text_digests(table: Table, name: str, seed: int | None = None) -> np.ndarray:
    """The first 64 bits of the MD5 of each cell's text, or of a salt and its digits; missing ones come last."""
    parts = []
    for frame in frames_of(table, name):
        codes, values = pd.factorize(frame[name])
        texts = [str(value).encode(errors="surrogatepass") for value in values]
        if seed is not None:
            texts = [_SALT % seed + hashlib.md5(text, usedforsecurity=False).hexdigest().encode() for text in texts]
        parts.append(np.append(_digests(texts)[:, 0], np.uint64(2**64 - 1))[codes])
    return np.concatenate(parts)


def _numbers(table: Table, names: list[str], digests: Callable[[pd.DataFrame, bytes], np.ndarray]) -> np.ndarray:
    """Numbers of rows by digests under a key that is drawn here, equal where these are; by first appearance."""
    while True:
        key = os.urandom(16)
        words = np.concatenate([digests(frame, key) for frame in frames_of(table, *names)])
        codes = pd.factorize(words[:, 0])[0]
        others = np.empty(codes.max(initial=-1) + 1, dtype=np.uint64)
        others[codes] = words[:, 1]
        if (others[codes] == words[:, 1]).all():  # else two texts share 64 bits under this key
            return np.asarray(codes)


def turns(keys: np.ndarray) -> np.ndarray:
    """How many equal ones come before each key, shape (n,).

    >>> turns(np.array([7, 5, 7, 7], dtype=np.uint64)).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]][: len(keys)])
    result = np.empty(len(keys), dtype=np.int64)
    result[order] = np.arange(len(keys)) - np.repeat(first, np.diff(np.r_[first, len(keys)]))
    return result


def _rows(
    frame: pd.DataFrame, names: list[str], schema: Schema, texts: Callable[[pd.Series, Any], list[pa.Array]]
) -> list[bytes]:  # fmt: skip
    """The texts of some columns of each row, as one."""
    parts = [part for name in names for part in texts(frame[name], schema.columns[name])]
    if not parts:
        return [b""] * len(frame)
    return pc.binary_join_element_wise(*parts, BETWEEN).to_pylist()  # type: ignore[no-any-return]


def _kept_texts(series: pd.Series, column: Any) -> list[pa.Array]:
    if column.is_learned and not (column.is_categorical and column.is_measured):
        return _texts(series, column)
    codes, distinct = pd.factorize(series)
    # Its length before each text, so that no two rows run together alike.
    texts = (str(value) for value in distinct)
    return [_taken(codes, [f"{len(text)}:{text}".encode(errors="surrogatepass") for text in texts])]


def _texts(series: pd.Series, column: Any) -> list[pa.Array]:
    """The whole numbers of a column as texts: one array, or three."""
    if column.is_categorical:
        known = column.levels
        members = pd.Index(known).get_indexer(pd.Index(series.array))
        members = np.where(members < 0, len(known), members)
        return [_taken(np.where(series.isna().to_numpy(), -1, members), [b"%d" % n for n in range(len(known) + 1)])]
    ruler = Ruler.of(column)
    places = column.positions(series)
    absent = np.isnan(places)
    texts = [
        pa.array(digit, mask=absent).cast(pa.string()).cast(pa.binary()).fill_null(MISSING)
        for digit in _digits(np.where(absent, 0.0, places), ruler)
    ]
    tiny = np.flatnonzero((places != 0.0) & (np.abs(places) < ruler.least))
    if len(tiny):
        first = texts[0].to_pylist()
        for row in tiny.tolist():
            first[row] = repr(float(places[row])).encode()
        texts[0] = pa.array(first, pa.binary())
    return texts


def _taken(codes: np.ndarray, texts: list[bytes]) -> pa.Array:
    """The text of each code, of -1 that of a missing cell."""
    return pa.array([*texts, MISSING], pa.binary()).take(pa.array(np.where(codes < 0, len(texts), codes)))


def _digits(places: np.ndarray, ruler: Ruler) -> list[np.ndarray]:
    if ruler.n_digits == 1:
        return [np.rint(places * ruler.factor).astype(np.int64)]
    rest, digits = np.where(np.abs(places) < ruler.least, 0.0, np.abs(places)) * ruler.factor, []
    for _ in range(ruler.n_digits):
        digits.append(np.floor(rest))
        rest = (rest - digits[-1]) * BASE
    return [np.where(places < 0.0, -digit, digit).astype(np.int64) for digit in digits]
