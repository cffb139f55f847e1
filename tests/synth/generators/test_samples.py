"""Samples on condition, imputed cells, rows of entities, and personal data that is made up."""

import datetime as dt
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.declare import assertions
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.errors import JobError, SchemaError, TableError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.latent_class import LatentClass
from synth.generators.models.known_rows import UNFILLED, read_given
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.models.model import Model
from synth.generators.models.postprocess import group_rows
from synth.marginals import LatentClasses, sample_classes
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml
from synth.table import conform, violations

QUICK: dict[str, dict[str, Any]] = {"latent_class": {"n_classes": 50, "rounds": 1}}
JOBS = ["clerk", "farmer", "nurse", "poet"]
PEOPLE: dict[str, Any] = {
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
    return build_schema(PEOPLE)


@pytest.fixture(scope="module")
def people(small: Schema) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 4000
    age = rng.integers(20, 40, n)
    # Only those below 25 write poems, and a job is missing above 30 alone.
    job = np.where(age < 25, rng.choice(["poet", "clerk"], n), rng.choice(["clerk", "farmer", "nurse"], n))
    job = pd.Series(job, dtype=object).mask((age >= 30) & (rng.random(n) < 0.2), None)
    names = [f"P-{i:04d}" for i in range(n)]
    return conform(pd.DataFrame({"id": names, "age": age, "job": job, "net": age * 2}), small)


@pytest.fixture(scope="module", params=["mst", "latent_class"])
def conditioned(request: pytest.FixtureRequest, people: pd.DataFrame, small: Schema) -> MarginalModel:
    fitted = registry.generator(request.param, **QUICK.get(request.param, {})).fit(people, small, seed=0)
    assert isinstance(fitted, MarginalModel)
    return fitted


@pytest.mark.parametrize("age", [37, "37", 37.0, np.int64(37)])
def test_every_row_holds_the_value_and_the_others_follow_it(conditioned, people, small, age) -> None:
    synthetic = conditioned.sample(3000, seed=1, given={"age": age})
    assert synthetic["age"].dtype == np.int64
    assert set(synthetic["age"]) == {37}
    assert set(synthetic["net"]) == {74}
    assert violations(synthetic, small) == []
    real = people.loc[people["age"] >= 35, "job"].value_counts(normalize=True, dropna=False)
    made = synthetic["job"].value_counts(normalize=True, dropna=False).reindex(real.index)
    # The model knows the jobs of 35 to 39 together, of about 1000 rows: within 5 standard errors of these.
    assert (np.abs(real - made) < 5 * np.sqrt(0.25 / 1000)).all()


@pytest.mark.parametrize("missing", [None, "?", "", np.nan, pd.NA])
def test_a_missing_value_is_a_condition_too(conditioned, small, missing) -> None:
    synthetic = conditioned.sample(500, seed=1, given={"job": missing})
    assert synthetic["job"].isna().all()
    assert (synthetic["age"] >= 30).mean() > 0.97


def test_conditions_hold_together(conditioned) -> None:
    synthetic = conditioned.sample(50, seed=1, given={"job": "farmer", "age": 26})
    assert set(synthetic["job"]) == {"farmer"}
    assert set(synthetic["age"]) == {26}
    assert synthetic["id"].is_unique


def test_conditions_leave_the_model_as_it_was_and_none_is_as_not_asked(conditioned) -> None:
    before = conditioned.sample(100, seed=3)
    conditioned.sample(100, seed=3, given={"job": "poet"})
    pd.testing.assert_frame_equal(conditioned.sample(100, seed=3, given={}), before)


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
        read_given(given, small)


@pytest.mark.parametrize("name", ["independent", "mst", "latent_class"])
def test_a_condition_against_the_constraints_is_refused(name: str) -> None:
    columns = {"low": {"kind": "integer", "bounds": [0, 9]}, "high": {"kind": "integer", "bounds": [0, 9]}}
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


def with_holes(frame: pd.DataFrame, share: float, seed: int = 0) -> pd.DataFrame:
    """The table with so many cells of each column missing at random."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: frame[name].mask(rng.random(len(frame)) < share) for name in frame})


@pytest.fixture(scope="module")
def imputer(frame: pd.DataFrame, schema: Schema) -> MarginalModel:
    return LatentClass(n_classes=100).fit(frame, schema)


def test_every_kind_is_filled_in_and_known_cells_stay(
    imputer: MarginalModel, frame: pd.DataFrame, schema: Schema
) -> None:
    holes = with_holes(frame, 0.3)
    holes.index = pd.Index(range(1000, 1400))
    before = holes.copy(deep=True)
    filled = imputer.impute(holes, seed=1)
    pd.testing.assert_frame_equal(holes, before)
    assert filled.index.equals(holes.index)
    assert list(filled.columns) == list(frame.columns)
    learned = [name for name in frame if name != "id"]
    assert not filled[learned].isna().to_numpy().any()
    assert filled.attrs[UNFILLED] == 0
    for name in frame:
        known = holes[name].notna()
        assert filled.loc[known, name].tolist() == holes.loc[known, name].tolist(), name
        assert filled[name].dtype == frame[name].dtype, name
    # Nobody learns an identifier.
    assert filled["id"].isna().equals(holes["id"].isna())
    assert violations(filled.assign(id=frame["id"].to_numpy()), schema) == []


def test_the_same_seed_fills_in_the_same_cells_and_another_others(imputer: MarginalModel, frame: pd.DataFrame) -> None:
    holes = with_holes(frame, 0.3)
    one, same, other = (imputer.impute(holes, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)


def test_codes_are_drawn_from_the_posterior() -> None:
    """Chances by brute force, over all combinations of three attributes; counts within 5 standard errors."""
    rng = np.random.default_rng(3)
    domain = {"a": 3, "b": 2, "c": 4}
    tables = [rng.dirichlet(np.ones(size), 5).T for size in domain.values()]
    model = LatentClasses(domain, rng.dirichlet(np.ones(5)), tables, 1.0)
    joint, n = model.marginal(("a", "b", "c")), 20_000
    drawn = sample_classes(model, n, rng, {"b": np.arange(n, dtype=np.int32) % 2})
    for known in (0, 1):
        rows = drawn[drawn[:, 1] == known]
        assert len(rows) == n / 2
        counts = np.zeros((3, 4))
        np.add.at(counts, (rows[:, 0], rows[:, 2]), 1)
        expected = len(rows) * joint[:, known] / joint[:, known].sum()
        assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_a_row_that_no_class_can_have_is_filled_in_by_the_shares_of_all() -> None:
    tables = [np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[0.9, 0.1], [0.1, 0.9]])]
    model = LatentClasses({"a": 2, "b": 2}, np.array([0.5, 0.5]), tables, 1.0)
    drawn = sample_classes(model, 4000, np.random.default_rng(0), {"a": np.ones(4000, dtype=np.int32)})
    assert abs(drawn[:, 1].mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


def parity(n_rows: int) -> tuple[pd.DataFrame, Schema]:
    """Three columns, any two of which tell the third, and no one another."""
    a, b = np.random.default_rng(5).integers(0, 2, (2, n_rows))
    names = np.array(["x", "y"], dtype=object)
    frame = pd.DataFrame({"a": names[a], "b": names[b], "c": names[a ^ b]})
    columns = {name: {"kind": "categorical", "categories": ["x", "y"]} for name in frame}
    return frame, build_schema({"status": "declared", "n_units": n_rows, "columns": columns})


def test_all_known_cells_bear_on_a_missing_one_and_a_private_model_does_as_well() -> None:
    frame, schema = parity(8000)
    a, b, c = ((frame[name] == "y").to_numpy() for name in "abc")
    assert ((a ^ b) == c).all()
    for epsilon in (None, 3.0):
        fitted = LatentClass(n_classes=50, rounds=4, epsilon=epsilon).fit(frame, schema)
        filled = fitted.impute(frame.assign(c=pd.Series([None] * 8000, dtype=object)), seed=0)
        assert ((filled["c"] == "y").to_numpy() == c).mean() > 0.9
        # Cells that are missing together are drawn together.
        both = fitted.impute(frame.assign(b=None, c=None), seed=0)
        x, y, z = ((both[name] == "y").to_numpy() for name in "abc")
        assert ((x ^ y) == z).mean() > 0.85
        assert 0.4 < (y == b).mean() < 0.6


def test_numbers_follow_the_known_ones() -> None:
    rng = np.random.default_rng(8)
    hidden = rng.normal(0, 1, 4000)
    frame = pd.DataFrame({name: hidden + 0.3 * rng.normal(0, 1, 4000) for name in "abc"}).clip(-4, 4)
    columns = {name: {"kind": "real", "bounds": [-4, 4]} for name in frame}
    schema = build_schema({"status": "declared", "n_units": 4000, "columns": columns})
    filled = LatentClass(n_classes=200).fit(frame, schema).impute(frame.assign(c=np.nan), seed=0)
    # A value drawn given the others is off by their noise and by its own: by .46 where all is linear.
    assert np.corrcoef(filled["c"], frame["c"])[0, 1] > 0.8
    assert abs(filled["c"].std() - frame["c"].std()) < 0.1


TOWNS: dict[str, Any] = {
    "status": "declared",
    "n_units": 3000,
    "columns": {
        "town": {"kind": "categorical", "categories": [f"{land}{i}" for land in "abc" for i in range(6)]},
        "land": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "level": {"kind": "categorical", "categories": ["low", "high"]},
        "rank": {"kind": "integer", "bounds": [1, 2]},
        "low": {"kind": "integer", "bounds": [0, 40]},
        "high": {"kind": "integer", "bounds": [0, 40]},
        "both": {"kind": "integer", "bounds": [0, 80]},
        "key": {"kind": "integer", "bounds": [0, 9999]},
        "free": {"kind": "boolean"},
    },
    "constraints": [
        {
            "kind": "fixed_combinations", "columns": ["town", "land"],
            "combinations": [[f"{land}{i}", land] for land in "abc" for i in range(6)],
        },
        {"kind": "fixed_combinations", "columns": ["level", "rank"], "combinations": [["low", 1], ["high", 2]]},
        {"kind": "inequality", "low": "low", "high": "high"},
        {"kind": "formula", "column": "both", "expression": "low + high"},
        {"kind": "unique", "columns": ["key"]},
    ],
}  # fmt: skip


def lawful() -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(2)
    land, low, rank = rng.integers(0, 3, 3000), rng.integers(0, 30, 3000), rng.integers(1, 3, 3000)
    letters = np.array(list("abc"), dtype=object)
    high = np.minimum(low + rng.integers(0, 8, 3000), 40)
    towns = np.array(TOWNS["columns"]["town"]["categories"], dtype=object)
    frame = pd.DataFrame(
        {
            "town": towns[land * 6 + rng.integers(0, 6, 3000)], "land": letters[land],
            "level": np.array(["low", "high"], dtype=object)[rank - 1], "rank": rank,
            "low": low, "high": high, "both": low + high, "key": rng.permutation(3000), "free": rng.random(3000) < 0.5,
        }
    )  # fmt: skip
    return frame, build_schema(TOWNS)


@pytest.fixture(scope="module")
def lawful_model() -> MarginalModel:
    return LatentClass(n_classes=100, epsilon=3.0).fit(*lawful())


def test_constraints_hold_where_they_can(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    holes = with_holes(frame, 0.25).assign(key=frame["key"])
    # Of a sum that is known a summand is left: no draw has to hit it.
    holes["both"] = holes["both"].mask(holes["low"].isna() | holes["high"].isna())
    filled = lawful_model.impute(holes, seed=0)
    assert filled.attrs[UNFILLED] == 0
    assert not filled.isna().to_numpy().any()
    assert (filled["town"].str[0] == filled["land"]).all()
    assert ((filled["level"] == "high") + 1 == filled["rank"]).all()
    assert (filled["low"] <= filled["high"]).all()
    assert (filled["low"] + filled["high"] == filled["both"]).all()
    assert violations(filled, lawful_model.schema) == []
    # The column that is computed tells the one that is modeled.
    told = holes["level"].isna() & holes["rank"].notna()
    assert told.any()
    assert (filled.loc[told, "level"] == frame.loc[told, "level"]).all()


def test_what_no_draw_fills_in_lawfully_stays_missing_and_is_counted(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    holes = frame.head(3).assign(low=[np.nan, 2.0, 3.0], high=[1.0, 1.0, 9.0], both=[80.0, 3.0, np.nan], free=None)
    filled = lawful_model.impute(holes, seed=0)
    assert filled["low"].isna().tolist() == [True, False, False]
    assert filled["both"].tolist()[1:] == [3, 12]
    # A cell that no constraint bears on is filled in all the same.
    assert filled["free"].notna().all()
    assert filled.attrs[UNFILLED] == 1


def test_cells_on_which_other_rows_bear_stay_missing(lawful_model: MarginalModel) -> None:
    frame, _ = lawful()
    filled = lawful_model.impute(frame.head(50).assign(key=np.nan), seed=0)
    assert filled["key"].isna().all()
    assert filled.attrs[UNFILLED] == 0


def test_more_rows_than_are_in_memory_at_a_time_and_none(
    lawful_model: MarginalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = lawful()
    monkeypatch.setattr("synth.generators.models.known_rows.ROWS_AT_ONCE", 70)
    filled = lawful_model.impute(frame.head(200).assign(land=None), seed=0)
    assert filled["land"].tolist() == frame["land"].head(200).tolist()
    assert len(lawful_model.impute(frame.head(0), seed=0)) == 0


def test_rows_of_another_table_are_refused(frame: pd.DataFrame, imputer: MarginalModel) -> None:
    with pytest.raises(TableError, match="age"):
        imputer.impute(frame.assign(age=1000))


SHARES = np.array([0.4, 0.3, 0.0, 0.2, 0.1])
VISIT_COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "sex": {"kind": "boolean", "missing": True},
    "region": {"kind": "categorical", "categories": ["north", "south a", "south b"], "missing": True},
    "born": {"kind": "date", "bounds": ["1950-01-01", "1950-01-10"]},
    "visit": {"kind": "integer", "bounds": [0, 999]},
}


def content(**more: Any) -> dict[str, Any]:
    head = {"status": "declared", "n_units": 900, "entity": "who", "max_rows_per_unit": 5, "columns": VISIT_COLUMNS}
    return {**head, **more}


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(900), rng.choice(5, 900, p=SHARES) + 1)
    born = np.datetime64("1950-01-01") + rng.integers(0, 10, 900) * np.timedelta64(1, "D")
    return pd.DataFrame(
        {
            "who": who,
            "sex": pd.array(rng.choice([True, False, None], 900), dtype="boolean")[who],
            "region": rng.choice(np.array([*VISIT_COLUMNS["region"]["categories"], None], dtype=object), 900)[who],
            "born": born[who].astype("datetime64[us]"),
            "visit": rng.integers(0, 1000, len(who)),
        }
    )


FITS: list[tuple[str, dict[str, Any]]] = [
    ("mst", {}), ("mst", {"epsilon": 1.0}), ("latent_class", {"epsilon": 1.0, "n_classes": 50}),
    ("sdv.gaussian_copula", {}),
]  # fmt: skip


@pytest.fixture(scope="module", params=FITS, ids=str)
def firm(request: pytest.FixtureRequest, visits: pd.DataFrame) -> Model:
    """A fit under a schema that holds columns constant."""
    name, parameters = request.param
    if name.startswith("sdv"):
        pytest.importorskip("sdv")
    generator = registry.generator(name, **parameters)
    return generator.fit(visits, build_schema(content(constant_in_entity=["region", "born", "sex"])), seed=0)


def test_rows_of_an_entity_hold_the_same_values_in_what_is_constant(firm: Model) -> None:
    synthetic = firm.sample(3000, seed=1)
    entities = synthetic.groupby("who")[["region", "born", "sex"]]
    assert (entities.agg(lambda values: len(set(values.map(repr)))) == 1).all(axis=None)
    assert entities.size().max() <= 5
    assert synthetic.groupby("who")["visit"].nunique().max() > 1


def test_the_rows_are_those_that_were_drawn(visits: pd.DataFrame) -> None:
    """Of the same generator, seed and draw, in another order: the distribution of rows cannot differ."""
    fits = [
        registry.generator("mst").fit(visits, build_schema(content(constant_in_entity=constant)), seed=0)
        for constant in ([], ["region", "sex"])
    ]
    one, other = (fit.sample(2000, seed=4).drop(columns="who") for fit in fits)
    assert one.dtypes.equals(other.dtypes)
    # As texts, so that missing values have a place in the order.
    assert sorted(map(repr, one.to_numpy().tolist())) == sorted(map(repr, other.to_numpy().tolist()))


def sizes(owner: np.ndarray) -> np.ndarray:
    """Share of entities with 1, 2, ..., 5 rows."""
    of_each = np.bincount(np.bincount(owner), minlength=6)[1:]
    return of_each / of_each.sum()


@pytest.mark.parametrize("n_groups", [1, 30, 600])
def test_sizes_of_entities_keep_their_shares(n_groups: int) -> None:
    """Within 5 standard errors and 2 points of the shares, down to groups of about ten rows."""
    rng = np.random.default_rng(1)
    constant = pd.DataFrame({"a": rng.integers(0, n_groups, 6000)})
    order, owner = group_rows(constant, SHARES, rng)
    assert sorted(order) == list(range(6000))
    values = constant["a"].take(order).reset_index(drop=True)
    assert (values == values.groupby(owner).transform("first")).all()
    n_entities = owner.max() + 1
    assert (np.abs(sizes(owner) - SHARES) < 5 * np.sqrt(SHARES * (1 - SHARES) / n_entities) + 0.02).all()


def test_where_nothing_is_shared_every_entity_has_one_row() -> None:
    order, owner = group_rows(pd.DataFrame({"a": np.arange(500)}), SHARES, np.random.default_rng(0))
    assert sorted(owner) == sorted(order) == list(range(500))


def test_the_order_of_entities_tells_nothing() -> None:
    """Runs test on which half of the groups an entity is of: within 5 standard errors of half the neighbors."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 40, 8000)
    order, owner = group_rows(pd.DataFrame({"a": values}), SHARES, rng)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    large = values[order][starts] >= 20
    changes = (large[1:] != large[:-1]).mean()
    expected = 2 * large.mean() * (1 - large.mean())
    assert abs(changes - expected) < 5 * 0.5 / np.sqrt(len(large))
    assert (np.diff(owner) >= 0).all()


def test_entities_are_the_same_under_the_same_seed(firm: Model) -> None:
    pd.testing.assert_frame_equal(firm.sample(300, seed=5), firm.sample(300, seed=5))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"constant_in_entity": ["regoin"]}, "constant_in_entity='regoin' is not a column; did you mean 'region'"),
        ({"constant_in_entity": ["who"]}, "constant_in_entity='who' is an identifier or text"),
        ({"constant_in_entity": ["sex"], "entity": None, "max_rows_per_unit": 1}, "constant_in_entity needs an entity"),
    ],
)
def test_what_cannot_be_constant_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        build_schema(content(**more))


def test_what_is_constant_is_asserted_and_written() -> None:
    schema: Schema = build_schema(content(constant_in_entity=["sex"]))
    assert any("same value in constant_in_entity=['sex']" in text for name, text in assertions(schema))
    assert 'constant_in_entity = ["sex"]' in to_toml(schema)
    assert "constant_in_entity" not in to_toml(build_schema(content()))


SECRET = "Zebulon Quackenbush"
ABOUT_WHOM: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P-#####"},
    "name": {"kind": "personal", "personal": "name", "locale": "de_DE"},
    "mail": {"kind": "personal", "personal": "email", "unique": True, "missing": True, "missing_share": 0.2},
    "card": {"kind": "personal", "personal": "card_number", "dtype": "int64"},
    "note": {"kind": "personal", "personal": "text", "length": 40, "missing": True},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
    "age": {"kind": "integer", "bounds": [0, 99], "bins": [0, 20, 40, 60, 80, 99]},
}
SCHEMA = build_schema(
    {
        "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
        "constant_in_entity": ["name", "sex"], "columns": ABOUT_WHOM,
    }
)  # fmt: skip


def rows(seed: int) -> pd.DataFrame:
    """The same learned columns for every seed; of personal data, other values, lengths and gaps."""
    same, other = np.random.default_rng(0), np.random.default_rng(seed)
    n = 600
    return pd.DataFrame(
        {
            "who": [f"P-{i // 2:05d}" for i in range(n)],
            "name": [f"{SECRET} {'x' * int(k)}" for k in other.integers(30, size=n)],
            "mail": np.where(other.random(n) < 0.1 * seed, None, f"{SECRET}@{seed}").astype(object),
            "card": other.integers(10**15, size=n),
            "note": pd.Series([None] * n, dtype=object) if seed == 1 else [f"{SECRET} said {i}" for i in range(n)],
            "sex": same.choice(["f", "m"], n // 2).repeat(2),
            "age": same.integers(100, size=n),
        }
    )


def fitted(table: pd.DataFrame, epsilon: float | None, name: str = "mst") -> Model:
    generator = registry.generator(name, epsilon=epsilon)
    if epsilon is None:
        return generator.fit(table, SCHEMA, seed=0)
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(SCHEMA)
    assert schedule is not None
    return generator.fit(table, SCHEMA, budget=Budget(schedule, InjectedNoise(np.random.default_rng(0))))


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_tables_that_differ_in_personal_data_alone_give_one_model_and_one_output(epsilon: float | None) -> None:
    models = [
        fitted(rows(seed).dropna(how="all", axis=1).reindex(columns=list(ABOUT_WHOM)), epsilon) for seed in (2, 3)
    ]
    said, arrays = zip(*(model.distribution.to_arrays() for model in models), strict=True)  # type: ignore[attr-defined]
    assert said[0] == said[1]
    assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
    plain = [json.dumps(model.discretizer.to_plain(), default=str) for model in models]  # type: ignore[attr-defined]
    assert plain[0] == plain[1]
    one, other = (model.sample(200, seed=5) for model in models)
    pd.testing.assert_frame_equal(one, other)


def test_a_private_fit_takes_a_personal_column_with_nothing_in_it() -> None:
    one, other = (fitted(rows(seed), 1.0).sample(100, seed=0) for seed in (1, 2))
    pd.testing.assert_frame_equal(one, other)


def test_a_saved_model_holds_nothing_of_them(tmp_path: Path) -> None:
    model = registry.generator("mst", epsilon=1.0).fit(rows(2), SCHEMA)
    model.save(tmp_path / "model")
    written = b"".join(path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file())
    assert SECRET.split()[1].encode() not in written
    loaded = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1), model.sample(50, seed=1))


@pytest.fixture(scope="module", params=["independent", pytest.param("sdv.gaussian_copula", marks=pytest.mark.slow)])
def sample(request: pytest.FixtureRequest) -> pd.DataFrame:
    if request.param.startswith("sdv"):
        pytest.importorskip("sdv")
    return registry.generator(request.param).fit(rows(2), SCHEMA, seed=0).sample(400, seed=1)


def test_columns_come_in_order_in_their_form_and_new(sample: pd.DataFrame) -> None:
    assert list(sample.columns) == list(ABOUT_WHOM)
    assert violations(sample, SCHEMA) == []
    assert sample["card"].dtype == np.int64
    assert sample["mail"].dropna().is_unique
    assert 0.1 < sample["mail"].isna().mean() < 0.3
    assert sample["note"].notna().all()
    assert not sample.astype(str).apply(lambda column: column.str.contains("Quackenbush")).any(axis=None)


def test_an_entity_has_one_name_in_all_its_rows_and_a_mail_in_each(sample: pd.DataFrame) -> None:
    entities = sample.groupby("who")
    assert entities.ngroups < len(sample)
    for name in ("name", "sex"):
        assert len(sample[["who", name]].drop_duplicates()) == entities.ngroups
    assert sample["name"].nunique() > 0.9 * entities.ngroups


def test_names_alone_may_be_constant_in_an_entity() -> None:
    schema = Schema.model_validate({**dict(SCHEMA), "constant_in_entity": ("name",)})
    synthetic = registry.generator("independent").fit(rows(2), schema, seed=0).sample(200, seed=1)
    assert len(synthetic[["who", "name"]].drop_duplicates()) == synthetic["who"].nunique()


def test_no_row_is_drawn_on_condition_of_personal_data() -> None:
    model = registry.generator("independent").fit(rows(2), SCHEMA, seed=0)
    with pytest.raises(JobError, match="given='mail' is of kind personal, which no model learns"):
        model.sample(5, given={"mail": "a@example.org"})
