"""Answers of any size, some rows at a time."""

import warnings
from collections.abc import Iterator
from itertools import chain, islice

import ibis.expr.types as ir
import pyarrow as pa

from synth.stored.faults import each_told, told
from synth.stored.place import Place


def batches(place: Place, asked: ir.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, about so many at a time and none of the batches empty.

    Raises:
        TableError: the backend failed.
    """
    with told(place.shown):
        if place.backend == "pyspark":  # whose own batches are cut from an answer that is here as a whole
            found = _of_partitions(place, asked, n_rows)
        else:
            found = _first_drawn(iter(place.connection.to_pyarrow_batches(asked, chunk_size=n_rows)))
    yield from (batch for batch in each_told(found, place.shown) if batch.num_rows)


def _first_drawn(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, of which the first is there: with it comes DuckDB's warning of how Ibis asks for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        first = list(islice(found, 1))
    return chain(first, found)


def _of_partitions(place: Place, asked: ir.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
    """One partition after the other."""
    rows = place.connection.raw_sql(place.connection.compile(asked)).toLocalIterator()
    kinds = asked.schema().to_pyarrow()
    while some := list(islice(rows, n_rows)):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), kinds.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=kinds)
