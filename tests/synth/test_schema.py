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
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.declare import assertions, declare_schema, measurable, unconfirmed
from synth.domain import Discretizer
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema_file import read_schema, schema_json, schema_of, to_toml
from synth.table import conform
from synth.table.rows import observe
from synth.validation import GivenFile

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


@settings(max_examples=20, deadline=None)
@given(columns=st.dictionaries(LISTED, COLUMNS, min_size=1, max_size=5))
def test_a_schema_is_read_as_it_was_written(columns: dict) -> None:
    schema = build_schema({"status": "inferred", "columns": columns})
    back = schema_of(GivenFile(Path("s.toml"), to_toml(schema).encode()))
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


REFUSALS = [
    ("", "'status' is missing"),
    (DECLARED, "'columns' is missing"),
    (DECLARED + "[columns.age\n", "line 2"),
    ("format = 2\n" + DECLARED, "format=1, not format=2; upgrade"),
    (DECLARED + "taget = 'age'\n[columns.age]\nkind = 'text'\n", "unknown key 'taget'; did you mean 'target'?"),
    (DECLARED + "[columns.age]\nkind = 'integr'\n", "unknown kind='integr'; did you mean 'integer'?"),
    (DECLARED + "[columns.age]\nkind = 'integer'\nbound = [0, 1]\n", "'columns.age.bound'; did you mean 'bounds'?"),
    (DECLARED + "[columns.age]\nkind = 'integer'\nbounds = [1, 0]\n", "reversed"),
    (DECLARED + "[columns.age]\nkind = 'integer'\n", "'columns.age.bounds' is missing; add it, or set measure"),
    (DECLARED + "[columns.a]\nkind = 'integer'\nmeasure = true\nbins = [0, 9]\n", "columns.a: a column to measure"),
    (DECLARED + "[columns.a]\nkind = 'categorical'\nmeasure = true\ncategories = ['x']\n", "are not listed"),
    (DECLARED + "[columns.a]\nkind = 'categorical'\nmeasure = true\nordered = true\n", "no known order"),
    (DECLARED + "[columns.a]\nkind = 'boolean'\nmeasure = true\n", "unknown key 'columns.a.measure'"),
    (
        DECLARED + "[columns.a]\nkind = 'integer'\nbounds = [0, 9]\nmeasure_spikes = true\nspikes = [1]\n",
        "columns.a: spikes to measure are not listed; leave out the list, or measure_spikes = true",
    ),
    (DECLARED + "dataset = ' a'\n[columns.a]\nkind = 'text'\n", "spaces at its ends"),
    (DECLARED + "[columns.a]\nkind = 'categorical'\ncategories = ['x', 1]\n", "mix texts and whole numbers"),
    (DECLARED + "[columns.a]\nkind = 'categorical'\ncategories = ['x', '']\n", "stands for a missing value"),
    (DECLARED + "[columns.a]\nkind = 'identifier'\nbounds = [0, 18446744073709551616]\n", "a number is too large"),
    (DECLARED + "n_units = 0\n[columns.a]\nkind = 'text'\n", "n_units=0"),
]


@pytest.mark.parametrize(("text", "clause"), REFUSALS)
def test_a_faulty_schema_file_gets_one_sentence(text: str, clause: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        read_schema(path)
    assert clause in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["y\0z", "a\udfff", "\0" * 200])
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


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        ({"kind": "integer"}, (-(2**63), 2**63 - 1)),
        ({"kind": "date", "dtype": "datetime64[ns]"}, (dt.date(1677, 9, 23), dt.date(2262, 4, 10))),
        ({"kind": "datetime", "timezone": "UTC"}, (dt.datetime(1677, 9, 23), dt.datetime(9999, 12, 30, 23, 59, 59))),
        (
            {"kind": "datetime", "timezone": "mixed", "precision": "h"},
            (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23)),
        ),
    ],
)
def test_bounds_to_measure_reach_as_far_as_kind_and_dtype_do(column: dict[str, Any], bounds: tuple[Any, Any]) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {**column, "measure": True}}})
    measured: Any = schema.columns["x"]
    assert measured.bounds == bounds


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
        {"columns": {"a": {"kind": "integr", "bounds": [0, 1]}}},
        {"columns": {"a": {"kind": "integer", "bound": [0, 1]}}},
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


def test_kept_free_text_is_refused() -> None:
    with pytest.raises(SchemaError, match="column='note' is of kind text; set learn = true"):
        declare_schema(
            build_schema({"status": "inferred", "columns": {"note": {"kind": "text"}, "age": DECLARED_COLUMNS["age"]}})
        )


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


@pytest.mark.parametrize(
    ("key", "name", "rule"),
    [
        ("measure", "agee", "'agee' is not a column; did you mean 'age'?"),
        ("measure", "flag", "'flag' is of kind boolean, which has nothing to measure"),
        ("measure", "id", "'id' is of kind identifier"),
        (
            "measure_spikes",
            "flag",
            "'flag' is of kind boolean; frequent values are measured of integer, real and weight",
        ),
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
    assert "frequent values are not asserted: a private fit measures them" in dict(assertions(declared))["pay"]


KINDS: dict[str, dict[str, Any]] = {
    "whole": {"kind": "integer"}, "real": {"kind": "real", "decimals": 1}, "weight": {"kind": "weight"},
    "day": {"kind": "date"}, "wall": {"kind": "datetime"}, "zoned": {"kind": "datetime", "timezone": "Europe/Paris"},
    "mixed": {"kind": "datetime", "timezone": "mixed"}, "town": {"kind": "categorical"},
    "code": {"kind": "categorical", "whole_numbers": True},
}  # fmt: skip


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


@pytest.mark.parametrize("rows", [0, 4])
def test_columns_without_a_value_still_get_a_domain_with_codes(rows: int) -> None:
    schema = to_measure()
    empty = conform(
        pd.DataFrame({name: [None] * rows for name in schema.columns}, dtype=object), schema, outside="clamp"
    )
    seen = observe(schema, empty)
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
