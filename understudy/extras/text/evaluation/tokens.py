"""Texts of a table as numbers of words, and the runs of words that two tables share.

Runs of one length are compared by their hash, length after length. A run can be shared only where its beginning is, so
that each length looks at what the one before left over (Agrawal & Srikant 1994). The lengths are those of `LENGTHS`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evaluate.sampling import entity_codes
from evaluate.tables import Tables

NO_TEXTS = "the schema keeps no column of free text"
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)  # Lengths of runs that are looked at, in words
_WORDS = re.compile(r"\w+(?:['\u2019.@+-]\w+)*|[^\w\s]")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def words(text: str) -> list[str]:
    """Words, numbers and signs of a text, in lower case, in their order; addresses and numbers with hyphens are one.

    >>> words("Call Ann's desk at 617-0143, now!")
    ['call', "ann's", 'desk', 'at', '617-0143', ',', 'now', '!']
    """
    return _WORDS.findall(text.casefold())


def spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end in it; as many as `words`, but for letters that fold into several signs.

    >>> spans("Call now!")
    [(0, 4), (5, 8), (8, 9)]
    """
    return [match.span() for match in _WORDS.finditer(text)]


@dataclass(frozen=True)
class TextTokens:
    """*Sensitive* where the rows are real. The words of all texts of a table, one text after another."""

    ids: np.ndarray  # number of each word, shape (n,)
    text: np.ndarray  # number of the text of each word, ascending, shape (n,)
    ends: np.ndarray  # position after the last word of each text, shape (n_texts,)
    rows: np.ndarray  # position of each text in the table, shape (n_texts,)
    columns: np.ndarray  # number of the column of each text, among the columns of text, shape (n_texts,)
    units: np.ndarray  # whose each text is, from 0, shape (n_texts,)
    n_units: int
    n_rows: int

    @classmethod
    def of(
        cls, frame: pd.DataFrame, names: Sequence[str], owners: np.ndarray, vocabulary: dict[str, int]
    ) -> "TextTokens":
        """The texts of some columns; missing ones are left out. `owners`: the unit of each row. `vocabulary`: numbers
        of words from 0, which grows.
        """
        ids: list[list[int]] = []
        rows, columns = [], []
        for number, name in enumerate(names):
            for row, value in enumerate(frame[name].tolist()):
                if isinstance(value, str):
                    ids.append([vocabulary.setdefault(word, len(vocabulary)) for word in words(value)])
                    rows.append(row)
                    columns.append(number)
        at, sizes = np.array(rows, dtype=np.int64), np.array([len(each) for each in ids], dtype=np.int64)
        return cls(
            np.array([word for each in ids for word in each], dtype=np.int32), np.repeat(np.arange(len(ids)), sizes),
            np.cumsum(sizes), at, np.array(columns, dtype=np.int64), owners[at], int(owners.max(initial=-1)) + 1,
            len(frame),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def sizes(self) -> np.ndarray:
        """Words of each text, shape (n_texts,)."""
        return np.diff(np.r_[0, self.ends])

    @property
    def starts(self) -> np.ndarray:
        return np.asarray(self.ends - self.sizes)

    @property
    def owners(self) -> np.ndarray:
        """The unit of each word, shape (n,)."""
        return np.asarray(self.units[self.text])

    def joined(self, other: "TextTokens") -> "TextTokens":
        """These texts and then those of another table; its rows and units follow these."""
        return TextTokens(
            np.r_[self.ids, other.ids], np.r_[self.text, other.text + len(self)],
            np.r_[self.ends, other.ends + len(self.ids)], np.r_[self.rows, other.rows + self.n_rows],
            np.r_[self.columns, other.columns], np.r_[self.units, other.units + self.n_units],
            self.n_units + other.n_units, self.n_rows + other.n_rows,
        )  # fmt: skip

    def chosen(self, texts: np.ndarray) -> "TextTokens":
        """Some of the texts, by a mask."""
        sizes = self.sizes[texts]
        return replace(
            self, ids=self.ids[texts[self.text]], text=np.repeat(np.arange(len(sizes)), sizes), ends=np.cumsum(sizes),
            rows=self.rows[texts], columns=self.columns[texts], units=self.units[texts],
        )  # fmt: skip

    def windows(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions and hashes of all runs of one length; of a shorter text, the whole of it."""
        positions = np.arange(len(self.ids))
        positions = np.flatnonzero(positions + np.minimum(length, self.sizes)[self.text] <= self.ends[self.text])
        hashes, values = np.zeros(len(positions), dtype=np.uint64), _mixed(self.ids)
        for step in range(length):
            inside = positions + step < self.ends[self.text[positions]]
            at = np.minimum(positions + step, len(values) - 1)
            hashes = hashes * _FACTOR + np.where(inside, values[at], np.uint64(0))
        return positions, hashes


@dataclass(frozen=True)
class TokenSides:
    """*Sensitive*. The texts of all tables of an evaluation, whose roles `evaluate.tables.Real` explains."""

    train: TextTokens
    fresh: TextTokens
    control: TextTokens
    synthetic: TextTokens
    vocabulary: dict[str, int]

    @classmethod
    def of(cls, tables: Tables) -> "TokenSides":
        """The texts of an evaluation; those of real tables are read once for all synthetic ones."""
        schema, known = tables.schema, dict[str, int]()

        def read(frame: pd.DataFrame) -> TextTokens:
            return TextTokens.of(frame, schema.texts, entity_codes(frame, schema), known)

        (train, fresh, control), known = tables.kept_of_real.once(
            "text tokens", lambda: ([read(side) for side in (tables.train, tables.fresh, tables.control)], known)
        )
        synthetic = tables.kept.once("text tokens of this", lambda: read(tables.synthetic))
        return cls(train, fresh, control, synthetic, known)

    @property
    def words(self) -> list[str]:
        return list(self.vocabulary)

    @property
    def real(self) -> TextTokens:
        """Texts of train, then of both halves of the holdout."""
        return self.train.joined(self.control).joined(self.fresh)


@dataclass(frozen=True)
class SharedWindows:
    length: int
    ours: np.ndarray  # positions in one table, shape (n,)
    our_runs: np.ndarray  # number of the run at each, from 0, shape (n,)
    n_runs: int

    def held_by_one(self, owners: np.ndarray) -> np.ndarray:
        """Mask of our positions whose run one unit of ours alone has; shape (n,)."""
        theirs, some = owners[self.ours], np.zeros(self.n_runs, dtype=np.int64)
        some[self.our_runs] = theirs
        several = np.zeros(self.n_runs, dtype=bool)
        several[self.our_runs[theirs != some[self.our_runs]]] = True
        return np.asarray(~several[self.our_runs])


def shared_windows(ours: TextTokens, theirs: TextTokens) -> Iterator[SharedWindows]:
    """Runs that two tables share, by length, until there are none."""
    sides = (ours, theirs)
    at: list[np.ndarray] = [np.arange(len(side.ids)) for side in sides]
    hashes: list[np.ndarray] = [np.zeros(len(side.ids), dtype=np.uint64) for side in sides]
    values, ends, before = [_mixed(side.ids) for side in sides], [side.ends[side.text] for side in sides], 0
    for length in LENGTHS:
        for i in (0, 1):
            fits = at[i] + length <= ends[i][at[i]]  # a run does not leave its text
            at[i], hashes[i] = at[i][fits], hashes[i][fits]
            for step in range(before, length):
                hashes[i] = hashes[i] * _FACTOR + values[i][at[i] + step]
        runs, different = pd.factorize(np.concatenate(hashes))
        split = np.split(runs, [len(hashes[0])])
        there = [np.bincount(each, minlength=len(different)) > 0 for each in split]
        shared = there[0] & there[1]
        at = [positions[shared[of]] for positions, of in zip(at, split, strict=True)]
        hashes = [values_of[shared[of]] for values_of, of in zip(hashes, split, strict=True)]
        if not len(at[0]):
            return
        yield SharedWindows(length, at[0], (np.cumsum(shared) - 1)[split[0][shared[split[0]]]], int(shared.sum()))
        before = length


def _mixed(ids: np.ndarray) -> np.ndarray:
    """A value of 64 bits of each word, its bits spread (Steele et al. 2014, splitmix64)."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
