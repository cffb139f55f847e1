"""Codes of columns: one code for every value, grids of quantiles, and coarser codes."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.domain import MAX_CELLS, Discretizer, grid, quantile_grid
from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable
from synth.domain.discretizer import Attribute, CodedRows
from synth.domain.grid import public_grid
from synth.domain.quantile_grid import quantile_discretizer
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.schema.kinds import RealColumn


def one(column: dict[str, object]) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": column}})


def test_codes_of_a_decoded_table_are_the_codes_it_was_decoded_from(schema: Schema, frame: pd.DataFrame) -> None:
    for discretizer in (Discretizer.by_schema(schema), Discretizer.by_quantiles(schema, frame)):
        codes = discretizer.encode(frame)
        decoded = discretizer.decode(codes, np.random.default_rng(0))
        np.testing.assert_array_equal(discretizer.encode(decoded), codes)


def test_values_outside_the_declaration_are_clamped_and_unknown_ones_are_other(
    schema: Schema, frame: pd.DataFrame
) -> None:
    discretizer = Discretizer.by_schema(schema)
    odd = frame.head(3).copy()
    odd["age"] = pd.array([-5, 1000, None], dtype="Int64")
    odd["job"] = pd.Series(["unheard of", None, "clerk"], dtype=object)
    codes = pd.DataFrame(discretizer.encode(odd), columns=list(discretizer.columns))
    size = discretizer.sizes
    assert codes["age"].tolist() == [0, size["age"] - 3, size["age"] - 1]
    assert codes["job"].tolist() == [size["job"] - 2, size["job"] - 1, 2]


@given(
    low=st.floats(-1e6, 1e6), width=st.floats(0, 1e7), scale=st.sampled_from(["linear", "log"]),
    decimals=st.one_of(st.none(), st.integers(0, 4)),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_a_public_grid_ascends_covers_the_bounds_and_stays_small(
    low: float, width: float, scale: str, decimals: int | None
) -> None:
    if decimals is not None:
        low, width = round(low, decimals), round(width, decimals)
    column = RealColumn(bounds=(low, low + width), scale=scale, decimals=decimals)  # type: ignore[arg-type]
    edges = public_grid(column)
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= low
    assert edges[-1] > low + width
    assert len(edges) - 1 <= MAX_CELLS


def test_integers_beyond_two_to_the_53_stay_whole_and_inside_their_bounds() -> None:
    low, high = 2**53 + 1, 2**62 + 3
    schema = one({"kind": "integer", "bounds": [low, high]})
    discretizer = Discretizer.by_schema(schema)
    codes = np.random.default_rng(0).integers(0, discretizer.sizes["x"] - 2, size=(1000, 1))
    decoded = discretizer.decode(codes, np.random.default_rng(1))["x"]
    assert decoded.dtype == "Int64"
    assert decoded.between(low, high).all()


def test_declared_bins_are_the_codes() -> None:
    schema = one({"kind": "integer", "bounds": [0, 99], "bins": [0, 1, 10, 50, 100]})
    labels = Discretizer.by_schema(schema).labels("x")
    assert labels == ["0", "1 to 9", "10 to 49", "50 to 99", "other", "missing"]


LEAST = 20


def schema_of(**columns: Any) -> Schema:
    return build_schema({"status": "declared", "columns": columns})


def read_off(
    schema: Schema, table: pd.DataFrame, weights: Any = None, *, n_bins: int = 16, least: float = LEAST
) -> Discretizer:
    """Codes of a canonical table."""
    places = {}
    for attribute in Discretizer.by_schema(schema).attributes:
        series, column = table[attribute.name], attribute.column
        is_line = attribute.edges is not None
        places[attribute.name] = column.positions(series) if is_line else attribute.cells(series).astype(float)  # type: ignore[arg-type]
    weighted = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    return quantile_discretizer(schema, places, weighted, n_bins=n_bins, least_units=least)


def number(values: Any, weights: Any = None, **column: Any) -> Attribute:
    """The codes of one column of numbers, NaN where missing."""
    schema = schema_of(x={"kind": "real", "missing": True, **column})
    table = pd.DataFrame({"x": np.asarray(values, dtype=np.float64)})
    if column.get("kind") == "integer":
        table["x"] = table["x"].astype("Int64")
    (attribute,) = read_off(schema, table, weights).attributes
    return attribute


def drawn(discretizer: Discretizer, table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """A draw of each row's code and rank, as a model that knows both would make it."""
    cells = {p: a.cells(table[a.name]) for p, a in enumerate(discretizer.attributes)}
    return CodedRows.of(discretizer, cells).decoded(discretizer, np.random.default_rng(seed))


def drawn_anew(attribute: Attribute, values: Any, n: int, seed: int = 0) -> np.ndarray:
    """Values of codes drawn by their frequency, wherever in their codes."""
    codes = attribute.group[attribute.cells_at(np.asarray(values, dtype=np.float64))]
    rng = np.random.default_rng(seed)
    series = attribute.values(rng.choice(codes, n), rng)
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


COLUMNS: list[dict[str, Any]] = [
    {"kind": "integer", "bounds": [-1000, 100_000]},
    {"kind": "real", "decimals": 2, "bounds": [-1000.0, 100_000.0]},
    {"kind": "real", "bounds": [-1000.0, 100_000.0], "scale": "log"},
    {"kind": "real", "bounds": [-1000.0, 100_000.0]},
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with spikes, runs of rare values, far ones and missing ones, and weights of their rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = [
        np.full(draw(st.integers(0, 90)), float(value)) for value in draw(st.sets(st.integers(-5, 40), max_size=25))
    ]
    for _ in range(draw(st.integers(0, 4))):
        low, width = draw(st.integers(-50, 900)), draw(st.sampled_from([1, 6, 40, 3000]))
        parts.append(low + np.floor(rng.random(draw(st.integers(1, 120))) * width))
    parts.append(np.array(draw(st.lists(st.sampled_from([-999.0, 55_555.0, 99_999.0, np.nan]), max_size=4))))
    values = np.concatenate(parts)
    if len(values) == 0:
        values = np.array([np.nan])
    rows_a_unit = draw(st.sampled_from([1, 1, 7]))
    return rng.permutation(values), np.full(len(values), 1 / rows_a_unit)


def test_what_enough_units_hold_at_an_end_is_drawn_in_a_large_table_too() -> None:
    values = np.repeat(np.arange(1_000, 1_050), 1_000)
    values[: 2 * LEAST] = 990
    drawn_low = (drawn_anew(number(values, kind="integer", bounds=[0, 2_000]), values, 50_000) < 995).sum()
    assert abs(drawn_low - 2 * LEAST) < 4 * np.sqrt(2 * LEAST)


@settings(max_examples=60)
@given(table=tables(), column=st.sampled_from(COLUMNS), n_bins=st.sampled_from([2, 3, 5, 16]))
def test_no_code_or_cell_that_is_drawn_is_held_by_few_units(
    table: tuple[np.ndarray, np.ndarray], column: dict[str, Any], n_bins: int
) -> None:
    values, weights = table
    schema = schema_of(x={"missing": True, **column})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(quantile_grid, "OFF_MIDDLE", 1.0)  # parts of a cell hold what the whole cell allows
        built = quantile_discretizer(schema, {"x": values}, weights, n_bins=n_bins, least_units=LEAST)
    (attribute,) = built.attributes
    assert attribute.edges is not None
    cells = attribute.cells_at(values)
    holding = np.bincount(cells, weights=weights, minlength=attribute.n_cells)
    present = holding[:-2].sum()
    codes = np.bincount(attribute.group[:-2], weights=holding[:-2], minlength=attribute.size)
    masses = np.bincount(attribute.group[:-2], weights=attribute.mass[:-2], minlength=attribute.size)
    if present < LEAST:  # all in one stretch, whatever they are
        assert (attribute.mass[:-2] > 0).sum() == (present > 0)
        return
    assert attribute.mass[:-2].sum() == pytest.approx(present)
    assert (codes[masses > 0] >= LEAST - 1e-9).all()
    # Cells of fewer units are pooled: each is as likely as the values that it can hold are many.
    few = np.flatnonzero((attribute.mass[:-2] > 0) & (holding[:-2] < LEAST - 1e-9))
    measure = grid.lattice_measure(attribute.edges, attribute.column)  # type: ignore[arg-type]
    densities = np.round(np.log(attribute.mass[few] / measure[few]), 6)
    for density in np.unique(densities):
        assert holding[few[densities == density]].sum() >= LEAST - 1e-9


@settings(max_examples=40)
@given(table=tables(), column=st.sampled_from(COLUMNS), n_bins=st.sampled_from([2, 3, 5, 16]))
def test_masses_ranks_and_intervals_agree_and_a_grid_comes_back_from_plain_data(
    table: tuple[np.ndarray, np.ndarray], column: dict[str, Any], n_bins: int
) -> None:
    values, weights = table
    schema = schema_of(x={"missing": True, **column})
    built = quantile_discretizer(schema, {"x": values}, weights, n_bins=n_bins, least_units=LEAST)
    (attribute,), (again,) = built.attributes, Discretizer.from_plain(built.to_plain(), schema).attributes
    for first, other in ((attribute.edges, again.edges), (attribute.group, again.group), (attribute.mass, again.mass)):
        np.testing.assert_array_equal(first, other)
    for code in range(attribute.size - 2):
        cells = np.flatnonzero(attribute.group == code)
        if attribute.mass[cells].sum() == 0:
            continue
        intervals = attribute.rank_intervals[cells]
        np.testing.assert_allclose(
            np.diff(intervals, axis=1)[:, 0], attribute.mass[cells] / attribute.mass[cells].sum()
        )
        np.testing.assert_allclose(intervals.mean(axis=1), attribute.middle_ranks[cells])
        holding = cells[attribute.mass[cells] > 0]
        middles = attribute.middle_ranks[holding]
        np.testing.assert_array_equal(attribute.ranked(np.full(len(holding), code), middles), holding)


def test_a_frequent_value_comes_back_as_often_and_exactly() -> None:
    rng = np.random.default_rng(0)
    spikes = {0.0: 900, 1234.56: 60, 40.0: LEAST}
    values = np.concatenate([*(np.full(n, value) for value, n in spikes.items()), rng.gamma(2.0, 500.0, 1500).round(2)])
    for column in ({"decimals": 2}, {}):
        attribute = number(values, bounds=[0.0, 1e6], **column)
        for value, n in spikes.items():
            cell = attribute.cells_at(np.array([value]))[0]
            assert attribute.mass[cell] == pytest.approx(n, abs=5)  # a few values beside it, too few for a cell
        built = drawn_anew(attribute, values, 50_000)
        for value, n in spikes.items():
            share = n / len(values)
            assert abs((built == value).mean() - share) < 5 * np.sqrt(share / 50_000) + 5 / len(values)


@pytest.mark.parametrize("others", [np.zeros(3000), np.repeat([0.0, 7.0, 90_000.0], 1000), np.full(3000, np.nan)])
def test_a_lone_value_among_spikes_is_not_drawn_again_and_again(others: np.ndarray) -> None:
    """Only one row in 3001 has it: as often as that, some value may be drawn, but not this one."""
    values = np.append(others, 12_345.0)
    for kind in ("integer", "real"):
        built = drawn_anew(number(values, kind=kind, bounds=[0, 200_000]), values, 300_000)
        assert (built == 12_345).sum() < 20


def words(counts: dict[str, int], weights: Any = None, least: float = LEAST) -> tuple[Attribute, pd.Series]:
    schema = schema_of(x={"kind": "categorical", "categories": list(counts), "missing": True})
    values = pd.Series(np.repeat(np.array(list(counts), dtype=object), list(counts.values())), dtype=object)
    (attribute,) = read_off(schema, pd.DataFrame({"x": values}), weights, least=least).attributes
    return attribute, values


def frequencies(attribute: Attribute, values: pd.Series, n: int = 100_000) -> pd.Series:
    rng = np.random.default_rng(7)
    codes = rng.choice(attribute.codes(values), n)
    return attribute.values(codes, rng).value_counts(normalize=True)


def test_rare_categories_share_other_and_are_drawn_alike() -> None:
    attribute, values = words({"a": 500, "b": 300, "one": 1, "nine": 9, "c": 30, "twelve": 12, "never": 0})
    codes = attribute.codes(pd.Series(["one", "nine", "twelve", "never", "a", "b", "c"], dtype=object))
    assert set(codes[:4]) == {attribute.size - 2}
    assert len(set(codes)) == 4
    built = frequencies(attribute, values)
    assert "never" not in built
    for word in ("one", "nine", "twelve"):
        assert built[word] == pytest.approx(22 / 3 / len(values), rel=0.15)
    for word in ("a", "b", "c"):
        assert built[word] == pytest.approx((values == word).mean(), rel=0.05)


def test_too_few_rare_units_are_joined_by_the_next_category_which_stays_as_frequent() -> None:
    attribute, values = words({"No": 9999, "Steady": 1, "Up": 40})
    codes = attribute.codes(pd.Series(["Steady", "Up", "No"], dtype=object))
    assert codes[0] == codes[1] != codes[2]
    built = frequencies(attribute, values)
    assert built["Up"] == pytest.approx(40 / len(values), rel=0.2)
    assert built["Steady"] < 5 / len(values)
    attribute, values = words({"No": 9999, "Steady": 1})
    built = frequencies(attribute, values)
    assert built["No"] > 0.999
    assert built["Steady"] < 0.001


SCHEMA = build_schema(
    {
        "status": "declared",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 19]},
            "grade": {"kind": "integer", "bounds": [1, 5]},
            "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        },
    }
)


def coarsened() -> tuple[Discretizer, Coarsening, np.ndarray]:
    discretizer = Discretizer.by_schema(SCHEMA)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 22, 500), rng.integers(0, 5, 500), rng.integers(0, 3, 500)], axis=1)
    masses = {
        name: np.bincount(codes[:, i], minlength=size) for i, (name, size) in enumerate(discretizer.sizes.items())
    }
    return discretizer, Coarsening.of(discretizer, masses, 4), codes


def test_a_code_goes_with_its_coarse_code_alone() -> None:
    _, coarsening, _ = coarsened()
    ((pair, together),) = coarsening.zeros()
    assert pair == ("age", "age" + MARK)
    assert together.sum(axis=1).tolist() == [1] * 22
    assert together.argmax(axis=1).tolist() == coarsening.groups["age"].tolist()


LEVELS = build_schema(
    {
        "status": "declared",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 19]},
            "grade": {"kind": "integer", "bounds": [1, 5]},
            "level": {"kind": "categorical", "categories": list(range(8)), "ordered": True},
            "town": {"kind": "categorical", "categories": [f"t{index}" for index in range(9)]},
            "sex": {"kind": "boolean"},
        },
    }
)
TOWNS = np.array([5.0, 90.0, -7.0, 80.0, 0.0, 90.0, 3.0, 85.0, 1.0, 40.0, 20.0])
"""Released counts of the towns; the last two are of `other` and `missing`."""


def test_categories_of_least_mass_are_one_group_and_each_other_its_own() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    group = Coarsening.of_all(discretizer, {**masses, "town": TOWNS}, dict.fromkeys(masses, 100), 5).groups["town"]
    rest = [index for index in range(9) if group[index] == group[0]]
    assert rest == [0, 2, 4, 6, 8]
    assert len(set(group[[1, 3, 5, 7]].tolist())) == 4
    assert group[0] not in group[[1, 3, 5, 7]]
    assert group[9:].tolist() == [5, 6]


def test_counts_by_groups_that_are_no_neighbors_are_sums_of_fine_ones() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 400) for size in discretizer.sizes.values()], axis=1)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    coarsening = Coarsening.of_all(discretizer, {**masses, "town": TOWNS}, dict.fromkeys(masses, 3), 5)
    assert (np.diff(coarsening.groups["town"]) < 0).any()
    table = CoarseCounts(CodedTable(discretizer.sizes, codes), coarsening)
    merged = [coarsening.groups[name][codes[:, list(discretizer.sizes).index(name)]] for name in coarsening.groups]
    expected = CodedTable(table.domain, np.column_stack([codes, *merged]))
    cliques = [("town" + MARK,), ("sex", "town" + MARK), ("town" + MARK, "age" + MARK, "level"), ("town", "grade")]
    for clique, counts in zip(cliques, table.each(cliques), strict=True):
        assert counts.sum() == 400
        np.testing.assert_array_equal(counts, expected.counts(clique))


@pytest.mark.parametrize("masses", [np.zeros(11), np.full(11, -3.0), TOWNS])
def test_categories_without_mass_are_in_a_group_all_the_same(masses: np.ndarray) -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    others = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    group = Coarsening.of_all(discretizer, {**others, "town": masses}, dict.fromkeys(others, 4), 3).groups["town"]
    assert np.bincount(group).tolist() == [1, 1, 7, 1, 1]


@pytest.mark.parametrize(("every", "n_cells"), [("month", 36), ("quarter end", 12)])
def test_a_cell_of_a_date_holds_one_of_the_days_that_values_may_be(every: str, n_cells: int) -> None:
    column = {"kind": "date", "bounds": ["2019-01-01", "2021-12-31"], "every": every}
    schema = build_schema({"status": "declared", "columns": {"day": column}})
    (attribute,) = Discretizer.by_schema(schema).attributes
    cells = np.arange(attribute.n_cells - 2).repeat(50)
    days = attribute.placed(attribute.drawn(cells, np.random.default_rng(0)))
    assert len(np.unique(cells)) == days.nunique() == n_cells
    assert (attribute.cells(days) == cells).all()
    assert np.ptp(grid.lattice_measure(*attribute.line)) < 1e-9


def test_bounds_with_one_day_of_a_rhythm_are_one_cell_and_those_with_none_are_refused() -> None:
    column: dict[str, Any] = {"kind": "date", "bounds": ["2019-01-20", "2019-02-20"], "every": "month"}
    schema = build_schema({"status": "declared", "columns": {"day": column}})
    (attribute,) = Discretizer.by_schema(schema).attributes
    days = attribute.placed(attribute.drawn(np.zeros(50, dtype=np.int64), np.random.default_rng(0)))
    assert attribute.n_cells == 3
    assert days.astype(str).unique().tolist() == ["2019-02-01"]
    low, high = schema.columns["day"].span
    for first, last in ((low, low + 3), (high - 3, high)):  # as noise may have it
        narrower = schema.columns["day"].between(first, last)
        assert narrower[0] <= date(2019, 2, 1) <= narrower[1]
    with pytest.raises(SchemaError, match="no first, or last, day of a month; widen"):
        build_schema({"status": "declared", "columns": {"day": column | {"bounds": ["2019-01-20", "2019-01-30"]}}})
