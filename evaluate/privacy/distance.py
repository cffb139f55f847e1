"""Distances to the closest training record, beside the same figures for the holdout: they describe, and decide nothing.

DCR is the distance from a row to its nearest training row, NNDR that distance divided by the distance to the second
nearest. Neither tells a leak of a few rows from none, which is why no rule should rest on them.

Source: Yao et al. 2025, arXiv:2505.01524 (why distances do not decide); the space is `evaluate.neighbors`.
"""

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.metrics import Metric
from evaluate.neighbors import SpaceRows, nearest, space_of
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
    """Medians of DCR and NNDR, and quantiles; references are the same figures of fresh rows, on as many of them.
    Estimates: `privacy.dcr.median`, `privacy.nndr.median`.
    """
    space = space_of(tables)
    n_affordable = min(N_QUERIES, max(LEAST_QUERIES, int(MANY_PAIRS / len(tables.train))))
    n = min(len(tables.synthetic), len(tables.fresh), n_affordable)
    synthetic = nearest(_drawn(space.synthetic, tables.synthetic, tables, n), space.train, k=2)
    fresh = nearest(_drawn(space.fresh, tables.fresh, tables, n), space.train, k=2)
    figures = {"quantiles": QUANTILES.tolist()}
    estimates = []
    nndr = "ratio of the distances to the nearest and the second nearest training row"
    for name, of, text in (("dcr", _dcr, "distance to the nearest training row"), ("nndr", _nndr, nndr)):
        estimates.append(_median(f"privacy.{name}.median", of(synthetic), of(fresh), f"median {text}"))
        figures[name] = {"synthetic": _quantiles(of(synthetic)), "holdout": _quantiles(of(fresh))}
    return MetricResult(tuple(estimates), figures={"distance": figures})


def _dcr(distances: np.ndarray) -> np.ndarray:
    return distances[:, 0]


def _nndr(distances: np.ndarray) -> np.ndarray:
    """The ratio; 1 where both distances are zero: a row with two twins is no single person's."""
    second = distances[:, 1]
    return np.where(second > 0, distances[:, 0] / np.where(second > 0, second, 1.0), 1.0)


def _drawn(rows: SpaceRows, frame: pd.DataFrame, tables: Tables, n: int) -> SpaceRows:
    return rows.take(tables.drawn(frame)[:n])


def _quantiles(distances: np.ndarray) -> list[float]:
    return [round(float(q), 6) for q in np.quantile(distances, QUANTILES)]


def _median(name: str, values: np.ndarray, fresh: np.ndarray, note: str) -> Estimate:
    ranked, n = np.sort(values), len(values)
    below = int(stats.binom.ppf(0.025, n, 0.5))
    low, high = ranked[max(0, below - 1)], ranked[min(n - 1, n - below)]
    value, reference = float(np.median(ranked)), float(np.median(fresh))
    return Estimate(name, value, n, "none", low=float(low), high=float(high), reference=reference, note=note)
