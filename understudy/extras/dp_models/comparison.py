"""What the alternatives share: repeated fits, and the comparison with the synthetic table."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evaluate.metrics import Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult
from evaluate.utility.study import Scored, interval

N_RUNS, N_SPLITS = 4, 4  # Fits that the score is the mean of, and splits of the training rows in halves
# On half the units. Half the noise would be as noisy as one fit; the score is the mean of several.
LESS_NOISE = math.sqrt(2 / N_RUNS) / 2
MAX_UNITS = 100_000  # Units that are learned from at most, so that a large table fits in memory


def metric(name: str, title: str, lead: str, better: str) -> Metric:
    return Metric(
        name, "lower", title, f"{lead} synthetic rows; above 0, the table costs that much.",
        describes=f"it says what another way would give, not how good the table is; name {better!r}",
    )  # fmt: skip


Predicted = tuple[list[np.ndarray], list[list[np.ndarray]]]  # of fits on all units, and on both halves of some splits


def repeated(units: Any, fit: Callable[[Any, float, float], np.ndarray], rng: np.random.Generator) -> Predicted:
    whole = [fit(units, 1.0, 1.0) for _ in range(N_RUNS)]
    splits = [units.halves(rng) for _ in range(N_SPLITS if len(units) > 1 else 0)]
    return whole, [[fit(half, LESS_NOISE, 0.5) for half in both] for both in splits]


def lead(
    measure: str, study: Scored, form: str, predicted: Predicted, bounds: tuple[float, float], note: str
) -> MetricResult:
    whole, pairs = np.mean([study.replicated(each) for each in predicted[0]], axis=0), study.of_halves(predicted[1])
    gap, halves = whole - study.drawn(form, "tstr"), study.split(form, "tstr")
    n_splits, value, width = min(len(pairs), len(halves)), float(whole[0]), bounds[1] - bounds[0]
    low, high = interval(gap, pairs[:n_splits] - halves[:n_splits], bounds=(-width, width))
    estimate = Estimate(
        measure, float(gap[0]), study.blocks[0].shape[1], "lower", low=low, high=high,
        reference=value - study.value(form, "fresh"), floor=value - study.value(form, "floor"),
        note=f"alternative ({value:.3f}) less what synthetic rows teach: {note}",
    )  # fmt: skip
    return MetricResult((estimate,))
