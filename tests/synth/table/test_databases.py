"""Tables in databases and on clusters: addresses that tell no password, and functions that go to the rows."""

import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from synth.errors import TableError
from synth.schema import Schema, build_schema
from synth.table import Table, conform
from synth.table.chunk import Chunk
from synth.table.databases import parse_address

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://ann:{SECRET}@db.example/clinic#visits", "postgresql://db.example/clinic#visits"),
        (
            f"postgresql://db.example:5433/clinic?password={SECRET}#a.visits",
            "postgresql://db.example:5433/clinic#a.visits",
        ),
        (f"postgresql://ann:{SECRET}%40x@[::1]/clinic#visits", "postgresql://::1/clinic#visits"),
    ],
)
def test_an_address_is_shown_without_its_secrets(text: str, shown: str) -> None:
    address = parse_address(text)
    assert (address.shown, address.url) == (shown, text.partition("#")[0])
    assert SECRET not in repr(address) + shown


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ann:{SECRET}@x@db.example/clinic#visits",
        f"postgresql://ann:{SECRET}/x@db.example/clinic#visits",
        f"postgresql://ann:{SECRET}#x@db.example/clinic#visits",
        f"postgresql://ann:{SECRET}?x@db.example/clinic#visits",
        f"postgresql://db.example:{SECRET}/clinic#visits",
        f"postgresql://db.example/clinic?password={SECRET}",
        f"ann:{SECRET}@db.example/clinic#visits",
        f"duckdb://{SECRET}@host/clinic.db#visits",
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


@pytest.mark.slow  # a JVM starts
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Spark's client leaves sockets to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_function_is_sent_to_the_partitions_of_a_frame_of_spark() -> None:
    sql = pytest.importorskip("pyspark.sql")
    options = {
        "spark.pyspark.python": sys.executable, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }  # fmt: skip
    session = sql.SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    try:
        rows = [(None if pd.isna(age) else int(age), ward) for age, ward in FRAME.itertuples(index=False)]
        table = Table.of(session.createDataFrame(rows, "age int, ward string").repartition(2))
        results = table.map(count_wards, schema_of_visits())
        assert len(results) == 2
        assert total(results) == EXPECTED
        here = conform(table, schema_of_visits(), outside="clamp").value_counts().to_dict()
        assert here == conform(FRAME, schema_of_visits(), outside="clamp").value_counts().to_dict()
        assert type(table.back(FRAME.dropna())).__module__.startswith("pyspark")
    finally:
        session.stop()
