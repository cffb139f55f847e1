"""Bounds and steps of numbers that are measured with noise."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import synth
from synth.declare import assertions, unconfirmed
from synth.domain import MAX_CELLS, numeric_scale
from synth.domain.discretizer import Discretizer
from synth.domain.dp_bounds import bounded, histogram, public_edges
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema.kinds import DateColumn, DatetimeColumn, IntegerColumn, LineColumn, RealColumn
from synth.schema.kinds.moments import DAY

WIDE = IntegerColumn(bounds=(-(2**63), 2**63 - 1))
REAL = RealColumn(bounds=(-1e15, 1e15))
CENTS = RealColumn(bounds=(-1e15, 1e15), decimals=2)
DAYS = DateColumn(bounds=(dt.date.min, dt.date.max))
MOMENTS = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), precision="us")
COLUMNS: tuple[LineColumn, ...] = (
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


def named(column: LineColumn) -> str:
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
    low, high = column.ends
    return float(((positions < low) | (positions > high)).mean())


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("column", COLUMNS, ids=named)
def test_cells_cover_the_outer_limits_and_are_few(column: LineColumn, signal: float) -> None:
    edges = public_edges(column, signal)
    low, high = column.ends
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
    column: LineColumn, signal: float, k: int, data: Any
) -> None:
    low, high = column.ends
    places = st.one_of(st.floats(-1e300, 1e300), st.floats(low, high), st.just(np.nan))
    of_others, of_one = data.draw(st.lists(places, max_size=9)), data.draw(st.lists(places, min_size=k, max_size=k))
    edges = public_edges(column, signal)
    without = histogram(np.array(of_others), edges)
    assert np.linalg.norm(histogram(np.array(of_others + of_one), edges) - without) <= k
    # All rows of a unit in one cell are the worst, and the sensitivity that is stated.
    assert np.linalg.norm(histogram(np.array([*of_others, *[low] * k]), edges) - without) == k


def drawn(column: Any, family: str, center: float, sign: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Places of a family of values on the lattice of a column; times lie in a year, a decade or a lifetime."""
    if column.is_time:
        day = 1 if column.is_date else DAY
        return np.floor(day * (365 * rng.integers(-40, 40) + rng.choice([365, 3650, 25_000]) * rng.random(n)))
    values = {
        "even": lambda: rng.uniform(0, 1, n),
        "narrow": lambda: rng.uniform(1, 1.02, n),
        "lognormal": lambda: np.exp(rng.normal(0, 1, n)),
        "with zeros": lambda: rng.uniform(0.5, 1, n) * rng.integers(0, 2, n),
        "signed": lambda: rng.normal(0, 1, n),
        "signed tails": lambda: rng.standard_t(2, n),
    }[family]()
    unit = column.unit
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
        return found(column, np.array([column.position(value) for value in values]), signal).bounds

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
        ends = found(column, rng.uniform(low, high, 30_000), 1_500.0, rng).ends
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
    ends = [found(WIDE, positions, signal, rng).ends for _ in range(12)]
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
        widths = [np.ptp(one.ends) / np.ptp(positions) for one in many]
        assert sum(width > 10 for width in widths) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1.0, 3.0])
def test_the_charges_of_1338_rows_are_never_clamped_by_half(
    epsilon: float, shared_table: Callable[[str], Path]
) -> None:
    from synth.declare import declare_schema
    from synth.dp.budget import Budget
    from synth.dp.mechanisms import InjectedNoise
    from synth.generators.fitting.columns import measure_domain
    from synth.generators.fitting.training_data import TrainingTable
    from synth.generators.mst import Mst
    from synth.infer import infer_schema

    frame = pd.read_csv(shared_table("insurance.csv.gz"))
    schema = declare_schema(infer_schema(frame), n_units=len(frame), measure=["charges"])
    schedule = Mst(epsilon=epsilon).schedule(schema)
    assert schedule is not None
    noise = InjectedNoise(np.random.default_rng(0))
    charges = frame["charges"].to_numpy()
    columns = [
        measure_domain(TrainingTable.of(frame, schema), schema, Budget(schedule, noise)).columns["charges"]
        for _ in range(200)
    ]
    assert max(beyond(column, charges) for column in columns) <= 0.5
    assert max(np.ptp(column.ends) for column in columns) <= 10 * np.ptp(charges)  # type: ignore[arg-type]


def schema_of(**column: Any) -> Schema:
    content = {"kind": "integer", "bounds": [0, 1_000_000], **column}
    return build_schema({"status": "declared", "n_units": 1000, "columns": {"x": content}})


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"steps": [100, 1000]}, "steps=[100, 1000] must be coarser"),
        ({"steps": [1000, 300]}, "each a multiple of the next"),
        ({"kind": "real", "decimals": 1, "bounds": [0, 9], "steps": [0.25]}, "steps=[0.25] must be coarser"),
        ({"kind": "real", "bounds": [0, 9], "steps": [0.25]}, "give decimals"),
        ({"steps": [1000], "step_shares": [0.5, 0.6]}, "one share for each of steps"),
        ({"steps": [1000, 100], "step_shares": [0.6, 0.5]}, "must not fall"),
        ({"steps": [0]}, "greater than 0"),
        ({"steps": [1]}, "coarser than the column's precision"),
        ({"steps": [100, 100]}, "coarser than the column's precision"),
        ({"steps": [2**63]}, "exceed 64 bits"),
        ({"spikes": [5, 5]}, "strictly ascending"),
        ({"spikes": [5, 2_000_000]}, "within bounds"),
        ({"kind": "real", "decimals": 1, "bounds": [0, 9], "spikes": [0.25]}, "more digits"),
        ({"spikes": [5], "measure": True}, "has no spikes"),
    ],
)
def test_steps_and_spikes_that_cannot_be_are_refused_in_a_sentence(column: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError) as refused:
        schema_of(**column)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("bounds", [(0, 1_000_000), (-40_000, 777_777), (10_000, 99_990_000)])
def test_every_cell_holds_a_multiple_of_a_step_that_nearly_all_keep(scale: str, bounds: tuple[int, int]) -> None:
    schema = schema_of(bounds=list(bounds), scale=scale, steps=[10_000])
    (attribute,) = Discretizer.by_schema(schema).attributes
    assert attribute.edges is not None
    first, last = np.ceil(attribute.edges[:-1] / 10_000), np.ceil(attribute.edges[1:] / 10_000) - 1
    inner = slice(1, -1)  # the outermost cells end at the bounds
    assert (first[inner] <= last[inner]).all()
    cells = np.repeat(np.arange(attribute.n_cells - 2), 20)
    drawn = numeric_scale.draw(attribute.edges, cells, schema.columns["x"], np.random.default_rng(0))  # type: ignore[arg-type]
    on = np.isin(cells, np.flatnonzero(first <= last))
    assert (drawn[on] % 10_000 == 0).all()
    assert (attribute.cells(pd.Series(drawn)) == cells).all()


def test_values_are_on_every_step_as_often_as_its_share_says() -> None:
    column = IntegerColumn(bounds=(0, 10_000_000), steps=(1000, 100, 50), step_shares=(0.5, 0.8, 0.9))
    edges = np.linspace(-0.5, 10_000_000.5, 41)
    cells = np.random.default_rng(1).integers(0, 40, 40_000)
    drawn = numeric_scale.draw(edges, cells, column, np.random.default_rng(0))
    for step, share in column.ladder:
        assert np.mean(drawn % step == 0) == pytest.approx(share, abs=0.01)
    assert len(np.unique(drawn[drawn % 50 != 0])) > 3000


@pytest.mark.parametrize("taken", [[], [0], [50, 60], [40, 50, 60, 70], [55], [0, 5, 100], list(range(0, 101, 10))])
@pytest.mark.parametrize("step", [10, 50, 7])
@pytest.mark.parametrize("bounds", [(0, 100), (3, 98), (-37, 104)])
def test_a_position_settles_on_the_nearest_multiple_that_is_free(
    taken: list[int], step: int, bounds: tuple[int, int]
) -> None:
    column = IntegerColumn(bounds=bounds, steps=(step,))
    places = np.random.default_rng(0).uniform(*bounds, 300)
    settled = numeric_scale.settle(places, column, np.array(taken, dtype=float), (1.0,), np.random.default_rng(1))
    low, high = bounds
    free = [count for count in range(low, high + 1) if count not in taken]
    on = [count for count in free if count % step == 0] or free  # none is free: the precision is all that is left
    nearest = np.abs(np.array(on)[:, None] - places).min(axis=0)
    assert np.isin(settled, on).all()
    np.testing.assert_allclose(np.abs(settled - places), nearest, atol=1e-9)


def test_where_every_value_is_taken_a_position_keeps_its_own() -> None:
    column, places = IntegerColumn(bounds=(0, 3)), np.array([0.2, 1.4, 2.6, 3.0])
    settled = numeric_scale.settle(places, column, np.arange(4.0), (), np.random.default_rng(0))
    assert settled.tolist() == [0, 1, 3, 3]


def test_positions_beyond_a_bound_are_mirrored_there_and_clipped_where_they_are_far() -> None:
    column = RealColumn(bounds=(0.0, 10.0))
    places = np.array([-1.0, 11.5, 4.0, 1e300, -25.0])
    settled = numeric_scale.settle(places, column, np.empty(0), (), np.random.default_rng(0))
    assert settled.tolist() == [1.0, 8.5, 4.0, 10.0, 0.0]


def test_positions_are_settled_on_steps_as_often_as_the_cells_of_a_grid_draw_them() -> None:
    column = RealColumn(bounds=(0.0, 1000.0), decimals=2, steps=(5.0, 0.5), step_shares=(0.3, 0.7))
    cells = np.random.default_rng(0).integers(0, 20, 40_000)
    edges = np.linspace(-0.005, 1000.005, 21)
    in_cells = numeric_scale.draw(edges, cells, column, np.random.default_rng(1)) / 100
    places = np.random.default_rng(2).uniform(0, 1000, 40_000)
    settled = numeric_scale.settle(places, column, np.array([500.0]), (0.3, 0.7), np.random.default_rng(3))
    for step, share in column.ladder:
        for drawn in (in_cells, settled):
            assert np.mean(np.abs(drawn / step - np.round(drawn / step)) < 1e-6) == pytest.approx(share, abs=0.012)
    assert not (settled == 500.0).any() and (np.abs(settled - places) <= 5.0).all()


def test_a_column_without_steps_is_drawn_as_ever() -> None:
    plain, edges = IntegerColumn(bounds=(0, 999)), np.linspace(-0.5, 999.5, 11)
    cells = np.random.default_rng(1).integers(0, 10, 500)
    drawn = numeric_scale.draw(edges, cells, plain, np.random.default_rng(0))
    starts = np.ceil(edges[:-1]).astype(np.int64)
    expected = np.random.default_rng(0).integers(starts[cells], starts[cells] + 99, endpoint=True)
    assert np.array_equal(drawn, expected)


def test_spikes_have_cells_of_their_own_on_the_step_and_off_it() -> None:
    schema = schema_of(steps=[100], spikes=[0, 500, 777, 123_400], scale="log")
    (attribute,) = Discretizer.by_schema(schema).attributes
    near = pd.Series([777, 776, 778, 500, 400, 600, 123_400, 123_300, 123_500, 0, 100])
    cells = attribute.cells(near)
    for spike, others in ((0, (1, 2)), (3, (4, 5)), (6, (7, 8)), (9, (10,))):
        assert all(cells[spike] != cells[other] for other in others)
    codes = pd.Series([777] * 50)
    fine = attribute.fine
    assert set(fine.values(fine.codes(codes), np.random.default_rng(0))) == {777}
    assert set(fine.values(fine.codes(pd.Series([123_400] * 50)), np.random.default_rng(0))) == {123_400}


@pytest.mark.parametrize(
    "column",
    [
        {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"]},
        {"kind": "datetime", "bounds": ["2015-01-01T00:00:00", "2024-12-31T23:59:59"], "precision": "s"},
        {"kind": "weight", "bounds": [0.0, 900.0], "decimals": 1, "steps": [5.0]},
    ],
)
def test_days_times_and_weights_have_grids_and_values(column: dict[str, Any]) -> None:
    schema = build_schema({"status": "declared", "n_units": 100, "columns": {"x": column}})
    (attribute,) = Discretizer.by_schema(schema).attributes
    cells = np.arange(attribute.n_cells - 2)
    assert len(attribute.fine.values(cells, np.random.default_rng(0))) == len(cells)


def amounts(n: int, seed: int = 0) -> pd.DataFrame:
    """Amounts in hundreds, most of them in thousands; prices with frequent values; noise."""
    rng = np.random.default_rng(seed)
    raw = rng.gamma(2.0, 60_000.0, n)
    coarse = np.where(rng.random(n) < 0.6, 1000, 100)
    price = np.where(rng.random(n) < 0.3, rng.choice([9.99, 19.99, 49.0], n), rng.lognormal(4, 1, n).round(2))
    return pd.DataFrame({"amount": (raw // coarse * coarse + coarse).astype(int), "price": price, "raw": raw})


def test_infer_proposes_what_rows_keep_and_nothing_else() -> None:
    columns = synth.infer_schema(amounts(4000)).columns
    amount, price, raw = (columns[name] for name in ("amount", "price", "raw"))
    assert amount.is_whole and isinstance(price, RealColumn) and isinstance(raw, RealColumn)
    assert amount.steps == (1000, 100)
    assert all(isinstance(step, int) for step in amount.steps)
    assert amount.ladder[0][1] == pytest.approx(0.64, abs=0.04) and amount.ladder[1][1] == 1.0
    assert price.steps == ()
    assert price.spikes == (9.99, 19.99, 49.0)
    assert raw.steps == raw.spikes == ()
    few = synth.infer_schema(amounts(60)).columns["amount"]
    assert few.is_whole and few.steps == few.spikes == ()


@pytest.mark.parametrize(
    "values",
    [
        lambda rng: rng.integers(1_600_000_000, 1_700_000_000, 3000),
        lambda rng: rng.integers(0, 2**31, 3000),
        lambda rng: (rng.random(3000) * 5e7).round(2),
        lambda rng: (5.8e6 + rng.random(3000) * 1e4).round(3),
        lambda rng: (rng.random(3000) * 3000).round(6),
        lambda rng: rng.integers(2**60, 2**62, 3000),
        lambda rng: np.where(rng.random(3000) < 0.3, 9_999_999_999_999_999, rng.integers(0, 10**15, 3000)),
        lambda rng: np.where(rng.random(3000) < 0.3, 0.5, rng.random(3000) * 1e300),
        lambda rng: rng.random(3000) * 9e307,
    ],
)
def test_no_step_is_made_up_where_float64_is_coarse(values: Any) -> None:
    real = pd.DataFrame({"x": values(np.random.default_rng(0)), "y": np.arange(3000) % 7})
    schema = synth.declare_schema(synth.infer_schema(real), n_units=3000)
    assert getattr(schema.columns["x"], "steps", ()) == ()
    for parameters in ({}, {"epsilon": 1.0, "delta": 1e-6}):
        assert len(synth.fit(real, schema, "independent", **parameters).sample(200, seed=0)) == 200


@pytest.mark.parametrize(
    ("column", "spike"),
    [
        ({"bounds": [0, 3 * 10**9], "scale": "log"}, 10**9),
        ({"bounds": [0, 3 * 10**9]}, 10**9 + 1),
        ({"kind": "real", "bounds": [0.0, 1.0]}, 1 / 3),
        ({"steps": [100], "step_shares": [0.92]}, 50_000),
    ],
)
def test_a_spike_is_drawn_exactly_wherever_it_lies(column: dict[str, Any], spike: float) -> None:
    rng, (low, high) = np.random.default_rng(0), column.get("bounds", (0, 1_000_000))
    others = rng.uniform(low, high, 4000)
    whole = column.get("kind") != "real"
    others = np.round(others) if whole else others
    real = pd.DataFrame({"x": np.where(rng.random(4000) < 0.3, spike, others)}).astype("int64" if whole else "float64")
    made = synth.fit(real, schema_of(**column, spikes=[spike]), "independent").sample(4000, seed=0)["x"]
    assert np.mean(made == spike) == pytest.approx(0.3, abs=0.03)
    near = np.abs(made.astype(float) - spike) < 1e-6 * high
    assert np.mean(near & (made != spike)) < 0.005


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 3.0, "delta": 1e-6}])
def test_synthetic_values_have_the_steps_and_spikes_of_real_ones(parameters: dict[str, float]) -> None:
    real = amounts(4000)[["amount", "price"]]
    schema = synth.declare_schema(synth.infer_schema(real), n_units=4000)
    made = synth.fit(real, schema, "independent", **parameters).sample(4000, seed=0)
    for step in (1000, 100):
        assert np.mean(made["amount"] % step == 0) == pytest.approx(np.mean(real["amount"] % step == 0), abs=0.05)
    for spike in (9.99, 19.99, 49.0):
        assert np.mean(made["price"] == spike) == pytest.approx(np.mean(real["price"] == spike), abs=0.03)


def test_a_fit_without_epsilon_keeps_the_shape_of_tails() -> None:
    rng = np.random.default_rng(3)
    real = pd.DataFrame({"x": rng.pareto(2.5, 8000).round(4) * 1000})
    schema = synth.infer_schema(real)
    made = synth.fit(real, schema, "independent").sample(8000, seed=1)["x"].astype(float)
    beyond = float(np.mean(made > real["x"].quantile(0.999)))
    assert beyond < 0.003
    assert 0.7 < made.std() / real["x"].std() < 1.4


def test_proposed_steps_and_spikes_are_told_when_they_are_declared() -> None:
    proposed = synth.infer_schema(amounts(4000)[["amount"]])
    told = [said for _, said in unconfirmed(proposed, synth.declare_schema(proposed))]
    assert any("steps and frequent values may have been read off the table" in said for said in told)


def test_declare_says_what_is_asserted() -> None:
    schema = schema_of(steps=[1000, 100], step_shares=[0.6, 1.0], spikes=[5000])
    said = dict(assertions(schema))["x"]
    assert "these limits, the steps 1000 (60%), 100 and 1 frequent value (5000) are public knowledge" in said
    measured = synth.declare_schema(build_schema({**schema.model_dump(), "status": "inferred"}), measure=["x"])
    assert measured.columns["x"].steps == measured.columns["x"].spikes == ()
