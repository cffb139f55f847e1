"""Constraints: what is declared, expressions, dependencies between columns, and combinations that are unique."""

import datetime as dt
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from synth.constraints import Unique
from synth.constraints.expression import MAX_LENGTH, evaluate, names, parse
from synth.declare import declare_schema, measurable
from synth.domain import Discretizer
from synth.domain.relations import broken
from synth.errors import JobError, ModelError, SchemaError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.constraints import MAX_OVERSAMPLED, REJECTED, draw_lawful, structural_zeros
from synth.schema import Schema, build_schema
from synth.schema_file import schema_json, to_toml
from synth.table import conform

BARE: dict[str, Any] = {
    "status": "declared",
    "n_units": 100,
    "columns": {
        "id": {"kind": "identifier", "template": "A##"},
        "text": {"kind": "text", "drop": True},
        "age": {"kind": "integer", "bounds": [0, 100]},
        "capital-gain": {"kind": "real", "bounds": [0, 10], "decimals": 2},
        "open": {"kind": "real", "measure": True},
        "net": {"kind": "real", "bounds": [-10, 100]},
        "grade": {"kind": "categorical", "categories": ["one", "two"]},
        "town": {"kind": "categorical", "measure": True},
        "ill": {"kind": "boolean"},
        "from": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"]},
        "to": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"]},
        "paris": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"], "timezone": "Europe/Paris",
        },
        "tokyo": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"], "timezone": "Asia/Tokyo",
        },
    },
}  # fmt: skip
ORDERED = {"kind": "inequality", "low": "from", "high": "to"}
LISTED = {
    "kind": "fixed_combinations",
    "columns": ["grade", "age", "ill"],
    "combinations": [["one", 1, True], ["two", 1, False]],
}
COMPUTED = {"kind": "formula", "column": "net", "expression": "age - `capital-gain` / 2"}


def constrained(*constraints: Any) -> Schema:
    return build_schema({**BARE, "constraints": list(constraints)})


def combinations(**more: Any) -> dict[str, Any]:
    return {**LISTED, **more}


def formula(expression: str, column: str = "net") -> dict[str, Any]:
    return {"kind": "formula", "column": column, "expression": expression}


def inequality(low: str, high: str) -> dict[str, Any]:
    return {"kind": "inequality", "low": low, "high": high}


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({**ORDERED, "kind": "unequal"}, ["unknown kind='unequal'", "inequality"]),
        (inequality("age", "age"), ["one column='age'", "name two"]),
        (inequality("age", "grade"), ["'grade'", "no order"]),
        (inequality("age", "from"), ["a number and a time", "like with like"]),
        (inequality("from", "paris"), ["zone", "timezone"]),
        ({**inequality("paris", "tokyo"), "by_day": True}, ["'paris' has timezone='Europe/Paris'", "leave by_day out"]),
        (combinations(combinations=[]), ["constraints.0.combinations", "at least 1"]),
        (combinations(combinations=[["one", 1, True], ["one", 1, True]]), ["combinations repeat"]),
        (combinations(combinations=[["one", 101, True]]), ["combination 0 has 101", "'age' cannot hold"]),
        (combinations(combinations=[["one", True, True]]), ["combination 0 has True", "'age' cannot hold"]),
        (combinations(combinations=[["one", 1, True], ["a\0b", 1, True]]), ["combination 1 holds", r"'a\x00b'", "NUL"]),
        (combinations(combinations=[["one", 1, 1]]), ["combination 0 has 1", "'ill' cannot hold"]),
        (combinations(columns=["grade", "net", "ill"]), ["'net' cannot hold", "as in 1.0"]),
        (
            combinations(columns=["grade", "net"], combinations=[["one", 0.5], ["one", 1.5]]),
            ["'net' is of kind real", "no other column says"],
        ),
        (combinations(columns=["town", "age", "ill"]), ["'town' is to be measured", "measure = true"]),
        (formula("age + aeg"), ["'aeg' is not a column", "'age'"]),
        (formula("age + ill"), ["'ill' is of kind boolean", "integer, real and weight"]),
        (formula("age", "grade"), ["'grade' is of kind categorical"]),
        (formula("age", "open"), ["'open' is computed", "declare its bounds"]),
        (formula("net + 1"), ["circle", "'net'"]),
    ],
)  # fmt: skip
def test_a_constraint_that_does_not_fit_is_refused_in_one_clear_sentence(constraint: Any, words: list[str]) -> None:
    with pytest.raises(SchemaError) as refused:
        constrained(constraint)
    message = str(refused.value)
    assert all(word in message for word in words), message
    assert not message.endswith(".")
    assert "\n" not in message


def test_a_schema_file_carries_constraints_and_fits_its_json_schema() -> None:
    schema = constrained(ORDERED, {**ORDERED, "strict": True}, LISTED, COMPUTED)
    content = tomllib.loads(to_toml(schema))
    assert build_schema(content) == schema
    assert build_schema(json.loads(schema.model_dump_json())) == schema
    assert to_toml(build_schema(content)) == to_toml(schema)
    jsonschema.validate(json.loads(json.dumps(content, default=str)), schema_json())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**BARE, "constraints": [{"low": "from", "high": "to"}]}, schema_json())


def test_what_constraints_name_as_public_is_not_offered_to_be_measured() -> None:
    offered = measurable(constrained(LISTED, COMPUTED))
    assert {"net", "grade", "age"}.isdisjoint(offered)
    assert {"capital-gain", "from", "open"} <= set(offered)
    with pytest.raises(SchemaError, match="to be measured"):
        declare_schema(constrained(LISTED), measure=["grade"])


SECTORS = {f"{sector}{job}": sector for sector in ("farm", "shop", "office", "school") for job in range(30)}
"""Each job's sector: most jobs are rare."""
LEVELS = {"low": 1, "middle": 2, "high": 3}
CONSTRAINTS: list[dict[str, Any]] = [
    {"kind": "fixed_combinations", "columns": ["job", "sector"], "combinations": [*SECTORS.items()]},
    {"kind": "fixed_combinations", "columns": ["level", "rank"], "combinations": [*LEVELS.items()]},
]
RANKS: dict[str, Any] = {
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
def ranked() -> Schema:
    return build_schema(RANKS)


@pytest.fixture(scope="module")
def table(ranked: Schema) -> pd.DataFrame:
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
    return conform(frame, ranked)


def changed(columns: dict[str, dict[str, Any]] | None = None, **content: Any) -> Schema:
    """The schema with some columns declared otherwise."""
    declared = {name: {**column, **(columns or {}).get(name, {})} for name, column in RANKS["columns"].items()}
    return build_schema({**RANKS, "columns": declared, **content})


@pytest.mark.parametrize(
    ("content", "modeled"),
    [
        ({"target": "rank"}, ("rank", "sector", "job", "pay")),
        ({"columns": {"level": {"missing": True}}}, ("rank", "sector", "job", "level", "pay")),
        (
            {"constraints": [*CONSTRAINTS, {"kind": "formula", "column": "rank", "expression": "pay / 40"}]},
            ("sector", "job", "level", "pay"),
        ),
        ({"constraints": CONSTRAINTS[:1]}, ("rank", "sector", "job", "level", "pay")),
    ],
    ids=["target", "determinant missing", "formula", "no constraint"],
)
def test_the_column_that_matters_most_is_held_and_one_that_may_be_missing_is(
    content: dict[str, Any], modeled: tuple[str, ...]
) -> None:
    assert changed(**content).modeled == modeled


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


def test_zeros_of_a_computed_column_are_those_of_the_held_one() -> None:
    """a is equivalent to b, which is the target; a and c have a list in which neither determines the other."""
    part = [["a0", "c0"], ["a0", "c1"], ["a1", "c1"], ["a2", "c0"], ["a2", "c1"]]
    schema = chained([("a", "b")], sizes={"a": 3, "b": 3}, target="b")
    more = {"kind": "fixed_combinations", "columns": ["a", "c"], "combinations": part}
    schema = build_schema({**schema.model_dump(mode="json"), "constraints": [schema.constraints[0], more]})
    (factor,) = (f for f in structural_zeros(schema, Discretizer.by_schema(schema)) if len(f.attributes) > 1)
    assert factor.attributes == ("b", "c")
    assert (factor.log_values[:3, :2] == 0).tolist() == [[True, True], [False, True], [True, True]]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        ("mst", 1.0),
        ("aim", 1.0),
        ("latent_class", 1.0),
    ],
)
def test_dependencies_hold_and_hardly_a_row_is_rejected(
    name: str, epsilon: float | None, table: pd.DataFrame, ranked: Schema
) -> None:
    model = synth.fit(table, ranked, name, epsilon=epsilon, seed=0)
    sampled = model.sample(4000, seed=1)
    both = sampled["job"].notna() & sampled["sector"].notna()
    assert both.mean() > 0.9
    assert (sampled["job"][both].map(SECTORS) == sampled["sector"][both]).all()
    assert (sampled["level"].map(LEVELS) == sampled["rank"]).all()
    assert sampled.attrs[REJECTED] < 40


def test_rare_values_keep_what_hangs_on_the_column_that_they_determine(table: pd.DataFrame, ranked: Schema) -> None:
    """Most jobs are merged, and yet the mean pay of a sector's jobs is that of the sector."""
    sampled = synth.fit(table, ranked, "aim", epsilon=1.0, delta=1e-5, seed=0).sample(4000, seed=1)
    rare = sampled["job"].notna() & ~sampled["job"].isin([f"{sector}{job}" for job in range(3) for sector in SECTORS])
    pay = sampled["pay"][rare].astype(float).groupby(sampled["job"][rare].map(SECTORS)).mean()
    assert rare.mean() > 0.7
    assert pay["farm"] < 25 < pay["shop"] < 50 < pay["office"] < 75 < pay["school"]


def test_a_computed_column_is_neither_read_nor_paid_for(table: pd.DataFrame, ranked: Schema) -> None:
    """With whatever stands in the computed column the fit is the same, and its statement counts one histogram less."""
    other = table.assign(rank=table["rank"].iloc[::-1].to_numpy())
    first, second = (synth.fit(frame, ranked, "independent", seed=0).sample(200, seed=1) for frame in (table, other))
    pd.testing.assert_frame_equal(first, second)
    generator = registry.generator("mst", epsilon=1.0)
    assert isinstance(generator, PrivateGenerator)
    columns = {name: column for name, column in RANKS["columns"].items() if name != "rank"}
    bare = build_schema({**RANKS, "columns": columns, "constraints": CONSTRAINTS[:1]})
    assert generator.schedule(ranked) == generator.schedule(bare)


def test_a_value_of_a_computed_column_is_a_condition_on_the_one_that_is_modeled(
    table: pd.DataFrame, ranked: Schema, tmp_path: Path
) -> None:
    model = synth.fit(table, ranked, "mst", seed=0)
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


COLUMNS = {"a": 3.0, "b": -0.5, "c": 7.0}
LEAVES = st.one_of(st.sampled_from(sorted(COLUMNS)), st.integers(0, 9).map(str), st.sampled_from(["0.25", "1e2", ".5"]))
TEXTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", " * ", "/"]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=8,
)


def value(text: str, **columns: float) -> float:
    return float(evaluate(parse(text), {name: np.array(v) for name, v in columns.items()}))


@given(TEXTS)
def test_an_expression_means_what_python_says_it_means(text: str) -> None:
    try:
        expected = float(eval(text, {"__builtins__": {}}, COLUMNS))
    except ZeroDivisionError:
        expected = math.nan
    assert value(text, **COLUMNS) == pytest.approx(expected, nan_ok=True)


def test_names_that_are_no_plain_words_stand_in_backticks() -> None:
    assert list(names(parse("`capital-gain` - `a``b` * größe - `capital-gain`"))) == [
        "capital-gain", "a`b", "größe", "capital-gain",
    ]  # fmt: skip


def test_missing_operands_and_divisors_of_zero_give_missing_values() -> None:
    values = {"a": np.array([1.0, np.nan, 1.0, 0.0]), "b": np.array([2.0, 1.0, 0.0, 0.0])}
    assert np.isnan(evaluate(parse("a / b"), values)).tolist() == [False, True, True, True]
    assert np.isnan(evaluate(parse("1 / (a / b)"), values)).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "text",
    [
        "", "a b", "(a", "a ** b", "f(a)", "a = b",
        "a if b else c", "__import__('os')", "a\x00", "1e999", "1_0", "a # b", "a[b]", "floor(*a)", "`a", "2j", r"'\d'",
        "(" * 240,
    ],
)  # fmt: skip
def test_a_text_that_is_no_expression_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expression=.*; ") as refused:
        parse(text)
    assert not str(refused.value).endswith(".")


@pytest.mark.parametrize("text", ["(a-" * 60 + "a" + ")" * 60, "-" * 60 + "a", "a+" * MAX_LENGTH + "a"])
def test_an_expression_that_would_exhaust_the_stack_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="second formula"):
        parse(text)


STORES: dict[str, Any] = {
    "status": "declared",
    "n_units": 300,
    "columns": {
        "id": {"kind": "identifier", "template": "A##"},
        "store": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "day": {"kind": "integer", "bounds": [1, 100]},
        "sold": {"kind": "real", "bounds": [0, 9], "decimals": 1, "missing": True},
        "at": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-01-02T00:00:00"], "timezone": "mixed",
        },
    },
}  # fmt: skip


def without_copies(*columns: str, **more: Any) -> Schema:
    return build_schema({**STORES, "constraints": [{"kind": "unique", "columns": columns, **more}]})


def test_all_rows_that_repeat_each_other_break_a_key_and_a_missing_part_is_never_compared() -> None:
    rows = pd.DataFrame({"store": ["a", "b", "a", "a", "b"], "sold": [1.0, 1.0, 1.0, np.nan, np.nan]})
    schema = without_copies("store", "sold")
    assert broken(rows, schema.constraints[0], schema.columns).tolist() == [True, False, True, False, False]


def test_whole_numbers_beyond_float64_are_told_apart() -> None:
    schema = build_schema({"status": "declared", "columns": {"n": {"kind": "integer", "bounds": [0, 2**62]}}})
    rows = pd.DataFrame({"n": pd.array([2**60, 2**60 + 1], dtype="Int64")})
    assert not broken(rows, Unique(columns=("n",)), schema.columns).any()


def drawer(seed: int = 0, calls: list[int] | None = None) -> Any:
    rng = np.random.default_rng(seed)

    def draw(n: int) -> pd.DataFrame:
        if calls is not None:
            calls.append(n)
        return pd.DataFrame({
            "store": rng.choice(["a", "b", "c"], n, p=[0.8, 0.15, 0.05]),
            "day": pd.array(rng.integers(1, 101, n), dtype="Int64"),
            "sold": rng.integers(0, 90, n) / 10,
            "at": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * n,
        })  # fmt: skip

    return draw


def test_drawn_rows_never_repeat_though_every_value_is_needed() -> None:
    calls: list[int] = []
    table = draw_lawful(drawer(calls=calls), 300, without_copies("store", "day"))
    assert len(table) == 300
    assert not table.duplicated(["store", "day"]).any()
    assert table["store"].value_counts().to_dict() == {"a": 100, "b": 100, "c": 100}
    assert table.attrs[REJECTED] > 0
    assert max(calls) <= max(MAX_OVERSAMPLED * 300, 20_000)


def test_more_rows_than_there_are_values_are_refused_before_anything_is_drawn() -> None:
    calls: list[int] = []
    with pytest.raises(ModelError, match="there are 300 values for rows=301; ask for fewer rows"):
        draw_lawful(drawer(calls=calls), 301, without_copies("store", "day"))
    assert calls == []


def test_a_model_that_draws_too_few_values_ends_in_a_sentence_that_names_the_key() -> None:
    with pytest.raises(ModelError, match="most of them break that 'day' never repeats"):
        draw_lawful(lambda n: drawer()(n).assign(day=pd.array([7] * n, dtype="Int64")), 5, without_copies("day"))


def test_declaring_asserts_proposals_and_drops_those_that_tell_values_of_what_is_measured() -> None:
    listed = {"kind": "fixed_combinations", "columns": ["store", "day"], "combinations": [["a", 1]], "proposed": "so"}
    key = {"kind": "unique", "columns": ["store", "day"], "proposed": "so"}
    inferred = build_schema({**STORES, "status": "inferred", "constraints": [listed, key]})
    assert {"store", "day"} <= set(measurable(inferred))
    declared = declare_schema(inferred, measure=["store"])
    assert declared.constraints == (Unique(columns=("store", "day")),)
    assert [c.proposed for c in declare_schema(inferred).constraints] == [None, None]
    assert "store" not in measurable(declare_schema(inferred))
