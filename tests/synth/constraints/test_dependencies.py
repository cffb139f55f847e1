"""Functional dependencies: read off listed combinations, computed where they hold both ways, kept where one way."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.constraints import FixedCombinations
from synth.domain import Discretizer
from synth.errors import JobError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.constraints import REJECTED, structural_zeros
from synth.schema import Schema, build_schema
from synth.table import conform

SECTORS = {f"{sector}{job}": sector for sector in ("farm", "shop", "office", "school") for job in range(30)}
"""Each job's sector: most jobs are rare."""
LEVELS = {"low": 1, "middle": 2, "high": 3}
CONSTRAINTS: list[dict[str, Any]] = [
    {"kind": "fixed_combinations", "columns": ["job", "sector"], "combinations": [*SECTORS.items()]},
    {"kind": "fixed_combinations", "columns": ["level", "rank"], "combinations": [*LEVELS.items()]},
]
CONTENT: dict[str, Any] = {
    "status": "declared",
    "n_units": 4000,
    "columns": {
        "rank": {"kind": "integer", "bounds": [1, 3]},
        "sector": {"kind": "categorical", "categories": ["farm", "shop", "office", "school"], "missing": True},
        "job": {"kind": "categorical", "categories": list(SECTORS), "missing": True},
        "level": {"kind": "categorical", "categories": list(LEVELS)},
        "pay": {"kind": "integer", "bounds": [0, 100]},
    },
    "constraints": CONSTRAINTS,
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return build_schema(CONTENT)


@pytest.fixture(scope="module")
def table(schema: Schema) -> pd.DataFrame:
    """Pay hangs on the sector, and nine in ten rows of a sector have one of 27 rare jobs."""
    rng = np.random.default_rng(0)
    n = 4000
    sector = rng.integers(0, 4, n)
    job = 30 * sector + np.where(rng.random(n) < 0.1, rng.integers(0, 3, n), rng.integers(3, 30, n))
    level = rng.integers(0, 3, n)
    jobs = pd.Series(np.array(list(SECTORS), dtype=object)[job]).mask(rng.random(n) < 0.02, None)
    frame = pd.DataFrame(
        {
            "rank": level + 1,
            "sector": pd.Series(np.array(["farm", "shop", "office", "school"], dtype=object)[sector]),
            "job": jobs,
            "level": np.array(list(LEVELS), dtype=object)[level],
            "pay": (25 * sector + rng.integers(0, 25, n)).astype(int),
        }
    )
    return conform(frame, schema)


def changed(columns: dict[str, dict[str, Any]] | None = None, **content: Any) -> Schema:
    """The schema with some columns declared otherwise."""
    declared = {name: {**column, **(columns or {}).get(name, {})} for name, column in CONTENT["columns"].items()}
    return build_schema({**CONTENT, "columns": declared, **content})


def test_combinations_say_which_column_determines_which() -> None:
    both = FixedCombinations(columns=("a", "b", "c"), combinations=(("x", 1, True), ("y", 2, True), ("z", 3, False)))
    assert set(both.determined) == {("a", "b"), ("b", "a"), ("a", "c"), ("b", "c")}
    assert both.determined["b", "c"] == {1: True, 2: True, 3: False}


def test_columns_that_determine_each_other_are_modeled_once(schema: Schema) -> None:
    assert schema.modeled == ("sector", "job", "level", "pay")
    assert schema.equivalents["rank"].determinant == "level"


@pytest.mark.parametrize(
    ("content", "modeled"),
    [
        ({"target": "rank"}, ("rank", "sector", "job", "pay")),
        ({"sensitive": ["rank"]}, ("rank", "sector", "job", "pay")),
        ({"columns": {"level": {"missing": True}}}, ("rank", "sector", "job", "level", "pay")),
        ({"columns": {"rank": {"missing": True}}}, ("rank", "sector", "job", "level", "pay")),
        (
            {"constraints": [*CONSTRAINTS, {"kind": "formula", "column": "rank", "expression": "pay / 40"}]},
            ("sector", "job", "level", "pay"),
        ),
        ({"constraints": CONSTRAINTS[:1]}, ("rank", "sector", "job", "level", "pay")),
    ],
    ids=["target", "sensitive", "determinant missing", "dependent missing", "formula", "no constraint"],
)
def test_the_column_that_matters_most_is_held_and_one_that_may_be_missing_is(
    content: dict[str, Any], modeled: tuple[str, ...]
) -> None:
    assert changed(**content).modeled == modeled


def test_of_two_with_levels_the_ordered_one_is_held_and_each_class_has_one_head() -> None:
    names = {"categories": ["I", "II", "III"]}
    three = {
        "kind": "fixed_combinations",
        "columns": ["level", "roman", "rank"],
        "combinations": [["low", "I", 1], ["middle", "II", 2], ["high", "III", 3]],
    }
    columns = {**CONTENT["columns"], "roman": {"kind": "categorical", **names, "ordered": True}}
    schema = build_schema({**CONTENT, "columns": columns, "constraints": [three, CONSTRAINTS[1]]})
    assert {name: known.determinant for name, known in schema.equivalents.items()} == {
        "level": "roman",
        "rank": "roman",
    }


def chained(lists: list[tuple[str, str]], **content: Any) -> Schema:
    """Columns a, b and c, where a tells b and b tells c, or both ways where they have as many values."""
    sizes = {"a": 40, "b": 8, "c": 2} | content.pop("sizes", {})
    columns = {n: {"kind": "categorical", "categories": [f"{n}{i}" for i in range(size)]} for n, size in sizes.items()}
    listed = [
        {
            "kind": "fixed_combinations",
            "columns": list(two),
            "combinations": [
                [f"{two[0]}{i}", f"{two[1]}{i * sizes[two[1]] // sizes[two[0]]}"] for i in range(sizes[two[0]])
            ],
        }
        for two in lists
    ]
    return build_schema({"status": "declared", "n_units": 2000, "columns": columns, "constraints": listed, **content})


def rows_of(schema: Schema, n: int = 2000) -> pd.DataFrame:
    drawn = np.random.default_rng(0).integers(0, 40, n)
    sizes = {name: len(column.categories) for name, column in schema.columns.items()}  # type: ignore[union-attr]
    return pd.DataFrame({name: [f"{name}{i * size // 40}" for i in drawn] for name, size in sizes.items()})


@pytest.mark.parametrize("lists", [[("a", "b"), ("b", "c")], [("b", "c"), ("a", "b")]], ids=["in order", "reversed"])
@pytest.mark.parametrize("name", ["independent", "mst"])
def test_lists_in_any_order_reject_no_row(name: str, lists: list[tuple[str, str]]) -> None:
    schema = chained(lists)
    model = synth.fit(rows_of(schema), schema, name, epsilon=0.3, delta=1e-5, seed=0)
    assert model.sample(1000, seed=0).attrs[REJECTED] == 0


@pytest.mark.parametrize("target", ["a", "b"])
@pytest.mark.parametrize("name", ["independent", "mst"])
def test_what_a_computed_column_determines_the_held_one_determines(name: str, target: str) -> None:
    """a and b are equivalent, and a alone is listed with c: whichever is held, c follows it."""
    schema = chained([("a", "b"), ("a", "c")], sizes={"b": 40}, target=target)
    assert schema.modeled == tuple(sorted({target, "c"}))
    model = synth.fit(rows_of(schema), schema, name, epsilon=0.3, delta=1e-5, seed=0)
    assert model.sample(1000, seed=0).attrs[REJECTED] == 0


@pytest.mark.parametrize("target", ["a", "b", "c"])
def test_columns_that_are_equivalent_over_two_lists_are_modeled_once(target: str) -> None:
    schema = chained([("a", "b"), ("b", "c")], sizes={"b": 40, "c": 40}, target=target)
    assert schema.modeled == (target,)
    sampled = synth.fit(rows_of(schema), schema, "mst", epsilon=0.3, delta=1e-5, seed=0).sample(500, seed=0)
    assert sampled.attrs[REJECTED] == 0
    assert (sampled["a"].str[1:] == sampled["c"].str[1:]).all()


def test_zeros_of_a_computed_column_are_those_of_the_held_one() -> None:
    """a is equivalent to b, which is the target; a and c have a list in which neither determines the other."""
    part = [["a0", "c0"], ["a0", "c1"], ["a1", "c1"], ["a2", "c0"], ["a2", "c1"]]
    schema = chained([("a", "b")], sizes={"a": 3, "b": 3}, target="b")
    more = {"kind": "fixed_combinations", "columns": ["a", "c"], "combinations": part}
    schema = build_schema({**schema.model_dump(mode="json"), "constraints": [schema.constraints[0], more]})
    (factor,) = (f for f in structural_zeros(schema, Discretizer.by_schema(schema)) if len(f.attributes) > 1)
    assert factor.attributes == ("b", "c")
    assert (factor.log_values[:3, :2] == 0).tolist() == [[True, True], [False, True], [True, True]]


def test_what_holds_for_an_entity_does_not_determine_what_does_not() -> None:
    columns = {**CONTENT["columns"], "person": {"kind": "identifier", "template": "P-####"}}
    content = {**CONTENT, "columns": columns, "entity": "person", "max_rows_per_unit": 2}
    assert "rank" in build_schema({**content, "constant_in_entity": ["level"]}).modeled
    assert "rank" not in build_schema({**content, "constant_in_entity": ["level", "rank"]}).modeled


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("independent", 1.0), ("mst", 1.0), ("mst", None), ("aim", 1.0), ("latent_class", 1.0), ("latent_class", None)],
)
def test_dependencies_hold_and_hardly_a_row_is_rejected(
    name: str, epsilon: float | None, table: pd.DataFrame, schema: Schema
) -> None:
    model = synth.fit(table, schema, name, epsilon=epsilon, seed=0)
    sampled = model.sample(4000, seed=1)
    both = sampled["job"].notna() & sampled["sector"].notna()
    assert both.mean() > 0.9
    assert (sampled["job"][both].map(SECTORS) == sampled["sector"][both]).all()
    assert (sampled["level"].map(LEVELS) == sampled["rank"]).all()
    assert sampled.attrs[REJECTED] < 40


def test_rare_values_keep_what_hangs_on_the_column_that_they_determine(table: pd.DataFrame, schema: Schema) -> None:
    """Most jobs are merged, and yet the mean pay of a sector's jobs is that of the sector."""
    sampled = synth.fit(table, schema, "aim", epsilon=1.0, delta=1e-5, seed=0).sample(4000, seed=1)
    rare = sampled["job"].notna() & ~sampled["job"].isin([f"{sector}{job}" for job in range(3) for sector in SECTORS])
    pay = sampled["pay"][rare].astype(float).groupby(sampled["job"][rare].map(SECTORS)).mean()
    assert rare.mean() > 0.7
    assert pay["farm"] < 25 < pay["shop"] < 50 < pay["office"] < 75 < pay["school"]


def test_a_computed_column_is_neither_read_nor_paid_for(table: pd.DataFrame, schema: Schema) -> None:
    """With whatever stands in the computed column the fit is the same, and its statement counts one histogram less."""
    other = table.assign(rank=table["rank"].iloc[::-1].to_numpy())
    one, two = (synth.fit(frame, schema, "independent", seed=0).sample(200, seed=1) for frame in (table, other))
    pd.testing.assert_frame_equal(one, two)
    generator = registry.generator("mst", epsilon=1.0)
    assert isinstance(generator, PrivateGenerator)
    columns = {name: column for name, column in CONTENT["columns"].items() if name != "rank"}
    bare = build_schema({**CONTENT, "columns": columns, "constraints": CONSTRAINTS[:1]})
    assert generator.schedule(schema) == generator.schedule(bare)


def test_a_value_of_a_computed_column_is_a_condition_on_the_one_that_is_modeled(
    table: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    model = synth.fit(table, schema, "mst", seed=0)
    model.save(tmp_path / "model")
    sampled = synth.load_model(tmp_path / "model").sample(50, seed=0, given={"rank": "2"})
    assert set(sampled["level"]) == {"middle"}
    assert set(sampled["rank"]) == {2}
    assert set(model.sample(5, seed=0, given={"rank": 2, "level": "middle"})["rank"]) == {2}
    with pytest.raises(JobError, match=r"no rows that meet what is given: columns=\['level', 'rank'\]"):
        model.sample(5, given={"rank": 2, "level": "low"})


def test_a_value_in_no_combination_is_refused_as_a_condition_and_never_drawn(table: pd.DataFrame) -> None:
    wide = changed({"rank": {"bounds": [1, 9]}, "level": {"categories": [*LEVELS, "top"]}})
    model = synth.fit(table, wide, "mst", epsilon=0.1, delta=1e-5, seed=0)
    assert set(model.sample(2000, seed=0)["level"]) <= set(LEVELS)
    with pytest.raises(JobError, match="given='rank' has a value that is in no listed combination"):
        model.sample(5, given={"rank": 7})


def test_a_rare_given_value_stands_as_it_was_given(table: pd.DataFrame, schema: Schema) -> None:
    model = synth.fit(table, schema, "mst", epsilon=1.0, delta=1e-5, seed=0)
    rare = model.sample(30, seed=0, given={"job": "shop20"})
    assert set(rare["sector"].dropna()) == {"shop"}
    assert rare.attrs[REJECTED] == 0
    assert set(model.sample(30, seed=0, given={"sector": "shop"})["job"].dropna().map(SECTORS)) == {"shop"}


def test_a_workload_weighs_the_column_that_is_modeled(schema: Schema) -> None:
    generator = registry.generator("aim", workload={"rank": 2.0})
    with pytest.raises(JobError, match="column='rank' is computed from 'level'; weigh that one"):
        generator.check(schema)
