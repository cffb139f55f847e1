"""The model of runs of words: it sums to 1, knows what it saw, and prices numbers by their digits."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest

from tests.text_tables import TEXT
from understudy.extras.text.evaluation.tokens import (
    RunPrices,
    TextTokens,
    held_by_one,
    shared_windows,
    word_bases,
    word_probabilities,
)

Vocabulary = dict[str, int]


def read(vocabulary: Vocabulary, *texts: str | None) -> TextTokens:
    return TextTokens.of(pd.DataFrame({TEXT: list(texts)}), [TEXT], np.arange(len(texts)), vocabulary)


def bases(vocabulary: Vocabulary, tokens: TextTokens) -> tuple[np.ndarray, np.ndarray]:
    words = list(vocabulary)
    return word_bases(words, np.bincount(tokens.ids, minlength=len(words)))


def by_hand(texts: list[str], asked: str, base: float) -> list[float]:
    """Witten and Bell's probabilities of the words of one text, counted one by one."""
    counts: list[dict[tuple[str, ...], Counter[str]]] = [defaultdict(Counter) for _ in range(3)]
    runs = [["<"] * 2 + text.split() for text in texts]
    for run in runs:
        for at in range(2, len(run)):
            for k in range(3):
                counts[k][tuple(run[at - k : at])][run[at]] += 1
    probabilities, run = [], ["<"] * 2 + asked.split()
    for at in range(2, len(run)):
        probability = base
        for k in range(3):
            seen = counts[k][tuple(run[at - k : at])]
            if seen:
                probability = (seen[run[at]] + len(seen) * probability) / (seen.total() + len(seen))
        probabilities.append(probability)
    return probabilities


def test_prices_by_others_are_those_of_brute_force() -> None:
    """A model fitted without each unit's texts, of frequent words alone."""
    known: Vocabulary = {}
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(list("abcd"), rng.integers(2, 9))) for _ in range(30)]
    prices = RunPrices.of(read(known, *texts), list(known))
    whole = read(known, *texts)
    for left_out in range(30):
        rest = [text for at, text in enumerate(texts) if at != left_out]
        expected = by_hand(rest, texts[left_out], 1 / 5)
        plain = word_probabilities(read(known, texts[left_out]), read(known, *rest), np.log(np.full(4, 1 / 5)))[-1]
        assert plain == pytest.approx(expected, abs=1e-9)
        got = np.diff(prices.sums)[np.flatnonzero(whole.text == left_out)]
        assert got == pytest.approx(np.minimum(-np.log(expected), np.log(32)), abs=1e-9)


def test_shared_runs_are_those_of_brute_force() -> None:
    known: Vocabulary = {}
    rng = np.random.default_rng(1)
    both = [[" ".join(rng.choice(list("abc"), rng.integers(0, 12))) for _ in range(20)] for _ in range(2)]
    ours, theirs = (read(known, *texts) for texts in both)

    def runs(texts: list[str], n: int) -> set[tuple[str, ...]]:
        split = [text.split() for text in texts]
        return {tuple(each[at : at + n]) for each in split for at in range(len(each) - n + 1)}

    words = np.array(list(known))
    lengths = []
    for length, at, numbers in shared_windows(ours, theirs):
        shared = [tuple(words[ours.ids[start : start + length]]) for start in at]
        assert {*shared} == runs(both[0], length) & runs(both[1], length)
        assert len({*shared}) == len({*numbers.tolist()}) == len({*zip(shared, numbers.tolist(), strict=True)})
        for run, is_alone in zip(shared, held_by_one(numbers, ours.owners[at]), strict=True):
            assert is_alone == (sum(run in runs([text], length) for text in both[0]) == 1)
        lengths.append(length)
    assert len(lengths) > 4
