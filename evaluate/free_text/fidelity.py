"""Fidelity of free text: lengths, words, runs of words, their order, agreement with columns, and repeated texts.

It is measured where the schema keeps columns of free text. Distances are from the training texts, beside fresh real
ones, and beside training texts whose words were shuffled (`evaluate.free_text.samples`). A distance of rare words is
never zero, and the smaller a sample, the larger it is. So rules rest on what is beyond that of fresh real texts.

Two figures are of dependence (`evaluate.fidelity.dependence`), which has no such bias:

* order: of a word and the one before it. 0 as fresh real texts, 1 as shuffled words, in which no word follows from
  another;
* agreement: of the words of a text and the columns of its row. 0 as fresh real rows, 1 as texts dealt at random to
  rows.

Both may exceed 1, where dependence is made up. Texts that equal another one are a share of each table, whose variance
is by a jackknife over entities: a unit that leaves takes its own texts away, and the twin of a text that is then alone.

Source: Kilgarriff 2001, "Comparing Corpora", on distances of word frequencies; Efron & Stein 1981, "The jackknife
estimate of variance", for repeated texts; `evaluate.fidelity.dependence` names those of dependence.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares, dependence_of
from evaluate.fidelity.encoded import EncodedSamples, replicated
from evaluate.fidelity.estimates import Distance, worst
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.free_text.classifier import Told, told_apart
from evaluate.free_text.corpus import NO_TEXTS
from evaluate.free_text.samples import MIN_TEXTS, CodedTexts, TextSamples, each, rows_of
from evaluate.intervals import Rate, design_effect, newcombe, wilson
from evaluate.metrics import Counted, Metric, biased
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

TEXTS = Counted("rows of the synthetic table and as many of the holdout", 1, 10_000)
THREE = Counted("texts of each of three tables: training table, holdout and synthetic table", 2, 1_500)
_LEARNS = "the more texts, the better a difference is seen; name 'texts.c2st.excess'"
_DECLARED = (
    Metric("texts.missing", "lower", "Missing texts", "Difference in the share of rows without a text.",
           describes="it is of one column; name 'texts.missing.worst'"),
    Metric("texts.missing.worst", "lower", "Missing texts, worst column",
           "The largest difference in the share of rows without a text.", counted=TEXTS),
    Metric("texts.lengths", "lower", "Words of a text, distance",
           "Largest gap between the two cumulative curves of how many words a text has.",
           describes=biased("texts.lengths.excess")),
    Metric("texts.lengths.excess", "lower", "Words of a text, distance beyond noise",
           "The same, minus that of fresh real texts; of the worst column.", counted=TEXTS),
    Metric("texts.words", "lower", "Vocabulary, distance", "Share of the different words of texts that would have to "
           "be others (total variation).", describes=biased("texts.words.excess")),
    Metric("texts.words.excess", "lower", "Vocabulary, distance beyond noise",
           "The same, minus that of fresh real texts; of the worst column.", counted=TEXTS, key=True),
    Metric("texts.bigrams", "lower", "Two words in a row, distance", "Share of the runs of two words in texts that "
           "would have to be others.", describes=biased("texts.bigrams.excess")),
    Metric("texts.bigrams.excess", "lower", "Two words in a row, distance beyond noise",
           "The same, minus that of fresh real texts; of the worst column.", counted=TEXTS),
    Metric("texts.trigrams", "lower", "Three words in a row, distance", "Share of the runs of three words in texts "
           "that would have to be others.", describes=biased("texts.trigrams.excess")),
    Metric("texts.trigrams.excess", "lower", "Three words in a row, distance beyond noise",
           "The same, minus that of fresh real texts; of the worst column.", counted=TEXTS),
    Metric("texts.order.floor_share", "lower", "Order of words lost or made up", "0: a word depends on the one before "
           "it as in fresh real texts. 1: as in texts whose words were shuffled. Above 1, dependence is made up. Of "
           "the worst column.", counted=TEXTS, key=True, note="0 as fresh real texts, 1 as words shuffled"),
    Metric("texts.agreement", "lower", "Agreement of texts with a column, lost or made up",
           "As the agreement with all columns, of a single one.",
           describes="it is of one column; name 'texts.agreement.floor_share'"),
    Metric("texts.agreement.floor_share", "lower", "Agreement of texts with columns, lost or made up", "0: words agree "
           "with the columns of their row as in fresh real rows. 1: as in texts dealt at random to rows. Above 1, "
           "agreement is made up. Of the worst column of texts.", counted=TEXTS, key=True,
           note="0 as fresh real rows, 1 as texts dealt at random to rows"),
    Metric("texts.repeated", "lower", "Repeated texts", "Share of texts that equal another one in their table.",
           describes=biased("texts.repeated.excess")),
    Metric("texts.repeated.excess", "lower", "Repeated texts beyond real ones", "The same, minus that of as many fresh "
           "real texts; of the worst column.", counted=TEXTS, key=True),
    Metric("texts.c2st.auc", "lower", "Texts told from real ones, AUC", "How well a linear model of words and letters "
           "tells synthetic texts from held-out ones; 0.5 is a coin.", describes=_LEARNS),
    Metric("texts.c2st.excess", "lower", "Texts told from real ones beyond noise",
           "The same AUC minus that of training texts against held-out ones; of the worst column.", counted=THREE),
)  # fmt: skip
METRICS = tuple(replace(metric, needs="texts", anchor="texts") for metric in _DECLARED)
GATED = tuple(metric.name for metric in METRICS if metric.gateable)

NAME = "fidelity.texts"
MISSING, REPEATED = "texts.missing.worst", "texts.repeated.excess"
ORDER, AGREEMENT = "texts.order.floor_share", "texts.agreement.floor_share"
AUC, TOLD = "texts.c2st.auc", "texts.c2st.excess"
N_ORDERED, N_AGREEING = 126, 198
"""Words that are told apart, the most frequent in train, in pairs of words and beside columns; others are one."""
_RUNS = {"words": 1, "bigrams": 2, "trigrams": 3}
_FEW = f"it needs at least {MIN_TEXTS} texts in each table"
_UNTOLD = {
    ORDER: "shuffled words are not told from fresh real texts: few texts, or hardly any order",
    AGREEMENT: "texts dealt at random to rows are not told from fresh real rows: few rows, or hardly any agreement",
}


def measure(tables: Tables) -> MetricResult:
    """All figures of each column of texts and of the worst one, and the figure "texts"; else a reason."""
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    found: list[Estimate | Failure] = _missing(tables)
    columns = list(each(tables))
    if not columns:
        found += [Failure(name, "skipped", _FEW) for name in GATED if name != MISSING]
    else:
        found += [*_distances(columns), _order(columns), *_agreement(columns, tables), *_repeated(columns)]
        found += _told(columns, tables.seed)
    return MetricResult(
        tuple(one for one in found if isinstance(one, Estimate)),
        tuple(one for one in found if isinstance(one, Failure)),
        {"texts": [_drawn(samples, tables) for samples in columns]},
    )


def _missing(tables: Tables) -> list[Estimate | Failure]:
    """The difference in the share of missing texts, with an interval that has a width also where none is missing."""
    found, names = list[Estimate](), tables.schema.texts
    for name in names:
        all_of = TextSamples.of(tables, name).all[:3]
        train, *others = (_missing_rate(one, len(names)) for one in all_of)
        _, low, high = newcombe(others[SYNTHETIC], train)
        differences = [abs(share - train[0]) for share, _, _ in others]
        found.append(Estimate(
            "texts.missing", differences[SYNTHETIC], all_of[1].n_rows, "lower", subject=(name,),
            low=max(low, -high, 0.0), high=max(-low, high), reference=differences[FRESH],
        ))  # fmt: skip
    last = max(found, key=lambda one: one.value)
    low, high = (max(end for one in found if (end := one.interval[side]) is not None) for side in (0, 1))
    return [*found, replace(last, measure=MISSING, subject=(), low=low, high=high, note=_worst_of(last.subject))]


def _missing_rate(one: CodedTexts, n_comparisons: int) -> Rate:
    """The share of rows without a text, with its score interval where rows of an entity are alike."""
    gone = ~one.present
    return wilson(float(gone.mean()), len(gone) / design_effect(gone, one.units), n_comparisons)


def _worst_of(subject: Sequence[str]) -> str:
    return f"The worst is {subject[0]!r}."


def _distances(columns: Sequence[TextSamples]) -> list[Estimate | Failure]:
    found, equal = list[Estimate | Failure](), [samples.equal() for samples in columns]
    n = min(one.others[SYNTHETIC].n_rows for one in equal)
    names: list[tuple[str, ...]] = [(one.name,) for one in equal]
    measured = {"lengths": [_of_lengths(one) for one in equal]}
    measured |= {kind: [one.distances(length) for one in equal] for kind, length in _RUNS.items()}
    for kind, replicates in measured.items():
        for subject, of in zip(names, replicates, strict=True):
            plain = Distance(of, n).plain(f"texts.{kind}", subject=subject)
            found.append(_landmarked(plain, kind))
        excess = worst(f"texts.{kind}.excess", np.array(replicates), n, names)
        found.append(_landmarked(excess, kind))
    return found


def _landmarked(one: Estimate, kind: str) -> Estimate:
    """Shuffled texts are as long as the real ones and hold their words: they are no floor of either."""
    return replace(one, floor=None) if kind in ("lengths", "words") else one


def _of_lengths(samples: TextSamples) -> np.ndarray:
    train, *others = (one.lengths for one in samples.all)
    return np.array([Gaps.between(train, other).kolmogorov_smirnov for other in others])


def _order(columns: Sequence[TextSamples]) -> Estimate | Failure:
    """How far the dependence of a word on the one before is from the real one."""
    size, squares = N_ORDERED + 2, dict[tuple[str, ...], Squares]()
    for samples in columns:
        counts = tuple(replicated(one.pairs(N_ORDERED)) for one in samples.all)
        squares[samples.name,] = Squares.of(dependence_of(counts, (size, size), (False, False)))
    return _worst_share(ORDER, squares, columns, 1)


def _agreement(columns: Sequence[TextSamples], tables: Tables) -> list[Estimate | Failure]:
    """How far the dependence of words on columns is from the real one, by column and over all of them."""
    if not tables.schema.learned:
        return [Failure(AGREEMENT, "skipped", "no column is learned beside the texts")]
    coded = EncodedSamples.of(tables, rows_of(tables))
    found, totals = list[Estimate | Failure](), dict[tuple[str, ...], Squares]()
    for samples in columns:
        ratio, n = _ratio(samples), samples.others[SYNTHETIC].n_rows
        squares = {name: _beside(samples, coded, place) for place, name in enumerate(coded.columns)}
        telling = {name: one for name, one in squares.items() if one.tells(ratio, len(squares))}
        for name, one in telling.items():
            found.append(_share("texts.agreement", one, n, (samples.name, name), 1))
        if telling:
            totals[samples.name,] = Squares.total(telling.values())
    return [*found, _worst_share(AGREEMENT, totals, columns, len(coded.columns))]


def _beside(samples: TextSamples, coded: EncodedSamples, place: int) -> Squares:
    """Of the words of texts and one column; in the last of the four tables texts are beside rows of others."""
    size, counts = coded.sizes[place], []
    for texts, rows in zip((samples.train, *samples.others[:SHUFFLED], samples.train), coded.rows, strict=True):
        of = np.asarray(rows.codes[:, place])
        counts.append(replicated(texts.beside(of, size, N_AGREEING)))
    sizes = (N_AGREEING + 2, size)
    return Squares.of(dependence_of(tuple(counts), sizes, (False, bool(coded.is_number[place]))))


def _ratio(samples: TextSamples) -> float:
    return samples.train.n_rows / min(one.n_rows for one in samples.others)


def _share(measure: str, one: Squares, n: int, subject: tuple[str, ...], n_comparisons: int) -> Estimate:
    low, high = one.interval(n_comparisons)
    return Estimate(
        measure, one.share(SYNTHETIC), n, "lower", subject=subject, low=low, high=high, reference=one.share(FRESH),
        floor=one.share(SHUFFLED),
    )  # fmt: skip


def _worst_share(
    measure: str, squares: dict[tuple[str, ...], Squares], columns: Sequence[TextSamples], n_comparisons: int
) -> Estimate | Failure:
    """The largest share of a column; its interval holds those of all columns at once."""
    ratios = {samples.name: _ratio(samples) for samples in columns}
    n = min(samples.others[SYNTHETIC].n_rows for samples in columns)
    told = {names: one for names, one in squares.items() if one.tells(ratios[names[0]], n_comparisons)}
    if not told:
        return Failure(measure, "skipped", _UNTOLD[measure])
    each_of = [_share(measure, one, n, names, len(told)) for names, one in told.items()]
    last = max(each_of, key=lambda one: one.value)
    low, high = (max(one.interval[side] for one in each_of) for side in (0, 1))
    return replace(last, subject=(), low=low, high=high, note=_worst_of(last.subject))


@dataclass(frozen=True)
class RepeatedTexts:
    n: int
    n_repeated: int
    variance: float

    @classmethod
    def of(cls, texts: Iterable[str | None], units: np.ndarray) -> "RepeatedTexts":
        """Texts of one table, missing ones left out. `texts`: *Sensitive* where they are real. `units`: the entity of
        each, from 0; shape (n,).
        """
        table = pd.DataFrame({"text": list(texts), "unit": units}).dropna(subset="text")
        table["text"] = pd.factorize(table["text"])[0]
        own = table.groupby(["text", "unit"]).size().rename("own").reset_index()
        own["all"] = own.groupby("text")["own"].transform("sum")
        lost = np.where(own["all"] > 1, own["own"] + (own["all"] - own["own"] == 1), 0)
        by_unit = pd.DataFrame({"unit": own["unit"], "lost": lost, "own": own["own"]}).groupby("unit").sum()
        n, n_repeated = len(table), int(own.loc[own["all"] > 1, "own"].sum())
        moved = (by_unit["lost"] - by_unit["lost"].sum() / max(n, 1) * by_unit["own"]).to_numpy(dtype=np.float64)
        return cls(n, n_repeated, float(moved @ moved) / max(n, 1) ** 2)

    @property
    def share(self) -> float:
        return self.n_repeated / max(self.n, 1)

    def rate(self, n_comparisons: int = 1) -> Rate:
        """The share with its score interval, on as many texts as tell as much."""
        alone = self.share * (1 - self.share) / max(self.n, 1)
        effect = max(1.0, self.variance / alone) if alone > 0 else 1.0
        return wilson(self.share, self.n / effect, n_comparisons)


def _repeated(columns: Sequence[TextSamples]) -> list[Estimate | Failure]:
    """The share of repeated texts of each column, and the largest one beyond that of fresh real texts."""
    found, beyond = list[Estimate | Failure](), []
    for samples in columns:
        pair = _equally_many(samples.others[SYNTHETIC], samples.others[FRESH])
        synthetic, fresh = (RepeatedTexts.of(one.texts, one.units) for one in pair)
        share, low, high = synthetic.rate()
        found.append(Estimate(
            "texts.repeated", share, synthetic.n, "lower", subject=(samples.name,), low=low, high=high,
            reference=fresh.share,
        ))  # fmt: skip
        share, low, high = newcombe(synthetic.rate(len(columns)), fresh.rate(len(columns)))
        beyond.append(Estimate(
            REPEATED, share, synthetic.n, "lower", (samples.name,), low=low, high=high, reference=0.0,
        ))  # fmt: skip
    return [*found, _largest(beyond)]


def _largest(each_of: Sequence[Estimate]) -> Estimate:
    """The worst of one number of several columns; its interval holds those of all of them."""
    last = max(each_of, key=lambda one: one.value)
    low, high = (max(one.interval[side] for one in each_of) for side in (0, 1))
    return replace(last, subject=(), low=low, high=high, note=f"{_worst_of(last.subject)} {last.note}".strip())


def _equally_many(first: CodedTexts, second: CodedTexts) -> tuple[CodedTexts, CodedTexts]:
    """The first rows of either that hold equally many texts: the more there are, the more of them equal another one."""
    n = min(int(first.present.sum()), int(second.present.sum()))
    ends = (int(np.searchsorted(np.cumsum(one.present), n)) + 1 for one in (first, second))
    cut = [one.first(end) for one, end in zip((first, second), ends, strict=True)]
    return cut[0], cut[1]


def _told(columns: Sequence[TextSamples], seed: int) -> list[Estimate | Failure]:
    """How well synthetic texts are told from held-out ones, as it is and beyond training texts."""
    found, beyond = list[Estimate | Failure](), []
    for samples in columns:
        told: Told = told_apart(samples, seed)
        low, high = told.interval()
        found.append(Estimate(
            AUC, told.synthetic.auc, told.n, "lower", subject=(samples.name,), low=low, high=high,
            reference=told.train.auc, floor=told.shuffled.auc, note="0.5 is a coin.",
        ))  # fmt: skip
        low, high = told.excess_interval(len(columns))
        beyond.append(Estimate(
            TOLD, told.excess, told.n, "lower", (samples.name,), low=low, high=high, reference=0.0,
            floor=told.shuffled.auc - told.train.auc, note="The AUC minus that of training texts.",
        ))  # fmt: skip
    return [*found, _largest(beyond)]


N_BARS, MOST_EXAMPLES, MOST_FIELDS = 20, 5, 6
"""Bars of lengths; synthetic texts that are shown as examples, and columns beside each."""


def _drawn(samples: TextSamples, tables: Tables) -> dict[str, Any]:
    """Shares of lengths, and a few synthetic texts with the values beside them. No real text is in it."""
    counted = [np.repeat(one.values, counts) for one, counts in _present_lengths(samples)]
    ends = np.unique(np.quantile(counted[0], np.linspace(0, 1, N_BARS + 1)).round())
    edges = np.append(ends if len(ends) == 1 else ends[:-1], ends[-1] + 1) - 0.5
    bins = [np.clip(np.searchsorted(edges, one, side="right") - 1, 0, len(edges) - 2) for one in counted]
    shares = [np.bincount(one, minlength=len(edges) - 1) / len(one) for one in bins]
    labels = [_label(int(low + 0.5), int(high - 0.5)) for low, high in itertools.pairwise(edges)]
    return {
        "column": samples.name,
        "lengths": {
            "column": samples.name, "kind": "integer", "labels": [*labels, "other", "missing"],
            "edges": edges.tolist(), "train": [*shares[0].tolist(), 0.0, 0.0],
            "synthetic": [*shares[1].tolist(), 0.0, 0.0], "tvd": float(np.abs(shares[0] - shares[1]).sum() / 2),
        },
        "examples": _examples(samples.name, tables),
    }  # fmt: skip


def _present_lengths(samples: TextSamples) -> list[tuple[Any, np.ndarray]]:
    lines = [one.lengths for one in (samples.train, samples.others[SYNTHETIC])]
    return [(line, line.counts.sum(axis=0)) for line in lines]


def _label(low: int, high: int) -> str:
    return f"{low}" if high <= low else f"{low} to {high}"


def _examples(name: str, tables: Tables) -> list[dict[str, Any]]:
    """Synthetic texts, each with a few values of its row; the first rows of a seeded order."""
    rows = tables.synthetic.iloc[tables.order("synthetic")]
    shown = rows[rows[name].notna()].head(MOST_EXAMPLES)
    fields = [field for field in tables.schema.learned if field in shown][:MOST_FIELDS]
    return [
        {"text": str(row[name]), "row": [[field, "" if pd.isna(row[field]) else str(row[field])] for field in fields]}
        for _, row in shown.iterrows()
    ]
