"""A model of runs of words: the probability of each word after the two before it.

Counts of three, two and one words are interpolated as Witten & Bell 1991 do (method C). A word that no count knows has
a probability by its form (`word_bases`): of a number that of each of its digits, as numbers of its form have them at
their places. So a number of seven digits that was never seen costs about what it takes to guess it, and one whose first
digits are always the same costs less.

Source: Witten & Bell 1991, "The zero-frequency problem"; Chen & Goodman 1999, "An empirical study of smoothing
techniques for language modeling", section 2.6.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluate.privacy.texts.tokens import TextTokens

ORDER = 3
"""Words that are looked at together."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class WordBases:
    """Probabilities of words that no count knows.

    Attributes:
        log_probability: of each word of the vocabulary, shape (n_words,).
        digits: the part of it that its digits make up, in nats, 0 of a word without any, shape (n_words,).
    """

    log_probability: np.ndarray
    digits: np.ndarray


def word_bases(vocabulary: Sequence[str], known: np.ndarray) -> WordBases:
    """Probabilities of words by their form alone.

    Args:
        vocabulary: *Sensitive*. All words.
        known: how often each stands in the texts that a model is fitted on, shape (n_words,).

    >>> bases = word_bases(["a", "12", "17", "18", "19"], np.array([5, 1, 1, 1, 0]))
    >>> bool(bases.digits[4] < 2 * np.log(10)), float(bases.digits[0])
    (True, 0.0)
    """
    shapes = [shape_of(word) for word in vocabulary]
    digits: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    seen: Counter[str] = Counter()
    for word, shape, n in zip(vocabulary, shapes, known.tolist(), strict=True):
        if n and "#" in shape:
            seen[shape] += n
            digits[shape].update({place: n for place in enumerate(word) if place[1].isdigit()})
    n_plain = sum("#" not in shape for shape, n in zip(shapes, known.tolist(), strict=True) if n)
    n_kinds = n_plain + len(seen) + 1
    prices = np.zeros(len(vocabulary))
    for index, (word, shape) in enumerate(zip(vocabulary, shapes, strict=True)):
        if "#" in shape:
            counts, total = digits[shape], seen[shape]
            at = (counts[place] for place in enumerate(word) if place[1].isdigit())
            prices[index] = -sum(np.log((n + 1) / (total + 10)) for n in at)
    return WordBases(-np.log(n_kinds) - prices, prices)


def shape_of(word: str) -> str:
    """A word with a sign in place of each digit.

    >>> shape_of("qx12-3")
    'qx##-#'
    """
    return "".join("#" if character.isdigit() else character for character in word)


@dataclass(frozen=True)
class _Counts:
    """Counts of words after their contexts of one length, by hashes."""

    contexts: np.ndarray
    totals: np.ndarray
    kinds: np.ndarray
    runs: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, contexts: np.ndarray, runs: np.ndarray) -> "_Counts":
        held, first, counts = np.unique(runs, return_index=True, return_counts=True)
        known, places = np.unique(contexts[first], return_inverse=True)
        kinds = np.bincount(places, minlength=len(known))
        return cls(known, np.bincount(places, weights=counts, minlength=len(known)), kinds, held, counts)

    def blended(self, contexts: np.ndarray, runs: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """Probabilities after these contexts, by Witten-Bell, from those after shorter ones."""
        n = _looked_up(self.runs, self.counts, runs)
        total, kinds = (_looked_up(self.contexts, of, contexts) for of in (self.totals, self.kinds))
        return np.where(total > 0, (n + kinds * lower) / np.maximum(total + kinds, 1.0), lower)


@dataclass(frozen=True)
class WordModel:
    """A model of texts. *Sensitive* where these are real.

    Attributes:
        levels: counts by length of context, from 0.
        bases: probabilities of words that were not seen.
    """

    levels: tuple[_Counts, ...]
    bases: WordBases

    @classmethod
    def fit(cls, tokens: TextTokens, bases: WordBases) -> "WordModel":
        """The model of some texts.

        Args:
            tokens: *Sensitive* where they are real.
            bases: of all words of their vocabulary.
        """
        return cls(tuple(_Counts.of(*_hashes(tokens, k)) for k in range(ORDER)), bases)

    def log_probabilities(self, tokens: TextTokens, most: int = ORDER) -> np.ndarray:
        """The logarithm of the probability of each word after those before it, shape (n,).

        Args:
            tokens: of any texts whose words are in the vocabulary.
            most: words that are looked at together, up to `ORDER`; 1: each word alone.
        """
        probability = np.exp(self.bases.log_probability[tokens.ids])
        for k, level in enumerate(self.levels[:most]):
            probability = level.blended(*_hashes(tokens, k), probability)
        return np.asarray(np.log(probability))


def _hashes(tokens: TextTokens, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the k words before each word, and of these with the word itself."""
    ids = tokens.ids.astype(np.uint64) + np.uint64(2)
    places, starts = np.arange(len(ids)), tokens.starts[tokens.text] if len(ids) else tokens.starts
    context = np.full(len(ids), k + 1, dtype=np.uint64)
    for back in range(k, 0, -1):
        before = np.where(places - back >= starts, ids[np.maximum(places - back, 0)], np.uint64(1))
        context = _mixed(context, before)
    return context, _mixed(context, ids)


def _mixed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    joined = (one ^ (one >> np.uint64(29))) * _FACTOR + other
    return np.asarray((joined ^ (joined >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9))


def _looked_up(known: np.ndarray, numbers: np.ndarray, of: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.zeros(len(of))
    places = np.minimum(np.searchsorted(known, of), len(known) - 1)
    return np.where(known[places] == of, numbers[places], 0).astype(np.float64)
