"""Texts of a table as numbers of words, and the runs of words that two tables share.

Runs of one length are compared by their hash, length after length. A run can be shared only where its beginning is, so
that each length looks at what the one before left over (Agrawal & Srikant 1994). The lengths are those of `LENGTHS`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from evaluate.free_text.corpus import words
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.schema import Schema

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)  # Lengths of runs that are looked at, in words
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Vocabulary:
    """*Sensitive*. Words by their numbers, from 0; it grows with each text."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, text: str) -> list[int]:
        """Numbers of the words of a text, in their order."""
        known = self.numbers
        return [known.setdefault(word, len(known)) for word in words(text)]


@dataclass(frozen=True)
class TextTokens:
    """*Sensitive* where the rows are real. The words of all texts of a table, one text after another."""

    ids: np.ndarray  # number of each word, shape (n,)
    text: np.ndarray  # number of the text of each word, ascending, shape (n,)
    ends: np.ndarray  # place after the last word of each text, shape (n_texts,)
    rows: np.ndarray  # position of each text in the table, shape (n_texts,)
    columns: np.ndarray  # number of the column of each text, among the columns of text, shape (n_texts,)
    units: np.ndarray  # whose each text is, from 0, shape (n_texts,)
    n_units: int
    n_rows: int

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, vocabulary: Vocabulary) -> "TextTokens":
        """The texts of a table; missing ones are left out. `frame`: *Sensitive* where it is real. In canonical form."""
        ids: list[np.ndarray] = []
        rows, columns = [], []
        for number, name in enumerate(schema.texts):
            for row, value in enumerate(frame[name].tolist()):
                if isinstance(value, str):
                    ids.append(np.array(vocabulary.of(value), dtype=np.int32))
                    rows.append(row)
                    columns.append(number)
        owners = entity_codes(frame, schema)
        places = np.array(rows, dtype=np.int64)
        sizes = np.array([len(one) for one in ids], dtype=np.int64)
        return cls(
            np.concatenate(ids) if ids else np.zeros(0, dtype=np.int32), np.repeat(np.arange(len(ids)), sizes),
            np.cumsum(sizes), places, np.array(columns, dtype=np.int64), owners[places],
            int(owners.max(initial=-1)) + 1, len(frame),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> np.ndarray:
        """Place of the first word of each text, shape (n_texts,)."""
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64) if len(self.ends) else self.ends

    @property
    def owners(self) -> np.ndarray:
        """The unit of each word, shape (n,)."""
        return np.asarray(self.units[self.text])

    def first(self, n: int) -> "TextTokens":
        """The texts of the first n rows."""
        return self.of_texts(self.rows < n)

    def joined(self, other: "TextTokens") -> "TextTokens":
        """These texts and then those of another table; its rows and units follow these."""
        return TextTokens(
            np.r_[self.ids, other.ids], np.r_[self.text, other.text + len(self)],
            np.r_[self.ends, other.ends + len(self.ids)], np.r_[self.rows, other.rows + self.n_rows],
            np.r_[self.columns, other.columns], np.r_[self.units, other.units + self.n_units],
            self.n_units + other.n_units, self.n_rows + other.n_rows,
        )  # fmt: skip

    def windows(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Places and hashes of all runs of one length; of a shorter text, the whole of it."""
        sizes = np.diff(np.r_[0, self.ends])
        places = np.flatnonzero(np.arange(len(self.ids)) + np.minimum(length, sizes)[self.text] <= self.ends[self.text])
        hashes = np.zeros(len(places), dtype=np.uint64)
        values = _values(self.ids)
        for step in range(length):
            at = np.minimum(places + step, len(values) - 1)
            inside = places + step < self.ends[self.text[places]]
            hashes = hashes * _FACTOR + np.where(inside, values[at], np.uint64(0))
        return places, hashes

    def of_texts(self, texts: np.ndarray) -> "TextTokens":
        sizes = np.diff(np.r_[0, self.ends])[texts]
        return TextTokens(
            self.ids[texts[self.text]], np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes), self.rows[texts],
            self.columns[texts], self.units[texts], self.n_units, self.n_rows,
        )  # fmt: skip


@dataclass(frozen=True)
class TokenSides:
    """*Sensitive*. The texts of all tables of an evaluation, whose roles `evaluate.tables.Real` explains."""

    train: TextTokens
    fresh: TextTokens
    control: TextTokens
    synthetic: TextTokens
    vocabulary: Vocabulary

    @classmethod
    def of(cls, tables: Tables) -> "TokenSides":
        """The texts of an evaluation; those of real tables are read once for all synthetic ones."""

        def read() -> tuple[TextTokens, TextTokens, TextTokens, Vocabulary]:
            known = Vocabulary()
            train, fresh, control = (
                TextTokens.of(side, tables.schema, known) for side in (tables.train, tables.fresh, tables.control)
            )
            return train, fresh, control, known

        train, fresh, control, vocabulary = tables.kept_of_real.once("text tokens", read)
        synthetic = tables.kept.once(
            "text tokens of this", lambda: TextTokens.of(tables.synthetic, tables.schema, vocabulary)
        )
        return cls(train, fresh, control, synthetic, vocabulary)


@dataclass(frozen=True)
class SharedWindows:
    length: int
    ours: np.ndarray  # places in one table, shape (n,)
    our_runs: np.ndarray  # number of the run at each, from 0, shape (n,)
    theirs: np.ndarray  # places in the other table, shape (m,)
    their_runs: np.ndarray  # likewise, shape (m,)
    n_runs: int

    def held_by_one(self, owners: np.ndarray) -> np.ndarray:
        """Mask of our places whose run one unit of ours alone has; shape (n,)."""
        theirs = owners[self.ours]
        some = np.zeros(self.n_runs, dtype=np.int64)
        some[self.our_runs] = theirs
        several = np.zeros(self.n_runs, dtype=bool)
        several[self.our_runs[theirs != some[self.our_runs]]] = True
        return np.asarray(~several[self.our_runs])

    def also_in(self, some_of_ours: np.ndarray) -> np.ndarray:
        """Mask of their places whose run stands at some of our places; shape (m,). `some_of_ours`: which, boolean,
        shape (n,).
        """
        there = np.zeros(self.n_runs, dtype=bool)
        there[self.our_runs[some_of_ours]] = True
        return np.asarray(there[self.their_runs])


@dataclass
class _Windows:
    places: np.ndarray
    hashes: np.ndarray
    values: np.ndarray
    ends: np.ndarray
    length: int = 0

    @classmethod
    def all_of(cls, tokens: TextTokens) -> "_Windows":
        n = len(tokens.ids)
        return cls(np.arange(n), np.zeros(n, dtype=np.uint64), _values(tokens.ids), tokens.ends[tokens.text])

    def grow(self, length: int) -> None:
        """Make all of them longer; those that would leave their text are dropped."""
        self.keep(self.places + length <= self.ends[self.places])
        for step in range(self.length, length):
            self.hashes = self.hashes * _FACTOR + self.values[self.places + step]
        self.length = length

    def keep(self, which: np.ndarray) -> None:
        self.places, self.hashes = self.places[which], self.hashes[which]


def shared_windows(ours: TextTokens, theirs: TextTokens) -> Iterator[SharedWindows]:
    """Runs that two tables share, by length, until there are none."""
    one, other = _Windows.all_of(ours), _Windows.all_of(theirs)
    for length in LENGTHS:
        one.grow(length)
        other.grow(length)
        n = len(one.hashes)
        runs, n_runs = _numbered(np.concatenate([one.hashes, other.hashes]))
        both = np.zeros((2, n_runs), dtype=bool)
        both[0, runs[:n]], both[1, runs[n:]] = True, True
        shared = both[0] & both[1]
        kept, numbers = shared[runs], np.cumsum(shared) - 1
        one.keep(kept[:n])
        other.keep(kept[n:])
        if not len(one.places):
            return
        runs, k = numbers[runs[kept]], len(one.places)
        yield SharedWindows(length, one.places, runs[:k], other.places, runs[k:], int(shared.sum()))


@dataclass(frozen=True)
class RepeatedWindows:
    length: int
    places: np.ndarray  # one of each run, shape (n_runs,)
    longest: np.ndarray  # words of the longest text that holds it, shape (n_runs,)


def repeated_windows(of: TextTokens) -> Iterator[RepeatedWindows]:
    """Runs that several units of a table have, by length, until none stands at two places."""
    found, owners = _Windows.all_of(of), of.owners
    sizes = np.diff(np.r_[0, of.ends])[of.text]
    for length in LENGTHS:
        found.grow(length)
        runs, n_runs = _numbered(found.hashes)
        kept = np.bincount(runs, minlength=n_runs)[runs] > 1
        found.keep(kept)
        if not len(found.places):
            return
        runs, some = runs[kept], np.zeros((2, n_runs), dtype=np.int64)
        some[0, runs], some[1, runs] = owners[found.places], found.places
        several = np.unique(runs[owners[found.places] != some[0, runs]])
        longest = np.zeros(n_runs, dtype=np.int64)
        np.maximum.at(longest, runs, sizes[found.places])
        yield RepeatedWindows(length, some[1, several], longest[several])


def _numbered(hashes: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers from 0 that are equal for equal hashes, and how many there are."""
    numbers, different = pd.factorize(hashes)
    return numbers, len(different)


def _values(ids: np.ndarray) -> np.ndarray:
    """A value of 64 bits of each word, its bits spread (Steele et al. 2014, splitmix64)."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
