from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate import validity
from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.tables import Tables
from synth.schema import build_schema

SCHEMA = build_schema(
    {
        "status": "declared",
        "columns": {
            "age": {"kind": "integer", "bounds": [18, 90]},
            "price": {"kind": "real", "bounds": [0, 100], "decimals": 2, "missing": True},
            "color": {"kind": "categorical", "categories": ["red", "green"]},
            "since": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
            "member": {"kind": "boolean"},
            "key": {"kind": "identifier", "template": "A##"},
        },
    }
)


def _rows(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, n),
            "price": rng.random(n).round(2),
            "color": rng.choice(["red", "green"], n),
            "since": pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 200, n), unit="D"),
            "member": rng.random(n) < 0.5,
            "key": [f"B{i:02d}" for i in range(n)],
        }
    )


@pytest.fixture
def judge() -> Callable[[pd.DataFrame], dict[tuple[str, ...], Estimate]]:
    real = _rows(80)
    tables = Tables.prepare(real.head(40), real.tail(40), real, SCHEMA)

    def measure(offered: pd.DataFrame) -> dict[tuple[str, ...], Estimate]:
        measurement = validity.measure(replace(tables, offered=offered))
        return {estimate.subject: estimate for estimate in measurement.estimates}

    return measure


def test_rows_that_keep_every_rule_are_all_valid(judge: Callable[..., Any]) -> None:
    found = judge(_rows(50))
    assert {estimate.value for estimate in found.values()} == {1.0}
    assert found[()].low == pytest.approx(clopper_pearson(50, 50)[0])
    assert set(found) == {(), *((name,) for name in SCHEMA.kept)}


@pytest.mark.parametrize(
    ("column", "bad", "word"),
    [
        ("age", 17, "bounds"),
        ("age", 10**6, "bounds"),
        ("age", 20.5, "fraction"),
        ("age", "forty", "not numbers"),
        ("age", None, "missing"),
        ("price", np.inf, "infinite"),
        ("price", 0.123, "decimals"),
        ("price", -5.0, "bounds"),
        ("color", "violet", "categories"),
        ("color", None, "missing"),
        ("since", pd.Timestamp("2021-06-01"), "bounds"),
        ("member", "perhaps", "tokens"),
    ],
)
def test_each_broken_rule_costs_its_row_and_is_named_without_its_value(
    judge: Callable[..., Any], column: str, bad: Any, word: str
) -> None:
    rows = _rows(50)
    rows[column] = rows[column].astype(object)
    rows.loc[[3, 7], column] = [bad, bad]
    found = judge(rows)
    assert found[()].value == found[column,].value == pytest.approx(0.96)
    assert repr(column) in found[()].note
    assert word in found[column,].note
    assert "2 of 50 rows" in found[column,].note
    if isinstance(bad, str):
        assert bad not in found[column,].note


def test_a_row_with_two_violations_counts_once(judge: Callable[..., Any]) -> None:
    rows = _rows(50).astype({"age": object, "color": object})
    rows.loc[3, ["age", "color"]] = [5, "violet"]
    assert judge(rows)[()].value == pytest.approx(0.98)


def test_missing_values_are_valid_where_the_schema_allows_them(judge: Callable[..., Any]) -> None:
    rows = _rows(50)
    rows.loc[:10, "price"] = np.nan
    assert judge(rows)[()].value == 1.0


def test_repeated_keys_are_invalid(judge: Callable[..., Any]) -> None:
    rows = _rows(50)
    rows.loc[:4, "key"] = "B00"
    assert judge(rows)["key",].value == pytest.approx(0.92)


def test_columns_that_the_schema_does_not_know_are_named(judge: Callable[..., Any]) -> None:
    found = judge(_rows(50).assign(**{"</script>": 1}))
    assert found[()].value == 1.0
    assert "'</script>'" in found[()].note


def test_one_row_is_enough_to_say_something_uncertain(judge: Callable[..., Any]) -> None:
    found = judge(_rows(1))[()]
    assert (found.value, found.n) == (1.0, 1)
    assert found.low == pytest.approx(0.025)


CONSTRAINTS = [
    {"kind": "inequality", "low": "price", "high": "age"},
    {"kind": "fixed_combinations", "columns": ["color", "member"], "combinations": [["red", True], ["green", False]]},
]


def _lawful_rows(n: int) -> pd.DataFrame:
    return _rows(n).assign(member=lambda rows: rows["color"] == "red")


def _judged(offered: pd.DataFrame) -> dict[tuple[str, tuple[str, ...]], Estimate]:
    schema = build_schema({**SCHEMA.model_dump(), "constraints": CONSTRAINTS})
    real = _lawful_rows(80)
    tables = replace(Tables.prepare(real.head(40), real.tail(40), real, schema), offered=offered)
    return {(e.measure, e.subject): e for e in validity.measure(tables).estimates}


def test_rows_that_keep_every_constraint_are_all_valid() -> None:
    found = _judged(_lawful_rows(50))
    assert {estimate.value for estimate in found.values()} == {1.0}
    assert ("validity.constraint", ("price", "age")) in found
    assert ("validity.constraint", ("color", "member")) in found


def test_a_row_that_breaks_a_constraint_is_invalid_though_each_of_its_values_is_valid() -> None:
    rows = _lawful_rows(50)
    rows.loc[[3, 7], "price"] = 99.0
    rows.loc[[7, 9], "member"] = ~rows.loc[[7, 9], "member"]
    found = _judged(rows)
    assert found["validity.rows", ()].value == pytest.approx(0.94)
    broken = found["validity.constraint", ("price", "age")]
    assert broken.value == pytest.approx(0.96)
    assert broken.reference == 1.0
    assert broken.note == (
        "2 of 50 rows break the constraint that 'price' is at most 'age', or hold a value in its columns that the "
        "schema does not allow."
    )
    assert found["validity.constraint", ("color", "member")].value == pytest.approx(0.96)
    assert {e.value for (measure, _), e in found.items() if measure == "validity.column"} == {1.0}


def test_a_table_that_breaks_kinds_and_constraints_alike_is_judged_to_the_end() -> None:
    rows = _lawful_rows(50).astype({"age": object, "color": object})
    rows.loc[3, ["age", "color"]] = ["forty", "violet"]
    rows.loc[4, "price"] = np.inf
    assert _judged(rows)["validity.rows", ()].value == pytest.approx(0.96)


@pytest.mark.parametrize(
    ("column", "bad", "subjects"),
    [
        ("age", 5, [("price", "age")]),
        ("age", "forty", [("price", "age")]),
        ("age", None, [("price", "age")]),
        ("price", 1e6, [("price", "age")]),
        ("price", np.inf, [("price", "age")]),
        ("color", "violet", [("color", "member")]),
        ("color", None, [("color", "member")]),
        ("member", "perhaps", [("color", "member")]),
        ("key", "no key", []),
    ],
)
def test_a_row_with_a_value_that_no_column_allows_keeps_no_constraint_on_it(
    column: str, bad: Any, subjects: list[tuple[str, ...]]
) -> None:
    rows = _lawful_rows(50)
    rows[column] = rows[column].astype(object)
    rows.loc[[3, 7], column] = bad
    found = _judged(rows)
    for subject in [("price", "age"), ("color", "member")]:
        assert found["validity.constraint", subject].value == pytest.approx(0.96 if subject in subjects else 1.0)


def test_a_value_that_may_be_missing_keeps_every_constraint() -> None:
    rows = _lawful_rows(50)
    rows.loc[[3, 7], "price"] = np.nan
    assert _judged(rows)["validity.constraint", ("price", "age")].value == 1.0
