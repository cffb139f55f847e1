"""Synthetic histories: transitions, ends, gaps and growth as in the table, and no entity a copy."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from benchmarks.history_tables import STATES, TRANSITIONS, patients, patients_schema
from synth.generators import registry
from synth.generators.base import cautions, fit_model
from synth.generators.models.fitted import MarginalModel
from synth.row_order import Histories, histories_of
from synth.table import conform, violations
from understudy.extras.histories.model import HistoryModel

N = 2_000
FITS: dict[str, dict[str, Any]] = {"trees": {"rounds": 80}, "aim": {"epsilon": 50.0, "rounds": 9, "n_draws": 5_000}}


@cache
def model(name: str) -> HistoryModel:
    fitted = fit_model(registry.generator(name, **FITS[name]), patients(N), patients_schema(), seed=1)
    assert isinstance(fitted, HistoryModel)
    return fitted


@cache
def drawn(name: str) -> tuple[pd.DataFrame, Histories]:
    table = conform(model(name).sample(8_000, seed=3), patients_schema())
    return table, histories_of(table, patients_schema())


@cache
def real() -> tuple[pd.DataFrame, Histories]:
    table = conform(patients(N), patients_schema())
    return table, histories_of(table, patients_schema())


def transitions(table: pd.DataFrame, histories: Histories) -> np.ndarray:
    now, before = histories.pairs
    states = pd.Categorical(table["state"], categories=STATES).codes.astype(int)
    return np.bincount(4 * states[before] + states[now], minlength=16).reshape(4, 4)


def lag(table: pd.DataFrame, histories: Histories, name: str) -> float:
    now, before = histories.pairs
    values = table[name].to_numpy(dtype=float)
    return float(np.corrcoef(values[now], values[before])[0, 1])


@pytest.mark.parametrize("name", FITS)
def test_transitions_are_those_of_the_chain(name: str) -> None:
    counts = transitions(*drawn(name))
    alive = counts[1:] / counts[1:].sum(axis=1, keepdims=True)
    assert np.abs(alive - TRANSITIONS[1:]).max() < (0.05 if name == "trees" else 0.08)
    # Drawn independently, a state would say nothing of the next.
    shares = counts.sum(axis=0) / counts.sum()
    assert np.abs(alive - shares).max() > 0.3


def test_the_dead_do_not_come_back() -> None:
    assert transitions(*drawn("trees"))[0].sum() == 0


@pytest.mark.parametrize("name", FITS)
def test_histories_are_as_long_as_in_the_table(name: str) -> None:
    longest = 8 if name == "aim" else 60
    lengths = [np.minimum(each[1].lengths, longest) for each in (real(), drawn(name))]
    shares = [np.bincount(each, minlength=longest + 1) / len(each) for each in lengths]
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05


@pytest.mark.parametrize("name", FITS)
def test_numbers_go_along_and_gaps_follow_the_state(name: str) -> None:
    expected, own = lag(*real(), "value"), lag(*drawn(name), "value")
    assert own > (0.85 if name == "trees" else 0.5) * expected
    table, histories = drawn(name)
    now, before = histories.pairs
    days = table["day"].to_numpy().astype("datetime64[D]").astype(int)
    gaps = pd.Series(days[now] - days[before]).groupby(table["state"].to_numpy()[before]).median()
    assert (days[now] > days[before]).all()  # a patient has one row a day
    assert gaps["ward"] < 0.5 * gaps["well"]


@pytest.mark.parametrize("name", FITS)
def test_what_is_said_of_an_entity_holds(name: str) -> None:
    table, histories = drawn(name)
    now, before = histories.pairs
    assert violations(table, patients_schema()) == []
    assert (table["sex"].to_numpy()[now] == table["sex"].to_numpy()[before]).all()
    for column in ("age", "visit"):
        values = table[column].to_numpy(dtype=int)
        assert (values[now] >= values[before]).all()
    visits = table["visit"].to_numpy(dtype=int)
    assert (visits[now] == visits[before] + 1).mean() > 0.97
    # Rows of an entity stand side by side, in their order.
    shown = model(name).sample(500, seed=1)
    assert shown.groupby((shown["who"] != shown["who"].shift()).cumsum())["who"].first().is_unique
    assert shown.groupby("who")["day"].apply(lambda days: days.is_monotonic_increasing).all()


@pytest.mark.parametrize("name", FITS)
def test_a_saved_model_draws_the_same(name: str, tmp_path: Path) -> None:
    model(name).save(tmp_path / "model")
    again = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(again.sample(300, seed=5), model(name).sample(300, seed=5))
    assert again.statement == model(name).statement
    assert (again.statement is None) == (name == "trees")


def test_a_budget_that_tells_no_pairs_draws_rows_independently_and_says_so() -> None:
    schema = patients_schema(n_units=400)
    generator = registry.generator("aim", epsilon=0.05)
    assert "raise epsilon" in cautions(generator, schema)[0]
    with pytest.warns(UserWarning, match="noise would hide how they follow each other"):
        fitted = synth.fit(patients(400), schema, "aim", epsilon=0.05)
    assert isinstance(fitted, MarginalModel)
