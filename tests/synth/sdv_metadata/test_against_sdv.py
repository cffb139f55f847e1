"""Metadata there and back, with SDV itself as the judge of what it reads, and of tables under what it is given."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import identifiers
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.sdv_metadata import SPECS, from_sdv, to_sdv

CONTENT: dict[str, Any] = {
    "status": "declared",
    "columns": {
        "visit": {"kind": "identifier", "template": "V-####"},
        "age": {"kind": "integer", "bounds": [0, 120]},
        "price": {"kind": "real", "bounds": [0.5, 99.5], "decimals": 2, "missing": True},
        "open": {"kind": "real", "measure": True},
        "grade": {"kind": "categorical", "categories": ["low", "high"], "ordered": True},
        "code": {"kind": "categorical", "categories": [1, 2, 3]},
        "town": {"kind": "categorical", "measure": True, "missing": True},
        "ill": {"kind": "boolean"},
        "born": {"kind": "date", "bounds": ["1950-01-01", "2000-12-31"], "format": "%d.%m.%Y"},
        "seen": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T23:59:00"], "format": "%Y-%m-%d %H:%M",
            "precision": "min",
        },
        "mail": {"kind": "personal", "personal": "email"},
        "ssn": {"kind": "personal", "personal": "national_id"},
        "patient": {"kind": "identifier", "template": "AA##"},
        "note": {"kind": "text", "drop": True, "missing": True},
    },
    "entity": "patient",
}  # fmt: skip


@pytest.fixture(scope="module")
def sdv() -> Any:
    pytest.importorskip("sdv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdv.metadata import Metadata
    return Metadata


def loaded(sdv: Any, metadata: dict[str, Any]) -> Any:
    """The metadata as SDV reads it, which also finds it valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what version 1 held, and of a table without a name
        made = sdv.load_from_dict(json.loads(json.dumps(metadata)))
        made.validate()
    return made


def rows(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    schema = build_schema(CONTENT)
    return pd.DataFrame({
        "visit": identifiers.generate(schema.columns["visit"], n, rng),  # type: ignore[arg-type]
        "age": rng.integers(0, 121, n),
        "price": np.where(rng.random(n) < 0.1, np.nan, rng.integers(50, 9950, n) / 100),
        "open": rng.normal(size=n).round(9),
        "grade": rng.choice(["low", "high"], n),
        "code": rng.integers(1, 4, n),
        "town": rng.choice(["North", "South", None], n),
        "ill": rng.random(n) < 0.5,
        "born": [f"{i % 28 + 1:02d}.03.{1950 + i % 50}" for i in range(n)],
        "seen": [f"2020-05-{i % 28 + 1:02d} 10:{i % 60:02d}" for i in range(n)],
        "mail": [f"user{i}@example.org" for i in range(n)],
        "ssn": [f"123-45-{6000 + i}" for i in range(n)],
        "patient": [f"AB{i // 3:02d}" for i in range(n)],
        "note": ["a note"] * n,
    })  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_sdv_reads_every_version_that_is_written(sdv: Any, spec: Any) -> None:
    made = loaded(sdv, to_sdv(build_schema(CONTENT), spec=spec).metadata)
    table = next(iter(made.tables.values()))
    assert table.primary_key == "visit"
    assert table.sequence_key == "patient"
    assert list(table.columns) == list(CONTENT["columns"])


def test_sdv_finds_a_table_that_fits_the_schema_to_fit_the_metadata(sdv: Any) -> None:
    made = loaded(sdv, to_sdv(build_schema(CONTENT), table="visits").metadata)
    made.validate_data({"visits": rows()})
    with pytest.raises(Exception, match="Out of range values found for numerical column 'age'"):
        made.validate_data({"visits": rows().assign(age=121)})
    with pytest.raises(Exception, match="Invalid null values found for categorical column 'code'"):
        made.validate_data({"visits": rows().assign(code=None)})


@pytest.mark.slow  # for a key of personal data SDV loads every locale of Faker
@pytest.mark.parametrize("spec", SPECS)
def test_personal_data_that_never_repeats_is_a_key(sdv: Any, spec: Any) -> None:
    columns = {**CONTENT["columns"], "ssn": {**CONTENT["columns"]["ssn"], "unique": True}}
    written = to_sdv(build_schema({**CONTENT, "columns": columns}), spec=spec).metadata
    made = loaded(sdv, written)
    assert next(iter(made.tables.values())).alternate_keys == ["ssn"]
    back: Any = from_sdv(made.to_dict()).schema.columns["ssn"]
    assert back.unique


def comparable(schema: Schema) -> dict[str, Any]:
    return {name: column.model_dump() for name, column in schema.columns.items()}


def test_a_schema_comes_back_whole_from_version_2() -> None:
    schema = build_schema(CONTENT)
    back = from_sdv(json.loads(json.dumps(to_sdv(schema).metadata)))
    assert comparable(back.schema) == comparable(schema)
    assert back.schema.entity == "patient"
    assert back.lost == ()


@pytest.mark.parametrize("spec", ["V1", "SINGLE_TABLE_V1"])
def test_kinds_keys_and_formats_come_back_from_version_1(spec: Any) -> None:
    schema = build_schema(CONTENT)
    back = from_sdv(to_sdv(schema, spec=spec).metadata).schema
    for name, column in schema.columns.items():
        other: Any = back.columns[name]
        assert other.kind == column.kind
        for key in ("template", "format", "precision", "personal", "unique", "drop"):
            assert getattr(other, key, None) == getattr(column, key, None)
    assert back.entity == "patient"
    assert back.columns["grade"].categories == ("low", "high")  # type: ignore[union-attr]
    assert back.columns["age"].measure  # type: ignore[union-attr]


@pytest.mark.parametrize("spec", ["V1", "SINGLE_TABLE_V1"])
def test_with_the_data_version_1_comes_back_with_bounds_and_categories(spec: Any) -> None:
    schema = build_schema(CONTENT)
    back = from_sdv(to_sdv(schema, spec=spec).metadata, data=rows()).schema
    assert back.status == "inferred"
    age: Any = back.columns["age"]
    assert (age.kind, age.bounds) == ("integer", (int(rows()["age"].min()), int(rows()["age"].max())))
    price: Any = back.columns["price"]
    assert (price.kind, price.decimals, price.missing) == ("real", 2, True)
    assert back.columns["town"].categories == ("North", "South")  # type: ignore[union-attr]
    assert back.columns["code"].categories == (1, 2, 3)  # type: ignore[union-attr]
    assert back.columns["ill"].missing is False


def test_what_sdv_detects_comes_back_as_it_was(sdv: Any) -> None:
    frame = rows().drop(columns=["note", "ssn", "patient"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detected = sdv.detect_from_dataframes({"t": frame})
    said = json.loads(json.dumps(detected.to_dict(), default=str))
    made = from_sdv(said, data=frame)
    written = loaded(sdv, to_sdv(made.schema, table="t").metadata)
    written.validate_data({"t": frame})
    first, second = said["tables"]["t"], written.to_dict()["tables"]["t"]
    assert second["primary_key"] == first["primary_key"]
    told = " ".join(made.lost)
    for name, column in first["columns"].items():
        for key, value in column.items():
            there = second["columns"][name].get(key)
            assert there == value or f"column={name!r}" in told or (key, value) == ("high_cardinality", False), (
                name,
                key,
            )


METADATA: dict[str, Any] = {
    "tables": {
        "t": {
            "primary_key": "visit",
            "alternate_keys": ["mail"],
            "sequence_key": "patient",
            "columns": {
                "visit": {"sdtype": "id", "regex_format": r"V-\d{4}"},
                "age": {"sdtype": "numerical", "decimal_places": 0, "range_min": 0, "range_max": 120},
                "low": {"sdtype": "numerical", "range_min": 0.5, "range_is_nullable": True},
                "grade": {"sdtype": "ordinal", "range_values": ["b", "a"], "range_is_nullable": False},
                "day": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y", "range_min": "01.02.2020",
                        "range_max": "03.04.2021"},
                "ill": {"sdtype": "boolean"},
                "mail": {"sdtype": "email", "pii": True},
                "ip": {"sdtype": "ipv4_address", "pii": True},
                "patient": {"sdtype": "id", "regex_format": "[A-Z]{2}[0-9]{2}"},
                "doctor": {"sdtype": "id", "regex_format": "[0-9]{5}"},
            },
        }
    },
    "relationships": [],
    "METADATA_SPEC_VERSION": "V2",
}  # fmt: skip


@pytest.mark.slow  # for a key of personal data SDV loads every locale of Faker
def test_what_sdv_knows_comes_back_but_for_what_is_told(sdv: Any) -> None:
    loaded(sdv, METADATA)
    made = from_sdv(METADATA)
    back = loaded(sdv, to_sdv(made.schema, table="t").metadata).to_dict()["tables"]["t"]
    said = METADATA["tables"]["t"]
    assert {key: back[key] for key in ("primary_key", "alternate_keys", "sequence_key")} == {
        key: said[key] for key in ("primary_key", "alternate_keys", "sequence_key")
    }
    for name, column in said["columns"].items():
        for key, value in column.items():
            if name != "ip" and key != "regex_format":
                assert back["columns"][name].get(key) == value, (name, key)
    assert back["columns"]["visit"]["regex_format"] == "V-[0-9]{4}"
    assert len(made.lost) == 2
    assert any("'ip'" in text and "ipv4_address" in text for text in made.lost)
    assert any("'doctor'" in text and "no key" in text for text in made.lost)


def test_real_tables_go_there_and_back(sdv: Any, shared_table: Callable[[str], Path]) -> None:
    frame = pd.read_csv(shared_table("insurance.csv.gz"))
    schema = infer_schema(frame, target="charges")
    made = to_sdv(schema, table="t")
    loaded(sdv, made.metadata).validate_data({"t": frame})
    back = from_sdv(made.metadata).schema
    assert {
        n: (c.kind, getattr(c, "bounds", None), getattr(c, "categories", None)) for n, c in back.columns.items()
    } == {n: (c.kind, getattr(c, "bounds", None), getattr(c, "categories", None)) for n, c in schema.columns.items()}
    assert any("target" in text for text in made.lost)


def test_a_key_of_several_columns_tells_the_rows_of_an_entity_apart(sdv: Any) -> None:
    columns = {
        "who": {"sdtype": "id", "regex_format": "[0-9]{4}"},
        "visit": {"sdtype": "numerical", "decimal_places": 0, "range_min": 1, "range_max": 9},
        "code": {"sdtype": "id", "regex_format": "[A-Z]{4}"},
    }
    table = {"primary_key": ["who", "visit"], "alternate_keys": ["code"], "columns": columns}
    said = {"METADATA_SPEC_VERSION": "V2", "tables": {"t": table}, "relationships": []}
    loaded(sdv, said)
    made = from_sdv(said)
    assert made.schema.entity == "who"
    assert [str(constraint) for constraint in made.schema.constraints] == ["'who' and 'visit' never repeat together"]
    assert made.lost == ()
    back = loaded(sdv, to_sdv(made.schema, table="t").metadata).to_dict()["tables"]["t"]
    assert (back["primary_key"], back["alternate_keys"], back["sequence_key"]) == (["who", "visit"], ["code"], "who")
    assert any("never repeat together" in text for text in to_sdv(made.schema, spec="V1").lost)
