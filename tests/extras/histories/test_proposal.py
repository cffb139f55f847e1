"""Proposed histories: the order of an entity's rows, what is constant in it, and what never falls along it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import SchemaError, TableError
from synth.infer import infer_schema
from synth.table import read_table


def visits(n: int = 200, seed: int = 0, most: int = 6) -> pd.DataFrame:
    """Visits of patients, in an order of the file that says nothing."""
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(n):
        n_rows = int(rng.integers(2, most + 1))
        days = int(rng.integers(0, 1000)) + np.cumsum(rng.geometric(0.02, n_rows))
        rows.append({
            "patient_id": f"P-{patient:04d}",
            "seen": pd.Timestamp("2015-01-01") + pd.to_timedelta(days, unit="D"),
            "visit_nr": np.arange(1, n_rows + 1),
            "age": int(rng.integers(20, 80)) + days // 365,
            "admissions": np.cumsum(rng.poisson(0.7, n_rows)),
            "sex": rng.choice(["f", "m"]),
            "born": pd.Timestamp("1930-01-01") + pd.to_timedelta(int(rng.integers(0, 20_000)), unit="D"),
            "pressure": rng.normal(120, 12, n_rows).round(1),
            "pain": rng.integers(0, 4, n_rows),
        })  # fmt: skip
    table = pd.concat([pd.DataFrame(each) for each in rows], ignore_index=True)
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


def proposed(frame: pd.DataFrame, **options: Any) -> tuple[str | None, set[str], set[str]]:
    schema = infer_schema(frame, **{"constraints": False, **options})
    return schema.order, set(schema.constant_in_entity), set(schema.nondecreasing_in_entity)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_date_is_the_order_and_what_goes_along_with_it_is_found(as_text: bool) -> None:
    table = visits()
    table = table.assign(seen=table["seen"].dt.strftime("%Y-%m-%d"), born=table["born"].dt.strftime("%Y-%m-%d"))
    table = table.astype(str) if as_text else table
    assert proposed(table) == ("seen", {"sex", "born"}, {"visit_nr", "age", "admissions"})


def test_a_number_that_counts_the_rows_of_each_entity_is_the_order_whatever_it_is_called() -> None:
    table = visits().drop(columns="seen")
    assert proposed(table) == ("visit_nr", {"sex", "born"}, {"age", "admissions"})
    assert proposed(table.rename(columns={"visit_nr": "visit_id"}))[0] == "visit_id"
    assert proposed(table.assign(visit_nr=table["visit_nr"] + 2000))[0] == "visit_nr"
    late = table["patient_id"].str[-1].isin(["1", "2"])  # the first visits of a fifth of the patients are not there
    assert proposed(table.assign(visit_nr=table["visit_nr"] + 3 * late))[0] is None
    assert infer_schema(table).columns["visit_nr"].kind == "integer"
    skipped = table.assign(visit_nr=table["visit_nr"] ** 2)
    assert proposed(skipped) == (None, set(), set())


def test_without_a_convincing_column_nothing_is_proposed() -> None:
    table = visits()
    assert proposed(table.drop(columns=["seen", "visit_nr"])) == (None, set(), set())
    assert proposed(table, propose_order=False) == (None, set(), set())
    assert proposed(table, propose_entity=False) == (None, set(), set())
    for n, order in ((30, "seen"), (29, None)):
        assert proposed(table[table["patient_id"] < f"P-{n:04d}"], entity="patient_id")[0] == order
    pairs = visits(most=2).drop(columns=["seen", "visit_nr"])
    amount = np.random.default_rng(4).permutation(100 * len(pairs))[: len(pairs)]
    assert proposed(pairs.assign(amount=amount))[0] is None, "half of the pairs ascend by chance"


def test_identifiers_and_numbers_are_the_order_where_the_file_follows_them() -> None:
    table = visits().drop(columns="visit_nr").sort_values("seen", ignore_index=True)
    numbered = table.assign(encounter_id=10 * np.arange(len(table)) + 1000).drop(columns="seen")
    shuffled = numbered.sample(frac=1, random_state=1)
    assert proposed(numbered)[0] == "encounter_id"
    assert proposed(numbered.iloc[::-1])[0] == "encounter_id"  # the latest first
    assert proposed(numbered.assign(encounter_id=[f"E-{i:07d}" for i in range(len(table))]))[0] == "encounter_id"
    assert proposed(shuffled)[0] is None
    rng = np.random.default_rng(1)
    hexadecimal = ["".join(rng.choice(list("0123456789abcdef"), 12)) for _ in range(len(table))]
    random = sorted(f"{text}-{rng.integers(10)}" for text in hexadecimal)
    assert proposed(numbered.assign(encounter_id=random))[0] is None, "texts that are random say nothing"
    wards = table.groupby("patient_id").cumcount() + 3 * table["patient_id"].str[-1].astype(int) % 7
    assert proposed(numbered.drop(columns="encounter_id").assign(ward_id=wards))[0] is None, "codes say nothing"
    days = (table["seen"] - table["seen"].min()).dt.days
    assert proposed(numbered.drop(columns="encounter_id").assign(since=days))[0] == "since"


def test_a_number_that_tells_rows_of_one_day_apart_is_better_than_the_day() -> None:
    table = visits().sort_values(["patient_id", "seen"], ignore_index=True)
    second = table["visit_nr"] == 2
    second &= table["patient_id"].str.endswith("0")
    seen = table["seen"].where(~second, table["seen"].shift(1))  # one patient in ten has two visits on the first day
    tied = table.assign(seen=seen).sample(frac=1, random_state=2)
    order, _, growing = proposed(tied)
    assert (order, "seen" in growing) == ("visit_nr", True)
    against = tied.assign(visit_nr=tied.groupby("patient_id")["visit_nr"].transform("max") + 1 - tied["visit_nr"])
    assert proposed(against)[0] == "seen"


def test_a_birth_date_is_no_order_and_neither_is_a_date_that_repeats() -> None:
    table = visits().drop(columns=["visit_nr", "born"])
    assert proposed(table)[0] == "seen"
    assert proposed(table.rename(columns={"seen": "dateOfBirth"}))[0] is None
    assert proposed(table.assign(seen=table["seen"].dt.to_period("Y").dt.start_time))[0] is None


def test_one_fall_in_one_entity_is_enough_against_a_column_and_a_few_rises_are_not_enough_for_it() -> None:
    table = visits().sort_values(["patient_id", "seen"], ignore_index=True)
    assert "admissions" in proposed(table)[2]
    last = table.index[table["patient_id"] == "P-0007"][-1]
    fallen = table.copy()
    fallen.loc[last, "admissions"] = -1
    assert "admissions" not in proposed(fallen)[2]
    rank = table["patient_id"].str[2:].astype(int)
    for n_risen, is_growing in ((9, False), (60, True)):
        rising = np.where(rank < n_risen, table["visit_nr"], 5).astype(float) + 0.25
        assert ("stage" in proposed(table.assign(stage=rising))[2]) is is_growing


def test_a_column_that_is_constant_by_chance_is_not_proposed_as_constant() -> None:
    table = visits()
    rare = table["patient_id"].eq("P-0003")
    assert "flag" not in proposed(table.assign(flag=np.where(rare, "yes", "no")))[1]
    common = table["patient_id"].str[-1].isin(["3", "4", "5"])
    assert "flag" in proposed(table.assign(flag=np.where(common, "yes", "no")))[1]
    broken = common & (table.index != common.index[common][0])
    assert "flag" not in proposed(table.assign(flag=np.where(broken, "yes", "no")))[1]


def test_the_order_stays_a_column_that_is_learned_beside_constraints_that_could_compute_it() -> None:
    rng = np.random.default_rng(3)
    table = visits(most=5).drop(columns="seen")
    table["wave"] = table["visit_nr"].map({1: 11, 2: 22, 3: 33, 4: 44, 5: 55})
    table["left"] = rng.integers(0, 50, len(table))
    table["size"] = table["left"] + table["visit_nr"]
    schema = infer_schema(table)
    assert schema.order == "visit_nr"
    assert schema.order in schema.modeled
    assert schema.constraints, "the table shows some"
    early = rng.integers(0, 1000, len(table))
    sums = visits(most=5).assign(early=early, late=rng.integers(0, 1000, len(table))).drop(columns=["seen", "visit_nr"])
    sums = sums.assign(clock=sums["early"] + sums["late"]).sort_values(["patient_id", "clock"])
    assert [str(rule) for rule in infer_schema(sums, propose_order=False).constraints] == ["'clock' is early + late"]
    assert infer_schema(sums).order == "clock"
    assert "clock" in infer_schema(sums).modeled
    assert set(schema.nondecreasing_in_entity) <= set(schema.modeled)


def with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(seen=table["seen"].where(table["pain"] > 0))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"order": "seen", "propose_entity": False}, SchemaError, "order needs an entity"),
        ({"order": "sen"}, SchemaError, "order='sen' is not a column; did you mean 'seen'"),
        ({"order": "sex"}, SchemaError, "order='sex' has no values that follow each other"),
        ({"order": "patient_id"}, SchemaError, "order='patient_id' has no values that follow each other"),
        ({"order": "born"}, TableError, "most rows have the same value of order='born' as the row before"),
    ],
)
def test_a_named_order_that_orders_nothing_is_refused_in_a_sentence(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        infer_schema(visits(), **options)


def test_a_named_order_may_not_be_missing_and_is_taken_where_it_would_not_be_proposed() -> None:
    with pytest.raises(SchemaError, match="order='seen' may not be missing"):
        infer_schema(with_gaps(visits()), order="seen")
    assert proposed(with_gaps(visits()))[0] == "visit_nr", "one that is missing is not proposed"
    assert proposed(visits(), order="pain")[0] == "pain"
    few = visits(n=9)
    assert proposed(few, entity="patient_id", order="visit_nr") == ("visit_nr", set(), set())


def test_a_named_order_is_not_taken_for_the_entity() -> None:
    sizes = np.arange(1, 121) % 90 + 1
    lines = np.concatenate([np.arange(1, size + 1) for size in sizes])
    table = pd.DataFrame({"line_id": lines, "basket_id": np.repeat(1000 + np.arange(120), sizes)})
    assert infer_schema(table, constraints=False).entity == "line_id", "the first identifier that repeats itself"
    schema = infer_schema(table, order="line_id", constraints=False)
    assert (schema.entity, schema.order, schema.columns["line_id"].kind) == ("basket_id", "line_id", "integer")


@pytest.mark.parametrize("name", ["hotel_bookings", "airbnb_nyc"])
def test_tables_without_entities_have_none(name: str, shared_table: Callable[[str], Path]) -> None:
    schema = infer_schema(read_table(shared_table(f"{name}.csv.gz")).head(4000), constraints=False)
    assert (schema.entity, schema.order) == (None, None)


@pytest.mark.slow
def test_encounters_are_the_order_of_patients(shared_table: Callable[[str], Path]) -> None:
    table = read_table(shared_table("diabetes_hospital.csv.gz"))
    schema = infer_schema(table)
    assert (schema.entity, schema.order, schema.nondecreasing_in_entity) == ("patient_nbr", "encounter_id", ())
    assert infer_schema(table.sample(frac=1, random_state=0)).order is None
