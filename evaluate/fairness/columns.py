"""Column distances within each group of a sensitive column, beyond a fresh real sample.

Within a group, as many synthetic, fresh and shuffled rows are compared with its training rows. The worst of several
groups is chosen by chance as well: its interval has the coverage of all of them together.

Source: Bhanot et al. 2021, "The problem of fairness in synthetic healthcare data", for fidelity by group.
"""

from typing import Any

import numpy as np

from evaluate.fairness.groups import MIN_ROWS, Groups
from evaluate.fidelity.encoded import replicated
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import HALVES, half_samples
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
    """Column distances in the worst group of each sensitive column, and the figure "fairness_columns"."""
    names = [name for name in tables.schema.sensitive if name in tables.schema.learned]
    if not names or len(tables.schema.learned) < 2:
        message = "the schema names no sensitive column that is learned, or has no other column"
        return MetricResult(failures=(Failure(NAME, "skipped", message),))
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, N_BINS)
    coded = [discretizer.encode(sample.rows).astype(np.int64) for sample in samples.all]
    estimates, failures, figures = list[Estimate](), list[Failure](), []
    for name in names:
        groups = Groups.of(name, tables.train, tables.schema)
        members = [groups.codes(sample.rows, tables.schema) for sample in samples.all]
        others = [(i, size) for i, (column, size) in enumerate(discretizer.sizes.items()) if column != name]
        excesses, rows = list[np.ndarray](), list[dict[str, Any]]()
        for group, label in enumerate(groups.labels):
            inside = [codes == group for codes in members]
            counts = [int(codes.sum()) for codes in inside]
            row = {"group": label, "real": counts[0] / max(len(inside[0]), 1)}
            row |= {"synthetic": counts[1] / max(len(inside[1]), 1), "few": min(counts) < MIN_ROWS}
            if not row["few"]:
                excesses.append(_excess(inside, coded, others, samples))
                row["excess"] = float(excesses[-1][SYNTHETIC, 0])
            rows += [row] * (counts[0] + counts[1] > 0)
        figures.append({"column": name, "groups": rows})
        if not excesses:
            failures.append(Failure(NAME, "skipped", f"no group has {MIN_ROWS} rows in every table", (name,)))
            continue
        worst = max(excesses, key=lambda replicates: float(replicates[SYNTHETIC, 0]))
        value, low, high = float(worst[SYNTHETIC, 0]), None, None
        if worst.shape[1] > 1:
            low, high = half_samples(value, worst[SYNTHETIC, HALVES], bounds=(-1.0, 1.0), n_comparisons=len(excesses))
        floor = max(float(replicates[SHUFFLED, 0]) for replicates in excesses)
        note = f"mean total variation beyond a fresh real sample in the worst of {len(excesses)} groups"
        n = min(samples.n, len(members[1]))
        estimates.append(Estimate(NAME, value, n, "lower", (name,), low, high, 0.0, floor, note))
    return MetricResult(tuple(estimates), tuple(failures), {"fairness_columns": figures})


def _excess(
    inside: list[np.ndarray], coded: list[np.ndarray], columns: list[tuple[int, int]], samples: Samples
) -> np.ndarray:
    """Mean total variation of columns within a group less that of fresh rows, shape (3, n_replicates)."""
    n = min(int(mask.sum()) for mask in inside[1:])
    rows = [np.flatnonzero(inside[0]), *(np.flatnonzero(mask)[:n] for mask in inside[1:])]
    total = np.zeros(())
    for column, size in columns:
        counts = []
        for chosen, codes, sample in zip(rows, coded, samples.all, strict=True):
            cells = sample.groups[chosen] * size + codes[chosen, column]
            counts.append(replicated(np.bincount(cells, minlength=samples.n_groups * size).reshape(-1, size)))
        shares = [mask / np.maximum(mask.sum(axis=1, keepdims=True), 1) for mask in counts]
        total = total + np.abs(np.array(shares[1:]) - shares[0]).sum(axis=2) / 2 / len(columns)
    return np.asarray(total - total[FRESH])
