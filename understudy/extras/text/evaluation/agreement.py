"""What texts tell of their row: a linear model of texts, and how well its predictions agree with the columns.

One model predicts all columns at once from words and runs of two words, weighted by how few texts hold them: the ranks
of numbers, and indicators of categories, a missing value being one. What it predicts correlates with what the rows
hold, over all categories of a column together: 1 where it is always right, 0 where texts tell nothing.

Source: Saunders, Gammerman, Vovk 1998, "Ridge regression learning algorithm in dual variables"; Salton & Buckley 1988.
"""

import itertools
from collections.abc import Sequence
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


def encoded(texts: Sequence[np.ndarray], coded: EncodedSamples) -> tuple[list[Any], list[np.ndarray], np.ndarray]:
    """Of training, synthetic and held-out rows the counts of hashed words and runs of two words, sparse, none of a
    missing text, and what is predicted: ranks of numbers and indicators of categories, shape (n_rows, n_outputs); and
    the column that each output is of.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    def runs(text: str) -> list[str]:
        single = words(text)
        return [*single, *map(" ".join, itertools.pairwise(single))]

    hashed = HashingVectorizer(n_features=N_FEATURES, alternate_sign=False, norm=None, analyzer=runs)
    of_codes = []
    for train, size, is_number in zip(coded.rows[0].codes.T, coded.sizes, coded.is_number, strict=True):
        values = np.eye(size)
        if is_number:
            share = np.bincount(train, minlength=size) / len(train)
            values = (np.cumsum(share) - share / 2)[:, None]
            values[-2:] = 0.5  # other and missing values are neither large nor small
        of_codes.append(values)
    outputs = [np.hstack([of_codes[i][codes] for i, codes in enumerate(rows.codes.T)]) for rows in coded.rows[:3]]
    columns = np.repeat(np.arange(len(of_codes)), [values.shape[1] for values in of_codes])
    return [hashed.transform(text or "" for text in side) for side in texts], outputs, columns


def text_model(counts: Any, outputs: np.ndarray) -> Any:
    """A fitted model, which predicts outputs up to a constant; *Sensitive* where texts are real."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

    # Its dual form takes one factorization for all outputs.
    ridge = Ridge(RIDGE, fit_intercept=False, solver="cholesky")
    with threadpool_limits(1):
        return make_pipeline(TfidfTransformer(sublinear_tf=True), ridge).fit(counts, outputs - outputs.mean(axis=0))


def correlations(predicted: np.ndarray, truth: np.ndarray, columns: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Of each column, over its outputs together, 0 where nothing varies; shape (31, n_columns), as `_REPLICATES`."""
    in_group = np.eye(N_GROUPS)[groups].T
    n = np.maximum(_REPLICATES @ in_group.sum(axis=1), 1.0)[:, None]
    of_column = np.eye(int(columns.max()) + 1)[columns]

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(_REPLICATES @ (in_group @ values) / n)

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray((mean(a * b) - mean(a) * mean(b)) @ of_column)

    spread = np.sqrt(covariance(predicted, predicted).clip(0.0) * covariance(truth, truth).clip(0.0))
    return np.where(spread > 1e-9, covariance(predicted, truth) / np.maximum(spread, 1e-9), 0.0)


def agreements(texts: Sequence[np.ndarray], coded: EncodedSamples, n_folds: int) -> np.ndarray:
    """Correlations of columns with what models of held-out texts predict from texts, in training, synthetic and fresh
    rows and in training rows with the texts of others; shape (4, 31, n_columns). `texts`: of the first three.
    """
    counts, outputs, columns = encoded(texts, coded)
    groups = [rows.rows.groups for rows in coded.rows[:3]]
    predicted = [np.zeros_like(each) for each in outputs]
    there = np.array([text is not None for text in texts[2]])
    for fold in range(n_folds):
        learned = np.flatnonzero((groups[2] % n_folds != fold) & there)[: 2 * MOST_LEARNED]
        model = text_model(counts[2][learned], outputs[2][learned])
        for side, by_group in enumerate(groups):
            asked = by_group % n_folds == fold
            predicted[side][asked] = model.predict(counts[side][asked])
    # A text keeps its fold: it is dealt among the rows of its group.
    dealt = np.arange(len(groups[0]))
    for group in range(N_GROUPS):
        dealt[groups[0] == group] = np.roll(np.flatnonzero(groups[0] == group), 1)
    sides = [*zip(predicted, outputs, groups, strict=True), (predicted[0][dealt], outputs[0], groups[0])]
    return np.array([correlations(guess, truth, columns, by_group) for guess, truth, by_group in sides])
