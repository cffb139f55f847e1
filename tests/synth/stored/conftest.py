"""One table with cells of every kind, in memory and on every backend."""

import datetime as dt
import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from tests.synth.postgres import Server

LEFT_OPEN = [  # Spark's client leaves the sockets of answers to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
BACKENDS = ["duckdb", "postgres", pytest.param("pyspark", marks=[pytest.mark.slow, *LEFT_OPEN])]
N_ROWS = 3_000
COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P####"},
    "whole": {"kind": "integer", "bounds": [0, 150]},
    "gone": {"kind": "integer", "bounds": [0, 150], "missing": True},
    "real": {"kind": "real", "bounds": [-150.0, 150.0], "missing": True},
    "fine": {"kind": "real", "bounds": [-15.0, 15.0], "decimals": 2},
    "money": {"kind": "real", "bounds": [0.0, 1e5], "scale": "log"},
    "exact": {"kind": "real", "bounds": [-4.0, 4.0], "decimals": 1},
    "yes": {"kind": "boolean", "missing": True},
    "word": {
        "kind": "categorical", "categories": ["a", "b", "Ä", "\U0001f642", 'x"; drop table t; --'], "missing": True,
    },
    "level": {"kind": "categorical", "categories": [0, 1, 2]},
    "code": {"kind": "categorical", "categories": ["0", "1", "2", "2.5"]},
    "day": {"kind": "date", "bounds": ["1969-12-28", "1970-01-20"], "missing": True},
    "seen": {
        "kind": "datetime", "bounds": ["1969-12-28T00:00:00", "1970-01-20T00:00:00"], "missing": True,
        "precision": "min",
    },
    "zoned": {
        "kind": "datetime", "bounds": ["2021-03-21T00:00:00", "2021-04-03T00:00:00"], "timezone": "Europe/Paris",
        "precision": "us",
    },
}  # fmt: skip


def every_kind() -> pd.DataFrame:
    """Rows with all that a cell may be: missing, beyond bounds, unknown, between two steps, on either side of 1970."""
    rng, n = np.random.default_rng(0), N_ROWS
    days = rng.integers(0, 40, n)
    words = np.array(["a", "b", "Ä", "a ", "A", "", None, "\U0001f642", 'x"; drop table t; --'], dtype=object)
    frame = pd.DataFrame(
        {
            "who": [f"P{i:04d}" for i in range(n)],
            "whole": rng.integers(-50, 200, n),
            "gone": pd.array(rng.integers(-50, 200, n), dtype="Int64"),
            "real": rng.normal(0, 100, n),
            "fine": np.round(rng.normal(0, 10, n), 3),
            "money": np.exp(rng.normal(0, 4, n)),
            "exact": [decimal.Decimal(int(v)) / 100 for v in rng.integers(-500, 500, n)],
            "yes": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "word": rng.choice(words, n),
            "level": rng.integers(0, 6, n),
            "code": rng.integers(0, 6, n),
            "day": [dt.date(1969, 12, 25) + dt.timedelta(days=int(d)) for d in days],
            "seen": pd.Timestamp("1969-12-25") + pd.to_timedelta(rng.integers(0, 40 * 86400 * 10**6, n), unit="us"),
            "zoned": (
                pd.Timestamp("2021-03-20") + pd.to_timedelta(rng.integers(0, 20 * 86400 * 10**6, n), unit="us")
            ).tz_localize("UTC").tz_convert("Europe/Paris"),
        }
    )  # fmt: skip
    frame.loc[::7, "gone"], frame.loc[::11, "real"], frame.loc[5, "real"] = pd.NA, np.nan, np.inf
    frame.loc[::13, "day"], frame.loc[::9, "seen"], frame.loc[::17, "yes"] = None, pd.NaT, pd.NA
    return frame


@dataclass(frozen=True)
class Both:
    """The same rows in memory and where they are stored."""

    held: pd.DataFrame
    stored: StoredTable


Put = Callable[[pd.DataFrame], Both]


@pytest.fixture(scope="session")
def kinds() -> Schema:
    return build_schema({"status": "declared", "n_units": N_ROWS, "columns": COLUMNS})


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A connection to Spark in this process."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    import ibis
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "3g", "spark.sql.ui.retainedExecutions": "1",  # plans of all tests else fill its heap
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield ibis.pyspark.connect(session)
    session.stop()


@pytest.fixture(params=BACKENDS)
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Put]:
    """What stores rows on one backend."""
    opened: list[Any] = []

    def on_files(frame: pd.DataFrame) -> Both:
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
        opened.append(open_table(tmp_path / "rows.parquet"))
        return Both(frame, opened[-1].__enter__())

    def on_a_server(frame: pd.DataFrame) -> Both:
        import ibis
        import psycopg
        from psycopg import sql

        server: Server = request.getfixturevalue("server")
        url = server.url(server.create())
        connection = ibis.connect(url)
        plain = [f"c{index}" for index in range(frame.shape[1])]
        connection.create_table("rows of it", pa.Table.from_pandas(frame.set_axis(plain, axis=1)))
        connection.disconnect()
        with psycopg.connect(url) as session:
            for old, new in zip(plain, frame.columns, strict=True):
                names = map(sql.Identifier, ("rows of it", old, new))
                session.execute(sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}").format(*names))
        opened.append(open_table(f"{url}#rows of it"))
        return Both(frame, opened[-1].__enter__())

    def on_spark(frame: pd.DataFrame) -> Both:
        connection = request.getfixturevalue("spark")
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet", coerce_timestamps="us")
        return Both(
            frame,
            StoredTable(StorageLocation(connection, "spark"), connection.read_parquet(str(tmp_path / "rows.parquet"))),
        )

    yield {"duckdb": on_files, "postgres": on_a_server, "pyspark": on_spark}[request.param]
    for one in opened:
        one.__exit__(None, None, None)
    if request.param == "pyspark":
        request.getfixturevalue("spark").raw_sql("CLEAR CACHE")
