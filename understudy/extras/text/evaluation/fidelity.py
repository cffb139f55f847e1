"""Fidelity of free text: missing texts, lengths, words and their order, repeated texts, and agreement with the row.

Distances are from the training texts, beside fresh real ones. A distance of rare words is never zero, and the smaller a
sample, the larger it is. So rules rest on what is beyond that of fresh real texts.

Two figures are of dependence, which has no such bias. Both are squares of what models that learned from held-out texts
see in a table, as a share of what they lose where there is none. 0 is as fresh real texts, 1 as shuffled ones, and more
is made up:

* order: how much more probable a word is after the two before it than by itself (`word_model`), on average over words.
  Words are dealt at random to texts of the same lengths for the floor;
* agreement: how well what a text tells of its row correlates with the row (`agreement`). Texts are dealt at random to
  rows for the floor.

Held-out texts are predicted by models of the other held-out ones, and every table by the same models. No generator saw
these texts, so that one that learned its own by heart gains nothing.

Source: Kilgarriff 2001, "Comparing Corpora", on distances of word frequencies; `evaluate.fidelity.dependence` on shares
of squares.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.estimates import worst
from evaluate.fidelity.rows import OrderedValues, SampledRows
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import HALVES, N_GROUPS, Rate, design_effect, newcombe, replicate_groups, wilson
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from understudy.extras.text.evaluation.agreement import MIN_TEXTS, agreements
from understudy.extras.text.evaluation.tokens import NO_TEXTS, TextTokens
from understudy.extras.text.evaluation.word_model import word_bases, word_probabilities

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
    Metric("texts.agreement", "lower", "Agreement of texts with a column, lost or made up",
           "As the agreement with all columns, of a single one.",
           describes="it is of one column; name 'texts.agreement.floor_share'"),
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
ORDER, AGREEMENT = "texts.order.floor_share", "texts.agreement.floor_share"
MOST_ROWS = 10_000  # Rows of each table whose texts are compared at most
N_FOLDS = 4  # Parts of the held-out texts, each of which is looked at by a model of the others
_CHUNK = 20_000  # Words whose shares are compared at once
_FEW = f"it needs at least {MIN_TEXTS} texts in each table"
_UNTOLD = {
    ORDER: "shuffled words are not told from fresh real texts: few texts, or hardly any order",
    AGREEMENT: "texts dealt at random to rows are not told from fresh real rows: few rows, or hardly any agreement",
}


@dataclass(frozen=True, eq=False)
class ColumnTexts:
    """Texts of one column in the training, synthetic and fresh rows. *Sensitive* where these are real."""

    name: str
    rows: tuple[SampledRows, ...]
    tokens: tuple[TextTokens, ...]
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, samples: Samples, name: str) -> "ColumnTexts":
        known: dict[str, int] = {}
        rows = samples.all[: SHUFFLED + 1]
        tokens = tuple(TextTokens.of(each.rows, [name], each.units, known) for each in rows)
        return cls(name, rows, tokens, tuple(known))

    @property
    def n(self) -> int:
        return self.rows[1 + SYNTHETIC].n_rows

    @property
    def size_ratio(self) -> float:
        return self.rows[0].n_rows / min(each.n_rows for each in self.rows[1:])

    def texts(self, side: int) -> np.ndarray:
        """As they are, `None` where missing."""
        found = np.full(self.rows[side].n_rows, None, dtype=object)
        column = self.rows[side].rows[self.name].to_numpy(dtype=object)
        found[self.tokens[side].rows] = column[self.tokens[side].rows]
        return found


def compared(tables: Tables) -> tuple[Samples, Samples]:
    """The rows whose texts are compared, in a seeded order: cut to one n, and all of them."""

    def draw() -> Samples:
        most = MOST_ROWS if tables.n_rows is None else min(MOST_ROWS, tables.n_rows)
        return Samples.draw(replace(tables, n_rows=most))

    cut = tables.kept.once("rows of texts", draw)
    return cut, cut.whole()


def measure(tables: Tables) -> MetricResult:
    """All figures of each column of texts and of the worst one, and the figure "texts"; else a reason."""
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    cut, whole = compared(tables)
    every = [ColumnTexts.of(whole, name) for name in tables.schema.texts]
    columns = [each for each in every if min(len(np.unique(t.units)) for t in each.tokens) >= MIN_TEXTS]
    found: list[Estimate | Failure] = [_missing(every)]
    if columns:
        equal = [ColumnTexts.of(cut, each.name) for each in columns]
        found += [_beyond("lengths", equal, distances_of_lengths), _beyond("words", equal, distances_of_words)]
        order = [(each, Squares.of(ordered(each))) for each in columns]
        found += [_repeated(columns), _worst_share(ORDER, order, 1)]
        found += _agreement(columns, EncodedSamples.of(tables, whole))
    else:
        found += [Failure(name, "skipped", _FEW) for name in GATED if name != MISSING]
    return MetricResult(
        tuple(each for each in found if isinstance(each, Estimate)),
        tuple(each for each in found if isinstance(each, Failure)),
        {"texts": [_examples(column.name, tables) for column in columns]},
    )


def _missing(columns: Sequence[ColumnTexts]) -> Estimate:
    """The difference in the share of missing texts, with an interval that has a width also where none is missing."""
    found = []
    for column in columns:
        train, *others = (_missing_rate(column, side, len(columns)) for side in range(3))
        _, low, high = newcombe(others[SYNTHETIC], train)
        synthetic, fresh = (abs(rate[0] - train[0]) for rate in others)
        found.append(Estimate(
            MISSING, synthetic, column.n, "lower", subject=(column.name,), low=max(low, -high, 0.0),
            high=max(-low, high), reference=fresh,
        ))  # fmt: skip
    return _largest(found)


def _missing_rate(column: ColumnTexts, side: int, n_comparisons: int) -> Rate:
    """The share of rows without a text, with its score interval where rows of an entity are alike."""
    gone = np.ones(column.rows[side].n_rows, dtype=bool)
    gone[column.tokens[side].rows] = False
    return wilson(float(gone.mean()), len(gone) / design_effect(gone, column.rows[side].units), n_comparisons)


def _largest(each_of: Sequence[Estimate]) -> Estimate:
    """The worst of one number of several columns; its interval holds those of all of them."""
    last = max(each_of, key=lambda each: each.value)
    low, high = (max(end for each in each_of if (end := each.interval[side]) is not None) for side in (0, 1))
    return replace(last, subject=(), low=low, high=high, note=f"The worst is {last.subject[0]!r}.")


def _beyond(
    kind: str, columns: Sequence[ColumnTexts], distances: Callable[[ColumnTexts], list[np.ndarray]]
) -> Estimate:  # fmt: skip
    """A distance of synthetic texts from training ones beyond that of fresh ones."""
    # Shuffled texts have the lengths and the words of real ones, so that they are no floor of either.
    replicates = np.array([[*found, found[FRESH]] for found in map(distances, columns)])
    names: list[tuple[str, ...]] = [(column.name,) for column in columns]
    return replace(worst(f"texts.{kind}.excess", replicates, columns[0].n, names), floor=None)


def distances_of_lengths(column: ColumnTexts) -> list[np.ndarray]:
    train, *others = (
        OrderedValues.of(tokens.sizes.astype(np.float64), tokens.units % N_GROUPS, N_GROUPS) for tokens in column.tokens
    )
    return [Gaps.between(train, other).kolmogorov_smirnov for other in others]


def distances_of_words(column: ColumnTexts) -> list[np.ndarray]:
    """Total variation of which words texts hold, each once, on all rows and replicates."""
    groups, n_words = replicate_groups(N_GROUPS), len(column.vocabulary)
    counts = []
    for tokens in column.tokens:
        texts, ids = np.divmod(np.unique(tokens.text * n_words + tokens.ids), n_words)
        cells = (tokens.units[texts] % N_GROUPS) * n_words + ids
        counts.append(np.bincount(cells, minlength=N_GROUPS * n_words).reshape(N_GROUPS, n_words))
    totals = [np.maximum(groups @ each.sum(axis=1), 1.0)[:, None] for each in counts]
    distances = np.zeros((2, len(groups)))
    for start in range(0, n_words, _CHUNK):
        train, *others = (
            groups @ each[:, start : start + _CHUNK] / total for each, total in zip(counts, totals, strict=True)
        )
        distances += [np.abs(other - train).sum(axis=1) / 2 for other in others]
    return list(distances)


def ordered(column: ColumnTexts) -> np.ndarray:
    """How much more probable words are after the two before them than by themselves, on average over the words of
    training, synthetic, fresh and shuffled texts, on all rows, half-samples and their complements; shape (4, 31, 1).
    """
    train, synthetic, fresh = column.tokens
    shuffled = replace(train, ids=np.random.default_rng(len(train.ids)).permutation(train.ids))
    sums = np.zeros((4, 2, N_GROUPS))
    for fold in range(N_FOLDS):
        learned = fresh.chosen(fresh.units % N_GROUPS % N_FOLDS != fold)
        known = np.bincount(learned.ids, minlength=len(column.vocabulary))
        asked = [each.chosen(each.units % N_GROUPS % N_FOLDS == fold) for each in (train, synthetic, fresh, shuffled)]
        base = word_bases(column.vocabulary, known).log_probability
        alone, *_, after = word_probabilities(functools.reduce(TextTokens.joined, asked), learned, base)
        # Of logarithms, shuffled words would be far below zero: a model is sure of what follows.
        gained = np.split(after - alone, np.cumsum([len(each.ids) for each in asked])[:-1])
        for total, tokens, gains in zip(sums, asked, gained, strict=True):
            groups = tokens.owners % N_GROUPS
            total += [np.bincount(groups, weights, N_GROUPS) for weights in (gains, np.ones(len(groups)))]
    replicates = replicate_groups(N_GROUPS)[: HALVES.stop]
    totals = sums @ replicates.T
    return np.asarray((totals[:, 0] / np.maximum(totals[:, 1], 1.0))[:, :, None])


def _agreement(columns: Sequence[ColumnTexts], coded: EncodedSamples) -> list[Estimate | Failure]:
    """How far the agreement of texts with columns is from the real one, by column and over all of them."""
    if not coded.columns:
        return [Failure(AGREEMENT, "skipped", "no column is learned beside the texts")]
    found, totals = list[Estimate | Failure](), list[tuple[ColumnTexts, Squares]]()
    for column in columns:
        correlations = agreements([column.texts(side) for side in range(3)], coded, N_FOLDS)
        squares = {name: Squares.of(correlations[:, :, [i]]) for i, name in enumerate(coded.columns)}
        telling = {n: each for n, each in squares.items() if each.tells(column.size_ratio, len(squares))}
        found += [_share("texts.agreement", each, column.n, (column.name, name), 1) for name, each in telling.items()]
        if telling:
            totals.append((column, Squares.total(telling.values())))
    return [*found, _worst_share(AGREEMENT, totals, len(coded.columns))]


def _share(measure: str, squares: Squares, n: int, subject: tuple[str, ...], n_comparisons: int) -> Estimate:
    low, high = squares.interval(n_comparisons)
    return Estimate(
        measure, squares.share(SYNTHETIC), n, "lower", subject=subject, low=low, high=high,
        reference=squares.share(FRESH), floor=squares.share(SHUFFLED),
    )  # fmt: skip


def _worst_share(
    measure: str, squares: Sequence[tuple[ColumnTexts, Squares]], n_comparisons: int
) -> Estimate | Failure:  # fmt: skip
    """The largest share of a column; its interval holds those of all columns at once."""
    told = [(column, each) for column, each in squares if each.tells(column.size_ratio, n_comparisons)]
    if not told:
        return Failure(measure, "skipped", _UNTOLD[measure])
    n = min(column.n for column, _ in told)
    return _largest([_share(measure, each, n, (column.name,), len(told)) for column, each in told])


def repeated_rate(texts: np.ndarray, units: np.ndarray, n_comparisons: int = 1) -> Rate:
    """The share of texts that equal another one, with its score interval, on as many texts as tell as much. A text that
    leaves goes alone, or with its only twin (Efron & Stein 1981, the jackknife); those of an entity leave together.
    """
    codes = pd.factorize(texts)[0]
    sizes = np.bincount(codes)[codes]
    hits, lost = sizes > 1, np.where(sizes == 2, 2, sizes > 1)
    effect = max(1.0, float(lost.var() / hits.var())) if 0 < hits.mean() < 1 else 1.0
    return wilson(float(hits.mean()), len(hits) / effect / design_effect(hits, units), n_comparisons)


def _repeated(columns: Sequence[ColumnTexts]) -> Estimate:
    """The largest share of repeated texts beyond that of as many fresh real ones."""
    found = []
    for column in columns:
        n = min(len(tokens) for tokens in column.tokens[1:])
        rows = {side: column.tokens[side].rows[:n] for side in (1 + SYNTHETIC, 1 + FRESH)}
        rates = [
            repeated_rate(column.texts(side)[at], column.rows[side].units[at], len(columns))
            for side, at in rows.items()
        ]
        value, low, high = newcombe(*rates)
        found.append(Estimate(REPEATED, value, n, "lower", (column.name,), low=low, high=high, reference=0.0))
    return _largest(found)


MOST_EXAMPLES, MOST_FIELDS = 5, 6  # Synthetic texts that are shown, and columns beside each


def _examples(name: str, tables: Tables) -> dict[str, Any]:
    """A few synthetic texts with the values beside them, in a seeded order. No real text is in it."""
    rows = tables.synthetic.iloc[tables.order("synthetic")]
    shown = rows[rows[name].notna()].head(MOST_EXAMPLES)
    fields = [field for field in tables.schema.learned if field in shown][:MOST_FIELDS]
    examples = [
        {"text": str(row[name]), "row": [[f, "" if pd.isna(row[f]) else str(row[f])] for f in fields]}
        for _, row in shown.iterrows()
    ]
    return {"column": name, "examples": examples}
