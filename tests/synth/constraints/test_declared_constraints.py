"""Constraints of a schema: what is refused, what they say, and that files carry them."""

import json
import tomllib
from typing import Any

import jsonschema
import pytest

from synth.declare import assertions, declare_schema, measurable
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema_file import schema_json, to_toml

CONTENT: dict[str, Any] = {
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


def schema(*constraints: Any) -> Schema:
    return build_schema({**CONTENT, "constraints": list(constraints)})


def combinations(**more: Any) -> dict[str, Any]:
    return {**LISTED, **more}


def formula(expression: str, column: str = "net") -> dict[str, Any]:
    return {"kind": "formula", "column": column, "expression": expression}


def inequality(low: str, high: str) -> dict[str, Any]:
    return {"kind": "inequality", "low": low, "high": high}


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ("text", ["constraints.0", "a table of TOML"]),
        ({"low": "age", "high": "net"}, ["constraints.0", "'kind' is missing"]),
        ({**ORDERED, "kind": "unequal"}, ["unknown kind='unequal'", "inequality"]),
        ({**ORDERED, "strickt": True}, ["unknown key 'constraints.0.strickt'", "'strict'"]),
        ({"kind": "inequality", "low": "age"}, ["'constraints.0.high' is missing"]),
        (inequality("age", "age"), ["one column='age'", "name two"]),
        (inequality("age", "nett"), ["'nett' is not a column", "did you mean 'net'"]),
        (inequality("age", "grade"), ["'grade'", "no order"]),
        (inequality("age", "from"), ["a number and a time", "like with like"]),
        (inequality("from", "paris"), ["zone", "timezone"]),
        ({**inequality("age", "net"), "by_day": True}, ["by_day=true compares times", "'age' is of kind"]),
        ({**inequality("paris", "tokyo"), "by_day": True}, ["'paris' has timezone='Europe/Paris'", "leave by_day out"]),
        (inequality("age", "id"), ["'id'", "kind identifier"]),
        (inequality("age", "text"), ["'text' is dropped", "keep the column"]),
        (combinations(columns=["grade"]), ["constraints.0.columns", "at least 2"]),
        (combinations(columns=["grade", "grade", "ill"]), ["columns repeat"]),
        (combinations(combinations=[]), ["constraints.0.combinations", "at least 1"]),
        (combinations(combinations=["one"]), ["combination 0 is no list"]),
        (combinations(combinations=[["one", 1]]), ["combination 0 has 2 values for 3 columns"]),
        (combinations(combinations=[["one", 1, True], ["one", 1, True]]), ["combinations repeat"]),
        (combinations(combinations=[["one", 1, True], ["two", 1.5, True]]), ["combination 1", "no text, whole number"]),
        (combinations(combinations=[["three", 1, True]]), ["combination 0 has 'three'", "'grade' cannot hold"]),
        (combinations(combinations=[["one", 101, True]]), ["combination 0 has 101", "'age' cannot hold"]),
        (combinations(combinations=[["one", True, True]]), ["combination 0 has True", "'age' cannot hold"]),
        (combinations(combinations=[["one", 1, True], ["a\0b", 1, True]]), ["combination 1 holds", r"'a\x00b'", "NUL"]),
        (combinations(combinations=[["\ud800", 1, True]]), ["combination 0 holds", r"'\ud800'", "surrogate"]),
        (combinations(combinations=[["one", 1, 1]]), ["combination 0 has 1", "'ill' cannot hold"]),
        (combinations(columns=["grade", "net", "ill"]), ["'net' is of kind real", "categorical, boolean or integer"]),
        (combinations(columns=["town", "age", "ill"]), ["'town' is to be measured", "measure = true"]),
        (formula("age + "), ["constraints.0.expression", "its end"]),
        (formula("7"), ["names no column"]),
        (formula("age + aeg"), ["'aeg' is not a column", "'age'"]),
        (formula("age + ill"), ["'ill' is of kind boolean", "integer, real and weight"]),
        (formula("age", "grade"), ["'grade' is of kind categorical"]),
        (formula("age", "open"), ["'open' is computed", "declare its bounds"]),
        (formula("net + 1"), ["circle", "'net'"]),
    ],
)  # fmt: skip
def test_a_constraint_that_does_not_fit_is_refused_in_one_clear_sentence(constraint: Any, words: list[str]) -> None:
    with pytest.raises(SchemaError) as refused:
        schema(constraint)
    message = str(refused.value)
    assert all(word in message for word in words), message
    assert not message.endswith(".")
    assert "\n" not in message


def test_the_message_names_the_constraint_by_its_number() -> None:
    with pytest.raises(SchemaError, match=r"^constraints\.2: "):
        schema(ORDERED, LISTED, inequality("age", "grade"))


def test_a_column_has_one_formula_and_formulas_never_run_in_a_circle() -> None:
    with pytest.raises(SchemaError, match="two formulas"):
        schema(COMPUTED, formula("age"))
    with pytest.raises(SchemaError, match="circle: columns 'net', 'capital-gain'"):
        schema(formula("`capital-gain` + age"), formula("net - age", "capital-gain"))


def test_a_column_with_a_formula_is_learned_by_evaluation_and_modeled_by_nobody() -> None:
    made = schema(COMPUTED)
    assert "net" in made.learned
    assert made.modeled == tuple(name for name in made.learned if name != "net")
    assert schema().modeled == schema().learned


def test_a_schema_file_carries_constraints_and_fits_its_json_schema() -> None:
    made = schema(ORDERED, {**ORDERED, "strict": True}, LISTED, COMPUTED)
    content = tomllib.loads(to_toml(made))
    assert build_schema(content) == made
    assert build_schema(json.loads(made.model_dump_json())) == made
    assert to_toml(build_schema(content)) == to_toml(made)
    jsonschema.validate(json.loads(json.dumps(content, default=str)), schema_json())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**CONTENT, "constraints": [{"low": "from", "high": "to"}]}, schema_json())


def test_long_lists_of_combinations_stay_readable_and_whole() -> None:
    rows = [["one" if i % 2 else "two", i, bool(i % 3)] for i in range(100)]
    made = schema(combinations(combinations=rows))
    text = to_toml(made)
    assert build_schema(tomllib.loads(text)) == made
    assert max(map(len, text.splitlines())) <= 120


def test_declaring_lists_constraints_as_public_assertions() -> None:
    inferred = build_schema({**CONTENT, "status": "inferred", "constraints": [ORDERED, LISTED, COMPUTED]})
    texts = [text for subject, text in assertions(declare_schema(inferred)) if subject == "table"][-3:]
    assert "'from' is at most 'to'" in texts[0]
    assert "one of 2 listed combinations" in texts[1]
    assert "'net' is age - `capital-gain` / 2, rounded" in texts[2]
    assert all("public knowledge" in text for text in texts)


def test_what_constraints_name_as_public_is_not_offered_to_be_measured() -> None:
    offered = measurable(schema(LISTED, COMPUTED))
    assert {"net", "grade", "age"}.isdisjoint(offered)
    assert {"capital-gain", "from", "open"} <= set(offered)
    with pytest.raises(SchemaError, match="to be measured"):
        declare_schema(schema(LISTED), measure=["grade"])
