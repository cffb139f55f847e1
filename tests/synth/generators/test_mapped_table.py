"""Counts made where rows are: by threads, processes, Dask and Spark, the same as of rows that are read here."""

import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.domain import Discretizer, dp_bounds
from synth.errors import JobError
from synth.generators.fitting import training_data
from synth.generators.fitting.training_data import MappedTable, TrainingTable
from synth.schema import Schema, build_schema
from synth.table import Table
from synth.table import table as tables
from synth.table.rows import Rows

N_UNITS = 60
COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P##"},
    "age": {"kind": "integer", "bounds": [0, 99]},
    "town": {"kind": "categorical", "categories": ["a", "b"]},
    "job": {"kind": "categorical", "measure": True},
}
JOBS = {**COLUMNS, "job": {"kind": "categorical", "categories": ["clerk", "cook", "smith"]}}


def schema_of(entity: str | None = None, columns: dict[str, Any] = COLUMNS) -> Schema:
    bounded = {} if entity is None else {"entity": entity, "max_rows_per_unit": 2}
    return build_schema({"status": "declared", "n_units": N_UNITS, "columns": columns, **bounded})


def visits(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "who": pd.array([f"P{i % N_UNITS:02d}" for i in range(n)], dtype="string"),
            "age": rng.integers(0, 120, n),
            "town": rng.choice(["a", "b", "c"], n),
            "job": rng.choice(["cook", "clerk", "smith"], n),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for index, part in enumerate(np.array_split(np.arange(240), 3)):
        visits().iloc[part].to_parquet(tmp_path / f"{index}.parquet", index=False)
    return tmp_path


def counted(table: Any) -> list[Any]:
    """All that a private fit asks of a table."""
    known = schema_of(columns=JOBS)
    codes, edges = Discretizer.by_schema(known), np.array([0.0, 30.0, 99.0])
    coded = table.under(known).coded(codes)
    return [
        *(counts.tolist() for counts in table.under(known).cell_counts(codes.attributes)),
        *(counts.tolist() for counts in coded.each([("age", "town"), ("town", "job"), ("job",)])),
        table.category_counts("job"),
        table.value_counts("age"),
        table.place_counts("age", known.columns["age"], partial(dp_bounds.histogram, edges=edges)).tolist(),
        dict(coded.domain),
    ]


@contextmanager
def spawned(_: int) -> Iterator[Executor]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, pytest.param(spawned, marks=pytest.mark.slow)])
def test_counts_of_parts_add_up_to_those_of_all_rows(folder: Path, executor: Any) -> None:
    with executor(1) as pool:
        mapped = MappedTable.of(Table.of(folder).on(pool), schema_of())
        assert mapped is not None
        assert counted(mapped) == counted(TrainingTable(Rows.of(folder, schema_of())))


def test_rows_of_an_entity_are_bounded_together_on_dask_and_another_entity_moves_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = pytest.importorskip("dask.dataframe")
    monkeypatch.setattr(training_data.secrets, "randbits", lambda n: 12345)
    rows = visits()

    def jobs(frame: pd.DataFrame, n_parts: int) -> dict[str, int]:
        mapped = MappedTable.of(frames.from_pandas(frame, npartitions=n_parts), schema_of("who"))
        assert mapped is not None
        assert mapped.rows_per_entity().tolist() == [0, frame["who"].nunique()]
        return mapped.category_counts("job")

    whole = jobs(rows, 3)
    assert whole == jobs(rows.sample(frac=1.0, random_state=1), 2)  # whatever the parts and the order
    without = jobs(rows[rows["who"] != "P07"], 3)
    assert sum(whole.values()) - sum(without.values()) == 2
    assert all(whole[job] >= without.get(job, 0) for job in whole)


def test_the_order_of_an_entity_s_rows_has_no_say_in_which_of_them_stay() -> None:
    """A pass over a part of Spark may find them in another order, and all passes count the same rows."""
    rows, schema = pd.DataFrame({"who": "P00", "age": 30, "town": "a", "job": [*"abcdef"]}), schema_of("who")
    stayed = []
    for order in (rows, rows[::-1]):
        chunk = Table.of(order).chunk(schema)
        stayed.append({*chunk.frame(schema)["job"][training_data._kept(chunk, schema, 12345)]})
    assert stayed[0] == stayed[1] and len(stayed[0]) == 2


def test_rows_of_an_entity_in_the_parts_of_an_executor_are_refused(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(JobError, match="rows of an entity are counted together"):
        synth.fit(Table.of(folder).on(pool), schema_of("who"), "mst", epsilon=1.0, progress=synth.quiet)


@pytest.mark.slow  # a JVM starts
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Spark's client leaves sockets to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_private_fit_on_spark_brings_no_row_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    options = {"spark.pyspark.python": sys.executable, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    session = sql.SparkSession.builder.master("local[2]").config(map=options).getOrCreate()

    def refused(*_: Any) -> None:
        raise AssertionError("rows are brought here")

    try:
        frame = session.createDataFrame(visits().astype({"who": object}))
        monkeypatch.setattr(tables, "_rows_of_spark", refused)
        for name in ("toPandas", "toLocalIterator", "toArrow"):
            monkeypatch.setattr(type(frame), name, refused)
        mapped = MappedTable.of(frame, schema_of())
        assert mapped is not None
        assert counted(mapped) == counted(TrainingTable(Rows.of(visits(), schema_of())))
        model = synth.fit(frame, schema_of("who"), "mst", epsilon=1.0, progress=synth.quiet)
        assert model.statement is not None and 0.9 < model.statement.epsilon <= 1.0
    finally:
        session.stop()
