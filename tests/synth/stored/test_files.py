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
from synth.generators.mst import Mst
from synth.generators.training_table import HeldTable
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


def test_rows_of_one_file_have_the_slots_that_they_have_in_memory(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": {"whole": COLUMNS["whole"]}})
    frame = every_kind()[["whole"]]
    frame.to_parquet(tmp_path / "rows.parquet")
    sides = split_table(frame, schema, holdout_share=0.25, seed=3, private=True)
    codes = Discretizer.by_schema(schema)
    with open_table(tmp_path / "rows.parquet") as stored:
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


def test_rows_without_a_name_are_not_split(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}}})
    pd.DataFrame({"x": [1, 2]}).to_csv(tmp_path / "rows.csv", index=False)
    with open_table(tmp_path / "rows.csv") as stored, pytest.raises(TableError, match="identifier"):
        stored.split(schema, holdout_share=0.5, seed=0)


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


WORD = {"kind": "categorical", "categories": ["a", "b"], "missing": True}


def test_whole_numbers_of_128_bits_end_no_fit(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.ddb")) as made:
        made.execute(f"CREATE TABLE t AS SELECT unnest([{2**127 - 1}, {-(2**127)}, 7, NULL])::HUGEINT AS x")
    column = {"kind": "integer", "bounds": [0, 9], "missing": True}
    schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": column}})
    with open_table(f"duckdb://{tmp_path / 'rows.ddb'}#t") as stored:
        counted = next(stored.training(schema).cell_counts(Discretizer.by_schema(schema).attributes))
    assert (counted.sum(), counted[-1]) == (4, 3)
