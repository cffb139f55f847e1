"""How a target is predicted: by its kind, by how many values it has, or as it is asked for."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.dp_release import predicts
from evaluate.options import MeasureOptions
from evaluate.tables import Tables
from evaluate.utility import study, tstr
from evaluate.utility.study import Task, public_task, public_values
from synth.schema import build_schema
from synth.schema.kinds import IntegerColumn, RealColumn
from tests.evaluations import stated

from .conftest import COLUMNS, population


@pytest.fixture(autouse=True)
def linear_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is predicted is the same for every model: one is enough."""
    monkeypatch.setattr(tstr, "FORMS", ("linear",))
    monkeypatch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})


INTEGER = {"kind": "integer", "bounds": [0, 1]}


def tables(column: dict[str, Any], y: Any, **roles: Any) -> Tables:
    """Tables with a target made from the usual one, "no" and "yes"."""
    columns = {**COLUMNS, "y": column}
    schema = build_schema({"status": "declared", "n_units": 2_000, "columns": columns, "target": "y", **roles})
    frame = population(2_000, np.random.default_rng(4))
    frame["y"] = y(frame)
    train, fresh, control, other = (
        frame.iloc[i * 500 : (i + 1) * 500][list(schema.kept)].reset_index(drop=True) for i in range(4)
    )
    shuffled = train.assign(y=train["y"].sample(frac=1, random_state=0).to_numpy()).astype({"y": train["y"].dtype})
    claim = stated(epsilon=10.0, delta=1e-5, n_units=500)
    return Tables(schema, schema, train, fresh, control, shuffled, 0, synthetic=other, claim=claim)


def coded(frame: pd.DataFrame) -> Any:
    return pd.array((frame["y"] == "yes").astype(int), dtype="Int64")


def estimates(result: Any) -> dict[str, Any]:
    return {each.measure: each for each in result.estimates}


def test_a_number_of_two_values_scores_as_the_same_categories_do() -> None:
    categories = {"kind": "categorical", "categories": [0, 1]}
    numbers, same = (tstr.measure(tables(column, coded)) for column in (INTEGER, categories))
    assert {n: e.value for n, e in estimates(numbers).items()} == {n: e.value for n, e in estimates(same).items()}
    assert numbers.figures["utility"]["task"] == "classification"
    assert "its bounds hold two values" in estimates(numbers)["utility.tstr.linear"].note


@pytest.mark.parametrize(
    ("column", "y", "kind", "why"),
    [
        ({"kind": "integer", "bounds": [0, 9]}, coded, "classification", "real rows hold two values"),
        ({"kind": "real", "bounds": [0, 9]}, lambda f: coded(f).astype(float) + 0.5, "classification", "two values"),
        ({"kind": "integer", "bounds": [0, 80]}, lambda f: f["hours"] // 20, "regression", "more than two values"),
        ({"kind": "weight", "bounds": [0, 1]}, lambda f: coded(f).astype(float), "regression", "of kind weight"),
    ],
)
def test_the_number_of_values_decides_how_a_number_is_predicted(column: Any, y: Any, kind: str, why: str) -> None:
    built = tables(column, y)
    task = Task.of(built, "y")
    assert task.kind == kind
    assert why in task.why


def test_the_declared_schema_alone_says_whether_an_accuracy_is_published() -> None:
    """Were it the rows, whether a number takes two values would be published without being paid for."""
    wide = {"kind": "integer", "bounds": [0, 9]}
    built = tables(wide, coded)
    assert Task.of(built, "y").kind == "classification"
    assert public_task(built.schema, "y") is None and not predicts(built.schema)
    assert predicts(MeasureOptions(task="classification").aim(built.schema))
    assert predicts(tables(INTEGER, coded).schema)
    assert not predicts(tables(INTEGER, coded, task="regression").schema)


def test_public_values_are_those_that_bounds_and_precision_allow() -> None:
    assert public_values(IntegerColumn(bounds=(3, 5))) == [3, 4, 5]
    assert public_values(RealColumn(bounds=(0.1, 0.3), decimals=1)) == [0.1, 0.2, 0.3]
    assert public_values(RealColumn(bounds=(0, 1))) is None
    assert public_values(IntegerColumn(bounds=(0, 20))) is None
    assert public_values(IntegerColumn(bounds=(0, 1), measure=True)) is None
