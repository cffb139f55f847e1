"""Themes of texts: clusters of the sentences of public texts, by which private rows are counted.

A text has a theme if one of its sentences is nearest to that cluster. So a text adds columns of true and false to its
row. The generator of rows counts them as it counts others, under the same epsilon. How a theme reads, the language
model learns from public texts, which costs nothing.

DEVIATES: private evolution (Xie et al. 2024, 2403.01749) counts by public texts, too. It goes on by varying those with
many votes, in rounds that are each paid for. Here they are counted once, together with the other columns.

Source: clusters by k-means (Lloyd 1982) over TF-IDF (Sparck Jones 1972).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from synth.errors import JobError, SchemaError
from synth.schema import Schema
from synth.schema.kinds import BooleanColumn

MOST_WORDS = 2_000  # words that sentences are told apart by, at most
LEAST_SENTENCES = 2  # public sentences that such a word stands in at least
N_TOLD = 3  # words that describe a theme in a prompt
TEXTS_A_PASS = 2_048  # public texts that rows are dealt to at once
SENTENCES_A_PASS = 65_536  # sentences that centers are compared with at once
PLACES = 6  # decimal places by which sentences differ: k-means does not tell nearer ones apart
_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")
_WORD = r"[\u3040-\u30ff\u3400-\u9fff]|\b\w\w+\b"
"""A word; of Chinese and Japanese, which put no blanks between words, a character."""


@dataclass(frozen=True, eq=False)
class Themes:
    """Clusters of sentences.
    `weights`: inverse document frequency of each; shape (n_words,).
    `centers`: of the clusters; shape (n_themes, n_words).
    """

    words: tuple[str, ...]
    weights: NDArray[np.float32]
    centers: NDArray[np.float32]

    @classmethod
    def learned(cls, public: Sequence[str], n_themes: int) -> Self:
        from sklearn.cluster import KMeans
        from sklearn.feature_extraction.text import TfidfVectorizer

        sentences = [sentence for text in public for sentence in _sentences(text)]
        vectorizer = TfidfVectorizer(
            token_pattern=_WORD, min_df=LEAST_SENTENCES, max_features=MOST_WORDS, sublinear_tf=True
        )
        try:
            vectors = vectorizer.fit_transform(sentences)
        except ValueError:  # no word stands in two sentences
            vectors = sparse.csr_matrix((0, 1))
        vectors = vectors[np.flatnonzero(np.diff(vectors.indptr))]
        n_unlike = len({(row.indices.tobytes(), row.data.round(PLACES).tobytes()) for row in vectors})
        if n_unlike < n_themes:
            raise JobError(
                f"themes={n_themes} is more than the sentences of public_text that differ, which are {n_unlike:,}; "
                "lower themes, or give more texts"
            )
        centers = KMeans(n_themes, n_init=3, random_state=0).fit(vectors).cluster_centers_
        weights, centers = (values.astype(np.float32) for values in (vectorizer.idf_, centers))
        return cls(tuple(vectorizer.get_feature_names_out().tolist()), weights, centers)

    def __len__(self) -> int:
        return len(self.centers)

    def of(self, texts: Iterable[Any]) -> NDArray[np.bool_]:
        """The themes of each text; shape (n, n_themes). A missing text has no theme, nor has a sentence of other words.

        Each row depends on its own text alone.
        `texts`: *Sensitive* where they are real; what is no string is missing.
        """
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize

        parts = [_sentences(text) if isinstance(text, str) else [] for text in texts]
        found = np.zeros((len(parts), len(self)), dtype=bool)
        owners = np.repeat(np.arange(len(parts)), [len(sentences) for sentences in parts])
        if not len(owners):
            return found
        sentences = [sentence for part in parts for sentence in part]
        counts = CountVectorizer(token_pattern=_WORD, vocabulary=list(self.words)).transform(sentences)
        weighed = counts.astype(np.float64)
        weighed.data = 1 + np.log(weighed.data)
        vectors = normalize(weighed @ sparse.diags_array(self.weights))
        centers, known = self.centers.astype(np.float64), np.flatnonzero(np.diff(counts.indptr))
        for at in range(0, len(known), SENTENCES_A_PASS):
            part = known[at : at + SENTENCES_A_PASS]
            found[owners[part], (vectors[part] @ centers.T - np.square(centers).sum(1) / 2).argmax(1)] = True
        return found

    def described(self) -> tuple[str, ...]:
        """A theme's heaviest words, of each theme."""
        heaviest = np.argsort(-self.centers, axis=1, kind="stable")[:, :N_TOLD]
        return tuple(" ".join(self.words[place] for place in row) for row in heaviest)

    def add_columns(self, rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
        """Rows with the themes of their texts as columns. `rows`: *Sensitive* where they are real. Canonical."""
        columns: dict[str, Any] = {}
        for name in schema.texts:
            found = self.of(cut(rows[name].tolist(), schema, name))
            columns |= dict(zip(theme_names(name, len(self)), found.T, strict=True))
        return pd.concat([rows, pd.DataFrame(columns, index=rows.index).astype("boolean")], axis=1)

    def deal(self, public: Sequence[str], rows: pd.DataFrame, name: str, rng: np.random.Generator) -> pd.DataFrame:
        """A synthetic row for each public text, with the text's themes: one of the rows whose own are nearest."""
        columns = list(theme_names(name, len(self)))
        held, found = rows[columns].fillna(False).to_numpy(dtype=np.float64), self.of(public)
        chosen = np.zeros(len(found), dtype=np.intp)
        for at in range(0, len(found), TEXTS_A_PASS):
            part = found[at : at + TEXTS_A_PASS].astype(np.float64)
            apart = held.sum(1) - 2 * part @ held.T  # but for a constant of each text
            chosen[at : at + TEXTS_A_PASS] = (apart + rng.random(apart.shape) / 2).argmin(1)
        dealt = rows.iloc[chosen].reset_index(drop=True)
        dealt[columns] = pd.DataFrame(found, columns=columns).astype("boolean")
        return dealt

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        return {"weights": self.weights, "centers": self.centers}

    @classmethod
    def loaded(cls, words: Sequence[Any], arrays: Mapping[str, np.ndarray]) -> Self:
        weights, centers = (np.asarray(arrays[key], dtype=np.float32) for key in ("weights", "centers"))
        if not words or not all(isinstance(word, str) for word in words) or len(set(words)) < len(words):
            raise ValueError("words of themes are texts that differ, one at least")
        if weights.shape != (len(words),) or centers.ndim != 2 or centers.shape[1:] != weights.shape:
            raise ValueError("themes have a weight for each word")
        if not (np.isfinite(weights).all() and np.isfinite(centers).all()):
            raise ValueError("weights of themes are finite")
        return cls(tuple(words), weights, centers)


def cut(texts: Iterable[Any], schema: Schema, name: str) -> list[Any]:
    """Texts without the characters that a column of text has no room for, which nothing reads.
    `texts`: *Sensitive* where they are real; what is no string stays as it is.
    """
    column = schema.columns[name]
    most = column.length if column.is_text else None
    return [text[:most] if isinstance(text, str) else text for text in texts]


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _BETWEEN.split(text) if sentence.strip()]


def theme_names(name: str, n_themes: int) -> tuple[str, ...]:
    """Names of the columns of themes of a column of text.

    >>> theme_names("note", 2)
    ('note: theme 1', 'note: theme 2')
    """
    return tuple(f"{name}: theme {place + 1}" for place in range(n_themes))


def with_themes(schema: Schema, texts: Sequence[str], n_themes: int) -> Schema:
    """The schema with a column of true and false for each theme of each column of text."""
    names = [theme for name in texts for theme in theme_names(name, n_themes)]
    for name in names:
        if name in schema.columns:
            raise SchemaError(f"column={name!r} has the name of a theme of texts; rename it, or set themes = 0")
    return schema.model_copy(update={"columns": {**schema.columns, **{name: BooleanColumn() for name in names}}})
