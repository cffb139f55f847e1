"""What the alternatives share: repeated fits, and the comparison with the synthetic table."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult
from evaluate.utility.study import interval

N_RUNS, N_SPLITS = 4, 4
"""Fits that the score is the mean of, each with noise of its own, and splits of the training rows in halves."""
LESS_NOISE = math.sqrt(2 / N_RUNS) / 2
"""On half the units. Half the noise would be as noisy as one fit; the score is the mean of several."""
MAX_UNITS = 100_000  # Units that are learned from at most, so that a large table fits in memory


def metrics(name: str, titles: tuple[str, str], score: str, lead: str, better: str) -> tuple[Metric, Metric]:
    """The score of an alternative, and its lead over what the same kind of model learns from synthetic rows."""
    why = f"it says what another way would give, not how good the table is; name {better!r}"
    cost = f"{lead} synthetic rows; above 0, the table costs that much."
    return (
        Metric(f"{name}.score", "none", titles[0], score, describes=why),
        Metric(f"{name}.gap", "lower", titles[1], cost, describes=why),
    )


def skipped(why: str, measures: Sequence[str]) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in measures))


def repeated(
    units: Any, fit: Callable[[Any, float, float], Any], rng: np.random.Generator
) -> tuple[list[Any], list[list[Any]]]:
    """What fits give on all units, and on both halves of some splits; a fit takes units, its noise and their part."""
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


def estimates(  # noqa: PLR0913 - two sides, their landmarks and their words
    measures: Sequence[str],
    drawn: np.ndarray,
    halves: np.ndarray,
    synthetic: tuple[np.ndarray, np.ndarray],
    landmarks: dict[str, float],
    bounds: tuple[float, float],
    n: int,
    note: str,
) -> MetricResult:
    """A score by its replicates and those of halves, and the same less that of the synthetic table."""
    n_splits, value, width = min(len(halves), len(synthetic[1])), float(drawn[0]), bounds[1] - bounds[0]
    gap, gap_halves = drawn - synthetic[0], halves[:n_splits] - synthetic[1][:n_splits]
    low, high = interval(drawn, halves, bounds=bounds)
    gap_low, gap_high = interval(gap, gap_halves, bounds=(-width, width))
    return MetricResult((
        Estimate(
            measures[0], value, n, "none", low=low, high=high,
            reference=landmarks["trtr"], floor=landmarks["floor"], note=note,
        ),
        Estimate(
            measures[1], float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=value - landmarks["fresh"], floor=value - landmarks["floor"],
            note=f"alternative less what synthetic rows teach: {note}",
        ),
    ))  # fmt: skip
