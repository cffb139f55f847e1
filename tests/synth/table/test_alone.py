"""A private fit reads every cell alone: no row changes how another is read, and no cell stops the fit."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.schema import Schema, build_schema
from synth.table import conform, read_table


class Spiteful:
    """A cell whose every method raises."""

    def __str__(self) -> str:
        raise ValueError("secret")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret")

    def __hash__(self) -> int:
        raise RuntimeError("secret")


class SpitefulZone(dt.tzinfo):
    """A zone that raises when it is asked for its offset."""

    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        raise ValueError("secret")


HOSTILE: dict[str, Any] = {
    "none": None, "nan": float("nan"), "pd.NA": pd.NA, "NaT": pd.NaT, "empty": "", "text": "x", "number text": "1",
    "fraction": 1.5, "whole float": 1.0, "infinite": float("inf"), "true": True, "numpy true": np.True_, "huge": 10**30,
    "endless text": "1" * 50_000 + "x", "decimal": Decimal("1.5"), "signaling": Decimal("sNaN"),
    "vast decimal": Decimal("1e1000000"), "complex": 1j, "real complex": 1 + 0j, "list": [1], "bytes": b"1",
    "array": np.array([1, 2]), "date": dt.date(2020, 1, 1), "time": dt.datetime(2020, 1, 1, 5),
    "aware": dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=3))),
    "spiteful zone": dt.datetime(2020, 1, 1, tzinfo=SpitefulZone()), "first": dt.datetime.min, "last": dt.datetime.max,
    "stamp": pd.Timestamp("2020-01-01"), "far stamp": pd.Timestamp(np.datetime64("20000-01-01", "s")),
    "day": np.datetime64("2020-01-01"), "span": np.timedelta64(1, "D"), "surrogate": "\ud800",
    "long double": np.longdouble("1e4000"), "spiteful": Spiteful(), "type": int,
}  # fmt: skip

HOURS = ["2001-10-28T02:30:00", "2001-03-25T02:15:00", "2001-01-01T05:00:00"]
BASES: dict[str, tuple[dict[str, Any], list[list[Any]]]] = {
    "integer": (
        {"kind": "integer", "bounds": [0, 10]},
        [[1, 2, 3], [1.0, 2.0, 3.0], [True, False, True], ["1", "2", "3"], [1, 2.5, 3], [Decimal(1), Decimal(2), 3]],
    ),
    "real": (
        {"kind": "real", "bounds": [0, 10], "decimals": 2},
        [[1, 2, 3], [1.25, 2.0, 3.0], [True, False, True], ["1", "2.5", "3"], [Decimal("1.5"), 2, 3]],
    ),
    "text": (
        {"kind": "categorical", "categories": ["1", "2", "a", "True"]},
        [["1", "a", "2"], [1, 2, 1], [1.0, 2.0, 1.0], [1, 1.5, 2], [True, False, True]],
    ),
    "codes": (
        {"kind": "categorical", "categories": [0, 1, 2]},
        [[1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], [True, False, True]],
    ),
    "boolean": (
        {"kind": "boolean", "tokens": ["n", "y"]},
        [["n", "y", "y"], [True, False, True], [0, 1, 1], [0.0, 1.0, 1.0]],
    ),
    "date": (
        {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"]},
        [["2001-01-01"] * 3, [dt.date(2001, 1, 1)] * 3, [pd.Timestamp("2001-01-01")] * 3],
    ),
    "wall clock": (
        {"kind": "datetime", "bounds": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"]},
        [
            HOURS, [pd.Timestamp(h) for h in HOURS], [pd.Timestamp("2001-01-01T05:00:00.000000001")] * 3,
            [np.datetime64("20000-01-01", "s"), np.datetime64("2001-01-01", "s"), np.datetime64("-0001-01-01", "s")],
        ],
    ),
    "zoned": (
        {"kind": "datetime", "bounds": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"], "timezone": "Europe/Paris"},
        [
            HOURS, [pd.Timestamp(h) for h in HOURS], [pd.Timestamp("2001-01-01", tz="Asia/Tokyo")] * 3,
            [dt.datetime(2001, 10, 28, 2, 30, fold=1), dt.datetime(2001, 3, 25, 2, 15, fold=1)],
        ],
    ),
    "mixed zones": (
        {"kind": "datetime", "bounds": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"], "timezone": "mixed"},
        [["2001-01-01T05:00:00+01:00"] * 3, [pd.Timestamp("2001-01-01", tz="Asia/Tokyo")] * 3],
    ),
}  # fmt: skip
CASES = [(name, index) for name, (_, bases) in BASES.items() for index in range(len(bases))]


def schema_of(name: str) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": {**BASES[name][0], "missing": True}}})


def cells(series: pd.Series, schema: Schema) -> list[int]:
    clamped = conform(pd.DataFrame({"x": series}), schema, outside="clamp")
    return list(Discretizer.by_schema(schema).attributes[0].cells(clamped["x"]))


def as_objects(values: list[Any]) -> pd.Series:
    made = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        made[index] = value
    return pd.Series(made, dtype=object)


@pytest.mark.parametrize(("name", "base"), CASES)
def test_one_more_cell_changes_the_reading_of_no_other(name: str, base: int) -> None:
    schema, values = schema_of(name), BASES[name][1][base]
    expected = cells(as_objects(values), schema)
    assert cells(pd.Series(values), schema) == expected  # the dtype that pandas chooses says nothing either
    for label, hostile in HOSTILE.items():
        assert cells(as_objects([*values, hostile]), schema)[:-1] == expected, label


@pytest.mark.parametrize(("name", "base"), CASES)
def test_neither_does_a_dtype_that_pandas_chooses_because_of_it(name: str, base: int) -> None:
    schema, values = schema_of(name), BASES[name][1][base]
    expected = cells(pd.Series(values), schema)
    for label in ("none", "nan", "NaT", "fraction", "true", "text", "complex", "real complex", "stamp", "aware"):
        inferred = pd.Series([*values, HOSTILE[label]])
        assert cells(inferred, schema)[:-1] == expected, label


def test_a_level_of_a_category_dtype_says_nothing_about_the_others() -> None:
    schema = schema_of("text")
    whole = pd.Series(pd.Categorical([1, 2, 1], categories=[1, 2]))
    wider = pd.Series(pd.Categorical([1, 2, 1, 1.5], categories=[1, 2, 1.5]))
    assert cells(wider, schema)[:-1] == cells(whole, schema)


def test_a_missing_value_in_a_parquet_file_changes_no_other(tmp_path: Path) -> None:
    schema = schema_of("text")
    read = []
    for values in ([1, 2, 1], [1, 2, 1, None]):
        pd.DataFrame({"x": values}).to_parquet(tmp_path / "x.parquet")
        read.append(list(read_table(tmp_path / "x.parquet", schema, outside="clamp")["x"]))
    assert read[1][:-1] == read[0]


@pytest.mark.parametrize("name", [None, "A17", 1.5, 10**30, "", float("nan"), Spiteful()], ids=range(7))
def test_an_entity_that_is_no_whole_number_is_nobodys(name: Any) -> None:
    columns = {"who": {"kind": "identifier", "bounds": [0, 99]}, "x": {"kind": "boolean"}}
    schema = build_schema({"status": "declared", "entity": "who", "columns": columns})
    frame = pd.DataFrame({"who": as_objects([1, 2, name]), "x": [True, False, True]})
    who = conform(frame, schema, outside="clamp")["who"]
    assert who.tolist()[:2] == [1, 2]
    assert who.isna().tolist() == [False, False, True]
