"""Rows on condition: the value itself in its column, and in the others what the model holds of such rows."""

import datetime as dt
import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.errors import JobError
from synth.generators import registry
from synth.generators.models.conditions import Conditions
from synth.generators.models.marginal_model import MarginalModel
from synth.marginals import Factor, MarkovRandomField
from synth.schema import Schema, build_schema
from synth.table import conform, violations

QUICK: dict[str, dict[str, Any]] = {"latent_class": {"n_classes": 50, "rounds": 1}}
JOBS = ["clerk", "farmer", "nurse", "poet"]
CONTENT: dict[str, Any] = {
    "status": "declared",
    "n_units": 4000,
    "missing_values": ["", "?"],
    "columns": {
        "id": {"kind": "identifier", "template": "P-####"},
        "age": {"kind": "integer", "bounds": [20, 39], "bins": [20, 25, 30, 35, 40]},
        "job": {"kind": "categorical", "categories": JOBS, "missing": True},
        "net": {"kind": "integer", "bounds": [0, 100]},
        "note": {"kind": "text", "drop": True},
    },
    "constraints": [{"kind": "formula", "column": "net", "expression": "age * 2"}],
}


@pytest.fixture(scope="module")
def small() -> Schema:
    return build_schema(CONTENT)


@pytest.fixture(scope="module")
def table(small: Schema) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 4000
    age = rng.integers(20, 40, n)
    # Only those below 25 write poems, and a job is missing above 30 alone.
    job = np.where(age < 25, rng.choice(["poet", "clerk"], n), rng.choice(["clerk", "farmer", "nurse"], n))
    job = pd.Series(job, dtype=object).mask((age >= 30) & (rng.random(n) < 0.2), None)
    names = [f"P-{i:04d}" for i in range(n)]
    return conform(pd.DataFrame({"id": names, "age": age, "job": job, "net": age * 2}), small)


@pytest.fixture(scope="module", params=["mst", "latent_class"])
def model(request: pytest.FixtureRequest, table: pd.DataFrame, small: Schema) -> MarginalModel:
    fitted = registry.generator(request.param, **QUICK.get(request.param, {})).fit(table, small, seed=0)
    assert isinstance(fitted, MarginalModel)
    return fitted


def of(given: Mapping[str, Any], schema: Schema) -> Conditions:
    return Conditions.of(given, Discretizer.by_schema(schema), schema)


@pytest.mark.parametrize("age", [37, "37", 37.0, np.int64(37)])
def test_every_row_holds_the_value_and_the_others_follow_it(model, table, small, age) -> None:
    synthetic = model.sample(3000, seed=1, given={"age": age})
    assert synthetic["age"].dtype == np.int64
    assert set(synthetic["age"]) == {37}
    assert set(synthetic["net"]) == {74}
    assert violations(synthetic, small) == []
    real = table.loc[table["age"] >= 35, "job"].value_counts(normalize=True, dropna=False)
    made = synthetic["job"].value_counts(normalize=True, dropna=False).reindex(real.index)
    # The model knows the jobs of 35 to 39 together, of about 1000 rows: within 5 standard errors of these.
    assert (np.abs(real - made) < 5 * np.sqrt(0.25 / 1000)).all()


@pytest.mark.parametrize("missing", [None, "?", "", np.nan, pd.NA])
def test_a_missing_value_is_a_condition_too(model, small, missing) -> None:
    synthetic = model.sample(500, seed=1, given={"job": missing})
    assert synthetic["job"].isna().all()
    assert (synthetic["age"] >= 30).mean() > 0.97


def test_conditions_hold_together(model) -> None:
    synthetic = model.sample(50, seed=1, given={"job": "farmer", "age": 26})
    assert set(synthetic["job"]) == {"farmer"}
    assert set(synthetic["age"]) == {26}
    assert synthetic["id"].is_unique


def test_conditions_leave_the_model_as_it_was_and_none_is_as_not_asked(model) -> None:
    before = model.sample(100, seed=3)
    model.sample(100, seed=3, given={"job": "poet"})
    pd.testing.assert_frame_equal(model.sample(100, seed=3, given={}), before)


def test_a_rare_category_merged_into_other_is_given_by_its_name() -> None:
    content = {
        "status": "declared",
        "n_units": 2000,
        "columns": {
            "town": {"kind": "categorical", "categories": ["large", *[f"village {i}" for i in range(6)]]},
            "coast": {"kind": "boolean"},
        },
    }
    schema = build_schema(content)
    rng = np.random.default_rng(0)
    town = np.array(["large", *[f"village {i}" for i in range(6)]], dtype=object)[
        rng.choice(7, 2000, p=[0.94, *[0.01] * 6])
    ]
    frame = conform(pd.DataFrame({"town": town, "coast": town != "large"}), schema)
    fitted = registry.generator("mst").fit(frame, schema, seed=0)
    synthetic = fitted.sample(200, seed=0, given={"town": "village 3"})
    assert set(synthetic["town"]) == {"village 3"}
    assert synthetic["coast"].mean() > 0.9
    private = registry.generator("mst", epsilon=1.0).fit(frame, schema, seed=0)
    assert isinstance(private, MarginalModel)
    assert private.discretizer.sizes["town"] < 9, "the villages are rare enough to be merged"
    assert set(private.sample(60, seed=0, given={"town": "village 3"})["town"]) == {"village 3"}


def test_every_kind_takes_a_python_value_and_its_text(frame: pd.DataFrame, schema: Schema) -> None:
    fitted = registry.generator("independent").fit(frame, schema, seed=0)
    zone = dt.timezone(dt.timedelta(hours=1))
    both: dict[str, tuple[Any, str]] = {
        "age": (40, "40"),
        "gain": (12.25, "12.25"),
        "weight": (1.5, "1.5"),
        "job": ("NA", "NA"),
        "level": (7, "7"),
        "married": (True, "True"),
        "visited": (dt.date(2015, 5, 17), "2015-05-17"),
        "seen": (dt.datetime(2020, 2, 1, 12, 30, tzinfo=zone), "2020-02-01T12:30:00+01:00"),
    }
    for name, values in both.items():
        one, other = (fitted.sample(5, seed=0, given={name: value}) for value in values)
        pd.testing.assert_frame_equal(one, other)
        held = pd.Timestamp(values[0]) if name in ("visited", "seen") else values[0]
        assert (one[name] == held).all()
        if not schema.columns[name].missing:
            assert one[name].dtype == fitted.sample(5, seed=0)[name].dtype
        assert violations(one, schema) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"agge": 3}, "given='agge' is not a column; did you mean 'age'?"),
        ({"id": "P-0001"}, "given='id' is of kind identifier, which no model learns"),
        ({"note": "x"}, "given='note' is dropped"),
        ({"net": 50}, "given='net' is computed by a formula; give its operands: age"),
        ({"age": 19}, "given='age' must be of kind integer and within 20 and 39"),
        ({"age": "old"}, "given='age' must be of kind integer"),
        ({"age": 30.5}, "given='age' must be of kind integer"),
        ({"age": None}, "given='age' is never missing"),
        ({"job": "pilot"}, "given='job' must be one of its 4 categories \\('clerk', 'farmer', 'nurse', 'poet'\\)"),
        ({"job": ["clerk"]}, "given='job' must be one of its 4 categories"),
    ],
)
def test_a_condition_that_no_row_can_meet_is_refused_in_a_sentence(small, given, message) -> None:
    with pytest.raises(JobError, match=message):
        of(given, small)


def test_conditions_without_mass_under_the_model_are_refused(small, model) -> None:
    codes = {attribute.name: attribute for attribute in model.discretizer.attributes}
    shut = np.zeros((codes["age"].size, codes["job"].size))
    shut[:, 0] = -np.inf
    shut[0, 0] = 0.0  # clerks are 20 to 24
    distribution = MarkovRandomField(model.discretizer.sizes, (Factor(("age", "job"), shut),), 10.0)
    lawful = Conditions.of({"age": 22, "job": "clerk"}, model.discretizer, small)
    assert lawful.applied(distribution).marginal(("age",))[0] == pytest.approx(10.0)
    unlawful = Conditions.of({"age": 25, "job": "clerk"}, model.discretizer, small)
    with pytest.raises(JobError, match=r"no rows that meet what is given: columns=\['age', 'job'\]"):
        unlawful.applied(distribution)


@pytest.mark.parametrize("name", ["independent", "mst", "latent_class"])
def test_a_condition_against_the_constraints_is_refused(name: str) -> None:
    columns = {
        "low": {"kind": "integer", "bounds": [0, 9]},
        "high": {"kind": "integer", "bounds": [0, 9]},
    }
    constraint = {"kind": "inequality", "low": "low", "high": "high"}
    schema = build_schema({"status": "declared", "columns": columns, "constraints": [constraint]})
    ends = np.sort(np.random.default_rng(0).integers(0, 10, (500, 2)), axis=1)
    frame = pd.DataFrame(ends, columns=["low", "high"])
    fitted = registry.generator(name, **QUICK.get(name, {})).fit(frame, schema)
    assert (fitted.sample(100, seed=0, given={"high": 4})["low"] <= 4).all()
    with pytest.raises(JobError, match="no rows that meet what is given"):
        fitted.sample(5, seed=0, given={"low": 7, "high": 4})


@pytest.mark.skipif(importlib.util.find_spec("sdv") is None, reason="the extra sdv is not installed")
def test_sdv_refuses_conditions(frame: pd.DataFrame, schema: Schema) -> None:
    fitted = registry.generator("sdv.gaussian_copula").fit(frame, schema, seed=0)
    with pytest.raises(JobError, match=r"without conditions only: given=\['age'\]"):
        fitted.sample(5, seed=0, given={"age": 40})
    assert len(fitted.sample(5, seed=0, given={})) == 5
