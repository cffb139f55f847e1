"""Groups of rows: k-means learned on synthetic rows and scored on real ones.

Centers are learned on synthetic rows and on as many training rows; on fresh real rows; and on training rows whose
columns were shuffled. All are scored on the same control rows, which none of them saw: by the share of the spread of
these rows that the nearest centers explain (1 - squared distance to the nearest center / squared distance to the mean).

There are `N_CENTERS` centers for every table, and one space of the rows, by the schema (`evaluate.utility.k_means`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.k_means import N_CENTERS, GroupSpace, Points, k_means, squared_distances
from evaluate.utility.scores import weightings
from evaluate.utility.study import N_FEWER, interval

EXPLAINED = "utility.clusters.explained"
METRICS = (
    Metric(EXPLAINED, "higher", "Groups found in synthetic rows",
           "Share of the spread of real rows that groups explain which k-means found in synthetic ones.",
           describes="its interval is not simulated; name 'utility.queries.excess'", key=True),
)  # fmt: skip

N_SPLITS = 4  # Of synthetic rows in halves
LEARNED_ROWS = 10_000  # Rows that k-means without DP learns from at most
LEAST_EXPLAINED = -1.0  # Shares are cut off here: below it groups are merely useless

Figure = Callable[[np.ndarray], np.ndarray]
"""Of weightings of the control rows, shape (b, n): a number for each, shape (b,)."""


@dataclass(frozen=True)
class Grouping:
    centers: np.ndarray  # learned on all of its rows, shape (k, d)
    halves: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class ClusterStudy:
    """Centers from each side, and the control rows that they are scored on. *Sensitive*."""

    space: GroupSpace
    test: Points
    sides: Mapping[str, Grouping]
    blocks: tuple[np.ndarray, ...]
    n_learned: int

    @cached_property
    def _spread(self) -> np.ndarray:
        """Squared distance of each control row from the mean of all, shape (n,)."""
        return squared_distances(self.test.X, np.asarray(self.test.X.mean(axis=0)))[:, 0]

    @property
    def varies(self) -> bool:
        """True where the control rows are not all the same."""
        return bool(self._spread.sum() > 1e-9)

    def explained(self, centers: np.ndarray) -> Figure:
        nearest = squared_distances(self.test.X, centers).min(axis=1)

        def share(weights: np.ndarray) -> np.ndarray:
            spread = weights @ self._spread
            shares = 1 - (weights @ nearest) / np.where(spread > 0, spread, 1.0)
            return np.where(spread > 0, np.maximum(shares, LEAST_EXPLAINED), np.nan)

        return share

    def value(self, side: str) -> float:
        """The share that the centers of one side explain, on the control rows as they are."""
        return float(self.explained(self.sides[side].centers)(self.blocks[0])[0])

    def drawn(self, figure: Figure) -> np.ndarray:
        """A figure on the control rows as they are, then on each weighting; shape (1 + n_replicates,)."""
        return np.concatenate([figure(weights) for weights in self.blocks])

    def fewer(self, pairs: Sequence[Sequence[Figure]]) -> np.ndarray:
        """Figures of halves, shape (n_splits, 2, 1 + n_fewer); the last axis as in `drawn`."""
        weights = np.vstack([self.blocks[0], self.blocks[1][:N_FEWER]])
        drawn = [[figure(weights) for figure in pair] for pair in pairs]
        return np.array(drawn).reshape(len(drawn), 2, len(weights))

    @property
    def synthetic(self) -> tuple[np.ndarray, np.ndarray]:
        """The share that synthetic rows explain, as `drawn` and as `fewer` have it."""
        side = self.sides["tstr"]
        pairs = [[self.explained(centers) for centers in pair] for pair in side.halves]
        return self.drawn(self.explained(side.centers)), self.fewer(pairs)


def measure(tables: Tables) -> MetricResult:
    """The share that groups found in synthetic rows explain (reference: in as many training rows)."""
    study = study_of(tables, GroupSpace.of(tables))
    if isinstance(study, str):
        return MetricResult(failures=(Failure(EXPLAINED, "skipped", study),))
    drawn, halves = study.synthetic
    low, high = interval(drawn, halves, bounds=(LEAST_EXPLAINED, 1.0))
    estimate = Estimate(
        EXPLAINED, float(drawn[0]), len(study.test), "higher", low=low, high=high,
        reference=study.value("trtr"), floor=study.value("floor"),
        note=f"share of the spread explained by {N_CENTERS} groups by k-means of {study.n_learned} rows",
    )  # fmt: skip
    return MetricResult((estimate,))


def study_of(tables: Tables, space: GroupSpace) -> ClusterStudy | str:
    """The centers of an evaluation, or one sentence that says why there are none; made once for the same tables.
    `tables`: *Sensitive*.
    """
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
        sides[name] = kept.once(key, partial(_learned, points, n_splits, tables.seed))
    study = ClusterStudy(space, test, sides, tuple(weightings(test.units, tables.seed)), n_rows)
    return study if study.varies else "the control rows are all the same"


def _learned(points: Points, n_splits: int, seed: int) -> Grouping:
    # All sides start and are split by the same draws: the same table twice gives the same centers.
    start, *splits = (int(n) for n in np.random.default_rng([seed, 11]).integers(2**31, size=1 + n_splits))
    halves = [points.halves(np.random.default_rng(split)) for split in splits]
    pairs = tuple((k_means(first.X, start), k_means(second.X, start)) for first, second in halves)
    return Grouping(k_means(points.X, start), pairs)
