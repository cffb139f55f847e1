import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.fidelity import columns, descriptives
from evaluate.fidelity.columns import MAX_LABELS, Gaps, chi_square
from evaluate.fidelity.rows import OrderedValues
from evaluate.fidelity.samples import Samples
from evaluate.intervals import replicate_groups
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.domain import Discretizer
from synth.schema import build_schema
from synth.table import conform

Offer = Callable[[pd.DataFrame], Tables]


def numbers(measurement: MetricResult) -> dict[tuple[str, tuple[str, ...]], Estimate]:
    return {(e.measure, e.subject): e for e in measurement.estimates}


def value(measurement: MetricResult, measure: str, *subject: str) -> float:
    return numbers(measurement)[measure, subject].value


@pytest.fixture
def lines() -> tuple[OrderedValues, OrderedValues]:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 12, 300) * 1.0, rng.integers(2, 13, 90) * 1.5
    return OrderedValues.of(first, np.arange(300) % 16, 16), OrderedValues.of(second, np.arange(90) % 16, 16)


def values(line: OrderedValues, kept: np.ndarray | None = None) -> np.ndarray:
    """The values of a line, or those in some groups, each as often as it occurs."""
    kept = np.ones(len(line.counts)) if kept is None else kept
    return np.repeat(line.values, (kept @ line.counts).astype(int))


def test_ks_and_wasserstein_agree_with_scipy_ties_included(lines: tuple[OrderedValues, OrderedValues]) -> None:
    gaps, (first, second) = Gaps.between(*lines), (values(of) for of in lines)
    assert gaps.kolmogorov_smirnov[0] == pytest.approx(stats.ks_2samp(first, second).statistic, abs=1e-12)
    assert gaps.wasserstein[0] == pytest.approx(stats.wasserstein_distance(first, second), abs=1e-12)


def test_every_replicate_is_the_distance_of_its_own_rows(lines: tuple[OrderedValues, OrderedValues]) -> None:
    gaps = Gaps.between(*lines)
    for replicate, kept in enumerate(replicate_groups(16)):
        first, second = (values(of, kept) for of in lines)
        assert gaps.kolmogorov_smirnov[replicate] == pytest.approx(stats.ks_2samp(first, second).statistic, abs=1e-12)
        assert gaps.wasserstein[replicate] == pytest.approx(stats.wasserstein_distance(first, second), abs=1e-12)
        assert lines[0].deviation()[replicate] == pytest.approx(first.std(), abs=1e-12)


def test_chi_square_agrees_with_scipy_on_pooled_counts() -> None:
    first, second = np.array([[40.0, 30.0, 0.0, 5.0]]), np.array([[20.0, 9.0, 4.0, 0.0]])
    statistic, effect, degrees = chi_square(first, second)
    expected = stats.chi2_contingency(np.concatenate([first, second]), correction=False)
    assert (statistic[0], degrees) == pytest.approx((expected.statistic, expected.dof))
    assert effect[0] == pytest.approx(np.sqrt(expected.statistic / 108))


def test_a_category_that_only_one_side_knows_counts() -> None:
    assert chi_square(np.array([[10.0, 0.0]]), np.array([[0.0, 10.0]]))[1][0] == pytest.approx(1.0)


def test_columns_agree_with_sdmetrics_where_both_measure_the_same(tables: Tables) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = pytest.importorskip("sdmetrics.single_column")
        measurement, samples = columns.measure(tables), Samples.draw(tables)
        train, synthetic = samples.train.rows, samples.others[0].rows
        for name in ("length", "count"):
            theirs = single.KSComplement.compute(train[name].astype(float), synthetic[name].astype(float))
            assert 1 - value(measurement, "columns.ks", name) == pytest.approx(theirs, abs=1e-9)
        discretizer = Discretizer.by_quantiles(tables.schema, tables.train)
        codes = [
            pd.DataFrame(discretizer.encode(rows), columns=list(discretizer.columns)) for rows in (train, synthetic)
        ]
        for name in discretizer.columns:
            theirs = single.TVComplement.compute(*(code[name].astype(str) for code in codes))
            assert 1 - value(measurement, "columns.tvd", name) == pytest.approx(theirs, abs=1e-9)


def test_the_training_table_itself_scores_zero(tables: Tables) -> None:
    first, second = (tables.train.iloc[part::2].reset_index(drop=True) for part in range(2))
    same = replace(tables, synthetic=tables.train, fresh=first, control=second)
    measurement = columns.measure(same)
    for estimate in measurement.estimates:
        if estimate.measure == descriptives.TAILS:  # of another sample a little more lies there
            assert estimate.value <= (estimate.reference or 0.0) + 1e-3, estimate.measure
        else:
            best = 1.0 if estimate.direction == "higher" else 0.0
            assert estimate.value == pytest.approx(best, abs=1e-12), estimate.measure


def test_a_column_without_any_synthetic_value_counts_as_the_worst(tables: Tables, offer: Offer) -> None:
    empty = tables.synthetic.assign(shape=None, length=np.nan)
    measurement = columns.measure(offer(empty))
    assert value(measurement, "columns.ks", "length") == 1.0
    assert value(measurement, "columns.tvd", "length") == pytest.approx(1.0)
    assert value(measurement, "columns.tvd", "shape") > 0.8
    assert "no present value" in numbers(measurement)["columns.ks", ("length",)].note


def test_what_is_undefined_in_one_column_says_why(tables: Tables, offer: Offer) -> None:
    measurement = columns.measure(offer(tables.synthetic.assign(length=np.nan)))
    failed = {(f.measure, f.subject): f.message for f in measurement.failures}
    assert "no present value" in failed["columns.wasserstein", ("length",)]
    constant = replace(tables, train=tables.train.assign(length=1.0))
    failed = {(f.measure, f.subject): f.message for f in columns.measure(constant).failures}
    assert "no scale" in failed["columns.wasserstein", ("length",)]


def test_a_column_that_is_mostly_one_value_is_not_collapsed(tables_of: Callable[..., Tables]) -> None:
    rng = np.random.default_rng(3)
    real = np.where(rng.random(2000) < 0.92, 0, rng.integers(1, 100_000, 2000))
    tables = _one_column(real, {"kind": "integer", "bounds": [0, 100_000]}, tables_of)
    name = tables.schema.learned[0]
    moved = tables.train.assign(**{name: tables.train[name].where(tables.train[name] == 0, 1)})
    assert value(columns.measure(replace(tables, synthetic=moved)), "columns.tvd", name) > 0.05


def test_unseen_categories_count_and_are_not_taken_for_rare_ones(tables: Tables, offer: Offer) -> None:
    unseen = columns.measure(offer(tables.synthetic.assign(color="violet")))
    assert value(unseen, "columns.tvd", "color") == pytest.approx(1.0)
    assert value(unseen, "columns.chi2", "color") == pytest.approx(1.0)
    assert value(unseen, "columns.tvd.excess.worst") > 0.9
    assert "'color'" in numbers(unseen)["columns.tvd.excess.worst", ()].note


def test_one_synthetic_row_is_measured_without_an_interval(tables: Tables, offer: Offer) -> None:
    measurement = columns.measure(offer(tables.synthetic.head(1)))
    estimate = numbers(measurement)["columns.tvd.excess", ()]
    assert estimate.n == 1
    assert estimate.low is None
    assert "Too few rows" in estimate.note


def _one_column(given: Any, column: dict[str, Any], tables_of: Callable[..., Tables]) -> Tables:
    schema = build_schema({"status": "declared", "columns": {'</script> "a b"': column}})
    frame = conform(pd.DataFrame({'</script> "a b"': given}), schema, part=True)
    return tables_of(frame, frame.head(40), frame.tail(50).reset_index(drop=True), schema)


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ([5] * 100, {"kind": "integer", "bounds": [0, 9]}),
        (["x"] * 100, {"kind": "categorical", "categories": ["x"]}),
        ([None] * 100, {"kind": "categorical", "categories": [], "missing": True}),
        ([np.nan] * 100, {"kind": "real", "bounds": [0, 1], "missing": True}),
    ],
)
def test_constant_and_empty_columns_differ_by_nothing(
    given: list[Any], column: dict[str, Any], tables_of: Callable[..., Tables]
) -> None:
    measurement = columns.measure(_one_column(given, column, tables_of))
    assert {e.value for e in measurement.estimates if e.direction == "lower"} == {0.0}
    assert {e.value for e in measurement.estimates if e.direction == "higher"} <= {1.0}
    if column["kind"] == "real":
        of_the_table = {descriptives.SPIKES, descriptives.LATTICE, descriptives.CATEGORIES}
        missing = of_the_table | {"columns.ks", "columns.wasserstein"}
        assert {f.measure for f in measurement.failures} == missing


def test_the_figure_of_a_column_holds_shares_labels_and_edges(tables: Tables) -> None:
    figures = {figure["column"]: figure for figure in columns.measure(tables).figures["columns"]}
    for figure in figures.values():
        assert figure["labels"][-2:] == ["other", "missing"]
        assert len(figure["labels"]) == len(figure["train"]) == len(figure["synthetic"])
        assert sum(figure["train"]) == pytest.approx(1.0)
    assert len(figures["length"]["edges"]) == len(figures["length"]["labels"]) - 1
    assert figures["color"]["edges"] is None


def test_a_figure_of_hundreds_of_categories_shows_the_frequent_ones(tables_of: Callable[..., Tables]) -> None:
    names = [f"diagnosis {i}" for i in range(300)]
    drawn = np.random.default_rng(0).choice(names, 2000, p=np.arange(300, 0, -1) / 45150)
    schema_column = {"kind": "categorical", "categories": names}
    figure = columns.measure(_one_column(drawn, schema_column, tables_of)).figures["columns"][0]
    assert len(figure["labels"]) == MAX_LABELS
    assert figure["labels"][-3:] == ["243 rarer ones", "other", "missing"]
    assert sum(figure["train"]) == pytest.approx(1.0)


def test_edges_of_dates_are_iso_texts(tables_of: Callable[..., Tables]) -> None:
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(100), unit="D")
    column = {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}
    figure = columns.measure(_one_column(days, column, tables_of)).figures["columns"][0]
    assert figure["edges"][0] == "2020-01-01"
    assert figure["edges"][-1] == "2021-01-01"


def test_a_table_without_learned_columns_is_skipped_with_a_reason(tables: Tables) -> None:
    schema = build_schema({"status": "declared", "columns": {"key": {"kind": "identifier", "bounds": [0, 9]}}})
    failures = columns.measure(replace(tables, schema=schema)).failures
    assert {f.reason for f in failures} == {"skipped"}
    assert "columns.tvd.excess" in {f.measure for f in failures}


def test_a_number_that_is_moved_by_a_tenth_is_found_and_fresh_rows_are_not(tables_of: Callable[..., Tables]) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [0, 1e6]}}})
    rng = np.random.default_rng(4)
    parts = [pd.DataFrame({"x": rng.normal(100, 50, n).clip(0, None)}) for n in (4_000, 3_000, 3_000)]
    fresh = numbers(columns.measure(tables_of(*parts, schema)))[columns.SHIFT, ()]
    moved = numbers(columns.measure(tables_of(*parts[:2], parts[2] * 1.1, schema)))[columns.SHIFT, ()]
    assert fresh.high is not None and moved.low is not None
    assert fresh.high < 0.05 < moved.low and moved.note == "The worst is 'x'."
