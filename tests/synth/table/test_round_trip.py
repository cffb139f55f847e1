"""Values that trap the unwary survive being written and read, presented and conformed."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.errors import SchemaError, TableError
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.stored import open_table
from synth.stored.opening import trouble_with
from synth.table import conform, present, read_table, write_table
from synth.table.cells import from_arrow
from synth.table.reading import read_header

SUFFIXES = [".csv", ".csv.gz", ".parquet"]
WIDEST = float(np.finfo(np.float64).max) / 2
"""Bounds of either sign whose distance float64 still holds; wider ones are no schema."""
QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
AWARE = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=OFFSETS)
PARIS = pd.DatetimeTZDtype("us", "Europe/Paris")


def _schema(**columns: dict) -> Schema:
    return build_schema({"status": "declared", "columns": columns})


def _back(frame: pd.DataFrame, schema: Schema, path: Path) -> pd.DataFrame:
    write_table(frame, path, schema)
    return read_table(path, schema)


def _assert_survives(frame: pd.DataFrame, schema: Schema, folder: Path) -> pd.DataFrame:
    canonical = conform(frame, schema)
    for suffix in SUFFIXES:
        pd.testing.assert_frame_equal(_back(canonical, schema, folder / f"t{suffix}"), canonical)
        pd.testing.assert_frame_equal(_back(present(canonical, schema), schema, folder / f"t{suffix}"), canonical)
    pd.testing.assert_frame_equal(conform(present(canonical, schema), schema), canonical)
    pd.testing.assert_frame_equal(conform(canonical, schema), canonical)
    return canonical


@QUIET
@given(values=st.lists(st.none() | TEXT, min_size=1, max_size=20).filter(any))
def test_texts_of_any_characters_survive(values: list, tmp_path: Path) -> None:
    known = sorted({value for value in values if value is not None})
    schema = _schema(**{"a, \"b'": {"kind": "categorical", "categories": known, "missing": True}})
    made = _assert_survives(pd.DataFrame({"a, \"b'": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert made.iloc[:, 0].tolist() == values


@QUIET
@given(values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1).filter(lambda v: v != [None] * len(v)))
def test_whole_numbers_of_64_bits_survive(values: list, tmp_path: Path) -> None:
    schema = _schema(n={"kind": "integer", "bounds": [-(2**63), 2**63 - 1], "missing": True})
    made = _assert_survives(pd.DataFrame({"n": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert [None if v is pd.NA else v for v in made["n"]] == values


@QUIET
@given(values=st.lists(st.floats(-WIDEST, WIDEST), min_size=1))
def test_reals_survive_to_the_last_bit(values: list, tmp_path: Path) -> None:
    schema = _schema(x={"kind": "real", "bounds": [-WIDEST, WIDEST]})
    made = _assert_survives(pd.DataFrame({"x": values}), schema, tmp_path)
    assert made["x"].to_numpy().tobytes() == np.array(values).tobytes()


@QUIET
@given(values=st.lists(st.integers(-(10**9), 10**9), min_size=1), decimals=st.integers(0, 6))
def test_reals_of_a_precision_survive(values: list, decimals: int, tmp_path: Path) -> None:
    reals = [value / 10**decimals for value in values]
    schema = _schema(x={"kind": "real", "bounds": [-1e9, 1e9], "decimals": decimals})
    made = _assert_survives(pd.DataFrame({"x": reals}), schema, tmp_path)
    assert made["x"].tolist() == reals


@QUIET
@given(values=st.lists(st.none() | st.booleans(), min_size=1).filter(lambda v: v != [None] * len(v)))
def test_booleans_with_missing_values_survive(values: list, tmp_path: Path) -> None:
    schema = _schema(b={"kind": "boolean", "tokens": ["no", "yes"], "missing": True})
    made = _assert_survives(pd.DataFrame({"b": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert [None if v is pd.NA else bool(v) for v in made["b"]] == values


@QUIET
@given(values=st.lists(st.none() | st.dates(), min_size=1).filter(any), form=st.sampled_from(["%Y-%m-%d", "%d/%m/%Y"]))
def test_days_of_all_years_survive(values: list, form: str, tmp_path: Path) -> None:
    schema = _schema(d={"kind": "date", "bounds": [dt.date.min, dt.date.max], "format": form, "missing": True})
    made = _assert_survives(pd.DataFrame({"d": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert made["d"].to_numpy().astype("datetime64[D]").tolist() == values


@QUIET
@given(values=st.lists(st.none() | st.datetimes(), min_size=1).filter(any))
def test_times_of_all_years_survive(values: list, tmp_path: Path) -> None:
    schema = _schema(
        t={"kind": "datetime", "bounds": [dt.datetime.min, dt.datetime.max], "precision": "us", "missing": True}
    )
    made = _assert_survives(pd.DataFrame({"t": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert made["t"].to_numpy().astype("datetime64[us]").tolist() == values


@QUIET
@given(values=st.lists(st.none() | AWARE, min_size=1).filter(any))
def test_every_time_of_mixed_zones_keeps_its_offset(values: list, tmp_path: Path) -> None:
    limits = [dt.datetime.min, dt.datetime.max]
    schema = _schema(t={"kind": "datetime", "bounds": limits, "precision": "us", "timezone": "mixed", "missing": True})
    made = _assert_survives(pd.DataFrame({"t": pd.Series(values, dtype=object)}), schema, tmp_path)
    assert made["t"].tolist() == values
    assert [v and v.utcoffset() for v in made["t"]] == [v and v.utcoffset() for v in values]


@QUIET
@given(
    values=st.lists(st.none() | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2300, 1, 1)), min_size=1).filter(any)
)
def test_times_of_one_zone_survive_its_clock_changes(values: list, tmp_path: Path) -> None:
    limits = [dt.datetime.min, dt.datetime.max]
    schema = _schema(
        t={"kind": "datetime", "bounds": limits, "precision": "us", "timezone": "Europe/Paris", "missing": True}
    )
    series = pd.Series(np.array(values, dtype="datetime64[us]")).dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
    made = _assert_survives(pd.DataFrame({"t": series}), schema, tmp_path)
    assert made["t"].dtype == PARIS
    assert made["t"].equals(series)


NASTY = (
    "a\nb", "a\rb", "\r\n", 'a"b', '"a"', '"', "a,b", ",", "\ufeffa", "\ufeff", " a", "a ", " ", "\t", "\u2028", "\x85",
    "__index_level_0__", "__null_dask_index__", "\U0001f600", "Age", "age", "#", "=1+1", "a;b", "a|b", "\\N", "NULL",
    "-", "understudy_rows", "filename", "file_row_number", "level_0", "index", "x" * 300, "x" * 140_000,
)  # fmt: skip
NAMES = st.lists(st.sampled_from(NASTY) | TEXT, min_size=1, max_size=4, unique=True)
STORED_REFUSES = ("begin with 'understudy_'", "another but for its case")


@settings(QUIET, max_examples=25)
@given(names=NAMES, data=st.data())
def test_names_of_columns_survive_wherever_they_are_read_or_no_file_is_written(
    names: list[str], data: st.DataObject, tmp_path: Path
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=len(names), max_size=len(names)))
    schema = _schema(**{name: KINDS[kind][0] for name, kind in zip(names, kinds, strict=True)})
    frame = pd.DataFrame({name: KINDS[kind][1] for name, kind in zip(names, kinds, strict=True)})
    canonical, path = conform(frame, schema), tmp_path / f"t{data.draw(st.sampled_from(SUFFIXES))}"
    path.unlink(missing_ok=True)
    if path.suffix != ".parquet" and any({"\n", "\r"} & set(name) or len(name) > 2**17 for name in names):
        with pytest.raises(TableError, match="no line break and at most 131,072 characters"):
            write_table(canonical, path, schema)
        assert not path.exists()
        return
    pd.testing.assert_frame_equal(_back(canonical, schema, path), canonical)
    assert list(read_header(path)) == names
    try:
        with open_table(path) as stored:
            found = stored.place.fetch(stored.rows.select(*names))
            assert [name for name in stored.rows.columns if name != stored.slot] == names
    except TableError as refused:
        assert any(reason in str(refused) for reason in STORED_REFUSES)
        assert trouble_with(names) is not None
        return
    assert trouble_with(names) is None
    there = pd.DataFrame({name: from_arrow(found.column(place)) for place, name in enumerate(names)})
    pd.testing.assert_frame_equal(conform(there, schema), canonical)


KINDS: dict[str, tuple[dict, list]] = {
    "whole": ({"kind": "integer", "bounds": [0, 9], "missing": True}, [1, None, 9]),
    "real": ({"kind": "real", "bounds": [0.0, 1.0]}, [0.5, 0.25, 1.0]),
    "text": ({"kind": "categorical", "categories": ["x", "y,z"], "missing": True}, ["y,z", None, "x"]),
}


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800"])
def test_a_name_that_no_reader_takes_whole_is_in_no_schema_and_no_table(name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no NUL character and no half of a surrogate pair"):
        _schema(**{name: KINDS["whole"][0]})
    with pytest.raises(TableError, match="has a NUL character or half a surrogate pair in column="):
        infer_schema(pd.DataFrame({name: [1, 2]}))
    if "\0" in name:
        pq.write_table(pa.table({name: [1, 2]}), tmp_path / "t.parquet")
        for read in (read_table, lambda path: open_table(path).__enter__()):
            with pytest.raises(TableError, match="has a NUL character"):
                read(tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_traps_survive_inference_and_every_file_form(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "zip": ["02134", "00501", "02134", "99999"] * 5,
            "text": ["NA", "None", "null", None] * 5,
            "big": pd.Series([2**53 + 1, 2**62, -(2**53) - 1, 7] * 5),
            "flag": pd.Series([True, None, False, True] * 5, dtype="boolean"),
            "old": pd.Series(np.array(["1066-10-14", "2999-01-01", "1492-10-12", None] * 5, dtype="datetime64[us]")),
            "zero": [-0.0, 0.0, 0.5, 1.5] * 5,
        }
    )
    schema = infer_schema(frame)
    back = present(_back(frame, schema, tmp_path / f"t{suffix}"), schema)
    pd.testing.assert_frame_equal(back, frame)
    assert np.signbit(back["zero"]).tolist() == np.signbit(frame["zero"]).tolist()


def test_a_development_table_is_written_as_it_was_read(shared_table, tmp_path: Path) -> None:
    import gzip

    path = shared_table("adult.csv.gz")
    schema = infer_schema(read_table(path))
    write_table(read_table(path, schema), tmp_path / "adult.csv", schema)
    with gzip.open(path) as stream:
        assert (tmp_path / "adult.csv").read_bytes() == stream.read()


def test_an_empty_field_of_a_single_column_is_a_row(tmp_path: Path) -> None:
    schema = _schema(a={"kind": "categorical", "categories": ["x"], "missing": True})
    _assert_survives(pd.DataFrame({"a": [None, "x", None]}), schema, tmp_path)


def test_a_declared_text_for_missing_values_is_written(tmp_path: Path) -> None:
    schema = build_schema(
        {
            "status": "declared",
            "missing_values": ["?"],
            "columns": {"a": {"kind": "integer", "bounds": [0, 9], "missing": True}},
        }
    )
    write_table(pd.DataFrame({"a": ["1", "?", ""]}), tmp_path / "t.csv", schema)
    assert (tmp_path / "t.csv").read_text() == "a\n1\n?\n?\n"
    assert read_table(tmp_path / "t.csv", schema)["a"].isna().tolist() == [False, True, True]
