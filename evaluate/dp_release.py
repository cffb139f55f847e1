"""Differentially private release of numbers about a synthetic table, under a budget of their own.

Each number compares the source table with a synthetic table that is *fixed*: made under a guarantee, so that whoever
sees it learns nothing more by being told that it is the one compared with. One unit then moves each number by a known
amount, and the numbers are released like any other counts: whole numbers, discrete Gaussian noise, a schedule that is
written down before a row is read. The noise is known, so that intervals are exact, however few rows there are. They say
where the number of *these two tables* lies, not how another sample of people would differ. All else that an evaluation
says has no such bound, and stays inside.

Exact statistics read real rows and must not be seen. Under zero-out one unit takes at most k rows with it
(`synth.generators.fitting.training_data`), and all bounds are k:

- A count of rows moves by at most k.
- The distance between the counts c of the real codes and r times the shares s / n of the synthetic ones, with r fixed,
  is ``sum |n c - r s| / n`` half rows (twice the total variation, times r). A row that goes lowers one c by one, which
  moves the sum by at most n; k rows move it by at most k n. Division rounds down. Rounding down keeps order and
  commutes with whole numbers, so that it adds nothing: the result moves by at most k.
- The mean over pairs of columns is one such sum over all of them, divided by n times their number.
- A row is right, or wrong, or without a target: k rows move the two counts by at most k in L1, and so in L2.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import pandas as pd

from evaluate.intervals import LEVEL
from evaluate.metrics import NOISY, Metric
from evaluate.provenance import COLUMN, COLUMN_MEAN, N_ROWS, PAIR_MEAN, RIGHT, Released
from evaluate.utility.models import Fitted, fit_classes
from evaluate.utility.study import MAX_CLASSES, MAX_ROWS, public_task
from synth.domain import Attribute, Discretizer
from synth.domain.discretizer import regroup
from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, gaussian_of_rho
from synth.dp.schedule import EventsOfRho, Schedule, calibrate, resolve_delta
from synth.errors import BudgetError
from synth.generators.fitting.training_data import bound_contributions
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.split import Split
from synth.table import conform
from synth.table.rows import Rows, observe

N_BINS, N_PAIR_BINS = 20, 10  # Bins of a number or time, and categories told apart, in a column alone and in a pair
MOST_PAIRS = 500  # Pairs of columns that the mean is taken over at most: of more, a sample that no row decides


@dataclass(frozen=True)
class Yardstick:
    """A synthetic table as others are compared with it; all of it is public once the table is."""

    schema: Schema
    synthetic: pd.DataFrame
    columns: Discretizer = field(repr=False)
    pairs: Discretizer = field(repr=False)

    @classmethod
    def of(cls, synthetic: pd.DataFrame, schema: Schema) -> "Yardstick":
        rows = conform(synthetic, schema, outside="clamp", part=True)
        seen = observe(schema, rows)
        rows = conform(rows, seen, outside="clamp", part=True)
        return cls(seen, rows, _codes(seen, rows, N_BINS), _codes(seen, rows, N_PAIR_BINS))

    @property
    def chosen_pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns that the mean is over, by place."""
        every = list(itertools.combinations(range(len(self.pairs.columns)), 2))
        if len(every) <= MOST_PAIRS:
            return every
        kept = np.random.default_rng(0).choice(len(every), size=MOST_PAIRS, replace=False)
        return [every[position] for position in np.sort(kept)]

    def column_counts(self, rows: pd.DataFrame) -> list[np.ndarray]:
        codes = self.columns.encode(rows)
        return [np.bincount(codes[:, i], minlength=a.size) for i, a in enumerate(self.columns.attributes)]

    def pair_counts(self, rows: pd.DataFrame) -> list[np.ndarray]:
        """Two-way counts of codes, for every chosen pair; flat."""
        codes, sizes = self.pairs.encode(rows).astype(np.int64), [a.size for a in self.pairs.attributes]
        return [
            np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
            for a, b in self.chosen_pairs
        ]


def bounded(rows: pd.DataFrame, yardstick: Yardstick) -> pd.DataFrame:
    """The real rows that count: in canonical form, at most k of each unit. *Sensitive*."""
    return bound_contributions(Rows.of(rows, yardstick.schema), yardstick.schema).frame()


def half_rows(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    """The distance between two tables in half rows, averaged over several sets of counts, rounded down. *Sensitive*.
    `real`: *Sensitive*. Counts of codes in the source table.

    >>> half_rows([np.array([3, 1])], [np.array([2, 2])], 4)
    2
    """
    n = int(synthetic[0].sum())
    scaled = zip(real, synthetic, strict=True)
    total = sum(int(np.abs(n * c.astype(np.int64) - n_rows * s.astype(np.int64)).sum()) for c, s in scaled)
    return total // (n * len(real))


def right_and_wrong(holdout: pd.DataFrame, yardstick: Yardstick) -> np.ndarray | None:
    """Counts of held-out rows that a model of the synthetic table gets right and wrong; shape (2,). *Sensitive*."""
    target, rows = str(yardstick.schema.target), yardstick.synthetic
    classes = rows[target].dropna().astype(object).value_counts().sort_index()
    known = classes.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES]
    if not len(known):
        return None
    truth = known.get_indexer(pd.Index(holdout[target].astype(object)))
    asked = holdout[target].notna().to_numpy(dtype=bool)
    right = asked & (truth == _guesses(_model(rows, known, yardstick.schema), holdout))
    return np.array([int(right.sum()), int((asked & ~right).sum())])


def _model(rows: pd.DataFrame, known: pd.Index, schema: Schema) -> Fitted:
    """A logistic regression on the synthetic table, the same whenever it is fitted."""
    codes = known.get_indexer(pd.Index(rows[schema.target].astype(object)))
    usable = np.flatnonzero(codes >= 0)
    if len(usable) > MAX_ROWS:
        usable = np.sort(np.random.default_rng(0).choice(usable, size=MAX_ROWS, replace=False))
    return fit_classes("linear", rows.iloc[usable].reset_index(drop=True), codes[usable], schema, len(known))


def _guesses(model: Fitted, rows: pd.DataFrame) -> np.ndarray:
    """The most probable class of every row, shape (n,). Each row's score is a sum of its own: a matrix product may
    round a row otherwise when another one is gone, and so turn a tie over.
    """
    if model.classifier is None:
        return np.asarray(model.predict(rows).argmax(axis=1))
    logistic, features, seen = model.classifier
    X = np.ascontiguousarray(features.apply(rows))
    scores = np.column_stack(
        [(X * w).sum(axis=1) + b for w, b in zip(logistic.coef_, logistic.intercept_, strict=True)]
    )
    codes = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else np.argmax(scores, axis=1)
    return np.asarray(seen[codes])


def _codes(schema: Schema, synthetic: pd.DataFrame, n_codes: int) -> Discretizer:
    discretizer = Discretizer.by_quantiles(schema, synthetic, n_codes)
    return Discretizer(tuple(_merged(a, a.cells(synthetic[a.name]), n_codes) for a in discretizer.attributes))


def _merged(attribute: Attribute, cells: np.ndarray, n_codes: int) -> Attribute:
    """The attribute with all but its most frequent categories joined to `other`."""
    counts = np.bincount(cells, minlength=attribute.n_cells)[:-2]
    if attribute.edges is not None or len(counts) <= n_codes:
        return attribute
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return regroup(attribute, np.where(rank < n_codes, np.arange(len(counts)), -1))


METRICS = (
    Metric("rows.released", "none", "Rows of the real table, released",
           "About how many rows of the real table count, with noise.",
           describes="it says how large the table is; name 'columns.tvd.released.mean'"),
    Metric("columns.tvd.released", "lower", "Column distance, released",
           "Share of rows in the wrong place of one column, against the whole real table, with noise.", counted=NOISY),
    Metric("columns.tvd.released.mean", "lower", "Column distance, mean, released",
           "The released distances of all columns, averaged.", counted=NOISY),
    Metric("pairs.tvd.released.mean", "lower", "Pair distance, mean, released",
           "Total variation of two columns together, averaged over pairs, with noise.", counted=NOISY),
    Metric("utility.accuracy.released", "higher", "Accuracy on held-out rows, released",
           "Share of held-out real rows that a logistic regression gets right which has seen the synthetic table only.",
           counted=NOISY),
)  # fmt: skip

Z = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2)  # Normal quantile of 95% intervals
_GRID = 2_001


@dataclass(frozen=True)
class Paid:
    """An event of the schedule, and the delta that its cost is stated at."""

    event: GaussianEvent
    delta: float

    @classmethod
    def find(cls, schedule: Schedule, what: str) -> "Paid | None":
        """The event of that name; `None` without one in the schedule."""
        event = schedule.event(what)
        return cls(event, schedule.delta) if isinstance(event, GaussianEvent) else None

    @classmethod
    def of(cls, schedule: Schedule, what: str) -> "Paid":
        paid = cls.find(schedule, what)
        if paid is None:
            raise BudgetError(f"the schedule pays for no release {what!r}; take the schedule of `released_schedule`")
        return paid

    def epsilon(self, n_releases: int) -> float:
        return _epsilon_alone(self.event.sigma, int(self.event.sensitivity), n_releases, self.delta)

    def number(self, measure: str, value: float, ends: tuple[float, float], **known: Any) -> Released:
        return Released(
            measure=measure, value=value, low=ends[0], high=ends[1], what=self.event.what, sigma=self.event.sigma,
            sensitivity=int(self.event.sensitivity), **known,
        )  # fmt: skip


def distance_of(
    measure: str, noisy: tuple[int, ...], rows: Released, paid: Paid, expected: float, subject: tuple[str, ...] = ()
) -> Released:
    """A total variation, or the mean of several.

    The distance was taken at the noisy number of rows r where the true one is m, which moves it by |r - m| half rows at
    most. That is no more than the noise of r, so that both noises together bound the error: for a normal noise N and
    any shift within |e|, N + shift is beyond a limit no more often than N + e, e being normal too.
    """
    scale = 2.0 * rows.value
    value = float(np.mean(noisy)) / scale
    half = Z * math.hypot(paid.event.sigma / math.sqrt(len(noisy)), rows.sigma) / scale
    bounded_value = min(max(value, 0.0), 1.0)
    ends = _held((value - half, value + half), (0.0, 1.0), bounded_value)
    return paid.number(
        measure, bounded_value, ends, subject=subject, drawn=noisy, counts="half rows", denominator=int(scale),
        expected=expected, epsilon=paid.epsilon(len(noisy)),
    )  # fmt: skip


@cache
def _epsilon_alone(sigma: float, sensitivity: int, n_releases: int, delta: float) -> float:
    return epsilon_pld([GaussianEvent("alone", sigma, sensitivity, n_releases)], delta)


def chance_distance(counts: list[np.ndarray], n_rows: float) -> float:
    """The mean total variation that two samples of one distribution show, about.

    >>> round(chance_distance([np.array([500, 500])], 1000), 4)
    0.0178
    """
    # Code by code: the mean of |N(0, v)| is sqrt(2 v / pi).
    shares = [(c / c.sum(), 1 / c.sum() + 1 / n_rows) for c in counts]
    return float(np.mean([0.5 * np.sqrt(2 / np.pi * share * (1 - share) * v).sum() for share, v in shares]))


def _held(ends: tuple[float, float], limits: tuple[float, float], value: float) -> tuple[float, float]:
    """An interval within the limits that holds the value."""
    low, high = (min(max(end, limits[0]), limits[1]) for end in ends)
    return float(min(low, value)), float(max(high, value))


ROWS = "published: rows of the source table"
COLUMNS = "published: distance of each column from the synthetic table"
PAIRS = "published: mean distance of pairs of columns"
ACCURACY = "published: held-out rows that a model of the synthetic table gets right, and wrong"
SHARES: Mapping[str, float] = {ROWS: 0.15, COLUMNS: 0.45, PAIRS: 0.1, ACCURACY: 0.3}
"""Shares of rho. The number of rows is in every denominator; the holdout is a fifth of the rows, so that its counts
stand less noise."""


def released_schedule(schema: Schema, epsilon: float, delta: float | Literal["auto"]) -> Schedule:
    """Everything that the published numbers will draw, calibrated to epsilon. No row is read."""
    if not schema.learned:
        raise BudgetError(
            "released_numbers.epsilon pays for numbers about columns that are learned, and the schema has none; leave "
            "epsilon out"
        )
    return calibrate(_plan(schema), epsilon, resolve_delta(delta, schema))


def predicts(schema: Schema) -> bool:
    """True where an accuracy can be published: the schema gives the target classes. No row is looked at: whether a
    number takes two values only would be an answer about the real table.
    """
    if schema.target is None or len(schema.learned) < 2:
        return False
    known = public_task(schema, schema.target)
    return known is not None and known[0] == "classification"


def _plan(schema: Schema) -> EventsOfRho:
    """One release of everything but columns, of which there is one for each."""
    counts = {ROWS: 1, COLUMNS: len(schema.learned)}
    counts |= {PAIRS: 1} if len(schema.learned) > 1 else {}
    counts |= {ACCURACY: 1} if predicts(schema) else {}
    whole = sum(SHARES[what] for what in counts)
    k = schema.max_rows_per_unit
    return lambda rho: [
        gaussian_of_rho(what, rho * SHARES[what] / whole, count=count, sensitivity=k) for what, count in counts.items()
    ]


def release_numbers(
    sides: Split, synthetic: pd.DataFrame, schema: Schema, budget: Budget, progress: Progress = quiet
) -> tuple[Released, ...]:
    """The published numbers about a synthetic table. Draws on the budget come in the order of the schedule. `sides`:
    *Sensitive*. Of the source table.

    Distances are to the whole source table, whichever side a row is on; the accuracy is on the holdout. A row's side is
    a keyed hash of its unit, so that no other unit moves it. The number of rows is drawn first, and distances are taken
    at its noisy value; neither their noise nor a unit's effect depends on that value. So the schedule's account holds
    as for independent draws.
    """
    yardstick = Yardstick.of(synthetic, schema)
    train, holdout = (bounded(side, yardstick) for side in (sides.train, sides.holdout))
    both = pd.concat([train, holdout], ignore_index=True)
    rows = _rows(len(both), schema, budget)
    columns = _columns(both, yardstick, rows, budget)
    progress("releasing numbers", 0.3)
    pairs = _pairs(both, yardstick, rows, budget)
    progress("releasing numbers", 0.7)
    return (rows, *columns, *pairs, *_accuracy(holdout, yardstick, budget))


def _rows(n_rows: int, schema: Schema, budget: Budget) -> Released:
    paid = Paid.of(budget.schedule, ROWS)
    if schema.n_units is None:
        raise BudgetError("numbers are published under a declared schema, and n_units is missing; declare it")
    (noisy,) = _drawn(budget, np.array([n_rows]), paid.event)
    most, half = schema.n_units * schema.max_rows_per_unit, Z * paid.event.sigma
    value = min(max(noisy, 1), most)
    ends = _held((noisy - half, noisy + half), (0, most), value)
    return paid.number(N_ROWS, float(value), ends, drawn=(noisy,), counts="rows", epsilon=paid.epsilon(1))


def _columns(both: pd.DataFrame, yardstick: Yardstick, rows: Released, budget: Budget) -> list[Released]:
    """The distance of every column, then their mean, which costs nothing more."""
    paid = Paid.of(budget.schedule, COLUMNS)
    synthetic, drawn, released = yardstick.column_counts(yardstick.synthetic), [], []
    for name, c, s in zip(yardstick.columns.columns, yardstick.column_counts(both), synthetic, strict=True):
        drawn += _drawn(budget, np.array([half_rows([c], [s], int(rows.value))]), paid.event)
        chance = chance_distance([s], rows.value)
        released.append(distance_of(COLUMN, (drawn[-1],), rows, paid, chance, (name,)))
    chance = chance_distance(synthetic, rows.value)
    return [distance_of(COLUMN_MEAN, tuple(drawn), rows, paid, chance), *released]


def _pairs(both: pd.DataFrame, yardstick: Yardstick, rows: Released, budget: Budget) -> list[Released]:
    paid = Paid.find(budget.schedule, PAIRS)
    if paid is None:
        return []
    synthetic = yardstick.pair_counts(yardstick.synthetic)
    exact = half_rows(yardstick.pair_counts(both), synthetic, int(rows.value))
    noisy = _drawn(budget, np.array([exact]), paid.event)
    return [distance_of(PAIR_MEAN, tuple(noisy), rows, paid, chance_distance(synthetic, rows.value))]


def _accuracy(holdout: pd.DataFrame, yardstick: Yardstick, budget: Budget) -> list[Released]:
    """A share of right answers; none where the noise has swallowed the holdout. The interval holds every share a for
    which right (1 - a) - wrong a, whose noise is normal and known, may be zero (Fieller 1954).
    """
    paid = Paid.find(budget.schedule, ACCURACY)
    exact = None if paid is None else right_and_wrong(holdout, yardstick)
    if paid is None or exact is None:
        return []
    right, wrong = _drawn(budget, exact, paid.event)
    if right + wrong < 1:
        return []
    value = min(max(right / (right + wrong), 0.0), 1.0)
    shares = np.linspace(0.0, 1.0, _GRID)
    within = np.abs(right * (1 - shares) - wrong * shares) <= Z * paid.event.sigma * np.hypot(shares, 1 - shares)
    kept, step = shares[within] if within.any() else np.array([value]), 1 / (_GRID - 1)
    ends = _held((float(kept[0]) - step, float(kept[-1]) + step), (0.0, 1.0), value)
    released = paid.number(
        RIGHT, value, ends, drawn=(right, wrong), counts="held-out rows, right and wrong", denominator=right + wrong,
        epsilon=paid.epsilon(1),
    )  # fmt: skip
    return [released]


def _drawn(budget: Budget, exact: np.ndarray, event: GaussianEvent) -> list[int]:
    return [int(number) for number in budget.release(exact, event)]
