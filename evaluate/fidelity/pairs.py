"""Fidelity of columns two by two, and three by three.

Pairs: associations, dependence over all rows and within groups, and total variation. Total variation is taken on bins
of the training table: as many as leave a cell of numbers about five held-out rows.
"""

import itertools
import math
from typing import Any

import numpy as np

from evaluate.estimate import Estimate, Failure, NotMeasuredError
from evaluate.fidelity.dependence import WITHIN, over_all_rows, within_groups
from evaluate.fidelity.encoded import KINDS, EncodedSamples, shares, total_variations
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Distance, Samples, worst
from evaluate.metrics import COMPARED, KEPT, Metric, biased
from evaluate.tables import MetricResult, Tables
from synth.domain import Attribute

WORST_TRIPLE = "triples.tvd.excess.worst"
FLOOR_EXCESS = "pairs.tvd.floor_excess"
_INSTEAD = biased("pairs.dependence.floor_share")
METRICS = (
    Metric("pairs.tvd.excess", "lower", "Pair distance beyond noise",
           "Mean pair distance minus that of a fresh real sample.", counted=COMPARED),
    Metric("pairs.tvd.excess.worst", "lower", "Worst pair",
           "The largest pair distance beyond that of a fresh real sample, and the columns it belongs to.",
           counted=COMPARED),
    Metric(FLOOR_EXCESS, "lower", "Pair distance beyond shuffled columns", "Mean pair distance minus that of the real "
           "table's own columns shuffled independently, or of a fresh real sample where that is larger; a table that "
           "holds any relation is below 0.", counted=COMPARED),
    Metric("pairs.dependence.floor_share", "lower", "Relations lost or made up", "0 is as close to the relations of "
           "the real columns as a fresh real sample, 1 as far as columns shuffled independently. Above 1, relations "
           "are made up that the real table does not have.", counted=KEPT, key=True,
           better="0 is right; 1 and more is no better than shuffled columns", above_one="Above 1, relations are made "
           "up that the real table does not have: this is further from it than columns shuffled independently."),
    Metric("pairs.dependence.floor_share.worst", "lower", "Relations lost or made up, worst column",
           "For the column whose relations are furthest off: 0 is as good as real, 1 a column that was shuffled, more "
           "is made up.", counted=KEPT),
    Metric(WITHIN, "lower", "Relations within groups, worst", "For the group of rows and the column whose "
           "relations there are furthest off: 0 is as good as real, 1 lost, more is made up, 4 is turned round.",
           counted=KEPT, may_lack=True, better="0 is right; up to 1 is lost, more is made up or turned round"),
    Metric("pairs.pearson.mean", "lower", "Correlations, mean error",
           "Mean difference of Pearson's correlation over pairs of numeric columns.", describes=_INSTEAD),
    Metric("pairs.cramers_v.mean", "lower", "Cramer's V, mean error",
           "Mean difference of Cramer's V over pairs of categorical columns.", describes=_INSTEAD),
    Metric("pairs.correlation_ratio.mean", "lower", "Correlation ratio, mean error",
           "Mean difference of the correlation ratio over mixed pairs of columns.", describes=_INSTEAD),
    Metric(WORST_TRIPLE, "lower", "Worst triple",
           "The largest triple distance beyond that of a fresh real sample, and the columns it belongs to.",
           counted=COMPARED, key=True, may_lack=True, by="fidelity.triples"),
)  # fmt: skip

N_WORST, N_DRAWN = 10, 3  # Pairs or triples that a figure lists, and pairs whose cells it draws
MAX_TRIPLES = 1_000  # More triples than this are sampled


def measure(tables: Tables) -> MetricResult:
    """Mean differences of associations, dependence, total variation, and the figures "associations" and "pairs"."""
    if len(tables.schema.learned) < 2:
        raise NotMeasuredError("the schema has fewer than two columns that are learned, so there is no pair")
    samples = Samples.draw(tables)
    whole, coded = samples.whole(), EncodedSamples.of(tables, samples)
    in_groups = within_groups(EncodedSamples.of(tables, whole, together=4), tables.schema.target)
    dependent = over_all_rows(EncodedSamples.of(tables, whole))
    tvd, pairwise = coded.pairwise()
    pairs = list(itertools.combinations(range(len(coded.columns)), 2))
    each = np.array([tvd[:, :, a, b] for a, b in pairs])
    mean = Distance(each.mean(axis=0), samples.n, len(pairs))
    # Where columns are independent, shuffled ones are nearer than a fresh sample, which must not break the rule.
    furthest = SHUFFLED if mean.replicates[SHUFFLED, 0] > mean.replicates[FRESH, 0] else FRESH
    measured = [
        *_associations(coded, pairwise, pairs), *dependent, in_groups,
        mean.excess("pairs.tvd.excess", note="The mean total variation minus that of a fresh real sample."),
        mean.excess(
            FLOOR_EXCESS, note="The mean total variation minus that of columns shuffled independently.",
            landmark=furthest,
        ),
        worst("pairs.tvd.excess.worst", each, samples.n, coded.names(pairs)),
    ]  # fmt: skip
    figures = {"associations": _association_figure(coded, pairwise), "pairs": _pair_figure(tables, coded, tvd)}
    return MetricResult.of(measured, figures)


def _associations(
    coded: EncodedSamples, values_of: np.ndarray, pairs: list[tuple[int, int]]
) -> list[Estimate | Failure]:
    """The mean difference from train of each kind of association, over the pairs where it is defined there."""
    measured: list[Estimate | Failure] = []
    for kind in KINDS:
        name, chosen = f"pairs.{kind}.mean", [pair for pair in pairs if coded.kind(*pair) == kind]
        if not chosen:
            measured.append(Failure(name, "skipped", "the schema has no pair of columns of this kind"))
            continue
        values = values_of[:, :, *np.array(chosen).T]
        defined = ~np.isnan(values[0, 0])
        if not defined.any():
            why = "in every pair of this kind a column is constant in the training table"
            measured.append(Failure(name, "skipped", why))
            continue
        lost = int(np.isnan(values[1, 0, defined]).sum())
        values = np.nan_to_num(values[:, :, defined], nan=0.0)
        note = f"Over {int(defined.sum()):,} of {len(chosen):,} pairs"
        note += "." if defined.all() else "; the others have a constant column in the training table."
        note += f" {lost:,} with a constant synthetic column count as no association." if lost else ""
        mean = Distance(np.abs(values[1:] - values[0]).mean(axis=2), coded.samples.n, bound=2.0)
        measured.append(mean.plain(name, note=note))
    return measured


def _association_figure(coded: EncodedSamples, values: np.ndarray) -> dict[str, Any]:
    train, synthetic = ([[None if np.isnan(v) else float(v) for v in row] for row in values[i, 0]] for i in (0, 1))
    return {"columns": list(coded.columns), "train": train, "synthetic": synthetic}


def _pair_figure(tables: Tables, coded: EncodedSamples, tvd: np.ndarray) -> dict[str, Any]:
    """All pairs, and those furthest beyond a fresh real sample; the first few with shares of cells to draw."""
    coarse = EncodedSamples.of(tables, coded.samples, together=3)
    first, second = np.triu_indices(tvd.shape[-1], k=1)
    beyond = (tvd[SYNTHETIC, 0] - tvd[FRESH, 0])[first, second]
    rows = list[dict[str, Any]]()
    for i in np.argsort(-beyond, kind="stable")[:N_WORST]:
        pair = int(first[i]), int(second[i])
        row = _distances(coded, pair, tvd[:, 0, *pair])
        rows.append(row | ({"cells": _cells(coarse, pair)} if len(rows) < N_DRAWN else {}))
    return {"columns": list(coded.columns), "tvd": tvd[SYNTHETIC, 0].tolist(), "worst": rows}


def _distances(coded: EncodedSamples, columns: tuple[int, ...], tvd: np.ndarray) -> dict[str, Any]:
    """Names and distances of some columns, the distances of synthetic, fresh and shuffled rows."""
    marks = dict(zip(("tvd", "reference", "floor"), tvd.tolist(), strict=True))
    return {"columns": [coded.columns[i] for i in columns], **marks}


def _cells(coarse: EncodedSamples, pair: tuple[int, int]) -> dict[str, Any]:
    (counts,) = coarse.each([pair])
    sizes = [coarse.sizes[i] for i in pair]
    train, synthetic = (shares(side)[0].reshape(sizes).round(5).tolist() for side in counts[:2])
    return {"labels": [_labels(coarse.rows[0].attributes[i]) for i in pair], "train": train, "synthetic": synthetic}


def _labels(attribute: Attribute) -> list[str]:
    labels, n_rare = attribute.labels(), int((attribute.group == attribute.size - 3).sum())
    if attribute.edges is None and n_rare > 1:
        labels[-3] = f"{n_rare} rarer ones"
    return labels


def triples(tables: Tables) -> MetricResult:
    """The worst triple of columns, of all or of a sample of them, and the figure "triples"."""
    if len(tables.schema.learned) < 3:
        why = "the schema has fewer than three columns that are learned, so there is no triple"
        raise NotMeasuredError(why, "not applicable")
    coded = EncodedSamples.of(tables, Samples.draw(tables), together=3)
    chosen = _chosen(coded.columns, tables.seed)
    tvd = np.array([total_variations(counts) for counts in coded.each(chosen)])
    order = np.argsort(tvd[:, FRESH, 0] - tvd[:, SYNTHETIC, 0], kind="stable")[:N_WORST]
    figure = {"worst": [_distances(coded, chosen[i], tvd[i, :, 0]) for i in order]}
    return MetricResult((worst(WORST_TRIPLE, tvd, coded.samples.n, coded.names(chosen)),), figures={"triples": figure})


def _chosen(columns: tuple[str, ...], seed: int) -> list[tuple[int, ...]]:
    """The triples to measure, which do not depend on the order of columns."""
    by_name = sorted(range(len(columns)), key=lambda i: columns[i])
    if math.comb(len(columns), 3) <= MAX_TRIPLES:
        return list(itertools.combinations(by_name, 3))
    rng, chosen = np.random.default_rng([seed, 7]), set[tuple[int, ...]]()
    while len(chosen) < MAX_TRIPLES:
        a, b, c = sorted(rng.integers(len(columns), size=3).tolist())
        if a < b < c:
            chosen.add((by_name[a], by_name[b], by_name[c]))
    return sorted(chosen)
