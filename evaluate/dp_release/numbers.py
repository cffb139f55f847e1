"""Differentially private numbers about a table: the noisy value, its exact interval, and the budget it was paid from.

All of this is computed from noisy values and public facts. The noise is known, so that the interval is exact, however
few rows there are. It says where the number of *these two tables* lies, not how another sample of people would differ.
"""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from evaluate.intervals import LEVEL
from evaluate.metrics import NOISY, Metric
from evaluate.released import N_ROWS, RIGHT, Released
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.errors import BudgetError

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

Z = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2)
"""Normal quantile of 95% intervals."""
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
        """The event of that name.

        Raises:
            BudgetError: the schedule has no such event; nothing was drawn.
        """
        paid = cls.find(schedule, what)
        if paid is None:
            raise BudgetError(f"the schedule pays for no release {what!r}; take the schedule of `released_schedule`")
        return paid

    def epsilon(self, n_releases: int) -> float:
        """The epsilon of so many releases on their own."""
        return _epsilon_alone(self.event.sigma, int(self.event.sensitivity), n_releases, self.delta)

    def number(self, measure: str, value: float, ends: tuple[float, float], **known: Any) -> Released:
        """A published number that this pays for."""
        return Released(
            measure=measure, value=value, low=ends[0], high=ends[1], what=self.event.what, sigma=self.event.sigma,
            sensitivity=int(self.event.sensitivity), **known,
        )  # fmt: skip


def rows_of(noisy: int, most: int, paid: Paid) -> Released:
    """About how many rows of the source table count.

    Args:
        noisy: drawn.
        most: rows that there can be: declared.
        paid: for it.
    """
    value = min(max(noisy, 1), most)
    ends = _held((noisy - Z * paid.event.sigma, noisy + Z * paid.event.sigma), (0, most), value)
    return paid.number(N_ROWS, float(value), ends, drawn=(noisy,), counts="rows", epsilon=paid.epsilon(1))


def distance_of(
    measure: str, noisy: tuple[int, ...], rows: Released, paid: Paid, expected: float, subject: tuple[str, ...] = ()
) -> Released:
    """A total variation, or the mean of several.

    The distance was taken at the noisy number of rows r where the true one is m, which moves it by |r - m| half rows at
    most. That is no more than the noise of r, so that both noises together bound the error: for a normal noise N and
    any shift within |e|, N + shift is beyond a limit no more often than N + e, e being normal too.

    Args:
        measure: its name.
        noisy: drawn, in half rows.
        rows: the number of rows, as it was released.
        paid: for it.
        expected: by chance.
        subject: the column.
    """
    scale = 2.0 * rows.value
    value = float(np.mean(noisy)) / scale
    half = Z * math.hypot(paid.event.sigma / math.sqrt(len(noisy)), rows.sigma) / scale
    held = min(max(value, 0.0), 1.0)
    ends = _held((value - half, value + half), (0.0, 1.0), held)
    return paid.number(
        measure, held, ends, subject=subject, drawn=noisy, counts="half rows", denominator=int(scale),
        expected=expected, epsilon=paid.epsilon(len(noisy)),
    )  # fmt: skip


def accuracy_of(right: int, wrong: int, paid: Paid) -> Released | None:
    """A share of right answers; `None` where the noise has swallowed the holdout.

    The interval holds every share a for which right (1 - a) - wrong a, whose noise is normal and known, may be zero
    (Fieller 1954).

    Args:
        right: drawn.
        wrong: drawn.
        paid: for both.
    """
    if right + wrong < 1:
        return None
    value = min(max(right / (right + wrong), 0.0), 1.0)
    shares = np.linspace(0.0, 1.0, _GRID)
    within = np.abs(right * (1 - shares) - wrong * shares) <= Z * paid.event.sigma * np.hypot(shares, 1 - shares)
    kept = shares[within] if within.any() else np.array([value])
    step = 1 / (_GRID - 1)
    ends = _held((float(kept[0]) - step, float(kept[-1]) + step), (0.0, 1.0), value)
    return paid.number(
        RIGHT, value, ends, drawn=(right, wrong), counts="held-out rows, right and wrong", denominator=right + wrong,
        epsilon=paid.epsilon(1),
    )  # fmt: skip


@cache
def _epsilon_alone(sigma: float, sensitivity: int, n_releases: int, delta: float) -> float:
    return epsilon_pld([GaussianEvent("alone", sigma, sensitivity, n_releases)], delta)


def chance_distance(counts: list[np.ndarray], n_rows: float) -> float:
    """The mean total variation that two samples of one distribution show, about.

    Args:
        counts: of the synthetic table's codes; the distribution, and one sample's size.
        n_rows: the other sample's size.

    >>> round(chance_distance([np.array([500, 500])], 1000), 4)
    0.0178
    """
    return float(np.mean([_chance(s / s.sum(), 1 / s.sum() + 1 / n_rows) for s in counts]))


def _chance(shares: np.ndarray, worth: float) -> float:
    """The mean of |N(0, v)| is sqrt(2 v / pi), code by code."""
    return float(0.5 * np.sqrt(2 / np.pi * shares * (1 - shares) * worth).sum())


def _held(ends: tuple[float, float], limits: tuple[float, float], value: float) -> tuple[float, float]:
    """An interval within the limits that holds the value."""
    low, high = (min(max(end, limits[0]), limits[1]) for end in ends)
    return float(min(low, value)), float(max(high, value))
