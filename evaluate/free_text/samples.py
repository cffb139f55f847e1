"""Samples of texts as codes of words: training, synthetic and fresh ones, and training texts with their words shuffled.

Synthetic and fresh rows are cut to one n where a distance is taken: a small sample adds to it. All are in the groups
that half-samples are made of, whole entities together. Shuffled texts are as many and as long as the training ones and
hold the same words; no word has to do with the one before it, nor with its text.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluate.fidelity.lines import OrderedValues
from evaluate.fidelity.rows import SampledRows
from evaluate.fidelity.samples import Samples
from evaluate.free_text.corpus import words
from evaluate.intervals import N_GROUPS, replicate_groups
from evaluate.tables import Tables

MOST_ROWS = 10_000  # Rows of each table whose texts are compared at most
MIN_TEXTS = 4 * N_GROUPS  # Texts of each table that a comparison needs
_CHUNK = 20_000  # Runs of words that are counted by replicate at once


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Texts of one column of one table as codes of words. *Sensitive* where the table is real."""

    texts: np.ndarray  # as they are, `None` where missing; shape (n_rows,)
    # words of all texts, one behind the other, shape (n_words,); the less, the more frequent in train.
    codes: np.ndarray
    rows: np.ndarray  # the row of each word, ascending, shape (n_words,)
    units: np.ndarray  # the entity of each row, from 0 in a seeded order; shape (n_rows,)

    @property
    def n_rows(self) -> int:
        return len(self.texts)

    @property
    def present(self) -> np.ndarray:
        """Mask of the rows that have a text, shape (n_rows,)."""
        return np.array([text is not None for text in self.texts], dtype=bool)

    @property
    def groups(self) -> np.ndarray:
        """The half-sample group of each row, shape (n_rows,)."""
        return self.units % N_GROUPS

    def first(self, n: int) -> "CodedTexts":
        """The first n rows, which are a sample."""
        end = np.searchsorted(self.rows, n)
        return CodedTexts(self.texts[:n], self.codes[:end], self.rows[:end], self.units[:n])

    def shuffled(self, rng: np.random.Generator) -> "CodedTexts":
        """The same words dealt at random to texts of the same lengths."""
        return replace(self, codes=rng.permutation(self.codes))

    @property
    def lengths(self) -> OrderedValues:
        n_words = np.bincount(self.rows, minlength=self.n_rows).astype(np.float64)
        return OrderedValues.of(np.where(self.present, n_words, np.nan), self.groups, N_GROUPS)

    def pairs(self, most: int) -> np.ndarray:
        """Counts of two words that follow each other, by group. A text begins and ends with a sign of its own, which is
        the last code.
        """
        size, there = most + 2, np.flatnonzero(self.present)
        ends = np.full(len(there), most + 1)
        order = np.argsort(np.concatenate([there, self.rows, there]), kind="stable")
        codes = np.concatenate([ends, np.minimum(self.codes, most), ends])[order]
        rows = np.concatenate([there, self.rows, there])[order]
        inside = rows[1:] == rows[:-1]
        cells = codes[:-1][inside] * size + codes[1:][inside]
        cells += self.groups[rows[1:][inside]] * size**2
        return np.bincount(cells, minlength=N_GROUPS * size**2).reshape(N_GROUPS, -1)

    def beside(self, codes: np.ndarray, size: int, most: int) -> np.ndarray:
        """Counts of a word in a text together with a column's code in its row, by group. `codes`: of the column, shape
        (n_rows,).
        """
        held = np.unique(self.rows * (most + 2) + np.minimum(self.codes, most))
        rows, of = np.divmod(held, most + 2)
        missing = np.flatnonzero(np.bincount(self.rows, minlength=self.n_rows) == 0)
        rows, of = np.concatenate([rows, missing]), np.concatenate([of, np.full(len(missing), most + 1)])
        cells = (self.groups[rows] * (most + 2) + of) * size + codes[rows]
        return np.bincount(cells, minlength=N_GROUPS * (most + 2) * size).reshape(N_GROUPS, -1)

    def runs(self, n: int, n_words: int) -> tuple[np.ndarray, np.ndarray]:
        """Runs of n words as whole numbers, and the row of each."""
        n_runs = max(len(self.codes) - n + 1, 0)
        found = np.zeros(n_runs, dtype=np.int64)
        for place in range(n):
            found = found * n_words + self.codes[place : place + n_runs]
        inside = self.rows[:n_runs] == self.rows[n - 1 : n - 1 + n_runs]
        return found[inside], self.rows[:n_runs][inside]


@dataclass(frozen=True, eq=False)
class TextSamples:
    name: str
    train: CodedTexts  # *Sensitive*
    others: tuple[CodedTexts, CodedTexts, CodedTexts]
    n_words: int

    @classmethod
    def of(cls, tables: Tables, name: str) -> "TextSamples":
        """The texts of a column, made once for the same tables."""
        return tables.kept.once(("text samples", name), lambda: cls._made(tables, name))

    @classmethod
    def _made(cls, tables: Tables, name: str) -> "TextSamples":
        train, synthetic, fresh, _ = rows_of(tables).all
        split = [_Split.of(one, name) for one in (train, synthetic, fresh)]
        counts = split[0].counts
        known = sorted(counts, key=lambda word: (-counts[word], word))
        rest = sorted({word for one in split[1:] for text in one.words for word in text} - {*known})
        codes = {word: code for code, word in enumerate((*known, *rest))}
        first, *others = (one.coded(codes) for one in split)
        shuffled = first.shuffled(np.random.default_rng([tables.seed, 21]))
        return cls(name, first, (others[0], others[1], shuffled), len(codes))

    @property
    def all(self) -> tuple[CodedTexts, ...]:
        return (self.train, *self.others)

    @property
    def n_texts(self) -> int:
        """Texts, or entities with one, of the table that has the fewest."""
        return min(len(np.unique(one.units[one.present])) for one in self.all)

    def equal(self) -> "TextSamples":
        n = min(one.n_rows for one in self.others)
        synthetic, fresh, shuffled = (one.first(n) for one in self.others)
        return replace(self, others=(synthetic, fresh, shuffled))

    def distances(self, n: int) -> np.ndarray:
        """Total variation from the training texts of which runs of n words texts hold; shape (3, n_replicates). A text
        counts once for each different run in it.
        """
        found = [one.runs(n, max(self.n_words, 1)) for one in self.all]
        distinct, ids = np.unique(np.concatenate([runs for runs, _ in found]), return_inverse=True)
        ends = np.cumsum([len(runs) for runs, _ in found])[:-1]
        held = [
            _Held.of(of, rows, one.groups)
            for of, (_, rows), one in zip(np.split(ids, ends), found, self.all, strict=True)
        ]
        first, *rest = held
        return np.array([first.distance(other, len(distinct)) for other in rest])


@dataclass(frozen=True, eq=False)
class _Split:
    """*Sensitive*. Texts of one table in words."""

    texts: np.ndarray
    words: Sequence[Sequence[str]]
    units: np.ndarray

    @classmethod
    def of(cls, rows: SampledRows, name: str) -> "_Split":
        held = [value if isinstance(value, str) else None for value in rows.rows[name].tolist()]
        texts = np.empty(len(held), dtype=object)
        texts[:] = held
        return cls(texts, [() if text is None else words(text) for text in held], rows.units)

    @property
    def counts(self) -> Counter[str]:
        return Counter(word for text in self.words for word in set(text))

    def coded(self, codes: dict[str, int]) -> CodedTexts:
        flat = np.array([codes[word] for text in self.words for word in text], dtype=np.int64)
        rows = np.repeat(np.arange(len(self.words)), [len(text) for text in self.words])
        return CodedTexts(self.texts, flat, rows, self.units)


@dataclass(frozen=True, eq=False)
class _Held:
    """Which texts hold which runs: runs in ascending order, each with the group of its text, and totals by group."""

    runs: np.ndarray
    groups: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, runs: np.ndarray, rows: np.ndarray, groups: np.ndarray) -> "_Held":
        pairs = np.unique(runs * len(groups) + rows)
        runs, rows = np.divmod(pairs, len(groups))
        of = groups[rows]
        return cls(runs, of, replicate_groups(N_GROUPS) @ np.bincount(of, minlength=N_GROUPS))

    def distance(self, other: "_Held", n_distinct: int) -> np.ndarray:
        """Total variation of the shares of runs in two tables, shape (n_replicates,)."""
        sides = (self, other)
        there = [np.bincount(one.runs, minlength=n_distinct) > 0 for one in sides]
        both = np.flatnonzero(there[0] & there[1])
        # Most runs stand in one table alone, and add what they are there: they need not be told apart.
        total = sum(one.share_of(~there[1 - i][one.runs]) for i, one in enumerate(sides))
        for start in range(0, len(both), _CHUNK):
            shares = [one.shares(both[start : start + _CHUNK]) for one in sides]
            total = total + np.abs(shares[0] - shares[1]).sum(axis=1)
        return np.asarray(total / 2)

    def share_of(self, chosen: np.ndarray) -> np.ndarray:
        """Of all runs of a mask together, shape (n_replicates,)."""
        counts = np.bincount(self.groups[chosen], minlength=N_GROUPS)
        return np.asarray(replicate_groups(N_GROUPS) @ counts / np.maximum(self.totals, 1.0))

    def shares(self, runs: np.ndarray) -> np.ndarray:
        """Of each of some runs in ascending order, shape (n_replicates, n_runs)."""
        within = slice(*np.searchsorted(self.runs, [runs[0], runs[-1] + 1]))
        places = np.searchsorted(runs, self.runs[within])
        known = runs[places] == self.runs[within]
        cells = self.groups[within][known] * len(runs) + places[known]
        counts = np.bincount(cells, minlength=N_GROUPS * len(runs)).reshape(N_GROUPS, -1)
        return np.asarray(replicate_groups(N_GROUPS) @ counts / np.maximum(self.totals, 1.0)[:, None])


def rows_of(tables: Tables) -> Samples:
    """The rows whose texts are compared: in a seeded order, all that are held up to `MOST_ROWS`."""

    def draw() -> Samples:
        most = MOST_ROWS if tables.n_rows is None else min(MOST_ROWS, tables.n_rows)
        return Samples.draw(replace(tables, n_rows=most)).whole()

    return tables.kept.once("rows of texts", draw)


def each(tables: Tables) -> Iterator[TextSamples]:
    """The samples of each column of texts that every table has enough of."""
    for name in tables.schema.texts:
        samples = TextSamples.of(tables, name)
        if samples.n_texts >= MIN_TEXTS:
            yield samples
