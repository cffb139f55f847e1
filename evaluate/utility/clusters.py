"""Groups of rows: k-means learned on synthetic rows, scored by the share of control rows' spread that it explains."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.k_means import N_CENTERS, GroupSpace, Points, k_means, squared_distances
from evaluate.utility.scores import weightings
from evaluate.utility.study import FittedModel, Scored, interval

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


@dataclass(frozen=True)
class ClusterStudy(Scored):
    """Centers from each side by the distances of the control rows from them. *Sensitive*."""

    space: GroupSpace
    test: Points
    n_learned: int

    @cached_property
    def _spread(self) -> np.ndarray:
        """Squared distance of each control row from the mean of all, shape (n,)."""
        return squared_distances(self.test.X, np.asarray(self.test.X.mean(axis=0)))[:, 0]

    @property
    def varies(self) -> bool:
        """True where the control rows are not all the same."""
        return bool(self._spread.sum() > 1e-9)

    def score(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The share that centers explain, by the squared distances from the nearest of them."""
        spread = weights @ self._spread
        shares = 1 - (weights @ predictions) / np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, np.maximum(shares, LEAST_EXPLAINED), np.nan)


def nearest(test: Points, centers: np.ndarray) -> np.ndarray:
    """Squared distance of each control row from the nearest center, shape (n,)."""
    return np.asarray(squared_distances(test.X, centers).min(axis=1))


def measure(tables: Tables) -> MetricResult:
    """The share that groups found in synthetic rows explain (reference: in as many training rows)."""
    study = study_of(tables, GroupSpace.of(tables))
    if isinstance(study, str):
        return MetricResult(failures=(Failure(EXPLAINED, "skipped", study),))
    drawn = study.drawn(FORM, "tstr")
    low, high = interval(drawn, study.split(FORM, "tstr"), bounds=(LEAST_EXPLAINED, 1.0))
    estimate = Estimate(
        EXPLAINED, float(drawn[0]), len(study.test), "higher", low=low, high=high,
        reference=study.value(FORM, "trtr"), floor=study.value(FORM, "floor"),
        note=f"share of the spread explained by {N_CENTERS} groups by k-means of {study.n_learned} rows",
    )  # fmt: skip
    return MetricResult((estimate,))


def study_of(tables: Tables, space: GroupSpace) -> ClusterStudy | str:
    """The centers of an evaluation, or one sentence that says why there are none; made once for the same tables."""
    if not space.columns:
        return "no column is learned, or none with a declared domain"
    return tables.kept.once(("clusters", space), lambda: _made(tables, space))


def _made(tables: Tables, space: GroupSpace) -> ClusterStudy | str:
    frames = (tables.synthetic, tables.train, tables.fresh, tables.shuffled)
    test = Points.of(tables.control, space, tables)
    synthetic, train, fresh, shuffled = (Points.of(frame, space, tables, LEARNED_ROWS) for frame in frames)
    n_rows = min(len(synthetic), len(train))
    rows = {"tstr": synthetic, "trtr": train, "fresh": fresh, "floor": shuffled}
    sides = {}
    for name, points in rows.items():
        points = points.first(n_rows)
        kept = tables.kept if name == "tstr" else tables.kept_of_real
        n_splits = N_SPLITS if name == "tstr" else 0
        key = ("clusters", space, name, len(points))
        sides[name] = kept.once(key, partial(_learned, points, test, n_splits, tables.seed))
    study = ClusterStudy({FORM: sides}, tuple(weightings(test.units, tables.seed)), space, test, n_rows)
    return study if study.varies else "the control rows are all the same"


def _learned(points: Points, test: Points, n_splits: int, seed: int) -> FittedModel:
    # All sides start and are split by the same draws: the same table twice gives the same centers.
    start, *splits = (int(n) for n in np.random.default_rng([seed, 11]).integers(2**31, size=1 + n_splits))
    halves = [points.halves(np.random.default_rng(split)) for split in splits]
    pairs = tuple((nearest(test, k_means(a.X, start)), nearest(test, k_means(b.X, start))) for a, b in halves)
    return FittedModel(converged=True, predictions=nearest(test, k_means(points.X, start)), half_predictions=pairs)
