"""What counts the parts of a table elsewhere: processes of this machine, a Dask cluster, or Spark."""

import importlib.util
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from synth.distribution import missing_extra
from synth.errors import JobError
from understudy.executors.executor import SCHEMES, cores

PROCESSES = "processes"
CONNECT_S = 20


def check_counting(address: str) -> None:
    """Refuse what is no executor of counts, before any connection is made."""
    if address == PROCESSES:
        return
    scheme, separator, place = address.partition("://")
    is_spark = scheme == "spark" or address.startswith("local[")
    if "@" in address or not (is_spark or (separator and scheme in SCHEMES and place)):
        raise JobError(
            f"--executor counts by {PROCESSES!r}, or at an address like tcp://host:8786 (Dask) or spark://host:7077; "
            "name one of these, or leave it out"
        )
    library, extra = ("pyspark", "spark") if is_spark else ("distributed", "dask")
    if importlib.util.find_spec(library) is None:
        raise missing_extra("--executor", extra)


@contextmanager
def counting(address: str) -> Iterator[Any]:
    """The executor at an address, as long as the block lasts."""
    check_counting(address)
    if address == PROCESSES:
        with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
            yield pool
    elif address.startswith(("spark://", "local[")):
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder.master(address).appName("understudy").config("spark.ui.enabled", "false")
        if address.startswith("local["):  # workers of a cluster have a Python of their own
            builder = builder.config("spark.pyspark.python", sys.executable)
        session = builder.getOrCreate()
        try:
            yield Spark(session)
        finally:
            session.stop()
    else:
        from distributed import Client

        try:
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError):
            raise JobError(f"no Dask scheduler answers at --executor {address!r}; start one, or correct it") from None
        with client:
            yield client


@dataclass(frozen=True)
class Spark:
    """Spark as what maps a function over parts."""

    session: Any

    def map(self, function: Callable[[Any], Any], parts: Sequence[Any], /) -> list[Any]:
        """The results, in the order of the parts."""
        results: list[Any] = self.session.sparkContext.parallelize(parts, len(parts)).map(function).collect()
        return results
