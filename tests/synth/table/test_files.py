"""Files: hostile ones, round trips, inputs and outputs."""

import datetime as dt
import gzip
import io
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.errors import JobError, OutputError, SchemaError, TableError
from synth.infer import infer_schema
from synth.output import whole_file, whole_folder
from synth.schema import Schema, build_schema
from synth.schema_file import read_schema, schema_of
from synth.table import Table, conform, present, read_table, write_table
from synth.table.text_files import LEAST_BYTES, LEAST_ROWS, TIMES, SizeLimits, TextStream, _parse_csv, _whole_rows
from synth.validation import read_given, read_toml
from tests.synth.table.workbook import SHEET, TEXTS, write_parts

SMALL = SizeLimits(n_bytes=4 << 20, n_rows=1_000, n_columns=50)
Write = Callable[[Path], Path]


def bytes_of(content: bytes, name: str = "t.csv") -> Write:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return write


def bomb(folder: Path) -> Path:
    """64 megabytes of zeros in a few hundred kilobytes."""
    path = folder / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"0" * (64 << 20), 1))
    return path


def expanding(folder: Path) -> Path:
    """Eight megabytes of one text, each told as equal to the one before it."""
    table = pa.table({"a": pa.array(["x" * 8_192] * 1_000)})
    path = folder / "t.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"}, compression="NONE")
    assert path.stat().st_size < 100_000
    return path


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "t.csv")
    return folder / "t.csv"


def device(folder: Path) -> Path:
    (folder / "t.csv").symlink_to("/dev/zero")
    return folder / "t.csv"


def folder_named_like_a_table(folder: Path) -> Path:
    (folder / "t.parquet").mkdir()
    return folder / "t.parquet"


def parquet_of(table: pa.Table) -> Write:
    def write(folder: Path) -> Path:
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"

    return write


def codes_of_one_long_text() -> pa.Table:
    """A text of a megabyte as every one of 1,000 rows: a gigabyte once it is written out."""
    return pa.table({"a": pa.DictionaryArray.from_arrays(np.zeros(1_000, dtype=np.int32), ["x" * (1 << 20)])})


def two_columns_of_one_name() -> pa.Table:
    return pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])


def zipped(text: bytes) -> bytes:
    return gzip.compress(text)


def feather_of(table: pa.Table, cut: int = 0) -> Write:
    def write(folder: Path) -> Path:
        path = folder / "t.feather"
        pa.feather.write_feather(table, path, compression="zstd")
        path.write_bytes(path.read_bytes()[:-cut] if cut else path.read_bytes())
        return path

    return write


def pointing_elsewhere(folder: Path) -> Path:
    """Texts of which one ends a gigabyte behind the last."""
    path = folder / "t.feather"
    pa.feather.write_feather(pa.table({"a": ["x", "y"]}), path, compression="uncompressed")
    offsets, far = (np.array([0, 1, end], dtype=np.int32).tobytes() for end in (2, 1 << 30))
    content = path.read_bytes()
    path.write_bytes(content[::-1].replace(offsets[::-1], far[::-1], 1)[::-1])  # the last: that of the rows
    return path


def sheet_of(rows: str, parts: dict[str, str | None] | None = None, texts: str = "") -> Write:
    def write(folder: Path) -> Path:
        pytest.importorskip("python_calamine")
        return write_parts(folder / "t.xlsx", SHEET.format(rows), TEXTS.format(texts), parts or {})

    return write


REFUSED: dict[str, tuple[Write, str]] = {
    "a gzip bomb": (bomb, "bytes once it is uncompressed"),
    "a CSV file of too many rows": (bytes_of(b"a\n" + b"0\n" * 2_000), "may have 1,000 rows"),
    "a Parquet file of too many rows": (parquet_of(pa.table({"a": pa.nulls(5_000, pa.int8())})), "may have 1,000 rows"),
    "a Parquet file of codes": (parquet_of(codes_of_one_long_text()), "bytes once it is uncompressed"),
    "a million columns": (bytes_of(b",".join(b"c" for _ in range(1_000_000)) + b"\n1\n"), "may have 50 columns"),
    "too many columns of Parquet": (parquet_of(pa.table({f"c{i}": [1] for i in range(60)})), "may have 50 columns"),
    "a Parquet file of texts that repeat the one before": (expanding, "bytes once it is uncompressed"),
    "a header without an end": (bytes_of(b"a" * (2 << 20) + b"\n1\n"), "header row"),
    "gzip within gzip": (bytes_of(zipped(zipped(b"a\n1\n")), "t.csv.gz"), "compressed, or no text"),
    "gzip named CSV": (bytes_of(zipped(b"a\n1\n")), "compressed, or no text"),
    "CSV named Parquet": (bytes_of(b"a,b\n1,2\n", "t.parquet"), "must be whole"),
    "gzip that is cut short": (
        bytes_of(zipped(b"a\n" + os.urandom(5_000).hex().encode())[:-900], "t.csv.gz"),
        "cut short",
    ),
    "Parquet that is cut short": (bytes_of(b"PAR1" + b"\0" * 40 + b"PAR1", "t.parquet"), "must be whole"),
    "two columns of one name in Parquet": (parquet_of(two_columns_of_one_name()), "two columns of name='a'"),
    "a lone surrogate": (bytes_of(b"a\n\xed\xa0\x80\n"), "UTF-8"),
    "a pipe": (pipe, "a pipe or a device"),
    "a device": (device, "a pipe or a device"),
    "a folder": (folder_named_like_a_table, "is a folder"),
    "a nested column": (parquet_of(pa.table({"a": [[1]]})), "nested"),
    "JSON that is none": (bytes_of(b'{"a": 1}\n{"a": \n', "t.jsonl"), "has a line that is none"),
    "deep JSON": (bytes_of(b'{"a": ' + b"[" * 100_000 + b"\n", "t.jsonl"), "has a line that is none"),
    "JSON with a name twice": (bytes_of(b'{"a": 1, "a": 2}\n', "t.jsonl"), "names a column twice"),
    "JSON with a name of its own": (bytes_of(b'{"a": 1}\n{"b": 2}\n', "t.jsonl"), "first line"),
    "JSON with a NUL": (bytes_of(b'{"a": "\\u0000"}\n', "t.jsonl"), "NUL"),
    "JSON with half a surrogate pair": (bytes_of(b'{"a": "\\ud800"}\n', "t.jsonl"), "surrogate"),
    "a JSON bomb": (bytes_of(zipped(b'{"a": "' + b"x" * (8 << 20) + b'"}\n'), "t.jsonl.gz"), "once it is uncompressed"),
    "CSV named Feather": (bytes_of(b"a,b\n1,2\n", "t.feather"), "must be whole"),
    "Feather that is cut short": (feather_of(pa.table({"a": [1] * 900}), cut=300), "must be whole"),
    "Feather of an index beyond its texts": (pointing_elsewhere, "must be whole"),
    "Feather of too many rows": (feather_of(pa.table({"a": pa.nulls(5_000, pa.int8())})), "may have 1,000 rows"),
    "a Feather bomb": (feather_of(pa.table({"a": ["x" * (1 << 20)] * 8})), "bytes once it is uncompressed"),
    "Feather of codes": (feather_of(codes_of_one_long_text()), "bytes once it is uncompressed"),
    "CSV named Excel": (bytes_of(b"a,b\n1,2\n", "t.xlsx"), "must be whole"),
    "a zip file named Excel": (sheet_of("", {"xl/workbook.xml": None}), "must be whole"),
    "an empty sheet": (sheet_of(""), "needs a header row"),
    "a cell far away": (sheet_of('<row r="999"><c r="XFD999"><v>1</v></c></row>'), "may have 50 columns"),
    "a row far away": (sheet_of('<row r="1048576"><c r="A1048576"><v>1</v></c></row>'), "may have 1,000 rows"),
    "a sheet of blanks": (sheet_of(" " * (8 << 20)), "bytes once it is uncompressed"),
    "a long text in many cells": (
        sheet_of("<row>" + '<c t="s"><v>0</v></c>' * 40 + "</row>", texts=f"<si><t>{'x' * 200_000}</t></si>"),
        "bytes once it is uncompressed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_table_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    write, clause = REFUSED[name]
    with pytest.raises(TableError) as caught:
        read_table(write(tmp_path), limits=SMALL)
    message = str(caught.value)
    assert clause in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_bomb_is_given_up_before_it_fills_the_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = bomb(tmp_path)
    tracemalloc.start()
    with pytest.raises(TableError):
        read_table(path, limits=SMALL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * SMALL.n_bytes


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = bytes_of(b"a\n1\n")(tmp_path)
    batches = Table.of(path).parts[0]()
    next(batches)
    with path.open("ab") as file:
        file.write(b"2\n")
    with pytest.raises(TableError, match="changed"):
        list(batches)


def test_a_table_may_need_many_times_what_train_needs_but_not_any_number_of_times() -> None:
    small, large = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": np.zeros(10_000_000, dtype=np.int64)})
    assert SizeLimits.beside(small) == SizeLimits(LEAST_BYTES, LEAST_ROWS, 2_000)
    assert SizeLimits.beside(large).n_rows == TIMES * len(large)
    assert SizeLimits.beside(large).n_bytes == TIMES * len(large) * 8


SUFFIXES = [".csv", ".csv.gz", ".parquet"]
WIDEST = float(np.finfo(np.float64).max) / 2
"""Bounds of either sign whose distance float64 still holds; wider ones are no schema."""
QUIET = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

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
    pd.testing.assert_frame_equal(conform(present(canonical, schema), schema), canonical)
    pd.testing.assert_frame_equal(conform(canonical, schema), canonical)
    return canonical


TIME: dict[str, Any] = {"kind": "datetime", "bounds": [dt.datetime.min, dt.datetime.max], "precision": "us"}
REAL: dict[str, Any] = {"kind": "real", "bounds": [-WIDEST, WIDEST]}
DAY: dict[str, Any] = {"kind": "date", "bounds": [dt.date.min, dt.date.max]}
SURVIVORS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "texts of any characters": ({"kind": "categorical"}, TEXT),
    "whole numbers of 64 bits": (
        {"kind": "integer", "bounds": [-(2**63), 2**63 - 1]},
        st.integers(-(2**63), 2**63 - 1),
    ),
    "reals to the last bit": (REAL, st.floats(-WIDEST, WIDEST)),
    "reals of a precision": (
        REAL | {"bounds": [-1e9, 1e9], "decimals": 3},
        st.integers(-(10**12), 10**12).map(lambda n: n / 1000),
    ),
    "days of all years": (DAY, st.dates()),
    "times of all years": (TIME, st.datetimes()),
    "times that each have an offset": (TIME | {"timezone": "mixed"}, AWARE),
    "times of a zone whose clock changes": (
        TIME | {"timezone": "Europe/Paris"},
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2300, 1, 1), timezones=st.just(dt.UTC)),
    ),
}


@pytest.mark.parametrize("what", SURVIVORS)
@QUIET
@given(data=st.data())
def test_values_of_every_kind_survive_every_file(what: str, data: st.DataObject, tmp_path: Path) -> None:
    column, strategy = SURVIVORS[what]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=20).filter(lambda v: set(v) != {None}))
    if column["kind"] == "categorical":
        column = column | {"categories": sorted({value for value in values if value is not None})}
    schema = _schema(**{"a, \"b'": column | {"missing": True}})
    frame = pd.DataFrame({"a, \"b'": pd.Series(values, dtype=float if column["kind"] == "real" else object)})
    shown = _assert_survives(frame, schema, tmp_path).iloc[:, 0]
    if column["kind"] in ("date", "datetime") and "timezone" not in column:
        shown = shown.to_numpy().astype("datetime64[D]" if column["kind"] == "date" else "datetime64[us]")
    if column.get("timezone") == "Europe/Paris":
        assert shown.dtype == PARIS
        shown = shown.dt.tz_convert("UTC")
    # As texts, which tell offsets, the signs of zeros and the last bits apart.
    cells = [None if value is None or pd.isna(value) else str(value) for value in shown.tolist()]
    assert cells == [None if value is None else str(value) for value in values]


NASTY = (
    "a\nb", "a\rb", "\r\n", 'a"b', '"a"', '"', "a,b", ",", "\ufeffa", "\ufeff", " a", "a ", " ", "\t", "\u2028", "\x85",
    "__index_level_0__", "__null_dask_index__", "\U0001f600", "Age", "age", "#", "=1+1", "a;b", "a|b", "\\N", "NULL",
    "-", "understudy_rows", "filename", "file_row_number", "level_0", "index", "x" * 300, "x" * 140_000,
)  # fmt: skip
NAMES = st.lists(st.sampled_from(NASTY) | TEXT, min_size=1, max_size=4, unique=True)


@settings(QUIET, max_examples=10)
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
    assert list(Table.of(path, named=False).names) == names


KINDS: dict[str, tuple[dict, list]] = {
    "whole": ({"kind": "integer", "bounds": [0, 9], "missing": True}, [1, None, 9]),
    "real": ({"kind": "real", "bounds": [0.0, 1.0]}, [0.5, 0.25, 1.0]),
    "text": ({"kind": "categorical", "categories": ["x", "y,z"], "missing": True}, ["y,z", None, "x"]),
}


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_reader_takes_whole_is_in_no_schema_and_no_table(name: str) -> None:
    with pytest.raises(SchemaError, match="no NUL character and no half of a surrogate pair"):
        _schema(**{name: KINDS["whole"][0]})
    with pytest.raises(TableError, match="has a NUL character or half a surrogate pair in column="):
        infer_schema(pd.DataFrame({name: [1, 2]}))


def test_a_declared_text_for_missing_values_is_written(tmp_path: Path) -> None:
    columns = {"a": {"kind": "integer", "bounds": [0, 9], "missing": True}}
    schema = build_schema({"status": "declared", "missing_values": ["?"], "columns": columns})
    write_table(pd.DataFrame({"a": ["1", "?", ""]}), tmp_path / "t.csv", schema)
    assert (tmp_path / "t.csv").read_text() == "a\n1\n?\n?\n"


def test_what_was_read_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('status = "declared"\n[columns.a]\nkind = "boolean"\n')
    first = read_given(path, "schema", SchemaError)
    schema = schema_of(first)
    path.write_text('status = "declared"\n[columns.b]\nkind = "boolean"\n')
    assert schema_of(first) == schema != read_schema(path)
    assert first.sha256 != read_given(path, "schema", SchemaError).sha256


@pytest.mark.parametrize("name", ["nothing.toml", ".", "a\0b"])
def test_what_is_no_file_ends_in_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="the job cannot be read"):
        read_toml(tmp_path / name, "job", JobError)


def test_a_block_that_fails_leaves_nothing_new_behind_and_an_older_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(RuntimeError), whole_file(tmp_path / "a.csv") as beside:
        beside.write_text("half")
        raise RuntimeError
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "b") as folder:
        (folder / "x").write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"] and (tmp_path / "a.csv").read_text() == "old"


def test_places_that_are_taken_or_closed_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(OutputError, match="must be new"), whole_folder(tmp_path / name):
            pass
    assert (tmp_path / "full" / "x").read_text() == "mine"
    with pytest.raises(OutputError, match="file' is a file"), whole_file(tmp_path / "file" / "no" / "a.csv"):
        pass
    with pytest.raises(OutputError, match="is a folder"), whole_file(tmp_path):
        pass


def killed_at(moment: int, out: Path, *, is_file: bool) -> int:
    """The exit code of a process that makes an output and dies at a touch of the disk."""
    child = os.fork()
    if child == 0:
        numbers = itertools.count()

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **options: Any) -> Any:
                if next(numbers) == moment:
                    os._exit(9)
                return call(*arguments, **options)

            return called

        for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
            setattr(os, name, dying(getattr(os, name)))
        with whole_file(out) if is_file else whole_folder(out) as beside:
            (beside if is_file else beside / "x").write_text("made")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.statistical
@pytest.mark.parametrize("is_file", [True, False])
def test_killed_at_any_touch_of_the_disk_an_output_is_whole_or_not_there(is_file: bool, tmp_path: Path) -> None:
    seen, moment, code = set(), 0, 9
    while code:
        out = tmp_path / str(moment) / "out.csv"
        out.parent.mkdir()
        code = killed_at(moment, out, is_file=is_file)
        seen.add(out.exists())
        assert not out.exists() or (out if is_file else out / "x").read_text() == "made"
        moment += 1
    assert seen == {True, False}


FIELDS = st.text(st.sampled_from('ab,"\n\r é'), max_size=5)
ROWS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8)


def cells_of(content: bytes, size: int) -> list[tuple[str | None, ...]]:
    """The cells of two columns, read as if a block had so many bytes."""
    stream = TextStream(io.BytesIO(content), "t.csv", SizeLimits())
    parts = [_parse_csv(rows, 2, "t.csv", ",") for rows in _whole_rows(stream, ",", size)]
    return list(zip(*pa.concat_tables(parts).to_pydict().values(), strict=True))


@QUIET
@given(rows=ROWS, size=st.integers(1, 40), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_rows_are_the_same_however_a_file_is_cut(rows: list[tuple[str, str]], size: int, end: str) -> None:
    def quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n\r') else field

    content = "".join(",".join(map(quoted, row)) + end for row in rows).encode()
    assert cells_of(content, size) == [tuple(field or None for field in row) for row in rows]
