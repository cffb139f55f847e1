"""Steps and spikes of numbers: refused where they cannot be, proposed where rows have them, kept when drawn."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.columns import IntegerColumn, RealColumn
from synth.declare import assertions, unconfirmed
from synth.domain import numeric_scale
from synth.domain.discretizer import Discretizer
from synth.errors import SchemaError
from synth.schema import Schema, build_schema
from synth.sdv_metadata import to_sdv


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
    assert isinstance(amount, IntegerColumn) and isinstance(price, RealColumn) and isinstance(raw, RealColumn)
    assert amount.steps == (1000, 100)
    assert all(isinstance(step, int) for step in amount.steps)
    assert amount.ladder[0][1] == pytest.approx(0.64, abs=0.04) and amount.ladder[1][1] == 1.0
    assert price.steps == ()
    assert price.spikes == (9.99, 19.99, 49.0)
    assert raw.steps == raw.spikes == ()
    few = synth.infer_schema(amounts(60)).columns["amount"]
    assert isinstance(few, IntegerColumn) and few.steps == few.spikes == ()


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


def test_declare_says_what_is_asserted_and_metadata_what_is_lost() -> None:
    schema = schema_of(steps=[1000, 100], step_shares=[0.6, 1.0], spikes=[5000])
    said = dict(assertions(schema))["x"]
    assert "these limits, the steps 1000 (60%), 100 and 1 frequent value (5000) are public knowledge" in said
    measured = synth.declare_schema(build_schema({**schema.model_dump(), "status": "inferred"}), measure=["x"])
    assert measured.columns["x"].steps == measured.columns["x"].spikes == ()
    lost = to_sdv(schema).lost
    assert any("the steps of" in one for one in lost) and any("the spikes of" in one for one in lost)
