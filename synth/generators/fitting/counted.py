"""A fit of rows as they are counted, and its model under the schema of the table."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from synth.generators.fitting.training_data import RowsElsewhere, counted_rows
from synth.infer.relations import with_modeled
from synth.schema import Schema
from synth.schema.counted import measured_as
from synth.table import Table
from synth.table.rows import Rows

MOST_ROWS = 200_000  # in which relations are looked for


@dataclass(frozen=True, eq=False)
class MappedSource:
    """*Sensitive*. A table that is brought into the form in which it is counted where its rows are."""

    table: Table
    schema: Schema

    @classmethod
    def of(cls, source: Any, schema: Schema) -> Self | None:
        """A table whose rows lie elsewhere, such as a frame of Spark or Dask; `None`: they are read here."""
        library = type(source).__module__.split(".")[0]
        if not isinstance(source, Table) and library not in ("pyspark", "dask", "dask_expr"):
            return None
        table = Table.of(source)
        return None if table.distributed is None else cls(table, schema)


def find_relations(train: Any, schema: Schema) -> tuple[Any, Schema]:
    """The rows of a fit without epsilon, and the schema with what its columns are modeled as where it says nothing.
    `train`: *Sensitive*. Real rows under the schema.
    """
    if schema.status != "declared" or any(column.modeled is not None for column in schema.columns.values()):
        return train, schema
    rows = Rows.of(train, schema, outside="refuse")
    n, some = len(rows), np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return rows, with_modeled(rows.frame() if n <= MOST_ROWS else rows.take(np.sort(some)), schema, n)


def counted_source(train: Any, schema: Schema, *, promises: bool, mapped: bool) -> Any:
    """What a fit under the counted schema reads. `train`: *Sensitive*. Real rows under the schema."""
    if isinstance(train, RowsElsewhere):
        return train  # they are brought to that form where they are
    if mapped and (source := MappedSource.of(train, schema)) is not None:
        return source
    rows = Rows.of(train, schema, outside="clamp" if promises else "refuse")
    return counted_rows(rows, schema)


def under(model: Any, schema: Schema) -> Any:
    """A model that was fitted to counted rows, as one of rows under the schema."""
    return replace(model, schema=measured_as(schema, model.schema))
