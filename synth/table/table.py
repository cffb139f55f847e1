"""A table: something that gives chunks of rows, as often as asked, whatever it comes from."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from synth.table.chunk import Chunk
from synth.table.sources import _database, _frame, _held, _parts_of


@dataclass(frozen=True)
class Table:
    """Something that gives chunks, as often as asked."""

    parts: tuple[Any, ...]
    back: Callable[[pd.DataFrame], Any] = field(default=lambda frame: frame)

    @classmethod
    def of(cls, source: Any) -> "Table":
        if isinstance(source, pd.DataFrame):
            return cls((partial(_frame, source),))
        if isinstance(source, tuple):
            return cls((partial(_database, *source),))
        if isinstance(source, str | Path):
            return cls(tuple(_parts_of(str(source))))
        if isinstance(source, Mapping):
            return cls.of(pd.DataFrame(source))
        if hasattr(source, "to_batches"):  # pa.Table, pa.dataset.Dataset, a scanner
            return cls((source.to_batches,), lambda f: pa.Table.from_pandas(f, preserve_index=False))
        module = type(source).__module__.split(".")[0]
        held = (
            pa.table(source) if module != "ibis" else source.to_pyarrow()
        )  # any __arrow_c_stream__; a reader is read once
        return cls((partial(_held, held),), _BACK.get(module, lambda f: pa.Table.from_pandas(f, preserve_index=False)))

    def map(
        self, function: Callable[[Iterator[Chunk]], Any], schema: Any, mapper: Callable[..., Any] = map
    ) -> Iterator[Any]:
        """The function's result for each part; `mapper` is `map`, or that of a pool, or of a Dask client."""
        return mapper(partial(_apply, function, schema), self.parts)

    def chunks(self, schema: Any) -> Iterator[Chunk]:
        for part in self.parts:
            yield from (Chunk.of(batch, schema) for batch in part())


def _apply(function: Any, schema: Any, part: Any) -> Any:
    return function(Chunk.of(batch, schema) for batch in part())


def spark_map(function: Callable[[Iterator[Chunk]], Any], schema: Any, frame: Any) -> list[Any]:
    """The function's result for each partition of a Spark DataFrame, whose rows stay where they are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = pickle.dumps(function(Chunk.of(batch, schema) for batch in batches))
        yield pa.RecordBatch.from_pydict({"made": pa.array([made], pa.binary())})

    return [pickle.loads(row.made) for row in frame.mapInArrow(run, "made binary").collect()]


def _to_polars(frame: pd.DataFrame) -> Any:
    import polars

    return polars.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))


def _to_duckdb(frame: pd.DataFrame) -> Any:
    import duckdb

    return duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))


_BACK = {"polars": _to_polars, "duckdb": _to_duckdb, "_duckdb": _to_duckdb}
