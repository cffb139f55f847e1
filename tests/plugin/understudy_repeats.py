"""A metric that somebody else's package brings: how often a synthetic row repeats the row above it."""

import pandas as pd

from evaluate.intervals import clopper_pearson
from evaluate.metrics import SYNTHETIC, Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables

METRICS = (
    Metric("order.repeats", "lower", "Rows that repeat", "Share of synthetic rows equal to the row above them.",
           counted=SYNTHETIC, key=True),
    Metric("validity.rows", "lower", "A name of ours", "It is not taken."),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    """Count, beside a fresh real sample and shuffled columns."""
    n, repeated = len(tables.synthetic) - 1, _repeats(tables.synthetic)
    low, high = clopper_pearson(repeated, n)
    sides = (_repeats(rows) / (len(rows) - 1) for rows in (tables.holdout, tables.shuffled))
    estimate = Estimate("order.repeats", repeated / n, n, "lower", (), low, high, *sides)
    return MetricResult((estimate,))


def _repeats(rows: pd.DataFrame) -> int:
    codes = rows.apply(lambda column: pd.factorize(column)[0])
    return int((codes.iloc[1:].to_numpy() == codes.iloc[:-1].to_numpy()).all(axis=1).sum())
