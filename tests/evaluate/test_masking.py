"""Shapes of rows that break a constraint: they tell how, and never a value."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.validity.masking import MOST, form, shapes
from synth.schema import Schema, build_schema

SCHEMA: dict[str, Any] = {
    "status": "declared",
    "columns": {
        "low": {"kind": "integer", "bounds": [0, 100]},
        "high": {"kind": "real", "bounds": [0, 200], "decimals": 1},
        "net": {"kind": "real", "bounds": [0, 300], "missing": True},
        "town": {"kind": "categorical", "categories": ["Wien", "Ålesund"]},
        "ill": {"kind": "boolean"},
        "start": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "end": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"]},
        "until": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"]},
    },
}


def schema(**constraint: Any) -> Schema:
    return build_schema({**SCHEMA, "constraints": [constraint]})


def shapes_of(rows: dict[str, Any], **constraint: Any) -> list[tuple[str, int]]:
    made = schema(**constraint)
    return shapes(pd.DataFrame(rows), made.constraints[0], made)


def test_an_inequality_tells_the_first_digit_of_the_excess() -> None:
    rows = {"low": pd.array([93, 94, 40], dtype="Int64"), "high": [10.0, 11.0, 39.9]}
    assert shapes_of(rows, kind="inequality", low="low", high="high") == [
        ("'low' is above 'high' by about 40% of the range of both", 2),
        ("'low' is above 'high' by about 0.05% of the range of both", 1),
    ]
    rows = {"low": pd.array([7], dtype="Int64"), "high": [7.0]}
    assert shapes_of(rows, kind="inequality", low="low", high="high", strict=True) == [("'low' equals 'high'", 1)]


def test_times_tell_a_stretch_of_time() -> None:
    rows = {
        "start": pd.to_datetime(["2020-03-17", "2020-03-17"]),
        "end": pd.to_datetime(["2020-03-04 11:00", "2020-03-16 22:47"]),
    }
    assert shapes_of(rows, kind="inequality", low="start", high="end") == [
        ("'start' is above 'end' by about 1 days", 1),
        ("'start' is above 'end' by about 10 days", 1),
    ]


def test_two_times_tell_hours_and_their_days_tell_days() -> None:
    rows = {"end": pd.to_datetime(["2020-03-17 00:10"]), "until": pd.to_datetime(["2020-03-16 22:47"])}
    assert shapes_of(rows, kind="inequality", low="end", high="until") == [
        ("'end' is above 'until' by about 1 hours", 1)
    ]
    assert shapes_of(rows, kind="inequality", low="end", high="until", by_day=True) == [
        ("'end' is above 'until' by about 1 days", 1)
    ]


def test_combinations_tell_levels_and_forms() -> None:
    rows = {"town": ["Ålesund", "Ålesund", "Graz 7"], "low": pd.array([17, 42, 9], dtype="Int64"), "ill": [True] * 3}
    found = shapes_of(
        rows, kind="fixed_combinations", columns=["town", "low", "ill"], combinations=[["Wien", 1, False]]
    )
    assert found == [
        ("the combination (level 2 of 'town', 99 of 'low', 'ill' true or false) is not listed", 2),
        ("the combination (Aaaa 9 of 'town', 9 of 'low', 'ill' true or false) is not listed", 1),
    ]


def test_formulas_tell_direction_and_size_or_what_is_missing() -> None:
    rows = {"low": pd.array([10, 10, 10], dtype="Int64"), "net": [87.5, np.nan, 0.0]}
    assert shapes_of(rows, kind="formula", column="net", expression="2 * low") == [
        ("'net' is above what its formula gives by about 20% of its range", 1),
        ("'net' is below what its formula gives by about 7% of its range", 1),
        ("'net' is missing where its formula gives a value", 1),
    ]


def test_repeats_tell_how_many_rows_share_a_value() -> None:
    rows = {"town": ["Wien"] * 3, "start": pd.to_datetime(["2020-03-17"] * 3)}
    assert shapes_of(rows, kind="unique", columns=["town", "start"]) == [
        ("3 rows hold the same values (level 1 of 'town', a time of 'start')", 3)
    ]


def test_no_shape_holds_a_value_and_only_the_most_frequent_are_shown() -> None:
    rng = np.random.default_rng(0)
    rows = {"low": pd.array(rng.integers(50, 101, 500), dtype="Int64"), "high": rng.integers(0, 400, 500) / 10}
    found = shapes_of(rows, kind="inequality", low="low", high="high")
    assert len(found) == MOST
    assert [n for _, n in found] == sorted((n for _, n in found), reverse=True)
    mixed = {name: pd.Series(values)[::-1].reset_index(drop=True) for name, values in rows.items()}
    assert shapes_of(mixed, kind="inequality", low="low", high="high") == found


def test_no_rows_have_no_shapes() -> None:
    assert shapes_of({"low": pd.array([], dtype="Int64")}, kind="unique", columns=["low"]) == []


@pytest.mark.parametrize(
    ("text", "masked"), [("", ""), ("Ünal-37", "Aaaa-99"), ("漢字 ٣", "aa 9"), ("x" * 40, "a" * 24 + "..."), ("²", "9")]
)
def test_texts_keep_their_form_alone(text: str, masked: str) -> None:
    assert form(text) == masked
