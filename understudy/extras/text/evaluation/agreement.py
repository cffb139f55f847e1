"""What texts tell of their row: a model of texts, and how well its predictions agree with the columns.

One linear model predicts all columns from a text at once: ridge regression of words and runs of two words, weighted by
how few texts hold them (TF-IDF), on the ranks of numbers and on indicators of categories, a missing value being one.
Its dual form takes one factorization for all columns. What it predicts correlates with what the rows hold, over all
categories of a column together: 1 where it is always right, 0 where texts tell nothing.

Source: Saunders, Gammerman, Vovk 1998, "Ridge regression learning algorithm in dual variables"; Salton & Buckley 1988
for the weights.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.intervals import HALVES, N_GROUPS, replicate_groups
from understudy.extras.text.evaluation.tokens import words

N_FEATURES = 2**16  # Into which words and runs of two words are hashed
MOST_LEARNED = 2_000  # Texts that a model learns from at most
RIDGE = 1.0  # Penalty, as is customary for texts whose features have length 1
MIN_TEXTS = 4 * N_GROUPS  # Texts, or entities with one, of each table that a comparison needs
_REPLICATES = replicate_groups(N_GROUPS)[: HALVES.stop]  # All rows, half-samples and their complements


def counted(texts: np.ndarray) -> Any:
    """Counts of hashed words and runs of two words, sparse, shape (n, N_FEATURES); none of a missing text."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(n_features=N_FEATURES, alternate_sign=False, norm=None, analyzer=_runs)
    return hashed.transform(text or "" for text in texts)


def _runs(text: str) -> list[str]:
    single = words(text)
    return [*single, *map(" ".join, itertools.pairwise(single))]


@dataclass(frozen=True, eq=False)
class Outputs:
    """What is predicted, of each table: ranks of numbers and indicators of categories, by the column they are of."""

    tables: tuple[np.ndarray, ...]  # of shape (n_rows, n_outputs); *Sensitive* where real
    columns: np.ndarray  # shape (n_outputs,)

    @classmethod
    def of(cls, coded: EncodedSamples) -> "Outputs":
        """Of training, synthetic and held-out rows."""
        made: list[list[np.ndarray]] = [[] for _ in range(3)]
        columns: list[int] = []
        for i, (size, is_number) in enumerate(zip(coded.sizes, coded.is_number, strict=True)):
            values = np.eye(size)
            if is_number:
                share = np.bincount(coded.rows[0].codes[:, i], minlength=size) / len(coded.rows[0].codes)
                values = (np.cumsum(share) - share / 2)[:, None]
                values[-2:] = 0.5  # other and missing values are neither large nor small
            for side, rows in zip(made, coded.rows[:3], strict=True):
                side.append(values[rows.codes[:, i]])
            columns += [i] * values.shape[1]
        return cls(tuple(np.hstack(side) for side in made), np.array(columns))


@dataclass(frozen=True, eq=False)
class TextModel:
    """Ridge regression of weighted words; *Sensitive* where texts are real."""

    weights: np.ndarray  # of each feature for how few texts hold it, shape (n_features,)
    coefficients: np.ndarray  # shape (n_features, n_outputs)

    @classmethod
    def fit(cls, counts: Any, outputs: np.ndarray) -> "TextModel":
        from scipy import linalg
        from threadpoolctl import threadpool_limits

        n = counts.shape[0]
        weights = np.log((1 + n) / (1 + np.bincount(counts.indices, minlength=N_FEATURES))) + 1.0
        features = _weighted(counts, weights)
        gram = (features @ features.T).toarray()
        gram[np.diag_indices(n)] += RIDGE
        with threadpool_limits(1):
            dual = linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), outputs - outputs.mean(axis=0))
        return cls(weights, np.asarray(features.T @ dual))

    def predict(self, counts: Any) -> np.ndarray:
        """Up to a constant, shape (n, n_outputs)."""
        return np.asarray(_weighted(counts, self.weights) @ self.coefficients)


def _weighted(counts: Any, weights: np.ndarray) -> Any:
    """Logarithms of counts by weight, each row of length 1."""
    from scipy import sparse
    from sklearn.preprocessing import normalize

    logs = counts.astype(np.float64)
    logs.data = 1.0 + np.log(logs.data)
    return normalize(sparse.csr_matrix(logs.multiply(weights)))


def correlations(predicted: np.ndarray, truth: np.ndarray, columns: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Of each column, over its outputs together, 0 where nothing varies; shape (31, n_columns), as `_REPLICATES`."""
    in_group = np.eye(N_GROUPS)[groups].T
    n = np.maximum(_REPLICATES @ in_group.sum(axis=1), 1.0)[:, None]
    of_column = np.eye(int(columns.max()) + 1)[columns]

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(_REPLICATES @ (in_group @ values) / n)

    means = mean(predicted), mean(truth)
    products = [mean(a * b) - x * y for (a, x), (b, y) in (
        ((predicted, means[0]), (truth, means[1])), ((predicted, means[0]), (predicted, means[0])),
        ((truth, means[1]), (truth, means[1])),
    )]  # fmt: skip
    both, of_predicted, of_truth = (each @ of_column for each in products)
    spread = np.sqrt(of_predicted.clip(0.0) * of_truth.clip(0.0))
    return np.where(spread > 1e-9, both / np.maximum(spread, 1e-9), 0.0)


def agreements(texts: Sequence[np.ndarray], coded: EncodedSamples, n_folds: int) -> np.ndarray:
    """Correlations of columns with what models of held-out texts predict from texts, in training, synthetic and fresh
    rows and in training rows with the texts of others; shape (4, 31, n_columns). `texts`: of the first three.
    """
    outputs, counts = Outputs.of(coded), [counted(each) for each in texts]
    groups = [rows.rows.groups for rows in coded.rows[:3]]
    predicted = [np.zeros_like(each) for each in outputs.tables]
    there = np.array([text is not None for text in texts[2]])
    for fold in range(n_folds):
        learned = np.flatnonzero((groups[2] % n_folds != fold) & there)[: 2 * MOST_LEARNED]
        model = TextModel.fit(counts[2][learned], outputs.tables[2][learned])
        for side, by_group in enumerate(groups):
            asked = by_group % n_folds == fold
            predicted[side][asked] = model.predict(counts[side][asked])
    # A text keeps its fold: it is dealt among the rows of its group.
    dealt = np.arange(len(groups[0]))
    for group in range(N_GROUPS):
        dealt[groups[0] == group] = np.roll(np.flatnonzero(groups[0] == group), 1)
    sides = [*zip(predicted, outputs.tables, groups, strict=True), (predicted[0][dealt], outputs.tables[0], groups[0])]
    return np.array([correlations(made, truth, outputs.columns, by_group) for made, truth, by_group in sides])
