"""Pairs, triples and repeated rows: against SciPy, SDMetrics and rows counted one by one."""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.fidelity import detection, pairs
from evaluate.fidelity.encoded import (
    EncodedSamples,
    correlation_ratio,
    cramers_v,
    moments,
    pair_moments,
    pearson,
    replicated,
)
from evaluate.fidelity.samples import Samples, standardized
from evaluate.intervals import N_GROUPS, replicate_groups
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema
from synth.table import conform

RNG = np.random.default_rng(11)
GROUPS = RNG.permutation(400) % N_GROUPS
KEPT = replicate_groups(N_GROUPS)[:, GROUPS].astype(bool)


def _numbers() -> np.ndarray:
    x = RNG.normal(size=(400, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e9, 5.0]
    x[:, 1] += x[:, 0] * 1e6
    x[RNG.random((400, 3)) < 0.2] = np.nan
    return x


def test_pearson_agrees_with_scipy_on_the_rows_where_both_are_present_in_every_replicate() -> None:
    x = _numbers()
    result = pearson(pair_moments(standardized(x), GROUPS, N_GROUPS))
    for replicate, kept in enumerate(KEPT):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            both = kept & ~np.isnan(x[:, a]) & ~np.isnan(x[:, b])
            expected = stats.pearsonr(x[both, a], x[both, b]).statistic
            assert result[replicate, a, b] == pytest.approx(expected, abs=1e-9)
            assert result[replicate, b, a] == pytest.approx(expected, abs=1e-9)


def test_cramers_v_agrees_with_its_definition_on_scipys_chi_square() -> None:
    a, b = RNG.integers(0, 4, 400), RNG.integers(0, 6, 400)
    b = np.where(RNG.random(400) < 0.4, a, b)
    cells = np.bincount(GROUPS * 24 + a * 6 + b, minlength=N_GROUPS * 24)
    table = replicated(cells.reshape(N_GROUPS, 24)).reshape(-1, 4, 6)
    for replicate, kept in enumerate(KEPT):
        plain = np.zeros((4, 6))
        np.add.at(plain, (a[kept], b[kept]), 1)
        n = plain.sum()
        phi = max(stats.chi2_contingency(plain, correction=False).statistic / n - 3 * 5 / (n - 1), 0)
        expected = np.sqrt(phi / min(4 - 9 / (n - 1) - 1, 6 - 25 / (n - 1) - 1))
        assert cramers_v(table)[replicate] == pytest.approx(expected, abs=1e-9)


def test_the_correlation_ratio_agrees_with_sums_of_squares() -> None:
    codes = RNG.integers(0, 5, 400)
    number = codes * 0.7 + RNG.normal(size=400)
    number[RNG.random(400) < 0.1] = np.nan
    result = correlation_ratio(*moments(codes, 5, standardized(number[:, None]), GROUPS, N_GROUPS)[0])
    for replicate, kept in enumerate(KEPT):
        rows = kept & ~np.isnan(number)
        y, c = number[rows], codes[rows]
        within = sum(((y[c == k] - y[c == k].mean()) ** 2).sum() for k in np.unique(c))
        total = ((y - y.mean()) ** 2).sum()
        adjusted = 1 - within / total * (len(y) - 1) / (len(y) - len(np.unique(c)))
        assert result[replicate] == pytest.approx(np.sqrt(max(adjusted, 0)), abs=1e-9)


def find(measurement: MetricResult, measure: str) -> Estimate:
    return next(e for e in measurement.estimates if e.measure == measure and not e.subject)


def test_pairs_agree_with_sdmetrics_where_both_measure_the_same(tables: Tables) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("sdmetrics.column_pairs")
        measurement, coded = pairs.measure(tables), EncodedSamples.of(tables, Samples.draw(tables))
        figure = measurement.figures["pairs"]
        frames = [
            pd.DataFrame(codes, columns=list(coded.columns)).astype(str)
            for codes in (rows.codes for rows in coded.rows)
        ]
        for a, b in itertools.combinations(range(len(coded.columns)), 2):
            names = [coded.columns[a], coded.columns[b]]
            expected = theirs.ContingencySimilarity.compute(
                frames[0][names], frames[1][names], num_rows_subsample=None, real_association_threshold=0
            )
            assert 1 - figure["tvd"][a][b] == pytest.approx(expected, abs=1e-9)
        samples = Samples.draw(tables)
        numeric = [s.rows[["length", "count"]].astype(float) for s in samples.all[:2]]
        expected = theirs.CorrelationSimilarity.compute(*numeric)
    assert 1 - find(measurement, "pairs.pearson.mean").value / 2 == pytest.approx(expected, abs=1e-9)


def test_without_its_largest_value_a_table_loses_a_pair_of_sdmetrics_and_none_of_ours(
    tables_of: Callable[..., Tables],
) -> None:
    reports = pytest.importorskip("sdmetrics.reports.single_table")
    number = np.random.default_rng(0).integers(0, 100, 400)
    train = pd.DataFrame({"number": number, "kind": np.where(number > 50, "a", "b")})
    train.loc[0, "number"] = 200
    synthetic = train.iloc[1:].reset_index(drop=True)
    kinds = {
        "number": {"kind": "integer", "bounds": [0, 200]},
        "kind": {"kind": "categorical", "categories": ["a", "b"]},
    }
    schema = build_schema({"status": "declared", "columns": kinds})
    sdtypes = {"number": {"sdtype": "numerical"}, "kind": {"sdtype": "categorical"}}
    with warnings.catch_warnings(action="ignore"):
        report = reports.QualityReport()
        report.generate(train, synthetic, {"columns": sdtypes}, verbose=False)
    assert report.get_properties().set_index("Property")["Score"]["Column Pair Trends"] < 0.5
    figure = pairs.measure(tables_of(train, train, synthetic, schema)).figures["pairs"]
    assert figure["tvd"][0][1] < 0.01


def test_fresh_rows_of_independent_columns_are_not_beyond_shuffled_ones(tables_of: Callable[..., Tables]) -> None:
    rng = np.random.default_rng(0)
    schema = build_schema(
        {"status": "declared", "columns": {n: {"kind": "integer", "bounds": [0, 19]} for n in ("a", "b", "c")}}
    )
    train, fresh, other = (pd.DataFrame({name: rng.integers(0, 20, 400) for name in schema.columns}) for _ in range(3))
    estimate = find(pairs.measure(tables_of(train, fresh, other, schema)), pairs.FLOOR_EXCESS)
    assert estimate.low < 0.01
    assert estimate.reference == 0.0 > (estimate.floor or 0.0)


def test_whole_entities_stand_in_one_group(tables: Tables) -> None:
    columns = {name: column.model_dump(mode="json") for name, column in tables.schema.columns.items()}
    schema = build_schema(
        {"status": "declared", "entity": "person", "max_rows_per_unit": 9,
         "columns": {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **columns}}
    )  # fmt: skip
    rng = np.random.default_rng(2)
    frames = {
        name: conform(frame.assign(person=rng.integers(0, 200, len(frame))), schema, part=True)
        for name, frame in vars(tables).items()
        if isinstance(frame, pd.DataFrame) and name != "unjudged"
    }
    samples = Samples.draw(replace(tables, schema=schema, **frames))
    assert samples.n_groups == 16
    for sample in samples.all:
        assert pd.Series(sample.groups).groupby(sample.rows["person"]).nunique().max() == 1


def test_every_triple_agrees_with_counting_rows_one_by_one(tables: Tables) -> None:
    coded = EncodedSamples.of(tables, Samples.draw(tables), together=3)
    beyond = []
    for triple in map(list, itertools.combinations(range(5), 3)):
        shares = [
            pd.Series(map(tuple, codes[:, triple])).value_counts(normalize=True)
            for codes in (rows.codes for rows in coded.rows[:3])
        ]
        tvd, reference = (shares[0].sub(part, fill_value=0).abs().sum() / 2 for part in shares[1:])
        beyond.append(tvd - reference)
    measurement = pairs.triples(tables)
    assert find(measurement, pairs.WORST_TRIPLE).value == pytest.approx(max(beyond), abs=1e-12)
    drawn = [row["tvd"] - row["reference"] for row in measurement.figures["triples"]["worst"]]
    assert drawn == pytest.approx(sorted(beyond, reverse=True), abs=1e-12)


def test_what_only_three_columns_show_together_is_seen() -> None:
    rng = np.random.default_rng(0)

    def rows(n: int, *, tied: bool) -> pd.DataFrame:
        a, b, free = rng.random((3, n)) < 0.5
        return pd.DataFrame({"a": a, "b": b, "c": a ^ b if tied else free})

    schema = build_schema({"status": "declared", "columns": {name: {"kind": "boolean"} for name in "abc"}})
    tables = Tables.prepare(rows(2000, tied=True), rows(1000, tied=True), rows(1000, tied=False), schema)
    worst = find(pairs.triples(tables), pairs.WORST_TRIPLE)
    assert worst.low > 0.4
    assert "'a' and 'b' and 'c'" in worst.note


def test_rows_that_stand_twice_are_repeated_and_fresh_rows_repeat_as_real_ones_do(population, tables_of, schema):
    rng = np.random.default_rng(11)
    names = ["color", "shape", "count"]
    coarse = schema.model_copy(update={"columns": {name: schema.columns[name] for name in names}})
    parts = [population(n_rows, rng)[names] for n_rows in (900, 400, 450)]
    (fresh,) = detection.repeated_rows(tables_of(*parts, coarse)).estimates
    twice = pd.concat([parts[2]] * 2, ignore_index=True)
    (doubled,) = detection.repeated_rows(tables_of(*parts[:2], twice, coarse)).estimates
    assert fresh.low <= 0.0 <= fresh.high
    assert doubled.low > max(0.05, fresh.value) and "have an equal one" in doubled.note
    assert "Of 900 synthetic rows 100.0% have" in doubled.note


@pytest.mark.statistical
@pytest.mark.parametrize(("n_cells", "skew"), [(5_000, 0.0), (3_000, 1.0), (100, 0.5)])
def test_the_interval_of_repeated_rows_holds_no_difference_between_two_samples(n_cells, skew, tables_of):
    rng, covered = np.random.default_rng(12), []
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, n_cells]}}})
    weights = 1 / np.arange(1, n_cells + 1) ** skew
    for seed in range(60):
        parts = [pd.DataFrame({"x": rng.choice(n_cells, n, p=weights / weights.sum())}) for n in (700, 200, 700)]
        (result,) = detection.repeated_rows(tables_of(*parts, schema, seed)).estimates
        covered.append(result.low <= 0.0 <= result.high)
    assert np.mean(covered) >= 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / 60)
