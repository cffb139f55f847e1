"""Domains read off a table, of columns that do not declare one: for fits that promise nothing, and for evaluation."""

from typing import Any

import pandas as pd

from synth.schema import Schema


def observe(schema: Schema, *frames: pd.DataFrame) -> Schema:
    """The schema with bounds and categories read off the tables wherever they are to be measured.

    What comes out tells values of single rows. It is never for a private fit, which measures under its budget.

    Args:
        frames: *Sensitive*. Tables in canonical form under it.
    """
    found = {name: _observed(schema.columns[name], [frame[name] for frame in frames]) for name in schema.measured}
    return schema.model_copy(update={"columns": {**schema.columns, **found}}) if found else schema


def _observed(column: Any, parts: list[pd.Series]) -> Any:
    present = [part.dropna() for part in parts]
    if column.is_categorical:
        plain: type[Any] = int if column.holds_whole_numbers else str
        known = sorted({plain(value) for part in present for value in part.unique()})
        change = {"categories": tuple(known), "measure": False, "whole_numbers": False}
        return column.model_copy(update=change if known else {**change, "missing": True})
    filled = [_in_utc(part) for part in present if len(part)]
    if not filled:  # zero, or 1970, or the outer limit nearest to it
        middle = min(max(column.value_at(0.0), column.bounds[0]), column.bounds[1])
        return column.model_copy(update={"bounds": (middle, middle), "missing": True, "measure": False})
    ends = min(part.min() for part in filled), max(part.max() for part in filled)
    return column.model_copy(update={"bounds": tuple(column.plain(end) for end in ends), "measure": False})


def _in_utc(part: pd.Series) -> pd.Series:
    """Times of a zone on the clock of UTC, which shows a year of the calendar wherever bounds do."""
    return part.dt.tz_convert("UTC") if isinstance(part.dtype, pd.DatetimeTZDtype) else part
