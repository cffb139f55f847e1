"""What is said of a fit beforehand: from the schema alone, never better with less epsilon, and close to real fits."""

import itertools
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.errors import BudgetError
from synth.generators.aim import Aim
from synth.generators.forecast import ASSUMED_CATEGORIES, assumed, outlook
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema

N_ROWS = 4000
GENERATORS = (Independent, Mst, Aim, LatentClass)


def schema_of(n_units: int = N_ROWS, **changes: Any) -> Schema:
    columns: dict[str, Any] = {
        "age": {"kind": "integer", "bounds": [0, 99]},
        "income": {"kind": "real", "bounds": [0, 1000], "decimals": 2},
        "town": {"kind": "categorical", "categories": ["a", "b", "c", "d", "e", "f"]},
        "ill": {"kind": "boolean"},
        "grade": {"kind": "integer", "bounds": [0, 4]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        **changes.pop("columns", {}),
    }
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **changes})


def table(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.clip(age * 5 + rng.normal(0, 50, n_rows), 0, 1000).round(2),
            "town": rng.choice(list("abcdef"), n_rows),
            "ill": rng.random(n_rows) < age / 120,
            "grade": age // 20,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, n_rows), unit="D"),
        }
    )


@pytest.mark.parametrize("kind", GENERATORS)
def test_codes_are_those_of_the_schema_at_most(kind: Any) -> None:
    found = outlook(kind(epsilon=1.0), schema_of())
    bins = kind(epsilon=1.0).n_bins
    assert found.sizes == {"age": bins + 2, "income": bins + 2, "town": 8, "ill": 4, "grade": 7, "day": bins + 2}


def test_declared_bins_are_kept_whatever_their_number() -> None:
    binned = {"age": {"kind": "integer", "bounds": [0, 99], "bins": [0, 50, 60, 99]}}
    assert outlook(Mst(epsilon=1.0, n_bins=2), schema_of(columns=binned)).sizes["age"] == 5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", GENERATORS)
def test_more_epsilon_never_raises_an_expected_error(kind: Any) -> None:
    """But that aim shares a larger budget among more marginals, so that its pairs compare where these are as many."""
    found = [outlook(kind(epsilon=float(epsilon)), schema_of()) for epsilon in np.geomspace(0.05, 3, 8)]
    for less, more in itertools.pairwise(found):
        assert more.column < less.column
        if less.tree is not None and more.tree is not None and less.n_marginals == more.n_marginals:
            assert more.tree.error <= less.tree.error


def test_a_wide_table_has_an_outlook_and_no_more_rounds_than_a_narrow_one() -> None:
    wide = {f"x{index}": {"kind": "real", "bounds": [0, 1]} for index in range(300)}
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": wide})
    found = outlook(Aim(epsilon=1.0), schema)
    narrow = build_schema({"status": "declared", "n_units": N_ROWS, "columns": dict(list(wide.items())[:40])})
    assert found.n_marginals <= Aim(epsilon=1.0).n_rounds(narrow)
    assert np.isfinite([found.seconds, found.memory_mb]).all()


def test_numbers_are_paired_by_coarse_codes_and_categories_by_all_of_theirs() -> None:
    towns = {"kind": "categorical", "categories": [f"t{index}" for index in range(40)]}
    numbers = {"kind": "real", "bounds": [0, 1]}
    for column, codes in ((towns, 42), (numbers, 10)):
        schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": dict.fromkeys("ab", column)})
        pair = outlook(Aim(epsilon=1.0), schema).pair
        assert pair is not None
        assert pair.codes == (codes, codes)


def test_noise_of_a_pair_falls_with_epsilon_over_the_whole_range() -> None:
    for kind in (Mst, Aim):
        weak, strong = (outlook(kind(epsilon=epsilon), schema_of()).tree for epsilon in (3.0, 0.05))
        assert weak is not None
        assert strong is not None
        assert weak.error < strong.error / 5


def test_the_error_of_a_pair_is_half_the_mean_absolute_noise_over_its_cells() -> None:
    found = outlook(Mst(epsilon=1.0), schema_of())
    assert found.tree is not None
    assert found.tree.codes == (34, 4)
    rng = np.random.default_rng(1)
    noise = rng.normal(0, found.tree.sigma, (2000, 34 * 4))
    drawn = np.abs(noise).sum(axis=1) / 2 / N_ROWS
    assert found.tree.error == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(2000))


@pytest.mark.statistical
def test_the_error_of_a_column_bounds_that_of_a_real_fit_and_is_near_it() -> None:
    """Ten fits, on the column whose cells are its codes; what noise moves is a mean over six cells each."""
    schema, frame = schema_of(), table()
    generator = Independent(epsilon=1.0)
    found = outlook(generator, schema)
    exact = Discretizer.by_schema(schema)
    errors = []
    for _ in range(10):
        model = generator.fit(frame, schema)
        town = model.distribution.marginal(("town",))
        shares = np.bincount(exact.encode(frame)[:, 2], minlength=8) / N_ROWS
        errors.append(np.abs(town / town.sum() - shares).sum() / 2)
    # `other` and `missing` cannot occur and are held at zero, so that six of eight codes are noisy.
    assert found.columns["town"] / 3 < np.mean(errors) < found.columns["town"]


def test_a_column_to_measure_takes_of_the_budget_and_has_an_assumed_domain() -> None:
    measured = {"town": {"kind": "categorical", "measure": True}, "age": {"kind": "integer", "measure": True}}
    schema = schema_of(columns=measured)
    found, declared = outlook(Mst(epsilon=1.0), schema), outlook(Mst(epsilon=1.0), assumed(schema))
    assert found.assumed == ("age", "town")
    assert found.sizes["town"] == ASSUMED_CATEGORIES + 2
    assert found.sizes == declared.sizes
    assert declared.columns["ill"] < found.columns["ill"]


def test_frequent_values_to_measure_take_of_the_budget_and_of_the_time_alone() -> None:
    asked = {"income": {"kind": "real", "bounds": [0, 1000], "decimals": 2, "measure_spikes": True}}
    schema = schema_of(columns=asked)
    found, declared = outlook(Mst(epsilon=1.0), schema), outlook(Mst(epsilon=1.0), schema_of())
    assert found.assumed == ()
    assert found.sizes == declared.sizes == outlook(Mst(epsilon=1.0), assumed(schema)).sizes
    assert found.n_marginals == declared.n_marginals
    assert declared.columns["ill"] < found.columns["ill"] < 1.1 * declared.columns["ill"]
    assert found.seconds > declared.seconds


@pytest.mark.parametrize("kind", ["integer", "real", "date", "datetime", "weight"])
def test_every_kind_that_can_be_measured_has_an_outlook(kind: str) -> None:
    assert outlook(Mst(epsilon=1.0), schema_of(columns={"age": {"kind": kind, "measure": True}})).sizes["age"] > 2


def test_noise_grows_with_the_rows_of_a_unit() -> None:
    columns = {"id": {"kind": "identifier", "template": "####"}}
    one, five = (
        outlook(Mst(epsilon=1.0), schema_of(columns=columns, entity="id", max_rows_per_unit=k)) for k in (1, 5)
    )
    assert one.tree is not None
    assert five.tree is not None
    assert five.tree.sigma == pytest.approx(5 * one.tree.sigma, rel=0.01)


def test_one_column_has_no_pair() -> None:
    schema = build_schema({"status": "declared", "n_units": 100, "columns": {"ill": {"kind": "boolean"}}})
    for kind in GENERATORS:
        found = outlook(kind(epsilon=1.0), schema)
        assert (found.tree, found.pair, found.triple, found.n_marginals) == (None, None, None, 0)


def test_no_epsilon_has_no_outlook() -> None:
    with pytest.raises(BudgetError, match="an outlook needs an epsilon"):
        outlook(Mst(), schema_of())


def test_a_wide_table_costs_more_than_a_narrow_one() -> None:
    wide = {f"c{i}": {"kind": "categorical", "categories": ["a", "b", "c"]} for i in range(60)}
    for kind in GENERATORS:
        narrow, broad = (outlook(kind(epsilon=1.0), schema_of(columns=columns)) for columns in ({}, wide))
        assert narrow.seconds < broad.seconds
        assert narrow.memory_mb < broad.memory_mb


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Mst, Aim])
def test_seconds_are_within_a_factor_of_three_of_a_fit(kind: Any) -> None:
    """Process time; a factor of six below, since libraries and prices of schedules are there already."""
    schema, generator = schema_of(40_000), kind(epsilon=1.0)
    frame = table(40_000)
    Independent(epsilon=1.0).fit(frame, schema)
    expected = outlook(generator, schema).seconds
    started = time.process_time()
    generator.fit(frame, schema)
    took = time.process_time() - started
    assert took / 3 < expected < 6 * took
