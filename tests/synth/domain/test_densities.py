"""Draws within codes: densities, counts, alias tables, copulas, and checks of constraints on codes."""

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from synth.constraints import Formula
from synth.domain import Discretizer, density, grid
from synth.domain.copula import Copula
from synth.domain.counts import CodedTable
from synth.domain.density import expected_counts
from synth.domain.discretizer import regroup
from synth.domain.relations import broken, compute
from synth.schema import build_schema
from synth.schema.kinds import LineColumn, RealColumn
from synth.table import conform

INCOME = RealColumn(bounds=(0.0, 1e6), decimals=2, scale="log", spikes=(0.0, 1000.0))


def histogram(values: np.ndarray, column: LineColumn) -> tuple[np.ndarray, np.ndarray]:
    edges = grid.public_grid(column)
    return edges, np.histogram(values, edges)[0]


def incomes(rng: np.random.Generator, n: int) -> np.ndarray:
    values = np.clip(rng.lognormal(8.0, 0.8, n), 0, 1e6).round(2)
    values[: n // 10] = 0.0
    values[n // 10 : n // 5] = 1000.0
    return values


@pytest.mark.parametrize("seed", range(2))
def test_a_smooth_density_is_nearer_than_noisy_counts_and_keeps_the_tail(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = incomes(rng, 20_000)
    edges, counts = histogram(values, INCOME)
    noisy = counts + rng.normal(0, 50.0, len(counts)).round()
    expected = expected_counts(noisy, 50.0, edges, INCOME, counts.sum())
    assert (expected >= 0).all()
    assert np.abs(expected - counts).sum() < np.abs(np.maximum(noisy, 0) - counts).sum() / 2
    beyond = edges[:-1] > np.quantile(values, 0.999)
    assert expected[beyond].sum() < 0.004 * len(values)
    assert np.maximum(noisy, 0)[beyond].sum() > 0.004 * len(values)  # clipped noise alone would fill the tail


def test_spikes_are_apart_from_the_density_around_them() -> None:
    rng = np.random.default_rng(0)
    edges, counts = histogram(incomes(rng, 20_000), INCOME)
    expected = expected_counts(counts + rng.normal(0, 50.0, len(counts)).round(), 50.0, edges, INCOME, counts.sum())
    spikes = np.flatnonzero(grid.spike_cells(edges, INCOME))
    assert len(spikes) == 2
    assert expected[spikes] == pytest.approx([2000.0, 2000.0], abs=200.0)
    beside = [spikes[1] - 1, spikes[1] + 1]
    assert expected[beside] == pytest.approx(counts[beside], abs=100.0)


@pytest.mark.parametrize("spread", [10.0, 60.0, 200.0])
def test_a_broad_mode_that_noise_hides_cell_by_cell_is_kept_beside_a_narrow_one(spread: float) -> None:
    """A third of 5,000 values near a bound, at the noise of 20 columns and an epsilon of 1."""
    column = RealColumn(bounds=(0.0, 10_000.0), decimals=1)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        near, broad = np.abs(rng.normal(0, spread, 1700)), rng.normal(6000, 1500, 3300).clip(0, 10_000)
        edges, counts = histogram(np.concatenate([near, broad]), column)
        expected = expected_counts(counts + rng.normal(0, 49.5, len(counts)).round(), 49.5, edges, column, 5000)
        is_broad = edges[:-1] > 2000
        assert expected[is_broad].sum() == pytest.approx(counts[is_broad].sum(), rel=0.25)


def test_segments_are_averaged_as_by_hand() -> None:
    """All segmentations of five cells, the ratio of each segment integrated on a grid."""
    counts, base, sigma, total = np.array([1.0, 9.0, 30.0, 28.0, -2.0]), np.array([1.0, 2.0, 1.0, 1.5, 0.5]), 6.0, 70.0
    n, change = len(counts), density.CHANGES / len(counts)
    unit = total / base.sum()
    ratio = np.linspace(0, 40 * unit, 40_001)
    prior = np.mean([np.exp(-ratio / (s * unit)) / (s * unit) for s in density.SCALES], axis=0)
    mean, evidence = np.zeros(n), 0.0
    for cuts in itertools.product([False, True], repeat=n - 1):
        starts = [0, *(np.flatnonzero(cuts) + 1).tolist(), n]
        weight, means = change ** sum(cuts) * (1 - change) ** (n - 1 - sum(cuts)), []
        for first, end in itertools.pairwise(starts):
            y, b = counts[first:end, None], base[first:end, None]
            likelihood = np.exp((b * ratio * y - (b * ratio) ** 2 / 2).sum(axis=0) / sigma**2)
            empty = density.EMPTY_AT_BOUND if first == 0 or end == n else density.EMPTY
            filled = (1 - empty) * np.trapezoid(likelihood * prior, ratio)
            first_moment = (1 - empty) * np.trapezoid(likelihood * prior * ratio, ratio)
            weight *= empty + filled
            means += [first_moment / (empty + filled)] * (end - first)
        mean += weight * np.array(means) * base
        evidence += weight
    built, log_evidence = density._Segments(counts, base, sigma, total, n).mean(0.0)
    np.testing.assert_allclose(built, mean / evidence, rtol=1e-4)
    assert log_evidence == pytest.approx(np.log(evidence), abs=1e-4)


@pytest.mark.parametrize("counts", [np.zeros(300), np.full(300, -40.0), np.r_[np.full(299, -40.0), 9e6]])
def test_noise_alone_has_a_density_too(counts: np.ndarray) -> None:
    column = RealColumn(bounds=(-5.0, 5.0))
    edges = np.linspace(-5.0, 5.0, 301)
    expected = expected_counts(counts, 40.0, edges, column, counts.sum())
    assert np.isfinite(expected).all()
    assert (expected >= 0).all()
    if counts.max() <= 0:
        assert (expected > 0).all()  # sampling may need any cell


DOMAIN = {"a": 3, "b": 2, "c": 4}


@pytest.mark.parametrize("clique", [("c", "a"), ("b", "c", "a"), ()])
def test_counts_are_those_of_counting_row_by_row(clique: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 200) for size in DOMAIN.values()], axis=1).astype(np.int32)
    expected = np.zeros([DOMAIN[name] for name in clique], dtype=np.int64)
    for row in codes:
        expected[tuple(row[list(DOMAIN).index(name)] for name in clique)] += 1
    result = CodedTable(DOMAIN, codes).counts(clique)
    assert result.shape == expected.shape
    assert (result == expected).all()


N = 6_000


def made(content: dict[str, dict[str, Any]], frame: pd.DataFrame, n_codes: int = 4) -> tuple[pd.DataFrame, Discretizer]:
    """The table and a discretizer with so many codes of even mass for each of its numbers."""
    schema = build_schema({"status": "declared", "n_units": len(frame), "columns": content})
    table = conform(frame, schema)
    attributes = []
    for attribute in Discretizer.by_schema(schema).attributes:
        counts = np.bincount(attribute.cells(table[attribute.name]), minlength=attribute.n_cells).astype(float)
        below = (np.cumsum(counts[:-2]) - counts[:-2]) / counts[:-2].sum()
        attributes.append(regroup(attribute, np.floor(n_codes * below).astype(int), counts))
    return table, Discretizer(tuple(attributes))


@pytest.fixture(scope="module")
def related() -> tuple[pd.DataFrame, Discretizer]:
    """Two numbers with a rank correlation of .96, a third with neither, and a fifth of one missing."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=(N, 2))
    both = np.stack([score[:, 0], 0.97 * score[:, 0] + np.sqrt(1 - 0.97**2) * score[:, 1]])
    frame = pd.DataFrame({"a": both[0], "b": both[1], "c": rng.normal(size=N)}).clip(-5, 5)
    frame.loc[rng.random(N) < 0.2, "b"] = np.nan
    content = {name: {"kind": "real", "bounds": [-5, 5], "missing": name == "b"} for name in ("a", "b", "c")}
    return made(content, frame)


def fitted(table: pd.DataFrame, discretizer: Discretizer) -> Copula:
    copula = Copula.fitted(discretizer, discretizer.encode(table), np.random.default_rng(0))
    assert copula is not None
    return copula


def within(frame: pd.DataFrame, codes: np.ndarray, code: int) -> float:
    """The rank correlation of a and b among rows with one code of both."""
    rows = frame[(codes[:, 0] == code) & (codes[:, 1] == code)]
    return float(spearmanr(rows["a"], rows["b"])[0])


def test_order_within_codes_is_that_of_the_rows(related: tuple[pd.DataFrame, Discretizer]) -> None:
    table, discretizer = related
    codes = discretizer.encode(table)
    alone = discretizer.decode(codes, np.random.default_rng(1))
    together = discretizer.decode(codes, np.random.default_rng(1), fitted(table, discretizer))
    for code in range(4):
        assert abs(within(alone, codes, code)) < 0.1
        assert within(together, codes, code) == pytest.approx(within(table, codes, code), abs=0.12)
    assert spearmanr(together["a"], together["c"])[0] == pytest.approx(spearmanr(table["a"], table["c"])[0], abs=0.02)


def test_codes_and_the_distribution_of_each_column_stay(related: tuple[pd.DataFrame, Discretizer]) -> None:
    table, discretizer = related
    codes = discretizer.encode(table)
    together = discretizer.decode(codes, np.random.default_rng(1), fitted(table, discretizer))
    np.testing.assert_array_equal(discretizer.encode(together), codes)
    np.testing.assert_array_equal(together.isna(), table.isna())
    for position, attribute in enumerate(discretizer.attributes):
        holding = np.bincount(attribute.cells(together[attribute.name]), minlength=attribute.n_cells)
        expected = np.bincount(codes[:, position], minlength=attribute.size)[attribute.group] * attribute.mass
        expected /= np.bincount(attribute.group, weights=attribute.mass)[attribute.group] + 1e-12
        # No further than rows that are drawn one by one: Kolmogorov's limit at .1%.
        assert np.abs(np.cumsum(holding) - np.cumsum(expected)).max() < 1.95 * np.sqrt(N)


def test_there_is_none_for_columns_that_have_nothing_to_do_with_each_other_or_have_no_line() -> None:
    rng = np.random.default_rng(0)
    numbers = {name: {"kind": "integer", "bounds": [0, 999]} for name in ("a", "b")}
    frame = pd.DataFrame({name: rng.integers(0, 1000, 60_000) for name in numbers})
    table, discretizer = made(numbers, frame)
    assert Copula.fitted(discretizer, discretizer.encode(table), rng) is None
    table, discretizer = made({"a": numbers["a"]}, frame[["a"]])
    assert Copula.fitted(discretizer, discretizer.encode(table), rng) is None


TIMES = ["2020-01-01T00:00:00", "2021-01-01T00:00:00"]
Rows = dict[str, list[Any]]
COLUMNS: dict[str, Any] = {
    "n": {"kind": "integer", "bounds": [0, 100], "missing": True},
    "x": {"kind": "real", "bounds": [0, 100], "decimals": 2, "missing": True},
    "made": {"kind": "real", "bounds": [-5, 60], "decimals": 1, "missing": True},
    "whole": {"kind": "integer", "bounds": [0, 50]},
    "free": {"kind": "real", "bounds": [0, 0.3], "missing": True},
    "word": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "code": {"kind": "categorical", "categories": [7, 8], "missing": True},
    "yes": {"kind": "boolean", "missing": True},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"], "missing": True},
    "time": {"kind": "datetime", "bounds": ["1960-01-01T00:00:00", TIMES[1]], "missing": True},
    "other": {"kind": "datetime", "bounds": ["1960-01-01T00:00:00", TIMES[1]]},
    "paris": {"kind": "datetime", "bounds": TIMES, "missing": True, "timezone": "Europe/Paris"},
    "anywhere": {"kind": "datetime", "bounds": TIMES, "missing": True, "timezone": "mixed"},
}


def flags(constraint: dict[str, Any], rows: Rows) -> list[bool]:
    used = {name: COLUMNS[name] for name in rows}
    schema = build_schema({"status": "declared", "columns": used, "constraints": [constraint]})
    frame = conform(pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in rows.items()}), schema)
    result: list[bool] = broken(frame, schema.constraints[0], schema.columns).tolist()
    return result


def test_numbers_are_compared_and_missing_ones_break_nothing() -> None:
    rows: Rows = {"n": [1, 2, 3, None, 3], "x": [1.5, 2.0, 2.99, 0.0, None]}
    constraint = {"kind": "inequality", "low": "n", "high": "x"}
    assert flags(constraint, rows) == [False, False, True, False, False]
    assert flags({**constraint, "strict": True}, rows) == [False, True, True, False, False]


def test_beside_a_date_a_time_counts_as_its_day() -> None:
    rows: Rows = {
        "day": ["2020-05-02"] * 5,
        "time": ["2020-05-01T23:59:59", "2020-05-02T00:00:00", "2020-05-02T09:00:00", "2020-05-03T00:00:00", None],
    }
    after = {"kind": "inequality", "low": "day", "high": "time"}
    assert flags(after, rows) == [True, False, False, False, False]
    # Within one day nothing comes first: a midnight has no claim to be earlier than nine o'clock.
    assert flags({**after, "strict": True}, rows) == [True, True, True, False, False]
    before = {"kind": "inequality", "low": "time", "high": "day"}
    assert flags(before, rows) == [False, False, False, True, False]
    assert flags({**before, "strict": True}, rows) == [False, True, True, True, False]


def test_times_of_zones_are_compared_as_instants() -> None:
    noon = dt.datetime(2020, 6, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    rows: Rows = {"paris": [f"2020-06-01T{hour}:00:00+02:00" for hour in ("08", "09", "10")], "anywhere": [noon] * 3}
    assert flags({"kind": "inequality", "low": "paris", "high": "anywhere"}, rows) == [False, False, True]


def test_combinations_are_of_texts_whole_numbers_and_booleans_together() -> None:
    rows: Rows = {
        "word": ["a", "a", "b", None, "b"],
        "code": [7, 8, 8, 8, 8],
        "yes": [True, True, False, True, True],
        "n": [1, 1, 2, 3, 2],
    }
    listed = [["a", 7, True, 1], ["b", 8, False, 2]]
    constraint = {"kind": "fixed_combinations", "columns": list(rows), "combinations": listed}
    assert flags(constraint, rows) == [False, True, False, False, True]


def test_a_formula_holds_to_the_precision_of_its_column() -> None:
    rows: Rows = {"n": [10, 10, 10, 10, None, None], "x": [3.25] * 6, "made": [6.7, 6.8, 6.6, None, None, 6.8]}
    constraint = {"kind": "formula", "column": "made", "expression": "n - x"}
    # 10 - 3.25 = 6.75 is a tie: 6.7 and 6.8 both round it.
    assert flags(constraint, rows) == [False, False, True, True, False, True]


def computed(column: str, expression: str, rows: Rows) -> tuple[list[Any], list[bool]]:
    used = {name: COLUMNS[name] for name in (*rows, column)}
    formula = {"kind": "formula", "column": column, "expression": expression}
    schema = build_schema({"status": "declared", "columns": used, "constraints": [formula]})
    frame = pd.DataFrame(
        {name: conform(pd.DataFrame({name: cells}), _alone(name))[name] for name, cells in rows.items()}
    )
    constraint = schema.constraints[0]
    assert isinstance(constraint, Formula)
    series, unlawful = compute(frame, constraint, schema.columns)
    lawful = frame.assign(**{column: series})[~unlawful]
    assert not broken(lawful, constraint, schema.columns).any()
    values: list[Any] = series.astype(object).where(series.notna(), None).tolist()
    return values, unlawful.tolist()


def _alone(name: str) -> Any:
    return build_schema({"status": "declared", "columns": {name: COLUMNS[name]}})


def test_a_computed_column_is_rounded_and_missing_where_an_operand_is() -> None:
    rows: Rows = {"n": [10, 1, None], "x": [3.26, 0.34, 1.0]}
    assert computed("made", "n - x", rows) == ([6.7, 0.7, None], [False, False, False])
    assert computed("whole", "n + x", rows)[0][:2] == [13, 1]


def test_a_value_beyond_the_bounds_or_missing_where_it_may_not_be_is_not_lawful() -> None:
    rows: Rows = {"n": [70, 0, 60, None], "x": [0.0, 5.5, 0.04, 1.0]}
    assert computed("made", "n - x", rows)[1] == [True, True, False, False]
    assert computed("whole", "n / x", {"n": [1, 1], "x": [0.0, 1.0]})[1] == [True, False]
