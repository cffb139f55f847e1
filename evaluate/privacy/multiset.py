"""Multiset distance: counts of equal rows beside the training table's, in units of an independent sample's.

In a table full of duplicates (three yes/no columns, say) every honest row has a twin in the training table. Neither
copies nor distances see there that a table *is* the training table. Counts do: those of an independent sample differ
from the training table's by chance, those of a copy do not differ at all.

The figure is the two-sample chi-square over the distinct rows,

    X2 = sum_c (a_c - t_c n / N)^2 N^2 / (n m t_c),   t_c = a_c + b_c,  N = n + m,

of the n training rows' counts a_c and the m synthetic rows' counts b_c, divided by what it is on average when the two
tables are exchangeable: given the t_c that is exactly (K - 1) N / (N - 1) for K distinct rows, however few rows a cell
holds. So 1 is as far as an independent sample, and above 1 is further (noise, another distribution). 0 is an exact
copy, also one in which every row is repeated equally often. Rows drawn with replacement from the training table itself
score about n / N, so do saturated models that draw row by row; below that, counts were matched. A table of unique rows
scores exactly 1 unless it shares rows with the training table.

The split may have been stratified on the target, which makes honest counts agree in it. So X2 and its mean are summed
within the target's categories, where that agreement has no say.

The interval takes X2 for a multiple of a chi-square with the exact mean and variance of the exchangeable case. Its
upper end falls below a small limit (0.05, say) for a copy, and for fewer than 1% of independent samples.

Source: Pearson 1911 (the statistic); Dawson 1954, "A simplified expression for the variance of the chi-squared
function on a contingency table" (mean and variance under fixed margins).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special, stats

from evaluate.result import Estimate, Failure
from evaluate.sampling import learned_keys
from evaluate.tables import MetricResult, Tables
from synth.columns import BooleanColumn, CategoricalColumn
from synth.split import row_keys

CHANCE = 1e-3
"""Nothing is told where an independent sample matches the training counts with at least this probability."""


@dataclass(frozen=True)
class StratumCounts:
    """Counts of each distinct row in two tables; one stratum.

    Attributes:
        train: *Sensitive*. Counts among the n training rows, shape (K,).
        other: counts among the m rows of the other table, shape (K,); no row has both counts zero.
        times: how many distinct rows have these counts, shape (K,); `None`: one each.
    """

    train: np.ndarray
    other: np.ndarray
    times: np.ndarray | None = None

    @property
    def both(self) -> np.ndarray:
        """Counts in the two tables together, shape (K,)."""
        return np.asarray(self.train + self.other)


@dataclass(frozen=True)
class TwoSampleChiSquare:
    """A two-sample chi-square and how it is distributed when the tables are exchangeable.

    Attributes:
        statistic: X2.
        mean: its exact mean given the counts of both tables together.
        variance: its exact variance.
        log_chance: logarithm of the probability of the single most likely counts.
    """

    statistic: float
    mean: float
    variance: float
    log_chance: float

    @property
    def told_by_chance(self) -> bool:
        """True where an exact match could be luck, or there is nothing to match."""
        return self.mean <= 0.0 or self.log_chance > np.log(CHANCE)

    @property
    def dispersion(self) -> tuple[float, float, float]:
        """X2 in units of its mean, with the ends of the 95% interval."""
        ratio = self.statistic / self.mean
        if self.variance <= 1e-9 * self.mean**2:
            return ratio, ratio, ratio
        degrees = 2.0 * self.mean**2 / self.variance
        low, high = (degrees / float(stats.chi2.ppf(q, degrees)) for q in (0.975, 0.025))
        return ratio, ratio * low, ratio * high


def measure_multiset(tables: Tables) -> MetricResult:
    """The estimate `privacy.multiset`, or why this table cannot carry it."""
    return multiset_of(compare(tables, tables.synthetic), len(tables.train), len(tables.synthetic), tables)


def multiset_of(synthetic: TwoSampleChiSquare, n_train: int, n_synthetic: int, tables: Tables) -> MetricResult:
    """The estimate `privacy.multiset`, or why this table cannot carry it.

    Args:
        synthetic: of the synthetic table.
        n_train: rows of the training table that it was compared with.
        n_synthetic: its rows.
        tables: *Sensitive*. Give the landmarks.
    """
    name = "privacy.multiset"
    if synthetic.told_by_chance:
        message = "too few different rows: an independent sample may match the training table's row counts by chance"
        return MetricResult(failures=(Failure(name, "skipped", message),))
    value, low, high = synthetic.dispersion
    fresh, shuffled = (compare(tables, frame) for frame in (tables.fresh, tables.shuffled))
    drawn = n_train / (n_train + n_synthetic)
    note = (
        "distance of the row counts from the training table's: 1 as an independent sample, 0 an exact copy, "
        f"{drawn:.2f} rows drawn at random from the training table"
    )
    return MetricResult(
        estimates=(
            Estimate(
                name, value, n_synthetic, "higher", low=low, high=high, note=note,
                reference=fresh.statistic / fresh.mean if fresh.mean > 0 else None,
                floor=shuffled.statistic / shuffled.mean if shuffled.mean > 0 else None,
            ),
        )
    )  # fmt: skip


def compare(tables: Tables, other: pd.DataFrame) -> TwoSampleChiSquare:
    """The chi-square of another table's row counts against the training table's, within the target's categories."""
    return chi_square(_strata(tables, other))


def chi_square(strata: list[StratumCounts]) -> TwoSampleChiSquare:
    """The two-sample chi-square, summed over strata; strata that one table lacks do not count."""
    parts = [_one(counts) for counts in strata if counts.train.any() and counts.other.any()]
    sums = np.array(parts).reshape(-1, 4).sum(axis=0)
    return TwoSampleChiSquare(*(float(number) for number in sums))


def _one(counts: StratumCounts) -> tuple[float, float, float, float]:
    both = counts.both.astype(np.float64)
    times = np.ones(len(both)) if counts.times is None else counts.times.astype(np.float64)
    n, m, K = float((times * counts.train).sum()), float((times * counts.other).sum()), float(times.sum())
    N = n + m
    statistic = float((times * ((counts.train - both * n / N) ** 2) / both).sum() * N * N / (n * m))
    mean = (K - 1) * N / (N - 1)
    return statistic, mean, _variance(n, m, both, times), _log_chance(n, m, both, times)


def _variance(n: float, m: float, both: np.ndarray, times: np.ndarray) -> float:
    """The exact variance of the chi-square given all margins; 0 for tables too small for the formula."""
    N, K = n + m, float(times.sum())
    if N <= 3 or K < 2:
        return 0.0
    rows = (N * (1 / n + 1 / m) - 4) / (N - 2)
    columns = (N * float((times / both).sum()) - K * K) / (N - 2)
    first, second = (N - 2) / (N - 1), (N - K) * (K - 1) / (N - 1)
    return max(0.0, 2 * N / (N - 3) * (first - rows) * (second - columns) + N * N / (N - 1) * rows * columns)


def _log_chance(n: float, m: float, both: np.ndarray, times: np.ndarray) -> float:
    """Logarithm of the probability of the most even split of the counts (multivariate hypergeometric)."""
    share = np.round(both * n / (n + m))
    ways = special.gammaln(both + 1) - special.gammaln(share + 1) - special.gammaln(both - share + 1)
    all_ways = special.gammaln(n + m + 1) - special.gammaln(n + 1) - special.gammaln(m + 1)
    return min(0.0, float((times * ways).sum() - all_ways))


def _strata(tables: Tables, other: pd.DataFrame) -> list[StratumCounts]:
    """Counts of distinct rows, one stratum for each value of a target with categories."""
    frames, schema = (tables.train, other), tables.schema
    keys = np.concatenate([learned_keys(frame, schema) for frame in frames])
    sides = np.repeat([0, 1], [len(frame) for frame in frames])
    _, first, cells = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.stack([np.bincount(cells[sides == side], minlength=len(first)) for side in (0, 1)])
    target = schema.target
    if target is None or not isinstance(schema.columns[target], CategoricalColumn | BooleanColumn):
        return [StratumCounts(counts[0], counts[1])]
    labels = np.concatenate([row_keys(frame, [target]) for frame in frames])[first]
    return [StratumCounts(*counts[:, labels == label]) for label in np.unique(labels)]
