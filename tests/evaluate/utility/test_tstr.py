"""Models of synthetic rows beside models of real ones: what they lose, and how wide that is."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.result import Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from evaluate.utility import models, study, tstr
from evaluate.utility.models import FORMS
from synth.schema import build_schema

from .conftest import population, schema_of


@pytest.fixture(scope="module", autouse=True)
def fewer_trees():
    """Boosting as it is, but quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.BOOSTING, "max_iter", 40)
        patch.setattr(study, "N_SPLITS", {"linear": (3, 3), "boosting": (2, 2)})
        yield


def gaps(tables: Tables) -> dict[str, Estimate]:
    """What either model loses."""
    return {form: tstr.gap_of(form, study.study_of(tables)) for form in FORMS}


def scores(tables: Tables) -> dict[str, Estimate]:
    return {estimate.measure: estimate for estimate in tstr.measure(tables).estimates}


@pytest.mark.statistical
@pytest.mark.parametrize(("target", "told"), [("y", 0.1), ("amount", 0.1), ("group", 0.03), ("sex", -1.0)])
def test_an_independent_sample_serves_as_well_as_the_training_table_and_noise_does_not(target, told, make):
    """Little tells a group, and nothing a sex."""
    tables = make(schema_of(target), n=500)
    result = scores(tables)
    for form, gap in gaps(tables).items():
        score = result[f"utility.tstr.{form}"]
        assert gap.value == pytest.approx(score.reference - score.value)
        assert gap.low <= 0.05 and gap.value < 0.15
        assert score.value > score.floor + told


def test_shuffled_columns_and_a_target_in_other_units_fall_behind(make):
    # With few rows to learn from, what another draw of them would change is in the interval: it reaches down to zero.
    for gap in gaps(make(synthetic=lambda train: shuffle_columns(train, np.random.default_rng(1)))).values():
        assert gap.value > 0.05
        assert gap.low <= gap.floor <= gap.high
    grams = gaps(make(schema_of("amount"), lambda train: train.assign(amount=train["amount"] * 1000)))
    assert all(gap.low > 0.3 for gap in grams.values())


def test_a_synthetic_table_that_lacks_a_class_is_scored_on_all_of_them(make):
    fewer = make(schema_of("group"), lambda train: train[train["group"] != "r"].reset_index(drop=True))
    score = scores(fewer)["utility.tstr.linear"]
    assert 0.5 < score.value < score.reference
    assert "lack a class" in score.note
    alone = scores(make(synthetic=lambda train: train.assign(y="no")))
    assert {alone[f"utility.tstr.{form}"].value for form in FORMS} == {0.5}


def test_the_training_table_as_synthetic_loses_nothing(make):
    for gap in gaps(make(synthetic=lambda train: train)).values():
        assert gap.value == gap.low == gap.high == 0


def test_the_reference_is_what_two_real_tables_of_one_count_differ_by(make):
    tables = make()
    short = replace(tables, fresh=tables.fresh.iloc[:120].reset_index(drop=True))
    result = study.study_of(short)
    assert len(result.sides["matched"].truth) == len(result.sides["fresh"].truth) < len(result.sides["trtr"].truth)
    drawn = [result.drawn("linear", side, result.score)[0] for side in ("matched", "fresh")]
    assert gaps(short)["linear"].reference == pytest.approx(drawn[0] - drawn[1])


def test_the_interval_holds_both_sources_of_chance():
    rng = np.random.default_rng(0)
    drawn = np.r_[0.0, rng.normal(0, 0.3, 4_000)]
    # Halves differ by what rows to learn from change: of a mean with variance v, half a difference squared is v.
    halves = np.repeat(rng.normal(0, 0.4, (4_000, 2, 1)) * np.sqrt(2), 101, axis=2)
    halves[:, 1] = -halves[:, 0]
    low, high = study.interval(drawn, halves)
    assert high == -low == pytest.approx(1.96 * np.hypot(0.3, 0.4 * np.sqrt(2)), rel=0.05)


def _simulated(name: str, n_replicates: int, spoil: float, make) -> np.ndarray:
    """Value and interval of a number over fresh draws of every table, shape (n_replicates, 3)."""
    result = []
    for seed in range(n_replicates):

        def spoiled(train: pd.DataFrame, seed: int = seed) -> pd.DataFrame:
            rng = np.random.default_rng([seed, 11])
            other = population(len(train), rng)[list(train.columns)]
            n_bad = int(spoil * len(other))
            bad = shuffle_columns(other.iloc[:n_bad].reset_index(drop=True), rng)
            return pd.concat([bad, other.iloc[n_bad:]], ignore_index=True)

        tables = make(None, spoiled, n=400, seed=seed)
        if name == tstr.GAP:  # models without the column that gives the target away
            columns = {**tables.schema.model_dump()["columns"], "told": {"kind": "boolean"}}
            schema = build_schema({**tables.schema.model_dump(), "columns": columns})
            frames = {side: getattr(tables, side) for side in ("train", "fresh", "control", "synthetic", "shuffled")}
            told = {side: frame.assign(told=frame["y"] == "yes") for side, frame in frames.items()}
            tables = replace(tables, schema=schema, declared=schema, **told)
        number = scores(tables)[name]
        result.append((number.value, number.low, number.high))
    return np.array(result)


@pytest.mark.slow  # a model for each replicate: the noise of few would hide what the documentation states
@pytest.mark.parametrize("spoil", [0.0, 0.4])
@pytest.mark.parametrize(
    ("name", "n_replicates"), [("utility.tstr.linear", 1_000), ("utility.tstr.boosting", 300), (tstr.GAP, 300)]
)
def test_the_intervals_of_scores_and_gaps_cover_what_they_say(name, n_replicates, spoil, make, monkeypatch):
    monkeypatch.setattr(study, "N_SPLITS", {"linear": (8, 8), "boosting": (4, 4)})
    rows = _simulated(name, n_replicates, spoil, make)
    covered = np.mean((rows[:, 1] <= rows[:, 0].mean()) & (rows[:, 0].mean() <= rows[:, 2]))
    # Somewhat wide near zero, where what rows to learn from change is next to nothing and cannot be told from it.
    least = 0.93 if n_replicates == 1_000 else 0.93 - 2.4 * np.sqrt(0.93 * 0.07 / n_replicates)
    assert least <= covered <= 0.995, covered
