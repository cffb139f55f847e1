"""A model of runs of words: the probability of each word after the two before it.

Counts of three, two and one words are interpolated as Witten & Bell 1991 do (method C). A word that no count knows has
a probability by its form (`word_bases`): of a number that of each of its digits, as numbers of its form have them at
their places. So a number of seven digits that was never seen costs about what it takes to guess it, and one whose first
digits are always the same costs less.

`word_probabilities` are of some texts by others. `RunPrices` are of the real texts themselves, each by those of all
other units, so that what several people write is cheap whoever writes it.

Source: Witten & Bell 1991, "The zero-frequency problem"; Chen & Goodman 1999, "An empirical study of smoothing
techniques for language modeling", section 2.6.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from understudy.extras.text.evaluation.tokens import TextTokens

ORDER = 3  # Words that are looked at together
KNOWN = 3  # Units that have a word, from which on it is one of its own
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class WordBases:
    log_probability: np.ndarray  # of each word of the vocabulary, shape (n_words,)
    digits: np.ndarray  # the part of it that its digits make up, in nats, 0 of a word without any, shape (n_words,)


def word_bases(vocabulary: Sequence[str], known: np.ndarray) -> WordBases:
    """Probabilities of words by their form alone. `known`: how often each stands in the texts of a model, shape
    (n_words,).

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
            digits[shape].update({at: n for at in enumerate(word) if at[1].isdigit()})
    n_plain = sum("#" not in shape for shape, n in zip(shapes, known.tolist(), strict=True) if n)
    prices = np.zeros(len(vocabulary))
    for index, (word, shape) in enumerate(zip(vocabulary, shapes, strict=True)):
        if "#" in shape:
            counts = (digits[shape][at] for at in enumerate(word) if at[1].isdigit())
            prices[index] = -sum(np.log((n + 1) / (seen[shape] + 10)) for n in counts)
    return WordBases(-np.log(n_plain + len(seen) + 1) - prices, prices)


def shape_of(word: str) -> str:
    """A word with a sign in place of each digit.

    >>> shape_of("qx12-3")
    'qx##-#'
    """
    return "".join("#" if character.isdigit() else character for character in word)


def word_probabilities(asked: TextTokens, learned: TextTokens, log_base: np.ndarray) -> list[np.ndarray]:
    """Of each word of some texts after none, one and two of those before it, by the counts of others, each of shape
    (n,). `log_base`: of words that no count knows, shape (n_words,).
    """
    units = [replace(texts, units=np.zeros(len(texts), dtype=np.int64), n_units=1) for texts in (asked, learned)]
    both = units[0].joined(units[1])
    probabilities = [np.exp(log_base[both.ids])]
    for k in range(ORDER):
        probabilities.append(_by_others(both, k, probabilities[-1], without_pairs=False))
    return [probability[: len(asked.ids)] for probability in probabilities[1:]]


@dataclass(frozen=True)
class RunPrices:
    """Prices of runs of words in nats, each by the texts of all other units. *Sensitive*."""

    first: np.ndarray  # of each word as the first one of a run, shape (n,)
    sums: np.ndarray  # of all words up to each one after the words before it, from 0, shape (n + 1,)

    @classmethod
    def of(cls, texts: TextTokens, vocabulary: Sequence[str], *, without_pairs: bool = False) -> "RunPrices":
        """Prices of the runs of all real units.

        Words that hardly anybody has are taken together, numbers by their form (`_classes`): what stands around them is
        known all the same. A word costs no more than what is met in one text of all, and a number its digits besides:
        however odd it is, it was met once.
        """
        classes, emitted, digits = _classes(texts, vocabulary)
        most = np.log(2 + len(texts)) + digits[texts.ids]
        in_classes = replace(texts, ids=classes[texts.ids].astype(np.int32))
        probability, prices = np.full(len(texts.ids), 1.0 / (int(classes.max(initial=0)) + 2)), []
        for k in range(ORDER):
            probability = _by_others(in_classes, k, probability, without_pairs=without_pairs)
            prices.append(np.minimum(emitted[texts.ids] - np.log(probability), most))
        return cls(prices[0], np.r_[0.0, np.cumsum(prices[-1])])

    def nats(self, positions: np.ndarray, length: int) -> np.ndarray:
        return np.asarray(self.first[positions] + self.sums[positions + length] - self.sums[positions + 1])


def _classes(texts: TextTokens, vocabulary: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of each word, and what it costs to tell it from others of its class, with the part of its digits."""
    pairs = np.unique(texts.ids.astype(np.int64) * texts.n_units + texts.owners)
    n_units = np.bincount(pairs // texts.n_units, minlength=len(vocabulary))
    bases = word_bases(vocabulary, np.bincount(texts.ids, minlength=len(vocabulary)))
    numbers: dict[str, int] = {}
    classes, emitted, digits = np.zeros(len(vocabulary), dtype=np.int64), bases.digits.copy(), bases.digits.copy()
    rare = np.log(1 + int((n_units < KNOWN).sum()))
    for index, word in enumerate(vocabulary):
        shape, is_own = shape_of(word), n_units[index] >= KNOWN
        if is_own:
            emitted[index] = digits[index] = 0.0
        elif "#" not in shape:
            shape, emitted[index] = " rare", rare
        classes[index] = numbers.setdefault(word if is_own else " " + shape, len(numbers))
    return classes, emitted, digits


def _by_others(tokens: TextTokens, k: int, lower: np.ndarray, *, without_pairs: bool) -> np.ndarray:
    """Probabilities of words after k words, by Witten-Bell, from the texts of all units but each word's own. Without
    pairs, runs that two units alone have are taken out of all counts.
    """
    contexts, runs = _hashes(tokens, k)
    units = tokens.owners.astype(np.uint64)
    (c, n_c), (r, n_r), (oc, n_oc), (o, n_o) = (
        _counted(hashes) for hashes in (contexts, runs, _joined(contexts, units), _joined(runs, units))
    )
    at = np.arange(len(runs))[::-1]
    first_of_run, first_of_own = np.zeros(len(n_r), dtype=np.int64), np.zeros(len(n_o), dtype=np.int64)
    first_of_run[r[::-1]], first_of_own[o[::-1]] = at, at
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


def _counted(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes, different = pd.factorize(hashes)
    return codes, np.bincount(codes, minlength=len(different))


def _hashes(tokens: TextTokens, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the k words before each word, and of these with the word itself."""
    ids = tokens.ids.astype(np.uint64) + np.uint64(2)
    at, starts = np.arange(len(ids)), tokens.starts[tokens.text]
    context = np.full(len(ids), k + 1, dtype=np.uint64)
    for back in range(k, 0, -1):
        before = np.where(at - back >= starts, ids[np.maximum(at - back, 0)], np.uint64(1))
        context = _joined(context, before)
    return context, _joined(context, ids)


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    joined = (first ^ (first >> np.uint64(29))) * _FACTOR + second
    return np.asarray((joined ^ (joined >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9))
