"""Declaring a schema says, column by column, what is thereby asserted to be public."""

import tomllib
from typing import Any

import pytest

from synth.declare import assertions, declare_schema, measurable
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml

COLUMNS = {
    "id": {"kind": "identifier", "bounds": [1, 9999]},
    "age": {"kind": "integer", "bounds": [17, 90]},
    "wage": {"kind": "real", "bounds": [0, 100], "decimals": 2, "missing": True},
    "city": {"kind": "categorical", "categories": [f"c{i}" for i in range(12)]},
    "none": {"kind": "categorical", "categories": [], "missing": True},
    "flag": {"kind": "boolean"},
    "day": {"kind": "date", "bounds": ["2000-01-01", "2020-12-31"]},
    "note": {"kind": "text", "drop": True},
}


def _schema(**table: Any) -> Schema:
    return build_schema({"status": "inferred", "columns": COLUMNS, **table})


def test_a_declared_schema_says_so_and_changes_nothing_else() -> None:
    declared = declare_schema(_schema(target="age"), n_units=500)
    assert (declared.status, declared.n_units, declared.target) == ("declared", 500, "age")
    assert declared.columns == _schema().columns
    assert declare_schema(declared) == declared


def test_kept_free_text_is_refused() -> None:
    with pytest.raises(SchemaError, match="column='note' is of kind text; set drop = true"):
        declare_schema(
            build_schema({"status": "inferred", "columns": {"note": {"kind": "text"}, "age": COLUMNS["age"]}})
        )


@pytest.mark.parametrize("n_units", [0, -5, 2.5, "many", True, float("nan")])
def test_n_units_must_be_a_whole_number_above_zero(n_units: Any) -> None:
    with pytest.raises(SchemaError, match="n_units="):
        declare_schema(_schema(), n_units=n_units)


def test_measured_columns_keep_nothing_that_was_read_off_the_table() -> None:
    columns = {
        "pay": {"kind": "real", "bounds": [3, 77], "decimals": 2, "scale": "log", "missing": True, "dtype": "float32"},
        "age": {"kind": "integer", "bounds": [17, 90], "bins": [17, 30, 90], "dtype": "int8"},
        "city": {"kind": "categorical", "categories": ["b", "a"], "ordered": True, "dtype": "category"},
        "code": {"kind": "categorical", "categories": [4, 2], "dtype": "int32"},
        "none": {"kind": "categorical", "categories": [], "missing": True},
        "day": {"kind": "date", "bounds": ["2000-01-01", "2020-12-31"], "format": "%d.%m.%Y"},
        "time": {"kind": "datetime", "bounds": ["2000-01-01T00:00:00", "2020-12-31T00:00:00"], "timezone": "mixed"},
        "flag": {"kind": "boolean"},
        "id": {"kind": "identifier", "bounds": [1, 9999]},
        "old": {"kind": "integer", "bounds": [1, 2], "drop": True},
    }
    proposed = build_schema({"status": "inferred", "target": "city", "columns": columns})
    assert measurable(proposed) == ("pay", "age", "city", "code", "none", "day", "time")
    declared = declare_schema(proposed, dataset="staff", measure=measurable(proposed))
    assert (declared.dataset, declared.target, declared.measured) == ("staff", "city", measurable(proposed))
    bare = {
        "pay": {"kind": "real", "decimals": 2, "missing": True, "dtype": "float32"},
        "age": {"kind": "integer", "dtype": "int8"},
        "city": {"kind": "categorical", "dtype": "category"},
        "code": {"kind": "categorical", "whole_numbers": True, "dtype": "int32"},
        "none": {"kind": "categorical", "missing": True},
        "day": {"kind": "date", "format": "%d.%m.%Y"},
        "time": {"kind": "datetime", "timezone": "mixed"},
    }
    expected = columns | {name: {**column, "measure": True} for name, column in bare.items()}
    assert declared.columns == build_schema({"status": "declared", "columns": expected}).columns
    assert build_schema(tomllib.loads(to_toml(declared))) == declared


def test_outer_limits_of_a_column_that_is_measured_already_stay() -> None:
    columns = {"age": {"kind": "integer", "bounds": [0, 150], "measure": True}}
    schema = build_schema({"status": "inferred", "columns": columns})
    assert declare_schema(schema, measure=["age"]).columns == schema.columns


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("agee", "measure='agee' is not a column; did you mean 'age'?"),
        ("flag", "measure='flag' is of kind boolean, which has nothing to measure"),
        ("id", "measure='id' is of kind identifier"),
        ("note", "measure='note' is dropped"),
    ],
)
def test_what_cannot_be_measured_is_refused(name: str, rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        declare_schema(_schema(), measure=["age", name])
    assert str(caught.value).startswith(rule)


def test_frequent_values_to_measure_replace_those_that_were_read_off_the_table() -> None:
    columns = {"pay": {"kind": "real", "bounds": [0, 9], "decimals": 1, "steps": [0.5], "spikes": [1, 2.5]}}
    proposed = build_schema({"status": "inferred", "columns": columns})
    declared = declare_schema(proposed, measure_spikes=["pay"])
    pay: Any = declared.columns["pay"]
    assert (pay.spikes, pay.measure_spikes, pay.steps, pay.bounds) == ((), True, (0.5,), (0, 9))
    assert (declared.measured, declared.spikes_measured) == ((), ("pay",))
    assert build_schema(tomllib.loads(to_toml(declared))) == declared
    assert dict(assertions(declared))["pay"] == (
        "every value is a number with at most 1 decimals from 0.0 to 9.0, never missing, and these limits and the "
        "steps 0.5 are public knowledge, not read off this table; frequent values are not asserted: a private fit "
        "measures them under its budget"
    )


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("agee", "measure_spikes='agee' is not a column; did you mean 'age'?"),
        ("flag", "measure_spikes='flag' is of kind boolean; frequent values are measured of integer, real and weight"),
        ("note", "measure_spikes='note' is dropped"),
    ],
)
def test_frequent_values_that_cannot_be_measured_are_refused(name: str, rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        declare_schema(_schema(), measure_spikes=["age", name])
    assert str(caught.value).startswith(rule)


def test_a_faulty_dataset_is_refused() -> None:
    with pytest.raises(SchemaError, match="dataset"):
        declare_schema(_schema(), dataset="a\nb")


def test_what_is_measured_is_not_asserted() -> None:
    declared = declare_schema(_schema(), dataset="towns", measure=["age", "wage", "city", "day"])
    said = assertions(declared)
    assert dict(said)["age"] == (
        "bounds are not asserted: a private fit measures them under its budget; public is only that every value is a "
        "whole number, never missing"
    )
    assert "a number with at most 2 decimals, may be missing" in dict(said)["wage"]
    assert dict(said)["city"].startswith("categories are not asserted")
    assert "c0" not in dict(said)["city"]
    assert dict(said)["day"].endswith("every value is a day, never missing")
    assert any("dataset='towns' names this table" in text for subject, text in said if subject == "table")
    outer = build_schema({"status": "declared", "columns": {"age": {**COLUMNS["age"], "measure": True}}})
    assert "a whole number from 17 to 90, never missing" in assertions(outer)[0][1]


def test_every_column_gets_one_sentence() -> None:
    said = dict(assertions(_schema())[: len(COLUMNS)])
    assert list(said) == list(COLUMNS)
    assert said["age"] == (
        "every value is a whole number from 17 to 90, never missing, and these limits are public knowledge, "
        "not read off this table"
    )
    assert "at most 2 decimals from 0.0 to 100.0, may be missing" in said["wage"]
    assert "12 categories ('c0'" in said["city"]
    assert "and 4 more" in said["city"]
    assert "every value is missing" in said["none"]
    assert "a day from 2000-01-01 to 2020-12-31" in said["day"]
    assert "never learned" in said["id"]
    assert "left out" in said["note"]


def test_the_table_gets_its_sentences() -> None:
    def table(schema: Schema) -> str:
        return " ".join(text for subject, text in assertions(schema) if subject == "table")

    assert "private fits will refuse until it is" in table(_schema())
    assert "at most n_units=500 units" in table(_schema(n_units=500))
    assert "no person or other unit has more than one row" in table(_schema())
    assert "max_rows_per_unit=4" in table(_schema(entity="id", max_rows_per_unit=4))
    assert "target='age'" in table(_schema(target="age"))
    assert "sensitive=['age'] are the columns that attackers want to learn" in table(_schema(sensitive=["age"]))
    assert "quasi_identifiers=['age'] are the columns" in table(_schema(quasi_identifiers=["age"]))
    assert "sensitive" not in table(_schema())
