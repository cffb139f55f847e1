"""A kind that a user chooses is taken, or refused in a sentence."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import SchemaError
from synth.infer import infer_schema
from synth.table import conform, violations

N = 60
DAYS = pd.date_range("2020-01-01", periods=N)
COLUMNS: dict[str, Any] = {
    "whole": np.arange(N) % 30,
    "half": np.arange(N) / 2,
    "flag": np.arange(N) % 2,
    "town": np.array(["Ulm", "Bonn", "Kiel"])[np.arange(N) % 3],
    "sick": np.array(["yes", "no"])[np.arange(N) % 2],
    "day": DAYS.strftime("%d.%m.%Y"),
    "eight": DAYS.strftime("%Y%m%d"),
    "time": (DAYS + pd.Timedelta(hours=5)).strftime("%Y-%m-%d %H:%M"),
    "nothing": [""] * N,
    "name": [f"client {i}" for i in range(N)],
}


def frame(name: str) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(list(map(str, COLUMNS[name])), dtype=object), "other": ["a", "b"] * (N // 2)})


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("whole", "categorical", {"categories": tuple(range(30)), "ordered": False}),
        ("whole", "real", {"decimals": 0, "bounds": (0.0, 29.0)}),
        ("whole", "weight", {"bounds": (0.0, 29.0)}),
        ("whole", "identifier", {"template": None}),
        ("flag", "integer", {"bounds": (0, 1)}),
        ("flag", "boolean", {"tokens": ("0", "1")}),
        ("flag", "categorical", {"categories": (0, 1), "ordered": True}),
        ("half", "categorical", {}),
        ("town", "categorical", {"categories": ("Bonn", "Kiel", "Ulm")}),
        ("town", "identifier", {"template": "#########"}),
        ("sick", "boolean", {"tokens": ("no", "yes")}),
        ("day", "categorical", {}),
        ("day", "datetime", {"format": "%d.%m.%Y", "precision": "h", "bounds": (DAYS[0], DAYS[-1])}),
        ("eight", "date", {"format": "%Y%m%d", "bounds": (dt.date(2020, 1, 1), dt.date(2020, 2, 29))}),
        ("eight", "integer", {"bounds": (20200101, 20200229)}),
        ("nothing", "categorical", {"categories": (), "missing": True}),
        ("name", "categorical", {}),
        ("name", "text", {"drop": True}),
    ],
)
def test_a_column_is_of_the_kind_that_was_chosen(name: str, kind: str, facts: dict[str, Any]) -> None:
    table = frame(name)
    schema = infer_schema(table, kinds={name: kind})
    column = schema.columns[name]
    assert column.kind == kind
    assert {key: getattr(column, key) for key in facts} == facts
    if not column.drop:
        conform(table, schema, part=True)
    if kind != "identifier":
        assert violations(table, schema) == []


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("town", "integer", "some of its texts are no numbers"),
        ("town", "real", "some of its texts are no numbers"),
        ("town", "boolean", "its texts are not two"),
        ("town", "date", "no days or times of one known form"),
        ("sick", "personal", "do not say what it holds"),
        ("half", "integer", "it holds fractions"),
        ("time", "date", "not all midnight"),
        ("nothing", "integer", "it holds no value"),
    ],
)
def test_a_column_that_cannot_be_of_a_kind_is_refused_in_a_sentence(name: str, kind: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"column='{name}' cannot be of kind='{kind}': .*{reason}") as refused:
        infer_schema(frame(name), kinds={name: kind})
    assert not any(text in str(refused.value) for text in ("Ulm", "Bonn"))


@pytest.mark.parametrize("kind", ["integer", "date", "boolean", "categorical"])
def test_typed_columns_are_refused_what_they_are_not(kind: str) -> None:
    table = pd.DataFrame({"x": np.arange(N) / 7, "y": np.arange(N)})
    with pytest.raises(SchemaError, match=f"column='x' cannot be of kind='{kind}'"):
        infer_schema(table, kinds={"x": kind})


def test_typed_columns_keep_their_dtype() -> None:
    table = pd.DataFrame({"x": (np.arange(N) % 30).astype("int16"), "y": DAYS, "z": [True, False] * (N // 2)})
    schema = infer_schema(table, kinds={"x": "categorical", "y": "datetime", "z": "boolean"})
    assert [schema.columns[name].dtype for name in "xyz"] == ["int16", str(DAYS.dtype), None]
    assert violations(table, schema) == []


def test_a_kind_or_a_column_that_there_is_not_names_the_nearest() -> None:
    with pytest.raises(SchemaError, match="did you mean 'integer'"):
        infer_schema(frame("whole"), kinds={"whole": "intege"})
    with pytest.raises(SchemaError, match="did you mean 'whole'"):
        infer_schema(frame("whole"), kinds={"whol": "integer"})
    with pytest.raises(SchemaError, match="entity='town' must be of kind identifier"):
        infer_schema(frame("town"), entity="town", kinds={"town": "categorical"})


def test_constraints_leave_the_kind_that_was_chosen() -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 20, 3_000)
    table = pd.DataFrame({"low": low, "high": low + rng.integers(0, 5, 3_000), "x": rng.random(3_000)})
    schema = infer_schema(table, constraints=True, kinds={"low": "categorical"})
    assert schema.columns["low"].kind == "categorical"
