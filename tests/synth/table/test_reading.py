"""Files that are no tables get one clear sentence each, and no cell value is told."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from synth.errors import TableError
from synth.schema import build_schema
from synth.stored import open_table
from synth.table import read_table, write_table
from synth.table.reading import read_header

SECRET = "s3cret-cell"


MARKS = [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n"])
@pytest.mark.parametrize("mark", MARKS)
def test_a_row_below_a_blank_line_is_no_header(mark: bytes, end: bytes, tmp_path: Path) -> None:
    """Else its cells would be told as the names of columns; a mark of byte order is nothing to see either."""
    content = mark + end + b"s3cret-cell,2\n3,4\n"
    path = tmp_path / ("t.csv.gz" if mark else "t.csv")
    path.write_bytes(gzip.compress(content) if mark else content)
    said = {str(_refused(read, path)) for read in (read_table, read_header, lambda path: open_table(path).__enter__())}
    assert len(said) == 1
    assert "begins with a blank one; remove it" in said.pop()


@pytest.mark.parametrize("mark", MARKS)
def test_marks_of_byte_order_are_no_part_of_a_name(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(mark + b'"a",b\n1,2\n')
    assert read_table(tmp_path / "t.csv").columns.tolist() == ["a", "b"] == list(read_header(tmp_path / "t.csv"))
    with open_table(tmp_path / "t.csv") as stored:
        assert list(stored.rows.columns) == ["a", "b"]


def _refused(read: Callable[[Path], Any], path: Path) -> TableError:
    with pytest.raises(TableError) as caught:
        read(path)
    assert SECRET not in str(caught.value)
    return caught.value


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
        (b"\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,b", "no rows"),
        (b"a,a\n1,s3cret-cell\n", "two columns of name='a'"),
        (b"a,\ns3cret-cell,2\n", "empty name"),
        (b"a,b\n1,s3cret-cell\n3\n", "as many fields"),
        (b"a,b\n1,s3cret-cell,3\n", "as many fields"),
        (b"a,b\n1,s3cret-cell\xff\n", "another encoding"),
        ("a,é\n1,2\n".encode("latin-1"), "another encoding"),
        ("a,b\n1,2\n".encode("utf-16"), "NUL"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL"),
        (b"a,b\n1,\x00s3cret-cell\n", "NUL"),
        (b'a,b\n1,"s3cret-cell\n2,3\n', "ends inside"),
        (b'a,b\n1,"s3cret-cell""\n', "ends inside"),
        (b'a,"b\n1,2\n', "must be closed in its line"),
        (b'a,"b\n1,s3cret-cell"\n3,4\n', "must be closed in its line"),
        (b'a,"s3cret-cell\r\n1,2"\r\n3,4\r\n', "must be closed in its line"),
        (b"a;b\n1;s3cret-cell\n", "by commas"),
        (b'"a";"b"\n1;s3cret-cell\n', "by commas"),
        (b"a\tb\n1\ts3cret-cell\n", "by commas"),
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
        (b"a,b\r\n1,2\r\n", [["1", "2"]]),
        (b"a,b\n1,2", [["1", "2"]]),
        (b"a,b\n\n1,2\n\n", [["1", "2"]]),
        (b'a,b\n"x\n""y""",\n"",z\n', [['x\n"y"', None], [None, "z"]]),
        (b'a,b\n1,"x\n"\n', [["1", "x\n"]]),
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


def test_a_long_table_of_quoted_line_breaks_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + '"x\ny",2\n' * 500_000)
    frame = read_table(path)
    assert len(frame) == 500_000
    assert frame["a"].unique().tolist() == ["x\ny"]


def test_places_that_hold_no_table_are_refused(tmp_path: Path) -> None:
    assert "no table at" in _refusal(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "folder" in _refusal(tmp_path / "folder.csv")
    (tmp_path / "t.xlsx").write_bytes(b"x")
    assert ".parquet" in _refusal(tmp_path / "t.xlsx")


def test_texts_that_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    for text, name, rule in [("a\0", "t.csv", "NUL"), ("\ud800", "t.csv", "UTF-8"), ("\ud800", "t.parquet", "UTF-8")]:
        schema = build_schema({"status": "declared", "columns": {"a": {"kind": "text"}}})
        with pytest.raises(TableError, match=rule):
            write_table(pd.DataFrame({"a": [text]}), tmp_path / name, schema)
    assert list(tmp_path.iterdir()) == []


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,s3cret-cell\n" * 1000)
    path = tmp_path / "t.csv.gz"
    for content, rule in [
        (whole[:-12], "cut short"),
        (b"a,b\n1,2\n", "gzip-compressed"),
        (b"", "is empty"),
        (whole[:20] + b"\xff" * 8 + whole[28:], "gzip-compressed"),
    ]:
        path.write_bytes(content)
        assert rule in _refusal(path)


def test_damaged_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": ["s3cret-cell"] * 100}), path)
    whole = path.read_bytes()
    middle = whole[:20] + b"\xff" * 20 + whole[40:]
    for content in (whole[:-10], whole[: len(whole) // 2], b"", b"a,b\n1,2\n", middle):
        path.write_bytes(content)
        assert "whole" in _refusal(path)


def test_parquet_tables_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for table, rule in [
        (pa.table({"a": [[1, 2]]}), "nested"),
        (pa.table({"a": [{"b": 1}]}), "nested"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns"),
        (pa.table({"a": pa.array([], pa.int64())}), "no rows"),
        (pa.table({}), "no columns"),
    ]:
        pa.parquet.write_table(table, path)
        assert rule in _refusal(path)


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
        "time": "datetime64[us, Europe/Paris]", "money": "object",
    }  # fmt: skip
    assert frame["big"][0] == 2**53 + 1


def test_row_numbers_that_pandas_stored_are_no_column(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2]}, index=[5, 7]).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns.tolist() == ["a"]


@pytest.mark.parametrize(
    "said", [b"", b"[", b"[]", b"{}", b'{"index_columns": 1}', b'{"index_columns": [[], null, "a"]}']
)
def test_only_what_pandas_numbered_is_taken_for_row_numbers(said: bytes, tmp_path: Path) -> None:
    table = pa.table({"__index_level_0__": [1, 2], "a": [3, 4]}, metadata={b"pandas": said} if said else None)
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns.tolist() == ["__index_level_0__", "a"]
    with open_table(tmp_path / "t.parquet") as stored:
        assert [name for name in stored.rows.columns if name != stored.slot] == ["__index_level_0__", "a"]
    numbered = table.replace_schema_metadata({b"pandas": json.dumps({"index_columns": ["__index_level_0__"]}).encode()})
    (tmp_path / "both").mkdir()
    pa.parquet.write_table(table, tmp_path / "both" / "1.parquet")
    pa.parquet.write_table(numbered, tmp_path / "both" / "2.parquet")
    with pytest.raises(TableError, match="differ in column='__index_level_0__'"), open_table(tmp_path / "both"):
        pass


def test_a_table_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "columns": {"a": {"kind": "integer", "bounds": [0, 9]}}})
    for frame, path in [
        (pd.DataFrame({"a": [1]}), tmp_path / "absent" / "t.csv"),
        (pd.DataFrame({"a": [1]}), tmp_path / "t.txt"),
        (pd.DataFrame({"a": [SECRET]}), tmp_path / "t.csv"),
        (pd.DataFrame({"b": [1]}), tmp_path / "t.parquet"),
        (pd.DataFrame({"a": [1]}), tmp_path),
    ]:
        with pytest.raises(ValueError, match="; ") as caught:
            write_table(frame, path, schema)
        assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
