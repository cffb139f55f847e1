"""Columns that are modeled as what is left of a formula: exact in every row, by every generator, and free of charge."""

import json
import math
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

import synth
from synth.declare import assertions
from synth.domain import Discretizer
from synth.domain.relations import from_counted, has_no_day, to_counted
from synth.dp.budget import Budget
from synth.errors import BudgetError, JobError, SchemaError, TableError
from synth.generators import registry
from synth.generators.base import compose, fit_model
from synth.generators.fitting.training_data import TrainingTable, counted_source
from synth.generators.models.constraints import completed
from synth.row_order import broken_in
from synth.schema import Schema, build_schema
from synth.schema_file import schema_json, schema_of, to_toml
from synth.table import Table, conform
from synth.validation import GivenFile
from tests.synth.generators.test_contract import fitted

N, DAYS, WEEK = 400, ["2020-01-01", "2022-12-31"], pd.Timedelta(days=7)
LANGUAGES = {"de": 49, "fr": 33, "it": 39}
TARIFF = {"de": 10.0, "fr": 20.5, "it": 31.0}
COLUMNS: dict[str, dict[str, Any]] = {
    "admitted": {"kind": "date", "bounds": DAYS},
    "stay": {"kind": "integer", "bounds": [0, 30]},
    "discharged": {"kind": "date", "bounds": DAYS},
    "paid": {"kind": "date", "bounds": DAYS},
    "price": {"kind": "real", "bounds": [0, 300], "decimals": 2},
    "n": {"kind": "integer", "bounds": [1, 8]},
    "total": {"kind": "real", "bounds": [0, 2400], "decimals": 2, "missing": True},
    "gross": {"kind": "real", "bounds": [0, 400], "decimals": 2},
    "country": {"kind": "categorical", "categories": list(LANGUAGES)},
    "language": {"kind": "categorical", "categories": list(LANGUAGES.values()), "missing": True},
    "visit": {"kind": "datetime", "bounds": ["2020-12-28T00:00:00", "2022-01-02T00:00:00"], "precision": "min"},
    "low": {"kind": "integer", "bounds": [0, 1000], "missing": True},
    "high": {"kind": "integer", "bounds": [0, 1200]},
    "until": {"kind": "date", "bounds": DAYS, "above": ["9999-12-31"]},
    "part": {"kind": "integer", "bounds": [0, 2000], "missing": True},
    "fee": {"kind": "real", "bounds": [0, 100], "decimals": 2},
}
NONE_LEFT = {"kind": "real", "bounds": [0, 0], "decimals": 2, "missing": True}
MODELED: dict[str, dict[str, Any]] = {
    "discharged": {"expression": "admitted + stay", "unit": "day", "column": {"kind": "integer", "bounds": [0, 0]}},
    "paid": {"expression": "admitted", "unit": "day"},
    "total": {"expression": "price * n", "column": NONE_LEFT},
    "gross": {
        "expression": "price",
        "left": "ratio",
        "column": {"kind": "real", "bounds": [1, 1.5], "spikes": [1.1, 1.2]},
    },
    "language": {"by": "country", "usual": [list(pair) for pair in LANGUAGES.items()]},
    "visit": {"parts": True},
    "high": {"expression": "low", "alone": True},
    "until": {"expression": "admitted", "unit": "day", "parts": True},
    "part": {"expression": "high", "alone": True, "column": {"kind": "integer", "bounds": [0, 0]}},
    "fee": {
        "expression": "country + n",
        "numbers": {"country": [list(pair) for pair in TARIFF.items()]},
        "column": {"kind": "real", "bounds": [0, 0.5], "decimals": 2},
    },
}
LAWS = [
    {"kind": "inequality", "low": low, "high": high}
    for low, high in (("low", "high"), ("admitted", "paid"), ("admitted", "until"))
]


def modeled(only: tuple[str, ...] = tuple(MODELED), **more: Any) -> Schema:
    """The schema in which some columns are modeled."""
    columns = {
        name: {**column, "modeled": MODELED[name]} if name in only else column for name, column in COLUMNS.items()
    }
    return build_schema({"status": "declared", "n_units": N, "columns": columns, "constraints": LAWS, **more})


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    admitted = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"))
    stay, price, pieces = (
        rng.geometric(0.2, n).clip(0, 30),
        np.round(rng.gamma(3, 10, n), 2).clip(1, 300),
        rng.integers(1, 9, n),
    )
    country = pd.Series(rng.choice(list(LANGUAGES), n))
    minutes = pd.to_timedelta(rng.integers(480, 1080, n), "min")
    day = rng.integers(0, 50, n) * 7 + rng.choice(5, n) + 3  # from a Monday on
    usual = rng.random(n) > 0.1
    low = pd.Series(np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 1000, n)))
    high = (low.fillna(500) + rng.integers(0, 20, n)).astype("Int64")
    return pd.DataFrame(
        {
            "admitted": admitted,
            "stay": stay,
            "discharged": admitted + pd.to_timedelta(stay, "D"),
            "paid": admitted + pd.to_timedelta(rng.gamma(2, 5, n).round(), "D"),
            "price": price,
            "n": pieces,
            "total": np.where(rng.random(n) < 0.02, np.nan, np.round(price * pieces, 2)),
            "gross": np.round(price * np.where(rng.random(n) < 0.8, 1.2, 1.1), 2),
            "country": country,
            "language": country.map(LANGUAGES).astype("Int64").where(usual, 39).where(rng.random(n) > 0.05),
            "visit": pd.Timestamp("2021-01-01") + pd.to_timedelta(day, "D") + minutes,
            "low": low.astype("Int64"),
            "high": high,
            "until": (admitted + WEEK).dt.strftime("%Y-%m-%d").where(rng.random(n) < 0.7, "9999-12-31"),
            "part": high.where(rng.random(n) < 0.3, pd.Series(rng.integers(0, 2000, n))).where(rng.random(n) < 0.9),
            "fee": np.round(country.map(TARIFF) + pieces + rng.random(n) / 2, 2),
        }
    )  # fmt: skip


def moment(times: pd.Series) -> pd.Series:
    return pd.to_datetime(times)


RELATIONS: dict[str, Any] = {
    "discharged": lambda rows: (moment(rows["discharged"]) - moment(rows["admitted"])).dt.days == rows["stay"],
    "paid": lambda rows: moment(rows["paid"]) >= moment(rows["admitted"]),
    "total": lambda rows: rows["total"].isna() | np.isclose(rows["total"], rows["price"] * rows["n"], atol=0.0051),
    "gross": lambda rows: (rows["gross"] / rows["price"]).sub((rows["gross"] / rows["price"]).round(1)).abs() < 0.01,
    "language": lambda rows: (rows["language"] == rows["country"].map(LANGUAGES)).fillna(False),
    "visit": lambda rows: (moment(rows["visit"]).dt.weekday < 5) & moment(rows["visit"]).dt.hour.between(8, 17),
    "high": lambda rows: rows["low"].isna() | (rows["high"] >= rows["low"]),
    "until": lambda rows: (rows["until"].astype(str).str[:4] != "9999").astype(float),
    "part": lambda rows: rows["part"].eq(rows["high"]).fillna(False),
    "fee": lambda rows: (rows["fee"] - rows["country"].map(TARIFF) - rows["n"]).between(-1e-9, 0.5 + 1e-9),
}


def kept(rows: pd.DataFrame, names: tuple[str, ...] = tuple(RELATIONS)) -> dict[str, float]:
    """Share of rows that keep each relation."""
    return {name: float(np.mean(RELATIONS[name](rows))) for name in names}


@pytest.fixture(scope="module")
def trees() -> Any:
    return synth.fit(table(1000), modeled(), "trees", rounds=10)


@pytest.mark.parametrize("name", MODELED)
def test_rows_come_back_from_their_counted_form_as_they_were(name: str) -> None:
    schema = modeled((name,))
    rows = conform(table(), schema)
    counted = to_counted(rows, schema)
    assert list(counted) == list(schema.counted.columns)
    columns: Any = {each: rows[each] for each in schema.columns if each != name}
    assert not from_counted(columns, counted, schema).any()
    pd.testing.assert_series_equal(columns[name], rows[name], check_names=False)


def test_relations_hold_in_synthetic_rows_as_in_real_ones(trees: Any) -> None:
    assert trees.schema == modeled()
    real, synthetic = kept(table(1000)), kept(trees.sample(1000, seed=1))
    exact = ("discharged", "paid", "total", "high")
    assert [synthetic[name] for name in exact] == [1.0] * len(exact)
    assert all(synthetic[name] > real[name] - 0.08 for name in ("gross", "language", "visit")), synthetic
    assert all(abs(synthetic[name] - real[name]) < 0.1 for name in ("until", "part")), synthetic


@pytest.mark.parametrize(("name", "epsilon"), [("mst", 3.0), ("ctgan", None)])
def test_what_holds_exactly_holds_in_the_rows_of_generators_of_each_family(name: str, epsilon: float | None) -> None:
    names, exact = ("admitted", "stay", "discharged", "visit", "low", "high"), ("discharged", "high")
    whole = modeled()
    columns = {each: whole.columns[each] for each in names}
    schema = whole.model_copy(update={"columns": columns, "constraints": whole.constraints[:1]})
    model = fitted(name, table()[list(names)], schema, **({} if epsilon is None else {"epsilon": epsilon}))
    assert model.schema == schema
    assert kept(model.sample(100, seed=1), exact) == dict.fromkeys(exact, 1.0)
    assert model.statement is None or model.statement.epsilon <= 3.0


def test_what_is_left_is_counted_where_rows_are_as_it_is_here() -> None:
    schema = modeled()
    parts = Table.of(table()).on(ThreadPoolExecutor(1))
    mapped = counted_source(parts, schema, promises=True, mapped=True).under(schema.counted)
    here = TrainingTable(counted_source(table(), schema, promises=True, mapped=True))
    attributes = Discretizer.by_schema(schema.counted).attributes
    assert mapped is not None
    for there, own in zip(mapped.cell_counts(attributes), here.cell_counts(attributes), strict=True):
        np.testing.assert_array_equal(there, own)


def test_a_modeled_column_is_given_with_what_it_is_worked_out_from_or_by_rejection(trees: Any) -> None:
    rows = trees.sample(50, seed=0, given={"country": "de", "language": 39, "n": 2})
    assert {*rows["language"]} == {39} and {*rows["country"]} == {"de"}
    assert {*trees.sample(50, seed=0, given={"language": 33})["language"]} == {33}
    day = trees.sample(20, seed=0, given={"visit": "2021-03-01T10:30:00"})["visit"]
    assert {*pd.to_datetime(day)} == {pd.Timestamp("2021-03-01 10:30")}
    stay = trees.sample(20, seed=0, given={"admitted": "2021-02-01", "stay": 3, "discharged": "2021-02-04"})
    assert {*pd.to_datetime(stay["discharged"])} == {pd.Timestamp("2021-02-04")}
    assert trees.sample(60, seed=0, balance={"language": None})["language"].value_counts().tolist() == [20, 20, 20]
    with pytest.raises(JobError, match="give n, price, too"):
        trees.sample(20, given={"total": 1234.56})


def test_what_a_fit_without_epsilon_read_off_rows_is_not_declared(tmp_path: Path) -> None:
    model = synth.fit(table(), modeled(()), "independent")
    model.save(tmp_path / "model")
    for schema in (model.schema, synth.load_model(tmp_path / "model").schema):
        assert schema.columns["discharged"].modeled is not None
        with pytest.raises(BudgetError, match="inferred"):
            synth.fit(table(), schema, "mst", epsilon=1.0)


DATED = {
    "year": {"kind": "integer", "bounds": [2020, 2021]},
    "month": {"kind": "categorical", "categories": ["Feb", "March"]},
    "mday": {"kind": "integer", "bounds": [1, 31]},
    "left": {"kind": "date", "bounds": DAYS, "modeled": {"expression": "date(year, month, mday)", "unit": "day"}},
}
OPEN = {"expression": "either(before(open), lent) - paid", "column": {"kind": "integer", "bounds": [0, 0]}}
LOAN: dict[str, Any] = {
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "day": {"kind": "date", "bounds": DAYS},
    "lent": {"kind": "integer", "bounds": [0, 9000]},
    "paid": {"kind": "integer", "bounds": [0, 900]},
    "open": {
        "kind": "integer",
        "bounds": [-9000, 9000],
        "modeled": OPEN,
    },
    "gap": {"kind": "integer", "bounds": [0, 400], "missing": True},
}
GAP = {"kind": "formula", "column": "gap", "expression": "day - before(day)", "unit": "day"}
LOANS: dict[str, Any] = {
    "status": "declared", "n_units": 60, "entity": "who", "max_rows_per_unit": 4, "order": "day", "columns": LOAN,
    "constant_in_entity": ["lent"], "constraints": [GAP],
}  # fmt: skip


def loans() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"who": np.repeat(np.arange(60), 4), "lent": np.repeat(rng.integers(1000, 9000, 60), 4)})
    rows["day"] = pd.Timestamp("2021-01-01") + pd.to_timedelta(
        np.tile(np.arange(4) * 30, 60) + rng.integers(0, 9, 240), "D"
    )
    rows["paid"] = rng.integers(0, 900, 240)
    rows["open"] = rows["lent"] - rows.groupby("who")["paid"].cumsum()
    rows["gap"] = rows.groupby("who")["day"].diff().dt.days.astype("Int64")
    return rows[list(LOAN)]


@pytest.mark.parametrize(("name", "more"), [("trees", {}), ("mst", {"epsilon": 9.0})])
def test_running_sums_and_steps_are_exact_in_every_row_of_a_history(name: str, more: Any, tmp_path: Any) -> None:
    schema = build_schema(LOANS)
    model = synth.fit(loans(), schema, name, **more)
    rows = model.sample(100, seed=1)
    of_entity = rows.groupby("who", sort=False)
    assert (rows["open"] == rows["lent"] - of_entity["paid"].cumsum()).all()
    days = pd.to_datetime(rows["day"]).groupby(rows["who"], sort=False).diff().dt.days
    assert (rows["gap"].astype("Float64").fillna(-1) == days.fillna(-1)).all()
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(synth.load_model(tmp_path / "model").sample(100, seed=1), rows)
    assert not broken_in(conform(rows, schema), schema.constraints[0], schema).any()


def test_rows_drawn_one_by_one_hold_running_sums_as_values_and_refuse_formulas_that_look_back() -> None:
    schema = build_schema({**LOANS, "constraints": []})
    assert registry.generator("independent").fit(loans(), schema).schema.columns["open"].modeled is None
    with pytest.raises(SchemaError, match="computed from the row before"):
        registry.generator("independent").fit(loans(), build_schema(LOANS))


def test_days_of_three_columns_are_days_of_the_calendar() -> None:
    schema = build_schema({"status": "declared", "columns": DATED})
    drawn = pd.DataFrame({"year": [2020, 2021], "month": ["Feb", "Feb"], "mday": [29, 29], "left": [1, 1]})
    table, unlawful = completed(drawn.astype({"year": "Int64", "mday": "Int64", "left": "Int64"}), schema)
    assert unlawful.tolist() == [False, True]
    assert table["left"][0] == pd.Timestamp("2020-03-01")


def test_numbers_of_categories_count_in_the_row_before_and_in_days_of_the_calendar() -> None:
    columns: dict[str, Any] = {
        "size": {"kind": "categorical", "categories": ["s", "l"]}, "earlier": {"kind": "real", "bounds": [0, 40]},
        "due": {"kind": "date", "bounds": ["2020-01-01", "2021-12-31"]},
    }  # fmt: skip
    sizes = {"size": [["s", 2], ["l", 30]]}
    columns["earlier"]["modeled"] = {"expression": "before(size)", "numbers": sizes, "alone": True}
    columns["due"]["modeled"] = {"expression": "date(2021, 2, size)", "unit": "day", "numbers": sizes, "alone": True}
    schema = build_schema({"status": "declared", "columns": columns})
    rows = pd.DataFrame({"size": ["s", "l"], "earlier": [7.0, 2.0], "due": "2021-02-02"})
    rows = conform(rows, schema)
    counted = to_counted(rows, schema, rows.shift())
    assert counted["earlier"].isna().tolist() == [True, False]
    assert counted["earlier"][1] == counted["due"][0] == 0
    assert has_no_day(rows, schema.columns["due"].modeled, schema.columns).tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("stay", {"expression": "lwo"}, "no column"),
        ("stay", {"expression": "admitted"}, 'unit = "day"'),
        ("stay", {"expression": "low"}, "set alone = true"),
        ("stay", {"expression": "size"}, "give them in modeled.column"),
        ("stay", {"expression": "stay + n"}, "circle"),
        ("stay", {"expression": "n", "left": "ratio", "parts": True}, "no ratio"),
        ("stay", {"expression": "nn(n)"}, "no function 'nn'"),
        ("total", {"expression": "price", "left": "ratio"}, "give them in modeled.column"),
        ("language", {"by": "country", "usual": [["de", "dutch"]]}, "cannot hold"),
        ("language", {"by": "country"}, "usual has one pair"),
        ("price", {"expression": "n", "numbers": {"country": [["de", 1]]}}, "columns that the expression names"),
        ("price", {"expression": "country", "numbers": {"country": [["de", 1]]}}, "each category"),
        ("price", {"expression": "country", "numbers": {"country": [*TARIFF.items(), ("de", 1)]}}, "each category"),
        ("price", {"expression": "n", "numbers": {"n": [[0, 1]]}}, "each category"),
        ("price", {"expression": "country", "numbers": {"country": [["de", math.nan]]}}, "finite number"),
        ("price", {"expression": "n + country", "numbers": {"country": [(n, 1e308) for n in TARIFF]}}, "no bounds"),
        (
            "admitted",
            {"expression": "before(admitted)", "proposed": "seen", "unit": "day", "alone": True},
            "no proposal",
        ),
    ],
)
def test_what_cannot_be_modeled_is_refused_in_one_sentence(name: str, content: Any, words: str) -> None:
    columns = {**COLUMNS, "size": {"kind": "integer", "measure": True}, name: {**COLUMNS[name], "modeled": content}}
    with pytest.raises(SchemaError, match=re.escape(words)):
        build_schema({"status": "declared", "columns": columns})


def test_a_declared_model_of_a_column_is_written_read_and_asserted() -> None:
    schema = modeled()
    assert schema_of(GivenFile(Path("s.toml"), to_toml(schema).encode())) == schema
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(to_toml(schema)), default=str)), schema_json())
    words = dict(assertions(schema))
    assert "it is learned as what is left of admitted + stay" in words["discharged"]
    assert "49 of 'de'" in words["language"]
    assert "('country': 10.0 of 'de', 20.5 of 'fr', 31.0 of 'it')" in words["fee"]


class Unread:
    """A frame of Arrow that must not be read."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("a row was read")


@pytest.mark.parametrize("histories", [False, True])
def test_a_private_fit_is_checked_and_calibrated_before_its_first_row_is_brought_to_counted_form(
    histories: bool,
) -> None:
    content: dict[str, Any] = {
        "format": 1, "status": "declared", "n_units": 300,
        "columns": {
            "day": {"kind": "date", "bounds": DAYS}, "end": {"kind": "date", "bounds": DAYS},
            "who": {"kind": "identifier", "template": "A##"},
        },
    }  # fmt: skip
    content["columns"]["end"]["modeled"] = {"expression": "day", "unit": "day"}
    if histories:
        content |= {"entity": "who", "order": "day", "max_rows_per_unit": 3}
    schema = build_schema(content)
    assert schema.counted is not schema
    with pytest.raises(TableError, match="AssertionError"):  # it was read
        fit_model(registry.generator("aim", epsilon=1.0), Unread(), schema)
    for delta in (0.01, 1e-300):
        with pytest.raises(BudgetError, match="delta"):
            fit_model(registry.generator("aim", epsilon=1.0, delta=delta), Unread(), schema)
    other = compose(registry.generator("aim", epsilon=2.0), schema)
    budget = Budget(other.schedule(schema))  # type: ignore[attr-defined]
    with pytest.raises(BudgetError, match="not on the schedule"):
        fit_model(registry.generator("aim", epsilon=1.0), Unread(), schema, budget=budget)
