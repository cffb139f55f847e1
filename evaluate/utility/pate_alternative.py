"""Another alternative to a private table: PATE for one target, at the table's epsilon and delta.

Teachers on disjoint sets of units learn to predict the target. They vote on made-up rows, the votes are counted with
Gaussian noise, and a student learns from these counts alone. This says what the table costs somebody who needs one
model only, beside the alternative trained by DP-SGD.

The rows that are voted on must be no real ones. They are not those of the synthetic table either: these have cost the
table's whole epsilon, and votes on them would come on top. They are drawn column by column from noisy sums of the
features of real rows, which a tenth of the cost pays for. The votes have the rest, so that both together cost the
claim, whatever the votes are.

A teacher is a ridge regression on the features of its units' rows. It votes for the class whose score is furthest
above that class's share of its own rows: by predicted classes alone, a rare class would get next to no votes. One unit
has one teacher. So it moves the count of a row by 1 where there are two classes, and two counts by 1 where there are
more. The student is a ridge regression of the noisy shares of votes.

The model is never released, and nor is its score: like every number of an evaluation it reads real rows outside the
guarantee, and no budget is charged. Its noise is seeded, as that of no release may be.

# DEVIATES: the paper's student learns the classes that win noisy votes, each answered at a cost that depends on the
# votes. Here the cost depends on no data, and counts are learned from as numbers.

Source: Papernot et al. 2017 (1610.05755) and 2018 (1802.08908); Hoerl & Kennard 1970 for ridge regression.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from evaluate.metrics import Metric
from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.dp_alternative import (
    N_RUNS,
    N_SPLITS,
    Predictions,
    PublicFeatures,
    Target,
    UnitRows,
    compared,
    skipped,
    study_for,
    units_of,
)
from evaluate.utility.study import Study
from synth.dp.events import GaussianEvent, PlannedEvents, ceil_sqrt, gaussian_of_rho
from synth.dp.mechanisms import InjectedNoise, Noise, release
from synth.dp.schedule import Schedule, calibrate

SUMS, VOTES = "sums of features", "votes of teachers on made-up rows"
SUMS_SHARE = 0.1  # Of the cost, for the sums that made-up rows are drawn from
N_SHOWN = 1_024  # Made-up rows that teachers vote on
UNITS_PER_TEACHER, MOST_TEACHERS = 25, 4_000  # Units of a teacher, about, and teachers at most
RIDGE = 0.1  # Of a teacher, whose rows have a norm of at most 1
SIGNAL, LEAST_NOISE = 0.3, 0.05
"""Standard deviations of a weight of the student before anything is known, and of what it cannot explain."""

_OF_ANOTHER = "it says what another way would give, not how good the table is; name 'utility.gap.linear'"
METRICS = (
    Metric("utility.pate_alternative.score", "none", "PATE without a table",
           "Score of a student that learns from noisy votes of teachers on the real rows, at the table's epsilon.",
           describes=_OF_ANOTHER),
    Metric("utility.pate_alternative.gap", "lower", "Cost of a table beside PATE",
           "That score minus the linear model's trained on synthetic rows; above 0, the table costs that much.",
           describes=_OF_ANOTHER),
)  # fmt: skip
MEASURES = tuple(metric.name for metric in METRICS)


def measure(tables: Tables) -> MetricResult:
    """Score of a student of private teachers on the real rows, and its lead over the synthetic table. Estimates:
    `utility.pate_alternative.score` and `utility.pate_alternative.gap`, as those of `utility.dp_alternative`.
    """
    claim, study = tables.claim, study_for(tables)
    if claim is None or isinstance(study, str):
        return skipped(str(study), MEASURES)
    if study.task.kind == "regression":
        return skipped("teachers vote on classes, and the target is a number", MEASURES)
    target = Target.of(tables.declared, study.task)
    features = PublicFeatures.of(tables.declared)
    events = planned(claim, len(target.classes))
    units, share = units_of(tables, features, target, claim.max_rows_per_unit)
    # Of a sample of the units, as many teachers and as much noise in proportion: shares of votes are as noisy.
    n_teachers = max(round(share * n_teachers_of(claim.n_units)), 1)
    pate = Pate(features, target, events.scaled(share), n_teachers)
    return compared(study, _predictions(pate, units, study, tables.seed), _note(pate, events, claim), MEASURES)


@dataclass(frozen=True)
class PateEvents(PlannedEvents):
    sums: GaussianEvent
    votes: GaussianEvent

    def scaled(self, share: float) -> "PateEvents":
        sums, votes = (
            GaussianEvent(each.what, share * each.sigma, each.sensitivity, whole=each.whole)
            for each in (self.sums, self.votes)
        )
        return PateEvents(sums, votes)


def planned(claim: StatedClaim, n_classes: int) -> PateEvents:
    """The releases that a claim allows. One release has the counts of all made-up rows. A unit moves each count by 1,
    of one class where there are two, of two classes where there are more.
    """
    moved = ceil_sqrt(N_SHOWN * (1 if n_classes == 2 else 2))

    def events(rho: float) -> PateEvents:
        k = claim.max_rows_per_unit
        sums = GaussianEvent(SUMS, k / math.sqrt(2 * SUMS_SHARE * rho), k, whole=False)
        return PateEvents(sums, gaussian_of_rho(VOTES, (1 - SUMS_SHARE) * rho, count=1, sensitivity=moved))

    schedule: Schedule = calibrate(events, claim.epsilon, claim.delta)
    return events(1.0).of(schedule.events)


def n_teachers_of(n_units: int) -> int:
    """Number of teachers, from the public number of units."""
    return min(max(n_units // UNITS_PER_TEACHER, 1), MOST_TEACHERS)


@dataclass(frozen=True)
class Pate:
    """Teachers and a student, specified by public facts."""

    features: PublicFeatures
    target: Target
    events: PateEvents
    n_teachers: int

    @cached_property
    def n_counts(self) -> int:
        """Counts of a made-up row: one of two classes, else one a class."""
        n_classes = len(self.target.classes)
        return 1 if n_classes == 2 else n_classes

    def fit(self, units: UnitRows, noise: Noise, rng: np.random.Generator) -> np.ndarray:
        """Weights of the student, shape (d, n_counts). `units`: *Sensitive*."""
        sums = release(units.X.sum(axis=0, dtype=np.float64), self.events.sums, noise)
        shown = self.made_up(sums, rng)
        counts = self.votes(units, rng.integers(self.n_teachers, size=len(units)), shown)
        shares = release(counts, self.events.votes, noise) / self.n_teachers
        noise_variance = (self.events.votes.sigma / self.n_teachers) ** 2 + LEAST_NOISE**2
        gram = shown.T @ shown + noise_variance / SIGNAL**2 * np.eye(shown.shape[1])
        return np.asarray(np.linalg.solve(gram, shown.T @ (shares - shares.mean(axis=0))))

    def made_up(self, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of features drawn column by column, shape (N_SHOWN, d); free of charge. `sums`: released, of each
        coordinate, shape (d,).
        """
        rows, start = np.zeros((N_SHOWN, len(sums))), 0
        for column in self.features.columns:
            mass = np.maximum(sums[start : start + column.width], 0.0)
            shares = mass / mass.sum() if mass.sum() > 0 else np.full(column.width, 1 / column.width)
            rows[np.arange(N_SHOWN), start + rng.choice(column.width, N_SHOWN, p=shares)] = 1.0
            start += column.width
        rows[:, -1] = 1.0
        return rows / math.sqrt(len(self.features.columns) + 1)

    def votes(self, units: UnitRows, teacher: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Counts of the teachers that vote for each class, shape (n_shown, n_counts), int64. *Sensitive*. `units`:
        *Sensitive*. `teacher`: of each unit, shape (n_units,). `shown`: made-up rows, shape (n_shown, d).
        """
        counts = np.zeros((len(shown), self.n_counts), dtype=np.int64)
        row_teacher = np.repeat(teacher, units.size)
        order = np.argsort(row_teacher, kind="stable")
        starts = np.searchsorted(row_teacher[order], np.arange(self.n_teachers + 1))
        for begin, end in pairwise(starts.tolist()):
            counts += self._ballot(units.X[order[begin:end]], units.y[order[begin:end]], shown)
        return counts

    def _ballot(self, X: np.ndarray, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """The votes of one teacher, zeros and ones, shape (n_shown, n_counts): a function of its own rows alone."""
        if not len(X):
            return np.zeros((len(shown), self.n_counts), dtype=np.int64)
        rows = X.astype(np.float64)
        classes = np.eye(len(self.target.classes))[y.astype(np.int64)]
        ahead = classes - classes.mean(axis=0)
        dual = np.linalg.solve(rows @ rows.T + RIDGE * np.eye(len(rows)), ahead)
        scores = shown @ (rows.T @ dual)
        if self.n_counts == 1:
            return np.asarray(scores[:, 1:] > scores[:, :1], dtype=np.int64)
        spread = np.sqrt(classes.mean(axis=0))
        best = np.argmax(scores / np.where(spread > 0, spread, 1.0), axis=1)
        return np.asarray(np.eye(self.n_counts, dtype=np.int64)[best])


def _predictions(pate: Pate, units: UnitRows, study: Study, seed: int) -> Predictions:
    """Of some fits on all units, and on both halves of some splits with half the teachers."""
    X = pate.features.apply(study.test.rows).astype(np.float64)
    rng = np.random.default_rng([seed, 9])

    def predicted(one: Pate, of: UnitRows) -> np.ndarray:
        return one.target.decode(X @ one.fit(of, InjectedNoise(rng), rng))

    whole = tuple(predicted(pate, units) for _ in range(N_RUNS))
    # Half the units with half the noise would be as noisy as one fit; the score is the mean of several.
    half = Pate(pate.features, pate.target, pate.events.scaled(math.sqrt(2 / N_RUNS) / 2), max(pate.n_teachers // 2, 1))
    halves = []
    for _ in range(N_SPLITS if len(units) > 1 else 0):
        order = rng.permutation(len(units))
        parts = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        first, second = (predicted(half, units.subset(part)) for part in parts)
        halves.append((first, second))
    return Predictions(whole, tuple(halves))


def _note(pate: Pate, events: PateEvents, claim: StatedClaim) -> str:
    return (
        f"PATE at epsilon={claim.epsilon:.3g}, delta={claim.delta:.3g}, mean of {N_RUNS} fits, "
        f"{pate.n_teachers:,} teachers, {N_SHOWN:,} made-up rows of {len(pate.features.columns)} columns with a "
        f"declared domain, noise {events.votes.sigma:.3g} on each count"
    )
