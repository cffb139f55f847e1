"""Texts of a table as numbers of words, and the runs of words that two tables share.

Source: Karp & Rabin 1987 (hashes of runs); Agrawal & Srikant 1994 (from short runs to long ones).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from evaluate.sampling import entity_codes
from evaluate.tables import Tables

NO_TEXTS = "the schema keeps no column of free text"
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)  # Lengths of runs that are looked at, in words
_WORDS = re.compile(r"\w+(?:['\u2019.@+-]\w+)*|[^\w\s]")
_FACTOR = 0x9E3779B97F4A7C15  # of the hash, odd: modulo 2^64 it has an inverse
_INVERSE = pow(_FACTOR, -1, 2**64)


def words(text: str) -> list[str]:
    """Words, numbers and signs of a text, in lower case, in their order; addresses and numbers with hyphens are one.

    >>> words("Call Ann's desk at 617-0143, now!")
    ['call', "ann's", 'desk', 'at', '617-0143', ',', 'now', '!']
    """
    return [word.casefold() for word in _WORDS.findall(text)]


def spans(text: str) -> list[tuple[int, int]]:
    """Where each of the words of a text begins and ends in it.

    >>> spans("Call now!")
    [(0, 4), (5, 8), (8, 9)]
    """
    return [match.span() for match in _WORDS.finditer(text)]


def written(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Texts that are not missing, with their column and row, one column after another."""
    for name in names:
        yield from ((name, row, text) for row, text in enumerate(frame[name].tolist()) if isinstance(text, str))


@dataclass(frozen=True, eq=False)
class TextTokens:
    """*Sensitive* where the rows are real. The words of texts of a table, in the order of `written`."""

    ids: np.ndarray  # number of each word, shape (n,)
    sizes: np.ndarray  # words of each text, shape (n_texts,)
    units: np.ndarray  # whose each text is, from 0, shape (n_texts,)
    n_units: int

    @classmethod
    def of(
        cls, frame: pd.DataFrame, names: Sequence[str], owners: np.ndarray, vocabulary: dict[str, int]
    ) -> "TextTokens":
        """`owners`: the unit of each row. `vocabulary`: numbers of words from 0, which grows."""
        there = [(row, words(text)) for _, row, text in written(frame, names)]
        ids = [vocabulary.setdefault(word, len(vocabulary)) for _, text in there for word in text]
        rows, sizes = np.array([(row, len(text)) for row, text in there], dtype=np.int64).reshape(-1, 2).T
        return cls(np.array(ids, dtype=np.int32), sizes, owners[rows], int(owners.max(initial=-1)) + 1)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def text(self) -> np.ndarray:
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def left(self) -> np.ndarray:
        """How many words each word and what follows in its text are, shape (n,)."""
        return np.asarray(np.cumsum(self.sizes)[self.text] - np.arange(len(self.ids)))

    @cached_property
    def owners(self) -> np.ndarray:
        return np.asarray(self.units[self.text])

    def joined(self, other: "TextTokens") -> "TextTokens":
        return TextTokens(
            np.r_[self.ids, other.ids], np.r_[self.sizes, other.sizes],
            np.r_[self.units, other.units + self.n_units], self.n_units + other.n_units,
        )  # fmt: skip

    def chosen(self, texts: np.ndarray) -> "TextTokens":
        return replace(self, ids=self.ids[texts[self.text]], sizes=self.sizes[texts], units=self.units[texts])

    def among(self, words: np.ndarray) -> "TextTokens":
        """The same texts of some words alone, by a mask of all words."""
        kept = words[self.ids]
        return replace(self, ids=self.ids[kept], sizes=np.bincount(self.text[kept], minlength=len(self)))

    def hashes(self, positions: np.ndarray, lengths: np.ndarray | int) -> np.ndarray:
        """Of runs of so many words, by where they begin: sums of words by powers of a factor, modulo 2^64."""
        sums, inverses = self._sums
        return np.asarray((sums[positions + lengths] - sums[positions]) * inverses[positions])

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of all words before each position, and the inverse of the power at each."""
        powers, inverses = (np.cumprod(np.full(len(self.ids), x, dtype=np.uint64)) for x in (_FACTOR, _INVERSE))
        mixed = (self.ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_FACTOR)  # splitmix64, Steele et al. 2014
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.append(np.uint64(0), np.cumsum((mixed ^ (mixed >> np.uint64(31))) * powers)), inverses

    def windows(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions and hashes of all runs of one length; of a shorter text, the whole of it."""
        lengths = np.minimum(length, self.sizes)[self.text]
        positions = np.flatnonzero(self.left >= lengths)
        return positions, self.hashes(positions, lengths[positions])


@dataclass(frozen=True)
class TokenSides:
    """*Sensitive*. The texts of all tables of an evaluation, whose roles `evaluate.tables.Real` explains."""

    train: TextTokens
    fresh: TextTokens
    control: TextTokens
    synthetic: TextTokens
    words: list[str]

    @classmethod
    def of(cls, tables: Tables) -> "TokenSides":
        """The texts of an evaluation; those of real tables are read once for all synthetic ones."""

        def read(known: dict[str, int], *sides: pd.DataFrame) -> tuple[list[TextTokens], dict[str, int]]:
            schema = tables.schema
            return [TextTokens.of(side, schema.texts, entity_codes(side, schema), known) for side in sides], known

        real = (tables.train, tables.fresh, tables.control)
        (train, fresh, control), known = tables.kept_of_real.once("text tokens", lambda: read({}, *real))
        (synthetic,), _ = tables.kept.once("text tokens of this", lambda: read(known, tables.synthetic))
        return cls(train, fresh, control, synthetic, list(known))

    @property
    def real(self) -> TextTokens:
        return self.train.joined(self.control).joined(self.fresh)


def shared_windows(ours: TextTokens, theirs: TextTokens) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """By length, until there are none, our positions of runs that two tables share, and a number of each run. A run can
    be shared only where its beginning is, so that each length looks at what the one before left over.
    """
    sides = (ours, theirs)
    at = [np.arange(len(side.ids)) for side in sides]
    for length in LENGTHS:
        at = [positions[side.left[positions] >= length] for side, positions in zip(sides, at, strict=True)]
        hashes = [side.hashes(positions, length) for side, positions in zip(sides, at, strict=True)]
        runs, different = pd.factorize(np.concatenate(hashes))
        split = np.split(runs, [len(at[0])])
        shared = np.logical_and(*(np.bincount(each, minlength=len(different)) > 0 for each in split))
        at = [positions[shared[each]] for positions, each in zip(at, split, strict=True)]
        if not len(at[0]):
            return
        yield length, at[0], split[0][shared[split[0]]]


def held_by_one(runs: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Mask of runs that one unit alone has, by the number and the unit of each."""
    some = np.zeros(int(runs.max(initial=-1)) + 1, dtype=np.int64)
    some[runs] = owners
    return np.asarray(np.bincount(runs, owners != some[runs])[runs] == 0)
