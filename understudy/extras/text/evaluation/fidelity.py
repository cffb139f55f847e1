"""Fidelity of free text: missing texts, lengths, words and their order, repeated texts, and agreement with the row.

A distance of rare words is never zero, so that rules rest on what is beyond that of fresh real texts. Order and
agreement have no such bias. Both are squares of what models of held-out texts see in a table, as a share of what they
lose where words are dealt to texts, or texts to rows. Every table is looked at by the same models, and held-out texts
by models of the other ones: a generator that learned its own by heart gains nothing.

Agreement is seen by one linear model of all columns at once, from words and runs of two words, weighted by how few
texts hold them: it predicts the ranks of numbers, and indicators of categories, a missing value being one. What it
predicts correlates with what the rows hold, over all categories of a column together: 1 where it is always right, 0
where texts tell nothing.

Source: Kilgarriff 2001, "Comparing Corpora", on distances of word frequencies; `evaluate.fidelity.dependence` on shares
of squares; Saunders, Gammerman, Vovk 1998, "Ridge regression learning algorithm in dual variables"; Salton & Buckley
1988.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares
from evaluate.fidelity.encoded import EncodedSamples, replicated, total_variation
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, OrderedValues, Samples, worst
from evaluate.intervals import HALVES, N_GROUPS, Rate, design_effect, newcombe, replicate_groups, wilson
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.result_io import FigurePart
from evaluate.tables import MetricResult, Tables
from understudy.extras.text.evaluation.tokens import NO_TEXTS, TextTokens, word_bases, word_probabilities, words

N_FEATURES = 2**16  # Into which words and runs of two words are hashed
MOST_LEARNED = 2_000  # Texts that a model learns from at most
RIDGE = 1.0  # Penalty, as is customary for texts whose features have length 1
MIN_TEXTS = 4 * N_GROUPS  # Texts, or entities with one, of each table that a comparison needs
_REPLICATES = replicate_groups(N_GROUPS)[: HALVES.stop]  # All rows, half-samples and their complements
TEXTS = Counted("rows of the synthetic table and as many of the holdout", 1, 10_000)
_DIFFERENCE = (-1.0, 1.0)
_BEYOND = "minus that of fresh real texts; of the worst column."
_DECLARED = (
    Metric("texts.missing.worst", "lower", "Missing texts, worst column",
           "The largest difference in the share of rows without a text.", counted=TEXTS, ends=(0.0, 1.0)),
    Metric("texts.lengths.excess", "lower", "Words of a text, distance beyond noise", "Largest gap between the two "
           f"cumulative curves of how many words a text has, {_BEYOND}", counted=TEXTS, ends=_DIFFERENCE),
    Metric("texts.words.excess", "lower", "Vocabulary, distance beyond noise", "Share of the different words of texts "
           f"that would have to be others (total variation), {_BEYOND}", counted=TEXTS, key=True, ends=_DIFFERENCE),
    Metric("texts.order.floor_share", "lower", "Order of words lost or made up", "0: a word follows from the two "
           "before it as in fresh real texts. 1: as in texts whose words were shuffled. Above 1, order is made up. Of "
           "the worst column.", counted=TEXTS, key=True, note="0 as fresh real texts, 1 as words shuffled"),
    Metric("texts.agreement.floor_share", "lower", "Agreement of texts with columns, lost or made up", "0: texts tell "
           "of their row as fresh real ones do. 1: as texts dealt at random to rows. Above 1, agreement is made up. Of "
           "the worst column of texts.", counted=TEXTS, key=True,
           note="0 as fresh real rows, 1 as texts dealt at random to rows", spoiled_by=("shuffled",)),
    Metric("texts.repeated.excess", "lower", "Repeated texts beyond real ones", "Share of texts that equal another one "
           f"in their table, {_BEYOND}", counted=TEXTS, key=True, ends=_DIFFERENCE),
)  # fmt: skip
METRICS = tuple(replace(metric, needs="texts", anchor="texts") for metric in _DECLARED)
GATED = tuple(metric.name for metric in METRICS if metric.gateable)

NAME = "fidelity.texts"
MISSING, REPEATED = "texts.missing.worst", "texts.repeated.excess"
LENGTHS, WORDS = "texts.lengths.excess", "texts.words.excess"
ORDER, AGREEMENT = "texts.order.floor_share", "texts.agreement.floor_share"
SIDES = 1 + SHUFFLED  # Training, synthetic and fresh rows: texts of shuffled ones are none of their rows
MOST_ROWS = 10_000  # Rows of each table whose texts are compared at most
N_FOLDS = 4  # Parts of the held-out texts, each of which is looked at by a model of the others
MOST_EXAMPLES, MOST_FIELDS = 5, 6  # Synthetic texts that are shown, and columns beside each
_FEW = f"it needs at least {MIN_TEXTS} texts in each table"
_UNTOLD = {
    ORDER: "shuffled words are not told from fresh real texts: few texts, or hardly any order",
    AGREEMENT: "texts dealt at random to rows are not told from fresh real rows: few rows, or hardly any agreement",
}


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


def compared(tables: Tables) -> tuple[Samples, Samples]:
    """The rows whose texts are compared, in a seeded order: cut to one n, and all of them."""
    most = MOST_ROWS if tables.n_rows is None else min(MOST_ROWS, tables.n_rows)
    cut = tables.kept.once("rows of texts", lambda: Samples.draw(replace(tables, n_rows=most)))
    return cut, cut.whole()


def texts_of(samples: Samples, name: str) -> list[np.ndarray]:
    """*Sensitive*. The texts of a column in the training, synthetic and fresh rows, `None` where missing."""
    columns = [rows.rows[name].astype(object) for rows in samples.all[:SIDES]]
    return [texts.where(texts.notna(), None).to_numpy() for texts in columns]


def tokens_of(samples: Samples, name: str) -> tuple[list[TextTokens], list[str]]:
    known: dict[str, int] = {}
    return [TextTokens.of(each.rows, [name], each.units, known) for each in samples.all[:SIDES]], list(known)


def measure(tables: Tables) -> MetricResult:
    names = tables.schema.texts
    if not names:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    cut, whole = compared(tables)
    results: list[Estimate | Failure] = [largest([_missing(whole, name, len(names)) for name in names])]
    tokens = {name: tokens_of(whole, name) for name in names}
    names = tuple(n for n in names if min(len(np.unique(each.units)) for each in tokens[n][0]) >= MIN_TEXTS)
    if names:
        equal = [tokens_of(cut, name)[0] for name in names]
        for measure, distances in ((LENGTHS, distances_of_lengths), (WORDS, distances_of_words)):
            # Shuffled texts have the lengths and the words of real ones, so that they are no floor of either.
            replicates = np.array([[*each, each[FRESH]] for each in map(distances, equal)])
            results.append(replace(worst(measure, replicates, cut.n, [(name,) for name in names]), floor=None))
        results.append(largest([_repeated(whole, name, len(names)) for name in names]))
        results.append(_worst_share(ORDER, {name: Squares.of(ordered(*tokens[name])) for name in names}, whole))
        results.append(_agreement(names, EncodedSamples.of(tables, whole)))
    else:
        results += [Failure(name, "skipped", _FEW) for name in GATED if name != MISSING]
    return MetricResult(
        tuple(each for each in results if isinstance(each, Estimate)),
        tuple(each for each in results if isinstance(each, Failure)),
        {"texts": [_examples(name, tables) for name in names]},
    )


def _missing(samples: Samples, name: str, n_comparisons: int) -> Estimate:
    """The difference in the share of missing texts, with an interval that has a width also where none is missing."""
    rates = []
    for rows in samples.all[:SIDES]:
        gone = rows.rows[name].isna().to_numpy(dtype=bool)
        rates.append(wilson(float(gone.mean()), len(gone) / design_effect(gone, rows.units), n_comparisons))
    train, synthetic, fresh = rates
    difference, low, high = newcombe(synthetic, train)
    return Estimate(
        MISSING, abs(difference), samples.n, "lower", (name,), low=max(low, -high, 0.0), high=max(-low, high),
        reference=abs(fresh[0] - train[0]),
    )  # fmt: skip


def largest(each_of: Sequence[Estimate]) -> Estimate:
    """The worst of one number of several columns; its interval holds those of all of them."""
    last = max(each_of, key=lambda each: each.value)
    low, high = (max(end for each in each_of if (end := each.interval[side]) is not None) for side in (0, 1))
    return replace(last, subject=(), low=low, high=high, note=last.note or f"The worst is {last.subject[0]!r}.")


def distances_of_lengths(tokens: Sequence[TextTokens]) -> list[np.ndarray]:
    train, *others = (
        OrderedValues.of(each.sizes.astype(np.float64), each.units % N_GROUPS, N_GROUPS) for each in tokens
    )
    return [Gaps.between(train, other).kolmogorov_smirnov for other in others]


def distances_of_words(tokens: Sequence[TextTokens]) -> list[np.ndarray]:
    """Total variation of which words texts hold, each once, on all rows and replicates."""
    n_words, shares = 1 + max(int(each.ids.max(initial=0)) for each in tokens), []
    for each in tokens:
        texts, ids = np.divmod(np.unique(each.text * n_words + each.ids), n_words)
        cells = (each.units[texts] % N_GROUPS) * n_words + ids
        counts = replicated(np.bincount(cells, minlength=N_GROUPS * n_words).reshape(N_GROUPS, n_words))
        shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    return [total_variation(shares[0], other) for other in shares[1:]]


def repeated_rate(texts: np.ndarray, units: np.ndarray, n_comparisons: int = 1) -> Rate:
    """The share of texts that equal another one, with its score interval, on as many texts as tell as much. A text that
    leaves goes alone, or with its only twin (Efron & Stein 1981, the jackknife); those of an entity leave together.
    """
    codes = pd.factorize(texts)[0]
    sizes = np.bincount(codes)[codes]
    hits, lost = sizes > 1, np.where(sizes == 2, 2, sizes > 1)
    effect = max(1.0, float(lost.var() / hits.var())) if 0 < hits.mean() < 1 else 1.0
    return wilson(float(hits.mean()), len(hits) / effect / design_effect(hits, units), n_comparisons)


def _repeated(samples: Samples, name: str, n_comparisons: int) -> Estimate:
    sides = [rows.rows[name].dropna() for rows in samples.all[1:SIDES]]
    n = min(map(len, sides))
    value, low, high = newcombe(*(
        repeated_rate(texts.iloc[:n].to_numpy(), rows.units[texts.index[:n]], n_comparisons)
        for texts, rows in zip(sides, samples.all[1:SIDES], strict=True)
    ))  # fmt: skip
    return Estimate(REPEATED, value, n, "lower", (name,), low=low, high=high, reference=0.0)


def ordered(tokens: Sequence[TextTokens], vocabulary: Sequence[str]) -> np.ndarray:
    """How much more probable words are after the two before them than by themselves, on average over the words of
    training, synthetic, fresh and shuffled texts, on all rows, half-samples and their complements; shape (4, 31, 1).
    Signs are left out: they stay with their word where somebody shuffles what stands between blanks.
    """
    is_word = np.array([any(map(str.isalnum, word)) for word in vocabulary], dtype=bool)
    tokens = [each.among(is_word) for each in tokens]
    train, fresh = tokens[0], tokens[1 + FRESH]
    shuffled = replace(train, ids=np.random.default_rng(len(train.ids)).permutation(train.ids))
    sums = np.zeros((4, 2, N_GROUPS))
    for fold in range(N_FOLDS):
        learned = fresh.chosen(fresh.units % N_GROUPS % N_FOLDS != fold)
        asked = [each.chosen(each.units % N_GROUPS % N_FOLDS == fold) for each in (*tokens, shuffled)]
        base, _ = word_bases(vocabulary, np.bincount(learned.ids, minlength=len(vocabulary)))
        alone, *_, after = word_probabilities(functools.reduce(TextTokens.joined, asked), learned, base)
        # Of logarithms, shuffled words would be far below zero: a model is sure of what follows.
        gained = np.split(after - alone, np.cumsum([len(each.ids) for each in asked])[:-1])
        for total, each, gains in zip(sums, asked, gained, strict=True):
            groups = each.owners % N_GROUPS
            total += [np.bincount(groups, weights, N_GROUPS) for weights in (gains, np.ones(len(groups)))]
    totals = sums @ replicate_groups(N_GROUPS)[: HALVES.stop].T
    return np.asarray((totals[:, 0] / np.maximum(totals[:, 1], 1.0))[:, :, None])


def _agreement(names: Sequence[str], coded: EncodedSamples) -> Estimate | Failure:
    n_columns, totals = len(coded.columns), {}
    if not n_columns:
        return Failure(AGREEMENT, "skipped", "no column is learned beside the texts")
    for name in names:
        each = agreements(texts_of(coded.samples, name), coded, N_FOLDS)
        squares = [Squares.of(each[:, :, [i]]) for i in range(n_columns)]
        if telling := [square for square in squares if square.tells(_size_ratio(coded.samples), n_columns)]:
            totals[name] = Squares.total(telling)
    return _worst_share(AGREEMENT, totals, coded.samples, n_columns)


def _worst_share(measure: str, squares: Mapping[str, Squares], samples: Samples, n: int = 1) -> Estimate | Failure:
    """The largest share of a column, of those told from chance among n; its interval holds those of all at once."""
    told = {name: each for name, each in squares.items() if each.tells(_size_ratio(samples), n)}
    shares = [
        Estimate(measure, each.share(SYNTHETIC), samples.n, "lower", (name,), *each.interval(len(told)),
                 reference=each.share(FRESH), floor=each.share(SHUFFLED))
        for name, each in told.items()
    ]  # fmt: skip
    return largest(shares) if shares else Failure(measure, "skipped", _UNTOLD[measure])


def _size_ratio(samples: Samples) -> float:
    return samples.train.n_rows / min(each.n_rows for each in samples.others[:SHUFFLED])


class ColumnFigures(FigurePart):
    """A few synthetic texts of a column, each with columns of its row and their values."""

    class Example(FigurePart):
        text: str
        row: list[list[str]]

    column: str
    examples: list[Example]


DRAWN = list[ColumnFigures]


def _examples(name: str, tables: Tables) -> dict[str, Any]:
    """A few synthetic texts with the values beside them, in a seeded order. No real text is in it."""
    rows = tables.synthetic.iloc[tables.order("synthetic")]
    fields = [field for field in tables.schema.learned if field in rows][:MOST_FIELDS]
    examples = [
        {"text": str(row[name]), "row": [[f, "" if pd.isna(row[f]) else str(row[f])] for f in fields]}
        for _, row in rows[rows[name].notna()].head(MOST_EXAMPLES).iterrows()
    ]
    return {"column": name, "examples": examples}
