from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.tables import Tables
from evaluate.validity import validity
from evaluate.validity.validity import ViolationCounts
from synth.schema import build_schema
from synth.table import conform
from synth.table.rows import Rows
from synth.table.translating import translate
from tests.chunks import faulty

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
        measurement = validity.measure(replace(tables, offered=Rows.of(offered, SCHEMA)))
        return {estimate.subject: estimate for estimate in measurement.estimates}

    return measure


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
    result = judge(rows)
    assert result[()].value == result[column,].value == pytest.approx(0.96)
    assert repr(column) in result[()].note
    assert word in result[column,].note
    assert "2 of 50 rows" in result[column,].note
    if isinstance(bad, str):
        assert bad not in result[column,].note


CONSTRAINTS = [
    {"kind": "inequality", "low": "price", "high": "age"},
    {"kind": "fixed_combinations", "columns": ["color", "member"], "combinations": [["red", True], ["green", False]]},
]


def _lawful_rows(n: int) -> pd.DataFrame:
    return _rows(n).assign(member=lambda rows: rows["color"] == "red")


def _judged(offered: pd.DataFrame) -> dict[tuple[str, tuple[str, ...]], Estimate]:
    schema = build_schema({**SCHEMA.model_dump(), "constraints": CONSTRAINTS})
    real = _lawful_rows(80)
    tables = replace(Tables.prepare(real.head(40), real.tail(40), real, schema), offered=Rows.of(offered, schema))
    return {(e.measure, e.subject): e for e in validity.measure(tables).estimates}


def test_a_row_that_breaks_a_constraint_is_invalid_though_each_of_its_values_is_valid() -> None:
    rows = _lawful_rows(50)
    rows.loc[[3, 7], "price"] = 99.0
    rows.loc[[7, 9], "member"] = ~rows.loc[[7, 9], "member"]
    result = _judged(rows)
    assert result["validity.rows", ()].value == pytest.approx(0.94)
    broken = result["validity.constraint", ("price", "age")]
    assert broken.value == pytest.approx(0.96)
    assert broken.reference == 1.0
    assert broken.note == (
        "2 of 50 rows break the constraint that 'price' is at most 'age', or hold a value in its columns that the "
        "schema does not allow."
    )
    assert result["validity.constraint", ("color", "member")].value == pytest.approx(0.96)
    assert {e.value for (measure, _), e in result.items() if measure == "validity.column"} == {1.0}


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
    result = _judged(rows)
    for subject in [("price", "age"), ("color", "member")]:
        assert result["validity.constraint", subject].value == pytest.approx(0.96 if subject in subjects else 1.0)


KEY = {"kind": "unique", "columns": ["color", "since"]}


def _keyed(n: int) -> pd.DataFrame:
    """Rows of which no two share a color and a day."""
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) // 2, unit="D")
    return _rows(n).assign(color=np.tile(["red", "green"], n)[:n], since=days)


def _of_key(offered: pd.DataFrame, real: pd.DataFrame, **change: Any) -> Any:
    schema = build_schema({**SCHEMA.model_dump(), **change, "constraints": [KEY]})
    tables = replace(Tables.prepare(real.head(40), real.tail(40), real, schema), offered=Rows.of(offered, schema))
    return validity.measure(tables)


def test_rows_that_repeat_a_key_are_counted_and_shown_without_their_values() -> None:
    rows = _keyed(50)
    rows.loc[7, ["color", "since"]] = rows.loc[3, ["color", "since"]]
    result = _of_key(rows, _keyed(80))
    estimate = next(e for e in result.estimates if e.measure == "validity.constraint")
    assert estimate.value == pytest.approx(0.96)
    assert (estimate.reference, estimate.floor) == (1.0, pytest.approx(estimate.floor))
    assert estimate.floor < 1.0
    assert result.figures["validity"]["constraints"][0]["shapes"] == [
        {"shape": "2 rows hold the same values (level 2 of 'color', a time of 'since')", "n": 2}
    ]
    assert result.figures["validity"]["columns"] == []


def test_a_constraint_that_real_rows_break_is_said_to_be_wrong() -> None:
    estimate = next(e for e in _of_key(_keyed(50), _rows(80)).estimates if e.measure == "validity.constraint")
    assert estimate.reference is not None
    assert estimate.reference < 1.0
    assert estimate.note == "Fresh real rows break it, too: the constraint, or a limit of its columns, is wrong."


def test_rows_of_one_entity_are_no_independent_evidence() -> None:
    columns = {**SCHEMA.model_dump()["columns"], "key": {"kind": "identifier", "template": "A##"}}
    schema = build_schema({"status": "declared", "columns": columns, "entity": "key"})
    real = _rows(160).assign(key=[f"B{i // 4:02d}" for i in range(160)])
    tables = Tables.prepare(real.head(80), real.tail(80), real, schema)
    clean = validity.measure(tables).estimates[0]
    assert (clean.low, clean.high) == pytest.approx(clopper_pearson(40, 40))
    together, apart = real.astype({"age": object}), real.astype({"age": object})
    together.loc[:7, "age"] = 5
    apart.loc[::20, "age"] = 5
    spread = [
        validity.measure(replace(tables, offered=Rows.of(rows, schema))).estimates[0] for rows in (together, apart)
    ]
    assert spread[0].value == spread[1].value == pytest.approx(0.95)
    assert (spread[0].low, spread[0].high) == pytest.approx(clopper_pearson(38, 40))
    assert (spread[1].low, spread[1].high) == pytest.approx(clopper_pearson(152, 160), abs=0.005)


def _held(share: float, n_replicates: int) -> float:
    """How many intervals hold the truth where rows of an entity go wrong together."""
    covered = 0
    for seed in range(n_replicates):
        rng = np.random.default_rng(seed)
        units = np.repeat(np.arange(300), rng.integers(1, 8, 300))
        flags = (rng.random(300) < share)[units]
        estimate = validity.share("validity.rows", ViolationCounts.of(flags, units), (), "")
        covered += estimate.low <= 1 - share <= estimate.high  # type: ignore[operator]
    return covered / n_replicates


@pytest.mark.parametrize("share", [0.005, 0.02, 0.3, 0.9])
def test_intervals_of_clustered_rows_cover_95_percent(share: float) -> None:
    assert 0.93 <= _held(share, 1000) <= 0.97


FORMS = build_schema(
    {
        "status": "declared",
        "columns": {
            "member": {"kind": "boolean", "tokens": ["no", "yes"]},
            "day": {"kind": "date", "bounds": ["2020-01-01", "2030-01-01"]},
            "code": {"kind": "categorical", "categories": ["27", "3", "08"]},
            "money": {"kind": "real", "bounds": [0, 1e6], "decimals": 3, "missing": True},
            "status": {"kind": "categorical", "categories": ["married", " single"]},
        },
    }
)
SAME = {
    "member": ("yes", ["true", "TRUE", "1", " Yes", 1.0], ["maybe", "2", "yess"]),
    "day": (
        "2024-01-31",
        ["2024-01-31 00:00:00", "2024-01-31T00:00:00Z", pd.Timestamp("2024-01-31", tz="Europe/Paris")],
        ["2024-01-31T01:00:00", "31.01.2024"],
    ),
    "code": ("27", ["27.0", 27.0, 27, "2.7e1"], ["8.5", True]),
    "money": ("1234", ["1,234.00", "1,234.0", " 1234 "], ["1,234", "1,5", "0,123,456", "12,34.0"]),
    "status": (" single", ["single", "  single "], ["Single", "sing le"]),
}


def _forms(n: int = 100) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        "member": rng.choice(["no", "yes"], n), "day": [f"2024-01-{1 + i % 31:02d}" for i in range(n)],
        "code": rng.choice(["27", "3", "08"], n), "money": [f"{i * 1.125}" for i in range(n)],
        "status": rng.choice(["married", " single"], n),
    })  # fmt: skip


@pytest.mark.parametrize("column", SAME)
def test_an_equal_value_in_another_form_is_equal_and_what_may_be_two_values_is_none(column: str) -> None:
    own, equal, other = SAME[column]
    for cell in [*equal, *other]:
        frame = _forms(3).astype(object)
        frame[column] = pd.Series([own, cell, own], dtype=object)
        shown, counts = translate(frame, FORMS)
        known = conform(shown, FORMS, outside="clamp")[column]
        assert known[[0]].equals(known[[1]].set_axis([0])) == (cell in equal), cell
        stands_as_it_is = not faulty(frame, FORMS)[1]
        assert sum(counts.get(column, {}).values()) == (cell in equal and not stands_as_it_is), cell
        assert frame[column][1] is cell, "what was handed over is not changed"


def test_landmarks_are_of_real_rows_as_they_were_before_any_was_clamped() -> None:
    real = _rows(800)
    real.loc[real.index[::5], "age"] = 200
    real.loc[real.index[::10], "color"] = "violet"
    tables = Tables.prepare(real.head(400), real.tail(400), _rows(50), SCHEMA, outside="clamp")
    result = {estimate.subject: estimate for estimate in validity.measure(tables).estimates}
    assert (result[("age",)].reference, result[("age",)].floor) == (0.8, 0.8)
    assert result[("color",)].reference == 0.9
    assert result[()].reference == 0.8, "rows with both count once"
    assert result[()].floor == pytest.approx(0.8 * 0.9, abs=0.04), "shuffled, they fall apart"
