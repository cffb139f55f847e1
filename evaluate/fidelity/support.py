"""Support of the synthetic table: alpha-precision, beta-recall and coverage of its rows.

Rows are points of `evaluate.neighbors`: ranks among the training rows (spread as two fair coins), one coordinate per
category, one for missing. Of each table equally many are compared with as many training rows; a copy of these scores
best, better than a fresh sample: whether rows are copies is what privacy measures say.

All pairs are looked at in blocks. What stays is, for each training row, its nearest rows of each table (`Cloud`). A
half-sample is counted on the same lists, which are long enough for it.

Source: Alaa et al. 2022, "How Faithful is your Synthetic Data?", arXiv:2102.08921 (alpha-precision, beta-recall);
Naeem et al. 2020, arXiv:2002.09797 (coverage).
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from evaluate.fidelity.joint_samples import MIN_UNITS, JointSamples, joint_samples
from evaluate.intervals import HALVES, LEVEL, N_GROUPS, half_samples, replicate_groups
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

_SUPPORT = "a small sample moves it, so that its limit would depend on the number of rows; name 'joint.c2st.excess'"
METRICS = (
    Metric("joint.alpha_precision", "higher", "Alpha-precision",
           "Whether as many synthetic as real rows lie in the typical part of the real table; 1 is best.",
           describes=_SUPPORT, key=True),
    Metric("joint.beta_recall", "higher", "Beta-recall",
           "Whether synthetic rows, from typical to odd ones, reach all of the real table; 1 is best.",
           describes=_SUPPORT, key=True),
    Metric("joint.coverage", "higher", "Coverage", "Share of real rows with a synthetic row in their neighborhood.",
           describes=_SUPPORT, key=True),
)  # fmt: skip

N_NEIGHBORS = 5
"""Neighbors that a ball reaches to: of two samples of one population, 1 - 2^-5 = .97 of the balls hold a row of the
other (Naeem et al. 2020, eq. 9), as near to 1 as they ask for."""
LIST_ROWS, BLOCK_ROWS = 48, 512
DECIMALS = 9  # Of a squared distance; what lies beyond is rounding
FIGURES = ("alpha_precision", "beta_recall", "coverage")


@dataclass(frozen=True)
class Cloud:
    """Rows of a table as seen from the training rows. *Sensitive* where the table is."""

    points: np.ndarray  # of the table, shape (m, d_space)
    near: np.ndarray  # the nearest rows of the table, nearest first; shape (n, n_listed)
    distances: np.ndarray  # squared, of the same; shape (n, n_listed)


def cloud(train: np.ndarray, points: np.ndarray) -> Cloud:
    """The nearest rows of a table, for each training row. `train`: *Sensitive*. Shape (n,
    d_space), float64. `points`: shape (m, d_space), float64. The same object as `train`: a row is then no neighbor of
    its own.
    """
    n_listed = min(LIST_ROWS, len(points) - int(points is train))
    near = np.empty((len(train), n_listed), dtype=np.intp)
    distances = np.empty((len(train), n_listed))
    squares = np.einsum("ij,ij->i", points, points)
    for start in range(0, len(train), BLOCK_ROWS):
        block = train[start : start + BLOCK_ROWS]
        gaps = np.einsum("ij,ij->i", block, block)[:, None] + squares - 2.0 * (block @ points.T)
        rows = np.arange(len(block))
        if points is train:
            gaps[rows, rows + start] = np.inf
        listed = np.argpartition(gaps, n_listed - 1, axis=1)[:, :n_listed]
        found = np.maximum(np.round(gaps[rows[:, None], listed], DECIMALS), 0.0)
        order = np.lexsort((listed, found), axis=1)
        near[start : start + BLOCK_ROWS] = np.take_along_axis(listed, order, axis=1)
        distances[start : start + BLOCK_ROWS] = np.take_along_axis(found, order, axis=1)
    return Cloud(points, near, distances)


def figures(own: Cloud, other: Cloud, kept_train: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Alpha-precision, beta-recall and coverage of a part of a table against a part of the training rows. `own`:
    *Sensitive*. The training rows among themselves. `kept_train`: which training rows count, shape (n,), boolean.
    `kept`: which rows of the table count, shape (m,), boolean.
    """
    listed, ranks = kept[other.near[kept_train]], kept_train[own.near[kept_train]].cumsum(axis=1)
    # To the k-th kept neighbor; where the list holds fewer than k kept rows, its last one is the best known.
    last = np.where(ranks[:, -1] >= N_NEIGHBORS, (ranks >= N_NEIGHBORS).argmax(axis=1), ranks.shape[1] - 1)
    balls = np.take_along_axis(own.distances[kept_train], last[:, None], axis=1)
    covered = (listed & (other.distances[kept_train] <= balls)).any(axis=1)
    nearest = np.take_along_axis(other.near[kept_train], listed.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.array([
        _alpha_precision(own.points[kept_train], other.points[kept]),
        _beta_recall(other.points, kept, nearest, covered),
        float(covered.mean()),
    ])  # fmt: skip


def _alpha_precision(train: np.ndarray, rows: np.ndarray) -> float:
    """Alpha-precision: balls about the training rows' center with a share alpha of them, and their share of the rows.

    Source: Alaa et al. 2022, eq. 4 and 6.
    """
    # DEVIATES: balls lie about the mean of the training points, not about the center of a one-class network, which
    # would have to be trained; and rows at equal distances enter a ball little by little, not all at once, or a table
    # of few distinct rows would not be precise even beside itself.
    center = train.mean(axis=0)
    return agreement(_from(center, train), _from(center, rows))


def _beta_recall(points: np.ndarray, kept: np.ndarray, nearest: np.ndarray, covered: np.ndarray) -> float:
    """Beta-recall: balls about the rows' center with a share beta of them, and the training rows that they reach.
    `points`: of the rows, shape (m, d_space). `kept`: which of them count, shape (m,), boolean.

    Source: Alaa et al. 2022, eq. 5 and 6.
    """
    # DEVIATES: shares are of all synthetic rows, not, as in the authors' code, of those that are nearest to a training
    # row; and a training row counts where its nearest synthetic row lies in the ball, not the nearest of those that
    # do, or a table equal to train would be recalled too soon.
    level = _from(points[kept].mean(axis=0), points)
    return agreement(level[kept], np.where(covered, level[nearest], np.inf))


def _from(center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Squared distances from a center, shape (len(points),)."""
    gaps = points - center
    return np.asarray(np.round(np.einsum("ij,ij->i", gaps, gaps), DECIMALS))


def agreement(base: np.ndarray, other: np.ndarray) -> float:
    """One minus twice the area between the curve of other's share below each quantile of base, and the diagonal.
    `base`: finite, shape (n,). `other`: shape (m,); infinite ones are below no quantile.

    >>> agreement(np.array([1.0, 2.0]), np.array([2.0, 1.0])), agreement(np.array([1.0, 2.0]), np.array([9.0, np.inf]))
    (1.0, 0.0)
    """
    values = np.unique(np.concatenate([base, other[np.isfinite(other)]]))
    x, y = (np.r_[0.0, np.searchsorted(np.sort(of), values, "right") / len(of)] for of in (base, other))
    gaps = np.abs(y - x)
    crosses = (y - x)[1:] * (y - x)[:-1] < 0
    sums = gaps[1:] + gaps[:-1]
    heights = np.where(crosses, (gaps[1:] ** 2 + gaps[:-1] ** 2) / np.where(sums > 0, sums, 1.0), sums) / 2
    return float(1.0 - 2.0 * (np.diff(x) * heights).sum())


NAMES = tuple(metric.name for metric in METRICS)
_PARTS = np.array([np.random.default_rng([7, part]).permutation(N_GROUPS) < 10 for part in range(24)])
_NOTES = {
    "alpha_precision": "Integrated over alpha: 1 where every ball about the training rows' center holds its share.",
    "beta_recall": "Integrated over beta: 1 where every ball of synthetic rows reaches its share of training rows.",
    "coverage": "Share of training rows with a synthetic row no further than their 5th neighbor.",
}


def measure(tables: Tables) -> MetricResult:
    """Alpha-precision, beta-recall and coverage."""
    samples = joint_samples(tables)
    if samples.n_units < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    if samples.train.points.shape[1] == 0:
        why = "all rows of all tables are equal, so there is no distance between them"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    train = samples.train.points
    own = cloud(train, train)
    others = [cloud(train, side.points) for side in (samples.synthetic, samples.fresh, samples.shuffled)]
    found = replicates(own, others, samples)
    return MetricResult(tuple(_estimate(name, found[:, :, i], samples.n) for i, name in enumerate(FIGURES)))


def replicates(own: Cloud, others: list[Cloud], samples: JointSamples) -> np.ndarray:
    """The figures of synthetic, fresh and shuffled rows. On all rows, then on 15 half-samples and their complements,
    then on parts of 10 of the 16 groups; shape (3, 55, 3).
    """
    kept = np.concatenate([replicate_groups(N_GROUPS)[: HALVES.stop] > 0, _PARTS])
    found = np.empty((3, len(kept), len(FIGURES)))
    for i, (other, side) in enumerate(zip(others, (samples.synthetic, samples.fresh, samples.shuffled), strict=True)):
        # Landmarks have no interval, so that their parts need not be counted.
        for j, groups in enumerate(kept if i == 0 else kept[:1]):
            found[i, j] = figures(own, other, groups[samples.train.groups], groups[side.groups])
    return found


def _estimate(name: str, found: np.ndarray, n: int) -> Estimate:
    """By half-samples; coverage, which varies less among halves, by larger parts. `found`: shape (3, 55).

    Source: Shao and Wu 1989, "A general theory for jackknife variance estimation" (the delete-d jackknife).
    """
    value = float(found[0, 0])
    low, high = half_samples(value, found[0, HALVES], bounds=(0.0, 1.0))
    if name == "coverage":
        n_kept = int(_PARTS[0].sum())
        error = float(np.sqrt(n_kept / (N_GROUPS - n_kept) * found[0, HALVES.stop :].var(ddof=1)))
        half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
        low, high = max(value - half, 0.0), min(value + half, 1.0)
    return Estimate(
        f"joint.{name}", value, n, "higher", low=low, high=high, reference=float(found[1, 0]),
        floor=float(found[2, 0]), note=_NOTES[name],
    )  # fmt: skip
