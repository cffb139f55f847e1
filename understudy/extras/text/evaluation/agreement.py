"""What texts tell of their row: agreement with its columns, and what models lose by learning from synthetic texts.

One linear model predicts all columns from a text at once: ridge regression of words and runs of two words, weighted by
how few texts hold them (TF-IDF), on the ranks of numbers and on indicators of categories, a missing value being one.
Its dual form takes one factorization for all columns. What it predicts correlates with what the rows hold, over all
categories of a column together: 1 where it is always right, 0 where texts tell nothing.

**Loss** (`utility.texts.*`). A model that learned from synthetic rows and one that learned from as many training rows
predict the same held-out rows. Scores are squares of correlations, with their sign, the share of what varies that is
told; the loss is their difference. Beside it stand fresh real rows with as many training ones (the reference), and
training texts beside the columns of other rows (the floor). Chance enters by the held-out rows (half-samples) and by
the rows learned from (models of halves), as in `evaluate.utility.study`.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR); Saunders, Gammerman, Vovk 1998, "Ridge regression
learning algorithm in dual variables"; Salton & Buckley 1988 for the weights.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.intervals import HALVES, N_GROUPS, replicate_groups
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.study import interval
from understudy.extras.text.evaluation.tokens import NO_TEXTS, words

NAME = "utility.texts"
TSTR, GAP, WORST = "utility.texts.tstr", "utility.texts.gap", "utility.texts.gap.worst"
_ONE = "it is of one text and one column; name 'utility.texts.gap.worst'"
_DIFFERENCE = (-2.0, 2.0)
_DECLARED = (
    Metric(TSTR, "higher", "Column predicted from text, trained on synthetic", "Share of what varies in a column of "
           "real rows that a linear model tells from their texts, which learned from synthetic ones.", describes=_ONE,
           ends=(-1.0, 1.0)),
    Metric(GAP, "lower", "Column predicted from text, loss",
           "What a linear model of texts loses by training on synthetic ones.", describes=_ONE, ends=_DIFFERENCE),
    Metric(WORST, "lower", "Columns predicted from texts, worst loss", "The largest loss of a linear model that "
           "learned from synthetic texts to predict a column of their row.", key=True, ends=_DIFFERENCE,
           counted=Counted("test rows with a text, which are half of the holdout", 2, 5_000)),
)  # fmt: skip
METRICS = tuple(replace(metric, needs="texts", anchor="texts") for metric in _DECLARED)

N_FEATURES = 2**16  # Into which words and runs of two words are hashed
MOST_LEARNED = 2_000  # Texts that a model learns from at most
RIDGE = 1.0  # Penalty, as is customary for texts whose features have length 1
MIN_TEXTS = 4 * N_GROUPS
N_SPLITS = 8  # Splits in halves of the rows learned from
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


def measure(tables: Tables) -> MetricResult:
    """Score and loss of each column predicted from each text, and the worst loss; else a reason."""
    from understudy.extras.text.evaluation.fidelity import ColumnTexts, compared

    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    whole = compared(tables)[1]
    coded = EncodedSamples.of(tables, whole)
    found = []
    for name in tables.schema.texts if coded.columns else ():
        texts = [ColumnTexts.of(whole, name).texts(side) for side in range(3)]
        found += _losses(name, texts, coded, tables.seed)
    if not found:
        why = f"it needs at least {MIN_TEXTS} texts in each table, and a column that varies beside them"
        return MetricResult(failures=(Failure(WORST, "skipped", why),))
    gaps = [gap for _, gap, _ in found]
    last = max(gaps, key=lambda gap: gap.value)
    ends = np.array([interval(*chance, bounds=_DIFFERENCE, n_comparisons=len(gaps)) for *_, chance in found])
    low, high = ends.max(axis=0).tolist()
    text, target = last.subject
    note = f"The worst is {target!r}, predicted from {text!r}; of {len(gaps)}. {last.note}"
    worst = replace(last, measure=WORST, subject=(), low=min(low, last.value), high=max(high, last.value), note=note)
    return MetricResult((*(each for score, gap, _ in found for each in (score, gap)), worst))


def _losses(
    name: str, texts: Sequence[np.ndarray], coded: EncodedSamples, seed: int
) -> list[tuple[Estimate, Estimate, tuple[np.ndarray, np.ndarray]]]:
    """Score and loss of each column that varies among the test rows, and what its interval is made of."""
    outputs, counts, units = (
        Outputs.of(coded),
        [counted(each) for each in texts],
        [r.rows.units for r in coded.rows[:3]],
    )
    there = [np.flatnonzero([text is not None for text in each]) for each in texts]
    fresh, test = (there[2][units[2][there[2]] % 2 == side] for side in (0, 1))
    if min(len(rows) for rows in (*there[:2], fresh, test)) < MIN_TEXTS:
        return []
    n = min(len(there[0]), len(there[1]), MOST_LEARNED)
    train, synthetic, fresh = there[0][:n], there[1][:n], fresh[:n]
    truth, groups = outputs.tables[2][test], units[2][test] // 2 % N_GROUPS

    def score(side: int, rows: np.ndarray, dealt: int = 0) -> np.ndarray:
        model = TextModel.fit(counts[side][rows], outputs.tables[side][np.roll(rows, dealt)])
        found = correlations(model.predict(counts[2][test]), truth, outputs.columns, groups)
        return np.asarray(found * np.abs(found))

    tstr, trtr, floor = score(1, synthetic), score(0, train), score(0, train, 1)
    reference = score(0, train[: len(fresh)]) - score(2, fresh)
    # Both sides are split by the same draws: the same table twice then gives the same models, and a gap of zero.
    halves = np.array([
        [score(0, ours) - score(1, theirs) for ours, theirs in zip(
            _halved(units[0], train, split), _halved(units[1], synthetic, split), strict=True
        )] for split in np.random.default_rng([seed, 23]).integers(2**63, size=N_SPLITS).tolist()
    ])  # fmt: skip
    found = []
    for i, column in enumerate(coded.columns):
        if truth[:, outputs.columns == i].std(axis=0).max() == 0.0:
            continue
        note = f"share of what varies in {column!r} that {name!r} tells, {n} texts learned from"
        chance = (trtr - tstr)[:, i], halves[:, :, :, i]
        low, high = interval(*chance, bounds=_DIFFERENCE)
        value, half = float(tstr[0, i]), 2 * float(np.std(tstr[1:, i]))
        score_of = Estimate(
            TSTR, value, len(test), "higher", subject=(name, column), low=max(value - half, -1.0),
            high=min(value + half, 1.0), reference=float(trtr[0, i]), floor=float(floor[0, i]), note=note,
        )  # fmt: skip
        gap = Estimate(
            GAP, float(chance[0][0]), len(test), "lower", subject=(name, column), low=low, high=high,
            reference=float(reference[0, i]), floor=float((trtr - floor)[0, i]), note=f"TRTR - TSTR: {note}",
        )  # fmt: skip
        found.append((score_of, gap, chance))
    return found


def _halved(units: np.ndarray, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows in two, whole entities together."""
    different, at = np.unique(units[rows], return_inverse=True)
    first = np.zeros(len(different), dtype=bool)
    first[np.random.default_rng(seed).permutation(len(different))[: max(len(different) // 2, 1)]] = True
    return rows[first[at]], rows[~first[at]]
