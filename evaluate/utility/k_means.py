"""k-means of rows, as it is and with DP: the space of the rows, their groups, and how alike two groupings are.

Rows are points by public facts wherever the schema declares these, and alike for all tables (`GroupSpace`). A category
is a coordinate of its own; a number lies between the two ends of its bounds; missing and unknown values are levels,
too. So each column is a distribution over its levels. Two categories are as far apart as the two ends of a number, and
a row has a length of at most the square root of the number of its columns.

**With DP** (`DpLloyd`): Lloyd's rounds, as many as are fixed beforehand, from public centers. Each releases the sums of
the rows of all groups at once, as whole numbers with discrete Gaussian noise. The coordinates of a column sum to 1 for
every row, so that these sums hold the sizes of the groups, too. Each unit adds a bounded number of rows, each to one
group. The first rounds find many small groups; k-means of their noisy means, weighted by noisy sizes, gives the centers
that the last rounds start from. All that is done with noisy sums is free: means are drawn towards the overall one as
far as their noise asks for (James & Stein), and brought back to where distributions are.

Source: Lloyd 1982; Arthur & Vassilvitskii 2007 (k-means++); Hubert & Arabie 1985 (adjusted Rand index); Su, Cao, Li,
Bertino, Jin 2016 (1504.05998) for DP-Lloyd; Wang & Carreira-Perpinan 2013 (1309.1541) for the projection; James &
Stein 1961, positive part.

# DEVIATES: from Su et al., one Gaussian release a round instead of Laplace noise on each coordinate, at the price of
the square root of the number of columns instead of that number; sizes follow from the sums; the number of rounds is
fixed, since theirs depends on the exact number of rows; the first rounds have more groups than are asked for.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from evaluate.utility.dp_alternative import ScaledColumn
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, ceil_sqrt, gaussian_of_rho
from synth.dp.schedule import Plan, calibrate
from synth.schema import Schema

N_CENTERS = 8  # Groups that are looked for in every table
N_STARTS, N_ITERATIONS = 4, 100  # Of k-means: starts, of which the best on its own rows counts, and iterations at most
MAX_ROWS = 20_000  # Control rows at most
N_SMALL = 64  # Groups of the first rounds with DP
N_FIRST, N_LAST = 2, 2  # Rounds with so many groups, and then with `N_CENTERS`
FINENESS, LEAST_FINENESS = 256, 8
"""The whole number that stands for 1 in a coordinate where a unit has one row, and at least."""
_AT_ONCE = 10_000  # Rows that are encoded at a time
WHAT = "sums of groups of rows"
LEAST_ERRORS = 4.0  # Standard errors of its noisy size that a group needs, or its center stays where it was


@dataclass(frozen=True)
class GroupSpace:
    """Rows as points: for each column a distribution over its levels."""

    columns: tuple[ScaledColumn, ...]

    @classmethod
    def of(cls, tables: Tables, *, public: bool = False) -> "GroupSpace":
        """The space of all learned columns but survey weights, or of those among them whose domain is public."""
        declared = tables.declared
        names = sorted(n for n in declared.learned if not declared.columns[n].is_weight)
        known = [n for n in names if _is_public(declared, n)]
        columns = {n: (declared if n in known else tables.schema).columns[n] for n in (known if public else names)}
        return cls(tuple(ScaledColumn(name, column, n_knots=2) for name, column in columns.items()))

    @cached_property
    def starts(self) -> np.ndarray:
        """The first coordinate of each column, and the number of coordinates; shape (n_columns + 1,)."""
        return np.cumsum([0, *(column.width for column in self.columns)])

    @property
    def n_coordinates(self) -> int:
        return int(self.starts[-1])

    def apply(self, frame: pd.DataFrame) -> sparse.csr_matrix:
        """Rows as points, shape (n, n_coordinates); the coordinates of a column are at least 0 and sum to 1."""
        starts = range(0, max(len(frame), 1), _AT_ONCE)
        blocks = [self._block(frame.iloc[start : start + _AT_ONCE]) for start in starts]
        return sparse.csr_matrix(sparse.vstack(blocks, format="csr"))

    def _block(self, frame: pd.DataFrame) -> sparse.csr_matrix:
        parts = [sparse.csr_matrix(column.apply(frame[column.name]), dtype=np.float64) for column in self.columns]
        return sparse.csr_matrix(sparse.hstack(parts, format="csr"))

    def inside(self, points: np.ndarray) -> np.ndarray:
        """The nearest points whose columns are distributions; shape (k, n_coordinates).

        Source: Wang & Carreira-Perpinan 2013 (1309.1541), Algorithm 1.
        """
        found = np.empty_like(points)
        for first, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            part, width = points[:, first:end], end - first
            ranked = -np.sort(-part, axis=1)
            shifts = (1 - np.cumsum(ranked, axis=1)) / np.arange(1, width + 1)
            last = (ranked + shifts > 0).sum(axis=1) - 1
            found[:, first:end] = np.maximum(part + shifts[np.arange(len(part)), last, None], 0.0)
        return found


def _is_public(declared: Schema, name: str) -> bool:
    return declared.status == "declared" and not declared.columns[name].is_measured


@dataclass(frozen=True)
class Points:
    """Rows as points, in a seeded order. *Sensitive* where the rows are real."""

    X: sparse.csr_matrix  # shape (n, d)
    units: np.ndarray  # the entity of each row, or the row itself, numbered from 0 in that order; shape (n,)

    @classmethod
    def of(cls, frame: pd.DataFrame, space: GroupSpace, tables: Tables, most: int = MAX_ROWS) -> "Points":
        order = tables.drawn(frame)[:most]
        units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
        return cls(space.apply(frame.iloc[order]), units)

    def __len__(self) -> int:
        return len(self.units)

    def first(self, n_rows: int) -> "Points":
        """The first rows of them, which are a sample."""
        return self.where(np.arange(len(self)) < n_rows)

    def where(self, chosen: np.ndarray) -> "Points":
        """The rows of a mask of shape (n,)."""
        return self if chosen.all() else Points(self.X[chosen], pd.factorize(self.units[chosen])[0])

    def halves(self, rng: np.random.Generator) -> "tuple[Points, Points]":
        """The rows in two, whole units together; rows of one unit alone come twice."""
        n_units = int(self.units.max()) + 1
        if n_units == 1:
            return self, self
        first = np.zeros(n_units, dtype=bool)
        first[rng.permutation(n_units)[: n_units // 2]] = True
        return self.where(first[self.units]), self.where(~first[self.units])


def k_means(X: sparse.csr_matrix | np.ndarray, seed: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Centers of groups, shape (k, d): `N_CENTERS` of them, or as many as there are rows. `X`: *Sensitive* where the
    rows are real. Shape (n, d). `weights`: of the rows, shape (n,); `None`: all alike.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    model = KMeans(min(N_CENTERS, X.shape[0]), n_init=N_STARTS, max_iter=N_ITERATIONS, random_state=seed)
    with threadpool_limits(1), warnings.catch_warnings():
        # Of fewer distinct rows than centers: some centers are then the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(X, sample_weight=weights).cluster_centers_)


def squared_distances(X: sparse.csr_matrix, centers: np.ndarray) -> np.ndarray:
    """Of all rows from all centers, shape (n, k), at least 0."""
    lengths = np.asarray(X.multiply(X).sum(axis=1))
    return np.asarray(np.maximum(lengths + (centers**2).sum(axis=1) - 2 * (X @ centers.T), 0.0))


def adjusted_rand(cells: np.ndarray) -> np.ndarray:
    """The adjusted Rand index of two groupings; shape (b,). `cells`: how many rows are in a group of the one and a
    group of the other, shape (b, k, k).

    Source: Hubert & Arabie 1985, equation 5.

    >>> adjusted_rand(np.array([[[2, 0], [0, 3]], [[1, 1], [1, 2]]])).round(3).tolist()
    [1.0, -0.25]
    """
    n = cells.sum(axis=(1, 2))
    together = _pairs(cells).sum(axis=(1, 2))
    first, second = (_pairs(cells.sum(axis=axis)).sum(axis=1) for axis in (1, 2))
    by_chance, most = first * second / np.maximum(_pairs(n), 1.0), (first + second) / 2
    # One group alone on both sides, or all rows apart on both: they are the same.
    varies = most - by_chance > 1e-12 * np.maximum(most, 1.0)
    return np.where(varies, (together - by_chance) / np.where(varies, most - by_chance, 1.0), 1.0)


def _pairs(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts * (counts - 1) / 2)


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

    def events(rho: float) -> list[Event]:
        return [gaussian_of_rho(WHAT, rho, count=N_FIRST + N_LAST, sensitivity=moved)]

    plan: Plan = events
    (event,) = calibrate(plan, epsilon, delta).events
    if not isinstance(event, GaussianEvent):
        raise TypeError("the plan of k-means has Gaussian noise and nothing else")
    return event


def bounded(points: Points, max_rows_per_unit: int) -> Points:
    place = pd.Series(points.units).groupby(points.units).cumcount().to_numpy()
    return points.where(place < max_rows_per_unit)


def group_sums(whole: sparse.csr_matrix, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Sums of the rows of each group, shape (n_groups, d), int64. `whole`: *Sensitive*. Rows in whole numbers, shape
    (n, d). `groups`: *Sensitive*. The group of each, shape (n,).
    """
    n_rows = len(groups)
    members = sparse.csr_matrix((np.ones(n_rows, np.int64), (groups, np.arange(n_rows))), (n_groups, n_rows))
    return np.asarray((members @ whole).toarray())


@dataclass(frozen=True)
class DpLloyd:
    space: GroupSpace
    event: GaussianEvent
    max_rows_per_unit: int = 1

    def fit(self, points: Points, budget: Budget) -> np.ndarray:
        """Centers, shape (N_CENTERS, d). `points`: *Sensitive*. Rows of the space; of each unit no more count than the
        event allows for.
        """
        X = bounded(points, self.max_rows_per_unit).X
        small, sizes = self._rounds(X, self._start(N_SMALL), N_FIRST, budget)
        is_large = sizes > 0
        centers = self._start(N_CENTERS)
        if is_large.sum() > N_CENTERS:
            centers = k_means(small[is_large], 0, sizes[is_large])
        elif is_large.any():
            centers[: is_large.sum()] = small[is_large]
        return self._rounds(X, centers, N_LAST, budget)[0]

    def _start(self, n_groups: int) -> np.ndarray:
        """Public centers, in each of which a column's distribution is a random one; shape (n_groups, d)."""
        rng = np.random.default_rng(n_groups)
        return np.hstack([rng.dirichlet(np.ones(column.width), n_groups) for column in self.space.columns])

    def _rounds(
        self, X: sparse.csr_matrix, centers: np.ndarray, n_rounds: int, budget: Budget
    ) -> tuple[np.ndarray, np.ndarray]:
        """Centers after some rounds, shape (k, d), and noisy sizes, 0 for groups that are too small; shape (k,)."""
        scale = fineness(self.max_rows_per_unit)
        whole = sparse.csr_matrix((np.floor(X.data * scale).astype(np.int64), X.indices, X.indptr), X.shape)
        sizes = np.zeros(len(centers))
        for _ in range(n_rounds):
            groups = squared_distances(X, centers).argmin(axis=1)
            sums = budget.release(group_sums(whole, groups, len(centers)), self.event) / scale
            centers, sizes = self._moved(centers, sums)
        return centers, sizes

    def _moved(self, centers: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centers and sizes by noisy sums, shapes (k, d) and (k,). A group that is too small stays; if all are, so
        that nothing tells groups apart, the first center is the overall mean.
        """
        widths = np.diff(self.space.starts)
        noise = self.event.sigma / fineness(self.max_rows_per_unit)
        # Each column tells the size of a group, with noise by its width: their weighted mean.
        weights = np.repeat(1 / widths, widths) / (1 / widths).sum()
        sizes, least = sums @ weights, LEAST_ERRORS * noise * math.sqrt((weights**2).sum())
        is_large, total = sizes > least, float(sizes.sum())
        moved = centers.copy()
        if total <= least * math.sqrt(len(sums)):
            return moved, np.zeros(len(sums))
        mean = self.space.inside(sums.sum(axis=0, keepdims=True) / total)[0]
        apart = sums[is_large] / sizes[is_large, None] - mean
        squares = np.add.reduceat(apart**2, self.space.starts[:-1], axis=1)
        by_noise = widths * (noise / sizes[is_large, None]) ** 2
        shares = np.maximum(0.0, 1 - by_noise / np.maximum(squares, np.finfo(float).tiny))
        moved[is_large] = self.space.inside(mean + apart * np.repeat(shares, widths, axis=1))
        if not is_large.any():
            moved[0] = mean
        return moved, np.where(is_large, sizes, 0.0)
