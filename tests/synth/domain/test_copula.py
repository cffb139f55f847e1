"""The copula within codes: order is kept below their resolution, and nothing else of a table changes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import synth
from synth.domain import Discretizer
from synth.domain.copula import Copula
from synth.domain.discretizer import regroup
from synth.schema import build_schema
from synth.table import conform

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
    for place, attribute in enumerate(discretizer.attributes):
        held = np.bincount(attribute.cells(together[attribute.name]), minlength=attribute.n_cells)
        expected = np.bincount(codes[:, place], minlength=attribute.size)[attribute.group] * attribute.mass
        expected /= np.bincount(attribute.group, weights=attribute.mass)[attribute.group] + 1e-12
        # No further than rows that are drawn one by one: Kolmogorov's limit at .1%.
        assert np.abs(np.cumsum(held) - np.cumsum(expected)).max() < 1.95 * np.sqrt(N)


def test_order_does_not_hang_on_the_rows_of_a_table(related: tuple[pd.DataFrame, Discretizer]) -> None:
    table, discretizer = related
    copula, codes, rng = fitted(table, discretizer), discretizer.encode(table), np.random.default_rng(1)
    parts = [discretizer.decode(codes[start : start + 5], rng, copula) for start in range(0, 3000, 5)]
    assert within(pd.concat(parts), codes[:3000], 3) == pytest.approx(within(table, codes, 3), abs=0.12)


def test_others_go_along_with_a_given_value(related: tuple[pd.DataFrame, Discretizer]) -> None:
    table, discretizer = related
    copula, codes = fitted(table, discretizer), discretizer.encode(table)
    for value in (0.9, 1.5, 2.2):
        same = codes[(codes[:, 0] == codes[(table["a"] - value).abs().argmin(), 0]) & (codes[:, 1] == codes[:, 0])]
        drawn = discretizer.decode(same, np.random.default_rng(0), copula, {"a": pd.Series([value])})
        near = table[((table["a"] - value).abs() < 0.1) & (codes[:, 1] == codes[:, 0])]
        assert drawn["b"].mean() == pytest.approx(near["b"].mean(), abs=0.15)
        assert drawn["b"].std() < 1.6 * near["b"].std()


def test_more_rows_than_a_block_are_drawn_as_fewer_are(
    related: tuple[pd.DataFrame, Discretizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, discretizer = related
    codes = discretizer.encode(table)
    copula = fitted(table, discretizer)
    monkeypatch.setattr("synth.domain.copula.BLOCK", 500)
    drawn = discretizer.decode(codes, np.random.default_rng(1), copula)
    np.testing.assert_array_equal(discretizer.encode(drawn), codes)
    assert within(drawn, codes, 3) == pytest.approx(within(table, codes, 3), abs=0.12)


def test_columns_that_fall_together_fall_within_codes() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=N).clip(-5, 5)
    content = {name: {"kind": "real", "bounds": [-5, 5]} for name in ("a", "b")}
    table, discretizer = made(content, pd.DataFrame({"a": a, "b": (-a + 0.1 * rng.normal(size=N)).clip(-5, 5)}))
    codes = discretizer.encode(table)
    drawn = discretizer.decode(codes, rng, fitted(table, discretizer))
    opposite = drawn[(codes[:, 0] == 0) & (codes[:, 1] == 3)]
    assert spearmanr(opposite["a"], opposite["b"])[0] < -0.8


def test_there_is_none_for_columns_that_have_nothing_to_do_with_each_other_or_have_no_line() -> None:
    rng = np.random.default_rng(0)
    numbers = {name: {"kind": "integer", "bounds": [0, 999]} for name in ("a", "b")}
    frame = pd.DataFrame({name: rng.integers(0, 1000, 60_000) for name in numbers})
    table, discretizer = made(numbers, frame)
    assert Copula.fitted(discretizer, discretizer.encode(table), rng) is None
    table, discretizer = made({"a": numbers["a"]}, frame[["a"]])
    assert Copula.fitted(discretizer, discretizer.encode(table), rng) is None


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_few_rows_are_drawn_as_well(related: tuple[pd.DataFrame, Discretizer], n_rows: int) -> None:
    table, discretizer = related
    codes = discretizer.encode(table.head(n_rows))
    drawn = discretizer.decode(codes, np.random.default_rng(0), fitted(table, discretizer))
    np.testing.assert_array_equal(discretizer.encode(drawn), codes)


def test_a_single_row_has_any_value_of_its_code(related: tuple[pd.DataFrame, Discretizer]) -> None:
    table, discretizer = related
    copula, codes = fitted(table, discretizer), discretizer.encode(table.head(1))
    drawn = [discretizer.decode(codes, np.random.default_rng(i), copula)["c"].iloc[0] for i in range(200)]
    real = table["c"][discretizer.encode(table)[:, 2] == codes[0, 2]]
    assert np.std(drawn) == pytest.approx(real.std(), rel=0.25)


def test_equal_columns_and_constant_ones_break_nothing() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 1000, N)
    content = {name: {"kind": "integer", "bounds": [0, 999]} for name in ("a", "b", "c")}
    table, discretizer = made(content, pd.DataFrame({"a": a, "b": a, "c": np.full(N, 7)}))
    codes = discretizer.encode(table)
    drawn = discretizer.decode(codes, rng, fitted(table, discretizer))
    assert spearmanr(drawn["a"], drawn["b"])[0] > 0.99
    assert discretizer.encode(drawn)[:, 2].tolist() == codes[:, 2].tolist()


def test_a_fit_keeps_what_lies_within_its_bins_and_a_saved_model_draws_alike(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=N).clip(-5, 5)
    frame = pd.DataFrame({"a": a, "b": (a + 0.05 * rng.normal(size=N)).clip(-5, 5)})
    columns = {name: {"kind": "real", "bounds": [-5, 5], "bins": [-5, -1, 0, 1, 5]} for name in frame}
    schema = build_schema({"status": "declared", "n_units": N, "columns": columns})
    model = synth.fit(conform(frame, schema), schema, "mst", epsilon=10.0, delta=1e-5, seed=0)
    drawn = model.sample(N, seed=0)
    top = drawn[(drawn["a"] > 1) & (drawn["b"] > 1)]
    assert spearmanr(top["a"], top["b"])[0] > 0.6
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(synth.load_model(tmp_path / "model").sample(N, seed=0), drawn)
