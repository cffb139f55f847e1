"""Spark that goes away in the middle is told like any other backend; in a process of its own, whose Spark is killed."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

KILLED = """
import os, signal, sys
import ibis
from pyspark.sql import SparkSession
from synth.errors import TableError
from synth.stored.connection import Place
from synth.stored import StoredTable

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
connection = ibis.pyspark.connect(session)
table = StoredTable(Place(connection, "spark"), connection.read_parquet(sys.argv[1]))
assert len(table) == 100
session.sparkContext._gateway.proc.kill()
session.sparkContext._gateway.proc.wait()
try:
    len(table)
except TableError as error:
    print(error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.slow
def test_a_spark_that_was_killed_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    path = tmp_path / "rows.parquet"
    duckdb.execute("COPY (SELECT range AS x FROM range(100)) TO $1 (FORMAT parquet)", [str(path)])
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=300)
    assert (
        done.stdout.startswith("the table at 'spark' cannot be read where it is stored: ")
        and "\n" not in done.stdout.strip()
    )
    assert "connection was lost" in done.stdout
