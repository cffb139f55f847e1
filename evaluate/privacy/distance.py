"""Distances to the closest training record, beside the same figures for the holdout: they describe, and decide nothing.

Source: Yao et al. 2025, arXiv:2505.01524 (why distances do not decide); the space is `evaluate.neighbors`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from evaluate.metrics import Metric
from evaluate.neighbors import nearest, space_of
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables

_FAR = "distances do not find leaks; name 'privacy.membership.auc'"
METRICS = (
    Metric("privacy.dcr.median", "none", "Distance to closest record",
           "Median distance to the nearest training row (DCR). It describes; it finds no leak.", describes=_FAR),
    Metric("privacy.nndr.median", "none", "Nearest-neighbor ratio",
           "Median ratio of the nearest to the second nearest distance (NNDR). It only describes.", describes=_FAR),
)  # fmt: skip

N_QUERIES = 5_000
MANY_PAIRS = 3e9  # Of queries and training rows: beyond so many, fewer rows are asked for their distance
LEAST_QUERIES = 2_000
QUANTILES = np.round(np.linspace(0.0, 1.0, 51), 2)


def measure(tables: Tables) -> MetricResult:
    """Medians of DCR and NNDR, and quantiles; references are the same figures of fresh rows, on as many of them."""
    space = space_of(tables)
    n_affordable = min(N_QUERIES, max(LEAST_QUERIES, int(MANY_PAIRS / len(tables.train))))
    n, dcr, nndr = min(len(tables.synthetic), len(tables.fresh), n_affordable), {}, {}
    for side, frame in (("synthetic", tables.synthetic), ("holdout", tables.fresh)):
        rows = (space.synthetic if side == "synthetic" else space.fresh).take(tables.drawn(frame)[:n])
        first, second = nearest(rows, space.train, k=2).T
        # 1 where both distances are zero: a row with two twins is no single person's.
        dcr[side], nndr[side] = first, np.where(second > 0, first / np.where(second > 0, second, 1.0), 1.0)
    ratio = "ratio of the distances to the nearest and the second nearest training row"
    estimates = (
        _median("privacy.dcr.median", dcr, "distance to the nearest training row"),
        _median("privacy.nndr.median", nndr, ratio),
    )
    figures: dict[str, Any] = {"quantiles": QUANTILES.tolist()}
    for name, sides in (("dcr", dcr), ("nndr", nndr)):
        figures[name] = {side: np.quantile(values, QUANTILES).round(6).tolist() for side, values in sides.items()}
    return MetricResult(estimates, figures={"distance": figures})


def _median(name: str, values: Mapping[str, np.ndarray], what: str) -> Estimate:
    ranked, n = np.sort(values["synthetic"]), len(values["synthetic"])
    below = int(stats.binom.ppf(0.025, n, 0.5))
    low, high = float(ranked[max(0, below - 1)]), float(ranked[min(n - 1, n - below)])
    value, reference = (float(np.median(side)) for side in (ranked, values["holdout"]))
    return Estimate(name, value, n, "none", low=low, high=high, reference=reference, note=f"median {what}")
