"""Models of synthetic rows beside models of real ones, and columns that give the target away."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.result import Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from evaluate.utility import models, study, tstr
from evaluate.utility.models import FORMS
from evaluate.utility.study import Task
from synth.schema import build_schema

from .conftest import population, schema_of, values


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


@pytest.mark.slow  # a model for each replicate: the noise of few would hide what the documentation states
@pytest.mark.parametrize("spoil", [0.0, 0.4])
def test_the_intervals_of_scores_and_gaps_cover_what_they_say(spoil, make, monkeypatch):
    monkeypatch.setattr(study, "N_SPLITS", {"linear": (8, 8), "boosting": (4, 4)})
    rows, n_replicates = {"utility.tstr.linear": [], "utility.tstr.boosting": [], tstr.GAP: []}, 300
    for seed in range(n_replicates):
        rng = np.random.default_rng([seed, 11])

        def spoiled(train: pd.DataFrame, rng: np.random.Generator = rng) -> pd.DataFrame:
            other = population(len(train), rng)[list(train.columns)]
            bad = shuffle_columns(other.iloc[: int(spoil * len(other))].reset_index(drop=True), rng)
            return pd.concat([bad, other.iloc[len(bad) :]], ignore_index=True)

        result = scores(make(None, spoiled, n=400, seed=seed))
        for name, intervals in rows.items():
            intervals.append((result[name].low, result[name].value, result[name].high))
    for name, intervals in rows.items():
        low, value, high = np.array(intervals).T
        covered = np.mean((low <= value.mean()) & (value.mean() <= high))
        # Somewhat wide near zero, where what rows to learn from change is next to nothing and cannot be told from it.
        assert 0.93 - 2.4 * np.sqrt(0.93 * 0.07 / n_replicates) <= covered <= 0.995, (name, covered)


STATUS = {"kind": "categorical", "categories": ["open", "kept", "lost"]}


def with_status(tables, target="y"):
    """The same tables with a column that tells the target, whatever else is shuffled."""
    schema = schema_of(target)
    column = STATUS if target == "y" else {"kind": "real", "bounds": [-100, 100]}
    schema = build_schema({**schema.model_dump(), "columns": {**schema.model_dump()["columns"], "status": column}})
    parts = {}
    for side in ("train", "fresh", "control", "synthetic", "shuffled"):
        frame = getattr(tables, side)
        told = (
            np.where(frame["y"] == "yes", "lost", np.where(frame["x"] > 0, "open", "kept")) if target == "y" else None
        )
        parts[side] = frame.assign(status=told.astype(object) if told is not None else 3 * frame["amount"] - 1)
    return replace(tables, schema=schema, declared=schema, **parts)


def destroyed(train):
    """The target's rows as they are, every other column in an order of its own."""
    rng = np.random.default_rng(5)
    return train.assign(
        **{n: train[n].sample(frac=1, random_state=int(rng.integers(99))).array for n in ("x", "group")}
    )


@pytest.mark.parametrize("target", ["y", "amount"])
def test_a_column_that_gives_the_target_away_is_named_and_the_loss_without_it_shows(make, target):
    built = with_status(make(schema_of(target), destroyed), target)
    measured = tstr.measure(built)
    result = {each.measure: each for each in measured.estimates}
    assert [each["column"] for each in measured.figures["utility"]["giveaways"]] == ["status"]
    for model in measured.figures["utility"]["models"]:
        assert abs(model["gap"]) < 0.05
    without = result[tstr.GAP]
    assert without.low > 0.1
    assert "without 'status', which gives the target away" in without.note
    assert [each["model"] for each in measured.figures["utility"]["without"]] == ["boosting"]


def test_where_no_column_does_the_models_are_the_same_and_cost_nothing(make):
    built = make()
    result = values(tstr.measure(built))
    whole = study.study_of(built)
    assert result[tstr.GAP, ()] == tstr.gap_of("boosting", whole).value
    assert study.study_without_giveaways(whole, built) is whole
    assert "without" not in tstr.measure(built).figures["utility"]


def test_a_strong_column_and_one_that_never_repeats_give_nothing_away(make):
    built = make()
    scores = study.scores_alone(built, Task.of(built, "y"))
    assert 0.7 < scores["x"] < study.LIMIT
    assert abs(scores["sex"] - 0.5) < 0.08
    numbered = replace(
        built, **{side: getattr(built, side).assign(hours=np.arange(600)) for side in ("train", "control")}
    )
    alone = study.scores_alone(numbered, Task.of(built, "y"))
    assert abs(alone["hours"] - 0.5) < 0.08
