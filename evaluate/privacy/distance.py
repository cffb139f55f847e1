"""Distances to the closest training record, beside the same figures for the holdout: they describe, and decide nothing.

DCR is the distance from a row to its nearest training row, NNDR that distance divided by the distance to the second
nearest. Neither tells a leak of a few rows from none, which is why no rule should rest on them.

Source: Yao et al. 2025, arXiv:2505.01524 (why distances do not decide); the space is `evaluate.neighbors`.
"""

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.intervals import jackknife
from evaluate.metrics import Metric
from evaluate.neighbors import Space, SpaceRows, nearest, space_of
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables

_FAR = "distances do not find leaks; name 'privacy.membership.auc'"
METRICS = (
    Metric("privacy.dcr.median", "none", "Distance to closest record",
           "Median distance to the nearest training row (DCR). It describes; it finds no leak.", describes=_FAR),
    Metric("privacy.nndr.median", "none", "Nearest-neighbor ratio",
           "Median ratio of the nearest to the second nearest distance (NNDR). It only describes.", describes=_FAR),
    Metric("privacy.dcr.share_closer", "none", "Closer to training rows",
           "Share of synthetic rows nearer to a training row than to a held-out one.", describes=_FAR),
)  # fmt: skip

N_QUERIES = 5_000
MANY_PAIRS = 3e9  # Of queries and training rows: beyond so many, fewer rows are asked for their distance
LEAST_QUERIES = 2_000
N_GROUPS = 10
QUANTILES = np.round(np.linspace(0.0, 1.0, 51), 2)


def measure(tables: Tables) -> MetricResult:
    """Medians of DCR and NNDR, the share of synthetic rows nearer to training than to holdout rows, and quantiles.
    Estimates: `privacy.dcr.median`, `privacy.nndr.median`, `privacy.dcr.share_closer`. References are the same figures
    of fresh rows, on as many of them.
    """
    space = space_of(tables)
    n = min(len(tables.synthetic), len(tables.fresh), _n_queries(tables))
    synthetic = nearest(_drawn(space.synthetic, tables.synthetic, tables, n), space.train, k=2)
    fresh = nearest(_drawn(space.fresh, tables.fresh, tables, n), space.train, k=2)
    figures = {"quantiles": QUANTILES.tolist()}
    estimates = []
    for name, of, text in (("dcr", _dcr, "distance to the nearest training row"), ("nndr", _nndr, NNDR_NOTE)):
        estimates.append(_median(f"privacy.{name}.median", of(synthetic), of(fresh), f"median {text}"))
        figures[name] = {"synthetic": _quantiles(of(synthetic)), "holdout": _quantiles(of(fresh))}
    return MetricResult((*estimates, _share_closer(tables, space)), figures={"distance": figures})


NNDR_NOTE = "ratio of the distances to the nearest and the second nearest training row"


def _dcr(distances: np.ndarray) -> np.ndarray:
    return distances[:, 0]


def _nndr(distances: np.ndarray) -> np.ndarray:
    """The ratio; 1 where both distances are zero: a row with two twins is no single person's."""
    second = distances[:, 1]
    return np.where(second > 0, distances[:, 0] / np.where(second > 0, second, 1.0), 1.0)


def _n_queries(tables: Tables) -> int:
    return min(N_QUERIES, max(LEAST_QUERIES, int(MANY_PAIRS / len(tables.train))))


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


def _share_closer(tables: Tables, space: Space) -> Estimate:
    """The share of synthetic rows nearer to training than to holdout rows, as many of either; ties count half. The
    interval is a delete-a-group jackknife over queries and both pools at once: which real rows stand in the pools is as
    much chance as which synthetic rows are asked.
    """
    holdout = tables.holdout
    n = min(len(tables.train), len(holdout))
    train = _drawn(space.train, tables.train, tables, n)
    others = _drawn(space.fresh.joined(space.control), holdout, tables, n)
    queries = _drawn(space.synthetic, tables.synthetic, tables, _n_queries(tables))
    near, far = (_by_group(queries, pool) for pool in (train, others))
    value = _closer(near.min(axis=1), far.min(axis=1))
    group = np.arange(len(queries)) % N_GROUPS
    without = []
    for left_out in range(N_GROUPS if len(queries) > N_GROUPS else 0):
        rows = group != left_out
        parts = [np.delete(pool, left_out, axis=1)[rows].min(axis=1) for pool in (near, far)]
        without.append(_closer(*parts))
    low, high = jackknife(value, without, bounds=(0.0, 1.0)) if without else (0.0, 1.0)
    note = "share of synthetic rows that are nearer to training rows than to as many holdout rows; 0.5 tells nothing"
    name = "privacy.dcr.share_closer"
    return Estimate(name, value, len(queries), "none", low=low, high=high, reference=0.5, note=note)


def _by_group(queries: SpaceRows, pool: SpaceRows) -> np.ndarray:
    """Distances to the nearest row of each group of the pool; shape (len(queries), N_GROUPS)."""
    groups = [pool.take(np.arange(group, len(pool), N_GROUPS)) for group in range(N_GROUPS)]
    return np.column_stack([nearest(queries, group)[:, 0] for group in groups])


def _closer(near: np.ndarray, far: np.ndarray) -> float:
    return float(np.mean((near < far) + 0.5 * (near == far)))
