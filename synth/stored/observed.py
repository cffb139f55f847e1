"""What stored tables show of columns whose domain is not declared: `synth.observed` where rows are stored."""

import datetime as dt
from typing import Any

import pandas as pd

from synth.columns import CategoricalColumn, DateColumn, DatetimeColumn, IntegerColumn
from synth.domain import numeric_scale
from synth.observed import observe
from synth.schema import Schema
from synth.stored.table import StoredRows, StoredTable


def observed(schema: Schema, *tables: StoredTable) -> Schema:
    """The schema with bounds and categories read off the tables wherever they are to be measured.

    What comes out tells values of single rows. It is never for a private fit, which measures under its budget.

    Args:
        schema: may have columns to measure; the same schema comes back where it has none.
        tables: *Sensitive*. Conforming to it.
    """
    sides = [StoredRows(table.place, table.rows, schema) for table in tables]
    telling = [
        pd.DataFrame({name: pd.Series(_telling(name, schema.columns[name], side), dtype=object)})
        for side in sides for name in schema.measured
    ]  # fmt: skip
    return observe(schema, pd.concat(telling, ignore_index=True)) if telling else schema


def _telling(name: str, column: Any, side: StoredRows) -> list[Any]:
    """The categories of a column, or the ends of its numbers or times."""
    if isinstance(column, CategoricalColumn):
        return list(side.category_counts(name))
    places = side.rows.select(x=side.reader.places(side.rows[name], name, column))
    found = side.place.fetch(places.agg(low=places["x"].min(), high=places["x"].max()))
    ends = [end for end in (found.column(0)[0].as_py(), found.column(1)[0].as_py()) if end is not None]
    return [_value(end, column) for end in ends]


def _value(place: float, column: Any) -> Any:
    if isinstance(column, DateColumn):
        return dt.datetime.combine(numeric_scale.moment(place, column), dt.time())
    if isinstance(column, DatetimeColumn):
        return numeric_scale.moment(place, column)
    return min(max(int(place), column.bounds[0]), column.bounds[1]) if isinstance(column, IntegerColumn) else place
