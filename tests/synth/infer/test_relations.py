"""What is found between columns and rows: relations and orders that were planted, whatever breaks them in a few."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.errors import SchemaError, TableNote
from synth.infer import infer_schema
from synth.infer.relations import find_exact, left_of
from synth.schema import Schema, build_schema
from synth.table import conform


def stays(n: int = 1_000, seed: int = 0) -> pd.DataFrame:
    """Stays with a bill: sums, products and spans of dates and numbers."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    called = admitted - pd.to_timedelta(rng.integers(60, 90_000, n), unit="s")
    days, ward = rng.geometric(0.2, n), rng.integers(0, 60, n)
    rows = pd.DataFrame({"admitted": admitted, "los": days, "discharged": admitted + pd.to_timedelta(days, unit="D")})
    rows["called"], rows["hour called"] = called, called.hour
    rows["rate"], rows["nurses"] = rng.choice([410.0, 520.5, 777.25], n), rng.integers(1, 6, n)
    rows["room"] = rows["rate"] * rows["nurses"]
    rows["drugs"] = np.where(rng.random(n) < 0.9, rng.gamma(2, 40, n), 0).round(2)
    rows["extras"] = np.where(rng.random(n) < 0.06, rng.choice([15.0, 99.9], n), 0)
    rows["bill"] = (rows["room"] + rows["drugs"] + rows["extras"]).round(2)
    rows["share"] = (rows["drugs"] / rows["bill"]).round(4)
    rows["kelvin"] = (rng.normal(37, 1, n) + 273.15).round(2)
    rows["celsius"] = (rows["kelvin"] - 273.15).round(2)
    rows["ward"], rows["house"] = [f"w{i}" for i in ward], [f"h{i % 7}" for i in ward]
    return rows


PLANTED = {
    "discharged": "admitted + los", "hour called": "hour(called)", "room": "rate * nurses",
    "bill": "room + drugs + extras", "share": "drugs / bill", "celsius": "kelvin - 273.15",
}  # fmt: skip


def computed(schema: Schema) -> dict[str, str]:
    modeled = {name: column.modeled for name, column in schema.columns.items() if column.modeled is not None}
    laws = {rule.column: rule.expression for rule in schema.constraints if rule.kind == "formula"}
    return laws | {name: str(each.expression) for name, each in modeled.items()}


def sorted_terms(expression: str) -> list[str]:
    return sorted(expression.replace("+", " ").replace("*", " ").split())


def keeps(schema: Schema, planted: dict[str, str]) -> list[str]:
    laws = computed(schema)
    return [name for name, text in planted.items() if sorted_terms(laws.get(name, "")) == sorted_terms(text)]


def test_sums_products_shares_and_spans_of_times_are_laws_where_every_row_keeps_them() -> None:
    schema = infer_schema(stays())
    assert keeps(schema, PLANTED) == list(PLANTED)
    assert {rule.column for rule in schema.constraints if rule.kind == "formula"} == PLANTED.keys()


def test_they_are_modeled_where_values_are_missing_or_one_in_a_hundred_rows_breaks_them() -> None:
    rng, rows = np.random.default_rng(1), stays()
    for name in ("discharged", "room", "bill"):
        broken = rng.random(len(rows)) < 0.01
        rows.loc[broken, name] = rng.permutation(rows[name].to_numpy())[broken]
    rows.loc[rng.random(len(rows)) < 0.01, "house"] = "h3"
    for name in rows.columns.drop(["ward", "celsius"]):
        rows[name] = rows[name].where(rng.random(len(rows)) >= 0.02)
    schema = infer_schema(rows)
    assert keeps(schema, PLANTED) == list(PLANTED)
    left = schema.columns["bill"].modeled
    assert left is not None and left.alone and 0 in left.column.spikes
    assert schema.columns["house"].modeled is not None and schema.columns["house"].modeled.by == "ward"
    exact = {each.column: each for each in find_exact(conform(rows, schema), schema)}
    assert exact["room"].share == pytest.approx(0.99, abs=0.01)


def test_a_number_is_what_its_categories_add_and_a_rest_unless_one_of_them_is_to_be_measured() -> None:
    rng = np.random.default_rng(0)
    base, add = {"dsl": 25.0, "fiber": 50.0, "none": 0.0}, {"no": 0.0, "yes": 10.0}
    rows = pd.DataFrame({"net": rng.choice([*base], 2_000), "tv": rng.choice([*add], 2_000)})
    rows["sport"], rows["other"] = rng.choice([*add], 2_000), rng.choice(["a", "b", "c"], 2_000)
    told = rows["net"].map(base) + rows["tv"].map(add) + rows["sport"].map(add)
    rows["price"] = np.round(told + 20 + rng.normal(0, 0.3, 2_000), 2)
    schema = infer_schema(rows)
    modeled: Any = schema.columns["price"].modeled
    assert sorted(modeled.operands) == ["net", "sport", "tv"]
    added = sum(rows[name].map(numbers) for name, numbers in modeled.added.items())
    assert (rows["price"] - added).abs().max() < 1.5
    assert synth.declare_schema(schema, n_units=2_000).columns["price"].modeled is not None
    assert synth.declare_schema(schema, n_units=2_000, measure=["tv"]).columns["price"].modeled is None


def test_what_a_category_of_few_entities_adds_is_not_told() -> None:
    rng, n = np.random.default_rng(0), 4_000
    rows = pd.DataFrame({"person": rng.integers(0, 200, n), "net": rng.choice(["dsl", "fiber", "none"], n)})
    rows["net"] = rows["net"].where(rows["person"] >= 5, "own")  # a hundred rows of five people
    told = rows["net"].map({"dsl": 25.0, "fiber": 50.0, "none": 0.0, "own": 777.0})
    rows["price"] = np.round(told + rng.normal(0, 0.3, n), 2)
    added = [infer_schema(rows, entity=entity).columns["price"].modeled for entity in ("person", None)]
    by_units, by_rows = (dict(each.added["net"]) for each in added if each is not None)
    assert by_rows["own"] > 700
    assert by_units["own"] < 60


def test_independent_columns_have_no_relations() -> None:
    rng, n = np.random.default_rng(0), 400
    kinds: list[Callable[[], Any]] = [
        lambda: rng.integers(0, 10 ** rng.integers(1, 6), n), lambda: rng.normal(50, 10, n).round(rng.integers(0, 3)),
        lambda: np.exp(rng.normal(6, 1.5, n)).round(2), lambda: np.where(rng.random(n) < 0.7, 0, rng.poisson(90, n)),
        lambda: rng.poisson(3, n), lambda: rng.random(n), lambda: rng.integers(1, 200, n) * 50,
    ]  # fmt: skip
    rows = pd.DataFrame({f"x{i}": kinds[rng.integers(len(kinds))]() for i in range(6)})
    rows = rows.assign(**{f"c{i}": rng.choice(list("abcdefgh")[: 2 + i], n) for i in range(5)})
    for i in range(2):
        rows[f"t{i}"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900 * 86_400, n), unit="s")
    schema = infer_schema(rows)
    assert not computed(schema) and not schema.constraints


def test_a_time_is_the_gap_to_another_and_a_time_of_office_hours_is_held_in_parts() -> None:
    rng, n = np.random.default_rng(0), 2_000
    days = pd.Timestamp("2023-01-02") + pd.to_timedelta(7 * rng.integers(0, 100, n) + rng.integers(0, 5, n), unit="D")
    start = days + pd.to_timedelta(rng.integers(8 * 3600, 17 * 3600, n), unit="s")
    rows = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(rng.gamma(2, 300, n).astype(int), unit="s")})
    modeled = {name: column.modeled for name, column in infer_schema(rows).columns.items()}
    assert modeled["start"] is not None and modeled["start"].parts and modeled["start"].expression is None
    assert modeled["end"] is not None and modeled["end"].expression == "start"
    assert modeled["end"].column.bounds[0] >= 0


def accounts(n: int = 150, seed: int = 0) -> pd.DataFrame:
    """Payments of accounts, each of which moves a balance."""
    rng = np.random.default_rng(seed)
    account = np.repeat(np.arange(n), rng.integers(4, 9, n))
    rows = pd.DataFrame({"account": [f"A-{i:04d}" for i in account]})
    rows["amount"], rows["gap"] = rng.normal(20, 100, len(account)).round(2), rng.integers(1, 20, len(account))
    days = rows.groupby("account")["gap"].cumsum().to_numpy()
    rows["day"] = pd.Timestamp("2022-01-01") + pd.to_timedelta(days, unit="D")
    start = rng.integers(100, 5_000, n)[account]
    rows["balance"] = (rows.groupby("account")["amount"].cumsum() + start).round(2)
    rows["turnover"] = rows.groupby("account")["amount"].cumsum().round(2)
    rows["last amount"] = rows.groupby("account")["amount"].shift(1)
    return rows.drop(columns="gap").sample(frac=1, random_state=seed).reset_index(drop=True)


def test_running_sums_and_values_of_the_row_before_are_found_within_an_entity() -> None:
    laws = computed(infer_schema(accounts().drop(columns="turnover"), entity="account", order="day"))
    assert sorted_terms(laws["balance"]) == ["amount", "before(balance)"]
    sums = computed(infer_schema(accounts().drop(columns="balance"), entity="account", order="day"))
    assert sums["turnover"] == "either(before(turnover), 0) + amount"
    assert laws["last amount"] == "before(amount)"


def test_a_value_that_is_another_one_in_some_rows_is_that_or_has_its_own() -> None:
    rng, n = np.random.default_rng(0), 2_000
    billed = np.exp(rng.normal(8, 1, n)).round()
    paid = np.where(rng.random(n) < 0.3, billed, np.exp(rng.normal(7, 1, n)).round())
    modeled = {n: c.modeled for n, c in infer_schema(pd.DataFrame({"billed": billed, "paid": paid})).columns.items()}
    (each,) = (each for each in modeled.values() if each is not None)
    assert each.alone and each.column.bounds == (0, 0)


def test_the_target_is_computed_by_sums_of_three_and_the_order_never() -> None:
    bills = stays()[["rate", "nurses", "room", "drugs", "extras", "bill"]]
    assert "bill" in computed(infer_schema(bills, target="bill"))
    assert "room" not in computed(infer_schema(bills, target="room"))
    rows = accounts()[["account", "day", "amount"]]
    rows["since"] = (rows["day"] - pd.Timestamp("2022-01-01")).dt.days
    assert "day" not in computed(infer_schema(rows, entity="account", order="day"))


def fees(n: int = 1_500, seed: int = 0) -> pd.DataFrame:
    """Trips, loans and bookings: tariffs, installments, and days written in three columns."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2023-01-02") + pd.to_timedelta(rng.integers(0, 9_000_000, n), unit="s")
    rows = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(rng.integers(120, 4_000, n), unit="s")})
    rows["km"] = rng.gamma(2, 3, n).round(2)
    hours = (rows["end"] - start).dt.total_seconds() / 3600
    rows["fare"] = (2.5 + 1.6 * rows["km"] + 21 * hours).round(1)
    rows["amount"], rows["rate"] = rng.integers(40, 1_400, n) * 25, rng.uniform(0.04, 0.24, n).round(4)
    rows["term"] = rng.choice([36, 60], n)
    rows["installment"] = (rows["amount"] * rows["rate"] / 12 / (1 - (1 + rows["rate"] / 12) ** -rows["term"])).round(2)
    day = pd.Timestamp("2015-07-01") + pd.to_timedelta(rng.integers(0, 790, n), unit="D")
    rows["year"], rows["month"], rows["mday"] = day.year, day.month_name(), day.day
    rows["arrived"], rows["issued"], rows["nights"] = day, day.to_period("M").start_time, rng.integers(1, 15, n)
    rows["left"] = day + pd.to_timedelta(rows["nights"], unit="D")
    return rows


@pytest.mark.parametrize(
    ("columns", "name", "parts"),
    [
        (["start", "end", "km", "fare"], "fare", ["1.6 * km", "21 * (end - start)", "2.5"]),
        (["amount", "rate", "term", "installment"], "installment", ["amount", "annuity(rate / 12, term)"]),
        (["year", "month", "mday", "nights", "left"], "left", ["date(year, month, mday)", "nights"]),
        (["mday", "arrived", "km"], "mday", ["day(arrived) - date(year(arrived), month(arrived), 1)"]),
    ],
)
def test_tariffs_installments_and_days_of_three_columns_are_found(
    columns: list[str], name: str, parts: list[str]
) -> None:
    text = computed(infer_schema(fees()[columns]))[name]
    assert all(part in text for part in parts), text


def test_days_that_are_always_the_first_of_a_month_are_so_in_a_sample() -> None:
    schema = infer_schema(fees()[["issued", "km"]])
    assert schema.columns["issued"].every == "month"
    days = pd.to_datetime(synth.fit(fees()[["issued", "km"]], schema, "trees", rounds=5).sample(300, seed=0)["issued"])
    assert (days.dt.day == 1).all() and days.nunique() > 10


def test_names_of_months_and_weekdays_are_said_by_the_date_and_stay_so() -> None:
    rng, rows = np.random.default_rng(0), fees()[["arrived", "km"]]
    rows["month"], rows["weekday"] = rows["arrived"].dt.month_name(), rows["arrived"].dt.day_name()
    rows.loc[rng.random(len(rows)) < 0.01, "month"] = "May"
    schema = infer_schema(rows)
    assert computed(schema).items() >= {"month": "month(arrived)", "weekday": "weekday(arrived)"}.items()
    measured = synth.declare_schema(schema, n_units=len(rows), measure=["arrived"])
    assert measured.columns["arrived"].is_measured and measured.columns["month"].modeled.usual
    sample = synth.fit(rows, schema, "trees", rounds=5).sample(500, seed=0)
    days = pd.to_datetime(sample["arrived"])
    assert (days.dt.day_name() == sample["weekday"]).all() and (days.dt.month_name() == sample["month"]).mean() > 0.97
    month = next(each for each in find_exact(conform(rows, schema), schema) if each.column == "month")
    left = left_of(conform(rows, schema), month, schema)
    np.testing.assert_array_equal(left, rows["month"] != rows["arrived"].dt.month_name())


@pytest.mark.parametrize("by_birthday", [False, True])
def test_ages_and_tenures_up_to_one_day_are_found(by_birthday: bool) -> None:
    rng, day = np.random.default_rng(0), pd.Timestamp("2024-06-30")
    birth, hire = (day - pd.to_timedelta(rng.integers(400, most, 2_000), unit="D") for most in (25_000, 9_000))
    years = day.year - birth.year - ((birth.month * 100 + birth.day) > 630)
    age = years if by_birthday else (day - birth).days // 365.25
    rows = pd.DataFrame({"birth": birth, "hire": hire, "age": age.astype(int)})
    rows["tenure"] = ((day - hire).days / 365.25).to_numpy().round(1)
    laws = computed(infer_schema(rows))
    assert laws["age"].startswith("floor((199") and laws["age"].endswith(" - birth) / 365.25)")
    assert laws["tenure"] == "(19904 - hire) / 365.25"


def test_numbers_that_a_category_says_are_listed_and_kept() -> None:
    rng = np.random.default_rng(0)
    item, prices = rng.integers(0, 12, 1_500), np.exp(rng.normal(3.5, 1, 12)).round(2)
    rows = pd.DataFrame(
        {"price": prices[item], "rate": np.array([0.27, 0.31, 0.5])[item % 3], "n": rng.poisson(3, 1_500)}
    )
    rows.insert(2, "item", [f"i{each}" for each in item])
    schema = synth.declare_schema(infer_schema(rows), n_units=1_500)
    sampled = synth.fit(rows, schema, "mst", epsilon=1.0).sample(seed=0)
    known = rows[["item", "price", "rate"]].astype(str).agg(tuple, axis=1)
    assert set(sampled[["item", "price", "rate"]].astype(str).agg(tuple, axis=1)) <= {*known}


def test_a_meter_starts_where_it_stood_in_the_row_before() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"customer": np.repeat([f"C{i:03}" for i in range(120)], 12), "used": rng.integers(50, 400, 1_440)}
    )
    rows.insert(1, "month", np.tile(pd.date_range("2022-01-01", periods=12, freq="MS"), 120))
    rows["now"] = rows.groupby("customer")["used"].cumsum() + np.repeat(rng.integers(1_000, 60_000, 120), 12)
    rows["last"] = rows["now"] - rows["used"]
    schema = infer_schema(rows, entity="customer", order="month")
    assert computed(schema) == {"now": "used + last", "last": "before(now)"}
    sampled = synth.fit(rows, schema).sample(seed=0).sort_values(["customer", "month"], kind="stable")
    before = sampled.groupby("customer")["now"].shift()
    assert (sampled["last"] == before)[before.notna()].mean() > 0.99


N = 400
RNG = np.random.default_rng(0)
STAMPS = pd.Series(pd.date_range("2021-01-01", periods=N, freq="7h"))
AMOUNTS = RNG.lognormal(3, 1, N).round(2)


def orders() -> pd.DataFrame:
    """Order numbers that rise with the time, in rows of no order, and references that rise with the rows."""
    frame = pd.DataFrame({"order_no": np.cumsum(RNG.integers(1, 9, N)), "at": STAMPS, "paid": AMOUNTS})
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)
    return frame.assign(row=np.arange(1, N + 1), ref=[f"R-{i:05d}" for i in range(N)])


def test_identifiers_rise_with_the_time_or_the_rows_that_they_rose_with() -> None:
    schema = infer_schema(orders(), constraints=True)
    assert {name: schema.columns[name].rises_with for name in ("order_no", "row", "ref")} == {
        "order_no": ("at",), "row": (), "ref": (),
    }  # fmt: skip
    drawn = synth.fit(orders(), schema, "trees").sample(N, seed=0)
    assert drawn["order_no"].corr(drawn["at"].astype("int64"), method="spearman") > 0.999
    assert drawn["row"].tolist() == list(range(1, N + 1)) and drawn["ref"].is_monotonic_increasing
    declared = synth.declare_schema(schema, n_units=N)
    assert "ascending with at" in declared.columns["order_no"].asserted()


def test_numbers_rise_with_a_time_of_several_columns() -> None:
    parts = {"year": STAMPS.dt.year, "month": STAMPS.dt.month, "day": STAMPS.dt.day, "hour": STAMPS.dt.hour}
    column = infer_schema(pd.DataFrame({"No": np.arange(1, N + 1), **parts, "pm": AMOUNTS})).columns["No"]
    assert column.rises_with == ("month", "day", "hour") and column.consecutive


def test_identifiers_rise_with_what_is_computed_or_orders_an_entity() -> None:
    rng, n = np.random.default_rng(0), N
    total, part, when = np.sort(rng.integers(0, 9000, n)), rng.integers(0, 3000, n), rng.permutation(STAMPS)
    sums = {"id": range(n), "part": part, "rest": total - part, "total": total}
    table = pd.DataFrame({**sums, "when": when, "month": pd.Series(when).dt.month_name()})
    schema = infer_schema(table)
    assert schema.columns["id"].rises_with == ("total",) and schema.columns["month"].modeled.usual
    assert synth.fit(table, schema, "trees", rounds=5).sample(n, seed=0).sort_values("id").total.is_monotonic_increasing
    visits = pd.DataFrame({"who": [f"p{i // 5:04d}" for i in range(n)], "at": STAMPS, "x": part})
    schema = infer_schema(visits, entity="who", order="at")
    assert schema.columns["who"].rises_with == ("at",)
    starts = synth.fit(visits, schema, "trees", rounds=5).sample(n, seed=0).groupby("who")["at"].min()
    assert starts.is_monotonic_increasing


def test_a_schema_refuses_an_order_of_what_is_not_learned() -> None:
    columns = {"id": {"kind": "identifier", "bounds": [0, 99], "rises_with": ["when"]}}
    with pytest.raises(SchemaError, match="rises with 'when', which is no learned column"):
        build_schema({"status": "declared", "columns": columns})


def test_row_names_are_read_and_left_out(tmp_path: Path) -> None:
    orders().to_csv(tmp_path / "x.csv")
    with pytest.warns(TableNote, match="a proposed schema leaves out"):
        table = synth.read_table(tmp_path / "x.csv")
    assert "Unnamed: 0" in table and "Unnamed: 0" not in infer_schema(table).kept


@pytest.mark.parametrize("name", ["air_quality_index", "glycemic_index", "house_number", "lot_no", "index"])
def test_a_measure_is_no_identifier_by_its_name(name: str) -> None:
    values = RNG.lognormal(4, 0.5, N).astype(int)
    schema = infer_schema(pd.DataFrame({name: values, "visits": RNG.poisson(values)}))
    assert schema.columns[name].kind == "integer" and schema.entity is None
