"""Texts of a table as numbers of words, the runs of words that two tables share, and how probable words are.

The probability of a word after the two before it interpolates counts of three, two and one words (method C of Witten &
Bell). A word that no count knows has a probability by its form: a number that of each of its digits, as numbers of its
form have them at their places. So a number of seven digits costs about what it takes to guess it, and less where its
first digits are always the same.

Source: Karp & Rabin 1987 (hashes of runs); Agrawal & Srikant 1994 (from short runs to long ones); Witten & Bell 1991,
"The zero-frequency problem"; Chen & Goodman 1999, section 2.6.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from evaluate.sampling import entity_codes
from evaluate.tables import Tables

NO_TEXTS = "the schema keeps no column of free text"
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)  # Lengths of runs that are looked at, in words
_WORDS = re.compile(r"\w+(?:['\u2019.@+-]\w+)*|[^\w\s]")
_FACTOR = 0x9E3779B97F4A7C15  # of the hash, odd: modulo 2^64 it has an inverse
_INVERSE = pow(_FACTOR, -1, 2**64)
ORDER = 3  # Words that are looked at together
KNOWN = 3  # Units that have a word, from which on it is one of its own


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
    def of(cls, frame: pd.DataFrame, names: Sequence[str], owners: np.ndarray, vocabulary: dict[str, int]) -> Self:
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
        ids, sizes = np.r_[self.ids, other.ids], np.r_[self.sizes, other.sizes]
        units = np.r_[self.units, other.units + self.n_units]
        return TextTokens(ids, sizes, units, self.n_units + other.n_units)

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


def word_bases(vocabulary: Sequence[str], known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the probabilities of words by their form alone, and what of each its digits cost, in nats; each of
    shape (n_words,). `known`: how often each stands in the texts of a model.

    >>> _, digits = word_bases(["a", "12", "17", "18", "19"], np.array([5, 1, 1, 1, 0]))
    >>> bool(digits[4] < 2 * np.log(10)), float(digits[0])
    (True, 0.0)
    """
    shapes = list(map(shape_of, vocabulary))
    seen, at_places = Counter[str](), Counter[tuple[str, int, str]]()
    for word, shape, n in zip(vocabulary, shapes, known.tolist(), strict=True):
        if n:
            seen[shape] += n
            at_places.update({(shape, *digit): n for digit in _digits(word, shape)})
    digits = np.array([
        -sum(np.log((at_places[shape, *digit] + 1) / (seen[shape] + 10)) for digit in _digits(word, shape))
        for word, shape in zip(vocabulary, shapes, strict=True)
    ], dtype=np.float64)  # fmt: skip
    return -np.log(len(seen) + 1) - digits, digits


def shape_of(word: str) -> str:
    """A word with a sign in place of each digit.

    >>> shape_of("qx12-3")
    'qx##-#'
    """
    return "".join("#" if character.isdigit() else character for character in word)


def _digits(word: str, shape: str) -> list[tuple[int, str]]:
    return [at for at in enumerate(word) if at[1].isdigit()] if "#" in shape else []


def word_probabilities(asked: TextTokens, learned: TextTokens, log_base: np.ndarray) -> list[np.ndarray]:
    """Of each word of some texts after none, one and two of those before it, by the counts of others, each of shape
    (n,). `log_base`: of words that no count knows, shape (n_words,).
    """
    units = [replace(texts, units=np.zeros(len(texts), dtype=np.int64), n_units=1) for texts in (asked, learned)]
    both = units[0].joined(units[1])
    probabilities = [np.exp(log_base[both.ids])]
    for k in range(ORDER):
        probabilities.append(_by_others(both, k, probabilities[-1]))
    return [probability[: len(asked.ids)] for probability in probabilities[1:]]


@dataclass(frozen=True)
class RunPrices:
    """Prices of runs of words in nats, each by the texts of all other units. *Sensitive*."""

    first: np.ndarray  # of each word as the first one of a run, shape (n,)
    sums: np.ndarray  # of all words up to each one after the words before it, from 0, shape (n + 1,)

    @classmethod
    def of(cls, texts: TextTokens, vocabulary: Sequence[str], *, without_pairs: bool = False) -> "RunPrices":
        """Prices of the runs of all real units.

        Words that hardly anybody has are taken together, numbers by their form: what stands around them is known all
        the same, and telling a word from others of its class costs some more. A word costs no more than what is met in
        one text of all, and a number its digits besides: however odd it is, it was met once.
        """
        pairs = np.unique(texts.ids.astype(np.int64) * texts.n_units + texts.owners)
        is_own = np.bincount(pairs // texts.n_units, minlength=len(vocabulary)) >= KNOWN
        digits = np.where(is_own, 0.0, word_bases(vocabulary, np.bincount(texts.ids, minlength=len(vocabulary)))[1])
        shapes = list(map(shape_of, vocabulary))
        is_rare = ~is_own & np.array(["#" not in shape for shape in shapes], dtype=bool)
        names = [
            word if own else " rare" if rare else f" {shape}"
            for word, shape, own, rare in zip(vocabulary, shapes, is_own, is_rare, strict=True)
        ]
        classes = pd.factorize(np.array(names, dtype=object))[0]
        emitted = np.where(is_rare, np.log(1 + int((~is_own).sum())), digits)[texts.ids]
        most = np.log(2 + len(texts)) + digits[texts.ids]
        in_classes = replace(texts, ids=classes[texts.ids])
        probability, prices = np.full(len(texts.ids), 1.0 / (int(classes.max(initial=0)) + 2)), []
        for k in range(ORDER):
            probability = _by_others(in_classes, k, probability, without_pairs=without_pairs)
            prices.append(np.minimum(emitted - np.log(probability), most))
        return cls(prices[0], np.r_[0.0, np.cumsum(prices[-1])])

    def nats(self, positions: np.ndarray, length: int) -> np.ndarray:
        return np.asarray(self.first[positions] + self.sums[positions + length] - self.sums[positions + 1])


def _by_others(tokens: TextTokens, k: int, lower: np.ndarray, *, without_pairs: bool = False) -> np.ndarray:
    """Probabilities of words after k words, by Witten-Bell, from the texts of all units but each word's own. Without
    pairs, runs that two units alone have are taken out of all counts.
    """
    at, units = np.arange(len(tokens.ids)), tokens.owners
    before = np.minimum(k, tokens.sizes[tokens.text] - tokens.left)  # fewer where its text begins
    # Contexts and runs with the word itself, then both of each unit: codes, counts, and where each is first.
    c, n_c, _ = _counted(tokens.hashes(at - before, before))
    r, n_r, first_of_run = _counted(tokens.hashes(at - before, before + 1))
    oc, n_oc, _ = _counted(c * np.int64(tokens.n_units) + units)
    o, n_o, first_of_own = _counted(r * np.int64(tokens.n_units) + units)
    if without_pairs:
        kept = np.bincount(r[first_of_own], minlength=len(n_r)) > 2
        n_r, n_o = n_r * kept, n_o * kept[r[first_of_own]]
        n_c, n_oc = (np.bincount(code, kept[r], len(n)).astype(np.int64) for code, n in ((c, n_c), (oc, n_oc)))
        first_of_run = first_of_run[kept]
    kinds = np.bincount(c[first_of_run], minlength=len(n_c))
    only_own = first_of_own[(n_o > 0) & (n_r[r[first_of_own]] == n_o)]
    kinds_lost = np.bincount(oc[only_own], minlength=len(n_oc))
    n, total, others = n_r[r] - n_o[o], n_c[c] - n_oc[oc], kinds[c] - kinds_lost[oc]
    return np.where(total > 0, (n + others * lower) / np.maximum(total + others, 1), lower)


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, different = pd.factorize(keys)
    first = np.zeros(len(different), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, np.bincount(codes, minlength=len(different)), first
