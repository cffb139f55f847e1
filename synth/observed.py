"""Domains read off a table, of columns that do not declare one: for fits that promise nothing, and for evaluation."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from synth.schema import Schema
from synth.table.rows import Rows


def observe(schema: Schema, *tables: pd.DataFrame | Rows) -> Schema:
    """The schema with bounds and categories read off the tables wherever they are to be measured.

    What comes out tells values of single rows. It is never for a private fit, which measures under its budget.
    `tables`: *Sensitive*. In canonical form under it.
    """
    observed = {name: _observed(schema.columns[name], _present(name, tables)) for name in schema.measured}
    return schema.model_copy(update={"columns": {**schema.columns, **observed}}) if observed else schema


def _present(name: str, tables: Sequence[pd.DataFrame | Rows]) -> Iterator[pd.Series]:
    """The present values of a column, some at a time."""
    for table in tables:
        for frame in [table] if isinstance(table, pd.DataFrame) else table.frames(name):
            yield frame[name].dropna()


def _observed(column: Any, parts: Iterator[pd.Series]) -> Any:
    if column.is_categorical:
        plain: type[Any] = int if column.holds_whole_numbers else str
        known = sorted({plain(value) for part in parts for value in part.unique()})
        change = {"categories": tuple(known), "measure": False, "whole_numbers": False}
        return column.model_copy(update=change if known else {**change, "missing": True})
    ends = [(filled.min(), filled.max()) for filled in (_in_utc(part) for part in parts if len(part))]
    if not ends:
        middle = min(max(column.value_at(0.0), column.bounds[0]), column.bounds[1])  # zero, or 1970
        return column.model_copy(update={"bounds": (middle, middle), "missing": True, "measure": False})
    bounds = min(low for low, _ in ends), max(high for _, high in ends)
    return column.model_copy(update={"bounds": tuple(column.plain(end) for end in bounds), "measure": False})


def _in_utc(part: pd.Series) -> pd.Series:
    """Times of a zone on the clock of UTC, which shows a year of the calendar wherever bounds do."""
    return part.dt.tz_convert("UTC") if isinstance(part.dtype, pd.DatetimeTZDtype) else part
