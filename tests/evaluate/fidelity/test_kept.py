"""The share of associations that is kept: against its formula, on known tables, and where it says nothing."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import pairs
from evaluate.fidelity.pairs import NAME, association_kept
from evaluate.result import Estimate, Failure
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables

Population = Callable[..., pd.DataFrame]
LIMIT = 0.3
"""Of the policy "internal"."""


def kept_of(tables: Tables) -> Estimate | Failure:
    measurement = pairs.measure(tables)
    return next(m for m in (*measurement.estimates, *measurement.failures) if m.measure == NAME)


@pytest.fixture
def offered(population: Population, tables_of: Callable[..., Tables], tables: Tables) -> Callable[..., Estimate]:
    """The estimate in a small evaluation: 1,000 training rows, 250 held out, and synthetic rows made by `make`."""

    def run(seed: int, make: Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]) -> Estimate:
        rng = np.random.default_rng([seed, 31])
        train, holdout = population(1000, rng), population(250, rng)
        found = kept_of(tables_of(train, holdout, make(train, rng), tables.schema, seed))
        assert isinstance(found, Estimate)
        return found

    return run


def test_it_is_the_slope_over_the_pairs_that_train_defines_and_an_undefined_one_counts_as_none() -> None:
    rng = np.random.default_rng(0)
    found = rng.normal(0.5, 0.01, size=(4, 47, 4, 4))
    found[0, :, 0, 1], found[1, :, 0, 2] = np.nan, np.nan
    places = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    train, other = (np.array([found[table, 0, a, b] for a, b in places]) for table in (0, 1))
    other[0] = 0.0
    found[3] *= 0.01
    estimate = association_kept(found, 100)
    assert isinstance(estimate, Estimate)
    assert estimate.value == pytest.approx((train @ other) / (train @ train))
    assert estimate.direction == "higher"


def test_a_correlation_that_changes_its_sign_counts_against_the_table() -> None:
    found = np.zeros((4, 47, 2, 2)) + np.array([0.6, -0.3, 0.6, 0.0])[:, None, None, None]
    estimate = association_kept(found, 100)
    assert isinstance(estimate, Estimate)
    assert (estimate.value, estimate.reference, estimate.floor) == pytest.approx((-0.5, 1.0, 0.0))


@pytest.mark.parametrize("seed", range(5))
def test_in_a_table_of_a_thousand_rows_shuffled_columns_fail_and_fresh_rows_pass(
    seed: int, offered: Callable[..., Estimate], population: Population
) -> None:
    shuffled, fresh = offered(seed, shuffle_columns), offered(seed, lambda train, rng: population(1000, rng))
    assert shuffled.high is not None
    assert fresh.low is not None
    assert shuffled.high < LIMIT < 0.6 < fresh.low


def test_half_of_the_association_scores_between_none_and_all(
    offered: Callable[..., Estimate], population: Population
) -> None:
    weak = offered(0, lambda train, rng: population(1000, rng, strength=0.7))
    assert weak.floor is not None
    assert weak.reference is not None
    assert weak.floor + 0.2 < weak.value < weak.reference - 0.2


def test_all_synthetic_rows_count_up_to_as_many_as_train_has(
    population: Population, tables_of: Callable[..., Tables], tables: Tables
) -> None:
    rng = np.random.default_rng(1)
    train, holdout = population(600, rng), population(120, rng)
    for n_rows, n in ((90, 90), (500, 500), (900, 600)):
        found = kept_of(tables_of(train, holdout, population(n_rows, rng), tables.schema))
        assert isinstance(found, Estimate)
        assert found.n == n


def test_where_real_columns_are_independent_it_is_skipped(tables: Tables) -> None:
    rows = tables.shuffled.sample(frac=1.0, random_state=0).reset_index(drop=True)
    found = kept_of(replace(tables, train=tables.shuffled, fresh=rows.head(200), control=rows.tail(200)))
    assert isinstance(found, Failure)
    assert "nearly independent" in found.message


def test_constant_training_columns_and_a_handful_of_rows_are_skipped(tables: Tables) -> None:
    found = kept_of(replace(tables, synthetic=tables.synthetic.head(15)))
    assert isinstance(found, Failure)
    assert "too few rows" in found.message
    nothing = association_kept(np.full((4, 47, 3, 3), np.nan), 100)
    assert isinstance(nothing, Failure)
    assert "hang together" in nothing.message
