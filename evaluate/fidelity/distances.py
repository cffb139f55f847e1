"""How far one column of two tables lies apart: Kolmogorov-Smirnov, Wasserstein and the chi-square of counts."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluate.fidelity.lines import AnyLine, CellLine, Line
from evaluate.intervals import replicate_groups

_A_PIECE = 1 << 16
"""Values that are looked at together."""


@dataclass(frozen=True)
class Gaps:
    """How far the empirical distribution functions of a column in two tables lie apart.

    Attributes:
        kolmogorov_smirnov: the largest gap, ties right; 1, the worst, where only one side has a value, 0 where none
            has; shape (n_replicates,).
        wasserstein: the area between them, in units of the column; shape (n_replicates,).
        area_error: by how much the area may be larger on all rows, as its cells tell no more; 0 place by place.
    """

    kolmogorov_smirnov: np.ndarray
    wasserstein: np.ndarray
    area_error: float = 0.0

    @classmethod
    def between(cls, first: AnyLine, second: AnyLine) -> Self:
        """The gaps between two tables, both place by place or both in cells of one grid."""
        n_groups = len(first.counts)
        replicates = replicate_groups(n_groups)
        n_first, n_second = (replicates @ line.counts.sum(axis=1) for line in (first, second))
        largest, area, error = np.zeros(len(replicates)), np.zeros(len(replicates)), 0.0
        if isinstance(first, CellLine) and isinstance(second, CellLine):
            largest, area, error = _in_cells(first, second, replicates)
        elif isinstance(first, Line) and isinstance(second, Line) and len(first.values) + len(second.values):
            largest, area = _place_by_place(first, second, replicates)
        alone, present = (n_first > 0) != (n_second > 0), (n_first + n_second) > 0
        return cls(np.where(alone, 1.0, np.where(present, largest, 0.0)), area, error)


def _place_by_place(first: Line, second: Line, replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest gap and the area."""
    places = np.union1d(first.values, second.values)
    widths = np.append(np.diff(places), 0.0)
    below = []
    for line in (first, second):
        counts = np.zeros((len(line.counts), len(places)), dtype=np.int64)
        counts[:, np.searchsorted(places, line.values)] = line.counts
        below.append(np.cumsum(counts, axis=1, out=counts))
    n = [np.maximum(replicates @ up_to[:, -1], 1.0)[:, None] for up_to in below]
    largest, area = np.zeros(len(replicates)), np.zeros(len(replicates))
    for start in range(0, len(places), _A_PIECE):
        piece = slice(start, start + _A_PIECE)
        shares = [replicates @ up_to[:, piece] / total for up_to, total in zip(below, n, strict=True)]
        gaps = np.abs(shares[0] - shares[1])
        largest, area = np.maximum(largest, gaps.max(axis=1)), area + gaps @ widths[piece]
    return largest, area


def _in_cells(first: CellLine, second: CellLine, replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The largest gap at ends of cells, the area where functions do not cross within one, and what crossings may add.

    Within a cell (a, b] the integral of a distribution function is its value at a times the width, plus the sum of
    distances from values to b.
    """
    grid = first.grid
    ends = (grid.ends - grid.center) / grid.unit
    up_to = np.append(ends, ends[-1])  # nothing is above both functions' last values
    widths = np.concatenate([[0.0], np.diff(ends), [0.0]])
    shares, distances = [], []
    for line in (first, second):
        n = np.maximum(replicates @ line.counts.sum(axis=1), 1.0)[:, None]
        shares.append(replicates @ line.counts / n)
        distances.append(up_to * shares[-1] - replicates @ line.sums / n)
    at_ends = np.cumsum(shares[0], axis=1) - np.cumsum(shares[1], axis=1)
    before = np.concatenate([np.zeros((len(replicates), 1)), at_ends[:, :-1]], axis=1) * widths
    areas = np.abs(before + distances[0] - distances[1])
    most = np.abs(before[0]) + np.abs(distances[0][0]) + np.abs(distances[1][0])
    error = float(np.maximum(most - areas[0], 0.0).sum())
    return np.abs(at_ends).max(axis=1), grid.unit * areas.sum(axis=1), grid.unit * error


@dataclass(frozen=True)
class ChiSquare:
    """Pearson's chi-square of two samples' counts.

    Attributes:
        statistic: on all rows, then on half-samples; shape (n_replicates,).
        cramers_v: its effect size, in [0, 1]; shape (n_replicates,).
        degrees: degrees of freedom, on all rows.
        p: of the statistic, on all rows. It measures n, not quality: never gate on it.
    """

    statistic: np.ndarray
    cramers_v: np.ndarray
    degrees: int
    p: float


def chi_square(first: np.ndarray, second: np.ndarray) -> ChiSquare:
    """Whether two rows of counts could come from one distribution; expected counts are pooled.

    Args:
        first: counts by category of one sample, shape (n_replicates, n_categories).
        second: counts of the other one, same shape.
    """
    from scipy import special

    n_first, n_second = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    both = first + second
    balance = (first * n_second - second * n_first) ** 2 / np.maximum(both, 1.0)
    statistic = balance.sum(axis=1) / (n_first * n_second)[:, 0]
    degrees = int((both[0] > 0).sum()) - 1
    effect = np.sqrt(np.minimum(statistic / both.sum(axis=1), 1.0))
    p = float(special.chdtrc(degrees, statistic[0])) if degrees > 0 else 1.0
    return ChiSquare(statistic, effect, degrees, p)


def kolmogorov_p(distance: float, n_first: int, n_second: int) -> float:
    """The asymptotic p of a two-sample Kolmogorov-Smirnov distance; ties make it too large.

    It measures n, not quality: never gate on it.

    Source: Smirnov 1939; Hodges 1958, "The significance probability of the Smirnov two-sample test".

    >>> round(kolmogorov_p(0.1, 500, 500), 4)
    0.0135
    """
    from scipy import special

    return float(special.kolmogorov(distance * np.sqrt(n_first * n_second / (n_first + n_second))))
