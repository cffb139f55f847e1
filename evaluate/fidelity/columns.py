"""Fidelity of every column on its own: distances of numbers and of counts, on equally many rows.

The floor of a single column says nothing: shuffled columns are right one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from evaluate.estimate import Estimate, Failure, NotMeasuredError
from evaluate.fidelity import descriptives
from evaluate.fidelity.encoded import Four, binned, merged_codes, replicated, shares, total_variations
from evaluate.fidelity.samples import SYNTHETIC, Distance, OrderedValues, Samples, worst
from evaluate.intervals import replicate_groups
from evaluate.metrics import COMPARED, KEPT, Metric, biased
from evaluate.result_io import LARGEST
from evaluate.tables import MetricResult, Tables
from synth.domain import Attribute

SHIFT = "columns.ks.excess.worst"
_BEYOND = biased("columns.tvd.excess")
METRICS = (
    Metric("columns.ks", "lower", "KS distance",
           "Largest gap between the two cumulative curves of a numeric column; 0 is the same.", describes=_BEYOND),
    Metric(SHIFT, "lower", "Worst shift of a number", "The largest gap between two cumulative curves beyond that of a "
           "fresh real sample, and the number or date it belongs to.", counted=COMPARED, may_lack=True),
    Metric("columns.wasserstein", "lower", "Wasserstein distance",
           "How far values of a numeric column have moved on average, in its standard deviations.", describes=_BEYOND),
    Metric("columns.chi2", "lower", "Chi-square effect",
           "How strongly counts of categories differ, as Cramer's V; 0 is not at all.", describes=_BEYOND),
    Metric("columns.tvd", "lower", "Column distance",
           "Total variation: share of rows in the wrong place of one column.", describes=_BEYOND),
    Metric("columns.tvd.excess", "lower", "Column distance beyond noise",
           "Share of rows in the wrong place of a column, on average over columns, minus that of a fresh real sample; "
           "0 is as good as real.", counted=COMPARED, key=True),
    Metric("columns.tvd.excess.worst", "lower", "Worst column",
           "The largest column distance beyond that of a fresh real sample, and the column it belongs to.",
           counted=COMPARED),
    Metric(descriptives.TAILS, "lower", "Worst tail", "Share of values further out than nearly all real ones, minus "
           "the share of real rows there, in the column where it is largest.", counted=KEPT),
    Metric(descriptives.CATEGORIES, "higher", "Categories kept, worst",
           "Of the categories that one real row in a hundred has, the one whose share has changed the most: 1 is kept, "
           "0.5 is half or twice the real share, 0 is gone.", counted=KEPT, may_lack=True),
    Metric(descriptives.SPIKES, "higher", "Frequent values kept, worst",
           "In the worst column: the share of rows with a frequent exact value, over that of real rows; 1 is all kept.",
           counted=KEPT),
    Metric(descriptives.LATTICE, "higher", "Steps kept, worst",
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
        replicates = replicate_groups(len(first.counts))
        totals = [replicates @ line.counts.sum(axis=1) for line in (first, second)]
        places = np.union1d(first.values, second.values)
        widths, below = np.append(np.diff(places), 0.0), []
        for line in (first, second):
            counts = np.zeros((len(line.counts), len(places)), dtype=np.int64)
            counts[:, np.searchsorted(places, line.values)] = line.counts
            below.append(np.cumsum(counts, axis=1, out=counts))
        largest, area = np.zeros(len(replicates)), np.zeros(len(replicates))
        for start in range(0, len(places), _A_PIECE):
            piece = slice(start, start + _A_PIECE)
            first_share, second_share = (
                replicates @ up_to[:, piece] / np.maximum(n, 1.0)[:, None]
                for up_to, n in zip(below, totals, strict=True)
            )
            gaps = np.abs(first_share - second_share)
            largest, area = np.maximum(largest, gaps.max(axis=1)), area + gaps @ widths[piece]
        there = [n > 0 for n in totals]
        return cls(np.where(there[0] != there[1], 1.0, np.where(there[0] | there[1], largest, 0.0)), area)


def chi_square(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Homogeneity of two rows of counts, expected ones pooled: statistic, Cramer's V, and degrees of freedom."""
    n_first, n_second = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    both = first + second
    balance = (first * n_second - second * n_first) ** 2 / np.maximum(both, 1.0)
    statistic = balance.sum(axis=1) / (n_first * n_second)[:, 0]
    return statistic, np.sqrt(np.minimum(statistic / both.sum(axis=1), 1.0)), int((both[0] > 0).sum()) - 1


MAX_LABELS = 60  # Categories that the figure of a column shows at most; the rarest are shown as one


def _drawn(attribute: Attribute, counts: Four) -> dict[str, Any]:
    """Labels and edges of one column, and the shares of training and synthetic rows."""
    labels, (train, synthetic) = attribute.labels(), (shares(table)[0] for table in counts[:2])
    edges: list[float] | list[str] | None = None
    if attribute.edges is not None and attribute.column.is_time:
        unit = "D" if attribute.column.is_date else "us"
        edges = [str(value) for value in np.ceil(attribute.edges).astype(np.int64).astype(f"datetime64[{unit}]")]
    elif attribute.edges is not None:
        edges = [float(edge) for edge in np.clip(attribute.edges, -LARGEST, LARGEST)]
    elif attribute.size > MAX_LABELS:
        new = merged_codes(train, MAX_LABELS)
        n_rare = len(labels) - MAX_LABELS + 1
        labels = [labels[int(np.flatnonzero(new == code)[0])] for code in range(MAX_LABELS)]
        labels[-3] = f"{n_rare} rarer ones"
        train, synthetic = (np.bincount(new, weights=value, minlength=MAX_LABELS) for value in (train, synthetic))
    figure = {"column": attribute.name, "kind": attribute.column.kind, "labels": labels, "edges": edges}
    figure["ordered"] = attribute.column.is_ordered
    return {**figure, "train": train.tolist(), "synthetic": synthetic.tolist()}


def measure(tables: Tables) -> MetricResult:
    """Distances of every learned column, their mean, and the figure "columns"."""
    if not tables.schema.learned:
        raise NotMeasuredError("the schema has no column that is learned")
    samples = Samples.draw(tables)
    attributes, lines, whole = binned(tables.schema, samples.train).attributes, _lines(samples), samples.whole()
    described, drawn = descriptives.measure(whole, tables.schema.columns, _lines(whole))
    single = [(i,) for i in range(len(attributes))]
    each = zip(*(sample.coded(attributes).each(single) for sample in samples.all), strict=True)
    beyond, measured, figures = list[np.ndarray](), list[Estimate | Failure](), list[dict[str, Any]]()
    gaps = dict[str, np.ndarray]()
    for attribute, counted in zip(attributes, each, strict=True):
        name, counts = attribute.name, tuple(map(replicated, counted))
        tvd = total_variations(counted)
        alone, subject = Distance(tvd, samples.n), (name,)
        measured += [alone.plain("columns.tvd", subject=subject), alone.excess("columns.tvd.excess", subject=subject)]
        if name in lines:
            of_kind, test, gaps[name] = _of_line(name, lines[name], samples.n)
        else:
            of_kind, test = _of_counts(name, counts, samples.n)
        measured += of_kind
        figure = {"tvd": float(tvd[SYNTHETIC, 0]), "test": test, "descriptives": drawn.get(name)}
        figures.append(_drawn(attribute, counts) | figure)
        beyond.append(tvd)
    mean = Distance(np.mean(beyond, axis=0), samples.n, len(beyond))
    over = "1 column" if len(beyond) == 1 else f"{len(beyond)} columns"
    note = f"The mean total variation over {over}, minus that of a fresh real sample."
    shift: Estimate | Failure = Failure(SHIFT, "not applicable", "the schema has no number or date")
    if gaps:
        shift = worst(SHIFT, np.array([*gaps.values()]), samples.n, [(name,) for name in gaps])
    measured += [
        mean.excess("columns.tvd.excess", note=note),
        worst("columns.tvd.excess.worst", np.array(beyond), samples.n, [(attribute.name,) for attribute in attributes]),
        shift, *described,
        descriptives.kept_categories(whole, [attribute for attribute in attributes if attribute.name not in lines]),
    ]  # fmt: skip
    return MetricResult.of(measured, {"columns": figures})


def _lines(samples: Samples) -> Mapping[str, tuple[OrderedValues, ...]]:
    """Of the training, synthetic, fresh and shuffled rows, by number or time."""
    lines = [sample.lines() for sample in samples.all]
    return {name: tuple(each[name] for each in lines) for name in lines[0]}


Test = dict[str, Any] | None
"""The two-sample test that readers know. Never gate on its p, which measures n."""


def _of_counts(name: str, counts: Four, n: int) -> tuple[list[Estimate | Failure], Test]:
    """Of a category, against the training rows: Cramer's V of the chi-square."""
    statistic, _, degrees = chi_square(*counts[:2])
    p = float(special.chdtrc(degrees, statistic[0])) if degrees > 0 else 1.0
    note = (
        f"Chi-square {statistic[0]:.6g} on {degrees} degrees of freedom, p = {p:.3g}; "
        "p measures the number of rows, not quality."
    )
    effect = Distance.between(lambda train, other: chi_square(train, other)[1], counts, n)
    estimate = effect.plain("columns.chi2", subject=(name,), note=note)
    sizes = [int(part[0].sum()) for part in counts[:2]]
    return [estimate], {"statistic": "V", "value": estimate.value, "n": sizes, "p": p}


def _of_line(name: str, lines: tuple[OrderedValues, ...], n: int) -> tuple[list[Estimate | Failure], Test, np.ndarray]:
    """Of a number or time: Kolmogorov-Smirnov's D and Wasserstein's distance, the test, and D of all tables."""
    subject, empty = (name,), [line.is_empty for line in lines]
    gaps = [Gaps.between(lines[0], other) for other in lines[1:]]
    distance, moved = (np.array([getattr(gap, kind) for gap in gaps]) for kind in ("kolmogorov_smirnov", "wasserstein"))
    if all(empty[:2]):
        why = "there is no present value to compare"
        return [Failure(f"columns.{kind}", "skipped", why, subject) for kind in ("ks", "wasserstein")], None, distance
    note = "One side has no present value, which counts as the largest distance." if any(empty[:2]) else ""
    ks, test = Distance(distance, n).plain("columns.ks", subject=subject, note=note), None
    if not any(empty[:2]):
        sizes = [int(drawn.counts.sum()) for drawn in lines[:2]]
        # The asymptotic p; ties make it too large. Source: Smirnov 1939; Hodges 1958.
        p = float(special.kolmogorov(ks.value * np.sqrt(sizes[0] * sizes[1] / (sizes[0] + sizes[1]))))
        test = {"statistic": "D", "value": ks.value, "n": sizes, "p": p}
    scale, why = lines[0].deviation(), ""
    if any(empty):
        why = "a table has no present value in this column, so that no distance is defined"
    elif moved.any() and scale[0] <= 0:
        why = "the column is constant in the training table, so that there is no scale"
    if why:
        return [ks, Failure("columns.wasserstein", "skipped", why, subject)], test, distance
    moved = moved / np.where(scale > 0, scale, scale[0]) if moved.any() else moved
    return [ks, Distance(moved, n, bound=np.inf).plain("columns.wasserstein", subject=subject)], test, distance
