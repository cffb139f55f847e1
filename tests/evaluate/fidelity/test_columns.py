"""Columns: distances, tails, moments, spikes and lattices against definitions; how often intervals are right."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.spoiled_tables import spoiled_table
from evaluate.fidelity import columns, descriptives
from evaluate.fidelity.columns import Gaps, chi_square
from evaluate.fidelity.descriptives import ColumnValues, Shares, ratio
from evaluate.fidelity.samples import OrderedValues, Samples
from evaluate.intervals import replicate_groups, wilson
from evaluate.result import Estimate
from evaluate.result_io import ColumnShares
from evaluate.tables import MetricResult, Tables
from synth.domain import Discretizer
from synth.schema import build_schema
from synth.schema.kinds import DatetimeColumn, IntegerColumn, RealColumn

Offer = Callable[[pd.DataFrame], Tables]


def find(measurement: MetricResult, measure: str, *subject: str) -> Estimate:
    return next(e for e in measurement.estimates if (e.measure, e.subject) == (measure, subject))


@pytest.fixture
def lines() -> tuple[OrderedValues, OrderedValues]:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 12, 300) * 1.0, rng.integers(2, 13, 90) * 1.5
    return OrderedValues.of(first, np.arange(300) % 16, 16), OrderedValues.of(second, np.arange(90) % 16, 16)


def values(line: OrderedValues, kept: np.ndarray | None = None) -> np.ndarray:
    """The values of a line, or those in some groups, each as often as it occurs."""
    kept = np.ones(len(line.counts)) if kept is None else kept
    return np.repeat(line.values, (kept @ line.counts).astype(int))


def test_every_replicate_is_the_distance_of_its_own_rows(lines: tuple[OrderedValues, OrderedValues]) -> None:
    gaps = Gaps.between(*lines)
    for replicate, kept in enumerate(replicate_groups(16)):
        first, second = (values(part, kept) for part in lines)
        assert gaps.kolmogorov_smirnov[replicate] == pytest.approx(stats.ks_2samp(first, second).statistic, abs=1e-12)
        assert gaps.wasserstein[replicate] == pytest.approx(stats.wasserstein_distance(first, second), abs=1e-12)
        assert lines[0].deviation()[replicate] == pytest.approx(first.std(), abs=1e-12)


def test_chi_square_agrees_with_scipy_on_pooled_counts() -> None:
    first, second = np.array([[40.0, 30.0, 0.0, 5.0]]), np.array([[20.0, 9.0, 4.0, 0.0]])
    statistic, effect, degrees = chi_square(first, second)
    expected = stats.chi2_contingency(np.concatenate([first, second]), correction=False)
    assert (statistic[0], degrees) == pytest.approx((expected.statistic, expected.dof))
    assert effect[0] == pytest.approx(np.sqrt(expected.statistic / 108))


def test_columns_agree_with_sdmetrics_where_both_measure_the_same(tables: Tables) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = pytest.importorskip("sdmetrics.single_column")
        measurement, samples = columns.measure(tables), Samples.draw(tables)
        train, synthetic = samples.train.rows, samples.others[0].rows
        for name in ("length", "count"):
            theirs = single.KSComplement.compute(train[name].astype(float), synthetic[name].astype(float))
            assert 1 - find(measurement, "columns.ks", name).value == pytest.approx(theirs, abs=1e-9)
        discretizer = Discretizer.by_quantiles(tables.schema, tables.train)
        codes = [
            pd.DataFrame(discretizer.encode(rows), columns=list(discretizer.columns)) for rows in (train, synthetic)
        ]
        for name in discretizer.columns:
            theirs = single.TVComplement.compute(*(code[name].astype(str) for code in codes))
            assert 1 - find(measurement, "columns.tvd", name).value == pytest.approx(theirs, abs=1e-9)


def test_unseen_categories_count_and_are_not_taken_for_rare_ones(tables: Tables, offer: Offer) -> None:
    unseen = columns.measure(offer(tables.synthetic.assign(color="violet")))
    assert find(unseen, "columns.tvd", "color").value == pytest.approx(1.0)
    assert find(unseen, "columns.chi2", "color").value == pytest.approx(1.0)
    assert find(unseen, "columns.tvd.excess.worst").value > 0.9
    assert "'color'" in find(unseen, "columns.tvd.excess.worst").note


def test_a_number_that_is_moved_by_a_tenth_is_found_and_fresh_rows_are_not(tables_of: Callable[..., Tables]) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [0, 1e6]}}})
    rng = np.random.default_rng(4)
    parts = [pd.DataFrame({"x": rng.normal(100, 50, n).clip(0, None)}) for n in (4_000, 3_000, 3_000)]
    fresh = find(columns.measure(tables_of(*parts, schema)), columns.SHIFT)
    moved = find(columns.measure(tables_of(*parts[:2], parts[2] * 1.1, schema)), columns.SHIFT)
    assert fresh.high < 0.05 < moved.low and moved.note == "The worst is 'x'."


REAL = RealColumn(kind="real", bounds=(-1e9, 1e9))
WHOLE = IntegerColumn(kind="integer", bounds=(-(10**9), 10**9))


def line_of(values: np.ndarray) -> OrderedValues:
    return OrderedValues.of(np.asarray(values, dtype=np.float64), np.arange(len(values)) % 16, 16)


def column_of(train: np.ndarray, synthetic: np.ndarray, column: Any = REAL) -> ColumnValues:
    lines: tuple[OrderedValues, ...] = tuple(line_of(part) for part in (train, synthetic, train, train))
    return ColumnValues("x", column, lines, (1.0,) * 4)


def test_a_tail_is_what_lies_beyond_all_but_one_in_a_thousand_of_the_training_values_at_either_end() -> None:
    train = np.random.default_rng(0).permutation(np.arange(10_000.0))
    beyond = descriptives.tail(column_of(train, np.r_[train[:9_000], np.full(500, -1.0), np.full(500, 9_990.0)]))
    rates = beyond.rates()
    assert rates[0][0] == pytest.approx(22 / 10_002)
    inside = train[:9_000]
    assert rates[1][0] == pytest.approx((1_000 + (inside < 10).sum() + (inside >= 9_990).sum()) / 10_000)


@pytest.mark.parametrize(("values", "column", "told"), [
    (np.arange(1, 500) * 10_000, WHOLE, "multiples of 10,000"),
    (np.r_[np.arange(1, 200) * 0.25, np.full(300, 0.0), [0.1, 7.3]], REAL, "multiples of 0.25"),
    (np.r_[np.arange(1, 100), [2.8, 3.1]], REAL, "multiples of 1"),
    (np.arange(1, 300) * 900.0 * 10**6, DatetimeColumn(kind="datetime", bounds=("1970-01-01", "1980-01-01"),
     precision="s"), "multiples of 900 seconds"),
])  # fmt: skip
def test_a_lattice_is_the_coarsest_that_most_values_lie_on(values: np.ndarray, column: Any, told: str) -> None:
    shares = descriptives.lattice(column_of(values, values, column))
    assert shares is not None
    assert shares.description == told


def test_a_spike_stands_out_among_its_neighbors() -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 60, 4_000)
    assert descriptives.spikes(column_of(ages, ages, WHOLE)) is None
    hours = np.where(rng.random(4_000) < 0.4, 40, ages)
    shares = descriptives.spikes(column_of(hours, np.where(hours == 40, rng.integers(36, 45, 4_000), hours), WHOLE))
    assert shares is not None
    (kept, low, high), *_ = shares.ratios()
    assert low < kept < high < 0.5


def one_column(tables_of: Callable[..., Tables], *frames: np.ndarray) -> MetricResult:
    column = {"kind": "real", "bounds": [-1e6, 1e6]}
    schema = build_schema({"status": "declared", "columns": {"x": column}})
    return columns.measure(tables_of(*(pd.DataFrame({"x": part}) for part in frames), schema))


def test_the_numbers_of_a_ruined_column_are_off_and_those_of_a_fresh_one_are_not(tables_of):
    rng = np.random.default_rng(3)
    train, fresh, honest = (np.round(rng.lognormal(8, 1, n), -2) for n in (2_000, 1_000, 2_000))
    moved = spoiled_table("tails tripled", pd.DataFrame({"x": honest}), rng)["x"].to_numpy() + rng.uniform(0, 99, 2_000)
    bad, good = one_column(tables_of, train, fresh, moved), one_column(tables_of, train, fresh, honest)
    assert (find(bad, descriptives.TAILS).low or 0) > 0.03 > (find(good, descriptives.TAILS).high or 1)
    assert (find(bad, descriptives.LATTICE).high or 1) < 0.5 < (find(good, descriptives.LATTICE).low or 0)
    (column,), (honest_column,) = bad.figures["columns"], good.figures["columns"]
    figure = ColumnShares.model_validate(column).descriptives
    assert figure is not None and figure.lattice == "multiples of 100"
    assert figure.mean == pytest.approx((moved.mean() - train.mean()) / train.std())
    assert figure.std == pytest.approx(moved.std() / train.std())
    assert {"tail", "std", "steps"} <= {*figure.off} and honest_column["descriptives"]["off"] == []


TRUTH = ((0.3, 0.2), (0.3, 0.02), (0.06, 0.06))
"""Shares of real and of synthetic rows on a spike, or a lattice."""


@pytest.mark.parametrize("shares", TRUTH)
def test_intervals_of_ratios_hold_the_ratio_of_the_population(shares: tuple[float, float]) -> None:
    rng, covered = np.random.default_rng(5), []
    for k_train, k in zip(rng.binomial(800, shares[0], 500), rng.binomial(400, shares[1], 500), strict=True):
        _, low, high = ratio(wilson(k / 400, 400), wilson(k_train / 800, 800))
        covered.append(low <= shares[1] / shares[0] <= high)
    assert np.mean(covered) >= 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / 500)


@pytest.mark.parametrize("inflated", [1.0, 3.0])
def test_intervals_of_tails_hold_what_lies_beyond_a_training_quantile(inflated: float) -> None:
    """The truth is what the two populations hold beyond the places that the training sample gave."""
    rng, covered = np.random.default_rng(6), []
    for _ in range(300):
        train, synthetic = rng.normal(size=1_000), inflated * rng.normal(size=400)
        beyond = descriptives.tail(column_of(train, synthetic))
        ends = np.sort(train)[[3, -4]]
        there = [stats.norm.cdf(ends[0] / s) + stats.norm.sf(ends[1] / s) for s in (inflated, 1.0)]
        _, low, high = beyond.differences()[0]
        covered.append(low <= there[0] - there[1] <= high)
    assert np.mean(covered) >= 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / 300)


def test_the_worst_of_tails_allows_for_the_choice() -> None:
    rng, covered = np.random.default_rng(7), []
    for _ in range(150):
        trains, others = rng.normal(size=(6, 800)), rng.normal(size=(6, 400)) * 1.3
        tails: list[Shares] = [descriptives.tail(column_of(*both)) for both in zip(trains, others, strict=True)]
        ends = np.sort(trains, axis=1)[:, [3, -4]]
        there = [stats.norm.cdf(ends[:, 0] / s) + stats.norm.sf(ends[:, 1] / s) for s in (1.3, 1.0)]
        worst = descriptives._worst_share(descriptives.TAILS, tails, Shares.differences, "lower")
        covered.append((worst.low or 0) <= (there[0] - there[1]).max() <= (worst.high or 0))
    assert np.mean(covered) >= 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / 150)


def categories(tables_of: Callable[..., Tables], *frames: np.ndarray) -> Estimate:
    column = {"kind": "categorical", "categories": list("abcde"), "missing": True}
    schema = build_schema({"status": "declared", "columns": {"x": column}})
    return find(
        columns.measure(tables_of(*(pd.DataFrame({"x": part}) for part in frames), schema)), descriptives.CATEGORIES
    )


SHARES = np.array([0.5, 0.3, 0.15, 0.03, 0.02])


def letters(n: int, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(list("abcde"), n, p=shares / shares.sum())


@pytest.mark.parametrize(("times", "kept"), [(1.0, 1.0), (0.0, 0.0), (3.0, 1 / 3)])
def test_a_category_that_is_removed_or_tripled_is_named(times, kept, tables_of):
    rng = np.random.default_rng(8)
    moved = SHARES * [1, 1, 1, 1, times]
    estimate = categories(tables_of, *(letters(8_000, part, rng) for part in (SHARES, SHARES, moved)))
    assert estimate.value == pytest.approx(kept, abs=0.2)
    assert (estimate.high < 0.5) == (times != 1.0) and (estimate.low > 0.5) == (times == 1.0)
    assert times == 1.0 or "'e' of 'x', of 5 categories" in estimate.note
