"""Copies of training rows in the synthetic table, and the multiset distance where every row repeats.

Equal means equal in every learned column, to the last digit, missing equal to missing. In a table whose rows repeat,
honest rows coincide too: only what held-out people do not share speaks of copying (`evaluate.privacy.coincidence`), and
where every row repeats, only `evaluate.privacy.copies` does.

Rows in memory are compared by `measure`. Of tables that stay where they are stored every row is compared there, by its
key (`measure_stored`). Both give the same estimates of copied people and rows (`people`, `shares`).

Multiset distance: counts of equal rows beside the training table's, in units of an independent sample's.

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

import math
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
from scipy import special, stats

from evaluate.intervals import Rate, clustered, design_effect_of_units, newcombe, wilson
from evaluate.metrics import COPIED, COPIED_PEOPLE, COUNTS, HELD_OUT_PEOPLE, SWAPPED, SYNTHETIC, Metric
from evaluate.privacy.coincidence import COMMON, FITTED, Alone, Coincidences
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes, learned_keys
from evaluate.stored.keys import UNIT_NAME, KeyCounts, N, counted_together
from evaluate.stored.tables import StoredTables
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema
from synth.split import row_keys
from synth.stored.row_hash import KEY

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
    """A two-sample chi-square and how it is distributed when the tables are exchangeable."""

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
    train, holdout = (compare(tables, tables.synthetic, side) for side in (tables.train, tables.holdout))
    return multiset_of(train, holdout, len(tables.train), len(tables.synthetic), tables)


def multiset_of(
    synthetic: TwoSampleChiSquare, holdout: TwoSampleChiSquare, n_train: int, n_synthetic: int, tables: Tables
) -> MetricResult:
    """The estimate `privacy.multiset`, or why this table cannot carry it.

    Args:
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
    # Where every row repeats, nothing else sees a copy of the other side.
    if not holdout.told_by_chance and holdout.dispersion[2] < low:
        value, low, high = holdout.dispersion
        note = f"distance of the row counts from the holdout's, to which they are nearer. {SWAPPED}"
    return MetricResult(
        estimates=(
            Estimate(
                name, value, n_synthetic, "higher", low=low, high=high, note=note,
                reference=fresh.statistic / fresh.mean if fresh.mean > 0 else None,
                floor=shuffled.statistic / shuffled.mean if shuffled.mean > 0 else None,
            ),
        )
    )  # fmt: skip


def compare(tables: Tables, other: pd.DataFrame, side: pd.DataFrame | None = None) -> TwoSampleChiSquare:
    """The chi-square of another table's row counts against those of a side (train), within the target's categories."""
    return chi_square(_by_target(tables.schema, tables.train if side is None else side, other))


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


def _by_target(schema: Schema, side: pd.DataFrame, other: pd.DataFrame) -> list[StratumCounts]:
    """Counts of distinct rows, one stratum for each value of a target with categories."""
    frames = (side, other)
    keys = np.concatenate([learned_keys(frame, schema) for frame in frames])
    sides = np.repeat([0, 1], [len(frame) for frame in frames])
    _, first, cells = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.stack([np.bincount(cells[sides == side], minlength=len(first)) for side in (0, 1)])
    target = schema.target
    if target is None or not schema.columns[target].is_categorical:
        return [StratumCounts(counts[0], counts[1])]
    labels = np.concatenate([row_keys(frame, [target]) for frame in frames])[first]
    return [StratumCounts(*counts[:, labels == label]) for label in np.unique(labels)]


METRICS = (
    Metric("privacy.copies.people", "lower", "People copied", "Share of training people whose row, which nobody else "
           "has, stands in the synthetic table beyond chance. How often held-out people's rows do shows chance.",
           counted=COPIED_PEOPLE, key=True),
    Metric("privacy.copies.holdout", "lower", "Held-out people copied", "The same share of held-out people, beyond how "
           "often training people's rows stand there. No generator saw them: were the two sides swapped?",
           counted=HELD_OUT_PEOPLE),
    Metric("privacy.copies", "lower", "Copies",
           "Share of synthetic rows equal to a training row; twins make some of them honest.", counted=SYNTHETIC,
           key=True, without_holdout=True),
    Metric("privacy.copies.excess", "lower", "Copies beyond twins",
           "Copies minus the same share for a fresh real sample.", counted=COPIED),
    Metric("privacy.copies.unique", "lower", "Copies of unique rows",
           "Share of synthetic rows equal to a training row that occurs once.", counted=SYNTHETIC,
           without_holdout=True),
    Metric("privacy.copies.unique.excess", "lower", "Copies of unique rows beyond twins",
           "The same, minus the share for a fresh real sample.", counted=COPIED),
    Metric("privacy.multiset", "higher", "Independence of row counts", "How far the counts of equal rows keep from the "
           "training table's (the holdout's, if nearer): 1 as an independent sample, 0 an exact copy.", counted=COUNTS,
           better="1 is an independent sample, 0 a copy", above_one="Above 1 is not better than 1, which is an "
           "independent sample: the counts of rows are farther from the training table than chance makes them, as of a "
           "table that is off.", without_holdout=True),
)  # fmt: skip

MEASURES = ("privacy.copies", "privacy.copies.unique")


def shares(name: str, synthetic: Rate, fresh: Rate, n: int) -> list[Estimate]:
    """The share of synthetic rows among some training rows, and its excess over the same share of fresh rows."""
    excess = newcombe(synthetic, fresh)
    among = "a training row that occurs once" if name.endswith("unique") else "a training row"
    return [
        Estimate(
            name, synthetic[0], n, "lower", low=synthetic[1], high=synthetic[2], reference=fresh[0],
            note=f"share of synthetic rows equal to {among} in every learned column",
        ),
        Estimate(
            f"{name}.excess", excess[0], n, "lower", low=excess[1], high=excess[2], reference=0.0,
            note=f"share of synthetic rows equal to {among}, less the same share of fresh real rows",
        ),
    ]  # fmt: skip


def people(found: Coincidences, n_train: int, n_holdout: int) -> tuple[Estimate, Estimate]:
    """People of train, and of the holdout, whose own row stands in the table beyond coincidence."""
    # Where held-out people's rows are seldom met, chance repeats no rows that a model could fit.
    hit_ratio = FITTED if found.holdout > COMMON * found.n_holdout else 1.0
    return (
        _share_of_people("privacy.copies.people", found.copied(hit_ratio=hit_ratio), min(n_train, int(found.n_drawn))),
        _share_of_people("privacy.copies.holdout", found.swapped.copied(), min(n_holdout, int(found.n_drawn))),
    )


def _share_of_people(name: str, copied: Rate, n: int) -> Estimate:
    value, low, high = (number / n for number in copied)
    note = (
        f"share of {'held-out ' if name.endswith('holdout') else ''}people whose row, which nobody else has, stands in "
        f"the table beyond chance; about {round(copied[0]):,} people, at least {math.ceil(copied[1]):,}"
    )
    return Estimate(name, value, n, "lower", low=low, high=min(high, 1.0), reference=0.0, note=note)


_TIMES, _HITS, _SIZE = "times", "hits", "size"
_STRAY, _UNITS, _IN_TRAIN, _COUNTED = "stray", "n_units", "in_train", "n_counted"


def measure_stored(tables: Tables, stored: StoredTables) -> MetricResult:
    """The estimates of `evaluate.privacy.copies` on all rows; of fresh rows, those of the sample beside all of train.

    Args:
        tables: *Sensitive*. The samples.
        stored: *Sensitive*. All rows.
    """
    place = stored.real.sides.meeting_place(stored.offered)
    train, synthetic = stored.real.sides.keys("train", place), KeyCounts.of(stored.offered, tables.schema, place)
    units, n_train = entity_codes(tables.fresh, tables.schema), stored.real.fresh_in_train
    estimates = []
    try:
        for name, once in zip(MEASURES, (False, True), strict=True):
            fresh = clustered(n_train == 1 if once else n_train > 0, units)
            estimates += shares(name, _rate(synthetic, train, once, stored.n_offered), fresh, stored.n_offered)
        holdout = stored.real.sides.keys("holdout", place)
        n_people = _n_units(train), _n_units(holdout)
        copied = people(_coincidences(train, holdout, synthetic, stored.n_offered), *n_people)
        beside_train, beside_holdout = (chi_square(_strata(side, synthetic)) for side in (train, holdout))
    finally:
        synthetic.forget()
    multiset = multiset_of(beside_train, beside_holdout, stored.real.n_rows["train"], stored.n_offered, tables)
    return MetricResult((*copied, *estimates, *multiset.estimates), multiset.failures)


def _coincidences(train: KeyCounts, holdout: KeyCounts, synthetic: KeyCounts, n_drawn: int) -> Coincidences:
    """The units with a row that no other unit has, and those that are hit."""
    place = train.place
    sides = _by_content(train, 1).union(_by_content(holdout, 0))
    summed = {_UNITS: sides[_UNITS].sum().cast("int64"), _IN_TRAIN: sides[_IN_TRAIN].max()}
    known = sides.group_by(KEY).agg(**summed, **{UNIT_NAME: sides[UNIT_NAME].min()})
    alone = known.filter(known[_UNITS] == 1).drop(_UNITS)
    marked = [
        part.select(_IN_TRAIN, UNIT_NAME, **{_HITS: ibis.literal(hit, "int64")})
        for part, hit in ((alone.semi_join(synthetic.counts, KEY), 1), (alone.anti_join(synthetic.counts, KEY), 0))
    ]
    rows = marked[0].union(marked[1])
    stray = rows[UNIT_NAME].isnull()
    of_units = rows.filter(~stray).group_by([_IN_TRAIN, UNIT_NAME]).agg(**{_HITS: rows[_HITS].max()})
    units = rows.filter(stray).select(_IN_TRAIN, _HITS).union(of_units.select(_IN_TRAIN, _HITS))
    cells = place.fetch(units.group_by([_IN_TRAIN, _HITS]).agg(**{_COUNTED: units.count()})).to_pylist()
    n = {(cell[_IN_TRAIN], cell[_HITS]): cell[_COUNTED] for cell in cells}
    train_hit, holdout_hit, train_missed, holdout_missed = (n.get((side, hit), 0) for hit in (1, 0) for side in (1, 0))
    could = train_hit + train_missed, holdout_hit + holdout_missed
    twins = place.number(known.filter(known[_UNITS] == 2).count())
    n_known = place.number(known[_UNITS].sum().fill_null(0))
    return Coincidences(train_hit, holdout_hit, *could, twins, n_known, n_drawn)


def _by_content(side: KeyCounts, in_train: int) -> ir.Table:
    """Each distinct row with the number of units that have it, and one of these; a row without an entity is its own."""
    rows = side.counts.mutate(**{UNIT_NAME: ibis.null("string")}) if side.of_units is None else side.of_units
    n = ibis.ifelse(rows[UNIT_NAME].isnull(), rows[N], 1)
    counted = rows.group_by(KEY).agg(**{_UNITS: n.sum().cast("int64"), UNIT_NAME: rows[UNIT_NAME].min()})
    return counted.select(KEY, _UNITS, UNIT_NAME, **{_IN_TRAIN: ibis.literal(in_train, "int64")})


def _n_units(side: KeyCounts) -> int:
    rows = side.counts if side.of_units is None else side.of_units
    if side.of_units is None:
        return int(side.place.number(rows[N].sum().fill_null(0)))
    stray = rows.filter(rows[UNIT_NAME].isnull())[N].sum().fill_null(0)
    return int(side.place.number(rows[UNIT_NAME].nunique())) + int(side.place.number(stray))


def _rate(synthetic: KeyCounts, train: KeyCounts, once: bool, n: int) -> Rate:
    """The share of synthetic rows that equal a training row, or one that occurs once."""
    place, targets = train.place, train.counts
    targets = (targets.filter(targets[N] == 1) if once else targets).select(KEY)
    if synthetic.of_units is None:
        return wilson(place.number(synthetic.counts.semi_join(targets, KEY)[N].sum().fill_null(0)) / n, float(n))
    rows = synthetic.of_units
    hits = rows.semi_join(targets, KEY).mutate(**{_HITS: ibis._[N]})
    missed = rows.anti_join(targets, KEY).mutate(**{_HITS: ibis.literal(0, "int64")})
    both = hits.union(missed)
    of_unit = both.group_by(UNIT_NAME).agg(
        **{_SIZE: both[N].sum().cast("int64"), _HITS: both[_HITS].sum().cast("int64")}
    )
    stray = of_unit[UNIT_NAME].isnull()
    alike = of_unit.group_by([_SIZE, _HITS, stray.name(_STRAY)]).agg(**{_TIMES: of_unit.count()})
    sizes, hit, alone, times = (column.to_numpy(zero_copy_only=False) for column in place.fetch(alike).columns)
    # Rows without an entity are units of their own, some of them hits.
    n_alone, n_hits = int(sizes[alone].sum()), int(hit[alone].sum())
    sizes, hit, times = sizes[~alone], hit[~alone], times[~alone]
    sizes, hit, times = np.r_[sizes, 1, 1], np.r_[hit, 1, 0], np.r_[times, n_hits, n_alone - n_hits]
    return wilson(float((times * hit).sum()) / n, n / design_effect_of_units(sizes, hit, times))


def _strata(side: KeyCounts, synthetic: KeyCounts) -> list[StratumCounts]:
    """Numbers of distinct rows by their counts in both tables, for each category of the target."""
    cells = counted_together(side, synthetic)
    strata = []
    for stratum in np.unique(cells[:, 0]):
        rows = cells[cells[:, 0] == stratum]
        strata.append(StratumCounts(rows[:, 1], rows[:, 2], rows[:, 3]))
    return strata


def measure(tables: Tables) -> MetricResult:
    """People and rows that are copied, beyond chance, and how far the row counts keep from the training table's.

    Estimates: `privacy.copies.people`, `privacy.copies.holdout`, `privacy.copies`, `privacy.copies.excess`,
    `privacy.copies.unique` (rows that occur once in the training table: the ones that single somebody out),
    `privacy.copies.unique.excess`, `privacy.multiset`.

    Of tables that stay where they are stored, all rows are compared there.
    """
    if tables.stored is not None:
        return measure_stored(tables, tables.stored)
    distinct, counts = np.unique(learned_keys(tables.train, tables.schema), return_counts=True)
    frames, n = (tables.synthetic, tables.fresh), len(tables.synthetic)
    keys = [learned_keys(frame, tables.schema) for frame in frames]
    units = [entity_codes(frame, tables.schema) for frame in frames]
    estimates: list[Estimate] = []
    for name, targets in zip(MEASURES, (distinct, distinct[counts == 1]), strict=True):
        synthetic, fresh = (clustered(np.isin(k, targets), u) for k, u in zip(keys, units, strict=True))
        estimates += shares(name, synthetic, fresh, n)
    multiset = measure_multiset(tables)
    return MetricResult((*_people(tables, keys[0]), *estimates, *multiset.estimates), multiset.failures)


def _people(tables: Tables, synthetic: np.ndarray) -> tuple[Estimate, Estimate]:
    """People of either side who are copied beyond coincidence, by rows that nobody else has."""
    content = np.concatenate([learned_keys(frame, tables.schema) for frame in (tables.train, tables.holdout)])
    train, holdout = (entity_codes(frame, tables.schema) for frame in (tables.train, tables.holdout))
    n_train, n_holdout = (int(side.max(initial=-1)) + 1 for side in (train, holdout))
    units = np.concatenate([train, holdout + n_train])
    order = np.argsort(units, kind="stable")
    alone = Alone.of(content[order], units[order], order < len(train))
    return people(alone.coincidences(alone.hit_by(synthetic), len(synthetic)), n_train, n_holdout)
