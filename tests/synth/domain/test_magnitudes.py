"""Bounds from coarse public cells: they hold what is there beyond doubt, and nothing that one unit alone could move."""

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.columns import DateColumn, DatetimeColumn, IntegerColumn, RealColumn
from synth.domain import line
from synth.domain.magnitudes import bounded, even_edges, histogram, magnitude_edges, narrowed

WIDE = IntegerColumn(bounds=(-(2**63), 2**63 - 1))
REAL = RealColumn(bounds=(-1e15, 1e15))
COLUMNS: tuple[line.LineColumn, ...] = (
    WIDE,
    REAL,
    RealColumn(bounds=(0.0, 99_999.0), decimals=2),
    RealColumn(bounds=(0.0, 0.0)),
    IntegerColumn(bounds=(7, 7)),
    DateColumn(bounds=(dt.date.min, dt.date.max)),
    DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), precision="us"),
    DateColumn(bounds=(dt.date(1999, 12, 31), dt.date(2000, 1, 1))),
)


def found(column: Any, values: list[Any], sigma: float = 1.0) -> Any:
    """The column with bounds from a histogram whose noise is nil, though its scale is not."""
    edges = magnitude_edges(column)
    positions = np.array([line.place(value, column) for value in values], dtype=np.float64)
    return bounded(column, edges, histogram(positions, edges), sigma)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind} {column.bounds}")
def test_cells_cover_the_outer_limits_and_are_few(column: line.LineColumn) -> None:
    edges = magnitude_edges(column)
    low, high = line.bounds(column)
    assert (np.diff(edges) > 0).all()
    assert edges[0] == low
    assert edges[-1] > high or high == float(2**63)
    assert len(edges) <= 1_001
    assert histogram(np.array([low, high, np.nan, -1e300, 1e300]), edges).sum() == 4


def test_bounds_are_the_powers_of_two_around_what_is_there() -> None:
    assert found(WIDE, [3] * 100 + [700] * 100).bounds == (2, 1023)
    assert found(WIDE, [-5] * 100 + [0] * 100).bounds == (-7, 0)
    assert found(WIDE, [0] * 100).bounds == (0, 0)
    assert found(WIDE, [-1] * 100).bounds == (-1, -1)
    assert found(REAL, [0.3] * 100 + [5.0] * 100).bounds == (0.25, 8.0)
    assert found(REAL, [-3.0] * 100).bounds == (-4.0, -2.0)
    assert found(IntegerColumn(bounds=(0, 120)), [50] * 50 + [100] * 50).bounds == (32, 120)


def test_times_have_the_decades_they_lie_in() -> None:
    days = DateColumn(bounds=(dt.date.min, dt.date.max))
    assert found(days, [dt.date(2011, 3, 28)] * 100).bounds == (dt.date(2010, 1, 1), dt.date(2020, 1, 1))
    moments = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), precision="us")
    assert found(moments, [dt.datetime.max] * 100).bounds[1] == dt.datetime.max
    assert found(moments, [dt.datetime.min] * 100).bounds[0] == dt.datetime.min


def test_a_column_with_much_below_the_width_of_an_even_cell_is_resolved_geometrically() -> None:
    rng = np.random.default_rng(0)
    assert found(REAL, np.exp(rng.normal(5, 3, 4000)).tolist()).scale == "log"
    assert found(WIDE, [0] * 3000 + rng.integers(1000, 4000, 1000).tolist()).scale == "log"
    assert found(REAL, rng.uniform(0, 100, 4000).tolist()).scale == "linear"
    # Whole numbers that an even grid tells apart need nothing finer, however they are spread.
    assert found(WIDE, [1] * 3000 + [30] * 500 + [200] * 100).scale == "linear"


def test_bounds_are_narrowed_to_the_small_part_of_a_magnitude_that_holds_all_values() -> None:
    rng = np.random.default_rng(0)
    coarse = RealColumn(bounds=(32.0, 64.0))

    def even(values: np.ndarray) -> Any:
        edges = even_edges(coarse)
        return narrowed(coarse, edges, histogram(values, edges), sigma=5.0).bounds

    low, high = even(rng.uniform(40.5, 40.9, 5000))
    assert 40.4 < low < 40.5
    assert 40.9 < high < 41.0
    assert even(rng.uniform(32, 64, 5000)) == coarse.bounds
    assert even(np.r_[rng.uniform(40.5, 40.9, 5000), rng.uniform(32, 64, 3000)]) == coarse.bounds
    assert even(np.array([])) == coarse.bounds


def test_measured_bounds_are_values_that_the_column_can_hold() -> None:
    rng = np.random.default_rng(0)
    cents = RealColumn(bounds=(32.0, 64.0), decimals=2)
    minutes = DatetimeColumn(bounds=(dt.datetime(2010, 1, 1), dt.datetime(2020, 1, 1)), precision="min")
    days = DateColumn(bounds=(dt.date(2010, 1, 1), dt.date(2020, 1, 1)))
    for column in (cents, minutes, days):
        low, high = line.bounds(column)
        edges = even_edges(column)
        values = rng.uniform(low + 0.4 * (high - low), low + 0.42 * (high - low), 5000)
        ends = narrowed(column, edges, histogram(values, edges), sigma=5.0).bounds
        assert column.bounds[0] < ends[0] < ends[1] < column.bounds[1]
        places = [line.place(end, column) / (line.step(column) or 1.0) for end in ends]
        assert places == pytest.approx([round(place) for place in places], abs=1e-6)
        assert places[0] * (line.step(column) or 1.0) <= values.min() + 1e-9
        assert places[1] * (line.step(column) or 1.0) >= values.max() - 1e-9


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind} {column.bounds}")
def test_even_cells_cover_the_bounds(column: line.LineColumn) -> None:
    edges = even_edges(column)
    low, high = line.bounds(column)
    assert len(edges) == 1_001
    assert edges[0] == low
    assert histogram(np.array([low, high]), edges).sum() == 2


def test_a_few_values_beyond_the_noise_move_no_bound() -> None:
    column = found(REAL, [5.0] * 1000 + [1e12] * 3, sigma=10.0)
    assert column.bounds == (4.0, 8.0)
    assert not column.measure


def test_an_empty_column_has_bounds_all_the_same() -> None:
    for column in COLUMNS:
        low, high = found(column, []).bounds
        assert column.bounds[0] <= low <= high <= column.bounds[1]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_bounds_hold_every_frequent_whole_number(values: list[int]) -> None:
    low, high = found(WIDE, values * 50).bounds
    # Positions are float64: beyond 2^53 a value may be told apart from its neighbors no more.
    assert all(low <= value <= high or abs(value) > 2**53 for value in values)
    assert WIDE.bounds[0] <= low <= high <= WIDE.bounds[1]
