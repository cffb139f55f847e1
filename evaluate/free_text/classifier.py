"""The classifier of texts: it tells texts of one table from held-out ones, and is scored on texts it has not seen.

Logistic regression of words, runs of two words, and letters in words, weighted by how few texts hold them (TF-IDF). As
in `evaluate.fidelity.detection`, synthetic texts are set against held-out ones, which no generator saw, and so are
training texts (the reference), and training texts with their words shuffled (the floor). Folds hold whole entities.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; LeDell, Petersen, van der
Laan 2015 (the variance of a cross-fitted area under the curve); Salton & Buckley 1988 for the weights.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from evaluate.fidelity.classifier import N_FOLDS, Skill, folds
from evaluate.fidelity.detection import TWICE
from evaluate.fidelity.samples import FRESH, SYNTHETIC
from evaluate.free_text.corpus import words
from evaluate.free_text.samples import CodedTexts, TextSamples
from evaluate.intervals import LEVEL, placements

MOST_TEXTS = 1_500  # Texts of each table that are told apart at most
N_FEATURES = 2**15  # Features of words, and as many of letters, into which these are hashed
LETTERS = (2, 4)
MOST_LETTERS = 2_000  # Characters of a text that are looked at


@dataclass(frozen=True, eq=False)
class _Side:
    """Texts of one table with their features and entities. *Sensitive* where the table is real."""

    features: Any
    units: np.ndarray


@dataclass(frozen=True, eq=False)
class Told:
    n: int
    synthetic: Skill
    train: Skill
    shuffled: Skill
    units: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def excess(self) -> float:
        return self.synthetic.auc - self.train.auc

    def interval(self) -> tuple[float, float]:
        """The 95% interval of the area of synthetic texts."""
        held_out, synthetic, _ = self.units
        return self._around(self.synthetic.auc, 0.0, 1.0, 1, [
            (self.synthetic.losses, held_out), (self.synthetic.wins, synthetic),
        ])  # fmt: skip

    def excess_interval(self, n_comparisons: int = 1) -> tuple[float, float]:
        """The 95% interval of the excess."""
        held_out, synthetic, train = self.units
        return self._around(self.excess, -1.0, 1.0, n_comparisons, [
            (self.synthetic.losses - self.train.losses, held_out), (self.synthetic.wins, synthetic),
            (self.train.wins, train),
        ])  # fmt: skip

    def _around(
        self, value: float, least: float, most: float, n: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[float, float]:
        error = float(np.sqrt(TWICE * sum(_variance(*part) for part in parts)))
        half = float(special.ndtri(1 - (1 - LEVEL) / 2 / n)) * error
        return max(value - half, least), min(value + half, most)


def _variance(added: np.ndarray, units: np.ndarray) -> float:
    """The variance of a mean over texts of whole entities."""
    sums = np.bincount(units, added)
    return float(sums @ sums) / len(added) ** 2 * len(sums) / max(len(sums) - 1, 1)


def told_apart(samples: TextSamples, seed: int) -> Told:
    """The classifier's skill on equally many texts of each table. `samples`: *Sensitive*. Texts of one column."""
    chosen = (samples.others[FRESH], samples.others[SYNTHETIC], samples.train)
    n = min(MOST_TEXTS, *(int(one.present.sum()) for one in chosen))
    taken = [_taken(one, n) for one in chosen]
    rng = np.random.default_rng([seed, 22])
    taken.append((_shuffled(taken[2][0], rng), taken[2][1]))
    features = _weighted([texts for texts, _ in taken])
    sides = [_Side(matrix, units) for matrix, (_, units) in zip(features, taken, strict=True)]
    held_out, synthetic, train, shuffled = sides
    of_synthetic, of_train, of_shuffled = (_skill(held_out, other) for other in (synthetic, train, shuffled))
    return Told(n, of_synthetic, of_train, of_shuffled, (held_out.units, synthetic.units, train.units))


def _taken(one: CodedTexts, n: int) -> tuple[list[str], np.ndarray]:
    """The first n texts, and the entity of each, from 0."""
    rows = np.flatnonzero(one.present)[:n]
    _, units = np.unique(one.units[rows], return_inverse=True)
    return [str(text) for text in one.texts[rows]], units


def _shuffled(texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The same words dealt at random to texts of the same lengths, with a blank between any two."""
    split = [words(text) for text in texts]
    dealt = iter(rng.permutation(np.array([word for text in split for word in text], dtype=object)))
    return [" ".join(str(next(dealt)) for _ in text) for text in split]


def _weighted(tables: Sequence[Sequence[str]]) -> list[Any]:
    """Features of texts, weighted without a look at which table a text is of; sparse, shape (n, 2 n_features) each."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    texts = [text[:MOST_LETTERS] for of in tables for text in of]
    kinds = ({"analyzer": runs_of}, {"analyzer": "char_wb", "ngram_range": LETTERS, "lowercase": True})
    found = [HashingVectorizer(n_features=N_FEATURES, alternate_sign=False, norm=None, **kind) for kind in kinds]
    weighted = [TfidfTransformer(sublinear_tf=True).fit_transform(one.transform(texts)) for one in found]
    whole, ends = sparse.hstack(weighted, format="csr"), np.cumsum([0, *map(len, tables)])
    return [whole[first:last] for first, last in itertools.pairwise(ends)]


def runs_of(text: str) -> list[str]:
    single = words(text)
    return [*single, *map(" ".join, itertools.pairwise(single))]


def _skill(held_out: _Side, table: _Side) -> Skill:
    from scipy import sparse

    features = sparse.vstack([held_out.features, table.features], format="csr")
    labels = np.repeat([0, 1], [len(held_out.units), len(table.units)])
    of = np.concatenate([folds(held_out.units), folds(table.units)])
    centered, aucs = np.empty(len(labels)), np.empty(N_FOLDS)
    for fold in range(N_FOLDS):
        inside = of == fold
        found = _scores(features[~inside], labels[~inside], features[inside])
        positive = labels[inside] == 1
        wins, losses = placements(found[positive], found[~positive])
        aucs[fold] = wins.mean()
        centered[inside & (labels == 1)] = wins - aucs[fold]
        centered[inside & (labels == 0)] = losses - aucs[fold]
    return Skill(float(aucs.mean()), centered[labels == 1], centered[labels == 0])


def _scores(features: Any, labels: np.ndarray, asked: Any) -> np.ndarray:
    """Scores of some texts by logistic regression on others, in one thread."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        model = LogisticRegression(solver="liblinear", random_state=0, tol=1e-3).fit(features, labels)
        return np.asarray(model.decision_function(asked))
