"""Support of the synthetic table: alpha-precision, beta-recall, density, coverage and authenticity of its rows.

Rows are points of `evaluate.neighbors`: ranks among the training rows (spread as two fair coins), one coordinate per
category, one for missing. Of each table equally many are compared with as many training rows; a copy of these scores
best, better than a fresh sample: whether rows are copies is what privacy measures say.

All pairs are looked at in blocks. What stays is, for each training row, its nearest rows of each table (`Cloud`). A
half-sample is counted on the same lists, which are long enough for it.

Source: Alaa et al. 2022, "How Faithful is your Synthetic Data?", arXiv:2102.08921 (alpha-precision, beta-recall,
authenticity); Naeem et al. 2020, arXiv:2002.09797 (density, coverage).
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from evaluate.fidelity.joint_samples import MIN_UNITS, JointSamples, joint_samples
from evaluate.intervals import HALVES, LEVEL, N_GROUPS, half_samples, replicate_groups, wilson
from evaluate.metrics import THREE, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

_SUPPORT = "a small sample moves it, so that its limit would depend on the number of rows"
_WIDE = "its interval is on the wide side; name 'joint.density.gap' or 'joint.beta_recall.gap'"
METRICS = (
    Metric("joint.alpha_precision", "higher", "Alpha-precision",
           "Whether as many synthetic as real rows lie in the typical part of the real table; 1 is best.",
           describes=f"{_SUPPORT}; name 'joint.alpha_precision.gap'", key=True),
    Metric("joint.alpha_precision.gap", "lower", "Alpha-precision lost",
           "A fresh real sample's alpha-precision, minus this one.", describes=_WIDE),
    Metric("joint.beta_recall", "higher", "Beta-recall",
           "Whether synthetic rows, from typical to odd ones, reach all of the real table; 1 is best.",
           describes=f"{_SUPPORT}; name 'joint.beta_recall.gap'", key=True),
    Metric("joint.beta_recall.gap", "lower", "Beta-recall lost", "A fresh real sample's beta-recall, minus this one.",
           counted=THREE),
    Metric("joint.density", "higher", "Density",
           "How densely synthetic rows lie where real rows lie; 1 is as dense as real ones.",
           describes=f"{_SUPPORT}; name 'joint.density.gap'", key=True),
    Metric("joint.density.gap", "lower", "Density lost", "A fresh real sample's density, minus this one.",
           counted=THREE),
    Metric("joint.coverage", "higher", "Coverage", "Share of real rows with a synthetic row in their neighborhood.",
           describes=_WIDE, key=True),
    Metric("joint.coverage.gap", "lower", "Coverage lost", "A fresh real sample's coverage, minus this one.",
           describes=_WIDE),
    Metric("joint.authenticity", "none", "Authenticity",
           "Share of rows further from the nearest training row than that row is from its neighbor. It only describes.",
           describes="distances do not find leaks, and rows far off are authentic too; name 'privacy.membership.auc'"),
)  # fmt: skip

N_NEIGHBORS = 5
"""Neighbors that a ball reaches to: of two samples of one population, 1 - 2^-5 = .97 of the balls hold a row of the
other (Naeem et al. 2020, eq. 9), as near to 1 as they ask for."""
LIST_ROWS, BLOCK_ROWS = 48, 512
MOST_ROWS = 20  # Rows of a ball that are counted at most; of two samples of one population, 1 ball in 10,000 holds more
DECIMALS = 9  # Of a squared distance; what lies beyond is rounding
FIGURES = ("alpha_precision", "beta_recall", "density", "coverage")


@dataclass(frozen=True)
class Cloud:
    """Rows of a table as seen from the training rows. *Sensitive* where the table is."""

    points: np.ndarray  # of the table, shape (m, d_space)
    near: np.ndarray  # the nearest rows of the table, nearest first; shape (n, n_listed)
    distances: np.ndarray  # squared, of the same; shape (n, n_listed)
    home: np.ndarray  # the nearest training row of each row of the table, shape (m,)
    apart: np.ndarray  # the squared distance to it, shape (m,)


def cloud(train: np.ndarray, points: np.ndarray) -> Cloud:
    """The nearest rows of a table, for each training row, and the other way round. `train`: *Sensitive*. Shape (n,
    d_space), float64. `points`: shape (m, d_space), float64. The same object as `train`: a row is then no neighbor of
    its own.
    """
    n_listed = min(LIST_ROWS, len(points) - int(points is train))
    near = np.empty((len(train), n_listed), dtype=np.intp)
    distances = np.empty((len(train), n_listed))
    home, apart = np.zeros(len(points), dtype=np.intp), np.full(len(points), np.inf)
    squares = np.einsum("ij,ij->i", points, points)
    for start in range(0, len(train), BLOCK_ROWS):
        block = train[start : start + BLOCK_ROWS]
        gaps = np.einsum("ij,ij->i", block, block)[:, None] + squares - 2.0 * (block @ points.T)
        rows = np.arange(len(block))
        if points is train:
            gaps[rows, rows + start] = np.inf
        nearest = gaps.argmin(axis=0)
        least = gaps[nearest, np.arange(len(points))]
        home, apart = np.where(least < apart, nearest + start, home), np.minimum(least, apart)
        listed = np.argpartition(gaps, n_listed - 1, axis=1)[:, :n_listed]
        found = _rounded(gaps[rows[:, None], listed])
        order = np.lexsort((listed, found), axis=1)
        near[start : start + BLOCK_ROWS] = np.take_along_axis(listed, order, axis=1)
        distances[start : start + BLOCK_ROWS] = np.take_along_axis(found, order, axis=1)
    return Cloud(points, near, distances, home, _rounded(apart))


def _rounded(squares: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(np.round(squares, DECIMALS), 0.0))


def figures(own: Cloud, other: Cloud, kept_train: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Alpha-precision, beta-recall, density and coverage of a part of a table against a part of the training rows.
    `own`: *Sensitive*. The training rows among themselves. `kept_train`: which training rows count, shape (n,),
    boolean. `kept`: which rows of the table count, shape (m,), boolean.
    """
    balls, n_own = _balls(own, kept_train)
    listed = kept[other.near[kept_train]]
    distances = other.distances[kept_train]
    n_inside = (listed & (distances <= balls[:, None])).sum(axis=1)
    scale = kept_train.sum() / kept.sum()
    # DEVIATES: rows in the ball, not k, and no more than `MOST_ROWS`: where many rows are at equal distances a closed
    # ball holds more than k of either table, and a ball about an outlier could hold all of a table that collapsed.
    density = scale * float((np.minimum(n_inside, MOST_ROWS) / np.minimum(n_own, MOST_ROWS)).mean())
    nearest = np.take_along_axis(other.near[kept_train], listed.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.array([
        _alpha_precision(own.points[kept_train], other.points[kept]),
        _beta_recall(other.points, kept, nearest, n_inside > 0),
        density,
        float((n_inside > 0).mean()),
    ])  # fmt: skip


def _balls(own: Cloud, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each kept row the squared distance to its k-th kept neighbor, and how many kept rows are within it."""
    listed, distances = kept[own.near[kept]], own.distances[kept]
    ranks = listed.cumsum(axis=1)
    # Where the list holds fewer than k kept rows, its last one is the best known.
    last = np.where(ranks[:, -1] >= N_NEIGHBORS, (ranks >= N_NEIGHBORS).argmax(axis=1), listed.shape[1] - 1)
    balls = np.take_along_axis(distances, last[:, None], axis=1)[:, 0]
    return balls, np.maximum((listed & (distances <= balls[:, None])).sum(axis=1), 1)


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


def authentic(own: Cloud, other: Cloud) -> np.ndarray:
    """For each row of a table 1 where it is further from the nearest training row than that is from its neighbor.

    Source: Alaa et al. 2022, eq. 7.
    """
    # DEVIATES: the authors' code looks up the distances of training rows by the positions of synthetic ones, and takes
    # a tie for a copy; here a tie counts half, or a table with twins could not be authentic.
    neighbor = own.distances[other.home, 0]
    return np.asarray((other.apart > neighbor) + (other.apart == neighbor) / 2)


NAMES = tuple(metric.name for metric in METRICS)
_PARTS = np.array([np.random.default_rng([7, part]).permutation(N_GROUPS) < 10 for part in range(24)])
_BOUNDS = {"density": (0.0, np.inf)}
_NOTES = {
    "alpha_precision": "Integrated over alpha: 1 where every ball about the training rows' center holds its share.",
    "beta_recall": "Integrated over beta: 1 where every ball of synthetic rows reaches its share of training rows.",
    "density": "Synthetic rows per training row in balls to the 5th neighbor; above 1 they crowd together.",
    "coverage": "Share of training rows with a synthetic row no further than their 5th neighbor.",
}


def measure(tables: Tables) -> MetricResult:
    """Alpha-precision, beta-recall, density, coverage, how far each is below a fresh sample's, and authenticity."""
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
    estimates = [e for i, name in enumerate(FIGURES) for e in _estimates(name, found[:, :, i], samples.n)]
    return MetricResult((*estimates, _authenticity(own, others, samples)))


def replicates(own: Cloud, others: list[Cloud], samples: JointSamples) -> np.ndarray:
    """The figures of synthetic, fresh and shuffled rows. On all rows, then on 15 half-samples and their complements,
    then on parts of 10 of the 16 groups; shape (3, 55, 4).
    """
    kept = np.concatenate([replicate_groups(N_GROUPS)[: HALVES.stop] > 0, _PARTS])
    found = np.empty((3, len(kept), len(FIGURES)))
    for i, (other, side) in enumerate(zip(others, (samples.synthetic, samples.fresh, samples.shuffled), strict=True)):
        # No interval is given for shuffled rows, whose parts then need not be counted.
        for j, groups in enumerate(kept if i < 2 else kept[:1]):
            found[i, j] = figures(own, other, groups[samples.train.groups], groups[side.groups])
    return found


def _estimates(name: str, found: np.ndarray, n: int) -> list[Estimate]:
    """The figure, and how far it is below that of a fresh sample; `found` has shape (3, 55)."""
    low, high = _interval(name, found[0], _BOUNDS.get(name, (0.0, 1.0)))
    plain = Estimate(
        f"joint.{name}", float(found[0, 0]), n, "higher", low=low, high=high,
        reference=float(found[1, 0]), floor=float(found[2, 0]), note=_NOTES[name],
    )  # fmt: skip
    gaps = found[1] - found[0]
    low, high = _interval(name, gaps, (-np.inf, np.inf))
    gap = Estimate(
        f"joint.{name}.gap", float(gaps[0]), n, "lower", low=low, high=high, reference=0.0,
        floor=float(found[1, 0] - found[2, 0]), note="What a fresh real sample scores, minus what these rows score.",
    )  # fmt: skip
    return [plain, gap]


def _interval(name: str, found: np.ndarray, bounds: tuple[float, float]) -> tuple[float, float]:
    """By half-samples; coverage, which varies less among halves, by larger parts.

    Source: Shao and Wu 1989, "A general theory for jackknife variance estimation" (the delete-d jackknife).
    """
    if name != "coverage":
        return half_samples(found[0], found[HALVES], bounds=bounds)
    n_kept = int(_PARTS[0].sum())
    error = float(np.sqrt(n_kept / (N_GROUPS - n_kept) * found[HALVES.stop :].var(ddof=1)))
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
    return max(found[0] - half, bounds[0]), min(found[0] + half, bounds[1])


def _authenticity(own: Cloud, others: list[Cloud], samples: JointSamples) -> Estimate:
    """The share of rows that are no nearer to a training row than that is to its own neighbor."""
    value, reference, floor = (float(authentic(own, other).mean()) for other in others)
    # Half of the rows: the training rows are a sample too, and of the same size.
    _, low, high = wilson(value, samples.n_units / 2)
    return Estimate(
        "joint.authenticity", value, samples.n, "none", low=low, high=high, reference=reference, floor=floor,
        note="Share of rows further from the nearest training row than that is from its neighbor; ties count half.",
    )  # fmt: skip
