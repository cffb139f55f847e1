"""Columns of personal data: what a schema may say of them, and how tables with them are read and shown."""

import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.columns import KINDS
from synth.declare import assertions, declare_schema
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml
from synth.table import conform, present, violations


def schema_of(**columns: dict[str, Any]) -> Schema:
    return build_schema({"status": "declared", "columns": {"age": {"kind": "integer", "bounds": [0, 99]}, **columns}})


def personal(what: str, **more: Any) -> dict[str, Any]:
    return {"kind": "personal", "personal": what, **more}


def test_a_schema_with_personal_columns_is_written_and_read_back_unchanged() -> None:
    schema = schema_of(
        name=personal("name", locale="de_DE"),
        tel=personal("phone", template="+1 (###) 555-01##", unique=True),
        note=personal("text", length=200, missing=True, missing_share=0.25),
        gone=personal("iban", drop=True),
    )
    assert build_schema(tomllib.loads(to_toml(schema))) == schema
    assert KINDS["personal"] is type(schema.columns["name"])


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (personal("name", locale="de_ED"), "locale='de_ED' is none that Faker knows; did you mean 'de_DE'?"),
        (personal("name", locale="klingon"), 'write one such as "en_US"'),
        (personal("name", locale="it_CH"), "locale='it_CH' has no values for personal='name'"),
        (personal("iban"), "locale='en_US' has no IBAN"),
        (personal("iban", locale="ja_JP"), "locale='ja_JP' has no IBAN"),
        (personal("national_id", locale="de_DE"), "needs a template"),
        (personal("email", template="##"), "leave it out of personal='email'"),
        (personal("card_number", template="####"), "13 to 19 #"),
        (personal("card_number", template="A" + "#" * 15), "13 to 19 #"),
        (personal("phone", dtype="int64"), "holds numbers only"),
        (personal("phone", dtype="int64", template="###-####"), "holds numbers only"),
        (personal("name", length=9), "length is for"),
        (personal("name", missing_share=0.5), "set missing = true"),
        (personal("emial"), "input should be 'name'"),
        ({"kind": "personal"}, "'columns.x.personal' is missing"),
    ],
)
def test_what_could_not_be_written_is_refused_with_the_remedy(column: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        schema_of(x=column)
    assert sentence in str(refusal.value)


def test_a_locale_of_the_same_language_lends_its_names_but_no_addresses() -> None:
    schema_of(x=personal("name", locale="en_AU"))
    with pytest.raises(SchemaError, match="has no values for personal='address'"):
        schema_of(x=personal("address", locale="en_KE"))


def test_personal_columns_are_kept_and_never_learned_nor_named_by_roles_that_need_learning() -> None:
    schema = schema_of(mail=personal("email"))
    assert schema.kept == ("age", "mail")
    assert schema.learned == schema.modeled == ("age",)
    content = {**schema.model_dump(mode="json"), "target": "mail"}
    with pytest.raises(SchemaError, match="target='mail'"):
        build_schema(content)
    low = {**schema.model_dump(mode="json"), "constraints": [{"kind": "inequality", "low": "age", "high": "mail"}]}
    with pytest.raises(SchemaError, match="'mail' is of kind personal, which is made anew"):
        build_schema(low)


def test_kept_free_text_is_refused_and_both_ways_out_are_named() -> None:
    with pytest.raises(SchemaError, match=r'drop = true for it, or kind = "personal"'):
        schema_of(note={"kind": "text"}).refuse_text()


def test_declaring_says_that_nothing_is_learned_and_measures_nothing() -> None:
    schema = schema_of(tel=personal("phone", template="555-01##", missing=True, missing_share=0.2))
    said = dict(assertions(schema))["tel"]
    assert "never learned, written anew by Faker like '555-01##', 20% of them missing" in said
    with pytest.raises(SchemaError, match="nothing to measure"):
        declare_schema(schema, measure=["tel"])


@pytest.mark.parametrize("outside", ["refuse", "clamp"])
def test_whatever_stands_in_a_real_personal_column_is_read_and_refuses_no_table(outside: Any) -> None:
    schema = schema_of(tel=personal("phone", missing=True))
    cells = [5550123, "call me", 5550124.0, None, "", 1.5]
    frame = pd.DataFrame({"age": range(6), "tel": pd.Series(cells, dtype=object)})
    read = conform(frame, schema, outside=outside)
    assert read["tel"].tolist() == ["5550123", "call me", "5550124", None, None, "1.5"]
    numbers = frame.assign(tel=[np.nan, *map(float, range(5))])
    assert conform(numbers, schema, outside=outside)["tel"].tolist() == [None, "0", "1", "2", "3", "4"]


def test_a_value_that_may_not_be_missing_is_asked_for() -> None:
    frame = pd.DataFrame({"age": [1, 2], "tel": ["1", None]})
    assert [v.column for v in violations(frame, schema_of(tel=personal("phone")))] == ["tel"]


@pytest.mark.parametrize("dtype", ["int64", "Int64", "string", "category", "object", "float64"])
def test_values_come_in_the_declared_dtype(dtype: str) -> None:
    schema = schema_of(x=personal("card_number", dtype=dtype, missing=True))
    frame = pd.DataFrame({"age": [1, 2], "x": ["4242424242424242", "4000056655665556"]})
    assert str(present(conform(frame, schema), schema)["x"].dtype) == dtype


@pytest.mark.parametrize("column", [personal("phone", template="555\\\\\\"), {"kind": "identifier", "template": "\\"}])
def test_a_template_ends_with_no_half_of_a_backslash(column: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="half a backslash; write two for one"):
        schema_of(c=column)


def test_identifiers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(SchemaError, match="bounds exceed 64 bits; declare a template"):
        schema_of(c={"kind": "identifier", "bounds": [0, 2**64]})


@pytest.mark.parametrize(
    ("dtype", "digits"), [("int8", 3), ("Int32", 10), ("int64", 19), ("float32", 8), ("float64", 16)]
)
def test_a_dtype_that_does_not_hold_the_numbers_is_refused_before_anything_is_fitted(dtype: str, digits: int) -> None:
    schema_of(x=personal("account_number", template="#" * (digits - 1), dtype=dtype))
    with pytest.raises(SchemaError, match="does not hold numbers as long as these"):
        schema_of(x=personal("account_number", template="#" * digits, dtype=dtype))
