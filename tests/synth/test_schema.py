"""Schema files, declared columns, their validation, and values that were observed."""

import datetime as dt
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from synth.declare import assertions, declare_schema, measurable, unconfirmed
from synth.domain import Discretizer
from synth.errors import OutputError, SchemaError
from synth.observed import observe
from synth.schema import Schema, build_schema
from synth.schema_file import read_schema, schema_json, to_toml, write_schema
from synth.table import conform, violations
from synth.validation import Frozen, sentence

EXAMPLE = {
    "status": "declared",
    "n_units": 1000,
    "target": "income",
    "sensitive": ["income"],
    "entity": "person id",
    "max_rows_per_unit": 3,
    "missing_values": ["", "?"],
    "columns": {
        "person id": {"kind": "identifier", "template": "P-####"},
        "age": {"kind": "integer", "bounds": [17, 90], "bins": [17, 30, 90.5]},
        "income": {"kind": "real", "bounds": [0.0, 1e22], "decimals": 2, "scale": "log", "missing": True},
        "fnlwgt": {"kind": "weight", "bounds": [0, 10], "decimals": 0},
        "city": {"kind": "categorical", "categories": [f"a rather long name {i}" for i in range(20)]},
        "code": {"kind": "categorical", "categories": [1, 2], "ordered": True, "dtype": "int8"},
        "flag": {"kind": "boolean", "tokens": ["no", "yes"]},
        "day": {"kind": "date", "bounds": [dt.date(1066, 10, 14), dt.date(2999, 1, 1)]},
        "time": {
            "kind": "datetime",
            "bounds": [dt.datetime(2000, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5)],
            "timezone": "mixed",
        },
        "note": {"kind": "text", "drop": True},
        "height": {"kind": "real", "measure": True, "decimals": 1},
        "town": {"kind": "categorical", "measure": True},
    },
}

DECLARED = "status = 'declared'\n"

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
LISTED = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
MISSING = st.fixed_dictionaries({}, optional={"missing": st.booleans(), "drop": st.booleans(), "dtype": NAMES})


def _pair(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.tuples(values, values).map(sorted)


def _kind(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda common, own: {"kind": kind} | common | own, MISSING, st.fixed_dictionaries(fields))


COLUMNS = st.one_of(
    _kind("integer", bounds=_pair(st.integers(-(2**63), 2**63 - 1)), scale=st.sampled_from(["linear", "log"])),
    _kind("real", bounds=_pair(st.floats(-8e307, 8e307))),
    _kind("real", bounds=_pair(st.floats(-1e290, 1e290)), decimals=st.integers(0, 17)),
    _kind("categorical", categories=st.lists(LISTED, unique=True, max_size=5), ordered=st.booleans()),
    _kind("categorical", categories=st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=5)),
    _kind("boolean", tokens=st.lists(LISTED, unique=True, min_size=2, max_size=2)),
    _kind("date", bounds=_pair(st.dates())),
    _kind("datetime", bounds=_pair(st.datetimes()), timezone=st.sampled_from([None, "mixed", "Europe/Paris"])),
    _kind("identifier", template=NAMES.filter(lambda text: not text.endswith("\\"))),
    _kind("integer", measure=st.just(True), dtype=st.sampled_from([None, "uint8", "Int16", "float32"])),
    _kind("integer", measure=st.just(True), bounds=_pair(st.integers(-(2**63), 2**63 - 1))),
    _kind("real", measure=st.just(True), decimals=st.none() | st.integers(0, 17)),
    _kind("weight", measure=st.just(True)),
    _kind("categorical", measure=st.just(True), whole_numbers=st.booleans(), dtype=st.none()),
    _kind("date", measure=st.just(True), dtype=st.sampled_from([None, "datetime64[ns]", "object"])),
    _kind(
        "datetime", measure=st.just(True), timezone=st.sampled_from([None, "mixed", "Europe/Paris"]),
        precision=st.sampled_from(["us", "ms", "s", "min", "h"]),
    ),
)  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=st.dictionaries(LISTED, COLUMNS, min_size=1, max_size=5))
def test_a_schema_is_read_as_it_was_written(columns: dict, tmp_path: Path) -> None:
    schema = build_schema({"status": "inferred", "columns": columns})
    write_schema(schema, tmp_path / "s.toml")
    back = read_schema(tmp_path / "s.toml")
    assert back == schema
    assert list(back.columns) == list(schema.columns)


def test_the_text_of_a_schema_file_is_readable() -> None:
    text = to_toml(build_schema(EXAMPLE))
    assert '[columns."person id"]\nkind = "identifier"\ntemplate = "P-####"\n' in text
    assert "bounds = [17, 90]\n" in text
    assert "bounds = [1066-10-14, 2999-01-01]\n" in text
    assert "false" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert build_schema(tomllib.loads(text)) == build_schema(EXAMPLE)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "'status' is missing"),
        ("status = 'declared'\n", "'columns' is missing"),
        ("status = 'declared'\n[columns]\n", "at least one column"),
        ("status = declared\n", "is not TOML"),
        (DECLARED + "[columns.age\n", "line 2"),
        ("format = 2\nstatus = 'declared'\n", "format=1, not format=2; upgrade"),
        ("format = 'x'\nstatus = 'declared'\n", "not format='x'"),
        (DECLARED + "taget = 'age'\n[columns.age]\nkind = 'text'\n", "unknown key 'taget'; did you mean 'target'?"),
        (DECLARED + "[columns.age]\nkind = 'integr'\n", "unknown kind='integr'; did you mean 'integer'?"),
        (DECLARED + "[columns.age]\nbounds = [0, 1]\n", "'kind' is missing"),
        (DECLARED + "[columns.age]\nkind = 'integer'\nbound = [0, 1]\n", "'columns.age.bound'; did you mean 'bounds'?"),
        (DECLARED + "[columns.age]\nkind = 'integer'\nbounds = [1, 0]\n", "reversed"),
        (DECLARED + "[columns.age]\nkind = 'integer'\n", "'columns.age.bounds' is missing; add it, or set measure"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\n", "'columns.a.categories' is missing; add it, or set measure"),
        (
            DECLARED + "[columns.age]\nkind = 'integer'\nmeasure = true\nbins = [0, 9]\n",
            "columns.age: a column to measure",
        ),
        (DECLARED + "[columns.age]\nkind = 'integer'\nmeasure = true\nbounds = [1, 0]\n", "reversed"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\nmeasure = true\ncategories = ['x']\n", "are not listed"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\nmeasure = true\nordered = true\n", "no known order"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\nmeasure = true\ndtype = 'int8'\n", "set whole_numbers = true"),
        (
            DECLARED + "[columns.a]\nkind = 'categorical'\ncategories = [1]\nwhole_numbers = true\n",
            "a list says by itself",
        ),
        (DECLARED + "[columns.a]\nkind = 'boolean'\nmeasure = true\n", "unknown key 'columns.a.measure'"),
        (
            DECLARED + "[columns.a]\nkind = 'integer'\nbounds = [0, 9]\nmeasure_spikes = true\nspikes = [1]\n",
            "columns.a: spikes to measure are not listed; leave out the list, or measure_spikes = true",
        ),
        (DECLARED + "[columns.a]\nkind = 'boolean'\nmeasure_spikes = true\n", "unknown key 'columns.a.measure_spikes'"),
        (DECLARED + "dataset = ''\n[columns.a]\nkind = 'text'\n", "dataset=''"),
        (DECLARED + "dataset = ' a'\n[columns.a]\nkind = 'text'\n", "spaces at its ends"),
        (DECLARED + 'dataset = "a\\tb"\n[columns.a]\nkind = "text"\n', "do not print"),
        (DECLARED + f"dataset = '{'a' * 101}'\n[columns.a]\nkind = 'text'\n", "at most 100 characters"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\ncategories = ['x', 1]\n", "mix texts and whole numbers"),
        (DECLARED + "[columns.a]\nkind = 'categorical'\ncategories = ['x', '']\n", "stands for a missing value"),
        (DECLARED + "[columns.a]\nkind = 'boolean'\ntokens = ['x', 'x']\n", "tokens are equal"),
        ("status = 'declared'\nn_units = 0\n[columns.a]\nkind = 'text'\n", "n_units=0"),
    ],
)
def test_a_faulty_schema_file_gets_one_sentence(text: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        read_schema(path)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["\0", "y\0z", "\ud800", "a\udfff", "\0" * 200])
@pytest.mark.parametrize("key", ["categories", "tokens", "missing_values"])
def test_a_text_that_nobody_reads_is_no_public_value(key: str, text: str) -> None:
    column: dict[str, Any] = {"kind": "boolean", "tokens": ["no", text]} if key == "tokens" else {"kind": "categorical"}
    if key == "categories":
        column["categories"] = ["x", text]
    elif key == "missing_values":
        column["categories"] = ["x"]
    content = {"status": "declared", "columns": {"a": column}, **({key: [text]} if key == "missing_values" else {})}
    with pytest.raises(
        SchemaError, match="NUL character or half a surrogate pair is read as missing; leave it out"
    ) as no:
        build_schema(content)
    assert str(no.value).isprintable()
    assert len(str(no.value)) < 300


def test_a_domain_that_nobody_wrote_is_not_written_either() -> None:
    columns = {
        "age": {"kind": "integer", "measure": True},
        "wage": {"kind": "real", "measure": True, "measure_spikes": True, "bounds": [0, 1e6]},
        "town": {"kind": "categorical", "measure": True},
        "day": {"kind": "datetime", "measure": True, "timezone": "Europe/Paris", "precision": "h"},
    }
    schema = build_schema({"status": "declared", "dataset": "towns", "columns": columns})
    content = tomllib.loads(to_toml(schema))
    assert content["dataset"] == "towns"
    assert [set(column) & {"bounds", "categories"} for column in content["columns"].values()] == [
        set(), {"bounds"}, set(), set()
    ]  # fmt: skip
    assert schema.measured == ("age", "wage", "town", "day")
    assert schema.spikes_measured == ("wage",)
    assert build_schema(content) == schema
    jsonschema.validate(_plain(content), schema_json())
    assert Schema.model_validate(schema.model_dump(mode="json")) == schema


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        ({"kind": "integer"}, (-(2**63), 2**63 - 1)),
        ({"kind": "integer", "dtype": "UInt8"}, (0, 255)),
        ({"kind": "integer", "dtype": "uint64[pyarrow]"}, (0, 2**63 - 1)),
        ({"kind": "real"}, (-1e15, 1e15)),
        ({"kind": "date"}, (dt.date(1, 1, 1), dt.date(9999, 12, 31))),
        ({"kind": "date", "dtype": "datetime64[ns]"}, (dt.date(1677, 9, 23), dt.date(2262, 4, 10))),
        ({"kind": "datetime", "timezone": "UTC"}, (dt.datetime(1677, 9, 23), dt.datetime(9999, 12, 30, 23, 59, 59))),
        ({"kind": "datetime"}, (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59))),
        (
            {"kind": "datetime", "timezone": "mixed", "precision": "h"},
            (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23)),
        ),
    ],
)
def test_bounds_to_measure_reach_as_far_as_kind_and_dtype_do(column: dict[str, Any], bounds: tuple[Any, Any]) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {**column, "measure": True}}})
    made: Any = schema.columns["x"]
    assert made.bounds == bounds


def test_a_dropped_column_is_not_measured() -> None:
    columns = {"a": {"kind": "integer", "measure": True, "drop": True}, "b": {"kind": "boolean"}}
    assert build_schema({"status": "declared", "columns": columns}).measured == ()


def test_places_without_a_schema_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema at"):
        read_schema(tmp_path / "absent.toml")
    with pytest.raises(SchemaError, match="is a folder"):
        read_schema(tmp_path)
    (tmp_path / "s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="UTF-8"):
        read_schema(tmp_path / "s.toml")
    with pytest.raises(OutputError, match=r"s\.toml"):
        write_schema(build_schema(EXAMPLE), tmp_path / "s.toml" / "s.toml")


def _plain(content: Any) -> Any:
    return json.loads(json.dumps(content, default=lambda moment: moment.isoformat()))


def test_the_json_schema_accepts_what_the_reader_accepts() -> None:
    rules = schema_json()
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(_plain(tomllib.loads(to_toml(build_schema(EXAMPLE)))), rules)
    assert rules["title"] == "understudy schema"


@pytest.mark.parametrize(
    "change",
    [
        {"status": "guessed"},
        {"taget": "age"},
        {"columns": {"a": {"kind": "integr", "bounds": [0, 1]}}},
        {"columns": {"a": {"bounds": [0, 1]}}},
        {"columns": {"a": {"kind": "integer", "bound": [0, 1]}}},
        {"columns": {"a": {"kind": "integer", "bounds": [0]}}},
        {"columns": {"a": {"kind": "integer"}}},
        {"columns": {"a": {"kind": "integer", "measure": False}}},
        {"columns": {"a": {"kind": "categorical"}}},
        {"columns": {"a": {"kind": "boolean", "measure": True}}},
        {"columns": {"a": {"kind": "date", "measure": True, "measure_spikes": True}}},
        {"columns": {"a": {"kind": "real", "bounds": [0, 1], "measure_spikes": True, "spikes": [0.5]}}},
        {"columns": {"a": {"kind": "categorical", "categories": ["x", 1]}}},
    ],
)
def test_the_json_schema_refuses_what_the_reader_refuses(change: dict) -> None:
    content = {"status": "declared", "columns": {"a": {"kind": "text"}}} | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema_json())
    with pytest.raises(SchemaError):
        build_schema(content)


def test_the_schema_is_equal_whatever_order_its_keys_have() -> None:
    assert build_schema(dict(reversed(EXAMPLE.items()))) == Schema.model_validate(EXAMPLE)


DECLARED_COLUMNS = {
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
    return build_schema({"status": "inferred", "columns": DECLARED_COLUMNS, **table})


def test_a_declared_schema_says_so_and_changes_nothing_else() -> None:
    declared = declare_schema(_schema(target="age"), n_units=500)
    assert (declared.status, declared.n_units, declared.target) == ("declared", 500, "age")
    assert declared.columns == _schema().columns
    assert declare_schema(declared) == declared


def test_kept_free_text_is_refused() -> None:
    with pytest.raises(SchemaError, match="column='note' is of kind text; set learn = true"):
        declare_schema(
            build_schema({"status": "inferred", "columns": {"note": {"kind": "text"}, "age": DECLARED_COLUMNS["age"]}})
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
    ("key", "name", "rule"),
    [
        ("measure", "agee", "'agee' is not a column; did you mean 'age'?"),
        ("measure", "flag", "'flag' is of kind boolean, which has nothing to measure"),
        ("measure", "id", "'id' is of kind identifier"),
        ("measure", "note", "'note' is dropped"),
        ("measure_spikes", "agee", "'agee' is not a column; did you mean 'age'?"),
        (
            "measure_spikes",
            "flag",
            "'flag' is of kind boolean; frequent values are measured of integer, real and weight",
        ),
        ("measure_spikes", "note", "'note' is dropped"),
    ],
)
def test_what_cannot_be_measured_is_refused(key: str, name: str, rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        declare_schema(_schema(), **{key: ["age", name]})
    assert str(caught.value).startswith(f"{key}={rule}")


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
    pay = {"kind": "real", "bounds": [0, 9], "format": "$#,##0;($#,##0)", "measure": True}
    told = assertions(build_schema({"status": "declared", "columns": {"pay": pay}, "missing_values": ["", "n/a"]}))
    assert told[0][1].endswith("never missing; format='$#,##0;($#,##0)': how it is written is public, too")
    assert any("missing_values=['n/a'] are texts" in text for _, text in told)
    outer = build_schema({"status": "declared", "columns": {"age": {**DECLARED_COLUMNS["age"], "measure": True}}})
    assert "a whole number from 17 to 90, never missing" in assertions(outer)[0][1]


def test_every_column_gets_one_sentence() -> None:
    said = dict(assertions(_schema())[: len(DECLARED_COLUMNS)])
    assert list(said) == list(DECLARED_COLUMNS)
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


class Settings(Frozen):
    share: float = Field(default=0.2, lt=1)
    name: str = Field(default="a", min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    often: bool = False


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"share": 1}, "share=1: input should be less than 1; choose a smaller number"),
        ({"name": ""}, "name='': text should have at least 1 character; write more, or leave the key out"),
        ({"seeds": []}, "seeds=[]: list should have at least 1 item, not 0; write more, or leave the key out"),
        ({"seeds": 3}, "seeds=3: input should be a valid list; write a list, as [1, 2]"),
        ({"often": "at times"}, "write true or false"),
        ({"share": "half"}, "write a number without quotes"),
    ],
)
def test_a_value_that_is_out_of_place_comes_with_a_remedy(content: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(content)
    assert said in sentence(error.value, Settings)


KINDS: dict[str, dict[str, Any]] = {
    "whole": {"kind": "integer"},
    "real": {"kind": "real", "decimals": 1},
    "weight": {"kind": "weight"},
    "day": {"kind": "date"},
    "wall": {"kind": "datetime"},
    "zoned": {"kind": "datetime", "timezone": "Europe/Paris"},
    "mixed": {"kind": "datetime", "timezone": "mixed"},
    "town": {"kind": "categorical"},
    "code": {"kind": "categorical", "whole_numbers": True},
}


def to_measure(**changes: Any) -> Schema:
    columns = {name: {**column, "measure": True, **changes} for name, column in KINDS.items()}
    return build_schema({"status": "declared", "columns": {**columns, "ill": {"kind": "boolean", "missing": True}}})


def table(shift: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole": [3 + shift, -2, 3],
            "real": [0.5, 2.5 + shift, 1.0],
            "weight": [1.25, 0.5, 0.75],
            "day": ["2001-05-06", "1999-12-31", "2000-01-01"],
            "wall": ["2001-05-06T07:08:09", "1999-12-31T00:00:00", "2000-01-01T00:00:00"],
            "zoned": ["2001-05-06T02:00:00+02:00", "1999-12-31T01:00:00+01:00", "2000-01-01T00:00:00+00:00"],
            "mixed": ["2001-05-06T02:00:00+02:00", "1999-12-31T05:00:00+05:00", "2000-01-01T00:00:00+00:00"],
            "town": ["b", "a" if shift == 0 else "z", "b"],
            "code": [7, 2, 7 + shift],
            "ill": [True, False, None],
        }
    )


def test_every_domain_is_what_the_tables_hold_together() -> None:
    schema = to_measure()
    seen = observe(schema, conform(table(), schema), conform(table(5), schema))
    got: dict[str, Any] = {
        name: getattr(column, "bounds", None) or getattr(column, "categories", None)
        for name, column in seen.columns.items()
    }
    assert got == {
        "whole": (-2, 8),
        "real": (0.5, 7.5),
        "weight": (0.5, 1.25),
        "day": (dt.date(1999, 12, 31), dt.date(2001, 5, 6)),
        "wall": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6, 7, 8, 9)),
        "zoned": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6)),
        "mixed": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6)),
        "town": ("a", "b", "z"),
        "code": (2, 7, 12),
        "ill": None,
    }
    assert seen.measured == ()


def test_what_comes_out_is_a_schema_that_the_table_fits() -> None:
    schema = to_measure()
    rows = conform(table(), schema)
    seen = observe(schema, rows)
    assert Schema.model_validate(seen.model_dump(mode="json")) == seen
    assert violations(rows, seen) == []
    pd.testing.assert_frame_equal(conform(table(), seen), rows)
    pd.testing.assert_frame_equal(conform(table(), seen, outside="clamp"), rows)


def test_a_schema_with_nothing_to_measure_comes_back_itself() -> None:
    schema = build_schema({"status": "declared", "columns": {"ill": {"kind": "boolean"}}})
    assert observe(schema, pd.DataFrame({"ill": [True]})) is schema


@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize("outer", [False, True])
def test_columns_without_a_value_still_get_a_domain_with_codes(rows: int, outer: bool) -> None:
    schema = to_measure()
    if outer:
        limits: dict[str, Any] = {
            "whole": (5, 9), "real": (-9.0, -5.0), "day": (dt.date(2000, 1, 1), dt.date(2001, 1, 1))
        }  # fmt: skip
        narrowed = {name: schema.columns[name].model_copy(update={"bounds": ends}) for name, ends in limits.items()}
        schema = schema.model_copy(update={"columns": {**schema.columns, **narrowed}})
    empty = conform(
        pd.DataFrame({name: [None] * rows for name in schema.columns}, dtype=object), schema, outside="clamp"
    )
    seen = observe(schema, empty)
    assert Schema.model_validate(seen.model_dump(mode="json")) == seen
    for discretizer in (Discretizer.by_schema(seen), Discretizer.by_quantiles(seen, empty)):
        rng = np.random.default_rng(0)
        codes = np.column_stack([rng.integers(0, size, 50) for size in discretizer.sizes.values()])
        assert len(discretizer.decode(codes, rng)) == 50
        assert discretizer.decode(discretizer.encode(empty), rng).isna().all(axis=None)


HISTORIES: dict[str, Any] = {
    "status": "inferred",
    "entity": "who",
    "order": "day",
    "nondecreasing_in_entity": ["age"],
    "columns": {
        "who": {"kind": "identifier", "template": "AA##"},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "visit": {"kind": "integer", "bounds": [1, 9]},
        "age": {"kind": "integer", "bounds": [0, 99]},
    },
}


def test_declaring_asserts_the_order_of_rows_and_tells_what_was_read_off() -> None:
    schema = build_schema(HISTORIES)
    declared = declare_schema(schema)
    said = [text for name, text in assertions(declared) if name == "table"]
    assert [text for text in said if "follow each other by order='day', and this is public knowledge" in text]
    assert [text for text in said if "nondecreasing_in_entity=['age'] never fall along the order" in text]
    told = {text for name, text in unconfirmed(schema, declared) if name is None}
    assert {"order may have been read off the table", "nondecreasing_in_entity may have been read off the table"} < told


def test_an_order_that_is_declared_replaces_the_proposed_one_and_what_went_along_with_it() -> None:
    schema = build_schema(HISTORIES)
    declared = declare_schema(schema, order="visit")
    assert (declared.order, declared.nondecreasing_in_entity) == ("visit", ())
    told = {text for name, text in unconfirmed(schema, declared) if name is None}
    assert told == {"max_rows_per_unit may have been read off the table"}
    both = declare_schema(schema, order="visit", nondecreasing=["day", "age"])
    assert (both.order, both.nondecreasing_in_entity) == ("visit", ("day", "age"))
    assert declare_schema(schema, order="day").nondecreasing_in_entity == ("age",)
    with pytest.raises(SchemaError, match="order='day' never falls by itself"):
        declare_schema(schema, nondecreasing=["day"])


def test_the_order_is_learned_where_another_column_could_compute_it() -> None:
    listed = [[1, 5], [2, 7], [3, 9]]
    rule = {"kind": "fixed_combinations", "columns": ["visit", "wave"], "combinations": listed}
    columns = {**HISTORIES["columns"], "wave": {"kind": "integer", "bounds": [5, 9]}}
    for order in ("visit", "wave"):
        content = {**HISTORIES, "order": order, "columns": columns, "constraints": [rule]}
        assert order in build_schema(content).modeled
