"""The generator `trees`: what it refuses, warns of and keeps; its conditions, constraints, and kinds."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.errors import BadInput, JobError, ModelError, TableError, TableNote
from synth.generators import registry
from synth.generators.models.autoregressive_model import AutoregressiveModel
from synth.generators.models.chunked_output import write_rows
from synth.generators.models.known_rows import GIVEN
from synth.generators.trees import Trees
from synth.schema import Schema, build_schema
from synth.table import present, violations
from tests.damaging import damaged
from tests.synth.conftest import CONTENT, make_frame
from tests.synth.generators.chain import CHAIN, N_CHAIN, chain
from understudy.run.preflight import Intent, cautions

QUICK: dict[str, Any] = {"rounds": 20}


@pytest.fixture(scope="module")
def model() -> AutoregressiveModel:
    return Trees().fit(chain(), CHAIN, seed=0)


def distance(one: pd.Series, other: pd.Series) -> float:
    """Total variation of two columns of categories."""
    shares = [column.value_counts(normalize=True) for column in (one, other)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def test_epsilon_is_refused_in_one_sentence_that_names_aim() -> None:
    with pytest.raises(JobError, match=r"takes no epsilon.* aim") as caught:
        registry.generator("trees", epsilon=1.0)
    assert "\n" not in str(caught.value)
    assert ". " not in str(caught.value)


@pytest.mark.parametrize("name", ["smallest_leaf", "least_units"])
def test_few_units_are_warned_of_by_a_fit_and_for_a_job(name: str) -> None:
    with pytest.warns(UserWarning, match=rf"{name}=5 leaks: below 20 units") as caught:
        synth.fit(chain(200), CHAIN, "trees", **QUICK, **{name: 5})
    assert len(caught) == 1
    said = {
        units: cautions(Intent({"mine": Trees.model_validate({name: units})}, {}, CHAIN, None, "clamp"))
        for units in (19, 20)
    }
    assert any(f"generators.mine: {name}=19 leaks" in sentence for sentence in said[19])
    assert not any("leaks" in sentence for sentence in said[20])


def test_auto_without_epsilon_is_trees_and_with_one_is_not() -> None:
    assert registry.generator("auto").chosen(CHAIN) == Trees()
    assert registry.generator("auto", epsilon=1.0).chosen(CHAIN).name != "trees"
    assert registry.generator("auto").fit(chain(200), CHAIN).name == "trees"


@pytest.mark.statistical
def test_a_table_has_the_real_dependences(model: AutoregressiveModel) -> None:
    drawn, real = model.sample(20_000, seed=1), chain(20_000, seed=1)
    shares = [pd.crosstab(table["first"], table["last"], normalize=True).to_numpy() for table in (drawn, real)]
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.04
    for value in "abc":
        amounts, expected = (table.loc[table["first"] == value, "amount"] for table in (drawn, real))
        for share in (0.1, 0.5, 0.9):
            assert amounts.quantile(share) == pytest.approx(expected.quantile(share), abs=0.8)


def test_a_saved_model_gives_the_same_rows_in_another_process(
    frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    made = Trees.model_validate(QUICK).fit(frame, schema, seed=0)
    made.save(tmp_path / "model")
    script = "import sys, synth\nsynth.load_model(sys.argv[1]).sample(200, seed=3).to_pickle(sys.argv[2])\n"
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model", tmp_path / "rows.pickle"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    drawn = pd.read_pickle(tmp_path / "rows.pickle")
    pd.testing.assert_frame_equal(drawn, made.sample(200, seed=3))
    assert violations(present(drawn, schema), schema) == []
    for name in ("job", "married", "visited"):
        assert drawn[name].isna().mean() == pytest.approx(frame[name].isna().mean(), abs=0.15)


def test_whatever_is_damaged_in_a_saved_model_is_refused_or_sampled_from(
    model: AutoregressiveModel, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    whole, n_refused = json.loads(path.read_text()), 0
    for seed in range(150):
        path.write_text(json.dumps(damaged(whole, seed)))
        try:
            made = registry.load_model(tmp_path / "model")
        except BadInput:
            n_refused += 1
            continue
        with contextlib.suppress(BadInput):  # a sentence, whatever is left of the distribution
            assert len(made.sample(20, seed=0)) == 20
    assert n_refused > 50


def test_conditions_on_leading_columns_are_exact(model: AutoregressiveModel) -> None:
    for given in ({"first": "c"}, {"first": "a", "amount": 4.0}):
        drawn = model.sample(4000, seed=2, given=given)
        assert drawn.attrs[GIVEN] == "exact"
        real = chain(200_000, seed=2)
        assert all((drawn[name] == value).all() for name, value in given.items())
        assert distance(drawn["last"], real.loc[real["first"] == given["first"], "last"]) < 0.06
    assert GIVEN not in model.sample(10, seed=2).attrs


@pytest.mark.parametrize("given", [{"last": "y"}, {"amount": 12.5}, {"first": "a", "last": "z"}], ids=str)
def test_conditions_on_other_columns_accept_rows_by_their_chance(
    model: AutoregressiveModel, given: dict[str, Any]
) -> None:
    drawn = model.sample(4000, seed=2, given=given)
    assert drawn.attrs[GIVEN] == "weights"
    assert len(drawn) == 4000
    assert all((drawn[name] == value).all() for name, value in given.items())
    # The model's own rows of that kind, of many that it draws without conditions.
    free = model.sample(150_000, seed=3)
    near = [free[n].sub(v).abs() < 0.5 if n == "amount" else free[n] == v for n, v in given.items()]
    free = free[np.logical_and.reduce(near)]
    assert len(free) > 400
    for name in {"first", "last"} - {*given}:
        assert distance(drawn[name], free[name]) < 0.06
    if "amount" not in given:
        for share in (0.1, 0.5, 0.9):
            assert drawn["amount"].quantile(share) == pytest.approx(free["amount"].quantile(share), abs=0.8)


def test_a_folder_of_files_says_how_its_conditions_are_met(model: AutoregressiveModel, tmp_path: Path) -> None:
    for name, given, way in (("a", {"first": "a"}, "exact"), ("b", {"last": "y"}, "weights"), ("c", None, None)):
        written = write_rows(model, tmp_path / name, 200, seed=0, given=given, rows_a_file=100)
        assert (written.n_files, written.given) == (2, way)


def test_conditions_that_next_to_no_row_meets_are_drawn_again_by_weights(model: AutoregressiveModel) -> None:
    drawn = model.sample(50, seed=2, given={"amount": 29.5, "last": "x"})
    assert drawn.attrs[GIVEN] == "weights"
    assert set(drawn["last"]) == {"x"}
    assert (drawn["first"] == "c").mean() > 0.9


def test_values_that_do_not_go_together_are_refused() -> None:
    columns = {
        "a": {"kind": "categorical", "categories": ["p", "q"]},
        "b": {"kind": "categorical", "categories": ["p", "q"]},
    }
    combinations = {"kind": "fixed_combinations", "columns": ["a", "b"], "combinations": [["p", "p"], ["q", "q"]]}
    schema = build_schema({"status": "declared", "columns": columns, "constraints": [combinations]})
    frame = pd.DataFrame({"a": ["p", "q"] * 100, "b": ["p", "q"] * 100})
    made = Trees.model_validate(QUICK).fit(frame, schema)
    for given in ({"a": "p", "b": "q"}, {"b": "p", "a": "q"}):
        with pytest.raises(JobError, match="no rows that meet what is given"):
            made.sample(10, seed=0, given=given)
    assert set(made.sample(10, seed=0, given={"b": "q"})["a"]) == {"q"}
    for given, message in (({"c": "p"}, "not a column"), ({"a": "r"}, "one of")):
        with pytest.raises(JobError, match=message):
            made.sample(10, seed=0, given=given)


LAWS = {
    "status": "declared",
    "columns": {
        "low": {"kind": "integer", "bounds": [0, 100]},
        "high": {"kind": "integer", "bounds": [0, 200]},
        "sum": {"kind": "integer", "bounds": [0, 300]},
        "town": {"kind": "categorical", "categories": ["Rome", "Milan", "Paris", "Lyon"]},
        "land": {"kind": "categorical", "categories": ["Italy", "France"]},
        "seat": {"kind": "integer", "bounds": [0, 50_000]},
    },
    "constraints": [
        {"kind": "inequality", "low": "low", "high": "high"},
        {"kind": "formula", "column": "sum", "expression": "low + high"},
        {
            "kind": "fixed_combinations", "columns": ["town", "land"],
            "combinations": [["Rome", "Italy"], ["Milan", "Italy"], ["Paris", "France"], ["Lyon", "France"]],
        },
        {"kind": "unique", "columns": ["seat"]},
    ],
}  # fmt: skip


def test_constraints_are_kept() -> None:
    schema, rng, n = build_schema(LAWS), np.random.default_rng(0), 1000
    low = rng.integers(0, 100, n)
    high = low + rng.integers(0, 100, n)
    town = rng.choice(np.array(["Rome", "Milan", "Paris", "Lyon"], dtype=object), n)
    land = np.where(np.isin(town, ["Rome", "Milan"]), "Italy", "France").astype(object)
    seat = rng.choice(50_000, n, replace=False)
    frame = pd.DataFrame({"low": low, "high": high, "sum": low + high, "town": town, "land": land, "seat": seat})
    drawn = Trees.model_validate(QUICK).fit(frame, schema, seed=0).sample(800, seed=1)
    assert violations(drawn, schema) == []
    assert (drawn["low"] <= drawn["high"]).all()
    assert (drawn["sum"] == drawn["low"] + drawn["high"]).all()
    assert {tuple(pair) for pair in drawn[["town", "land"]].to_numpy()} == {*zip(town, land, strict=True)}
    assert drawn["seat"].is_unique


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
    made = Trees.model_validate(QUICK).fit(frame, schema, seed=0)
    made.save(tmp_path / "model")
    for model in (made, registry.load_model(tmp_path / "model")):
        asked = model.sample(300, seed=1, given={"fraud": "yes"})
        assert asked["amount"].mean() == pytest.approx(20, abs=8)
        assert (asked["land"] == "far").mean() > 0.4
        assert asked["hour"].mean() == pytest.approx(11.5, abs=1.5)
        assert asked.attrs[GIVEN] == "weights"
    free = made.sample(30_000, seed=1)
    assert (free["fraud"] == "yes").mean() == pytest.approx(0.005, abs=0.002)
    assert free.loc[free["fraud"] == "yes", "amount"].mean() < 30
    assert made.sample(300, seed=1, given={"fraud": "no"})["amount"].mean() == pytest.approx(50, abs=3)
    far = made.sample(4000, seed=1, given={"land": "far"})
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


def test_kinds_keep_their_values() -> None:
    schema, frame = build_schema({**CONTENT, "n_units": 2000}), make_frame(2000, seed=0)
    drawn = Trees().fit(frame, schema, seed=0).sample(2000, seed=1)
    assert violations(present(drawn, schema), schema) == []
    assert (drawn["gain"] == 0).mean() == pytest.approx((frame["gain"] == 0).mean(), abs=0.05)
    assert drawn.loc[drawn["age"] < 28, "visited"].isna().mean() > 0.7
    assert drawn.loc[drawn["age"] > 32, "visited"].isna().mean() < 0.1
    for name in ("married", "level", "job"):
        shares = [table[name].astype(object).value_counts(normalize=True, dropna=False) for table in (drawn, frame)]
        assert shares[0].sub(shares[1], fill_value=0).abs().max() < 0.05
    for name in ("seen", "visited"):
        middles = [table[name].dropna().quantile(0.5).tz_localize(None) for table in (drawn, frame)]
        assert abs(middles[0] - middles[1]) < pd.Timedelta(days=200)
    older = [(table.loc[table["age"] > 60, "income"] == ">50K").mean() for table in (drawn, frame)]
    assert older[0] == pytest.approx(older[1], abs=0.06)


def test_at_most_so_many_rows_are_learned_from() -> None:
    few, many = Trees(most_rows=200, **QUICK), Trees(most_rows=3000, **QUICK)
    table = chain()
    one, same, other = (few.fit(table, CHAIN, seed=seed) for seed in (4, 4, 5))
    pd.testing.assert_frame_equal(one.sample(100, seed=1), same.sample(100, seed=1))
    assert not one.sample(100, seed=1).equals(other.sample(100, seed=1))
    masses = [sum(m.discretizer.attributes[0].mass) for m in (one, many.fit(table, CHAIN, seed=4))]
    assert masses == [200, N_CHAIN]
    assert one.default_rows == N_CHAIN


def test_a_limit_of_as_many_rows_as_there_are_changes_nothing() -> None:
    table = chain(500)
    limits = [Trees(most_rows=n, **QUICK).fit(table, CHAIN, seed=1).sample(50, seed=1) for n in (500, 501)]
    pd.testing.assert_frame_equal(*limits)


def test_tables_of_one_row_and_of_two_are_fitted_and_of_none_refused() -> None:
    for n in (1, 2):
        drawn = Trees().fit(chain(n), CHAIN).sample(30, seed=0)
        for name in ("first", "last"):
            assert {*drawn[name]} <= {*chain(n)[name]}
        assert drawn["amount"].between(0, 40).all()
    with pytest.raises(TableError, match="needs rows"):
        Trees().fit(chain(1).head(0), CHAIN)


class Stopped(Exception):
    """What cuts a fit short."""


def stopping_at(share: float) -> Any:
    def progress(_stage: str, done: float | None) -> None:
        if done is not None and done >= share:
            raise Stopped

    return progress


def test_a_fit_that_was_cut_short_goes_on_and_gives_the_same_model(tmp_path: Path) -> None:
    generator, table, place = Trees(**QUICK), chain(800), tmp_path / "work" / "here"
    with pytest.raises(Stopped):
        generator.fit(table, CHAIN, seed=3, progress=stopping_at(0.6), place=place)
    kept = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    assert len(kept) == 2
    seen: list[float] = []
    done = Trees(n_threads=2, **QUICK).fit(
        table, CHAIN, seed=3, place=place, progress=lambda _, share: None if share is None else seen.append(share)
    )
    assert {name: (place / name).stat().st_mtime_ns for name in kept} == kept
    pd.testing.assert_frame_equal(done.sample(300, seed=1), generator.fit(table, CHAIN, seed=3).sample(300, seed=1))


def test_unfinished_work_of_another_fit_is_refused_and_so_is_damaged_work(tmp_path: Path) -> None:
    table = chain(800)
    with pytest.raises(Stopped):
        Trees(**QUICK).fit(table, CHAIN, seed=3, progress=stopping_at(0.6), place=tmp_path)
    others: list[tuple[Trees, pd.DataFrame, int]] = [
        (Trees(**QUICK), table, 4), (Trees(rounds=21), table, 3), (Trees(**QUICK), chain(800, seed=9), 3),
        (Trees(**QUICK), table.iloc[::-1], 3), (Trees(smallest_leaf=21, **QUICK), table, 3),
    ]  # fmt: skip
    for generator, rows, seed in others:
        with pytest.raises(ModelError, match="of another fit"):
            generator.fit(rows, CHAIN, seed=seed, place=tmp_path)
    path = next(tmp_path.iterdir())
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="damaged"):
            Trees(**QUICK).fit(table, CHAIN, seed=3, place=tmp_path)
