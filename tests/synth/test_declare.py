"""Declaring a schema says, column by column, what is thereby asserted to be public."""

from typing import Any

import pytest

from synth.declare import assertions, declare_schema
from synth.errors import SchemaError
from synth.schema import Schema, build_schema

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
