"""PATE for one target: teachers on disjoint sets of units vote on made-up rows, and a student learns from the votes.

The rows that are voted on must be no real ones. They are not those of the synthetic table either: these have cost the
table's whole epsilon, and votes on them would come on top. They are drawn column by column from noisy sums of the
features of real rows, which a tenth of the cost pays for. The votes have the rest, so that both together cost the
claim, whatever the votes are.

A teacher is a ridge regression on the features of its units' rows. It votes for the class whose score is furthest
above that class's share of its own rows: by predicted classes alone, a rare class would get next to no votes. One unit
has one teacher. The student is a ridge regression of the noisy shares of votes.

# DEVIATES: the paper's student learns the classes that win noisy votes, each answered at a cost that depends on the
# votes. Here the cost depends on no data, and counts are learned from as numbers.

Source: Papernot et al. 2017 (1610.05755) and 2018 (1802.08908); Hoerl & Kennard 1970 for ridge regression.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from evaluate.tables import MetricResult, StatedClaim, Tables
from evaluate.utility.k_means import GroupSpace
from synth.dp.events import GaussianEvent, PlannedEvents, ceil_sqrt, gaussian_of_rho
from synth.dp.mechanisms import InjectedNoise, Noise, release
from synth.dp.schedule import calibrate
from understudy.extras.dp_models.comparison import Problem, UnitRows, metrics, skipped

SUMS, VOTES = "sums of features", "votes of teachers on made-up rows"
SUMS_SHARE = 0.1  # Of the cost, for the sums that made-up rows are drawn from
N_SHOWN = 1_024  # Made-up rows that teachers vote on
UNITS_PER_TEACHER, MOST_TEACHERS = 25, 4_000  # Units of a teacher, about, and teachers at most
RIDGE = 0.1  # Of a teacher, whose rows have a norm of at most 1
SIGNAL, LEAST_NOISE = 0.3, 0.05
"""Standard deviations of a weight of the student before anything is known, and of what it cannot explain."""
METRICS = metrics(
    "utility.pate_alternative", ("PATE without a table", "Cost of a table beside PATE"),
    "Score of a student that learns from noisy votes of teachers on the real rows, at the table's epsilon.",
    "That score minus the linear model's trained on", "utility.gap.linear",
)  # fmt: skip
MEASURES = tuple(metric.name for metric in METRICS)


def measure(tables: Tables) -> MetricResult:
    """The score of a student, and its lead over the table; landmarks as those of the regression."""
    problem = Problem.of(tables, 9)
    if isinstance(problem, str):
        return skipped(problem, MEASURES)
    if problem.target.loss == "squared":
        return skipped("teachers vote on classes, and the target is a number", MEASURES)
    claim, n_classes, share = problem.claim, len(problem.target.classes), problem.share
    events = planned(claim, n_classes)
    # Of a sample of the units, as many teachers and as much noise in proportion: shares of votes are as noisy.
    n_teachers = max(round(share * min(max(claim.n_units // UNITS_PER_TEACHER, 1), MOST_TEACHERS)), 1)

    def outputs(rows: UnitRows, noise: float, part: float) -> np.ndarray:
        pate = Pate(problem.space, n_classes, events.scaled(noise * share), max(int(part * n_teachers), 1))
        return np.asarray(problem.test @ pate.fit(rows, InjectedNoise(problem.rng), problem.rng))

    more = (
        f"{n_teachers:,} teachers, {N_SHOWN:,} made-up rows of {len(problem.space.columns)} columns with a declared "
        f"domain, noise {events.votes.sigma:.3g} on each count"
    )
    return problem.compared(outputs, "PATE", more, MEASURES)


@dataclass(frozen=True)
class PateEvents(PlannedEvents):
    sums: GaussianEvent
    votes: GaussianEvent

    def scaled(self, share: float) -> "PateEvents":
        return PateEvents(*(replace(each, sigma=share * each.sigma) for each in (self.sums, self.votes)))


def planned(claim: StatedClaim, n_classes: int) -> PateEvents:
    """The releases that a claim allows. One has the counts of all made-up rows: a unit moves each by 1, of one class
    where there are two, of two classes where there are more.
    """
    moved = ceil_sqrt(N_SHOWN * (1 if n_classes == 2 else 2))

    def events(rho: float) -> PateEvents:
        k = claim.max_rows_per_unit
        sums = GaussianEvent(SUMS, k / math.sqrt(2 * SUMS_SHARE * rho), k, whole=False)
        return PateEvents(sums, gaussian_of_rho(VOTES, (1 - SUMS_SHARE) * rho, count=1, sensitivity=moved))

    return events(1.0).of(calibrate(events, claim.epsilon, claim.delta).events)


@dataclass(frozen=True)
class Pate:
    """Teachers and a student, specified by public facts."""

    space: GroupSpace
    n_classes: int
    events: PateEvents
    n_teachers: int

    def fit(self, units: UnitRows, noise: Noise, rng: np.random.Generator) -> np.ndarray:
        """Weights of the student, shape (d, n_outputs). `units`: *Sensitive*."""
        sums = release(units.X.sum(axis=0, dtype=np.float64), self.events.sums, noise)
        shown = self.made_up(sums, rng)
        counts = self.votes(units, rng.integers(self.n_teachers, size=len(units)), shown)
        shares = release(counts, self.events.votes, noise) / self.n_teachers
        noise_variance = (self.events.votes.sigma / self.n_teachers) ** 2 + LEAST_NOISE**2
        gram = shown.T @ shown + noise_variance / SIGNAL**2 * np.eye(shown.shape[1])
        return np.asarray(np.linalg.solve(gram, shown.T @ (shares - shares.mean(axis=0))))

    def made_up(self, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of features drawn column by column from released sums, shape (N_SHOWN, d); free of charge."""
        rows = np.zeros((N_SHOWN, len(sums)))
        for start, end in pairwise(self.space.starts.tolist()):
            mass = np.maximum(sums[start:end], 0.0)
            shares = mass / mass.sum() if mass.sum() > 0 else np.full(end - start, 1 / (end - start))
            rows[np.arange(N_SHOWN), start + rng.choice(end - start, N_SHOWN, p=shares)] = 1.0
        rows[:, -1] = 1.0
        return rows / math.sqrt(len(self.space.columns) + 1)

    def votes(self, units: UnitRows, teacher: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Counts of the teachers that vote for each class, the second alone of two; shape (n_shown, n_outputs), int64.
        *Sensitive*. `teacher`: of each unit, shape (n_units,).
        """
        counts = np.zeros((len(shown), 1 if self.n_classes == 2 else self.n_classes), dtype=np.int64)
        row_teacher = np.repeat(teacher, units.size)
        order = np.argsort(row_teacher, kind="stable")
        starts = np.searchsorted(row_teacher[order], np.arange(self.n_teachers + 1))
        for begin, end in pairwise(starts.tolist()):
            if begin < end:  # a teacher without rows votes for no class
                counts += self._ballot(units.X[order[begin:end]], units.y[order[begin:end]], shown)
        return counts

    def _ballot(self, X: np.ndarray, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """The votes of one teacher, zeros and ones, shape (n_shown, n_outputs): a function of its own rows alone."""
        rows, classes = X.astype(np.float64), np.eye(self.n_classes)[y.astype(np.int64)]
        dual = np.linalg.solve(rows @ rows.T + RIDGE * np.eye(len(rows)), classes - classes.mean(axis=0))
        scores = shown @ (rows.T @ dual)
        if self.n_classes == 2:
            return np.asarray(scores[:, 1:] > scores[:, :1], dtype=np.int64)
        spread = np.sqrt(classes.mean(axis=0))
        best = np.argmax(scores / np.where(spread > 0, spread, 1.0), axis=1)
        return np.asarray(np.eye(self.n_classes, dtype=np.int64)[best])
