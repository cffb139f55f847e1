"""Shapes of rows that break a constraint: they tell how, and never a value."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.validity.masking import form, shapes
from synth.schema import build_schema

YEAR = ["2020-01-01T00:00:00", "2020-12-31T00:00:00"]
SCHEMA: dict[str, Any] = {
    "status": "declared",
    "columns": {
        "low": {"kind": "integer", "bounds": [0, 100]},
        "high": {"kind": "real", "bounds": [0, 200], "decimals": 1},
        "net": {"kind": "real", "bounds": [0, 300], "missing": True},
        "town": {"kind": "categorical", "categories": ["Wien", "Ålesund"]},
        "ill": {"kind": "boolean"},
        "start": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "end": {"kind": "datetime", "bounds": YEAR},
        "until": {"kind": "datetime", "bounds": YEAR},
    },
}


def shapes_of(rows: dict[str, Any], **constraint: Any) -> list[tuple[str, int]]:
    schema = build_schema({**SCHEMA, "constraints": [constraint]})
    return shapes(pd.DataFrame(rows), schema.constraints[0], schema)


def whole(*values: int) -> Any:
    return pd.array(values, dtype="Int64")


BETWEEN = {"kind": "inequality", "low": "low", "high": "high"}
NIGHT = {"end": pd.to_datetime(["2020-03-17 00:10"]), "until": pd.to_datetime(["2020-03-16 22:47"])}
SHAPES: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, int]]]] = [
    ({"low": whole(93, 94, 40), "high": [10.0, 11.0, 39.9]}, BETWEEN, [
        ("'low' is above 'high' by about 40% of the range of both", 2),
        ("'low' is above 'high' by about 0.05% of the range of both", 1)]),
    ({"low": whole(7), "high": [7.0]}, {**BETWEEN, "strict": True}, [("'low' equals 'high'", 1)]),
    ({"start": pd.to_datetime(["2020-03-17"] * 2), "end": pd.to_datetime(["2020-03-04 11:00", "2020-03-16 22:47"])},
     {"kind": "inequality", "low": "start", "high": "end"}, [
        ("'start' is above 'end' by about 1 days", 1), ("'start' is above 'end' by about 10 days", 1)]),
    (NIGHT, {"kind": "inequality", "low": "end", "high": "until"}, [("'end' is above 'until' by about 1 hours", 1)]),
    (NIGHT, {"kind": "inequality", "low": "end", "high": "until", "by_day": True},
     [("'end' is above 'until' by about 1 days", 1)]),
    ({"town": ["Ålesund", "Ålesund", "Graz 7"], "low": whole(17, 42, 9), "ill": [True] * 3},
     {"kind": "fixed_combinations", "columns": ["town", "low", "ill"], "combinations": [["Wien", 1, False]]}, [
        ("the combination (level 2 of 'town', 99 of 'low', 'ill' true or false) is not listed", 2),
        ("the combination (Aaaa 9 of 'town', 9 of 'low', 'ill' true or false) is not listed", 1)]),
    ({"low": whole(10, 10, 10), "net": [87.5, np.nan, 0.0]},
     {"kind": "formula", "column": "net", "expression": "2 * low"}, [
        ("'net' is above what its formula gives by about 20% of its range", 1),
        ("'net' is below what its formula gives by about 7% of its range", 1),
        ("'net' is missing where its formula gives a value", 1)]),
    ({"town": ["Wien"] * 3, "start": pd.to_datetime(["2020-03-17"] * 3)},
     {"kind": "unique", "columns": ["town", "start"]},
     [("3 rows hold the same values (level 1 of 'town', a time of 'start')", 3)]),
    ({"low": whole()}, {"kind": "unique", "columns": ["low"]}, []),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "constraint", "expected"), SHAPES)
def test_a_shape_tells_how_a_constraint_is_broken_and_no_value(rows: Any, constraint: Any, expected: Any) -> None:
    assert shapes_of(rows, **constraint) == expected


@pytest.mark.parametrize(
    ("text", "masked"), [("", ""), ("Ünal-37", "Aaaa-99"), ("漢字 ٣", "aa 9"), ("x" * 40, "a" * 24 + "..."), ("²", "9")]
)
def test_texts_keep_their_form_alone(text: str, masked: str) -> None:
    assert form(text) == masked
