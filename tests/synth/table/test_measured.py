"""Columns whose domain is to be measured: read cell by cell, anything of their kind allowed, and written back."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.schema import Schema, build_schema
from synth.table import conform, faulty_rows, present, read_table, violations, write_table


def measured(kind: str, **fields: Any) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": {"kind": kind, "measure": True, **fields}}})


def frame(*values: Any) -> pd.DataFrame:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.DataFrame({"x": cells})


GOOD: dict[str, tuple[Schema, list[Any]]] = {
    "integer": (measured("integer"), [2**63 - 1, -(2**63), 0, 7]),
    "small integer": (measured("integer", dtype="int8"), [-128, 127, 0]),
    "real": (measured("real"), [-1e15, 1e15, 0.1, 1e-300]),
    "decimals": (measured("real", decimals=2), [-3.25, 10.5, 0.0]),
    "weight": (measured("weight", decimals=0), [1.0, 10_000_000.0]),
    "text": (measured("categorical"), ["a", "007", "None", '\u00fc,\n"', " "]),
    "category": (measured("categorical", dtype="category"), ["b", "a", "b"]),
    "codes": (measured("categorical", whole_numbers=True), [3, -(2**63), 2**63 - 1]),
    "code category": (measured("categorical", whole_numbers=True, dtype="category"), [3, 1, 3]),
    "small codes": (measured("categorical", whole_numbers=True, dtype="uint8"), [0, 255]),
    "date": (measured("date"), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 2, 29)]),
    "wall": (measured("datetime"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]),
    "nanoseconds": (measured("datetime", dtype="datetime64[ns]"), [dt.datetime(1678, 1, 1), dt.datetime(2262, 4, 9)]),
    "zoned": (
        measured("datetime", timezone="Asia/Tokyo"),
        [dt.datetime(1677, 9, 23, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)],
    ),
    "mixed": (
        measured("datetime", timezone="mixed"),
        [dt.datetime(2000, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=9)))],
    ),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", GOOD)
def test_anything_of_the_kind_fits_and_comes_back_from_a_file(name: str, suffix: str, tmp_path: Path) -> None:
    schema, values = GOOD[name]
    given = frame(*values)
    assert violations(given, schema) == []
    assert not faulty_rows(given, schema).any()
    canonical = conform(given, schema)
    write_table(canonical, tmp_path / f"x{suffix}", schema)
    for outside in ("refuse", "clamp"):
        pd.testing.assert_frame_equal(conform(given, schema, outside=outside), canonical)
        again = read_table(tmp_path / f"x{suffix}", schema, outside=outside)
        pd.testing.assert_frame_equal(again, canonical)
    shown = present(canonical, schema)
    pd.testing.assert_frame_equal(conform(shown, schema), canonical)


@pytest.mark.parametrize(
    ("schema", "value", "rule"),
    [
        (measured("integer", bounds=[0, 9]), 10, r"outside bounds=\[0, 9\]"),
        (measured("integer", dtype="uint8"), 256, r"outside bounds=\[0, 255\]"),
        (measured("integer"), 1.5, "fraction"),
        (measured("real"), 1e16, "outside bounds"),
        (measured("date", bounds=["2000-01-01", "2001-01-01"]), dt.date(1999, 1, 1), "outside bounds"),
        (measured("categorical"), 5.5, "not text"),
        (measured("categorical"), "\ud800", "not text"),
        (measured("categorical", whole_numbers=True), "x", "not numbers"),
        (measured("categorical", whole_numbers=True), 1.5, "fraction"),
        (measured("categorical", whole_numbers=True), 10**30, "outside its categories"),
        (measured("categorical", whole_numbers=True, dtype="int8"), 200, "outside its categories"),
    ],
)
def test_what_is_not_of_the_kind_or_beyond_its_outer_limits_does_not_fit(schema: Schema, value: Any, rule: str) -> None:
    plain: Any = "a" if schema.columns["x"].model_dump().get("whole_numbers") is False else 5
    if schema.columns["x"].kind == "date":
        plain = dt.date(2000, 5, 5)
    found = violations(frame(plain, value), schema)
    assert len(found) == 1
    assert pd.Series([found[0].rule]).str.contains(rule).all()
    assert faulty_rows(frame(plain, value), schema).tolist() == [False, True]


@pytest.mark.parametrize("value", [10**30, -(10**30), 1.5, "1.5", float("inf"), "x", "\ud800", 200])
def test_a_code_that_no_code_can_be_becomes_nobodys(value: Any) -> None:
    schema = measured("categorical", whole_numbers=True, dtype="int8", missing=True)
    assert conform(frame(3, value), schema, outside="clamp")["x"].isna().tolist() == [False, True]


def test_outer_limits_clamp() -> None:
    schema = measured("integer", bounds=[0, 9])
    assert conform(frame(-5, 4, 10**30), schema, outside="clamp")["x"].tolist() == [0, 4, 9]


def test_a_dtype_that_holds_less_than_the_outer_limits_is_found_out() -> None:
    schema = measured("integer", bounds=[0, 300], dtype="int8")
    assert "dtype='int8'" in str(violations(frame(1, 2), schema)[0])
