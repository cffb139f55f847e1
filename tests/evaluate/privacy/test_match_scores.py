"""Cells: what stands where a record stands, by brute force and at the edges of every kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy.match_scores import Cells


def test_counts_add_up_matches_for_every_make_of_table(population: Any, draw: Callable[..., Any]) -> None:
    tables = draw(population, (50, 50, 50, 60), seed=3)
    cells = Cells.of(tables.fresh, tables.schema)
    targets = tables.train.iloc[:15]
    counted = cells.counts(tables.synthetic, targets)
    one_by_one = [cells.matches(tables.synthetic, targets.iloc[[i]]).sum(axis=0) for i in range(len(targets))]
    np.testing.assert_array_equal(counted, np.array(one_by_one))


def test_a_value_stands_with_its_neighbors_and_a_missing_one_with_missing_ones(
    evaluate_frames: Callable[..., Any],
) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, np.nan, 100.0], "c": ["a", "b", None, None, "a"]})
    tables = evaluate_frames(frame, pd.DataFrame({"x": np.arange(101.0), "c": ["a"] * 101}), frame, frame)
    cells = Cells.of(tables.fresh, tables.schema)
    assert cells.widths == {"x": pytest.approx(0.05 * 90)}  # 5% to 95% of 0, 1, ..., 100
    names = list(tables.schema.learned)
    near = cells.matches(tables.train, tables.train.iloc[[0]])
    assert near[:, names.index("x")].tolist() == [True, True, True, False, False]
    assert near[:, names.index("c")].tolist() == [True, False, False, False, True]
    missing = cells.matches(tables.train, tables.train.iloc[[3]])
    assert missing[:, names.index("x")].tolist() == [False, False, False, True, False]
    assert missing[:, names.index("c")].tolist() == [False, False, True, True, False]


def test_a_column_that_is_always_missing_matches_itself(evaluate_frames: Callable[..., Any]) -> None:
    frame = pd.DataFrame({"x": [np.nan] * 4})
    tables = evaluate_frames(frame, frame, frame, frame)
    cells = Cells.of(tables.fresh, tables.schema)
    assert cells.matches(tables.train, tables.train.iloc[[0]]).all()
    assert (cells.counts(tables.synthetic, tables.train) == 4).all()
