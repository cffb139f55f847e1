"""Columns that give the target away: they are named, and models are compared without them."""

from dataclasses import replace

import numpy as np
import pytest

from evaluate.utility import models, study, task, tstr
from evaluate.utility.task import Task
from synth.schema import build_schema

from .conftest import schema_of, values

STATUS = {"kind": "categorical", "categories": ["open", "kept", "lost"]}


@pytest.fixture(scope="module", autouse=True)
def fewer_trees():
    """Boosting as it is, but quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.BOOSTING, "max_iter", 20)
        patch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})
        yield


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
    scores = task.scores_alone(built, Task.of(built, "y"))
    assert 0.7 < scores["x"] < task.LIMIT
    assert abs(scores["sex"] - 0.5) < 0.08
    numbered = replace(
        built, **{side: getattr(built, side).assign(hours=np.arange(600)) for side in ("train", "control")}
    )
    alone = task.scores_alone(numbered, Task.of(built, "y"))
    assert abs(alone["hours"] - 0.5) < 0.08
