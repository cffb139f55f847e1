"""Themes of public texts: clusters of the sentences of public texts, by which private rows are counted.

A text has a theme if one of its sentences is nearest to that cluster. So a text adds columns of true and false to its
row. The generator of rows counts them as it counts others, under the same epsilon. How a theme reads, the language
model learns from public texts, which costs nothing.

DEVIATES: private evolution (Xie et al. 2024, 2403.01749) counts by public texts, too. It goes on by varying those with
many votes, in rounds that are each paid for. Here they are counted once, together with the other columns.

Source: clusters by k-means (Lloyd 1982) over TF-IDF (Sparck Jones 1972).
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.errors import JobError
from synth.schema import Schema

MOST_WORDS = 2_000  # words that sentences are told apart by, at most
LEAST_SENTENCES = 2  # public sentences that such a word stands in at least
N_TOLD = 3  # words that describe a theme in a prompt
TEXTS_A_PASS = 2_048  # public texts that rows are dealt to at once
_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")
_WORD = r"[\u3040-\u30ff\u3400-\u9fff]|\b\w\w+\b"
"""A word; of Chinese and Japanese, which put no blanks between words, a character."""


@dataclass(frozen=True, eq=False)
class Themes:
    """Clusters of sentences."""

    words: tuple[str, ...]
    weights: NDArray[np.float32]  # inverse document frequency of each, shape (n_words,)
    centers: NDArray[np.float32]  # of the clusters, shape (n_themes, n_words)

    @classmethod
    @lru_cache(maxsize=1)  # a check and the fit after it ask for the same
    def learned(cls, public: tuple[str, ...], n_themes: int) -> "Themes":
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        vectorizer = _vectorizer(min_df=LEAST_SENTENCES, max_features=MOST_WORDS)
        try:
            vectors = vectorizer.fit_transform([sentence for text in public for sentence in _sentences(text)])
            told = vectors[np.flatnonzero(np.diff(vectors.indptr))]
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)  # fewer of them differ
                k_means = KMeans(n_themes, n_init=3, random_state=0).fit(told)
        except (ValueError, ConvergenceWarning):  # or no word stands in two sentences
            raise JobError(
                f"themes={n_themes} is more than the sentences of public_text that differ; lower themes, or give more "
                "texts"
            ) from None
        weights, centers = (values.astype(np.float32) for values in (vectorizer.idf_, k_means.cluster_centers_))
        return cls(tuple(vectorizer.get_feature_names_out().tolist()), weights, centers)

    def __len__(self) -> int:
        return len(self.centers)

    def of(self, texts: Iterable[Any]) -> NDArray[np.bool_]:
        """The themes of each text; shape (n, n_themes). A missing text has no theme, nor has a sentence of other words.

        Each row depends on its own text alone. `texts`: *Sensitive* where they are real; what is no string is missing.
        """
        from sklearn.metrics import pairwise_distances_argmin

        parts = [_sentences(text) if isinstance(text, str) else [] for text in texts]
        flags = np.zeros((len(parts), len(self)), dtype=bool)
        owners = np.repeat(np.arange(len(parts)), [len(sentences) for sentences in parts])
        if not len(owners):
            return flags
        vectorizer = _vectorizer(vocabulary=list(self.words))
        vectorizer.idf_ = self.weights.astype(np.float64)
        vectors = vectorizer.transform([sentence for part in parts for sentence in part])
        known = np.flatnonzero(np.diff(vectors.indptr))
        if len(known):
            flags[owners[known], pairwise_distances_argmin(vectors[known], self.centers.astype(np.float64))] = True
        return flags

    def described(self) -> tuple[str, ...]:
        heaviest = np.argsort(-self.centers, axis=1, kind="stable")[:, :N_TOLD]
        return tuple(" ".join(self.words[rank] for rank in row) for row in heaviest)

    def add_columns(self, rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
        """Rows with the themes of their texts as columns. `rows`: *Sensitive* where they are real. Canonical."""
        flags = [self.of(cut(rows[name].tolist(), schema, name)) for name in schema.texts]
        columns = pd.DataFrame(np.hstack(flags), rows.index, theme_names(schema.texts, self), dtype="boolean")
        return pd.concat([rows, columns], axis=1)

    def deal(self, public: Sequence[str], rows: pd.DataFrame, name: str, rng: np.random.Generator) -> pd.DataFrame:
        """A synthetic row for each public text, with the text's themes: one of the rows whose own are nearest."""
        columns, asked = theme_names((name,), self), self.of(public)
        of_rows, chosen = rows[columns].fillna(False).to_numpy(dtype=np.float64), np.zeros(len(asked), dtype=np.intp)
        for at in range(0, len(asked), TEXTS_A_PASS):
            part = asked[at : at + TEXTS_A_PASS].astype(np.float64)
            apart = of_rows.sum(1) - 2 * part @ of_rows.T  # but for a constant of each text
            chosen[at : at + TEXTS_A_PASS] = (apart + rng.random(apart.shape) / 2).argmin(1)
        dealt = rows.iloc[chosen].reset_index(drop=True)
        dealt[columns] = pd.DataFrame(asked, columns=columns).astype("boolean")
        return dealt

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        return {"themes weights": self.weights, "themes centers": self.centers}

    @classmethod
    def taken(cls, words: Sequence[str], arrays: dict[str, np.ndarray]) -> Self:
        return cls(tuple(words), arrays.pop("themes weights"), arrays.pop("themes centers"))


def _vectorizer(**named: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(token_pattern=_WORD, sublinear_tf=True, **named)


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _BETWEEN.split(text) if sentence.strip()]


def cut(texts: Iterable[Any], schema: Schema, name: str) -> list[Any]:
    """Texts without the characters that a column of text has no room for; what is no string stays as it is."""
    most = longest(schema, name)
    return [text[:most] if isinstance(text, str) else text for text in texts]


def longest(schema: Schema, *names: str) -> int:
    """Characters of a text of these columns at most, or of any."""
    return max(int(getattr(schema.columns[name], "length", 0)) for name in names or schema.texts)


def theme_names(texts: Sequence[str], themes: "Themes | int | None") -> list[str]:
    number = themes if isinstance(themes, int) else len(themes or ())
    return [f"{name}: theme {rank + 1}" for name in texts for rank in range(number)]


def public_texts(path: str, n_themes: int) -> tuple[tuple[str, ...], Themes | None]:
    """The lines of a file of public texts, of which empty ones are left out, and so many themes of theirs."""
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"public_text={path!r} cannot be read ({type(error).__name__}); name a file in UTF-8") from None
    if not any(lines):
        raise JobError(f"public_text={path!r} holds no text; name a file with one text a line")
    public = tuple(line for line in lines if line)
    return public, Themes.learned(public, n_themes) if n_themes else None
