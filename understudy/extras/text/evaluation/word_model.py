"""A model of runs of words: the probability of each word after the two before it.

Counts of three, two and one words are interpolated (method C of Witten & Bell). A word that no count knows has a
probability by its form: a number that of each of its digits, as numbers of its form have them at their places. So a
number of seven digits costs about what it takes to guess it, and less where its first digits are always the same.

Source: Witten & Bell 1991, "The zero-frequency problem"; Chen & Goodman 1999, section 2.6.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from understudy.extras.text.evaluation.tokens import TextTokens

ORDER = 3  # Words that are looked at together
KNOWN = 3  # Units that have a word, from which on it is one of its own


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
