"""Bounds and steps of numbers that are measured with noise."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.domain import MAX_CELLS, grid
from synth.domain.dp_bounds import (
    bounded,
    histogram,
    narrowed,
    public_edges,
    range_edges,
    step_counts,
    step_sizes,
    with_steps,
)
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema.kinds import DateColumn, DatetimeColumn, IntegerColumn, LineColumn, RealColumn
from synth.schema.kinds.dates import DAY

WIDE = IntegerColumn(bounds=(-(2**63), 2**63 - 1))
REAL = RealColumn(bounds=(-1e15, 1e15))
CENTS = RealColumn(bounds=(-1e15, 1e15), decimals=2)
DAYS = DateColumn(bounds=(dt.date.min, dt.date.max))
MOMENTS = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), precision="us")
COLUMNS: tuple[LineColumn, ...] = (
    WIDE, REAL, CENTS, DAYS, MOMENTS, RealColumn(bounds=(-8e307, 8e307)), RealColumn(bounds=(0.0, 0.0)),
    IntegerColumn(bounds=(7, 7)), IntegerColumn(bounds=(-1000, -5)),
    DateColumn(bounds=(dt.date(1999, 12, 31), dt.date(2000, 1, 1))),
)  # fmt: skip
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


def test_a_column_with_much_below_the_width_of_an_even_cell_is_resolved_geometrically() -> None:
    rng = np.random.default_rng(0)
    for signal in (60.0, 2_000.0):
        assert found(REAL, np.exp(rng.normal(5, 3, 4000)), signal, rng).scale == "log"
        assert found(CENTS, np.exp(rng.normal(2, 3, 4000)).round(2), signal, rng).scale == "log"
        # Zeros alone are a spike, and nothing else is finer for them.
        zeros = found(WIDE, np.r_[np.zeros(3000), rng.integers(1000, 4000, 1000)], signal, rng)
        assert (zeros.scale, zeros.spikes) == ("linear", (0,))
        assert found(REAL, rng.uniform(0, 100, 4000), signal, rng).scale == "linear"
        # Whole numbers that an even grid tells apart need nothing finer, however they are spread.
        assert found(WIDE, np.repeat([1.0, 30.0, 100.0], [3000, 500, 400]), signal, rng).scale == "linear"


def test_a_few_values_beyond_the_noise_move_no_bound() -> None:
    column = found(REAL, np.array([5.0] * 1000 + [1e12] * 3 + [-1e12]), 100.0)
    assert column.bounds == (4.0, 8.0)
    assert not column.measure


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
    assert sum(beyond(first, positions) > 0.5 for first in many) <= 2
    if name == "charges":
        widths = [np.ptp(first.ends) / np.ptp(positions) for first in many]
        assert sum(width > 10 for width in widths) <= 1


def narrow(column: Any, positions: np.ndarray, signal: float, rng: np.random.Generator) -> Any:
    """The column with bounds, and the range within them."""
    wide, sigma = found(column, positions, signal, rng), len(positions) / signal
    edges = range_edges(wide, signal)
    return narrowed(wide, edges, histogram(positions, edges) + rng.normal(0, sigma, len(edges) - 1).round(), sigma)


def test_wide_bounds_are_narrowed_where_values_are_far_from_zero_and_never_over_a_tail() -> None:
    rng = np.random.default_rng(2)
    latitudes, tails = rng.uniform(47.1, 47.8, 4_000), np.exp(rng.normal(9, 1.5, 4_000)).round(2)
    halves = np.r_[rng.uniform(33, 34, 2_400), rng.uniform(60, 61, 1_600)]
    for signal in (15.0, 40.0, 100.0, 250.0):
        for _ in range(20):
            column = narrow(REAL, latitudes, signal, rng)
            assert beyond(column, latitudes) < 0.5
            assert beyond(narrow(CENTS, tails, signal, rng), tails) < 0.5
            assert beyond(narrow(REAL, halves, signal, rng), halves) < 0.5
    assert np.ptp(column.ends) < 3  # of a power of two: 32 to 64


def test_steps_are_told_by_noisy_counts_of_the_largest_that_divides() -> None:
    rng, sizes = np.random.default_rng(0), step_sizes(CENTS)
    assert step_sizes(IntegerColumn(bounds=(0, 200))) == step_sizes(REAL) == step_sizes(DAYS) == []
    assert step_sizes(CENTS.model_copy(update={"steps": (1.0,)})) == []  # those that are declared stay
    values = np.array([0.0, np.nan, 0.05, -0.05, 0.5, 100.0, 0.01])
    counts = dict(zip([*sizes, 1], step_counts(values, sizes, 0.01), strict=True))
    assert {size: n for size, n in counts.items() if n} == {5: 2, 50: 1, 10_000: 1, 1: 1}
    years = np.where(rng.random(2_000) < 0.95, rng.integers(0, 41, 2_000), rng.integers(0, 400, 2_000) / 10)
    for positions, steps in ((years, (1.0,)), (rng.uniform(0, 40, 2_000).round(2), ())):
        exact = step_counts(positions, sizes, 0.01)
        noisy = exact + rng.normal(0, 30.0, len(exact)).round()
        column = with_steps(RealColumn(bounds=(0.0, 41.0), decimals=2), sizes, noisy, 30.0)
        assert column.steps[:1] == steps


def schema_of(**column: Any) -> Schema:
    content = {"kind": "integer", "bounds": [0, 1_000_000], **column}
    return build_schema({"status": "declared", "n_units": 1000, "columns": {"x": content}})


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"steps": [100, 1000]}, "steps=[100, 1000] must be coarser"),
        ({"kind": "real", "bounds": [0, 9], "steps": [0.25]}, "give decimals"),
        ({"steps": [1000], "step_shares": [0.5, 0.6]}, "one share for each of steps"),
        ({"spikes": [5, 5]}, "strictly ascending"),
        ({"spikes": [5, 2_000_000]}, "within bounds"),
        ({"kind": "real", "decimals": 1, "bounds": [0, 9], "spikes": [0.25]}, "more digits"),
        ({"spikes": [5], "measure": True}, "has no spikes"),
    ],
)
def test_steps_and_spikes_that_cannot_be_are_refused_in_a_sentence(column: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        schema_of(**column)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_are_on_every_step_as_often_as_its_share_says() -> None:
    column = IntegerColumn(bounds=(0, 10_000_000), steps=(1000, 100, 50), step_shares=(0.5, 0.8, 0.9))
    edges = np.linspace(-0.5, 10_000_000.5, 41)
    cells = np.random.default_rng(1).integers(0, 40, 40_000)
    drawn = grid.draw(edges, cells, column, np.random.default_rng(0))
    for step, share in column.ladder:
        assert np.mean(drawn % step == 0) == pytest.approx(share, abs=0.01)
    assert len(np.unique(drawn[drawn % 50 != 0])) > 3000


@pytest.mark.parametrize("taken", [[], [40, 50, 60, 70], [0, 5, 100], list(range(0, 101, 10))])
@pytest.mark.parametrize("step", [10, 7])
@pytest.mark.parametrize("bounds", [(0, 100), (-37, 104)])
def test_a_position_settles_on_the_nearest_multiple_that_is_free(
    taken: list[int], step: int, bounds: tuple[int, int]
) -> None:
    column = IntegerColumn(bounds=bounds, steps=(step,))
    places = np.random.default_rng(0).uniform(*bounds, 300)
    settled = grid.settle(places, column, np.array(taken, dtype=float), (1.0,), np.random.default_rng(1))
    low, high = bounds
    free = [count for count in range(low, high + 1) if count not in taken]
    on = [count for count in free if count % step == 0] or free  # none is free: the precision is all that is left
    nearest = np.abs(np.array(on)[:, None] - places).min(axis=0)
    assert np.isin(settled, on).all()
    np.testing.assert_allclose(np.abs(settled - places), nearest, atol=1e-9)


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
    ("column", "spike"),
    [({"bounds": [0, 3 * 10**9], "scale": "log"}, 10**9), ({"kind": "real", "bounds": [0.0, 1.0]}, 1 / 3)],
)
def test_a_spike_is_drawn_exactly_wherever_it_lies(column: dict[str, Any], spike: float) -> None:
    rng, (low, high) = np.random.default_rng(0), column.get("bounds", (0, 1_000_000))
    others = rng.uniform(low, high, 4000)
    whole = column.get("kind") != "real"
    others = np.round(others) if whole else others
    real = pd.DataFrame({"x": np.where(rng.random(4000) < 0.3, spike, others)}).astype("int64" if whole else "float64")
    built = synth.fit(real, schema_of(**column, spikes=[spike]), "independent").sample(4000, seed=0)["x"]
    assert np.mean(built == spike) == pytest.approx(0.3, abs=0.03)
    near = np.abs(built.astype(float) - spike) < 1e-6 * high
    assert np.mean(near & (built != spike)) < 0.005


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 3.0, "delta": 1e-6}])
def test_synthetic_values_have_the_steps_and_spikes_of_real_ones(parameters: dict[str, float]) -> None:
    real = amounts(4000)[["amount", "price"]]
    schema = synth.declare_schema(synth.infer_schema(real), n_units=4000)
    built = synth.fit(real, schema, "independent", **parameters).sample(4000, seed=0)
    for step in (1000, 100):
        assert np.mean(built["amount"] % step == 0) == pytest.approx(np.mean(real["amount"] % step == 0), abs=0.05)
    for spike in (9.99, 19.99, 49.0):
        assert np.mean(built["price"] == spike) == pytest.approx(np.mean(real["price"] == spike), abs=0.03)
