"""One real table with its sides and two synthetic ones, in memory and on every backend."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.schema import Schema, build_schema
from synth.stored import StoredTable, open_table
from synth.stored.connection import StorageLocation
from tests.synth.postgres import Server, server
from tests.synth.stored.conftest import BACKENDS, spark

__all__ = ["server", "spark"]

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P####"},
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "real", "bounds": [0, 1e6], "decimals": 2, "missing": True},
    "score": {"kind": "real", "bounds": [-10, 10]},
    "region": {"kind": "categorical", "categories": ["north", "south", "east"], "missing": True},
    "since": {"kind": "date", "bounds": ["2000-01-01", "2030-12-31"]},
    "smoker": {"kind": "boolean"},
}
PARTS = {"train": 600, "holdout": 500, "synthetic": 550}
Sides = dict[str, pd.DataFrame]
Put = Callable[[Mapping[str, pd.DataFrame]], dict[str, StoredTable]]


def schema_of(*, entities: bool = False) -> Schema:
    columns = COLUMNS if entities else {name: column for name, column in COLUMNS.items() if name != "who"}
    content = {"status": "declared", "target": "smoker", "sensitive": ["region"], "columns": columns}
    return build_schema({**content, "entity": "who", "max_rows_per_unit": 9} if entities else content)


def rows(n: int, seed: int, *, entities: bool = False) -> pd.DataFrame:
    """Rows that hang together, with missing values; with entities, of one to three rows each."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    smoker = rng.random(n) < np.where(age > 50, 0.6, 0.2)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(n) < 0.1, np.nan, np.round(rng.lognormal(9, 0.5, n) * (1 + smoker), 2)),
            "score": np.clip(rng.normal(0, 3, n), -10, 10),
            "region": np.where(
                rng.random(n) < 0.05, None, rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
            ),
            "since": pd.to_datetime("2010-01-01") + pd.to_timedelta(age * 40 + rng.integers(0, 99, n), unit="D"),
            "smoker": smoker,
        }
    )
    if entities:
        frame.insert(0, "who", [f"P{1000 * seed + i:04d}" for i in np.sort(rng.integers(0, n // 2, n))])
    return frame


def sides(*, entities: bool = False, n: Mapping[str, int] = PARTS) -> Sides:
    """Train, holdout, and a synthetic table that is not all honest: some of its rows are training rows, some twice."""
    made = {name: rows(n[name], seed, entities=entities) for seed, name in enumerate(n, 1)}
    taken = made["train"].head(n["train"] // 10)
    others = made["synthetic"].iloc[2 * len(taken) :]
    copied = pd.concat([taken, taken], ignore_index=True)
    if entities:
        copied["who"] = made["synthetic"]["who"].to_numpy()[: len(copied)]
    return {**made, "synthetic": pd.concat([copied, others], ignore_index=True)}


@pytest.fixture(params=BACKENDS)
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Put]:
    """What stores tables on one backend, each by itself."""
    opened: list[Any] = []

    def on_files(frames: Mapping[str, pd.DataFrame]) -> dict[str, StoredTable]:
        for name, frame in frames.items():
            pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{name}.parquet")
        return {name: entered(tmp_path / f"{name}.parquet") for name in frames}

    def on_a_server(frames: Mapping[str, pd.DataFrame]) -> dict[str, StoredTable]:
        import ibis

        running: Server = request.getfixturevalue("server")
        url = running.url(running.create())
        connection = ibis.connect(url)
        for name, frame in frames.items():
            connection.create_table(name, pa.Table.from_pandas(frame))
        connection.disconnect()
        return {name: entered(f"{url}#{name}") for name in frames}

    def on_spark(frames: Mapping[str, pd.DataFrame]) -> dict[str, StoredTable]:
        connection, stored = request.getfixturevalue("spark"), {}
        for name, frame in frames.items():
            path = tmp_path / f"{name}.parquet"
            pq.write_table(pa.Table.from_pandas(frame), path, coerce_timestamps="us")
            stored[name] = StoredTable(StorageLocation(connection, "spark"), connection.read_parquet(str(path)))
        return stored

    def entered(address: object) -> StoredTable:
        opened.append(open_table(str(address)))
        found: StoredTable = opened[-1].__enter__()
        return found

    yield {"duckdb": on_files, "postgres": on_a_server, "pyspark": on_spark}[request.param]
    for one in opened:
        one.__exit__(None, None, None)
    if request.param == "pyspark":
        request.getfixturevalue("spark").raw_sql("CLEAR CACHE")
