"""Proposed histories: the order of an entity's rows, what is constant in it, and what never falls along it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from synth.infer import infer_schema


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


def test_a_date_is_the_order_and_what_goes_along_with_it_is_found() -> None:
    table = visits()
    table = table.assign(seen=table["seen"].dt.strftime("%Y-%m-%d"), born=table["born"].dt.strftime("%Y-%m-%d"))
    assert proposed(table.astype(str)) == ("seen", {"sex", "born"}, {"visit_nr", "age", "admissions"})


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


def test_a_named_order_that_orders_nothing_is_refused() -> None:
    with pytest.raises(TableError, match="most rows have the same value of order='born' as the row before"):
        infer_schema(visits(), order="born")
