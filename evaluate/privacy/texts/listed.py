"""The list of sentences that synthetic texts repeat, as a figure of an internal report.

A sentence is shown as it stands in the synthetic text. It is a real person's all the same: an evaluation is internal,
and no public output reads this figure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.free_text.corpus import spans, words
from evaluate.privacy.texts.tokens import TextTokens, TokenSides
from evaluate.tables import Tables

MOST_SENTENCES = 20  # Sentences of each column that are listed
MOST_CHARACTERS = 300  # Characters of a sentence that are shown
_TRIED = 200  # Leaks that are looked up, the worst first
_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Leak:
    """A run of words of a training text that a synthetic text repeats; *Sensitive*."""

    place: int
    length: int


def listed(
    tables: Tables, sides: TokenSides, leaks: Sequence[Leak], further: Iterable[tuple[int, int, str]]
) -> Mapping[str, Any]:
    """The sentences of each column, as plain data; columns without any are left out. `tables`: *Sensitive*. All of
    them.
    """
    found: dict[int, dict[tuple[str, ...], str]] = defaultdict(dict)
    for leak in leaks[:_TRIED]:
        text, sentence = _sentence(tables, sides, leak)
        column = int(sides.synthetic.columns[text])
        found[column].setdefault(tuple(words(sentence)), sentence)
    for column, _, sentence in further:
        run = tuple(words(sentence))
        if not any(_within(run, one) or _within(one, run) for one in found[column]):
            found[column][run] = sentence
    names = tables.schema.texts
    columns = [
        {"column": names[column], "sentences": [
            {"sentence": sentence[:MOST_CHARACTERS], "n_words": len(run),
             "synthetic_rows": len(_holding(sides.synthetic, sides, run, column)),
             "train_rows": len(_holding(sides.train, sides, run, column))}
            for run, sentence in list(found[column].items())[:MOST_SENTENCES]
        ]}
        for column in sorted(found)
    ]  # fmt: skip
    return {"columns": columns}


def sentence_around(text: str, start: int) -> str:
    """The sentence of a text in which a character stands.

    >>> sentence_around("One. Call 555-0199 now! Three.", 10)
    'Call 555-0199 now!'
    """
    begin = 0
    for end in _END.finditer(text):
        if end.end() > start:
            return text[begin : end.start()].strip()
        begin = end.end()
    return text[begin:].strip()


def _sentence(tables: Tables, sides: TokenSides, leak: Leak) -> tuple[int, str]:
    """The synthetic text that repeats most around a run, and what it repeats, as it stands there."""
    train, synthetic = sides.train, sides.synthetic
    run = train.ids[leak.place : leak.place + leak.length]
    best = (0, 0, 0)
    start, end = train.starts[train.text[leak.place]], train.ends[train.text[leak.place]]
    for place in _places(synthetic, run)[:_TRIED]:
        left, right = 0, leak.length
        text = synthetic.text[place]
        while min(leak.place - start, place - synthetic.starts[text]) > left and (
            train.ids[leak.place - left - 1] == synthetic.ids[place - left - 1]
        ):
            left += 1
        while min(end - leak.place, synthetic.ends[text] - place) > right and (
            train.ids[leak.place + right] == synthetic.ids[place + right]
        ):
            right += 1
        best = max(best, (left + right, int(place) - left, int(text)))
    length, place, text = best
    whole = str(tables.synthetic[tables.schema.texts[synthetic.columns[text]]].iloc[synthetic.rows[text]])
    at = spans(whole)
    first = place - int(synthetic.starts[text])
    first, last = (min(word, len(at) - 1) for word in (first, first + length - 1))
    return text, whole[at[first][0] : at[last][1]]


def _holding(of: TextTokens, sides: TokenSides, run: Sequence[str], column: int) -> np.ndarray:
    """Rows of a table in one of whose texts of a column some words stand in a row."""
    numbers = np.array([sides.vocabulary.numbers.get(word, -1) for word in run])
    texts = np.unique(of.text[_places(of, numbers)])
    return np.unique(of.rows[texts[of.columns[texts] == column]])


def _places(of: TextTokens, run: np.ndarray) -> np.ndarray:
    places = np.flatnonzero(of.ids[: len(of.ids) - len(run) + 1] == run[0])
    for step, word in enumerate(run[1:], start=1):
        places = places[of.ids[places + step] == word]
    return np.asarray(places[of.ends[of.text[places]] >= places + len(run)])


def _within(run: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return any(other[start : start + len(run)] == run for start in range(len(other) - len(run) + 1))
