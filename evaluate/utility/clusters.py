"""Groups of rows: k-means learned on synthetic rows and scored on real ones.

Centers are learned on synthetic rows and on as many training rows; on fresh real rows and on as many training rows;
and on training rows whose columns were shuffled. All are scored on the same control rows, which none of them saw: by
the share of the spread of these rows that the nearest centers explain (1 - squared distance to the nearest center /
squared distance to the mean). Beside it stands the adjusted Rand index: how far two sets of centers sort the control
rows into the same groups. Several groupings of one table may be equally good, so that this is below 1 for fresh rows.

There are `N_CENTERS` centers for every table, and one space of the rows, by the schema (`evaluate.utility.k_means`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.k_means import N_CENTERS, GroupSpace, Points, adjusted_rand, k_means, squared_distances
from evaluate.utility.scores import weightings
from evaluate.utility.study import N_FEWER, interval

_SCORED = "its interval is not simulated; name 'utility.queries.excess'"
METRICS = (
    Metric("utility.clusters.explained", "higher", "Groups found in synthetic rows",
           "Share of the spread of real rows that groups explain which k-means found in synthetic ones.",
           describes=_SCORED, key=True),
    Metric("utility.clusters.gap", "lower", "Groups, loss",
           "Share of that spread which is lost by looking for the groups in synthetic rows.", describes=_SCORED),
    Metric("utility.clusters.agreement", "higher", "Groups, agreement",
           "Adjusted Rand index of the groups of real rows by centers from synthetic and from training rows; 1 is the "
           "same groups, 0 chance.", describes=_SCORED),
)  # fmt: skip
MEASURES = EXPLAINED, GAP, AGREEMENT = tuple(metric.name for metric in METRICS)

N_SPLITS = 4  # Of rows in halves
LEARNED_ROWS = 10_000  # Rows that k-means without DP learns from at most
LEAST_EXPLAINED = -1.0  # Shares are cut off here: below it groups are merely useless
SIDES = ("tstr", "trtr", "fresh", "matched", "floor")
COMPARED = SIDES[:2]

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

        def of(weights: np.ndarray) -> np.ndarray:
            spread = weights @ self._spread
            shares = 1 - (weights @ nearest) / np.where(spread > 0, spread, 1.0)
            return np.where(spread > 0, np.maximum(shares, LEAST_EXPLAINED), np.nan)

        return of

    def agreement(self, first: np.ndarray, second: np.ndarray) -> Figure:
        """The adjusted Rand index of the groups of the control rows by two sets of centers."""
        sides = [squared_distances(self.test.X, centers).argmin(axis=1) for centers in (first, second)]
        codes, rows = sides[0] * N_CENTERS + sides[1], np.arange(len(self.test))
        cells = sparse.csr_matrix((np.ones(len(rows)), (rows, codes)), (len(rows), N_CENTERS**2))

        def of(weights: np.ndarray) -> np.ndarray:
            return adjusted_rand(np.asarray(weights @ cells).reshape(-1, N_CENTERS, N_CENTERS))

        return of

    def drawn(self, figure: Figure) -> np.ndarray:
        """A figure on the control rows as they are, then on each weighting; shape (1 + n_replicates,)."""
        return np.concatenate([figure(weights) for weights in self.blocks])

    def fewer(self, pairs: Sequence[Sequence[Figure]]) -> np.ndarray:
        """Figures of halves, shape (n_splits, 2, 1 + n_fewer); the last axis as in `drawn`."""
        weights = np.vstack([self.blocks[0], self.blocks[1][:N_FEWER]])
        found = [[figure(weights) for figure in pair] for pair in pairs]
        return np.array(found).reshape(len(found), 2, len(weights))

    def value(self, figure: Figure) -> float:
        return float(figure(self.blocks[0])[0])


def measure(tables: Tables) -> MetricResult:
    """Groups found in synthetic rows.

    Estimates:

    * `utility.clusters.explained`: higher; reference: centers from as many training rows;
    * `utility.clusters.gap`: share by training rows less that by synthetic ones, lower; reference: fresh rows and as
      many training ones;
    * `utility.clusters.agreement`: of groups by synthetic and by training rows, higher; reference as for the gap.
    """
    study = study_of(tables, GroupSpace.of(tables))
    if isinstance(study, str):
        return MetricResult(failures=tuple(Failure(name, "skipped", study) for name in MEASURES))
    return MetricResult(_scored(study))


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
    n_fresh = min(len(fresh), n_rows)
    rows = (synthetic.first(n_rows), train.first(n_rows), fresh.first(n_fresh), train.first(n_fresh),
            shuffled.first(n_rows))  # fmt: skip
    sides = {}
    for name, points in zip(SIDES, rows, strict=True):
        kept = tables.kept if name == "tstr" else tables.kept_of_real
        n_splits = N_SPLITS if name in COMPARED else 0
        key = ("clusters", space, name, len(points))
        sides[name] = kept.once(key, partial(_learned, points, n_splits, tables.seed))
    blocks = tuple(weightings(test.units, tables.seed))
    study = ClusterStudy(space, test, sides, blocks, n_rows)
    return study if study.varies else "the control rows are all the same"


def _learned(points: Points, n_splits: int, seed: int) -> Grouping:
    # All sides start and are split by the same draws: the same table twice gives the same centers.
    start, *splits = (int(n) for n in np.random.default_rng([seed, 11]).integers(2**31, size=1 + n_splits))
    halves = [points.halves(np.random.default_rng(split)) for split in splits]
    pairs = tuple((k_means(first.X, start), k_means(second.X, start)) for first, second in halves)
    return Grouping(k_means(points.X, start), pairs)


def _scored(study: ClusterStudy) -> tuple[Estimate, ...]:
    figures = {name: study.explained(side.centers) for name, side in study.sides.items()}
    shares = {name: study.value(figure) for name, figure in figures.items()}
    drawn = {name: study.drawn(figures[name]) for name in COMPARED}
    halves = {name: explained_by_halves(study, study.sides[name].halves) for name in COMPARED}
    n, note = len(study.test), f"{N_CENTERS} groups by k-means of {study.n_learned} rows"
    low, high = interval(drawn["tstr"], halves["tstr"], bounds=(LEAST_EXPLAINED, 1.0))
    gap = drawn["trtr"] - drawn["tstr"]
    gap_low, gap_high = interval(gap, halves["trtr"] - halves["tstr"], bounds=(-2.0, 2.0))
    return (
        Estimate(
            EXPLAINED, shares["tstr"], n, "higher", low=low, high=high,
            reference=shares["trtr"], floor=shares["floor"], note=f"share of the spread explained by {note}",
        ),
        Estimate(
            GAP, float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=shares["matched"] - shares["fresh"], floor=shares["trtr"] - shares["floor"],
            note=f"groups found in training rows less those found in synthetic ones: {note}",
        ),
        _agreement(study, note),
    )  # fmt: skip


def explained_by_halves(study: ClusterStudy, halves: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    return study.fewer([[study.explained(centers) for centers in pair] for pair in halves])


def _agreement(study: ClusterStudy, note: str) -> Estimate:
    sides = study.sides
    figure = study.agreement(sides["tstr"].centers, sides["trtr"].centers)
    both = zip(sides["tstr"].halves, sides["trtr"].halves, strict=True)
    halves = study.fewer([[study.agreement(*pair) for pair in zip(one, other, strict=True)] for one, other in both])
    drawn = study.drawn(figure)
    low, high = interval(drawn, halves, bounds=(-1.0, 1.0))
    return Estimate(
        AGREEMENT, float(drawn[0]), len(study.test), "higher", low=low, high=high,
        reference=study.value(study.agreement(sides["fresh"].centers, sides["matched"].centers)),
        floor=study.value(study.agreement(sides["floor"].centers, sides["trtr"].centers)),
        note=f"adjusted Rand index of {note} and of as many training ones; equally good groups may differ",
    )  # fmt: skip
