"""The texts of a column in all tables of an evaluation, split into words once."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from evaluate.tables import Tables

NO_TEXTS = "the schema keeps no column of free text"
_WORDS = re.compile(r"\w+(?:['\u2019.@+-]\w+)*|[^\w\s]")


def words(text: str) -> list[str]:
    """Words, numbers and signs of a text, in lower case, in their order; addresses and numbers with hyphens are one.

    >>> words("Call Ann's desk at 617-0143, now!")
    ['call', "ann's", 'desk', 'at', '617-0143', ',', 'now', '!']
    """
    return _WORDS.findall(text.casefold())


def ngrams(of: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Runs of n words, in their order.

    >>> list(ngrams(["a", "b", "c"], 2))
    [('a', 'b'), ('b', 'c')]
    """
    return zip(*(of[start:] for start in range(n)), strict=False)


@dataclass(frozen=True)
class Corpus:
    """*Sensitive*. Texts of one column of one table; missing ones are left out."""

    texts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]
    n_rows: int

    @classmethod
    def of(cls, column: pd.Series) -> "Corpus":
        """The texts of a column. `column`: *Sensitive*. As a canonical table holds it."""
        held = [(index, str(value)) for index, value in enumerate(column.tolist()) if isinstance(value, str)]
        texts = tuple(text for _, text in held)
        return cls(texts, tuple(tuple(words(text)) for text in texts), tuple(index for index, _ in held), len(column))

    def counts(self, n: int = 1) -> Counter[tuple[str, ...]]:
        return Counter(run for each in self.words for run in set(ngrams(each, n)))


@dataclass(frozen=True)
class Corpora:
    """*Sensitive*. Texts of one column in all tables of an evaluation, whose roles `evaluate.tables.Real` explains."""

    train: Corpus
    fresh: Corpus
    control: Corpus
    synthetic: Corpus

    @classmethod
    def of(cls, tables: Tables, name: str) -> "Corpora":
        """The texts of a column; those of real tables are read once for all synthetic ones. `tables`: *Sensitive*. All
        of them.
        """
        sides = (tables.train, tables.fresh, tables.control)
        train, fresh, control = tables.kept_of_real.once(
            ("texts", name), lambda: [Corpus.of(side[name]) for side in sides]
        )
        return cls(train, fresh, control, tables.kept.once(("texts", name), lambda: Corpus.of(tables.synthetic[name])))


def spans(text: str) -> list[tuple[int, int]]:
    """Places of the words of a text in it, in characters: the first, and after the last.

    They are as many as `words`, but for a few letters that fold into several signs.

    >>> spans("Call now!")
    [(0, 4), (5, 8), (8, 9)]
    """
    return [match.span() for match in _WORDS.finditer(text)]
