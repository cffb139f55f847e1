"""Groups of rows: k-means learned on synthetic rows, scored by the share of control rows' spread that it explains.

Rows are points by public facts wherever the schema declares these, and alike for all tables (`GroupSpace`). Two
categories are as far apart as the two ends of a number's bounds; missing and unknown values are levels, too.

Source: Lloyd 1982; Arthur & Vassilvitskii 2007 (k-means++).
"""

import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.estimate import NotMeasuredError
from evaluate.metrics import Metric
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import in_one_thread, weightings
from evaluate.utility.study import FittedModel, Scored, SeededRows

EXPLAINED = "utility.clusters.explained"
METRICS = (
    Metric(EXPLAINED, "higher", "Groups found in synthetic rows",
           "Share of the spread of real rows that groups explain which k-means found in synthetic ones.",
           describes="its interval is not simulated; name 'utility.queries.excess'", key=True),
)  # fmt: skip

N_SPLITS = 4  # Of synthetic rows in halves
LEARNED_ROWS = 10_000  # Rows that k-means without DP learns from at most
LEAST_EXPLAINED = -1.0  # Shares are cut off here: below it groups are merely useless

FORM = "k-means"
N_CENTERS = 8  # Groups that are looked for in every table
N_STARTS, N_ITERATIONS = 4, 100  # Of k-means: starts, of which the best on its own rows counts, and iterations at most
MAX_POINTS = 20_000  # Control rows at most
_AT_ONCE = 10_000  # Rows that are encoded at a time
N_KNOTS = 9  # Knots of a number without public bins


@dataclass(frozen=True)
class ScaledColumn:
    """One column's coordinates; their L2 norm is at most 1."""

    name: str
    column: Any
    n_knots: int | None = None

    @property
    def width(self) -> int:
        """Coordinates, one of them for missing and, with categories, one for others."""
        if self.column.is_categorical:
            return len(self.column.levels) + 2
        return (len(self._bins) - 1 if len(self._bins) else self.n_knots or N_KNOTS) + 1

    @cached_property
    def _bins(self) -> np.ndarray:
        """The column's public bins, where knots are not asked for."""
        bins = self.column.bins if self.n_knots is None else ()
        return np.array([self.column.position(edge) for edge in bins if edge is not None])

    def apply(self, series: pd.Series) -> np.ndarray:
        """Coordinates of the values, shape (n, width), float32."""
        points = np.zeros((len(series), self.width), dtype=np.float32)
        rows = np.arange(len(series))
        if self.column.is_categorical:
            codes = pd.Index(self.column.levels).get_indexer(pd.Index(series.astype(object)))
            codes = np.where(codes < 0, self.width - 2, codes)
            points[rows, np.where(series.isna().to_numpy(dtype=bool), self.width - 1, codes)] = 1.0
            return points
        positions = self.column.positions(series)
        missing = np.isnan(positions)
        low, share = self._places(np.where(missing, self.column.ends[0], positions))
        points[rows, np.where(missing, self.width - 1, low)] = np.where(missing, 1.0, 1.0 - share)
        upper = ~missing & (share > 0)
        points[rows[upper], low[upper] + 1] = share[upper]
        return points

    def _places(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bin or knot at or below each position, and how far it lies on the way to the next knot."""
        if len(self._bins):
            at = np.searchsorted(self._bins, positions, side="right") - 1
            return np.clip(at, 0, self.width - 2), np.zeros(len(positions))
        last, ends = self.width - 2, np.array(self.column.ends)
        if getattr(self.column, "scale", "linear") == "log":
            positions, ends = (np.sign(part) * np.log1p(np.abs(part)) for part in (positions, ends))
        places = (positions - ends[0]) / max(float(ends[1] - ends[0]), np.finfo(float).tiny) * last
        places = np.clip(places, 0.0, last)
        low = np.minimum(places.astype(np.int64), last - 1)
        return low, places - low


@dataclass(frozen=True)
class GroupSpace:
    """Rows as points: for each column a distribution over its levels."""

    columns: tuple[ScaledColumn, ...]

    @classmethod
    def of(cls, tables: Tables) -> "GroupSpace":
        """The space of all learned columns but survey weights, by public facts where the schema declares these."""
        declared = tables.declared
        names = sorted(n for n in declared.learned if not declared.columns[n].is_weight)
        is_public = {n: declared.status == "declared" and not declared.columns[n].is_measured for n in names}
        columns = {n: (declared if is_public[n] else tables.schema).columns[n] for n in names}
        return cls(tuple(ScaledColumn(name, column, n_knots=2) for name, column in columns.items()))

    @cached_property
    def starts(self) -> np.ndarray:
        """The first coordinate of each column, and the number of coordinates; shape (n_columns + 1,)."""
        return np.cumsum([0, *(column.width for column in self.columns)])

    def apply(self, frame: pd.DataFrame) -> sparse.csr_matrix:
        """Rows as points, shape (n, starts[-1]); the coordinates of a column are at least 0 and sum to 1."""
        starts = range(0, max(len(frame), 1), _AT_ONCE)
        blocks = [self._block(frame.iloc[start : start + _AT_ONCE]) for start in starts]
        return sparse.csr_matrix(sparse.vstack(blocks, format="csr"))

    def _block(self, frame: pd.DataFrame) -> sparse.csr_matrix:
        parts = [sparse.csr_matrix(column.apply(frame[column.name]), dtype=np.float64) for column in self.columns]
        return sparse.csr_matrix(sparse.hstack(parts, format="csr"))


@dataclass(frozen=True)
class Points(SeededRows):
    """Rows as points."""

    X: sparse.csr_matrix  # shape (n, d)
    units: np.ndarray

    @classmethod
    def of(cls, frame: pd.DataFrame, space: GroupSpace, tables: Tables, most: int = MAX_POINTS) -> "Points":
        order = tables.drawn(frame)[:most]
        units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
        return cls(space.apply(frame.iloc[order]), units)

    def where(self, chosen: np.ndarray) -> Self:
        return self if chosen.all() else type(self)(self.X[chosen], pd.factorize(self.units[chosen])[0])


def k_means(X: sparse.csr_matrix | np.ndarray, seed: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Centers (k, d) of the weighted *Sensitive* rows X (n, d): `N_CENTERS` of them, or as many as there are rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(min(N_CENTERS, X.shape[0]), n_init=N_STARTS, max_iter=N_ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        # Of fewer distinct rows than centers: some centers are then the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(in_one_thread(model.fit, X, None, weights).cluster_centers_)


def squared_distances(X: sparse.csr_matrix, centers: np.ndarray) -> np.ndarray:
    """Of all rows from all centers, shape (n, k), at least 0."""
    lengths = np.asarray(X.multiply(X).sum(axis=1))
    return np.asarray(np.maximum(lengths + (centers**2).sum(axis=1) - 2 * (X @ centers.T), 0.0))


@dataclass(frozen=True)
class ClusterStudy(Scored):
    """Centers from each side by the distances of the control rows from them. *Sensitive*."""

    space: GroupSpace
    test: Points
    n_learned: int

    @cached_property
    def spread(self) -> np.ndarray:
        """Squared distance of each control row from the mean of all, shape (n,)."""
        return squared_distances(self.test.X, np.asarray(self.test.X.mean(axis=0)))[:, 0]

    def score(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The share that centers explain, by the squared distances from the nearest of them."""
        spread = weights @ self.spread
        shares = 1 - (weights @ predictions) / np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, np.maximum(shares, LEAST_EXPLAINED), np.nan)


def nearest(test: Points, centers: np.ndarray) -> np.ndarray:
    """Squared distance of each control row from the nearest center, shape (n,)."""
    return np.asarray(squared_distances(test.X, centers).min(axis=1))


def measure(tables: Tables) -> MetricResult:
    """The share that groups found in synthetic rows explain (reference: in as many training rows)."""
    study = study_of(tables, GroupSpace.of(tables))
    note = f"share of the spread explained by {N_CENTERS} groups by k-means of {study.n_learned} rows"
    return MetricResult((study.estimate(EXPLAINED, FORM, (LEAST_EXPLAINED, 1.0), note),))


def study_of(tables: Tables, space: GroupSpace) -> ClusterStudy:
    """The centers of an evaluation, made once for the same tables."""
    if not space.columns:
        raise NotMeasuredError("no column is learned, or none with a declared domain")
    return tables.kept.once(("clusters", space), lambda: _study(tables, space))


def _study(tables: Tables, space: GroupSpace) -> ClusterStudy:
    frames = (tables.synthetic, tables.train, tables.fresh, tables.shuffled)
    test = Points.of(tables.control, space, tables)
    rows = [Points.of(frame, space, tables, LEARNED_ROWS) for frame in frames]
    n_rows = min(map(len, rows[:2]))
    sides = {}
    for name, points in zip(("tstr", "trtr", "fresh", "floor"), rows, strict=True):
        points = points.first(n_rows)
        kept = tables.kept if name == "tstr" else tables.kept_of_real
        n_splits = N_SPLITS if name == "tstr" else 0
        key = ("clusters", space, name, len(points))
        sides[name] = kept.once(key, partial(_learned, points, test, n_splits, tables.seed))
    study = ClusterStudy({FORM: sides}, tuple(weightings(test.units, tables.seed)), space, test, n_rows)
    if study.spread.sum() <= 1e-9:
        raise NotMeasuredError("the control rows are all the same")
    return study


def _learned(points: Points, test: Points, n_splits: int, seed: int) -> FittedModel:
    # All sides start and are split by the same draws: the same table twice gives the same centers.
    start, *splits = (int(n) for n in np.random.default_rng([seed, 11]).integers(2**31, size=1 + n_splits))
    halves = [points.halves(np.random.default_rng(split)) for split in splits]
    pairs = tuple((nearest(test, k_means(a.X, start)), nearest(test, k_means(b.X, start))) for a, b in halves)
    return FittedModel(converged=True, predictions=nearest(test, k_means(points.X, start)), half_predictions=pairs)
