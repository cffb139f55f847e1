"""Fidelity of columns two by two: associations over all pairs, their slope, and the total variation of every pair.

Total variation is taken on bins of the training table, missing being one of them: as many as leave a cell of two
numbers about five held-out rows, 4 to 20, and of categories at most 50, of which the rarest become one.

How much of the associations is kept is the slope of a table's associations on the training table's. Everything but this
slope is on equally many rows: see `evaluate.fidelity.samples`.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.fidelity import dependence
from evaluate.fidelity.associations import spearman
from evaluate.fidelity.columns import BIASED
from evaluate.fidelity.encoded import KINDS, EncodedSamples
from evaluate.fidelity.estimates import Distance, described, worst
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import HALVES, half_samples
from evaluate.metrics import COMPARED, KEPT, Metric, biased
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

_INSTEAD = biased("pairs.dependence.floor_share")
METRICS = (
    Metric("pairs.tvd", "lower", "Pair distance", "Total variation of two columns taken together.",
           describes=biased("pairs.tvd.excess.worst")),
    Metric("pairs.tvd.mean", "lower", "Pair distance, mean",
           "Total variation of two columns together, averaged over all pairs.", describes=biased("pairs.tvd.excess"),
           key=True),
    Metric("pairs.tvd.excess", "lower", "Pair distance beyond noise",
           "Mean pair distance minus that of a fresh real sample.", counted=COMPARED),
    Metric("pairs.tvd.excess.worst", "lower", "Worst pair",
           "The largest pair distance beyond that of a fresh real sample, and the columns it belongs to.",
           counted=COMPARED),
    Metric("pairs.tvd.floor_share", "lower", "Pair structure lost", "0 is as close to the real table as a fresh real "
           "sample, 1 as far as its own columns shuffled independently; above 1 is farther still, mostly because "
           "single columns are off too.", counted=COMPARED, key=True,
           note="0 as a fresh real sample, 1 as shuffled columns; more where single columns are off too"),
    Metric("pairs.tvd.floor_excess", "lower", "Pair distance beyond shuffled columns", "Mean pair distance minus that "
           "of the real table's own columns shuffled independently; a table that holds any relation is below 0.",
           counted=COMPARED),
    Metric("pairs.association.kept", "higher", "Associations kept", "How much of the associations between columns is "
           "there: 1 is as in the real table, 0 is none, as in shuffled columns; above 1 is not better, but more than "
           "there is in the real table.", counted=KEPT, better="1 is right; less is lost, more is made up",
           above_one="Above 1 is not better than 1: columns hang together more strongly than in the real table, so "
           "that relations are exaggerated or made up."),
    Metric("pairs.dependence.floor_share", "lower", "Relations lost or made up", "0 is as close to the relations of "
           "the real columns as a fresh real sample, 1 as far as columns shuffled independently. Above 1, relations "
           "are made up that the real table does not have.", counted=KEPT, key=True),
    Metric("pairs.dependence.floor_share.worst", "lower", "Relations lost or made up, worst column",
           "For the column whose relations are furthest off: 0 is as good as real, 1 a column that was shuffled, more "
           "is made up.", counted=KEPT),
    Metric("pairs.pearson.mean", "lower", "Correlations, mean error",
           "Mean difference of Pearson's correlation over pairs of numeric columns.", describes=_INSTEAD),
    Metric("pairs.spearman.mean", "lower", "Rank correlations, mean error",
           "Mean difference of Spearman's correlation over pairs of numeric columns.", describes=_INSTEAD),
    Metric("pairs.cramers_v.mean", "lower", "Cramer's V, mean error",
           "Mean difference of Cramer's V over pairs of categorical columns.", describes=_INSTEAD),
    Metric("pairs.correlation_ratio.mean", "lower", "Correlation ratio, mean error",
           "Mean difference of the correlation ratio over mixed pairs of columns.", describes=_INSTEAD),
)  # fmt: skip

NAME = "pairs.association.kept"


def association_kept(found: np.ndarray, n: int) -> Estimate | Failure:
    """The sum of a_train * a_synthetic over the sum of a_train^2, over all pairs with an association a in train.
    `found`: *Sensitive*. Associations of training, synthetic, fresh and shuffled rows, NaN where undefined, which
    counts as none where train's is defined; shape (4, n_replicates, d, d).

    Strong associations count most, and those of mere noise hardly. So it tells shuffled columns from real ones in
    tables too small for total variation. It sees what is lost, not what is made up: for that there is
    `pairs.dependence.floor_share`. Its interval is a jackknife's: it is a ratio, not a sum of absolute differences, and
    below 500 rows half-samples cover too little.
    """
    chosen = found[:, :, *np.triu_indices(found.shape[-1], k=1)]
    train, *others = np.nan_to_num(chosen[:, :, ~np.isnan(chosen[0, 0])], nan=0.0)
    strength = (train**2).sum(axis=1)
    if strength[0] <= 0.0:
        return Failure(NAME, "not applicable", "no two columns of the training table hang together")
    if len(strength) == 1:
        return Failure(NAME, "skipped", "there are too few rows for an interval")
    slopes = _slopes(np.array([(train * other).sum(axis=1) for other in others]), strength)
    room = slopes[FRESH] - slopes[SHUFFLED]
    if half_samples(room[0], room[HALVES])[0] <= 0.0:
        return Failure(NAME, "skipped", "the columns of the training table are nearly independent")
    note = "1 keeps all associations of the training table, 0 none; noise there keeps a fresh real sample below 1."
    return replace(described(NAME, slopes, n, bounds=(-np.inf, np.inf), note=note), direction="higher")


def _slopes(products: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The ratio to first order around all rows, as half-samples add noise to the sum of squares."""
    slope = products[:, :1] / strength[0]
    return np.asarray(slope + (products - slope * strength) / strength[0])


N_WORST = 10
_NAMES = (
    *(f"pairs.{kind}.mean" for kind in (*KINDS, "spearman")), NAME, dependence.SHARE, dependence.WORST,
    "pairs.tvd.mean", "pairs.tvd.excess", "pairs.tvd.excess.worst", "pairs.tvd.floor_share", "pairs.tvd.floor_excess",
)  # fmt: skip
BEYOND = "The mean total variation minus that of a fresh real sample."
NEARER = "The mean total variation minus that of columns shuffled independently."


def measure(tables: Tables) -> MetricResult:
    """Mean differences of associations, total variation of pairs, and the figures "associations" and "pairs"."""
    if len(tables.schema.learned) < 2:
        why = "the schema has fewer than two columns that are learned, so there is no pair"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in _NAMES))
    samples = Samples.draw(tables)
    whole, coded = EncodedSamples.of(tables, samples.whole()), EncodedSamples.of(tables, samples)
    kept, dependent = association_kept(whole.associations(), whole.samples.n), dependence.measure(whole)
    tvd, found = coded.pairwise()
    pairs = list(itertools.combinations(range(len(coded.columns)), 2))
    names = [tuple(coded.columns[i] for i in pair) for pair in pairs]
    each, n = np.array([tvd[:, :, a, b] for a, b in pairs]), samples.n
    mean = Distance(each.mean(axis=0), n, len(pairs))
    measured = [
        *_associations(coded, found, pairs), kept, *dependent,
        mean.plain("pairs.tvd.mean", note=BIASED.format(n=n)), mean.excess("pairs.tvd.excess", note=BEYOND),
        mean.floor_share("pairs.tvd.floor_share"), mean.floor_excess("pairs.tvd.floor_excess", note=NEARER),
        worst("pairs.tvd.excess.worst", each, n, names),
    ]  # fmt: skip
    chosen = _worst(tvd)
    estimates = [m for m in measured if isinstance(m, Estimate)] + [_worst_pair(coded, tvd, pair) for pair in chosen]
    return MetricResult(
        estimates=tuple(estimates),
        failures=tuple(m for m in measured if isinstance(m, Failure)),
        figures={"associations": _association_figure(coded, found), "pairs": _pair_figure(coded, tvd, chosen)},
    )


def _associations(coded: EncodedSamples, found: np.ndarray, pairs: list[tuple[int, int]]) -> list[Estimate | Failure]:
    """The mean difference from train of each kind of association, over the pairs where it is defined there."""
    samples, numeric = coded.samples, np.flatnonzero(coded.is_number)
    ranked = np.full_like(found, np.nan)
    for of, sample in zip(ranked, samples.all, strict=True):
        of[:, numeric[:, None], numeric[None, :]] = spearman(sample.numbers, sample.groups, samples.n_groups)
    measured: list[Estimate | Failure] = []
    for kind in (*KINDS, "spearman"):
        name, of_kind = f"pairs.{kind}.mean", "pearson" if kind == "spearman" else kind
        chosen = [pair for pair in pairs if coded.kind(*pair) == of_kind]
        if not chosen:
            measured.append(Failure(name, "skipped", "the schema has no pair of columns of this kind"))
            continue
        values = (ranked if kind == "spearman" else found)[:, :, *np.array(chosen).T]
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
        mean = Distance(np.abs(values[1:] - values[0]).mean(axis=2), samples.n, bound=2.0)
        measured.append(mean.plain(name, note=note))
    return measured


def _worst(tvd: np.ndarray) -> list[tuple[int, int]]:
    """The pairs that are furthest beyond a fresh real sample, the worst first."""
    first, second = np.triu_indices(tvd.shape[-1], k=1)
    beyond = tvd[SYNTHETIC, 0] - tvd[FRESH, 0]
    order = np.argsort(-beyond[first, second], kind="stable")[:N_WORST]
    return [(int(first[i]), int(second[i])) for i in order]


def _worst_pair(coded: EncodedSamples, tvd: np.ndarray, pair: tuple[int, int]) -> Estimate:
    d = len(coded.columns)
    return described(
        "pairs.tvd", tvd[:, :, *pair], coded.samples.n,
        subject=tuple(coded.columns[i] for i in pair), n_comparisons=d * (d - 1) // 2,
        note="One of the worst pairs; its interval allows for the choice.",
    )  # fmt: skip


def _association_figure(coded: EncodedSamples, found: np.ndarray) -> dict[str, Any]:
    d = range(len(coded.columns))
    train, synthetic = ([[None if np.isnan(v) else float(v) for v in row] for row in found[i, 0]] for i in (0, 1))
    kinds = [[None if a == b else coded.kind(a, b) for b in d] for a in d]
    return {"columns": list(coded.columns), "train": train, "synthetic": synthetic, "kinds": kinds}


def _pair_figure(coded: EncodedSamples, tvd: np.ndarray, worst: list[tuple[int, int]]) -> dict[str, Any]:
    rows = []
    for pair in worst:
        value, reference, floor = (float(tvd[i, 0, *pair]) for i in (SYNTHETIC, FRESH, SHUFFLED))
        names = [coded.columns[i] for i in pair]
        rows.append({"columns": names, "tvd": value, "reference": reference, "floor": floor})
    return {"columns": list(coded.columns), "tvd": tvd[SYNTHETIC, 0].tolist(), "worst": rows}
