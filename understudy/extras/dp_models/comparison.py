"""What the alternatives share: repeated fits, and the comparison with the synthetic table."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evaluate.metrics import Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult
from evaluate.utility.study import interval

N_RUNS, N_SPLITS = 4, 4
"""Fits that the score is the mean of, each with noise of its own, and splits of the training rows in halves."""
LESS_NOISE = math.sqrt(2 / N_RUNS) / 2
"""On half the units. Half the noise would be as noisy as one fit; the score is the mean of several."""
MAX_UNITS = 100_000  # Units that are learned from at most, so that a large table fits in memory


def metric(name: str, title: str, lead: str, better: str) -> Metric:
    """The lead of an alternative over what the same kind of model learns from synthetic rows."""
    return Metric(
        name, "lower", title, f"{lead} synthetic rows; above 0, the table costs that much.",
        describes=f"it says what another way would give, not how good the table is; name {better!r}",
    )  # fmt: skip


def repeated(
    units: Any, fit: Callable[[Any, float, float], Any], rng: np.random.Generator
) -> tuple[list[Any], list[list[Any]]]:
    """What fits give on all units, and on both halves of some splits; a fit takes units, its noise and their part."""
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


def lead(
    measure: str,
    drawn: tuple[np.ndarray, np.ndarray],
    halves: tuple[np.ndarray, np.ndarray],
    landmarks: tuple[float, float],
    bounds: tuple[float, float],
    n: int,
    note: str,
) -> MetricResult:
    """The score of the alternative less that of the synthetic table, by replicates of both and of their halves.
    `landmarks`: scores of models of fresh real rows and of shuffled columns.
    """
    n_splits, value, width = min(map(len, halves)), float(drawn[0][0]), bounds[1] - bounds[0]
    gap = drawn[0] - drawn[1]
    low, high = interval(gap, halves[0][:n_splits] - halves[1][:n_splits], bounds=(-width, width))
    estimate = Estimate(
        measure, float(gap[0]), n, "lower", low=low, high=high,
        reference=value - landmarks[0], floor=value - landmarks[1],
        note=f"alternative ({value:.3f}) less what synthetic rows teach: {note}",
    )  # fmt: skip
    return MetricResult((estimate,))
