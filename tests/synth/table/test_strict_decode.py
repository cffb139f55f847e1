"""A private fit reads every cell alone: no row changes how another is read, and no cell stops the fit."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.infer.facts import look
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
    "day": np.datetime64("2020-01-01"), "span": np.timedelta64(1, "D"),
    "endless span": np.timedelta64(2**62, "D"), "last span": dt.timedelta.max,
    "clock": dt.time(5, tzinfo=SpitefulZone()), "endless hours": "1" * 50_000 + ":00", "grouped": "1" + ",000" * 20_000,
    "surrogate": "\ud800",
    "endless day": np.datetime64(2**62, "D"), "endless stamp": pd.Timestamp(np.datetime64(2**62, "s")),
    "endless aware": pd.Timestamp(np.datetime64(2**62, "s")).tz_localize("UTC"),
    "last aware": dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    "last stamp": pd.Timestamp(np.datetime64("9999-12-31T23:30", "s"), tz="UTC").tz_convert("Asia/Tokyo"),
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
    "digits": (
        {"kind": "datetime", "bounds": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"], "format": "%Y%m%d%H%M"},
        [["200101010500"] * 3, [200101010500, 200101010501], [200101010500.0, 200101010501.0, 200101010502.0]],
    ),
    "midnights": (
        {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"], "timezone": "Europe/Paris"},
        [["2001-01-01"] * 3, [pd.Timestamp("2001-01-01", tz="Europe/Paris")] * 3],
    ),
    "written": (
        {"kind": "real", "bounds": [0, 9000], "decimals": 2, "format": "$#,##0.00", "below": ["-"], "above": [9999]},
        [["$1,250.00", "2.5", "-"], [1, 2, 9999], [1.25, 2.0, 9999.0]],
    ),
    "comma": ({"kind": "real", "bounds": [0, 9000], "format": "#.##0,00"}, [["1.250,00", "2,5"], [1.25, 2.125, 1e3]]),
    "beside": (
        {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"], "above": ["never", "9999-12-31"]},
        [["2001-01-01", "9999-12-31", "never"], [dt.date(2001, 1, 1), dt.date(9999, 12, 31)]],
    ),
    "clock": (
        {"kind": "clock", "bounds": [0, 1439], "precision": "min", "format": "%-H%M"},
        [["745", "7:45"], [745, 1200], [745.0, 1200.0], [dt.time(7, 45), dt.time(12)]],
    ),
    "duration": (
        {"kind": "duration", "bounds": [0, 86400]},
        [["1:00:00", "26:03"], [3600, 1], [3600.0, 1.0], [dt.timedelta(hours=1), dt.timedelta(1)]],
    ),
}  # fmt: skip
CASES = [(name, index) for name, (_, bases) in BASES.items() for index in range(len(bases))]


@cache
def schema_of(name: str) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": {**BASES[name][0], "missing": True}}})


@cache
def attribute_of(name: str) -> Any:
    return Discretizer.by_schema(schema_of(name)).attributes[0]


def cells(series: pd.Series, name: str) -> list[int]:
    clamped = conform(pd.DataFrame({"x": series}), schema_of(name), outside="clamp")
    return list(attribute_of(name).cells(clamped["x"]))


def as_objects(values: list[Any]) -> pd.Series:
    result = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        result[index] = value
    return pd.Series(result, dtype=object)


@pytest.mark.parametrize(("name", "base"), CASES)
def test_one_more_cell_changes_the_reading_of_no_other(name: str, base: int) -> None:
    values = BASES[name][1][base]
    expected = cells(as_objects(values), name)
    assert cells(pd.Series(values), name) == expected  # the dtype that pandas chooses says nothing either
    # Each form of a kind's values meets a share of the hostile cells, all forms of it all.
    share = [*HOSTILE.items()][base :: len(BASES[name][1])]
    for label, hostile in [*share, *continued(values).items()]:
        assert cells(as_objects([hostile, *values, hostile]), name)[1:-1] == expected, label


def continued(values: list[Any]) -> dict[str, Any]:
    """Texts that to C end where the column's own texts do: whichever was met first stood for both."""
    return {f"{value} and NUL": f"{value}\0x" for value in values if isinstance(value, str)}


def test_a_text_that_goes_on_after_a_nul_is_no_other_text() -> None:
    columns = {"c": {"kind": "categorical", "measure": True}}
    schema = build_schema({"status": "declared", "columns": columns})
    for rows in (["a\0x", "a", "b"], ["a", "b", "a\0x"], ["a\0x", "a", "b", None]):
        read = conform(pd.DataFrame({"c": pd.Series(rows, dtype=object)}), schema, outside="clamp", part=True)["c"]
        assert read.tolist() == [None if row == "a\0x" else row for row in rows]
    seen = look(pd.Series(["a\0x", "a", "b"], dtype=object), frozenset())
    assert seen.cells[seen.codes].tolist() == ["a\0x", "a", "b"]


def taking_out_a_row_moves_no_other(values: list[Any], name: str, make: Any) -> None:
    whole = make(values)
    expected = cells(whole, name)
    for row in range(len(values)):
        rest = expected[:row] + expected[row + 1 :]
        assert cells(whole.drop(row), name) == rest, row
        assert cells(make(values[:row] + values[row + 1 :]), name) == rest, row


@pytest.mark.parametrize("name", ["integer", "real", "text", "codes", "boolean"])
@pytest.mark.parametrize(
    "dtype", ["uint64", "Int64", "UInt64", "Float64", "boolean", "float32", "int8", "Sparse[float64]"]
)
def test_taking_out_any_row_of_a_typed_column_moves_no_other(name: str, dtype: str) -> None:
    values: list[Any] = [1, 0, 1]
    values += {"uint64": [2**64 - 1], "UInt64": [2**64 - 1, None], "Int64": [None], "Float64": [1.5, None]}.get(
        dtype, []
    )
    values += {"boolean": [None], "float32": [0.1, np.nan], "Sparse[float64]": [np.nan, 0.5]}.get(dtype, [])
    taking_out_a_row_moves_no_other(values, name, lambda rows: pd.Series(rows, dtype=dtype))


@pytest.mark.parametrize(("name", "base"), CASES)
def test_neither_does_a_dtype_that_pandas_chooses_because_of_it(name: str, base: int) -> None:
    values = BASES[name][1][base]
    expected = cells(pd.Series(values), name)
    for label in ("none", "nan", "NaT", "fraction", "true", "text", "complex", "real complex", "stamp", "aware"):
        inferred = pd.Series([*values, HOSTILE[label]])
        assert cells(inferred, name)[:-1] == expected, label


@pytest.mark.parametrize("name", [None, "A17", 1.5, 10**30, "", float("nan"), Spiteful()], ids=range(7))
def test_an_entity_that_is_no_whole_number_is_nobodys(name: Any) -> None:
    columns = {"who": {"kind": "identifier", "bounds": [0, 99]}, "x": {"kind": "boolean"}}
    schema = build_schema({"status": "declared", "entity": "who", "columns": columns})
    frame = pd.DataFrame({"who": as_objects([1, 2, name]), "x": [True, False, True]})
    who = conform(frame, schema, outside="clamp")["who"]
    assert who.tolist()[:2] == [1, 2]
    assert who.isna().tolist() == [False, False, True]


WIDE: dict[str, dict[str, Any]] = {
    "integer": {"kind": "integer"}, "real": {"kind": "real"}, "weight": {"kind": "weight", "decimals": 1},
    "text": {"kind": "categorical"}, "codes": {"kind": "categorical", "whole_numbers": True},
    "small codes": {"kind": "categorical", "whole_numbers": True, "dtype": "int8"},
    "date": {"kind": "date"}, "wall clock": {"kind": "datetime"},
    "zoned": {"kind": "datetime", "timezone": "Europe/Paris"}, "mixed zones": {"kind": "datetime", "timezone": "mixed"},
}  # fmt: skip


def wide(name: str) -> Schema:
    column = {**WIDE[name], "measure": True, "missing": True}
    return build_schema({"status": "declared", "columns": {"x": column}})


def readings(column: Any, schema: Schema) -> list[str]:
    """The canonical values of a clamped column, to the last digit."""
    values = conform(pd.DataFrame({"x": column}), schema, outside="clamp")["x"]
    return ["missing" if pd.isna(value) else repr(value) for value in values]


@dataclass(frozen=True)
class Named:
    """A hostile cell by its name, which can be shown."""

    label: str


PLAIN = st.none() | st.text(max_size=8) | st.integers() | st.floats() | st.booleans() | st.decimals() | st.dates()
CELLS = PLAIN | st.datetimes() | st.datetimes(timezones=st.timezones()) | st.builds(Named, st.sampled_from([*HOSTILE]))


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(WIDE)), row=st.lists(CELLS, min_size=1, max_size=6))
def test_every_cell_reads_as_it_does_in_a_table_of_its_own(name: str, row: list[Any]) -> None:
    schema = wide(name)
    rows = [HOSTILE[cell.label] if isinstance(cell, Named) else cell for cell in row]
    assert readings(as_objects(rows), schema) == [readings(as_objects([single]), schema)[0] for single in rows]


def _arrow(kind: Any, width: Any, *counts: int) -> Any:
    return pa.array([*counts, None], type=width).cast(kind)


TODAY, END = 18_000, 2**63 - 1
ARROW = {
    "days": [_arrow(pa.date32(), pa.int32(), TODAY, far) for far in (2**31 - 1, -(2**31), 3_000_000, -800_000)],
    "milliseconds": [
        _arrow(kind, pa.int64(), TODAY * 86_400_000, far)
        for kind in (pa.timestamp("ms"), pa.timestamp("ms", tz="UTC"), pa.timestamp("ms", tz="Asia/Tokyo"))
        for far in (END, -END, 253_402_300_799_000, 253_402_300_800_000)
    ],
    "microseconds": [
        _arrow(kind, pa.int64(), TODAY * 86_400_000_000, far)
        for kind in (pa.timestamp("us"), pa.timestamp("us", tz="-05:30"))
        for far in (END, -END)
    ],
    "seconds": [_arrow(pa.timestamp("s", tz="Europe/Paris"), pa.int64(), TODAY * 86_400, far) for far in (END, -END)],
    "clocks": [_arrow(pa.time64("ns"), pa.int64(), 1, 2), _arrow(pa.time64("us"), pa.int64(), 1, END)],
    "bytes": [pa.array([b"a", b"\xff", None])],
    "text that is not UTF-8": [
        pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32)), pa.py_buffer(b"a\xff"))
    ],
}


@pytest.mark.parametrize(
    ("label", "index"), [(label, i) for label, arrays in ARROW.items() for i in range(len(arrays))]
)
def test_no_cell_of_arrow_stops_the_reading_or_changes_another(label: str, index: int, tmp_path: Path) -> None:
    column = ARROW[label][index]
    first, series = (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([cells]))) for cells in (column[:1], column)
    )
    in_file = label != "seconds"  # which no Parquet file holds
    if in_file:
        pyarrow.parquet.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
    for schema in [*map(schema_of, [*BASES][index % 3 :: 3]), *map(wide, [*WIDE][index % 2 :: 2])]:
        alone = readings(first, schema)
        assert readings(series, schema)[:1] == alone
        if in_file:
            read = read_table(tmp_path / "x.parquet", schema, outside="clamp")["x"]
            assert ["missing" if pd.isna(value) else repr(value) for value in read][:1] == alone
