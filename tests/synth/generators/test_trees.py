"""The generator `trees`: what it refuses, warns of and keeps; its conditions, constraints, and kinds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.errors import TableError, TableNote
from synth.generators import registry
from synth.generators.models.fitted import AutoregressiveModel
from synth.generators.models.given import GIVEN
from synth.generators.trees import Trees
from synth.schema import Schema, build_schema
from tests.synth.generators.chain import CHAIN, N_CHAIN, chain
from understudy.run.preflight import Intent, cautions

QUICK: dict[str, Any] = {"rounds": 20}


@pytest.fixture(scope="module")
def model() -> AutoregressiveModel:
    return Trees().fit(chain(), CHAIN, seed=0)


def distance(first: pd.Series, other: pd.Series) -> float:
    """Total variation of two columns of categories."""
    shares = [column.value_counts(normalize=True) for column in (first, other)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


@pytest.mark.parametrize("name", ["smallest_leaf", "least_units"])
def test_few_units_are_warned_of_by_a_fit_and_for_a_job(name: str) -> None:
    with pytest.warns(UserWarning, match=rf"{name}=5 leaks: below 20 units") as caught:
        synth.fit(chain(200), CHAIN, "trees", **QUICK, **{name: 5})
    assert len(caught) == 1
    messages = {
        units: tuple(cautions(Intent({"mine": Trees.model_validate({name: units})}, {}, CHAIN, None, "clamp")))
        for units in (19, 20)
    }
    assert any(f"generators.mine: {name}=19 leaks" in sentence for sentence in messages[19])
    assert not any("leaks" in sentence for sentence in messages[20])


def test_conditions_on_leading_columns_are_exact(model: AutoregressiveModel) -> None:
    for known in ({"first": "c"}, {"first": "a", "amount": 4.0}):
        drawn = model.sample(4000, seed=2, given=known)
        assert drawn.attrs[GIVEN] == "exact"
        real = chain(200_000, seed=2)
        assert all((drawn[name] == value).all() for name, value in known.items())
        assert distance(drawn["last"], real.loc[real["first"] == known["first"], "last"]) < 0.06
    assert GIVEN not in model.sample(10, seed=2).attrs


def test_conditions_that_next_to_no_row_meets_are_drawn_again_by_weights(model: AutoregressiveModel) -> None:
    drawn = model.sample(50, seed=2, given={"amount": 29.5, "last": "x"})
    assert drawn.attrs[GIVEN] == "weights"
    assert set(drawn["last"]) == {"x"}
    assert (drawn["first"] == "c").mean() > 0.9


def frauds(n_frauds: int, n: int = 3000) -> tuple[pd.DataFrame, Schema]:
    rng, is_fraud = np.random.default_rng(0), np.arange(n) < n_frauds
    amount = np.round(rng.normal(50, 10, n) - 30 * is_fraud, 2).clip(0, 100)
    land = np.where(is_fraud & (np.arange(n) % 3 > 0), "far", rng.choice(["near", "next", "far"], n, p=[0.6, 0.3, 0.1]))
    frame = pd.DataFrame({"amount": amount, "land": land.astype(object), "hour": rng.integers(0, 24, n)})
    frame["fraud"] = np.where(is_fraud, "yes", "no").astype(object)
    columns = {
        "amount": {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2},
        "land": {"kind": "categorical", "categories": ["near", "next", "far"]},
        "hour": {"kind": "integer", "bounds": [0, 23]},
        "fraud": {"kind": "categorical", "categories": ["no", "yes"]},
    }
    return frame, build_schema({"status": "declared", "target": "fraud", "columns": columns})


def test_a_rare_class_keeps_its_profile_and_its_share(tmp_path: Path) -> None:
    frame, schema = frauds(15)
    fitted_model = Trees.model_validate(QUICK).fit(frame, schema, seed=0)
    fitted_model.save(tmp_path / "model")
    for model in (fitted_model, registry.load_model(tmp_path / "model")):
        asked = model.sample(300, seed=1, given={"fraud": "yes"})
        assert asked["amount"].mean() == pytest.approx(20, abs=8)
        assert (asked["land"] == "far").mean() > 0.4
        assert asked["hour"].mean() == pytest.approx(11.5, abs=1.5)
        assert asked.attrs[GIVEN] == "weights"
    free = fitted_model.sample(30_000, seed=1)
    assert (free["fraud"] == "yes").mean() == pytest.approx(0.005, abs=0.002)
    assert free.loc[free["fraud"] == "yes", "amount"].mean() < 30
    assert fitted_model.sample(300, seed=1, given={"fraud": "no"})["amount"].mean() == pytest.approx(50, abs=3)
    far = fitted_model.sample(4000, seed=1, given={"land": "far"})
    assert 0.005 < (far["fraud"] == "yes").mean() < 0.08


@pytest.mark.parametrize("n_frauds", [1, 14])
def test_a_class_too_rare_for_a_profile_is_said_to_be_like_all_rows(n_frauds: int) -> None:
    frame, schema = frauds(n_frauds)
    with pytest.warns(TableNote, match="target='fraud' with fewer than 15 rows are not learned"):
        model = Trees.model_validate(QUICK).fit(frame, schema, seed=0)
    asked = model.sample(300, seed=1, given={"fraud": "yes"})
    assert asked.attrs[GIVEN] == "merged"
    assert asked["amount"].mean() > 45


def test_what_never_meets_in_many_rows_never_meets() -> None:
    rng, n = np.random.default_rng(0), 3000
    has, secure = rng.random(n) < 0.7, rng.random(n) < 0.5
    x = np.where(has, np.round(rng.uniform(0, 100, n)), np.nan)
    texts = np.array(["no", "yes"], dtype=object)
    frame = pd.DataFrame({
        "x": x, "noise": rng.random(n).round(2), "net": texts[has * 1], "secure": texts[(has & secure) * 1],
        "y": np.where(has, np.round(x / 2 + rng.uniform(0, 50, n)), np.nan),
    })  # fmt: skip
    number = {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2, "missing": True}
    words = {"kind": "categorical", "categories": ["no", "yes"]}
    columns = {"x": number, "noise": number, "net": words, "secure": words, "y": number}
    schema = build_schema({"status": "declared", "columns": columns})
    drawn = Trees(rounds=1).fit(frame, schema, seed=0).sample(3000, seed=1)
    assert not ((drawn["net"] == "no") & (drawn["secure"] == "yes")).any()
    assert (drawn["x"].isna() == drawn["y"].isna()).all()
    assert (drawn["x"].isna() == (drawn["net"] == "no")).all()


def visits() -> tuple[pd.DataFrame, Schema]:
    """One patient of a tenth of all rows, who alone has a stay of 77, and many of few."""
    rng = np.random.default_rng(0)
    who = np.concatenate([np.full(150, 0), np.repeat(np.arange(1, 451), 3)])
    stay = np.where(who == 0, 77, rng.integers(0, 60, len(who)))
    kind = np.where(stay > 30, "long", "short").astype(object)
    frame = pd.DataFrame({"who": who, "stay": stay, "kind": kind})
    schema = build_schema({
        "status": "declared", "n_units": 451, "entity": "who", "max_rows_per_unit": 200,
        "columns": {
            "who": {"kind": "identifier", "bounds": [0, 10**6]},
            "stay": {"kind": "integer", "bounds": [0, 100]},
            "kind": {"kind": "categorical", "categories": ["long", "short"]},
        },
    })  # fmt: skip
    return frame.sample(frac=1, random_state=0).reset_index(drop=True), schema


def test_rows_of_an_entity_count_as_one_unit_and_synthetic_entities_have_several() -> None:
    frame, schema = visits()
    drawn = Trees().fit(frame, schema, seed=0).sample(20_000, seed=1)
    assert (drawn["stay"] == 77).mean() < 0.02
    by_row = frame.assign(who=range(len(frame)))
    alone = Trees.model_validate(QUICK).fit(by_row, schema, seed=0).sample(20_000, seed=1)
    assert (alone["stay"] == 77).mean() == pytest.approx(0.1, abs=0.02)
    rows = drawn.groupby("who").size()
    assert rows.median() == 3
    assert ((drawn["stay"] > 30) == (drawn["kind"] == "long")).mean() > 0.85


def test_at_most_so_many_rows_are_learned_from() -> None:
    few, many = Trees(most_rows=200, **QUICK), Trees(most_rows=3000, **QUICK)
    table = chain()
    first, same, other = (few.fit(table, CHAIN, seed=seed) for seed in (4, 4, 5))
    pd.testing.assert_frame_equal(first.sample(100, seed=1), same.sample(100, seed=1))
    assert not first.sample(100, seed=1).equals(other.sample(100, seed=1))
    masses = [sum(m.discretizer.attributes[0].mass) for m in (first, many.fit(table, CHAIN, seed=4))]
    assert masses == [200, N_CHAIN]
    assert first.default_rows == N_CHAIN


def test_tables_of_one_row_and_of_two_are_fitted_and_of_none_refused() -> None:
    for n in (1, 2):
        drawn = Trees().fit(chain(n), CHAIN).sample(30, seed=0)
        for name in ("first", "last"):
            assert {*drawn[name]} <= {*chain(n)[name]}
        assert drawn["amount"].between(0, 40).all()
    with pytest.raises(TableError, match="needs rows"):
        Trees().fit(chain(1).head(0), CHAIN)


def test_a_number_that_repeats_another_is_learned_by_its_own_values() -> None:
    def schema(bounds: list[int]) -> Schema:
        left = {"expression": "billed", "alone": True, "column": {"kind": "integer", "bounds": bounds}}
        number = {"kind": "integer", "bounds": [0, 100]}
        return build_schema({"status": "declared", "columns": {"billed": number, "paid": {**number, "modeled": left}}})

    assert [*Trees().counted(schema([0, 0])).columns] == ["billed", "paid"]
    assert len(Trees().counted(schema([-5, 5])).columns) == 3  # what is left, and a value alone
    rng, n = np.random.default_rng(0), 600
    billed = rng.integers(0, 101, n)
    paid = np.where(rng.random(n) < 0.3, billed, rng.integers(0, 101, n))
    model = Trees(**QUICK).fit(pd.DataFrame({"billed": billed, "paid": paid}), schema([0, 0]))
    assert model.schema.columns["paid"].modeled is None
