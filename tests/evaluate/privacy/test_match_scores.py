"""Cells: what stands where a record stands, by brute force and at the edges of every kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from evaluate.privacy.match_scores import match_counts, widths_of
from synth.schema import Schema


def matching(schema: Schema, widths: dict[str, float], table: pd.DataFrame, target: pd.Series) -> list[int]:
    """Rows of a table that match one record, by column and one by one."""
    result = []
    for name in schema.learned:
        value, column = target[name], schema.columns[name]
        if pd.isna(value):
            result.append(int(table[name].isna().sum()))
        elif name not in widths:
            result.append(int((table[name].astype(object) == value).sum()))
        else:
            at, center = column.positions(table[name]), column.positions(pd.Series([value], dtype=table[name].dtype))
            result.append(int((np.abs(at - center) <= widths[name]).sum()))
    return result


def test_counts_are_those_of_rows_one_by_one_for_every_make_of_table(population: Any, draw: Callable[..., Any]) -> None:
    tables = draw(population, (50, 50, 50, 60), seed=3)
    schema, widths = tables.schema, widths_of(tables.fresh, tables.schema)
    targets = tables.train.iloc[:15]
    one_by_one = [matching(schema, widths, tables.synthetic, targets.iloc[i]) for i in range(len(targets))]
    np.testing.assert_array_equal(match_counts(tables.synthetic, targets, schema, widths), np.array(one_by_one))
