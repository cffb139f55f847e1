"""Groups of rows: k-means learned on synthetic rows and scored on real ones, beside k-means with DP on real rows.

Centers are learned on synthetic rows and on as many training rows; on fresh real rows and on as many training rows;
and on training rows whose columns were shuffled. All are scored on the same control rows, which none of them saw: by
the share of the spread of these rows that the nearest centers explain (1 - squared distance to the nearest center /
squared distance to the mean). Beside it stands the adjusted Rand index: how far two sets of centers sort the control
rows into the same groups. Several groupings of one table may be equally good, so that this is below 1 for fresh rows.

There are `N_CENTERS` centers for every table, and one space of the rows, by the schema (`evaluate.utility.k_means`).

**The alternative**: who wants groups only need not release a table. k-means with DP on the training rows spends the
table's whole claim on itself. It looks at columns with a public domain alone, and so do the groups it is compared with.
diffprivlib's k-means is not used: it tests without noise whether a group is empty, and its number of rounds depends on
the exact number of rows, so that its epsilon does not hold.

The centers are never released, and nor is their score: like every number of an evaluation it reads real rows outside
the guarantee, and no budget is charged. Its noise is seeded, as that of no release may be.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse

from evaluate.metrics import Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.dp_alternative import INFERRED, MAX_UNITS, N_RUNS, N_SPLITS, skipped
from evaluate.utility.k_means import (
    N_CENTERS,
    DpLloyd,
    GroupSpace,
    Points,
    adjusted_rand,
    k_means,
    planned,
    squared_distances,
)
from evaluate.utility.scores import weightings
from evaluate.utility.study import N_FEWER, interval
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import InjectedNoise
from synth.dp.schedule import Schedule

_SCORED = "its interval is not simulated; name 'utility.queries.excess'"
_OF_ANOTHER = "it says what another way would give, not how good the table is; name 'utility.queries.excess'"
METRICS = (
    Metric("utility.clusters.explained", "higher", "Groups found in synthetic rows",
           "Share of the spread of real rows that groups explain which k-means found in synthetic ones.",
           describes=_SCORED, key=True),
    Metric("utility.clusters.gap", "lower", "Groups, loss",
           "Share of that spread which is lost by looking for the groups in synthetic rows.", describes=_SCORED),
    Metric("utility.clusters.agreement", "higher", "Groups, agreement",
           "Adjusted Rand index of the groups of real rows by centers from synthetic and from training rows; 1 is the "
           "same groups, 0 chance.", describes=_SCORED),
    Metric("utility.clusters.dp_alternative.score", "none", "Private groups without a table",
           "Share of the spread that groups explain which k-means with DP found in the real rows at the table's "
           "epsilon.", describes=_OF_ANOTHER),
    Metric("utility.clusters.dp_alternative.gap", "lower", "Groups, cost of going through a table",
           "That share minus the one of groups found in synthetic rows; above 0, the table costs that much.",
           describes=_OF_ANOTHER),
)  # fmt: skip
MEASURES = EXPLAINED, GAP, AGREEMENT, SCORE, COST = tuple(metric.name for metric in METRICS)

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
    """Groups found in synthetic rows, and in real ones with DP.

    Estimates:

    * `utility.clusters.explained`: higher; reference: centers from as many training rows;
    * `utility.clusters.gap`: share by training rows less that by synthetic ones, lower; reference: fresh rows and as
      many training ones;
    * `utility.clusters.agreement`: of groups by synthetic and by training rows, higher; reference as for the gap;
    * `utility.clusters.dp_alternative.score` (it describes) and `utility.clusters.dp_alternative.gap` (alternative less
      synthetic, lower is better for the synthetic table), for a table with an epsilon.
    """
    study = study_of(tables)
    if isinstance(study, str):
        return skipped(study, MEASURES)
    why = _hindrance(tables)
    public = why or study_of(tables, public=True)
    if tables.claim is None or isinstance(public, str):
        return MetricResult(_scored(study), skipped(str(public), (SCORE, COST)).failures)
    return MetricResult((*_scored(study), *_alternative(tables, public, tables.claim)))


def _hindrance(tables: Tables) -> str:
    if tables.claim is None:
        return "the table makes no privacy claim, so there is no epsilon to find groups at"
    if tables.declared.status != "declared":
        return INFERRED
    return ""


def study_of(tables: Tables, *, public: bool = False) -> ClusterStudy | str:
    """The centers of an evaluation, or one sentence that says why there are none; made once for the same tables.
    `tables`: *Sensitive*.
    """
    space = GroupSpace.of(tables, public=public)
    if not space.columns:
        return "no column with a declared domain is learned" if public else "no column is learned"
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
    halves = {name: _explained_by_halves(study, study.sides[name].halves) for name in COMPARED}
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


def _explained_by_halves(study: ClusterStudy, halves: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
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


def _alternative(tables: Tables, study: ClusterStudy, claim: StatedClaim) -> tuple[Estimate, ...]:
    """Scores of k-means with DP on the training rows, in the space of columns with a public domain."""
    event = planned(claim.epsilon, claim.delta, len(study.space.columns), claim.max_rows_per_unit)
    points, share = _units(tables, study.space)
    rng = np.random.default_rng([tables.seed, 12])

    def found(points: Points, noise: float) -> np.ndarray:
        quieter = replace(event, sigma=noise * event.sigma)
        budget = Budget(Schedule((quieter,), claim.delta), InjectedNoise(rng))
        return DpLloyd(study.space, quieter, claim.max_rows_per_unit).fit(points, budget)

    # Of a share of the units, the sums and their noise are less in proportion.
    whole = [study.explained(found(points, share)) for _ in range(N_RUNS)]
    # Half the units with half the noise would be as noisy as one run; the score is the mean of several.
    part = share / 2 * math.sqrt(2 / N_RUNS)
    splits = [points.halves(rng) for _ in range(N_SPLITS)]
    halves = study.fewer([[study.explained(found(one, part)) for one in pair] for pair in splits])
    drawn = np.mean([study.drawn(figure) for figure in whole], axis=0)
    return _estimates_of_alternative(study, drawn, halves, _note(event, claim, study))


def _units(tables: Tables, space: GroupSpace) -> tuple[Points, float]:
    """The training rows, and the share of the units that they are of."""
    points = Points.of(tables.train, space, tables, most=len(tables.train))
    share = min(1.0, MAX_UNITS / (int(points.units.max()) + 1))
    share *= tables.share_at_hand("train")  # the rows at hand may be a sample already
    return points.where(points.units < MAX_UNITS), share


def _estimates_of_alternative(
    study: ClusterStudy, drawn: np.ndarray, halves: np.ndarray, note: str
) -> tuple[Estimate, ...]:
    sides = {name: study.value(study.explained(side.centers)) for name, side in study.sides.items()}
    value, n = float(drawn[0]), len(study.test)
    low, high = interval(drawn, halves, bounds=(LEAST_EXPLAINED, 1.0))
    gap = drawn - study.drawn(study.explained(study.sides["tstr"].centers))
    gap_halves = halves - _explained_by_halves(study, study.sides["tstr"].halves)
    gap_low, gap_high = interval(gap, gap_halves, bounds=(-2.0, 2.0))
    return (
        Estimate(
            SCORE, value, n, "none", low=low, high=high, reference=sides["trtr"], floor=sides["floor"], note=note,
        ),
        Estimate(
            COST, float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=value - sides["fresh"], floor=value - sides["floor"],
            note=f"alternative less groups found in synthetic rows: {note}",
        ),
    )  # fmt: skip


def _note(event: GaussianEvent, claim: StatedClaim, study: ClusterStudy) -> str:
    form: Any = "{:.3g}".format
    return (
        f"{N_CENTERS} groups by DP-Lloyd at epsilon={form(claim.epsilon)}, delta={form(claim.delta)}, mean of {N_RUNS} "
        f"runs, {len(study.space.columns)} columns with a declared domain, noise multiplier "
        f"{form(event.noise_multiplier)} in each of {event.count} rounds"
    )
