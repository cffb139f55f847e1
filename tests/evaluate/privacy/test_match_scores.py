"""Cells: what stands where a record stands, by brute force and at the edges of every kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy.match_scores import match_counts, widths_of
from synth.schema import Schema


def matching(schema: Schema, widths: dict[str, float], table: pd.DataFrame, target: pd.Series) -> list[int]:
    """Rows of a table that match one record, by column and one by one."""
    found = []
    for name in schema.learned:
        value, column = target[name], schema.columns[name]
        if pd.isna(value):
            found.append(int(table[name].isna().sum()))
        elif name not in widths:
            found.append(int((table[name].astype(object) == value).sum()))
        else:
            at, center = column.positions(table[name]), column.positions(pd.Series([value], dtype=table[name].dtype))
            found.append(int((np.abs(at - center) <= widths[name]).sum()))
    return found


def test_counts_are_those_of_rows_one_by_one_for_every_make_of_table(population: Any, draw: Callable[..., Any]) -> None:
    tables = draw(population, (50, 50, 50, 60), seed=3)
    schema, widths = tables.schema, widths_of(tables.fresh, tables.schema)
    targets = tables.train.iloc[:15]
    one_by_one = [matching(schema, widths, tables.synthetic, targets.iloc[i]) for i in range(len(targets))]
    np.testing.assert_array_equal(match_counts(tables.synthetic, targets, schema, widths), np.array(one_by_one))


def test_a_value_stands_with_its_neighbors_and_a_missing_one_with_missing_ones(
    evaluate_frames: Callable[..., Any],
) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, np.nan, 100.0], "c": ["a", "b", None, None, "a"]})
    tables = evaluate_frames(frame, pd.DataFrame({"x": np.arange(101.0), "c": ["a"] * 101}), frame, frame)
    widths = widths_of(tables.fresh, tables.schema)
    assert widths == {"x": pytest.approx(0.05 * 90)}  # 5% to 95% of 0, 1, ..., 100
    counts = match_counts(tables.train, tables.train, tables.schema, widths)
    counted = pd.DataFrame(counts, columns=list(tables.schema.learned))
    assert counted["x"].tolist() == [3, 3, 3, 1, 1]
    assert counted["c"].tolist() == [2, 1, 2, 2, 2]


def test_a_column_that_is_always_missing_matches_itself(evaluate_frames: Callable[..., Any]) -> None:
    frame = pd.DataFrame({"x": [np.nan] * 4})
    tables = evaluate_frames(frame, frame, frame, frame)
    widths = widths_of(tables.fresh, tables.schema)
    assert (match_counts(tables.synthetic, tables.train, tables.schema, widths) == 4).all()
