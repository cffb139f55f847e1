"""Fidelity of every column on its own: distances of numbers and of counts, and missing values.

Numbers and dates are compared by the Kolmogorov-Smirnov distance of their present values and by the Wasserstein
distance in standard deviations of the training column (`Gaps`). Categories and booleans are compared by the chi-square
of their counts, missing being a category there. All of them are compared by total variation on the bins of the training
table, missing being a bin there. `figure_of` is what the report draws of a column.

Everything is on equally many rows: see `evaluate.fidelity.samples`. The floor of a single column says nothing: shuffled
columns are right one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from evaluate.fidelity import descriptives, encoded
from evaluate.fidelity.encoded import Four, binned, replicated, total_variations
from evaluate.fidelity.estimates import Distance, worst
from evaluate.fidelity.rows import OrderedValues
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.figures import LARGEST
from evaluate.intervals import Rate, newcombe, replicate_groups
from evaluate.metrics import COMPARED, KEPT, Metric, biased
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from synth.domain import Attribute

_BEYOND = biased("columns.tvd.excess")
METRICS = (
    Metric("columns.ks", "lower", "KS distance",
           "Largest gap between the two cumulative curves of a numeric column; 0 is the same.", describes=_BEYOND),
    Metric("columns.wasserstein", "lower", "Wasserstein distance",
           "How far values of a numeric column have moved on average, in its standard deviations.", describes=_BEYOND),
    Metric("columns.chi2", "lower", "Chi-square effect",
           "How strongly counts of categories differ, as Cramer's V; 0 is not at all.", describes=_BEYOND),
    Metric("columns.missing", "lower", "Missing values", "Difference in the share of missing values of a column.",
           counted=COMPARED),
    Metric("columns.tvd", "lower", "Column distance",
           "Total variation: share of rows in the wrong place of one column.", describes=_BEYOND),
    Metric("columns.tvd.mean", "lower", "Column distance, mean",
           "Total variation averaged over columns: the share of rows that one would have to move.", describes=_BEYOND,
           key=True),
    Metric("columns.tvd.excess", "lower", "Column distance beyond noise",
           "Mean column distance minus that of a fresh real sample; 0 is as good as real.", counted=COMPARED),
    Metric("columns.tvd.excess.worst", "lower", "Worst column",
           "The largest column distance beyond that of a fresh real sample, and the column it belongs to.",
           counted=COMPARED),
    Metric("columns.tail.excess", "lower", "Tail beyond real",
           "Share of values further out than nearly all real ones, minus the share of real rows there.", counted=KEPT),
    Metric("columns.tail.excess.mean", "lower", "Tails, mean",
           "Share of values further out than nearly all real ones, minus real rows' share, averaged over columns.",
           counted=KEPT),
    Metric("columns.tail.excess.worst", "lower", "Worst tail",
           "The largest excess of a tail, and the column it belongs to.", counted=KEPT),
    Metric("columns.spikes.kept.worst", "higher", "Frequent values kept, worst",
           "In the worst column: the share of rows with a frequent exact value, over that of real rows; 1 is all kept.",
           counted=KEPT),
    Metric("columns.lattice.kept.worst", "higher", "Steps kept, worst",
           "In the worst column: the share of values on its usual step, over that of real ones; 1 is all kept.",
           counted=KEPT),
)  # fmt: skip

_A_PIECE = 1 << 16  # Values that are looked at together


@dataclass(frozen=True)
class Gaps:
    # the largest gap, ties right; 1, the worst, where only one side has a value, 0 where none has; shape
    # (n_replicates,).
    kolmogorov_smirnov: np.ndarray
    wasserstein: np.ndarray  # the area between them, in units of the column; shape (n_replicates,)

    @classmethod
    def between(cls, first: OrderedValues, second: OrderedValues) -> Self:
        n_groups = len(first.counts)
        replicates = replicate_groups(n_groups)
        n_first, n_second = (replicates @ line.counts.sum(axis=1) for line in (first, second))
        largest, area = np.zeros(len(replicates)), np.zeros(len(replicates))
        if len(first.values) + len(second.values):
            largest, area = _place_by_place(first, second, replicates)
        alone, present = (n_first > 0) != (n_second > 0), (n_first + n_second) > 0
        return cls(np.where(alone, 1.0, np.where(present, largest, 0.0)), area)


def _place_by_place(
    first: OrderedValues, second: OrderedValues, replicates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The largest gap and the area."""
    places = np.union1d(first.values, second.values)
    widths = np.append(np.diff(places), 0.0)
    below = []
    for line in (first, second):
        counts = np.zeros((len(line.counts), len(places)), dtype=np.int64)
        counts[:, np.searchsorted(places, line.values)] = line.counts
        below.append(np.cumsum(counts, axis=1, out=counts))
    n = [np.maximum(replicates @ up_to[:, -1], 1.0)[:, None] for up_to in below]
    largest, area = np.zeros(len(replicates)), np.zeros(len(replicates))
    for start in range(0, len(places), _A_PIECE):
        piece = slice(start, start + _A_PIECE)
        shares = [replicates @ up_to[:, piece] / total for up_to, total in zip(below, n, strict=True)]
        gaps = np.abs(shares[0] - shares[1])
        largest, area = np.maximum(largest, gaps.max(axis=1)), area + gaps @ widths[piece]
    return largest, area


@dataclass(frozen=True)
class ChiSquare:
    statistic: np.ndarray  # on all rows, then on half-samples; shape (n_replicates,)
    cramers_v: np.ndarray  # its effect size, in [0, 1]; shape (n_replicates,)
    degrees: int
    p: float


def chi_square(first: np.ndarray, second: np.ndarray) -> ChiSquare:
    """Chi-square test of homogeneity of two rows of counts; expected counts are pooled. `first`: counts by category of
    one sample, shape (n_replicates, n_categories).
    """
    from scipy import special

    n_first, n_second = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    both = first + second
    balance = (first * n_second - second * n_first) ** 2 / np.maximum(both, 1.0)
    statistic = balance.sum(axis=1) / (n_first * n_second)[:, 0]
    degrees = int((both[0] > 0).sum()) - 1
    effect = np.sqrt(np.minimum(statistic / both.sum(axis=1), 1.0))
    p = float(special.chdtrc(degrees, statistic[0])) if degrees > 0 else 1.0
    return ChiSquare(statistic, effect, degrees, p)


def kolmogorov_p(distance: float, n_first: int, n_second: int) -> float:
    """The asymptotic p of a two-sample Kolmogorov-Smirnov distance; ties make it too large.

    It measures n, not quality: never gate on it.

    Source: Smirnov 1939; Hodges 1958, "The significance probability of the Smirnov two-sample test".

    >>> round(kolmogorov_p(0.1, 500, 500), 4)
    0.0135
    """
    from scipy import special

    return float(special.kolmogorov(distance * np.sqrt(n_first * n_second / (n_first + n_second))))


MAX_LABELS = 60  # Categories that the figure of a column shows at most; the rarest are shown as one


def figure_of(attribute: Attribute, counts: Sequence[np.ndarray], tvd: float) -> dict[str, Any]:
    """One column as plain data. `counts`: *Sensitive*. Of codes, for training and synthetic rows; each of shape
    (n_replicates, size).
    """
    train, synthetic = (encoded.shares(table)[0] for table in counts)
    labels = attribute.labels()
    figure: dict[str, Any] = {"column": attribute.name, "kind": attribute.column.kind, "labels": labels}
    figure |= {"edges": _edges(attribute), "train": train.tolist(), "synthetic": synthetic.tolist()}
    if attribute.edges is None and attribute.size > MAX_LABELS:
        figure |= _shortened(labels, train, synthetic)
    return {**figure, "tvd": tvd}


def _shortened(labels: list[str], train: np.ndarray, synthetic: np.ndarray) -> dict[str, Any]:
    """Labels and shares with the categories that are rarest in the training table as one."""
    new = encoded.merged_codes(train, MAX_LABELS)
    shown = [labels[int(np.flatnonzero(new == code)[0])] for code in range(MAX_LABELS)]
    shown[-3] = f"{len(labels) - MAX_LABELS + 1} rarer ones"
    merged = (np.bincount(new, weights=shares, minlength=MAX_LABELS).tolist() for shares in (train, synthetic))
    return dict(zip(("labels", "train", "synthetic"), (shown, *merged), strict=True))


def _edges(attribute: Attribute) -> list[float] | list[str] | None:
    """Edges of the bins: numbers, or dates and times as ISO texts."""
    if attribute.edges is None:
        return None
    if attribute.column.is_time:
        unit = "D" if attribute.column.is_date else "us"
        stamps = np.ceil(attribute.edges).astype(np.int64).astype(f"datetime64[{unit}]")
        return [str(stamp) for stamp in stamps]
    return [float(edge) for edge in np.clip(attribute.edges, -LARGEST, LARGEST)]


BIASED = "A small sample adds to a distance: beside the reference, also of {n:,} rows, it is fair."


@dataclass(frozen=True)
class ColumnCounts:
    attribute: Attribute
    counts: Four  # of codes, for the four samples; each of shape (n_replicates, size)
    lines: tuple[OrderedValues, ...] | None
    missing: tuple[Rate, ...]

    @property
    def name(self) -> str:
        return self.attribute.name

    @cached_property
    def tvd(self) -> np.ndarray:
        """Total variation from the training table; shape (3, n_replicates)."""
        return total_variations(self.counts)

    @cached_property
    def wasserstein(self) -> np.ndarray | str:
        """In standard deviations of the training column, shape (3, n_replicates), or why there is none."""
        lines, moved = self.lines or (), np.array([gaps.wasserstein for gaps in self.gaps])
        if any(line.is_empty for line in lines):
            return "a table has no present value in this column, so that no distance is defined"
        scale = lines[0].deviation()
        if moved.any() and scale[0] <= 0:
            return "the column is constant in the training table, so that there is no scale"
        return moved / np.where(scale > 0, scale, scale[0]) if moved.any() else moved

    @cached_property
    def gaps(self) -> tuple[Gaps, ...]:
        """Between training rows and synthetic, fresh and shuffled ones; empty unless for a number or time."""
        if self.lines is None:
            return ()
        train, *others = self.lines
        return tuple(Gaps.between(train, other) for other in others)

    @cached_property
    def chi_squares(self) -> tuple[ChiSquare, ...]:
        """Chi-square against the training table, of synthetic, fresh and shuffled rows."""
        train, *others = self.counts
        return tuple(chi_square(train, other) for other in others)

    @property
    def test(self) -> dict[str, Any] | None:
        """The two-sample test that readers know: Kolmogorov-Smirnov's D of a number, Cramer's V of a category."""
        if self.lines is None:
            found = self.chi_squares[SYNTHETIC]
            sizes = [int(of[0].sum()) for of in self.counts[:2]]
            return {"statistic": "V", "value": float(found.cramers_v[0]), "n": sizes, "p": found.p}
        sizes = [int(of.counts.sum()) for of in self.lines[:2]]
        if not all(sizes):
            return None
        distance = float(self.gaps[SYNTHETIC].kolmogorov_smirnov[0])
        return {"statistic": "D", "value": distance, "n": sizes, "p": kolmogorov_p(distance, *sizes)}


def measure(tables: Tables) -> MetricResult:
    """Distances of every learned column, their means, and the figure "columns"."""
    if not tables.schema.learned:
        why = "the schema has no column that is learned"
        names = ("columns.tvd.mean", "columns.tvd.excess", "columns.tvd.excess.worst", *descriptives.OF_THE_TABLE)
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in names))
    samples = Samples.draw(tables)
    columns = compared_columns(tables, samples)
    beyond = np.array([column.tvd for column in columns])
    mean = Distance(beyond.mean(axis=0), samples.n, len(columns))
    over = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
    note = f"The mean total variation over {over}, minus that of a fresh real sample."
    measured: list[Estimate | Failure] = [
        mean.plain("columns.tvd.mean", note=BIASED.format(n=samples.n)),
        mean.excess("columns.tvd.excess", note=note),
        worst("columns.tvd.excess.worst", beyond, samples.n, [(column.name,) for column in columns]),
    ]
    for column in columns:
        measured += _of_column(column, samples.n)
    whole = samples.whole()
    described, drawn = descriptives.measure(whole, tables.schema.columns, _lines(whole))
    measured += described
    return MetricResult(
        tuple(m for m in measured if isinstance(m, Estimate)),
        tuple(m for m in measured if isinstance(m, Failure)),
        {"columns": [{**_figure(column), "descriptives": drawn.get(column.name)} for column in columns]},
    )


def _figure(column: ColumnCounts) -> dict[str, Any]:
    figure = figure_of(column.attribute, column.counts[:2], float(column.tvd[SYNTHETIC, 0]))
    return {**figure, "test": column.test}


def compared_columns(tables: Tables, samples: Samples) -> list[ColumnCounts]:
    attributes = binned(tables.schema, samples.train).attributes
    alone = [(index,) for index in range(len(attributes))]
    counted = list(zip(*(sample.coded(attributes).each(alone) for sample in samples.all), strict=True))
    lines, missing = _lines(samples), [sample.missing() for sample in samples.all]
    return [
        ColumnCounts(
            attribute, tuple(replicated(counts) for counts in found), lines.get(attribute.name),
            tuple(of[attribute.name] for of in missing),
        )
        for attribute, found in zip(attributes, counted, strict=True)
    ]  # fmt: skip


def _lines(samples: Samples) -> Mapping[str, tuple[OrderedValues, ...]]:
    train, synthetic, fresh, shuffled = (sample.lines() for sample in samples.all)
    return {name: (line, synthetic[name], fresh[name], shuffled[name]) for name, line in train.items()}


def _of_column(column: ColumnCounts, n: int) -> list[Estimate | Failure]:
    subject = (column.name,)
    alone = Distance(column.tvd, n)
    measured: list[Estimate | Failure] = [
        _missing(column, n), alone.plain("columns.tvd", subject=subject),
        alone.excess("columns.tvd.excess", subject=subject),
    ]  # fmt: skip
    if column.lines is None:
        found = column.chi_squares[SYNTHETIC]
        note = (
            f"Chi-square {found.statistic[0]:.6g} on {found.degrees} degrees of freedom, p = {found.p:.3g}; "
            "p measures the number of rows, not quality."
        )
        effect = Distance(np.array([found.cramers_v for found in column.chi_squares]), n)
        return [*measured, effect.plain("columns.chi2", subject=subject, note=note)]
    empty = [line.is_empty for line in column.lines[:2]]
    if all(empty):
        why = "there is no present value to compare"
        return [*measured, *(Failure(f"columns.{kind}", "skipped", why, subject) for kind in ("ks", "wasserstein"))]
    note = "One side has no present value, which counts as the largest distance." if any(empty) else ""
    gaps = Distance(np.array([gaps.kolmogorov_smirnov for gaps in column.gaps]), n)
    measured.append(gaps.plain("columns.ks", subject=subject, note=note))
    moved = column.wasserstein
    if isinstance(moved, str):
        return [*measured, Failure("columns.wasserstein", "skipped", moved, subject)]
    return [*measured, Distance(moved, n, bound=np.inf).plain("columns.wasserstein", subject=subject)]


def _missing(column: ColumnCounts, n: int) -> Estimate:
    """The difference in the share of missing values, with an interval that has a width also where none is missing."""
    train, *others = column.missing
    _, low, high = newcombe(others[SYNTHETIC], train)
    differences = [abs(share - train[0]) for share, _, _ in others]
    return Estimate(
        "columns.missing", differences[SYNTHETIC], n, "lower", subject=(column.name,),
        low=max(low, -high, 0.0), high=max(-low, high), reference=differences[FRESH], floor=differences[SHUFFLED],
    )  # fmt: skip
