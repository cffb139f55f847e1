"""Cells: what stands where a record stands, by brute force and at the edges of every kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy.match_scores import Cells


def matching(cells: Cells, table: pd.DataFrame, target: pd.Series) -> list[int]:
    """Rows of a table that match one record, by column and one by one."""
    found = []
    for name in cells.schema.learned:
        value, column = target[name], cells.schema.columns[name]
        if pd.isna(value):
            found.append(int(table[name].isna().sum()))
        elif name not in cells.widths:
            found.append(int((table[name].astype(object) == value).sum()))
        else:
            at, center = column.positions(table[name]), column.positions(pd.Series([value], dtype=table[name].dtype))
            found.append(int((np.abs(at - center) <= cells.widths[name]).sum()))
    return found


def test_counts_are_those_of_rows_one_by_one_for_every_make_of_table(population: Any, draw: Callable[..., Any]) -> None:
    tables = draw(population, (50, 50, 50, 60), seed=3)
    cells = Cells.of(tables.fresh, tables.schema)
    targets = tables.train.iloc[:15]
    one_by_one = [matching(cells, tables.synthetic, targets.iloc[i]) for i in range(len(targets))]
    np.testing.assert_array_equal(cells.counts(tables.synthetic, targets), np.array(one_by_one))


def test_a_value_stands_with_its_neighbors_and_a_missing_one_with_missing_ones(
    evaluate_frames: Callable[..., Any],
) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, np.nan, 100.0], "c": ["a", "b", None, None, "a"]})
    tables = evaluate_frames(frame, pd.DataFrame({"x": np.arange(101.0), "c": ["a"] * 101}), frame, frame)
    cells = Cells.of(tables.fresh, tables.schema)
    assert cells.widths == {"x": pytest.approx(0.05 * 90)}  # 5% to 95% of 0, 1, ..., 100
    counted = pd.DataFrame(cells.counts(tables.train, tables.train), columns=list(tables.schema.learned))
    assert counted["x"].tolist() == [3, 3, 3, 1, 1]
    assert counted["c"].tolist() == [2, 1, 2, 2, 2]


def test_a_column_that_is_always_missing_matches_itself(evaluate_frames: Callable[..., Any]) -> None:
    frame = pd.DataFrame({"x": [np.nan] * 4})
    tables = evaluate_frames(frame, frame, frame, frame)
    cells = Cells.of(tables.fresh, tables.schema)
    assert (cells.counts(tables.synthetic, tables.train) == 4).all()
