"""Balanced tables: as many rows with each value of a column as is asked, the others given that value."""

import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError
from synth.generators import registry
from synth.generators.base import Model
from synth.generators.models.conditions import ConditionMixture
from synth.schema import Schema, build_schema
from synth.table import conform

QUICK: dict[str, dict[str, Any]] = {
    "aim": {"rounds": 12, "n_draws": 1000},
    "latent_class": {"n_classes": 60, "rounds": 4},
    "trees": {},
}
N = 2000
SCHEMA = build_schema({
    "status": "declared",
    "missing_values": [""],
    "columns": {
        "age": {"kind": "integer", "bounds": [20, 69]},
        "job": {"kind": "categorical", "categories": ["clerk", "farmer", "nurse"]},
        "ill": {"kind": "boolean", "tokens": ["healthy", "sick"], "missing": True},
        "flag": {"kind": "boolean"},
        "id": {"kind": "identifier", "template": "P-####"},
        "twice": {"kind": "integer", "bounds": [0, 200]},
    },
    "constraints": [{"kind": "formula", "column": "twice", "expression": "age * 2"}],
})  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Four in five are clerks, below 45; a nurse is older than 50; the sick are nurses and a few others."""
    rng = np.random.default_rng(0)
    job = rng.choice(np.array(["clerk", "farmer", "nurse"], dtype=object), N, p=[0.8, 0.1, 0.1])
    age = np.where(job == "nurse", rng.integers(50, 70, N), rng.integers(20, 45, N))
    sick = np.where(rng.random(N) < np.where(job == "nurse", 0.8, 0.04), "sick", "healthy").astype(object)
    return conform(
        pd.DataFrame({
            "age": age, "job": job, "ill": pd.Series(sick).mask(rng.random(N) < 0.1), "flag": rng.random(N) < 0.2,
            "id": [f"P-{i:04d}" for i in range(N)], "twice": 2 * age,
        }),
        SCHEMA,
    )  # fmt: skip


@pytest.fixture(scope="module", params=list(QUICK))
def model(request: pytest.FixtureRequest, table: pd.DataFrame) -> Model:
    return registry.generator(request.param, **QUICK[request.param]).fit(table, SCHEMA, seed=0)


def counts(drawn: pd.Series) -> dict[Any, int]:
    return dict(drawn.value_counts(dropna=False))


def test_every_category_has_as_many_rows(model: Model) -> None:
    drawn = model.sample(900, seed=1, balance={"job": None})
    assert counts(drawn["job"]) == {"clerk": 300, "farmer": 300, "nurse": 300}
    ages = drawn.groupby("job")["age"].median()
    assert ages["clerk"] < 45
    assert ages["nurse"] > 48
    assert (drawn["twice"] == 2 * drawn["age"]).all()
    assert drawn["id"].is_unique
    # Parts are mixed: no half of the table has all of one.
    assert set(drawn["job"].head(50)) == {"clerk", "farmer", "nurse"}


def test_rows_that_cannot_be_shared_evenly_are_rounded_at_random(model: Model) -> None:
    found = [counts(model.sample(10, seed=seed, balance={"job": None})["job"]) for seed in range(8)]
    assert all(sorted(shares.values()) == [3, 3, 4] for shares in found)
    assert len({max(shares, key=lambda job: shares[job]) for shares in found}) > 1


def test_each_value_has_the_share_that_is_given_in_any_unit(model: Model) -> None:
    asked: dict[Any, float] = {"nurse": 3, "clerk": 1, "farmer": 0}
    drawn = model.sample(400, seed=1, balance={"job": asked})
    assert counts(drawn["job"]) == {"nurse": 300, "clerk": 100}
    alone = model.sample(60, seed=1, balance={"job": {"farmer": 0.5}})
    assert counts(alone["job"]) == {"farmer": 60}


def test_booleans_are_balanced_by_their_tokens(model: Model) -> None:
    assert counts(model.sample(200, seed=1, balance={"flag": None})["flag"]) == {True: 100, False: 100}
    drawn = model.sample(200, seed=1, balance={"ill": None})
    assert counts(drawn["ill"]) == {True: 100, False: 100}
    shares = drawn.groupby("ill")["job"].apply(lambda jobs: (jobs == "nurse").mean())
    assert shares[True] > shares[False] + 0.15
    drawn = model.sample(100, seed=1, balance={"ill": {"sick": 0.7, "": 0.3}})
    assert drawn["ill"].isna().sum() == 30
    assert drawn["ill"].sum() == 70


def test_numbers_are_balanced_over_values_that_are_named(model: Model) -> None:
    drawn = model.sample(100, seed=1, balance={"age": {30: 0.25, "60": 0.75}})
    assert counts(drawn["age"]) == {30: 25, 60: 75}
    assert (drawn.loc[drawn["age"] == 60, "job"] == "nurse").mean() > 0.5
    with pytest.raises(JobError, match="give the share of each value"):
        model.sample(100, seed=1, balance={"age": None})


def test_what_is_given_holds_in_every_part(model: Model) -> None:
    drawn = model.sample(120, seed=1, given={"flag": True}, balance={"ill": None})
    assert drawn["flag"].all()
    assert counts(drawn["ill"]) == {True: 60, False: 60}
    with pytest.raises(JobError, match="not given"):
        model.sample(10, seed=1, given={"ill": "sick"}, balance={"ill": None})


@pytest.mark.parametrize(
    ("balance", "message"),
    [
        ({"job": {"poet": 1.0}}, "one of its 3 categories"),
        ({"ill": {"unwell": 1.0}}, "one of"),
        ({"flag": {"": 1.0}}, "never missing"),
        ({"nobody": None}, "balance='nobody' is not a column"),
        ({"nobody": {"x": 1.0}}, "'nobody' is not a column"),
        ({"twice": {40: 1.0}}, "computed by a formula"),
        ({"twice": None}, "computed by a formula"),
        ({"id": None}, "kind identifier"),
        ({"job": {}}, "some more"),
        ({"job": {"clerk": 0.0}}, "some more"),
        ({"job": {"clerk": -1.0, "nurse": 2.0}}, "at least 0"),
        ({"job": {"clerk": float("nan")}}, "at least 0"),
        ({"job": {"clerk": float("inf"), "nurse": 1.0}}, "at least 0"),
        ({"job": None, "ill": None}, "must be one column"),
    ],
    ids=str,
)
def test_what_cannot_be_balanced_is_refused_in_a_sentence(model: Model, balance: Any, message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        model.sample(10, seed=1, balance=balance)
    assert "\n" not in str(caught.value)


def test_the_same_seed_gives_the_same_table_and_an_empty_balance_is_none(model: Model) -> None:
    one, same, other = (model.sample(50, seed=seed, balance={"job": None}) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)
    pd.testing.assert_frame_equal(model.sample(50, seed=1, balance={}), model.sample(50, seed=1))


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
    made = registry.generator("trees", rounds=10).fit(frame, schema)
    for name in ("town", "code"):
        shares = {pair[name == "code"]: 1.0 for pair in pairs}
        drawn = made.sample(90, seed=0, balance={name: shares})
        assert set(counts(drawn[name]).values()) == {30}
        assert {tuple(pair) for pair in drawn.to_numpy()} == {tuple(pair) for pair in pairs}


def test_rare_categories_of_trees_are_balanced_like_all_others() -> None:
    """They share a code, and the column holds each of them all the same; what never occurs is not made up."""
    schema = build_schema({
        "status": "declared", "columns": {"x": {"kind": "categorical", "categories": ["a", "b", "c", "d"]}},
    })  # fmt: skip
    frame = pd.DataFrame({"x": np.repeat(np.array(list("abc"), dtype=object), [500, 5, 6])})
    drawn = registry.generator("trees").fit(frame, schema).sample(90, seed=0, balance={"x": None})
    assert counts(drawn["x"]) == {"a": 30, "b": 30, "c": 30}


def test_a_mixture_of_nothing_asks_for_nothing(table: pd.DataFrame) -> None:
    made: Any = registry.generator("trees", rounds=10).fit(table, SCHEMA)
    mixture = ConditionMixture.of(None, None, made.discretizer, made.schema)
    assert not mixture.is_asked
    assert mixture.shares == (1.0,)
    assert "given" not in made.sample(10, seed=0).attrs
    assert made.sample(10, seed=0, balance={"job": None}).attrs["given"] in ("rejection", "weights")
    assert made.sample(10, seed=0, balance={"age": {30: 1, 31: 1}}).attrs["given"] == "exact"


@pytest.mark.skipif(importlib.util.find_spec("sdv") is None, reason="the extra sdv is not installed")
def test_sdv_refuses_to_balance(frame: pd.DataFrame, schema: Schema) -> None:
    fitted = registry.generator("sdv.gaussian_copula").fit(frame, schema, seed=0)
    with pytest.raises(JobError, match="job"):
        fitted.sample(10, seed=0, balance={"job": None})
