"""How faithful columns are two by two: associations over all pairs, and the total variation of every pair.

Total variation is taken on bins of the training table, missing being one of them: as many as leave a cell of two
numbers about five fresh rows, 4 to 20, and of categories at most 50, of which the rarest become one. Everything is on
equally many rows: see `evaluate.fidelity.samples`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluate.fidelity import associations, contingency
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples, contrast, excess, summarize
from evaluate.intervals import HALVES, half_samples, replicate_groups
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables
from synth.domain import Discretizer, line

Kind = Literal["pearson", "cramers_v", "correlation_ratio"]
KINDS: tuple[Kind, ...] = ("pearson", "cramers_v", "correlation_ratio")
_KIND_OF: tuple[Kind, ...] = ("cramers_v", "correlation_ratio", "pearson")
"""By how many of two columns are numbers."""
N_WORST = 10
ROWS_A_CELL, N_BINS = 5, (4, 20)
"""Fresh rows that a cell of two numbers should hold, and the least and the most bins of a number."""
_NAMES = (
    *(f"pairs.{kind}.mean" for kind in KINDS),
    "pairs.association.mean", "pairs.tvd.mean", "pairs.tvd.excess", "pairs.tvd.floor_share",
)  # fmt: skip


@dataclass(frozen=True)
class Coded:
    """All learned columns of the four samples: training, synthetic, fresh and shuffled rows.

    Attributes:
        columns: their names, d of them.
        sizes: number of codes of each.
        is_number: whether a column is a number or a date; shape (d,).
        codes: one array for each sample, shape (n, d), int64.
        numbers: one array for each sample, shape (n, d), standardized; NaN where missing and for categories.
        samples: the samples, for their groups.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    is_number: np.ndarray
    codes: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]
    samples: Samples

    def counts(self, a: int, b: int) -> list[np.ndarray]:
        """How often each pair of codes occurs, by sample; each of shape (n_replicates, size_a * size_b)."""
        n_cells = self.sizes[a] * self.sizes[b]
        return [
            contingency.counts(codes[:, a] * self.sizes[b] + codes[:, b], n_cells, sample.groups, self.samples.n_groups)
            for codes, sample in zip(self.codes, self.samples.all, strict=True)
        ]

    def kind(self, a: int, b: int) -> Kind:
        """Which association fits two columns."""
        return _KIND_OF[int(self.is_number[a]) + int(self.is_number[b])]


def measure(tables: Tables) -> Measurement:
    """Mean differences of associations, total variation of pairs, and the figures "associations" and "pairs"."""
    if len(tables.schema.learned) < 2:
        why = "the schema has fewer than two columns that are learned, so there is no pair"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in _NAMES))
    coded = _coded(tables)
    tvd, found = _pairwise(coded)
    n = coded.samples.n
    measured = [*_association_means(coded, found), *_tvd_means(tvd, n)]
    worst = _worst(tvd)
    estimates = [m for m in measured if isinstance(m, Estimate)] + [_worst_pair(coded, tvd, pair) for pair in worst]
    return Measurement(
        estimates=tuple(estimates),
        failures=tuple(m for m in measured if isinstance(m, Failure)),
        figures={"associations": _association_figure(coded, found), "pairs": _pair_figure(coded, tvd, worst)},
    )


def _coded(tables: Tables) -> Coded:
    samples = Samples.draw(tables)
    n_bins = int(np.clip(np.sqrt(len(tables.fresh) / ROWS_A_CELL), *N_BINS))
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, n_bins)
    codes = [discretizer.encode(sample.rows) for sample in samples.all]
    sizes = list(discretizer.sizes.values())
    merged = [contingency.merged_codes(np.bincount(codes[0][:, i], minlength=size)) for i, size in enumerate(sizes)]
    return Coded(
        columns=discretizer.columns,
        sizes=tuple(int(new[-1]) + 1 for new in merged),
        is_number=np.array([attribute.edges is not None for attribute in discretizer.attributes]),
        codes=tuple(_merged(code, merged) for code in codes),
        numbers=tuple(_numbers(discretizer, sample.rows) for sample in samples.all),
        samples=samples,
    )


def _merged(codes: np.ndarray, merged: list[np.ndarray]) -> np.ndarray:
    made = np.empty(codes.shape, dtype=np.int64, order="F")
    for index, new in enumerate(merged):
        made[:, index] = new[codes[:, index]]
    return made


def _numbers(discretizer: Discretizer, rows: Any) -> np.ndarray:
    made = np.full((len(rows), len(discretizer.attributes)), np.nan, order="F")
    for index, attribute in enumerate(discretizer.attributes):
        column: Any = attribute.column
        if attribute.edges is not None:
            made[:, index] = line.positions(rows[attribute.name], column)
    return associations.standardized(made)


def _pairwise(coded: Coded) -> tuple[np.ndarray, np.ndarray]:
    """Total variation from train and associations of all pairs.

    Returns:
        Total variation, shape (3, n_replicates, d, d), of a column alone on the diagonal; and associations, shape
        (4, n_replicates, d, d), NaN where undefined and on the diagonal. Both symmetric.
    """
    d, n_replicates = len(coded.columns), len(replicate_groups(coded.samples.n_groups))
    tvd, found = np.zeros((3, n_replicates, d, d)), np.full((4, n_replicates, d, d), np.nan)
    for a in range(d):
        for b in range(a, d):
            tables = coded.counts(a, b)
            train, *others = (contingency.shares(table) for table in tables)
            pair = np.array([contingency.total_variation(train, other) for other in others])
            tvd[:, :, a, b] = tvd[:, :, b, a] = pair
            if a != b and coded.kind(a, b) == "cramers_v":
                shape = (n_replicates, coded.sizes[a], coded.sizes[b])
                found[:, :, a, b] = found[:, :, b, a] = [associations.cramers_v(t.reshape(shape)) for t in tables]
    _fill_numbers(coded, found)
    return tvd, found


def _fill_numbers(coded: Coded, found: np.ndarray) -> None:
    """Write Pearson's correlations and correlation ratios into the associations."""
    numeric, categorical = np.flatnonzero(coded.is_number), np.flatnonzero(~coded.is_number)
    n_groups = coded.samples.n_groups
    for index, sample in enumerate(coded.samples.all):
        codes, numbers = coded.codes[index], coded.numbers[index]
        if len(numeric):
            correlations = associations.pearson(numbers[:, numeric], sample.groups, n_groups)
            correlations[:, np.arange(len(numeric)), np.arange(len(numeric))] = np.nan
            found[index][:, numeric[:, None], numeric[None, :]] = correlations
        for a in categorical:
            for b in numeric:
                of = codes[:, a], coded.sizes[a], numbers[:, b], sample.groups, n_groups
                found[index, :, a, b] = found[index, :, b, a] = associations.correlation_ratio(*of)


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
