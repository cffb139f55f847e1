"""Tables: reading, conforming to a schema, and columns to measure."""

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from synth.errors import TableError, TableNote
from synth.schema import Schema, build_schema
from synth.table import conform, read_table, violations, write_table
from synth.table.conforming import clamp
from tests.chunks import faulty

AGE = {"kind": "integer", "bounds": [17, 90]}
CITY = {"kind": "categorical", "categories": ["Ulm", "Bonn"]}
CODE = {"kind": "categorical", "categories": [1, 2, 30]}
WAGE = {"kind": "real", "bounds": [0, 100], "decimals": 2}
DAY = {"kind": "date", "bounds": [dt.date(2000, 1, 1), dt.date(2020, 12, 31)]}
TIME = {"kind": "datetime", "bounds": [dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31)]}
ROW = {"kind": "identifier", "bounds": [0, 10**9]}
FLAG = {"kind": "boolean"}


def _schema(column: dict[str, Any], **table: Any) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": column}, **table})


def _frame(*values: Any, dtype: Any = object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=dtype)})


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        (AGE, ["41", "91"], "outside bounds=[17, 90]"),
        (AGE, [41, 2**70], "outside bounds=[17, 90]"),
        (AGE, [41, 1e30], "outside bounds=[17, 90]"),
        (AGE, [41, "forty-one"], "not numbers"),
        (AGE, [41, "٤١"], "not numbers"),
        (AGE, [41, [41]], "not numbers"),
        (AGE, [41, 41.5], "with a fraction"),
        (AGE, ["41", "-inf"], "infinite"),
        (AGE, ["41", ""], "missing values, which missing=false"),
        (AGE | {"missing": True}, [None, None], "missing values only; set drop = true, or declare it categorical"),
        (WAGE, [1.5, 1.555], "more digits than decimals=2"),
        (WAGE, ["1.5", "1,5"], "not numbers"),
        (CITY, ["Ulm", "Köln"], "outside its categories"),
        (CODE, [1, 3], "outside its categories"),
        (CODE, ["1", "x"], "not numbers"),
        (FLAG, ["True", "yes"], "neither of tokens=['False', 'True']"),
        (DAY, ["2001-01-01", "2021-01-01"], "outside bounds=[2000-01-01, 2020-12-31]"),
        (DAY, ["2001-01-01", "01.02.2001"], "no date of format='%Y-%m-%d'"),
        (DAY, [dt.datetime(2001, 1, 1, 12)], "times of day"),
        (TIME, ["2001-01-01T10:00:00", "2001"], "no datetime of format='ISO 8601'"),
        (TIME, ["2001-01-01T10:00:00Z"], "with a zone where none is declared"),
        (TIME, ["2001-01-01T10:00:00.5"], "finer than precision='s'"),
        (TIME | {"timezone": "mixed"}, ["2001-01-01T10:00:00"], "without an offset"),
        (ROW, [1, 2, 1], "repeats itself"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(column: dict[str, Any], values: list, rule: str) -> None:
    frame, schema = _frame(*values), _schema(column)
    with pytest.raises(TableError) as caught:
        conform(frame, schema)
    message = str(caught.value)
    assert message.startswith("column='x' ")
    assert rule in message
    assert "; " in message
    assert message in [str(violation) for violation in violations(frame, schema)]
    told = message.replace("[17, 90]", "").replace("decimals=2", "").replace("2000-01-01", "").replace("%Y-%m-%d", "")
    assert not any(str(value) in told for value in values if len(str(value)) > 3 and value not in (None, True, "True"))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (AGE, [16, 41, 2**70, float("inf"), "x", None, 41.6], [17, 41, 90, None, None, None, 42]),
        (WAGE, [-1, 1.555, float("inf"), "x", None], [0.0, 1.56, None, None, None]),
        (CITY, ["Ulm", "Köln", 3, None, ""], ["Ulm", "Köln", "3", None, None]),
        (CODE, ["1", 99, "x"], [1, 99, None]),
        (FLAG, [True, "False", "x", 2], [True, False, None, None]),
        (DAY, ["1999-01-01", "2021-01-01", "x"], [dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31), None]),
        (TIME, ["1999-01-01T00:00:00", "2001-01-01T00:00:01.5Z", "x"], [dt.datetime(2000, 1, 1), None, None]),
        (ROW, [5, 5, 10**10], [5, 5, 10**10]),
    ],
)
def test_clamping_never_refuses_a_value(column: dict[str, Any], values: list, expected: list) -> None:
    clamped = conform(_frame(*values).assign(extra=1), _schema(column), outside="clamp")
    assert clamped.columns.tolist() == ["x"]
    assert [None if pd.isna(v) else v for v in clamped["x"]] == expected


@pytest.mark.parametrize(
    ("column", "values", "share"),
    [
        (AGE, [16, 41, 2**70, "x", None, 41.6, 17, 90], 3 / 8),
        (WAGE, [-1, 1.555, "inf", 3], 2 / 4),
        (AGE, [None, 17, 90], None),
    ],
)
def test_the_share_of_clamped_cells_counts_what_was_replaced(
    column: dict[str, Any], values: list, share: float | None
) -> None:
    clamped, shares = clamp(_frame(*values), _schema(column))
    assert shares == ({} if share is None else {"x": share})
    pd.testing.assert_frame_equal(clamped, conform(_frame(*values), _schema(column), outside="clamp"))


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (pd.DataFrame({"ages": [41]}), "column='age' is in the schema and not in the table; did you mean 'ages'?"),
        (pd.DataFrame({"age": [41], "b": [1]}), "column='b' is in the table and not in the schema; remove it"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "two columns of name='age'"),
        (pd.DataFrame([[1, 2]], columns=["age", 0]), "names that are not text"),
        (pd.DataFrame({"age": []}), "no rows"),
        ([{"age": 1}], "type='list'"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused(frame: Any, rule: str) -> None:
    schema = build_schema({"status": "declared", "columns": {"age": AGE}})
    with pytest.raises(TableError) as caught:
        conform(frame, schema)
    assert rule in str(caught.value)


def test_rows_and_entities_beyond_n_units_are_refused() -> None:
    frame = pd.DataFrame({"id": [1, 1, 2], "age": [20, 21, 22]})
    rows = {"status": "declared", "n_units": 2, "columns": {"id": ROW | {"drop": True}, "age": AGE}}
    with pytest.raises(TableError, match="more rows than n_units=2"):
        conform(frame, build_schema(rows))
    entities = {"status": "declared", "n_units": 2, "entity": "id", "columns": {"id": ROW, "age": AGE}}
    assert len(conform(frame, build_schema(entities))) == 3
    with pytest.raises(TableError, match="more entities than n_units=1"):
        conform(frame, build_schema(entities | {"n_units": 1}))


def test_a_constant_column_fits_unless_it_is_the_target() -> None:
    assert len(conform(_frame(20, 20), _schema(AGE))) == 2
    with pytest.raises(TableError, match="is the target and has one value only"):
        conform(_frame(20, 20), _schema(AGE, target="x"))


def test_all_violations_are_listed_and_faulty_rows_are_known() -> None:
    schema = build_schema({"status": "declared", "columns": {"age": AGE, "city": CITY, "gone": AGE}})
    frame = pd.DataFrame({"age": [20, 16, 30, None], "city": ["Ulm", "Ulm", "Rom", "Bonn"], "more": 1})
    assert [(v.column, v.rule.split()[0]) for v in violations(frame, schema)] == [
        ("gone", "is"), ("more", "is"), ("age", "holds"), ("age", "holds"), ("city", "holds"),
    ]  # fmt: skip
    two = build_schema({"status": "declared", "columns": {"age": AGE, "city": CITY}})
    assert faulty(frame, two).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("dtype", "fits"), [("int8", True), ("Int16", True), ("float32", True), ("int64[pyarrow]", True), ("wrong", False)]
)
def test_a_dtype_that_cannot_hold_the_schema_is_refused(dtype: str, fits: bool) -> None:
    assert (violations(_frame(20, 21), _schema(AGE | {"dtype": dtype})) == []) is fits
    narrow = _schema(AGE | {"bounds": [0, 300], "dtype": "int8"})
    assert "dtype='int8'" in str(violations(_frame(20, 21), narrow)[0])


AGES = [20, 21, 20]


@pytest.mark.parametrize("series", [pd.Series(AGES, dtype=pd.SparseDtype("int64", 20)), pd.Series(AGES, dtype="int8")])
def test_a_table_that_conforms_is_another_whose_changes_stay_its_own(series: pd.Series) -> None:
    frame = pd.DataFrame({"x": series})
    frame.index = pd.Index(["a", "a", "b"])
    before = frame.copy(deep=True)
    result = conform(frame, _schema(AGE))
    pd.testing.assert_frame_equal(result, pd.DataFrame({"x": pd.array(AGES, dtype="Int64")}))
    result.loc[0, "x"] = 77
    pd.testing.assert_frame_equal(frame, before)


def test_times_of_a_zone_are_taken_from_wall_clocks_and_from_offsets() -> None:
    schema = _schema(TIME | {"timezone": "Europe/Paris"})
    texts = conform(_frame("2001-07-01T12:00:00+00:00", "2001-07-01 14:00:00"), schema)["x"]
    assert texts[0] == texts[1]
    naive = conform(_frame(dt.datetime(2001, 7, 1, 14), dtype="datetime64[ns]"), schema)["x"]
    assert naive[0] == texts[0]


@pytest.mark.parametrize(("column", "value"), [(AGE, 91), (WAGE, 101.0), (DAY, "2021-01-01"), (CITY, "Köln")])
def test_limits_that_are_public_are_not_to_be_set_by_looking_at_the_table(column: dict[str, Any], value: Any) -> None:
    (declared,) = violations(_frame(value), _schema(column))
    assert "clamp" in declared.remedy
    assert "widen" not in declared.remedy
    assert "add them" not in declared.remedy
    (inferred,) = violations(_frame(value), _schema(column, status="inferred"))
    assert "in the schema" in inferred.remedy


SECRET = "s3cret-cell"


@pytest.mark.parametrize(("mark", "end"), [(b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b"\xef\xbb\xbf" * 2, b"\n\n")])
def test_a_row_below_a_blank_line_is_no_header(mark: bytes, end: bytes, tmp_path: Path) -> None:
    """Else its cells would be told as the names of columns; a mark of byte order is nothing to see either."""
    (tmp_path / "t.csv").write_bytes(mark + end + b"s3cret-cell,2\n3,4\n")
    assert "begins with a blank one; remove it" in _refusal(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(mark + b'"a",b\n1,2\n')
    assert read_table(tmp_path / "t.csv").columns.tolist() == ["a", "b"]


def _refusal(path: Path) -> str:
    with pytest.raises(TableError) as caught:
        read_table(path)
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    assert "; " in message, "a sentence ends in its remedy"
    return message


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,a\n1,s3cret-cell\n", "two columns of name='a'"),
        (b"a,\ns3cret-cell,2\n", "empty name"),
        (b"a,b\n1,s3cret-cell\n3\n", "as many fields"),
        (b"a,b\n1,s3cret-cell\xff\n", "another encoding"),
        ("a,b\n1,2\n".encode("utf-16"), "no text"),
        (b"a,b\n1,\x00s3cret-cell\n", "no text"),
        (b'a,b\n1,"s3cret-cell\n2,3\n', "ends inside"),
        (b'a,"s3cret-cell\r\n1,2"\r\n3,4\r\n', "must be closed in its line"),
        (b"a;b\n1;s3cret-cell\n", "by commas"),
        (b'"a";"b"\n1;s3cret-cell\n', "by commas"),
    ],
)
def test_a_file_that_is_no_csv_table_is_refused(content: bytes, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert rule in _refusal(path)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\xef\xbb\xbfa,b\n1,2\n", [["1", "2"]]),
        (b"a,b\n\n1,2\n\n", [["1", "2"]]),
        (b'a,b\n"x\n""y""",\n"",z\n', [['x\n"y"', None], [None, "z"]]),
        (b'a,b\n5" pipe,2\n', [['5" pipe', "2"]]),
        (b"a,b\nNA,None\nnan,null\n", [["NA", "None"], ["nan", "null"]]),
        (b"a,b\n007,9007199254740993\n", [["007", "9007199254740993"]]),
    ],
)
def test_a_csv_table_is_read_as_text(content: bytes, rows: list, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    frame = read_table(path)
    assert frame.columns.tolist() == ["a", "b"]
    assert frame.to_numpy().tolist() == rows


def test_parquet_columns_keep_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table(
        {
            "big": pa.array([2**53 + 1, None], pa.int64()),
            "small": pa.array([1, 2], pa.int8()),
            "flag": pa.array([True, None]),
            "level": pa.array(["x", "y"]).dictionary_encode(),
            "day": pa.array(["1500-01-01", "2900-01-01"]).cast(pa.date32()),
            "time": pa.array([1, None], pa.timestamp("us", tz="Europe/Paris")),
            "money": pa.array(["1.25", "2.50"]).cast(pa.decimal128(9, 2)),
        }
    )
    pa.parquet.write_table(table, path)
    frame = read_table(path)
    assert frame.dtypes.astype(str).to_dict() == {
        "big": "Int64", "small": "int8", "flag": "boolean", "level": "category", "day": "datetime64[us]",
        "time": "datetime64[us, Europe/Paris]", "money": "decimal128(9, 2)[pyarrow]",
    }  # fmt: skip
    assert frame["big"][0] == 2**53 + 1


def test_row_numbers_that_pandas_stored_are_left_out_and_named(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2]}, index=[5, 7]).to_parquet(tmp_path / "t.parquet")
    with pytest.warns(TableNote, match=r"\('__index_level_0__'\) are left out"):
        assert read_table(tmp_path / "t.parquet").columns.tolist() == ["a"]


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_of_every_encoding_of_parquet_are_read(encoding: str, tmp_path: Path) -> None:
    table = pa.table({"town": ["Bonn", None, "Bern"], "age": [1, 2, 3]})
    pa.parquet.write_table(
        table, tmp_path / "t.parquet", use_dictionary=False, column_encoding={"town": encoding, "age": "PLAIN"}
    )
    assert read_table(tmp_path / "t.parquet").to_dict("list") == table.to_pydict()


@pytest.mark.slow  # a process of its own, which imports for seconds
def test_reading_a_csv_file_leaves_no_threads_that_a_process_ends_under(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n")
    # Whether threads that are still starting abort the process is a race, lost once in ten times.
    program = (
        "import os, sys; from synth.errors import TableError; from synth.table import read_table\n"
        "import pyarrow as pa, pyarrow.csv; pa.set_cpu_count(4)\n"
        "n = len(os.listdir('/proc/self/task'))\n"
        "try: read_table(sys.argv[1])\n"
        "except TableError: print(len(os.listdir('/proc/self/task')) - n)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "t.csv")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ended.stdout) <= 1, "one thread of input and output, and none of a pool"


def test_a_table_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "columns": {"a": {"kind": "integer", "bounds": [0, 9]}}})
    for frame, path in [
        (pd.DataFrame({"a": [1]}), tmp_path / "t.txt"),
        (pd.DataFrame({"a": [SECRET]}), tmp_path / "t.csv"),
        (pd.DataFrame({"b": [1]}), tmp_path / "t.parquet"),
        (pd.DataFrame({"a": [1]}), tmp_path),
    ]:
        with pytest.raises(ValueError, match="; ") as caught:
            write_table(frame, path, schema)
        assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
