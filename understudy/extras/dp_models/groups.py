"""k-means with DP of real rows: Lloyd's rounds, as many as are fixed beforehand, from public centers.

Each round releases the sums of the rows of all groups at once, as whole numbers with discrete Gaussian noise. The
coordinates of a column sum to 1 for every row, so that these sums hold the sizes of the groups, too. Each unit adds a
bounded number of rows, each to one group. The first rounds find many small groups; k-means of their noisy means,
weighted by noisy sizes, gives the centers that the last rounds start from. All that is done with noisy sums is free:
means are drawn towards the overall one as far as their noise asks for (James & Stein), and brought back to where
distributions are. (diffprivlib tests without noise whether a group is empty, and has rounds by the number of rows.)

Source: Su, Cao, Li, Bertino, Jin 2016 (1504.05998) for DP-Lloyd; Wang & Carreira-Perpinan 2013 (1309.1541) for the
projection; James & Stein 1961, positive part.

# DEVIATES: from Su et al., one Gaussian release a round instead of Laplace noise on each coordinate, at the price of
the square root of the number of columns; the number of rounds is fixed; the first rounds have more groups.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.result import Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.clusters import (
    FORM,
    LEAST_EXPLAINED,
    N_CENTERS,
    ClusterStudy,
    GroupSpace,
    Points,
    k_means,
    nearest,
    squared_distances,
    study_of,
)
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, ceil_sqrt, gaussian_of_rho
from synth.dp.mechanisms import InjectedNoise
from synth.dp.schedule import Schedule, calibrate
from understudy.extras.dp_models.regression import MAX_UNITS, N_RUNS, lead, metric, repeated

N_SMALL = 64  # Groups of the first rounds
N_FIRST, N_LAST = 2, 2  # Rounds with so many groups, and then with `N_CENTERS`
FINENESS, LEAST_FINENESS = 256, 8  # The whole number that stands for 1 where a unit has one row, and at least
WHAT = "sums of groups of rows"
LEAST_ERRORS = 4.0  # Standard errors of its noisy size that a group needs, or its center stays where it was
GAP = "utility.clusters.dp_alternative.gap"
METRICS = (
    metric(
        GAP, "Groups, cost of going through a table", "Share of the spread that groups explain which k-means with DP "
        "found in the real rows at the table's epsilon, minus that of groups found in", "utility.queries.excess",
    ),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    study: ClusterStudy | str
    claim = tables.claim
    if claim is None:
        study = "the table makes no privacy claim, so there is no epsilon to find groups at"
    elif tables.declared.status != "declared":
        study = "the schema is inferred: bounds that were read off the table may not be used"
    else:
        study = study_of(tables, public_space(tables))
    if claim is None or isinstance(study, str):
        return MetricResult(failures=(Failure(GAP, "skipped", str(study)),))
    k, n_columns = claim.max_rows_per_unit, len(study.space.columns)
    event = planned(claim.epsilon, claim.delta, n_columns, k)
    points = Points.of(tables.train, study.space, tables, most=len(tables.train))
    # The rows at hand may be a sample already. Of a share of the units, sums and their noise are less in proportion.
    share = min(1.0, MAX_UNITS / (int(points.units.max()) + 1)) * tables.share_at_hand("train")
    rng = np.random.default_rng([tables.seed, 12])

    def distances(rows: Points, noise: float, _: float) -> np.ndarray:
        quieter = replace(event, sigma=noise * share * event.sigma)
        budget = Budget(Schedule((quieter,), claim.delta), InjectedNoise(rng))
        return nearest(study.test, DpLloyd(study.space, quieter, k).fit(rows, budget))

    predicted = repeated(points.where(points.units < MAX_UNITS), distances, rng)
    note = (
        f"{N_CENTERS} groups by DP-Lloyd at epsilon={claim.epsilon:.3g}, delta={claim.delta:.3g}, mean of {N_RUNS} "
        f"runs, {n_columns} columns with a declared domain, noise multiplier {event.noise_multiplier:.3g} in each of "
        f"{event.count} rounds"
    )
    return lead(GAP, study, FORM, predicted, (LEAST_EXPLAINED, 1.0), note)


def public_space(tables: Tables) -> GroupSpace:
    space = GroupSpace.of(replace(tables, schema=tables.declared))
    return GroupSpace(tuple(column for column in space.columns if not column.column.is_measured))


def fineness(max_rows_per_unit: int) -> int:
    """The whole number that stands for 1: less where a unit has many rows, since discrete noise is costly to price."""
    return max(LEAST_FINENESS, FINENESS // max_rows_per_unit)


def sensitivity(n_columns: int, max_rows_per_unit: int) -> int:
    """The L2 distance by which one unit moves the sums of all groups together, rounded up.

    A row adds at most `fineness` over the coordinates of each column, to one group.

    >>> sensitivity(4, 1), sensitivity(4, 2), sensitivity(5, 1)
    (512, 512, 573)
    """
    return ceil_sqrt((max_rows_per_unit * fineness(max_rows_per_unit)) ** 2 * n_columns)


def planned(epsilon: float, delta: float, n_columns: int, max_rows_per_unit: int) -> GaussianEvent:
    """The rounds of DP-Lloyd that a claim allows."""
    moved = sensitivity(n_columns, max_rows_per_unit)
    return calibrate(
        lambda rho: [gaussian_of_rho(WHAT, rho, count=N_FIRST + N_LAST, sensitivity=moved)], epsilon, delta
    ).required(WHAT, GaussianEvent)


def bounded(points: Points, max_rows_per_unit: int) -> Points:
    rank = pd.Series(points.units).groupby(points.units).cumcount().to_numpy()
    return points.where(rank < max_rows_per_unit)


def inside(points: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The nearest points whose columns, from `starts`, are distributions; shape (k, starts[-1]).

    Source: Wang & Carreira-Perpinan 2013 (1309.1541), Algorithm 1.
    """
    nearest = np.empty_like(points)
    for first, end in pairwise(starts):
        part, width = points[:, first:end], end - first
        ranked = -np.sort(-part, axis=1)
        shifts = (1 - np.cumsum(ranked, axis=1)) / np.arange(1, width + 1)
        last = (ranked + shifts > 0).sum(axis=1) - 1
        nearest[:, first:end] = np.maximum(part + shifts[np.arange(len(part)), last, None], 0.0)
    return nearest


@dataclass(frozen=True)
class DpLloyd:
    space: GroupSpace
    event: GaussianEvent
    max_rows_per_unit: int = 1

    def fit(self, points: Points, budget: Budget) -> np.ndarray:
        """Centers, shape (N_CENTERS, d). `points`: *Sensitive*. Of each unit so many rows count."""
        X = bounded(points, self.max_rows_per_unit).X
        small, sizes = self._rounds(X, self.start(N_SMALL), N_FIRST, budget)
        is_large = sizes > 0
        centers = self.start(N_CENTERS)
        if is_large.sum() > N_CENTERS:
            centers = k_means(small[is_large], 0, sizes[is_large])
        elif is_large.any():
            centers[: is_large.sum()] = small[is_large]
        return self._rounds(X, centers, N_LAST, budget)[0]

    def start(self, n_groups: int) -> np.ndarray:
        """Public centers, in each of which a column's distribution is a random one; shape (n_groups, d)."""
        rng = np.random.default_rng(n_groups)
        return np.hstack([rng.dirichlet(np.ones(column.width), n_groups) for column in self.space.columns])

    def _rounds(
        self, X: sparse.csr_matrix, centers: np.ndarray, n_rounds: int, budget: Budget
    ) -> tuple[np.ndarray, np.ndarray]:
        """Centers after some rounds, shape (k, d), and noisy sizes, 0 for groups that are too small; shape (k,)."""
        scale = fineness(self.max_rows_per_unit)
        whole = sparse.csr_matrix((np.floor(X.data * scale).astype(np.int64), X.indices, X.indptr), X.shape)
        n, sizes = X.shape[0], np.zeros(len(centers))
        for _ in range(n_rounds):
            groups = squared_distances(X, centers).argmin(axis=1)
            members = sparse.csr_matrix((np.ones(n, np.int64), (groups, np.arange(n))), (len(centers), n))
            sums = budget.release(np.asarray((members @ whole).toarray()), self.event) / scale
            centers, sizes = self._moved(centers, sums)
        return centers, sizes

    def _moved(self, centers: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centers and sizes by noisy sums, shapes (k, d) and (k,). A group that is too small stays; if all are, the
        first center is the overall mean.
        """
        starts = self.space.starts
        widths, noise = np.diff(starts), self.event.sigma / fineness(self.max_rows_per_unit)
        # Each column tells the size of a group, with noise by its width: their weighted mean.
        weights = np.repeat(1 / widths, widths) / (1 / widths).sum()
        sizes, least = sums @ weights, LEAST_ERRORS * noise * math.sqrt((weights**2).sum())
        is_large, total = sizes > least, float(sizes.sum())
        moved = centers.copy()
        if total <= least * math.sqrt(len(sums)):
            return moved, np.zeros(len(sums))
        mean = inside(sums.sum(axis=0, keepdims=True) / total, starts)[0]
        apart = sums[is_large] / sizes[is_large, None] - mean
        squares = np.add.reduceat(apart**2, starts[:-1], axis=1)
        by_noise = widths * (noise / sizes[is_large, None]) ** 2
        shares = np.maximum(0.0, 1 - by_noise / np.maximum(squares, np.finfo(float).tiny))
        moved[is_large] = inside(mean + apart * np.repeat(shares, widths, axis=1), starts)
        if not is_large.any():
            moved[0] = mean
        return moved, np.where(is_large, sizes, 0.0)
