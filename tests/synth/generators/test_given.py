"""Rows of which some cells are known: conditions, tables of them, balanced columns, and missing cells."""

import datetime as dt
import functools
import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError
from synth.generators import registry
from synth.generators.latent_class import LatentClass
from synth.generators.models.fitted import MarginalModel
from synth.generators.models.given import GIVEN, UNFILLED, WAYS
from synth.generators.models.model import Model
from synth.marginals import LatentClasses, sample_classes
from synth.schema import Schema, build_schema
from synth.table import conform, violations
from tests.synth.generators.test_contract import QUICK

NAMES = [name for name in registry.names() if not name.startswith("sdv.") and name != "auto"]

CHAIN = build_schema(
    {
        "status": "declared", "n_units": 4000,
        "columns": {
            "first": {"kind": "categorical", "categories": ["a", "b", "c"]},
            "amount": {"kind": "real", "bounds": [0, 30], "decimals": 1},
            "last": {"kind": "categorical", "categories": ["x", "y"], "missing": True},
        },
    }
)  # fmt: skip

FLOWS = build_schema(
    {
        "status": "declared", "n_units": 4000,
        "columns": {
            "id": {"kind": "identifier", "bounds": [0, 10**6]},
            "low": {"kind": "integer", "bounds": [0, 9]},
            "high": {"kind": "integer", "bounds": [0, 9]},
            "sum": {"kind": "integer", "bounds": [0, 18]},
            "late": {"kind": "boolean"},
        },
        "constraints": [
            {"kind": "inequality", "low": "low", "high": "high"},
            {"kind": "formula", "column": "sum", "expression": "low + high"},
        ],
    }
)  # fmt: skip


def chain(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, n)
    amount = np.clip(np.round(10 * first + 5 + rng.normal(0, 2, n), 1), 0, 30)
    last = np.where(rng.random(n) < 0.85, np.array(["x", "y", None], dtype=object)[first], "x")
    return pd.DataFrame({"first": np.array(["a", "b", "c"], dtype=object)[first], "amount": amount, "last": last})


def flows(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, 10, (n, 2)), axis=1)
    late = rng.random(n) < np.where(ends[:, 1] - ends[:, 0] > 4, 0.9, 0.1)
    return pd.DataFrame(
        {"id": np.arange(n), "low": ends[:, 0], "high": ends[:, 1], "sum": ends.sum(axis=1), "late": late}
    )


@functools.cache
def model(name: str, table: str) -> Model:
    n = 4000 if name == "arn" else 1500  # two epochs on fewer rows teach a network nothing
    rows, schema = (chain(n), CHAIN) if table == "chain" else (flows(n), FLOWS)
    return registry.generator(name, **QUICK.get(name, {})).fit(rows, schema, seed=0)


def as_list(values: pd.Series) -> list[Any]:
    return values.astype(object).where(values.notna(), None).tolist()


GIVEN_ROWS = pd.DataFrame({"last": ["y", None, "x", "y", np.nan, "y"], "first": ["b", "c", "a", "b", "c", "a"]})


@pytest.mark.parametrize("name", NAMES)
def test_every_row_given_has_one_with_its_cells_in_its_order(name: str) -> None:
    drawn = model(name, "chain").sample(given=GIVEN_ROWS.set_index(pd.Index([9, 9, 3, 1, 0, 2])), seed=1)
    assert drawn.index.equals(pd.RangeIndex(6))
    assert list(drawn.columns) == ["first", "amount", "last"]
    assert as_list(drawn["last"]) == ["y", None, "x", "y", None, "y"]
    assert as_list(drawn["first"]) == ["b", "c", "a", "b", "c", "a"]
    assert drawn.attrs[GIVEN] in WAYS
    assert violations(pd.concat([drawn] * 10, ignore_index=True), CHAIN) == []
    again = model(name, "chain").sample(given=GIVEN_ROWS, seed=1)
    pd.testing.assert_frame_equal(drawn, again)
    assert len(model(name, "chain").sample(given=GIVEN_ROWS.head(0))) == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_other_columns_have_the_models_own_distribution_given_these(name: str) -> None:
    """A model is compared with the rows of its joint distribution that hold the same; 6,000 of each kind, or so."""
    free = model(name, "chain").sample(12_000, seed=2)
    kinds = free["last"].astype(object).where(free["last"].notna(), "none")
    counts = kinds.value_counts()
    known = pd.DataFrame({"last": [None if kind == "none" else kind for kind in counts.index for _ in range(1500)]})
    known = known.iloc[np.random.default_rng(0).permutation(len(known))]
    drawn = model(name, "chain").sample(given=known, seed=3)
    for kind, n in counts.items():
        if n < 400:
            continue
        ours, theirs = free[kinds == kind], drawn[as_list(drawn["last"]) == np.array(None if kind == "none" else kind)]
        shares = [
            rows["first"].value_counts(normalize=True).reindex(["a", "b", "c"], fill_value=0) for rows in (ours, theirs)
        ]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.08, kind
        grid = np.linspace(0, 30, 31)
        cumulative = [np.searchsorted(np.sort(rows["amount"]), grid) / len(rows) for rows in (ours, theirs)]
        assert np.abs(cumulative[0] - cumulative[1]).max() < 0.08, kind


@pytest.mark.parametrize("name", NAMES)
def test_constraints_hold_beside_what_is_given_and_the_rest_follows(name: str) -> None:
    known = pd.DataFrame({"high": [3, 9, 0, 9] * 300, "late": [True, False, True, True] * 300})
    drawn = model(name, "flows").sample(given=known, seed=1)
    assert drawn["high"].tolist() == known["high"].tolist()
    assert drawn["late"].tolist() == known["late"].tolist()
    assert (drawn["low"] <= drawn["high"]).all()
    assert (drawn["low"] + drawn["high"] == drawn["sum"]).all()
    assert drawn["id"].is_unique
    free = model(name, "flows").sample(10_000, seed=2)
    for late in (False, True):
        same = free[(free["high"] == 9) & (free["late"] == late)]
        if len(same) > 400:
            cells = drawn[(drawn["high"] == 9) & (drawn["late"] == late)]
            cumulative = [np.searchsorted(np.sort(rows["low"]), np.arange(10)) / len(rows) for rows in (same, cells)]
            # A network of any order learns its conditionals apart from its joint distribution, here for two epochs.
            assert np.abs(cumulative[0] - cumulative[1]).max() < (0.25 if name == "arn" else 0.15)


def test_values_of_rows_and_shares_of_a_column_go_together() -> None:
    known = pd.DataFrame({"first": ["a", "c"] * 500})
    drawn = model("trees", "chain").sample(given=known, balance={"last": {"x": 1, "y": 3}}, seed=0)
    assert drawn["first"].tolist() == known["first"].tolist()
    assert (drawn["last"] == "y").mean() == pytest.approx(0.75, abs=0.01)


def schema_of_entities() -> Schema:
    return build_schema(
        {
            "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 4,
            "constant_in_entity": ["sex"],
            "columns": {
                "who": {"kind": "identifier", "bounds": [0, 10**6]},
                "sex": {"kind": "categorical", "categories": ["f", "m"]},
                "visit": {"kind": "integer", "bounds": [0, 9]},
            },
        }
    )  # fmt: skip


def test_rows_of_entities_stay_in_the_order_given_and_agree_in_what_is_constant() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(300), 3)
    frame = pd.DataFrame({"who": who, "sex": np.array(["f", "m"])[who % 2], "visit": rng.integers(0, 10, 900)})
    drawn = registry.generator("trees", rounds=10).fit(frame, schema_of_entities(), seed=0)
    known = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "visit": rng.integers(0, 10, 200)})
    rows = drawn.sample(given=known, seed=0)
    assert rows["visit"].tolist() == known["visit"].tolist()
    assert rows["sex"].tolist() == known["sex"].tolist()
    assert len(rows[["who", "sex"]].drop_duplicates()) == rows["who"].nunique()


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("chain", {"given": pd.DataFrame({"fist": ["a"]})}, "given='fist' is not a column; did you mean 'first'"),
    ("chain", {"given": pd.DataFrame({"first": ["a", "zebra"]})}, "given='first' must be one of 'a', 'b', 'c'"),
    ("chain", {"given": pd.DataFrame({"first": ["a", None]})}, "given='first' is never missing"),
    ("chain", {"given": {"amount": 31.0}}, "given='amount' must be of kind real and within 0.0 and 30.0"),
    ("chain", {"given": {"amount": "much"}}, "given='amount' must be of kind real"),
    ("chain", {"given": GIVEN_ROWS, "n_rows": 3}, "rows=3, and given has 6 rows"),
    ("flows", {"given": {"sum": 3}}, "given='sum' is computed by a formula; give its operands: low, high"),
    ("flows", {"given": {"id": 3}}, "of kind identifier, which no model learns"),
    ("flows", {"given": {"low": 7, "high": 2}}, "no rows that meet what is given"),
    ("chain", {"balance": {"first": {"zebra": 1.0}}}, "must be one of 'a', 'b', 'c'"),
    ("chain", {"balance": {"zebra": None}}, "balance='zebra' is no modeled column"),
    ("chain", {"balance": {"amount": None}}, "give the share of each value"),
    ("chain", {"balance": {"first": {}}}, "some more"),
    ("chain", {"balance": {"first": {"a": -1.0, "b": 2.0}}}, "at least 0"),
    ("chain", {"balance": {"first": {"a": float("nan")}}}, "at least 0"),
    ("chain", {"balance": {"first": None, "last": None}}, "must be one column that is not given"),
    ("chain", {"balance": {"first": None}, "given": {"first": "a"}}, "must be one column that is not given"),
]


@pytest.mark.parametrize(("table", "asked", "clause"), REFUSALS, ids=str)
def test_what_no_row_can_hold_is_refused_in_a_sentence(table: str, asked: dict[str, Any], clause: str) -> None:
    with pytest.raises(JobError) as caught:
        model("trees", table).sample(**{"n_rows": None, **asked})
    assert clause in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "zebra" not in str(caught.value).replace("balance='zebra'", "")


@pytest.mark.skipif(importlib.util.find_spec("sdv") is None, reason="the extra sdv is not installed")
def test_sdv_refuses_conditions_and_balance() -> None:
    fitted = registry.generator("sdv.gaussian_copula").fit(chain(200), CHAIN, seed=0)
    for asked in ({"given": {"first": "a"}}, {"balance": {"first": None}}):
        with pytest.raises(JobError, match="first"):
            fitted.sample(10, seed=0, **asked)


def test_a_rare_category_merged_into_other_is_given_by_its_name() -> None:
    columns: dict[str, Any] = {
        "town": {"kind": "categorical", "categories": ["large", *[f"village {i}" for i in range(6)]]},
        "coast": {"kind": "boolean"},
    }
    schema = build_schema({"status": "declared", "n_units": 2000, "columns": columns})
    rng = np.random.default_rng(0)
    names = np.array(columns["town"]["categories"], dtype=object)
    town = names[rng.choice(7, 2000, p=[0.94, *[0.01] * 6])]
    frame = conform(pd.DataFrame({"town": town, "coast": town != "large"}), schema)
    fitted = registry.generator("mst").fit(frame, schema, seed=0)
    synthetic = fitted.sample(200, seed=0, given={"town": "village 3"})
    assert set(synthetic["town"]) == {"village 3"}
    assert synthetic["coast"].mean() > 0.9
    private = registry.generator("mst", epsilon=1.0).fit(frame, schema, seed=0)
    assert isinstance(private, MarginalModel)
    assert private.discretizer.sizes["town"] < 9, "the villages are rare enough to be merged"
    assert set(private.sample(60, seed=0, given={"town": "village 3"})["town"]) == {"village 3"}


def test_every_kind_takes_a_python_value_and_its_text(frame: pd.DataFrame, schema: Schema) -> None:
    fitted = registry.generator("independent").fit(frame, schema, seed=0)
    zone = dt.timezone(dt.timedelta(hours=1))
    both: dict[str, tuple[Any, str]] = {
        "age": (40, "40"), "gain": (12.25, "12.25"), "weight": (1.5, "1.5"), "job": ("NA", "NA"), "level": (7, "7"),
        "married": (True, "True"), "visited": (dt.date(2015, 5, 17), "2015-05-17"),
        "seen": (dt.datetime(2020, 2, 1, 12, 30, tzinfo=zone), "2020-02-01T12:30:00+01:00"),
    }  # fmt: skip
    for name, values in both.items():
        drawn, same = (fitted.sample(5, seed=0, given={name: value}) for value in values)
        pd.testing.assert_frame_equal(drawn, same)
        expected = pd.Timestamp(values[0]) if name in ("visited", "seen") else values[0]
        assert (drawn[name] == expected).all()
        assert violations(drawn, schema) == []


def counted(drawn: pd.Series) -> dict[Any, int]:
    return dict(drawn.value_counts(dropna=False))


@pytest.mark.parametrize("name", ["latent_class", "trees"])
def test_every_category_has_as_many_rows(name: str) -> None:
    drawn = model(name, "chain").sample(900, seed=1, balance={"first": None})
    assert counted(drawn["first"]) == {"a": 300, "b": 300, "c": 300}
    amounts = drawn.groupby("first")["amount"].median()
    assert amounts["a"] < 10 < amounts["b"] < 20 < amounts["c"]
    # Parts are mixed: no half of the table has all of one.
    assert set(drawn["first"].head(50)) == {"a", "b", "c"}


def test_rows_that_cannot_be_shared_evenly_are_rounded_at_random() -> None:
    shares = [counted(model("trees", "chain").sample(10, seed=s, balance={"first": None})["first"]) for s in range(8)]
    assert all(sorted(share.values()) == [3, 3, 4] for share in shares)
    assert len({max(share, key=share.__getitem__) for share in shares}) > 1


def test_numbers_are_balanced_over_values_that_are_named() -> None:
    drawn = model("latent_class", "chain").sample(100, seed=1, balance={"amount": {5.0: 0.25, "25.0": 0.75}})
    assert counted(drawn["amount"]) == {5.0: 25, 25.0: 75}
    assert (drawn.loc[drawn["amount"] == 25, "first"] == "c").mean() > 0.5


def test_a_column_that_another_determines_is_balanced() -> None:
    pairs = [["Rome", "RM"], ["Milan", "MI"], ["Paris", "PA"]]
    schema = build_schema({
        "status": "declared",
        "columns": {
            "town": {"kind": "categorical", "categories": [town for town, _ in pairs]},
            "code": {"kind": "categorical", "categories": [code for _, code in pairs]},
        },
        "constraints": [{"kind": "fixed_combinations", "columns": ["town", "code"], "combinations": pairs}],
    })  # fmt: skip
    chosen = np.random.default_rng(0).choice(3, 500, p=[0.8, 0.1, 0.1])
    frame = pd.DataFrame(np.array(pairs, dtype=object)[chosen], columns=["town", "code"])
    fitted = registry.generator("trees", rounds=10).fit(frame, schema)
    for name in ("town", "code"):
        shares = {pair[name == "code"]: 1.0 for pair in pairs}
        drawn = fitted.sample(90, seed=0, balance={name: shares})
        assert set(counted(drawn[name]).values()) == {30}
        assert {tuple(pair) for pair in drawn.to_numpy()} == {tuple(pair) for pair in pairs}


def with_holes(frame: pd.DataFrame, share: float, seed: int = 0) -> pd.DataFrame:
    """The table with so many cells of each column missing at random."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: frame[name].mask(rng.random(len(frame)) < share) for name in frame})


@pytest.fixture(scope="module")
def imputer(frame: pd.DataFrame, schema: Schema) -> MarginalModel:
    return LatentClass(n_classes=40).fit(frame, schema)


def test_every_kind_is_filled_in_and_known_cells_stay(
    imputer: MarginalModel, frame: pd.DataFrame, schema: Schema
) -> None:
    frame = frame.head(60)
    holes = with_holes(frame, 0.3)
    holes.index = pd.Index(range(1000, 1060))
    before = holes.copy(deep=True)
    filled = imputer.impute(holes, seed=1)
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


def test_codes_are_drawn_from_the_posterior() -> None:
    """Chances by brute force, over all combinations of three attributes; counts within 5 standard errors."""
    rng = np.random.default_rng(3)
    domain = {"a": 3, "b": 2, "c": 4}
    tables = [rng.dirichlet(np.ones(size), 5).T for size in domain.values()]
    model = LatentClasses(domain, rng.dirichlet(np.ones(5)), tables, 1.0)
    joint, n = model.marginal(("a", "b", "c")), 20_000
    drawn = sample_classes(model, n, rng, {"b": np.arange(n, dtype=np.int32) % 2})
    for known in (0, 1):
        rows = drawn[drawn[:, 1] == known]
        assert len(rows) == n / 2
        counts = np.zeros((3, 4))
        np.add.at(counts, (rows[:, 0], rows[:, 2]), 1)
        expected = len(rows) * joint[:, known] / joint[:, known].sum()
        assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


TOWNS: dict[str, Any] = {
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
    towns = np.array(TOWNS["columns"]["town"]["categories"], dtype=object)
    frame = pd.DataFrame(
        {
            "town": towns[land * 6 + rng.integers(0, 6, 3000)], "land": letters[land],
            "level": np.array(["low", "high"], dtype=object)[rank - 1], "rank": rank,
            "low": low, "high": high, "both": low + high, "key": rng.permutation(3000), "free": rng.random(3000) < 0.5,
        }
    )  # fmt: skip
    return frame, build_schema(TOWNS)


@pytest.fixture(scope="module")
def lawful_model() -> MarginalModel:
    return LatentClass(n_classes=50, epsilon=3.0).fit(*lawful())


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
    # Of a key other rows have a say, too.
    assert lawful_model.impute(frame.head(50).assign(key=np.nan), seed=0)["key"].isna().all()


def test_more_rows_than_are_in_memory_at_a_time_and_none(
    lawful_model: MarginalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = lawful()
    monkeypatch.setattr("synth.generators.models.given.ROWS_AT_ONCE", 70)
    filled = lawful_model.impute(frame.head(200).assign(land=None), seed=0)
    assert filled["land"].tolist() == frame["land"].head(200).tolist()
    assert len(lawful_model.impute(frame.head(0), seed=0)) == 0
