"""One table from anywhere: the same schema, the same model, and samples of the kind of frame that came in."""

import datetime as dt
import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

import synth
from synth.errors import TableError
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.table import Table, conform
from synth.table.rows import Rows
from synth.table.table import Chunk
from tests.synth.table.workbook import write_workbook


def visits(n: int = 120) -> pd.DataFrame:
    """Categories, whole numbers, reals, days, times, and missing values."""
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01T00:00:00", "us")
    days = start + rng.integers(0, 900, n).astype("timedelta64[D]")
    frame = pd.DataFrame(
        {
            "ward": rng.choice(["north", "south, upper", 'the "new" one', "NA"], n),
            "age": pd.array(rng.integers(18, 95, n), dtype="Int64"),
            "cost": np.round(rng.normal(1000.5, 200, n), 2) + 0.01,
            "day": days,
            "seen": days + rng.integers(1, 86_400, n).astype("timedelta64[s]"),
            "stage": rng.integers(1, 5, n),
        }
    )
    frame.loc[rng.random(n) < 0.2, ["ward", "cost", "seen"]] = None
    frame.loc[rng.random(n) < 0.2, "age"] = pd.NA
    return frame


def texts(frame: pd.DataFrame) -> list[list[Any]]:
    """The cells as a text file holds them."""

    def text(value: Any) -> str | None:
        if pd.isna(value):
            return None
        if isinstance(value, pd.Timestamp):
            return value.date().isoformat() if value == value.normalize() else value.isoformat()
        return str(value)

    return [[text(value) for value in row] for row in frame.astype(object).to_numpy()]


def objects(frame: pd.DataFrame) -> list[list[Any]]:
    rows = frame.astype(object).to_numpy().tolist()
    rows = [[v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in row] for row in rows]
    return [list(frame.columns), *([None if pd.isna(value) else value for value in row] for row in rows)]


def csv_file(frame: pd.DataFrame, folder: Path, suffix: str = ".csv", delimiter: str = ",") -> Path:
    path = folder / f"t{suffix}"
    cells = pd.DataFrame(texts(frame), columns=frame.columns)
    cells.to_csv(path, index=False, sep=delimiter)
    return path


def json_file(frame: pd.DataFrame, folder: Path) -> Path:
    path = folder / "t.jsonl"
    rows = [dict(zip(frame.columns, row, strict=True)) for row in objects(frame)[1:]]
    written = [
        {k: t if isinstance(v, dt.datetime) else v for (k, v), t in zip(row.items(), text, strict=True)}
        for row, text in zip(rows, texts(frame), strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in written))
    return path


def parquet_file(frame: pd.DataFrame, folder: Path) -> Path:
    pa.parquet.write_table(arrow(frame), folder / "t.parquet", row_group_size=30)
    return folder / "t.parquet"


def parquet_folder(frame: pd.DataFrame, folder: Path) -> Path:
    (folder / "parts").mkdir()
    for number, start in enumerate(range(0, len(frame), 50)):
        pa.parquet.write_table(arrow(frame).slice(start, 50), folder / "parts" / f"{number}.parquet")
    return folder / "parts"


def feather_file(frame: pd.DataFrame, folder: Path) -> Path:
    pa.feather.write_feather(arrow(frame), folder / "t.feather", compression="zstd")
    return folder / "t.feather"


def duckdb_file(frame: pd.DataFrame, folder: Path) -> str:
    with duckdb.connect(folder / "t.db") as base:
        base.register("given", arrow(frame))
        base.execute("CREATE TABLE visits AS SELECT * FROM given")
    return f"duckdb://{folder / 't.db'}#visits"


def polars_frame(frame: pd.DataFrame, folder: Path) -> Any:
    return pytest.importorskip("polars").from_arrow(arrow(frame))


def excel_file(frame: pd.DataFrame, folder: Path) -> Path:
    pytest.importorskip("python_calamine")
    return write_workbook(folder / "t.xlsx", objects(frame))


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, _: frame,
    "Arrow dtypes": lambda frame, _: arrow(frame).to_pandas(types_mapper=pd.ArrowDtype),
    "dict": lambda frame, _: {name: frame[name].array for name in frame},
    "Arrow": lambda frame, _: arrow(frame),
    "Arrow reader": lambda frame, _: arrow(frame).to_reader(),
    "data set": lambda frame, folder: pa.dataset.dataset(parquet_folder(frame, folder)),
    "relation": lambda frame, _: duckdb.from_arrow(arrow(frame)),
    "polars": polars_frame,
    "CSV": csv_file,
    "CSV, compressed": lambda frame, folder: csv_file(frame, folder, ".csv.gz"),
    "TSV": lambda frame, folder: csv_file(frame, folder, ".tsv", "\t"),
    "JSON lines": json_file,
    "Parquet": parquet_file,
    "folder": parquet_folder,
    "pattern": lambda frame, folder: f"{parquet_folder(frame, folder)}/*.parquet",
    "Feather": feather_file,
    "Excel": excel_file,
    "database": duckdb_file,
}


@pytest.fixture(scope="module")
def known() -> tuple[pd.DataFrame, Schema, pd.DataFrame]:
    """A frame, its schema, and a sample of its model."""
    frame = visits()
    schema = infer_schema(frame, constraints=False)
    return frame, schema, synth.fit(frame, schema, "independent", seed=3).sample(40, seed=4)


@pytest.mark.parametrize("name", SOURCES)
def test_a_table_has_one_schema_and_one_model_wherever_it_comes_from(
    name: str, known: tuple[pd.DataFrame, Schema, pd.DataFrame], tmp_path: Path
) -> None:
    frame, schema, sample = known
    source = SOURCES[name](frame, tmp_path)
    table = Table.of(source)  # a reader is read once
    assert infer_schema(table, constraints=False) == schema
    pd.testing.assert_frame_equal(conform(table, schema), conform(frame, schema))
    if kind := {"polars": "polars", "Arrow dtypes": "pandas", "Arrow": "pyarrow", "CSV": "pandas"}.get(name):
        again = synth.fit(table, schema, "independent", seed=3).sample(40, seed=4)
        assert type(again).__module__.split(".")[0] == kind
        pd.testing.assert_frame_equal(conform(again, schema), conform(sample, schema))


@pytest.mark.parametrize(("name", "kind"), [("dict", pd.DataFrame), ("Arrow", pa.Table), ("CSV", Rows)])
def test_the_sides_of_a_frame_are_frames_of_its_kind_and_those_of_a_file_rows(
    name: str, kind: type, tmp_path: Path
) -> None:
    frame = visits()
    schema = infer_schema(frame)
    train, holdout = synth.split_table(SOURCES[name](frame, tmp_path), schema, holdout_share=0.4)
    assert isinstance(train, kind)
    assert isinstance(holdout, kind)
    known = synth.split_table(frame, schema, holdout_share=0.4).train
    pd.testing.assert_frame_equal(conform(train if kind is not Rows else train.frame(), schema), conform(known, schema))


def test_a_sample_has_the_dtypes_of_arrow_where_the_frame_had_them() -> None:
    frame = arrow(visits()).to_pandas(types_mapper=pd.ArrowDtype)
    sample = synth.fit(frame, "independent", progress=synth.quiet).sample(10, seed=0)
    assert sample.dtypes.to_dict() == frame.dtypes.to_dict()


def polars_lazily(frame: pd.DataFrame, folder: Path) -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_pandas(frame).lazy().select(polars.col("age").cast(polars.Int64))


def ibis_expression(frame: pd.DataFrame, folder: Path) -> Any:
    rows = pytest.importorskip("ibis").memtable(frame)
    return rows.select(age=rows.age.cast("int64"))


def dask_frame(frame: pd.DataFrame, folder: Path) -> Any:
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(frame, npartitions=1).map_partitions(
        lambda part: part.assign(age=part["age"].astype(int)), meta={"age": "i8"}
    )


def typed_data_set(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "t.csv", index=False)
    return pa.dataset.dataset(folder / "t.csv", format="csv", schema=pa.schema({"age": pa.int64()}))


UNFINISHED: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "polars": polars_lazily,
    "relation": lambda frame, _: duckdb.from_arrow(arrow(frame)).select("CAST(age AS INT) AS age"),
    "Ibis": ibis_expression,
    "Dask": dask_frame,
    "data set": typed_data_set,
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_a_library_says_of_a_frame_that_it_cannot_work_out_tells_no_cell(name: str, tmp_path: Path) -> None:
    source = UNFINISHED[name](pd.DataFrame({"age": ["31", "very ill"]}), tmp_path)
    with pytest.raises(TableError) as caught:
        Table.of(source).frame()
    assert "very ill" not in f"{caught.value!r} {caught.value.__context__!r}"


@pytest.mark.parametrize("source", [{"age": [31, 40], "ward": ["north"]}, {"age": 31}])
def test_a_dict_whose_columns_make_no_table_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(TableError, match="all of one length"):
        Table.of(source)


def test_columns_of_any_name_are_no_methods_of_a_frame() -> None:
    rows = pytest.importorskip("ibis").memtable(pd.DataFrame({"frames": [1], "chunks": [2], "collect_schema": [3]}))
    assert Table.of(rows).names == ("frames", "chunks", "collect_schema")


SECRET = "s3cret"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ann:{SECRET}@x@db.example/clinic#visits",
        f"postgresql://ann:{SECRET}#x@db.example/clinic#visits",
        f"postgresql://db.example:{SECRET}/clinic#visits",
        f"postgresql://db.example/clinic?password={SECRET}",
        f"ann:{SECRET}@db.example/clinic#visits",
        f"://{SECRET}@host#visits",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(TableError) as caught:
        Table.of(text)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("duckdb:///no/such.db#visits", "there is no database"),
        ("sqlite://visits.db#visits", "whole path behind three slashes"),
        ("sqlite://{folder}/t.db#nothing", "there is no such table"),
        ("sqlite://{folder}/t.db#broken", "SQLite refused the query"),
        ("sqlite://{folder}/t.db", "lacks the table's name"),
        ("sqlite://{folder}/none.db#visits", "it is no SQLite database"),
        ("nowhere://host/base#visits", "has no backend"),
    ],
)
def test_a_table_that_is_not_there_is_refused_in_a_sentence(address: str, rule: str, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "t.db").executescript(
        "CREATE TABLE visits (a); INSERT INTO visits VALUES (1); CREATE VIEW broken AS SELECT lost FROM visits"
    )
    (tmp_path / "none.db").write_bytes(b"x" * 5_000)
    with pytest.raises(TableError, match=rule):
        Table.of(address.format(folder=tmp_path)).frame()


def schema_of_visits() -> Schema:
    columns = {
        "age": {"kind": "integer", "bounds": [0, 99], "missing": True},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    }
    return build_schema({"status": "declared", "columns": columns})


def test_cells_of_any_type_are_read_from_sqlite_one_by_one(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "my visits.db")
    base.execute('CREATE TABLE "all visits" (age, ward)')
    rows = [(1, "a"), ("2", "b"), (3.0, None), (b"x", 7), ("\ud800".encode("utf-8", "surrogatepass"), "b")]
    base.executemany('INSERT INTO "all visits" VALUES (?, ?)', rows)
    base.commit()
    rows_read = conform(f"sqlite://{tmp_path}/my visits.db#all visits", schema_of_visits(), outside="clamp")
    assert rows_read["age"].fillna(-1).tolist() == [1, 2, 3, -1, -1]
    assert rows_read["ward"].tolist() == ["a", "b", None, "7", "b"]


FRAME = pd.DataFrame({"age": [1, 2, None, 4, 5, 120], "ward": ["a", "b", None, "a", "c", "a"]})


def count_wards(chunks: Iterator[Chunk]) -> dict[Any, int]:
    """The rows of each ward; on a cluster it runs where the rows are."""
    frame = pd.concat([chunk.frame(schema_of_visits()) for chunk in chunks])
    return {**frame["ward"].value_counts().to_dict(), "age": int(frame["age"].sum())}


def total(results: list[dict[Any, int]]) -> dict[Any, int]:
    return {key: sum(result.get(key, 0) for result in results) for key in {k for r in results for k in r}}


EXPECTED = {"a": 3, "b": 1, "c": 1, "age": 111}


def test_a_function_is_mapped_over_parts_here_and_in_a_pool(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.Table.from_pandas(FRAME), tmp_path / "t.parquet", row_group_size=2)
    table = Table.of(tmp_path / "t.parquet")
    assert total(table.map(count_wards, schema_of_visits())) == EXPECTED
    with ThreadPoolExecutor(2) as pool:
        results = table.on(pool).map(count_wards, schema_of_visits())
    assert len(results) == 3
    assert total(results) == EXPECTED


def test_a_function_is_sent_to_the_partitions_of_a_frame_of_dask() -> None:
    frames = pytest.importorskip("dask.dataframe")
    table = Table.of(frames.from_pandas(FRAME, npartitions=2))
    results = table.map(count_wards, schema_of_visits())
    assert len(results) == 2
    assert total(results) == EXPECTED
    pd.testing.assert_frame_equal(
        conform(table, schema_of_visits(), outside="clamp"), conform(FRAME, schema_of_visits(), outside="clamp")
    )
