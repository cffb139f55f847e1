"""What counts the parts of a table elsewhere: a Dask cluster, or Spark."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from synth.distribution import missing_extra
from understudy.extras.ops.cluster import connected


@contextmanager
def dask(address: str) -> Iterator[Any]:
    """Dask's client at an address, as long as the block lasts."""
    with connected(address) as client:
        yield client


@contextmanager
def spark(address: str) -> Iterator["Spark"]:
    """A session of Spark at an address, as long as the block lasts."""
    if importlib.util.find_spec("pyspark") is None:
        raise missing_extra("--executor", "spark")
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master(address).appName("understudy").config("spark.ui.enabled", "false")
    if address.startswith("local["):  # workers of a cluster have a Python of their own
        builder = builder.config("spark.pyspark.python", sys.executable)
    session = builder.getOrCreate()
    try:
        yield Spark(session)
    finally:
        session.stop()


@dataclass(frozen=True)
class Spark:
    """Spark as what maps a function over parts."""

    session: Any

    def map(self, function: Callable[[Any], Any], parts: Sequence[Any], /) -> list[Any]:
        results: list[Any] = self.session.sparkContext.parallelize(parts, len(parts)).map(function).collect()
        return results
