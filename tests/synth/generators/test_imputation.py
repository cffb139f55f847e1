"""Imputation: missing cells follow the model given the cells that are there, and nothing else changes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError, TableError
from synth.generators.latent_class import LatentClass
from synth.generators.models.imputation import UNFILLED
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.mst import Mst
from synth.marginals import LatentClasses
from synth.marginals.sampling import impute_codes
from synth.schema import Schema, build_schema
from synth.table import violations


def with_holes(frame: pd.DataFrame, share: float, seed: int = 0) -> pd.DataFrame:
    """The table with so many cells of each column missing at random."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: frame[name].mask(rng.random(len(frame)) < share) for name in frame})


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame, schema: Schema) -> MarginalModel:
    return LatentClass(n_classes=100).fit(frame, schema)


def test_every_kind_is_filled_in_and_known_cells_stay(
    model: MarginalModel, frame: pd.DataFrame, schema: Schema
) -> None:
    holes = with_holes(frame, 0.3)
    holes.index = pd.Index(range(1000, 1400))
    before = holes.copy(deep=True)
    filled = model.impute(holes, seed=1)
    pd.testing.assert_frame_equal(holes, before)
    assert filled.index.equals(holes.index)
    assert list(filled.columns) == list(frame.columns)
    learned = [name for name in frame if name != "id"]
    assert not filled[learned].isna().to_numpy().any()
    assert filled.attrs[UNFILLED] == 0
    for name in frame:
        known = holes[name].notna()
        assert filled.loc[known, name].tolist() == holes.loc[known, name].tolist(), name
        assert filled[name].dtype == frame[name].dtype, name
    # Nobody learns an identifier.
    assert filled["id"].isna().equals(holes["id"].isna())
    assert violations(filled.assign(id=frame["id"].to_numpy()), schema) == []


def test_the_same_seed_fills_in_the_same_cells_and_another_others(model: MarginalModel, frame: pd.DataFrame) -> None:
    holes = with_holes(frame, 0.3)
    one, same, other = (model.impute(holes, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)


def test_codes_are_drawn_from_the_posterior() -> None:
    """Chances by brute force, over all combinations of three attributes; counts within 5 standard errors."""
    rng = np.random.default_rng(3)
    domain = {"a": 3, "b": 2, "c": 4}
    tables = [rng.dirichlet(np.ones(size), 5).T for size in domain.values()]
    model = LatentClasses(domain, rng.dirichlet(np.ones(5)), tables, 1.0)
    joint, n = model.marginal(("a", "b", "c")), 20_000
    codes = np.tile(np.array([[1, 0, 0]], dtype=np.int32), (n, 1))
    # The second is known to be 0; the third may be anything but 2, and the first anything.
    is_open = {0: np.ones((n, 3), dtype=bool), 2: np.tile(np.array([True, True, False, True]), (n, 1))}
    drawn = impute_codes(model, codes, is_open, rng)
    assert set(drawn[:, 1]) == {0}
    counts = np.zeros((3, 4))
    np.add.at(counts, (drawn[:, 0], drawn[:, 2]), 1)
    chances = joint[:, 0] * np.array([1.0, 1.0, 0.0, 1.0])
    expected = n * chances / chances.sum()
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert counts[:, 2].sum() == 0


def test_a_row_that_no_class_can_have_is_filled_in_by_the_shares_of_all() -> None:
    tables = [np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[0.9, 0.1], [0.1, 0.9]])]
    model = LatentClasses({"a": 2, "b": 2}, np.array([0.5, 0.5]), tables, 1.0)
    codes = np.tile(np.array([[1, 0]], dtype=np.int32), (4000, 1))
    drawn = impute_codes(model, codes, {1: np.ones((4000, 2), dtype=bool)}, np.random.default_rng(0))
    assert abs(drawn[:, 1].mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


def test_a_class_of_no_share_is_never_taken() -> None:
    tables = [np.array([[1.0, 0.0], [0.0, 1.0]])]
    model = LatentClasses({"a": 2}, np.array([1.0, 0.0]), tables, 1.0)
    drawn = impute_codes(
        model, np.zeros((500, 1), dtype=np.int32), {0: np.ones((500, 2), dtype=bool)}, np.random.default_rng(0)
    )
    assert not drawn.any()


def parity(n_rows: int) -> tuple[pd.DataFrame, Schema]:
    """Three columns, any two of which tell the third, and no one another."""
    a, b = np.random.default_rng(5).integers(0, 2, (2, n_rows))
    names = np.array(["x", "y"], dtype=object)
    frame = pd.DataFrame({"a": names[a], "b": names[b], "c": names[a ^ b]})
    columns = {name: {"kind": "categorical", "categories": ["x", "y"]} for name in frame}
    return frame, build_schema({"status": "declared", "n_units": n_rows, "columns": columns})


def test_all_known_cells_bear_on_a_missing_one_and_a_private_model_does_as_well() -> None:
    frame, schema = parity(8000)
    a, b, c = ((frame[name] == "y").to_numpy() for name in "abc")
    assert ((a ^ b) == c).all()
    for epsilon in (None, 3.0):
        fitted = LatentClass(n_classes=50, rounds=4, epsilon=epsilon).fit(frame, schema)
        filled = fitted.impute(frame.assign(c=pd.Series([None] * 8000, dtype=object)), seed=0)
        assert ((filled["c"] == "y").to_numpy() == c).mean() > 0.9
        # Cells that are missing together are drawn together.
        both = fitted.impute(frame.assign(b=None, c=None), seed=0)
        x, y, z = ((both[name] == "y").to_numpy() for name in "abc")
        assert ((x ^ y) == z).mean() > 0.85
        assert 0.4 < (y == b).mean() < 0.6


def test_numbers_follow_the_known_ones() -> None:
    rng = np.random.default_rng(8)
    hidden = rng.normal(0, 1, 4000)
    frame = pd.DataFrame({name: hidden + 0.3 * rng.normal(0, 1, 4000) for name in "abc"}).clip(-4, 4)
    columns = {name: {"kind": "real", "bounds": [-4, 4]} for name in frame}
    schema = build_schema({"status": "declared", "n_units": 4000, "columns": columns})
    filled = LatentClass(n_classes=200).fit(frame, schema).impute(frame.assign(c=np.nan), seed=0)
    # A value drawn given the others is off by their noise and by its own: by .46 where all is linear.
    assert np.corrcoef(filled["c"], frame["c"])[0, 1] > 0.8
    assert abs(filled["c"].std() - frame["c"].std()) < 0.1


CONTENT: dict[str, Any] = {
    "status": "declared",
    "n_units": 3000,
    "columns": {
        "town": {"kind": "categorical", "categories": [f"{land}{i}" for land in "abc" for i in range(6)]},
        "land": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "level": {"kind": "categorical", "categories": ["low", "high"]},
        "rank": {"kind": "integer", "bounds": [1, 2]},
        "low": {"kind": "integer", "bounds": [0, 40]},
        "high": {"kind": "integer", "bounds": [0, 40]},
        "both": {"kind": "integer", "bounds": [0, 80]},
        "key": {"kind": "integer", "bounds": [0, 9999]},
        "free": {"kind": "boolean"},
    },
    "constraints": [
        {
            "kind": "fixed_combinations", "columns": ["town", "land"],
            "combinations": [[f"{land}{i}", land] for land in "abc" for i in range(6)],
        },
        {"kind": "fixed_combinations", "columns": ["level", "rank"], "combinations": [["low", 1], ["high", 2]]},
        {"kind": "inequality", "low": "low", "high": "high"},
        {"kind": "formula", "column": "both", "expression": "low + high"},
        {"kind": "unique", "columns": ["key"]},
    ],
}  # fmt: skip


def lawful() -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(2)
    land, low, rank = rng.integers(0, 3, 3000), rng.integers(0, 30, 3000), rng.integers(1, 3, 3000)
    letters = np.array(list("abc"), dtype=object)
    high = np.minimum(low + rng.integers(0, 8, 3000), 40)
    towns = np.array(CONTENT["columns"]["town"]["categories"], dtype=object)
    frame = pd.DataFrame(
        {
            "town": towns[land * 6 + rng.integers(0, 6, 3000)], "land": letters[land],
            "level": np.array(["low", "high"], dtype=object)[rank - 1], "rank": rank,
            "low": low, "high": high, "both": low + high, "key": rng.permutation(3000), "free": rng.random(3000) < 0.5,
        }
    )  # fmt: skip
    return frame, build_schema(CONTENT)


@pytest.fixture(scope="module")
def lawful_model() -> MarginalModel:
    return LatentClass(n_classes=100, epsilon=3.0).fit(*lawful())


def test_constraints_hold_where_they_can(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    holes = with_holes(frame, 0.25).assign(key=frame["key"])
    # Of a sum that is known a summand is left: no draw has to hit it.
    holes["both"] = holes["both"].mask(holes["low"].isna() | holes["high"].isna())
    filled = lawful_model.impute(holes, seed=0)
    assert filled.attrs[UNFILLED] == 0
    assert not filled.isna().to_numpy().any()
    assert (filled["town"].str[0] == filled["land"]).all()
    assert ((filled["level"] == "high") + 1 == filled["rank"]).all()
    assert (filled["low"] <= filled["high"]).all()
    assert (filled["low"] + filled["high"] == filled["both"]).all()
    assert violations(filled, lawful_model.schema) == []
    # The column that is computed tells the one that is modeled.
    told = holes["level"].isna() & holes["rank"].notna()
    assert told.any()
    assert (filled.loc[told, "level"] == frame.loc[told, "level"]).all()


def test_what_no_draw_fills_in_lawfully_stays_missing_and_is_counted(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    holes = frame.head(3).assign(low=[np.nan, 2.0, 3.0], high=[1.0, 1.0, 9.0], both=[80.0, 3.0, np.nan], free=None)
    filled = lawful_model.impute(holes, seed=0)
    assert filled["low"].isna().tolist() == [True, False, False]
    assert filled["both"].tolist()[1:] == [3, 12]
    # A cell that no constraint bears on is filled in all the same.
    assert filled["free"].notna().all()
    assert filled.attrs[UNFILLED] == 1


def test_cells_on_which_other_rows_bear_stay_missing(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    filled = lawful_model.impute(frame.head(50).assign(key=np.nan), seed=0)
    assert filled["key"].isna().all()
    assert filled.attrs[UNFILLED] == 0


def test_more_rows_than_are_in_memory_at_a_time_and_none(
    lawful_model: MarginalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = lawful()
    monkeypatch.setattr("synth.generators.models.imputation.ROWS_AT_ONCE", 70)
    filled = lawful_model.impute(frame.head(200).assign(land=None), seed=0)
    assert filled["land"].tolist() == frame["land"].head(200).tolist()
    assert len(lawful_model.impute(frame.head(0), seed=0)) == 0


def test_a_junction_tree_and_rows_of_another_table_are_refused(
    frame: pd.DataFrame, schema: Schema, model: MarginalModel
) -> None:
    with pytest.raises(JobError, match="fit latent_class"):
        Mst().fit(frame, schema).impute(frame)
    with pytest.raises(TableError, match="age"):
        model.impute(frame.assign(age=1000))
