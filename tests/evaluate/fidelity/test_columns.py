import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.fidelity import columns
from evaluate.fidelity.columns import Gaps, chi_square
from evaluate.fidelity.rows import OrderedValues
from evaluate.fidelity.samples import Samples
from evaluate.intervals import replicate_groups
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.domain import Discretizer
from synth.schema import build_schema

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
            assert 1 - value(measurement, "columns.ks", name) == pytest.approx(theirs, abs=1e-9)
        discretizer = Discretizer.by_quantiles(tables.schema, tables.train)
        codes = [
            pd.DataFrame(discretizer.encode(rows), columns=list(discretizer.columns)) for rows in (train, synthetic)
        ]
        for name in discretizer.columns:
            theirs = single.TVComplement.compute(*(code[name].astype(str) for code in codes))
            assert 1 - value(measurement, "columns.tvd", name) == pytest.approx(theirs, abs=1e-9)


def test_unseen_categories_count_and_are_not_taken_for_rare_ones(tables: Tables, offer: Offer) -> None:
    unseen = columns.measure(offer(tables.synthetic.assign(color="violet")))
    assert value(unseen, "columns.tvd", "color") == pytest.approx(1.0)
    assert value(unseen, "columns.chi2", "color") == pytest.approx(1.0)
    assert value(unseen, "columns.tvd.excess.worst") > 0.9
    assert "'color'" in numbers(unseen)["columns.tvd.excess.worst", ()].note


def test_a_number_that_is_moved_by_a_tenth_is_found_and_fresh_rows_are_not(tables_of: Callable[..., Tables]) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [0, 1e6]}}})
    rng = np.random.default_rng(4)
    parts = [pd.DataFrame({"x": rng.normal(100, 50, n).clip(0, None)}) for n in (4_000, 3_000, 3_000)]
    fresh = numbers(columns.measure(tables_of(*parts, schema)))[columns.SHIFT, ()]
    moved = numbers(columns.measure(tables_of(*parts[:2], parts[2] * 1.1, schema)))[columns.SHIFT, ()]
    assert fresh.high is not None and moved.low is not None
    assert fresh.high < 0.05 < moved.low and moved.note == "The worst is 'x'."
