"""Copies of training rows in the synthetic table, and the multiset distance where every row repeats.

Equal means equal in every learned column, to the last digit, missing equal to missing. Where rows repeat honest rows
coincide too: only what held-out people do not share speaks of copying (`evaluate.privacy.coincidence`).

People are tested alone with their row, and again all together, each by how little chance explains the match, log(1 + e
(1 - h) / h): the best weight where a small share e of all people was copied. Chance meets a row with probability h = 1
- exp(-c d). The density d adds up the real rows that equal it, all rows that do so in every column but one, times the
share of its value in that column, and what the shares of its values make likely; c is such that as many are met as are.
The rarest 10%, 5%, 2% and 1% of people are tested apart, by the sum of -log(share) of their values.

The multiset distance is the two-sample chi-square over the distinct rows,

    X2 = sum_c (a_c - t_c n / N)^2 N^2 / (n m t_c),   t_c = a_c + b_c,  N = n + m,

of the n training rows' counts a_c and the m synthetic rows' counts b_c, divided by its mean when the two tables are
exchangeable: given the t_c exactly (K - 1) N / (N - 1) for K distinct rows. So 1 is an independent sample, 0 an exact
copy, and rows drawn with replacement from the training table score about n / N. A split that was stratified on the
target makes honest counts agree in it, so X2 and its mean are summed within the target's categories. The interval takes
X2 for a multiple of a chi-square with the exact mean and variance of the exchangeable case.

Source: Pearson 1911 (the statistic); Dawson 1954, "A simplified expression for the variance of the chi-squared function
on a contingency table" (mean and variance under fixed margins).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from evaluate.intervals import Rate, clustered, newcombe
from evaluate.metrics import COPIED, COPIED_PEOPLE, COUNTS, HELD_OUT_PEOPLE, SWAPPED, SYNTHETIC, Metric
from evaluate.privacy.coincidence import CERTAIN, Alone, Coincidences, fewest_copied
from evaluate.result import Estimate, Failure
from evaluate.sampling import RowHashes, Side
from evaluate.tables import MetricResult, Tables
from synth.identifiers import mix
from synth.row_hash import cell_hashes
from synth.table.rows import Rows

SMALL = 0.01
"""Share of people copied for which the weights are the best: fewer show in nothing, and more show without weights."""
RAREST = (0.1, 0.05, 0.02, 0.01)
"""Shares of all people that are tested apart, those with the rarest rows: copies of these drown among common rows."""
HALF = 0.5  # Share of people, the rarer ones, by whom the most copies are told
CERTAINLY = 25  # Comparisons for which a 95% interval errs on either side as seldom as `CERTAIN`
LEAST_CHANCE, MOST_SURPRISE = 1e-6, 600.0  # So that no weight is infinite
CHANCE = 1e-3  # Nothing is told where an independent sample matches the training counts with at least this probability


@dataclass(frozen=True)
class TwoSampleChiSquare:
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
    synthetic, holdout = (compare(tables, "synthetic", side) for side in ("train", "holdout"))
    n_train, n_synthetic = tables.n_all("train"), tables.n_all("synthetic")
    name = "privacy.multiset"
    if synthetic.told_by_chance:
        message = "too few different rows: an independent sample may match the training table's row counts by chance"
        return MetricResult(failures=(Failure(name, "skipped", message),))
    value, low, high = synthetic.dispersion
    note = (
        "distance of the row counts from the training table's: 1 as an independent sample, 0 an exact copy, "
        f"{n_train / (n_train + n_synthetic):.2f} rows drawn at random from the training table"
    )
    # Where every row repeats, nothing else sees a copy of the other side.
    if not holdout.told_by_chance and holdout.dispersion[2] < low:
        value, low, high = holdout.dispersion
        note = f"distance of the row counts from the holdout's, to which they are nearer. {SWAPPED}"
    marks = (compare(tables, side) for side in ("fresh", "shuffled"))
    fresh, shuffled = (mark.statistic / mark.mean if mark.mean > 0 else None for mark in marks)
    estimate = Estimate(
        name, value, n_synthetic, "higher", low=low, high=high, note=note, reference=fresh, floor=shuffled
    )
    return MetricResult((estimate,))


def compare(tables: Tables, other: Side, side: Side = "train") -> TwoSampleChiSquare:
    """The chi-square of another table's row counts against those of a side, within the target's categories."""
    first, second = tables.hashes(side), tables.hashes(other)
    keys, n_first = first.distinct
    known, n_second = second.distinct
    is_new = first.times(known) == 0
    counts = np.stack(
        [np.append(n_first, np.zeros(is_new.sum(), dtype=np.int64)), np.append(second.times(keys), n_second[is_new])]
    )
    target = tables.schema.target
    if target is None or not tables.schema.columns[target].is_categorical:
        return chi_square([counts])
    strata = np.append(first.strata, second.strata[is_new])
    return chi_square([counts[:, strata == stratum] for stratum in np.unique(strata)])


def chi_square(strata: list[np.ndarray]) -> TwoSampleChiSquare:
    """The two-sample chi-square, summed over *Sensitive* strata of counts (2, K) that both tables have."""
    sums = np.array([_terms(counts) for counts in strata if counts.any(axis=1).all()]).reshape(-1, 4).sum(axis=0)
    return TwoSampleChiSquare(*(float(number) for number in sums))


def _terms(counts: np.ndarray) -> tuple[float, float, float, float]:
    """The statistic, its mean and exact variance given all margins, and the log-probability of the most even split."""
    both, (n, m) = counts.sum(axis=0).astype(np.float64), counts.sum(axis=1).astype(np.float64)
    N, K = n + m, float(len(both))
    statistic = (((counts[0] - both * n / N) ** 2) / both).sum() * N * N / (n * m)
    variance = 0.0
    if N > 3 and K >= 2:
        rows = (N * (1 / n + 1 / m) - 4) / (N - 2)
        columns = (N * (1 / both).sum() - K * K) / (N - 2)
        first, second = (N - 2) / (N - 1), (N - K) * (K - 1) / (N - 1)
        variance = max(0.0, 2 * N / (N - 3) * (first - rows) * (second - columns) + N * N / (N - 1) * rows * columns)
    share = np.round(both * n / N)
    ways = special.gammaln(both + 1) - special.gammaln(share + 1) - special.gammaln(both - share + 1)
    all_ways = special.gammaln(N + 1) - special.gammaln(n + 1) - special.gammaln(m + 1)
    return statistic, (K - 1) * N / (N - 1), variance, min(0.0, ways.sum() - all_ways)


METRICS = (
    Metric("privacy.copies.people", "lower", "People copied", "Share of training people whose row stands in the "
           "synthetic table beyond chance, rare rows apart. How often held-out people's rows do shows chance.",
           counted=COPIED_PEOPLE, key=True),
    Metric("privacy.copies.holdout", "lower", "Held-out people copied", "The same share of held-out people, beyond how "
           "often training people's rows stand there. No generator saw them: were the two sides swapped?",
           counted=HELD_OUT_PEOPLE),
    Metric("privacy.copies", "lower", "Copies",
           "Share of synthetic rows equal to a training row; twins make some of them honest.", counted=SYNTHETIC,
           key=True, without_holdout=True),
    Metric("privacy.copies.excess", "lower", "Copies beyond twins",
           "Copies minus the same share for a fresh real sample.", counted=COPIED),
    Metric("privacy.copies.unique.excess", "lower", "Copies of unique rows beyond twins",
           "Share of synthetic rows equal to a training row that occurs once, minus the same of a fresh real sample.",
           counted=COPIED),
    Metric("privacy.multiset", "higher", "Independence of row counts", "How far the counts of equal rows keep from the "
           "training table's (the holdout's, if nearer): 1 as an independent sample, 0 an exact copy.", counted=COUNTS,
           better="1 is an independent sample, 0 a copy", above_one="Above 1 is not better than 1, which is an "
           "independent sample: the counts of rows are farther from the training table than chance makes them, as of a "
           "table that is off.", without_holdout=True),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    """People and rows that are copied, beyond chance, and how far the row counts keep from the training table's."""
    train, synthetic = tables.hashes("train"), tables.hashes("synthetic")
    sides = synthetic, tables.hashes("holdout")  # all held-out rows are fresh here: half of them tells less
    times = [train.times(side.keys) for side in sides]
    estimates = list(_people(tables, synthetic))
    for name, hits, among in (
        ("privacy.copies", [n > 0 for n in times], "a training row"),
        ("privacy.copies.unique", [n == 1 for n in times], "a training row that occurs once"),
    ):
        copied, fresh = (clustered(hit, side.units) for hit, side in zip(hits, sides, strict=True))
        excess = newcombe(copied, fresh)
        numbers = [(f"{name}.excess", excess, 0.0, ", less the same share of fresh real rows")]
        if name == "privacy.copies":
            numbers.insert(0, (name, copied, fresh[0], " in every learned column"))
        else:  # lower end: above 0 for hardly one in a thousand tables whose rows repeat train's as held-out rows do
            sure = (clustered(hit, side.units, CERTAINLY) for hit, side in zip(hits, sides, strict=True))
            numbers[0] = (f"{name}.excess", (excess[0], newcombe(*sure)[1], excess[2]), *numbers[0][2:])
        for number, (value, low, high), reference, end in numbers:
            note = f"share of synthetic rows equal to {among}{end}"
            estimates.append(
                Estimate(number, value, len(synthetic), "lower", low=low, high=high, reference=reference, note=note)
            )
    multiset = measure_multiset(tables)
    return MetricResult((*estimates, *multiset.estimates), multiset.failures)


def _people(tables: Tables, synthetic: RowHashes) -> Iterator[Estimate]:
    """People of train, and of the holdout, whose own row stands in the table beyond coincidence."""
    train, holdout = tables.hashes("train"), tables.hashes("holdout")
    units = np.concatenate([train.units, holdout.units + train.n_units])
    order = np.argsort(units, kind="stable")
    alone = Alone.of(np.concatenate([train.keys, holdout.keys])[order], units[order], order < len(train))
    coincidences = alone.coincidences(alone.hit_by(synthetic.distinct[0]), len(synthetic))
    value, low, high = coincidences.copied(hit_ratio=coincidences.hit_ratio)
    if tables.schema.learned:
        least, most = weighed_people(tables, tables.schema.learned)
        # Among common rows chance hides any number of copies, so that the rarer half may be all that can be decided on.
        low, high = max(low, least), min(high, most)
    high = max(high, low)
    people, n = (min(max(value, low), high), low, high), min(train.n_units, len(synthetic))
    note = "share of people whose row stands in the table beyond chance"
    yield share_of_people("privacy.copies.people", people, n, note)
    n = min(holdout.n_units, len(synthetic))
    note = "share of held-out people whose row, which nobody else has, stands in the table beyond chance"
    yield share_of_people("privacy.copies.holdout", coincidences.swapped.copied(), n, note)


def share_of_people(name: str, people: Rate, n: int, note: str) -> Estimate:
    """Copied people as a share of those who could be."""
    value, low, high = (min(number / n, 1.0) for number in people)
    note = f"{note}; about {round(people[0]):,} people, at least {math.ceil(people[1] - 1e-9):,}"
    return Estimate(name, value, n, "lower", low=low, high=high, reference=0.0, note=note)


def weighed_people(tables: Tables, columns: Sequence[str]) -> tuple[float, float]:
    """The fewest people of train that were certainly copied, weighed or tested apart; the most, by the rarer half."""
    train, rows = tables.hashes("train"), _Rows.of(tables, columns)
    units, n_train = np.concatenate([train.units, tables.hashes("holdout").units + train.n_units]), train.n_units
    rarest, half = ([rows.rarest(share, units, n_train) for share in shares] for shares in (RAREST, [HALF]))
    certain = [group.copied(2 * len(RAREST), group.hit_ratio)[1] for group in rarest]
    return max(rows.weighed(units, n_train), *certain, 0.0), half[0].copied(hit_ratio=half[0].hit_ratio)[2] / HALF


@dataclass(frozen=True)
class _Rows:
    """Some columns of each row of train, then of the holdout; *Sensitive*."""

    is_hit: np.ndarray  # whether a synthetic row holds the same
    density: np.ndarray  # about how many rows are expected like it
    surprise: np.ndarray

    @classmethod
    def of(cls, tables: Tables, columns: Sequence[str]) -> "_Rows":
        sides: tuple[Side, ...] = ("train", "holdout", "synthetic")
        n_real = tables.n_all("train") + tables.n_all("holdout")
        sources = [tables.whole[side].rows if side in tables.whole else getattr(tables, side) for side in sides]

        def hashes(index: int, name: str) -> np.ndarray:
            parts = (part for rows in sources for part in (rows.frames(name) if isinstance(rows, Rows) else [rows]))
            cells = [cell_hashes(part, name, tables.schema) for part in parts]
            return mix(np.concatenate(cells) + np.uint64(index))

        rows = sum((hashes(*each) for each in enumerate(columns)), start=np.zeros(1, dtype=np.uint64))
        equal, near, surprise = _times_met(rows), np.zeros(n_real), np.zeros(n_real)
        for each in enumerate(columns):
            cells = hashes(*each)
            share = _times_met(cells[:n_real]) / n_real
            near += (_times_met(rows - cells) - equal)[:n_real] * share
            surprise -= np.log(share)
        twins = _times_met(rows[:n_real])
        expected = np.exp(-np.minimum(surprise, MOST_SURPRISE)) * len(rows)
        return cls(equal[:n_real] > twins, twins - 1 + near / len(columns) + expected, surprise)

    def rarest(self, share: float, units: np.ndarray, n_train: int) -> Coincidences:
        """Of all people (those of train first), those with the rarest rows: equal rows are judged alike."""
        rows = self.surprise >= np.quantile(self.surprise, 1 - share)
        hit, all_of_them = np.unique(units[rows & self.is_hit]), np.unique(units[rows])
        in_train = [float((members < n_train).sum()) for members in (hit, all_of_them)]
        return Coincidences(in_train[0], len(hit) - in_train[0], in_train[1], len(all_of_them) - in_train[1])

    def weighed(self, units: np.ndarray, n_train: int) -> float:
        """The fewest people of train who were copied, whoever they are."""
        if not self.is_hit.any() or self.is_hit.all():
            return 0.0
        logs = np.log(self.density)

        def met_by_chance(scale: float) -> np.ndarray:
            return np.asarray(-np.expm1(-np.exp(np.minimum(scale + logs, 50.0))))

        ends = -50.0 - logs.max(), 50.0 - logs.min()
        scale = optimize.brentq(lambda scale: float(met_by_chance(scale).sum()) - int(self.is_hit.sum()), *ends)
        by_chance = np.maximum(met_by_chance(scale)[self.is_hit], LEAST_CHANCE)
        surest = np.zeros(int(units.max()) + 1)
        np.maximum.at(surest, units[self.is_hit], np.log1p(SMALL * (1 - by_chance) / by_chance))
        return fewest_copied(surest[:n_train], surest[n_train:], CERTAIN / 2)


def _times_met(keys: np.ndarray) -> np.ndarray:
    """How many of some keys equal each of them."""
    codes = pd.factorize(keys)[0]
    return np.bincount(codes)[codes]
