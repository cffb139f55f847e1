"""Repeated rows: whether rows stand twice in the synthetic table, beside as many training rows."""

import numpy as np

from evaluate.intervals import Rate, clustered, newcombe
from evaluate.metrics import KEPT, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import Side
from evaluate.tables import MetricResult, Tables
from synth.split import row_keys

NAME = "joint.repeats.excess"
METRICS = (
    Metric(NAME, "lower", "Repeated rows beyond real",
           "Share of synthetic rows that stand in the table more than once, minus that among as many training rows.",
           counted=KEPT),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    """Repeated rows among all."""
    if tables.schema.learned:
        return MetricResult((repeated_rows(tables),))
    return MetricResult(failures=(Failure(NAME, "skipped", "the schema has no column that is learned"),))


def repeated_rows(tables: Tables) -> Estimate:
    """The share of rows with an equal one in their table: of as many synthetic and training rows, as the share grows
    with their number. Rows that are equal are one piece of evidence.
    """

    def share(side: Side, n: int) -> Rate:
        keys = row_keys(getattr(tables, side).iloc[tables.order(side)[:n]], sorted(tables.schema.learned))
        _, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return clustered(counts[codes] > 1, codes)

    n_train = len(tables.train)
    n, n_fresh = min(n_train, len(tables.synthetic)), min(n_train, len(tables.holdout))
    train, synthetic = share("train", n), share("synthetic", n)
    value, low, high = newcombe(synthetic, train)
    fresh = share("holdout", n_fresh)[0] - share("train", n_fresh)[0]
    return Estimate(
        NAME, value, n, "lower", low=low, high=high, reference=fresh, floor=share("shuffled", n)[0] - train[0],
        note=f"Of {n:,} synthetic rows {synthetic[0]:.1%} have an equal one, of as many training rows {train[0]:.1%}.",
    )  # fmt: skip
