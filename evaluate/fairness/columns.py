"""Column distances within each group of a sensitive column, beyond a fresh real sample.

Within a group, as many synthetic, fresh and shuffled rows are compared with its training rows: total variation of every
other column, averaged. The worst of several groups is chosen by chance as well: its interval has the coverage of all of
them together. A group with too few rows in a table says nothing of its columns, but its share of the rows does.

Source: Bhanot et al. 2021, "The problem of fairness in synthetic healthcare data", for fidelity by group.
"""

from typing import Any

import numpy as np

from evaluate.fairness.groups import MIN_ROWS, Groups
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import HALVES, half_samples, replicate_groups
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from synth.domain import Discretizer

_CHOSEN = "it is the worst of groups, whose number the data decide; name 'columns.tvd.excess'"
METRICS = (
    Metric("fairness.tvd.excess", "lower", "Column distance in the worst group",
           "Mean column distance beyond noise, in the group where it is largest.", describes=_CHOSEN),
)  # fmt: skip

NAME = "fairness.tvd.excess"
N_BINS = 8  # Bins of a number: a group has fewer rows than the table


def measure(tables: Tables) -> MetricResult:
    """Column distances within groups. Estimates, by sensitive column: `fairness.tvd.excess` (mean total variation in
    the group where it is most beyond that of a fresh real sample, lower).
    """
    columns = [name for name in tables.schema.sensitive if name in tables.schema.learned]
    if not columns or len(tables.schema.learned) < 2:
        message = "the schema names no sensitive column that is learned, or has no other column"
        return MetricResult(failures=(Failure(NAME, "skipped", message),))
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, N_BINS)
    coded = [discretizer.encode(sample.rows).astype(np.int64) for sample in samples.all]
    parts = [_of_column(name, tables, samples, discretizer, coded) for name in columns]
    return MetricResult(
        tuple(estimate for part in parts for estimate in part.estimates),
        tuple(failure for part in parts for failure in part.failures),
        {"fairness_columns": [part.figures for part in parts]},
    )


def _of_column(
    name: str, tables: Tables, samples: Samples, discretizer: Discretizer, coded: list[np.ndarray]
) -> MetricResult:
    groups = Groups.of(name, tables.train, tables.schema)
    members = [groups.codes(sample.rows, tables.schema) for sample in samples.all]
    others = [index for index, column in enumerate(discretizer.columns) if column != name]
    sizes = [list(discretizer.sizes.values())[index] for index in others]
    parts = [codes[:, others] for codes in coded]
    found: dict[int, np.ndarray] = {}
    rows = []
    for group, label in enumerate(groups.labels):
        counts = [int((of == group).sum()) for of in members]
        shares = [count / max(len(of), 1) for count, of in zip(counts, members, strict=True)]
        few = min(counts) < MIN_ROWS
        if not few:
            found[group] = _excess([of == group for of in members], parts, sizes, samples)
        if counts[0] or counts[1]:
            rows.append({"group": label, "real": shares[0], "synthetic": shares[1], "few": few})
            rows[-1] |= {} if few else {"excess": float(found[group][SYNTHETIC, 0])}
    figure = {"column": name, "groups": rows}
    if not found:
        message = f"no group has {MIN_ROWS} rows in every table"
        return MetricResult(failures=(Failure(NAME, "skipped", message, (name,)),), figures=figure)
    return MetricResult((_worst(name, found, min(samples.n, len(members[1]))),), figures=figure)


def _worst(name: str, found: dict[int, np.ndarray], n: int) -> Estimate:
    worst = max(found.values(), key=lambda replicates: float(replicates[SYNTHETIC, 0]))
    value, low, high = float(worst[SYNTHETIC, 0]), None, None
    if worst.shape[1] > 1:
        low, high = half_samples(value, worst[SYNTHETIC, HALVES], bounds=(-1.0, 1.0), n_comparisons=len(found))
    return Estimate(
        NAME, value, n, "lower", subject=(name,), low=low, high=high, reference=0.0,
        floor=max(float(replicates[SHUFFLED, 0]) for replicates in found.values()),
        note=f"mean total variation beyond a fresh real sample in the worst of {len(found)} groups",
    )  # fmt: skip


def _excess(members: list[np.ndarray], parts: list[np.ndarray], sizes: list[int], samples: Samples) -> np.ndarray:
    """Mean total variation within a group less that of fresh rows, shape (3, n_replicates)."""
    n = min(int(of.sum()) for of in members[1:])
    rows = [np.flatnonzero(members[0]), *(np.flatnonzero(of)[:n] for of in members[1:])]
    replicates, total = replicate_groups(samples.n_groups), np.zeros(())
    for column, size in enumerate(sizes):
        shares: list[Any] = []
        for chosen, codes, sample in zip(rows, parts, samples.all, strict=True):
            cells = sample.groups[chosen] * size + codes[chosen, column]
            counts = replicates @ np.bincount(cells, minlength=samples.n_groups * size).reshape(-1, size)
            shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        total = total + np.abs(np.array(shares[1:]) - shares[0]).sum(axis=2) / 2 / len(sizes)
    return np.asarray(total - total[FRESH])
