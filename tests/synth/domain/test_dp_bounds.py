"""Measured bounds: cells from public facts, and the window that holds most of what is there and little beside it."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from synth.columns import DateColumn, DatetimeColumn, IntegerColumn, RealColumn
from synth.domain import MAX_CELLS, numeric_scale
from synth.domain.dp_bounds import bounded, histogram, public_edges

WIDE = IntegerColumn(bounds=(-(2**63), 2**63 - 1))
REAL = RealColumn(bounds=(-1e15, 1e15))
CENTS = RealColumn(bounds=(-1e15, 1e15), decimals=2)
DAYS = DateColumn(bounds=(dt.date.min, dt.date.max))
MOMENTS = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), precision="us")
COLUMNS: tuple[numeric_scale.LineColumn, ...] = (
    WIDE,
    REAL,
    CENTS,
    DAYS,
    MOMENTS,
    RealColumn(bounds=(-8e307, 8e307)),
    RealColumn(bounds=(0.0, 99_999.0), decimals=2),
    RealColumn(bounds=(0.0, 0.0)),
    IntegerColumn(bounds=(7, 7)),
    IntegerColumn(bounds=(-10, 0)),
    IntegerColumn(bounds=(5, 1000)),
    IntegerColumn(bounds=(-1000, -5)),
    DateColumn(bounds=(dt.date(1999, 12, 31), dt.date(2000, 1, 1))),
)
SIGNALS = (5.0, 60.0, 400.0, 1e5)
"""Units over the noise of a cell: a few hundred rows, and millions."""


def named(column: numeric_scale.LineColumn) -> str:
    return f"{column.kind} {column.bounds}"


def found(column: Any, positions: np.ndarray, signal: float, noise: np.random.Generator | None = None) -> Any:
    """The column with bounds from a histogram whose noise is `signal` times smaller than the number of positions."""
    edges = public_edges(column, signal)
    sigma = max(len(positions), 1) / signal
    exact = histogram(positions, edges)
    noisy = exact if noise is None else exact + noise.normal(0, sigma, len(exact)).round()
    return bounded(column, edges, noisy, sigma)


def beyond(column: Any, positions: np.ndarray) -> float:
    """Share of the positions that the bounds clamp."""
    low, high = numeric_scale.bounds(column)
    return float(((positions < low) | (positions > high)).mean())


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("column", COLUMNS, ids=named)
def test_cells_cover_the_outer_limits_and_are_few(column: numeric_scale.LineColumn, signal: float) -> None:
    edges = public_edges(column, signal)
    low, high = numeric_scale.bounds(column)
    assert (np.diff(edges) > 0).all()
    assert edges[0] == low
    assert edges[-1] > high
    assert len(edges) - 1 <= MAX_CELLS
    assert histogram(np.array([low, high, np.nan, -1e300, 1e300]), edges).sum() == 4


def test_cells_are_finer_where_more_units_stand_out_of_the_noise() -> None:
    for column in (WIDE, REAL, CENTS, DAYS, MOMENTS):
        sizes = [len(public_edges(column, signal)) for signal in SIGNALS]
        assert sizes == sorted(sizes)
        assert sizes[0] < 150 < 800 < sizes[-1]


@given(column=st.sampled_from(COLUMNS), signal=st.sampled_from(SIGNALS), k=st.integers(1, 5), data=st.data())
@settings(max_examples=30)
def test_a_unit_moves_the_histogram_by_no_more_than_its_rows(
    column: numeric_scale.LineColumn, signal: float, k: int, data: Any
) -> None:
    low, high = numeric_scale.bounds(column)
    places = st.one_of(st.floats(-1e300, 1e300), st.floats(low, high), st.just(np.nan))
    of_others, of_one = data.draw(st.lists(places, max_size=9)), data.draw(st.lists(places, min_size=k, max_size=k))
    edges = public_edges(column, signal)
    without = histogram(np.array(of_others), edges)
    assert np.linalg.norm(histogram(np.array(of_others + of_one), edges) - without) <= k
    # All rows of a unit in one cell are the worst, and the sensitivity that is stated.
    assert np.linalg.norm(histogram(np.array([*of_others, *[low] * k]), edges) - without) == k


def drawn(column: Any, family: str, center: float, sign: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Places of a family of values on the lattice of a column; times lie in a year, a decade or a lifetime."""
    if isinstance(column, DateColumn | DatetimeColumn):
        day = 1 if isinstance(column, DateColumn) else numeric_scale.DAY
        return np.floor(day * (365 * rng.integers(-40, 40) + rng.choice([365, 3650, 25_000]) * rng.random(n)))
    values = {
        "even": lambda: rng.uniform(0, 1, n),
        "narrow": lambda: rng.uniform(1, 1.02, n),
        "lognormal": lambda: np.exp(rng.normal(0, 1, n)),
        "with zeros": lambda: rng.uniform(0.5, 1, n) * rng.integers(0, 2, n),
        "signed": lambda: rng.normal(0, 1, n),
        "signed tails": lambda: rng.standard_t(2, n),
    }[family]()
    unit = numeric_scale.step(column)
    places = sign * center * np.asarray(values)
    return places if unit is None else np.round(places / unit) * unit


FAMILIES = ("even", "narrow", "lognormal", "with zeros", "signed", "signed tails")


@given(
    column=st.sampled_from([WIDE, REAL, CENTS, DAYS, MOMENTS]),
    family=st.sampled_from(FAMILIES),
    exponent=st.integers(0, 9),
    sign=st.sampled_from([-1, 1]),
    signal=st.sampled_from([100.0, 300.0, 2000.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=30)
def test_the_window_holds_most_of_the_mass(
    column: Any, family: str, exponent: int, sign: int, signal: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    positions = drawn(column, family, 10.0**exponent, sign, int(rng.integers(300, 3000)), rng)
    assert beyond(found(column, positions, signal, rng), positions) < 0.25


def test_bounds_are_lattice_values_around_what_is_there() -> None:
    def ends(column: Any, values: list[Any], signal: float = 60.0) -> Any:
        return found(column, np.array([numeric_scale.place(value, column) for value in values]), signal).bounds

    assert ends(WIDE, [40] * 100 + [100] * 100) == (32, 127)
    assert ends(WIDE, [3] * 100 + [700] * 100) == (1, 1023)
    assert ends(WIDE, [-5] * 100 + [0] * 100) == (-7, 0)
    assert ends(WIDE, [0] * 100) == (0, 0)
    assert ends(WIDE, [-1] * 100) == (-1, -1)
    assert ends(WIDE, [-700] * 50 + [-3] * 50) == (-1023, -1)
    assert ends(REAL, [-3.0] * 100) == (-4.0, -2.0)
    assert ends(REAL, [0.3] * 100 + [5.0] * 100) == (0.0, 8.0)
    assert ends(REAL, [-3.0] * 100 + [90.0] * 100) == (-4.0, 128.0)
    assert ends(IntegerColumn(bounds=(0, 120)), [50] * 50 + [100] * 50) == (32, 120)
    assert ends(DAYS, [dt.date(2011, 3, 28)] * 100) == (dt.date(2010, 1, 1), dt.date(2020, 1, 1))
    assert ends(DAYS, [dt.date(2011, 3, 28)] * 100, 1e5) == (dt.date(2011, 1, 1), dt.date(2011, 4, 1))
    assert ends(MOMENTS, [dt.datetime.max] * 100)[1] == dt.datetime.max
    assert ends(MOMENTS, [dt.datetime.min] * 100)[0] == dt.datetime.min


@pytest.mark.parametrize(("low", "high"), [(47.1, 47.8), (-74.3, -73.7), (1990.0, 2023.0), (1012.0, 1015.0)])
def test_values_of_one_magnitude_are_found_closely_where_there_are_many(low: float, high: float) -> None:
    rng = np.random.default_rng(0)
    for column in (REAL, CENTS):
        ends = numeric_scale.bounds(found(column, rng.uniform(low, high, 30_000), 1_500.0, rng))
        assert ends[0] <= low < high <= ends[1]
        assert ends[1] - ends[0] <= 0.1 * abs(low)


def test_a_column_with_much_below_the_width_of_an_even_cell_is_resolved_geometrically() -> None:
    rng = np.random.default_rng(0)
    for signal in (60.0, 2_000.0):
        assert found(REAL, np.exp(rng.normal(5, 3, 4000)), signal, rng).scale == "log"
        assert found(WIDE, np.r_[np.zeros(3000), rng.integers(1000, 4000, 1000)], signal, rng).scale == "log"
        assert found(REAL, rng.uniform(0, 100, 4000), signal, rng).scale == "linear"
        # Whole numbers that an even grid tells apart need nothing finer, however they are spread.
        assert found(WIDE, np.repeat([1.0, 30.0, 100.0], [3000, 500, 400]), signal, rng).scale == "linear"


@pytest.mark.parametrize("signal", [900.0, 3_000.0])
def test_few_spread_amounts_beside_many_zeros_are_held(signal: float) -> None:
    rng = np.random.default_rng(0)
    positions = np.r_[np.zeros(9_300), rng.integers(1_500, 9_000, 700)]
    ends = [numeric_scale.bounds(found(WIDE, positions, signal, rng)) for _ in range(12)]
    assert {low for low, _ in ends} == {0}
    # Where most values are zero, a window of the others may end too far out: by more than four times in few fits.
    assert min(high for _, high in ends) > 5_000
    assert np.quantile([high for _, high in ends], 0.75) < 36_000


def test_a_few_values_beyond_the_noise_move_no_bound() -> None:
    column = found(REAL, np.array([5.0] * 1000 + [1e12] * 3 + [-1e12]), 100.0)
    assert column.bounds == (4.0, 8.0)
    assert not column.measure


def test_an_empty_column_has_bounds_all_the_same() -> None:
    for column in COLUMNS:
        for signal in SIGNALS[:3]:
            low, high = found(column, np.array([]), signal).bounds
            assert column.bounds[0] <= low <= high <= column.bounds[1]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
@settings(max_examples=20, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_bounds_hold_every_frequent_whole_number(values: list[int]) -> None:
    low, high = found(WIDE, np.array(values * 50, dtype=np.float64), 100.0).bounds
    # Positions are float64: beyond 2^53 a value may be told apart from its neighbors no more.
    assert all(low <= value <= high or abs(value) > 2**53 for value in values)
    assert WIDE.bounds[0] <= low <= high <= WIDE.bounds[1]


def few_rows() -> dict[str, tuple[Any, np.ndarray, float]]:
    """Columns of few hundred rows, and the least signal that finds them."""
    rng = np.random.default_rng(0)
    return {
        "charges": (CENTS, np.exp(rng.normal(9.1, 0.9, 1_338)).round(2), 26.0),
        "signed, a third zero": (CENTS, np.exp(rng.normal(5, 2, 400)) * rng.choice([-1.0, 0, 1], 400), 60.0),
        "two years": (DAYS, 18_700.0 + rng.integers(0, 700, 600), 15.0),
        "a latitude": (REAL, rng.uniform(47.1, 47.8, 500), 15.0),
    }


@pytest.mark.parametrize("name", few_rows())
def test_few_rows_are_rarely_clamped(name: str) -> None:
    column, positions, signal = few_rows()[name]
    rng = np.random.default_rng(1)
    edges, sigma = public_edges(column, signal), len(positions) / signal
    exact = histogram(positions, edges)
    many = [bounded(column, edges, exact + rng.normal(0, sigma, len(exact)).round(), sigma) for _ in range(40)]
    # At most 2 of 40: a mechanism that fails in 1 of 200 does so in one run of a thousand.
    assert sum(beyond(one, positions) > 0.5 for one in many) <= 2
    if name == "charges":
        widths = [np.ptp(numeric_scale.bounds(one)) / np.ptp(positions) for one in many]
        assert sum(width > 10 for width in widths) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1.0, 3.0])
def test_the_charges_of_1338_rows_are_never_clamped_by_half(
    epsilon: float, shared_table: Callable[[str], Path]
) -> None:
    from synth.declare import declare_schema
    from synth.dp.budget import Budget
    from synth.dp.mechanisms import InjectedNoise
    from synth.generators.fitting.fixed_costs import measure_domain
    from synth.generators.fitting.training_data import HeldTable
    from synth.generators.mst import Mst
    from synth.infer import infer_schema

    frame = pd.read_csv(shared_table("insurance.csv.gz"))
    schema = declare_schema(infer_schema(frame), n_units=len(frame), measure=["charges"])
    schedule = Mst(epsilon=epsilon).schedule(schema)
    assert schedule is not None
    noise = InjectedNoise(np.random.default_rng(0))
    charges = frame["charges"].to_numpy()
    columns = [
        measure_domain(HeldTable(frame, schema), schema, Budget(schedule, noise)).columns["charges"] for _ in range(200)
    ]
    assert max(beyond(column, charges) for column in columns) <= 0.5
    assert max(np.ptp(numeric_scale.bounds(column)) for column in columns) <= 10 * np.ptp(charges)  # type: ignore[arg-type]
