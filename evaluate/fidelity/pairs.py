"""How faithful columns are two by two: associations over all pairs, and the total variation of every pair.

Total variation is taken on bins of the training table, missing being one of them: as many as leave a cell of two
numbers about five held-out rows, 4 to 20, and of categories at most 50, of which the rarest become one. Everything but
the share of associations that is kept is on equally many rows: see `evaluate.fidelity.samples`.
"""

from typing import Any

import numpy as np

from evaluate.fidelity import contingency
from evaluate.fidelity.coded import KINDS, Coded
from evaluate.fidelity.kept import association_kept
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples, contrast, excess, summarize
from evaluate.intervals import HALVES, half_samples, replicate_groups
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

N_WORST = 10
_NAMES = (
    *(f"pairs.{kind}.mean" for kind in KINDS),
    "pairs.association.mean", "pairs.association.kept", "pairs.tvd.mean", "pairs.tvd.excess", "pairs.tvd.floor_share",
)  # fmt: skip


def measure(tables: Tables) -> Measurement:
    """Mean differences of associations, total variation of pairs, and the figures "associations" and "pairs"."""
    if len(tables.schema.learned) < 2:
        why = "the schema has fewer than two columns that are learned, so there is no pair"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in _NAMES))
    coded, whole = Coded.of(tables, Samples.draw(tables)), Coded.of(tables, Samples.draw(tables, whole=True))
    tvd, found = _tvd(coded), coded.associations()
    n = coded.samples.n
    kept = association_kept(whole.associations(), whole.samples.n)
    measured = [*_association_means(coded, found), kept, *_tvd_means(tvd, n)]
    worst = _worst(tvd)
    estimates = [m for m in measured if isinstance(m, Estimate)] + [_worst_pair(coded, tvd, pair) for pair in worst]
    return Measurement(
        estimates=tuple(estimates),
        failures=tuple(m for m in measured if isinstance(m, Failure)),
        figures={"associations": _association_figure(coded, found), "pairs": _pair_figure(coded, tvd, worst)},
    )


def _tvd(coded: Coded) -> np.ndarray:
    """Total variation from train of all pairs, of a column alone on the diagonal; shape (3, n_replicates, d, d)."""
    d, n_replicates = len(coded.columns), len(replicate_groups(coded.samples.n_groups))
    tvd = np.zeros((3, n_replicates, d, d))
    for a in range(d):
        for b in range(a, d):
            train, *others = (contingency.shares(table) for table in coded.counts(a, b))
            pair = np.array([contingency.total_variation(train, other) for other in others])
            tvd[:, :, a, b] = tvd[:, :, b, a] = pair
    return tvd


def _association_means(coded: Coded, found: np.ndarray) -> list[Estimate | Failure]:
    """The mean difference for each kind of association, then over all pairs."""
    d = len(coded.columns)
    pairs = [(a, b, coded.kind(a, b)) for a in range(d) for b in range(a + 1, d)]
    measured: list[Estimate | Failure] = []
    for kind in (*KINDS, "association"):
        chosen = [(a, b) for a, b, of in pairs if kind in (of, "association")]
        measured.append(_association_mean(f"pairs.{kind}.mean", found, chosen, coded.samples.n))
    return measured


def _association_mean(name: str, found: np.ndarray, pairs: list[tuple[int, int]], n: int) -> Estimate | Failure:
    """The mean difference from train over the pairs whose association is defined there."""
    if not pairs:
        return Failure(name, "skipped", "the schema has no pair of columns of this kind")
    first, second = np.array(pairs).T
    chosen = found[:, :, first, second]
    defined = ~np.isnan(chosen[0, 0])
    if not defined.any():
        return Failure(name, "skipped", "in every pair of this kind a column is constant in the training table")
    lost = int(np.isnan(chosen[1, 0, defined]).sum())
    chosen = np.nan_to_num(chosen[:, :, defined], nan=0.0)
    replicates = np.abs(chosen[1:] - chosen[0]).mean(axis=2)
    note = f"Over {int(defined.sum()):,} of {len(pairs):,} pairs"
    note += "." if defined.all() else "; the others have a constant column in the training table."
    note += f" {lost:,} with a constant synthetic column count as no association." if lost else ""
    return summarize(name, replicates, n, bounds=(0.0, 2.0), note=note)


def _tvd_means(tvd: np.ndarray, n: int) -> list[Estimate | Failure]:
    upper = np.triu_indices(tvd.shape[-1], k=1)
    mean = tvd[:, :, *upper].mean(axis=2)
    biased = f"A small sample adds to a distance: beside the reference, also of {n:,} rows, it is fair."
    return [
        summarize("pairs.tvd.mean", mean, n, note=biased),
        excess("pairs.tvd.excess", mean, n),
        _floor_share(mean, n),
    ]


def _floor_share(mean: np.ndarray, n: int) -> Estimate | Failure:
    """How far down from a fresh real sample (0) to shuffled columns (1) the synthetic rows are."""
    name = "pairs.tvd.floor_share"
    room = mean[SHUFFLED] - mean[FRESH]
    if len(room) == 1:
        return Failure(name, "skipped", "there are too few rows for an interval")
    if half_samples(room[0], room[HALVES])[0] <= 0.0:
        return Failure(
            name, "skipped", "shuffled columns are no further off than a fresh real sample: pairs say nothing"
        )
    note = "0 is as good as a fresh real sample, 1 as bad as columns shuffled independently."
    share = (mean[:, :1] - mean[FRESH, 0]) / room[0]
    # The ratio to first order around all rows: the room of a half-sample is too small to divide by.
    replicates = share + (mean - mean[FRESH] - share * room) / room[0]
    return contrast(name, replicates, n, bounds=(-np.inf, np.inf), note=note)


def _worst(tvd: np.ndarray) -> list[tuple[int, int]]:
    """The pairs that are furthest off, the worst first."""
    first, second = np.triu_indices(tvd.shape[-1], k=1)
    order = np.argsort(-tvd[SYNTHETIC, 0, first, second], kind="stable")[:N_WORST]
    return [(int(first[i]), int(second[i])) for i in order]


def _worst_pair(coded: Coded, tvd: np.ndarray, pair: tuple[int, int]) -> Estimate:
    d = len(coded.columns)
    return summarize(
        "pairs.tvd", tvd[:, :, *pair], coded.samples.n,
        subject=tuple(coded.columns[i] for i in pair), n_comparisons=d * (d - 1) // 2,
        note="One of the worst pairs; its interval allows for the choice.",
    )  # fmt: skip


def _association_figure(coded: Coded, found: np.ndarray) -> dict[str, Any]:
    d = range(len(coded.columns))
    train, synthetic = ([[None if np.isnan(v) else float(v) for v in row] for row in found[i, 0]] for i in (0, 1))
    kinds = [[None if a == b else coded.kind(a, b) for b in d] for a in d]
    return {"columns": list(coded.columns), "train": train, "synthetic": synthetic, "kinds": kinds}


def _pair_figure(coded: Coded, tvd: np.ndarray, worst: list[tuple[int, int]]) -> dict[str, Any]:
    rows = []
    for pair in worst:
        value, reference, floor = (float(figure) for figure in tvd[:, 0, *pair])
        names = [coded.columns[i] for i in pair]
        rows.append({"columns": names, "tvd": value, "reference": reference, "floor": floor})
    return {"columns": list(coded.columns), "tvd": tvd[SYNTHETIC, 0].tolist(), "worst": rows}
