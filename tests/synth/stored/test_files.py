"""Files and folders of files are read as one table, and nothing of it stays behind."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.domain import Discretizer
from synth.errors import TableError
from synth.generators.fitting.training_data import HeldTable
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.stored import open_table
from synth.table import conform, read_table
from tests.synth.stored.conftest import COLUMNS, every_kind

CSV = {
    "status": "declared", "n_units": 3_000, "missing_values": ["?"],
    "columns": {name: {**COLUMNS[name], "missing": True} for name in ("whole", "real", "fine", "word", "code", "day")}
    | {"yes": {"kind": "boolean", "missing": True, "tokens": ["no", "yes"]}},
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_csv_file_is_read_as_in_memory(tmp_path: Path, suffix: str) -> None:
    schema = build_schema(CSV)
    frame = every_kind()[list(CSV["columns"])].astype(object)  # type: ignore[call-overload]
    frame["yes"] = frame["yes"].map({True: "yes", False: "no"})
    frame.loc[::19, "whole"], frame.loc[::23, "whole"], frame.loc[::29, "real"] = "?", "1e1", "none of a number"
    frame.loc[::31, "day"], frame.loc[::37, "real"], frame.loc[::41, "yes"] = "2001-02-30", " 7", "maybe"
    path = tmp_path / f"rows{suffix}"
    frame.to_csv(path, index=False)
    held = HeldTable(read_table(path, schema, outside="clamp"), schema)
    attributes = Discretizer.by_schema(schema).attributes
    with open_table(path) as stored:
        counted = list(stored.training(schema).cell_counts(attributes))
    for attribute, here, there in zip(attributes, held.cell_counts(attributes), counted, strict=True):
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)


def test_a_folder_of_files_is_one_table(tmp_path: Path, kinds: Schema) -> None:
    frame = every_kind()
    for index, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        (tmp_path / f"part={index}").mkdir()
        pq.write_table(pa.Table.from_pandas(frame.iloc[part]), tmp_path / f"part={index}" / "rows.parquet")
    codes = Discretizer.by_schema(kinds)
    held = HeldTable(conform(frame, kinds, outside="clamp"), kinds)
    with open_table(tmp_path) as stored:
        assert len(stored) == len(frame)
        found = stored.training(kinds).coded(codes).counts(("level", "word"))
    np.testing.assert_array_equal(found, held.coded(codes).counts(("level", "word")))


def test_what_writers_leave_beside_the_files_of_a_table_is_none_of_it(tmp_path: Path) -> None:
    left = ("part-0.parquet", ".part-0.parquet.ab12.parquet", "_temporary/0/part-0.parquet", "_log.parquet", ".parquet")
    folder = tmp_path / ".hidden"  # its own name is of no matter
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        every_kind()[["whole"]].head(10).to_parquet(folder / name)
    with open_table(folder) as stored:
        assert len(stored) == 10
    (folder / "part-0.parquet").unlink()
    with pytest.raises(TableError, match=r"holds no \.parquet"), open_table(folder):
        pass


def test_row_numbers_of_pandas_are_no_column(tmp_path: Path) -> None:
    frame = every_kind()[["whole", "real"]].iloc[[5, 3, 9]]
    frame.to_parquet(tmp_path / "rows.parquet")
    assert len(pq.read_schema(tmp_path / "rows.parquet").names) == 3
    with open_table(tmp_path) as stored:
        assert [name for name in stored.rows.columns if name != stored.slot] == ["whole", "real"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_blank_line_is_no_row(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rows.csv"
    for lines, n_rows in ((["x", "1", "", '""', "2", "", ""], 3), (["x,y", "1,1", "", ",", "2,2", ""], 3)):
        path.write_bytes(end.join(lines).encode())
        schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": GONE}})
        held = HeldTable(read_table(path)[["x"]].pipe(conform, schema, outside="clamp"), schema)
        attributes = Discretizer.by_schema(schema).attributes
        with open_table(path) as stored:
            assert len(stored) == n_rows
            counted = next(stored.training(schema).cell_counts(attributes))
        np.testing.assert_array_equal(counted, next(iter(held.cell_counts(attributes))))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x,y\n1,77\n2\n", "as many fields as its header"),
        (b"x,y\n1,77\n2,3,4\n", "as many fields as its header"),
        (b'x,y\n1,"77\n2,3\n', "every quote in a CSV file must be closed"),
        (b'x,y\n1,"77"7\n2,3\n', "every quote in a CSV file must be closed"),
        ("x,y\n1,77\n2,\xe9\n".encode("latin-1"), "must be UTF-8 text"),
        (b"x,y\r\n1,77\n2,3\r\n", "must end alike"),
        (b"x,y\n1,77\n2,3\r\n", "must end alike"),
        (b'x,y\n1,77\n2,"3"\r\n4,5\n', "all lines must end alike"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(TableError, match=said) as error, open_table(tmp_path) as stored:
        len(stored.place.fetch(stored.rows))
    assert "77" not in str(error.value).replace(str(tmp_path), "") and "\n" not in str(error.value)


def test_a_far_time_in_milliseconds_is_told_by_its_unit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([0, 10**17], pa.timestamp("ms"))}), tmp_path / "rows.parquet")
    with pytest.raises(TableError, match="write times in microseconds"), open_table(tmp_path) as stored:
        stored.place.fetch(stored.rows)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_without_a_name_fall_on_the_sides_that_they_fall_on_in_memory(tmp_path: Path, suffix: str) -> None:
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": {"whole": COLUMNS["whole"]}})
    frame = every_kind()[["whole"]]
    if suffix == "csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "rows.parquet")
    sides = split_table(frame, schema, holdout_share=0.25, seed=3, private=True)
    codes = Discretizer.by_schema(schema)
    with open_table(tmp_path / f"rows.{suffix}") as stored:
        train, _ = stored.split(schema, holdout_share=0.25, seed=3)
        found = train.training(schema).coded(codes).counts(("whole",))
    np.testing.assert_array_equal(found, HeldTable(sides.train, schema).coded(codes).counts(("whole",)))


def test_rows_of_several_files_fall_on_both_sides(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": {"whole": COLUMNS["whole"]}})
    for index in range(3):
        every_kind()[["whole"]].to_parquet(tmp_path / f"{index}.parquet")
    sizes = []
    for _ in range(2):
        with open_table(tmp_path) as stored:
            train, holdout = stored.split(schema, holdout_share=0.25, seed=3)
            sizes.append((len(train), len(holdout)))
    assert sizes[0] == sizes[1] and sum(sizes[0]) == 9_000
    assert 2_000 < sizes[0][1] < 2_500


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: Any, kinds: Schema) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    every_kind().to_parquet(tmp_path / "rows.parquet", coerce_timestamps="us")
    with open_table(tmp_path / "rows.parquet") as stored:
        Mst(epsilon=1.0).fit(stored, kinds)
        assert any((tmp_path / "work").iterdir())
    assert not any((tmp_path / "work").iterdir())


def test_little_memory_is_enough(tmp_path: Path) -> None:
    names = ("whole", "real", "word", "level")
    schema = build_schema({"status": "declared", "n_units": 10**6, "columns": {n: COLUMNS[n] for n in names}})
    frame = pd.concat([every_kind()[list(names)]] * 300, ignore_index=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    with open_table(tmp_path / "rows.parquet", memory_mb=100, threads=1) as stored:
        rows = stored.training(schema)
        codes = Discretizer.by_schema(schema)
        pairs = list(itertools.combinations(codes.columns, 2))
        assert all(int(counts.sum()) == len(frame) for counts in rows.coded(codes).each(pairs))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_may_have_the_names_that_duckdb_gives_its_own(tmp_path: Path, suffix: str) -> None:
    names = ("filename", "file_row_number", "file_index", "understudy")
    columns = {"who": COLUMNS["who"], **{name: {"kind": "integer", "bounds": [0, 9]} for name in names}}
    schema = build_schema({"status": "declared", "n_units": 100, "columns": columns})
    frame = pd.DataFrame({"who": [f"P{i:04d}" for i in range(300)], **{name: np.arange(300) % 7 for name in names}})
    if suffix == ".csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "rows.parquet")
    codes = Discretizer.by_schema(schema)
    with open_table(tmp_path / f"rows{suffix}") as stored:
        train, holdout = stored.split(schema, holdout_share=0.3, seed=0)
        found = train.training(schema).coded(codes).counts(("filename", "file_row_number"))
        assert len(train) + len(holdout) == 300
    sides = split_table(frame, schema, holdout_share=0.3, seed=0, private=True)
    here = HeldTable(sides.train, schema).coded(codes).counts(("filename", "file_row_number"))
    np.testing.assert_array_equal(found, here)


def test_a_long_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"x,y\n1,{'a' * 5_000_000}\n2,b\n")
    schema = build_schema(
        {"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}, "y": WORD}}
    )
    with open_table(tmp_path / "rows.csv") as stored:
        counted = list(stored.training(schema).cell_counts(Discretizer.by_schema(schema).attributes))
    assert counted[1].tolist() == [0, 1, 1, 0]


GONE = {"kind": "integer", "bounds": [0, 9], "missing": True}
WORD = {"kind": "categorical", "categories": ["a", "b"], "missing": True}


def test_whole_numbers_of_128_bits_end_no_fit(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.ddb")) as made:
        made.execute(f"CREATE TABLE t AS SELECT unnest([{2**127 - 1}, {-(2**127)}, 7, NULL])::HUGEINT AS x")
    column = {"kind": "integer", "bounds": [0, 9], "missing": True}
    schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": column}})
    with open_table(f"duckdb://{tmp_path / 'rows.ddb'}#t") as stored:
        counted = next(stored.training(schema).cell_counts(Discretizer.by_schema(schema).attributes))
    assert (counted.sum(), counted[-1]) == (4, 3)
