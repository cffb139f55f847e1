"""Which rows a schema and its constraints allow, told without a value, and how sure that is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate import validity
from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from evaluate.validity import ViolationCounts, form, shapes
from synth.schema import build_schema
from synth.table import conform
from synth.table.rows import Rows
from synth.table.translating import translate
from tests.chunks import faulty

CONTENT: dict[str, Any] = {
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
ORDER, PAIRS, KEY = (
    {"kind": "inequality", "low": "price", "high": "age"},
    {"kind": "fixed_combinations", "columns": ["color", "member"], "combinations": [["red", True], ["green", False]]},
    {"kind": "unique", "columns": ["color", "since"]},
)


def rows(n: int) -> pd.DataFrame:
    """Rows that keep the order and the pairs, and of which no two share a color and a day."""
    rng, color = np.random.default_rng(0), np.tile(["red", "green"], n)[:n]
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) // 2, unit="D")
    key = [f"B{i:02d}" for i in range(n)]
    numbers = {"age": rng.integers(18, 91, n), "price": rng.random(n).round(2)}
    return pd.DataFrame({**numbers, "color": color, "since": days, "member": color == "red", "key": key})


def measured(offered: pd.DataFrame, *constraints: dict[str, Any], real: pd.DataFrame | None = None) -> MetricResult:
    schema = build_schema({**CONTENT, "constraints": constraints})
    real = rows(80) if real is None else real
    tables = Tables.prepare(real.head(40), real.tail(40), real, schema)
    return validity.measure(replace(tables, offered=Rows.of(offered, schema)))


def by_name(result: MetricResult) -> dict[tuple[str, tuple[str, ...]], Estimate]:
    return {(estimate.measure, estimate.subject): estimate for estimate in result.estimates}


def spoiled(column: str, bad: Any) -> pd.DataFrame:
    frame = rows(50).astype({column: object})
    frame.loc[[3, 7], column] = [bad, bad]
    return frame


@pytest.mark.parametrize(
    ("column", "bad", "word"),
    [
        ("age", 17, "bounds"),
        ("age", "forty", "not numbers"),
        ("price", 0.123, "decimals"),
        ("color", "violet", "categories"),
        ("color", None, "missing"),
        ("since", pd.Timestamp("2021-06-01"), "bounds"),
        ("member", "perhaps", "tokens"),
    ],
)
def test_each_broken_rule_costs_its_row_and_is_named_without_its_value(column: str, bad: Any, word: str) -> None:
    result = by_name(measured(spoiled(column, bad)))
    whole, own = result["validity.rows", ()], result["validity.column", (column,)]
    assert whole.value == own.value == pytest.approx(0.96)
    assert repr(column) in whole.note and word in own.note and "2 of 50 rows" in own.note
    assert not isinstance(bad, str) or bad not in own.note


def test_a_row_that_breaks_a_constraint_is_invalid_though_each_of_its_values_is_valid() -> None:
    frame = rows(50)
    frame.loc[[3, 7], "price"] = 99.0
    frame.loc[[7, 9], "member"] = ~frame.loc[[7, 9], "member"]
    result = by_name(measured(frame, ORDER, PAIRS))
    assert result["validity.rows", ()].value == pytest.approx(0.94)
    for subject in (("price", "age"), ("color", "member")):
        broken = result["validity.constraint", subject]
        assert (broken.value, broken.reference) == (pytest.approx(0.96), 1.0)
    assert {e.value for (measure, _), e in result.items() if measure == "validity.column"} == {1.0}


@pytest.mark.parametrize(
    ("column", "bad", "broken"),
    [
        ("age", 5, ("price", "age")),
        ("age", None, ("price", "age")),
        ("color", "violet", ("color", "member")),
        ("key", "no key", ()),
    ],
)
def test_a_row_with_a_value_that_no_column_allows_keeps_no_constraint_on_it(column, bad, broken):
    result = by_name(measured(spoiled(column, bad), ORDER, PAIRS))
    for subject in (("price", "age"), ("color", "member")):
        assert result["validity.constraint", subject].value == pytest.approx(0.96 if subject == broken else 1.0)


def test_rows_that_repeat_a_key_are_counted_and_shown_without_their_values() -> None:
    frame = rows(50)
    frame.loc[7, ["color", "since"]] = frame.loc[3, ["color", "since"]]
    result = measured(frame, KEY)
    estimate = by_name(result)["validity.constraint", ("color", "since")]
    assert (estimate.value, estimate.reference) == (pytest.approx(0.96), 1.0) and estimate.floor < 1.0
    assert result.figures["validity"]["constraints"][0]["shapes"] == [
        {"shape": "2 rows hold the same values (level 2 of 'color', a time of 'since')", "n": 2}
    ]


def test_a_constraint_that_real_rows_break_is_said_to_be_wrong() -> None:
    real = rows(80).assign(since=pd.Timestamp("2020-03-01"))
    estimate = by_name(measured(rows(50), KEY, real=real))["validity.constraint", ("color", "since")]
    assert estimate.reference is not None and estimate.reference < 1.0
    assert estimate.note == "Fresh real rows break it, too: the constraint, or a limit of its columns, is wrong."


def test_rows_of_one_entity_are_no_independent_evidence() -> None:
    schema = build_schema({**CONTENT, "entity": "key"})
    real = rows(160).assign(key=[f"B{i // 4:02d}" for i in range(160)])
    tables = Tables.prepare(real.head(80), real.tail(80), real, schema)
    clean = validity.measure(tables).estimates[0]
    assert (clean.low, clean.high) == pytest.approx(clopper_pearson(40, 40))
    together, apart = real.astype({"age": object}), real.astype({"age": object})
    together.loc[:7, "age"] = 5
    apart.loc[::20, "age"] = 5
    for frame, interval in ((together, clopper_pearson(38, 40)), (apart, clopper_pearson(152, 160))):
        result = validity.measure(replace(tables, offered=Rows.of(frame, schema))).estimates[0]
        assert result.value == pytest.approx(0.95)
        assert (result.low, result.high) == pytest.approx(interval, abs=0.005)


@pytest.mark.parametrize("share", [0.005, 0.3])
def test_intervals_of_rows_that_go_wrong_together_by_entity_cover_95_percent(share: float) -> None:
    covered = 0
    for seed in range(1_000):
        rng = np.random.default_rng(seed)
        units = np.repeat(np.arange(300), rng.integers(1, 8, 300))
        flags = (rng.random(300) < share)[units]
        estimate = validity.share("validity.rows", ViolationCounts.of(flags, units), (), "")
        covered += estimate.low <= 1 - share <= estimate.high  # type: ignore[operator]
    assert 930 <= covered <= 970


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


@pytest.mark.parametrize("column", SAME)
def test_an_equal_value_in_another_form_is_equal_and_what_may_be_two_values_is_none(column: str) -> None:
    _, equal, other = SAME[column]
    for cell in [*equal, *other]:
        frame = pd.DataFrame({name: [forms[0]] * 3 for name, forms in SAME.items()}, dtype=object)
        frame.loc[1, column] = cell
        shown, counts = translate(frame, FORMS)
        known = conform(shown, FORMS, outside="clamp")[column]
        assert known[[0]].equals(known[[1]].set_axis([0])) == (cell in equal), cell
        stands_as_it_is = not faulty(frame, FORMS)[1]
        assert sum(counts.get(column, {}).values()) == (cell in equal and not stands_as_it_is), cell
        assert frame[column][1] is cell, "what was handed over is not changed"


def test_landmarks_are_of_real_rows_as_they_were_before_any_was_clamped() -> None:
    real = pd.concat([rows(80)] * 10, ignore_index=True).assign(
        key=[f"{a}{i:02d}" for a in "ABCDEFGH" for i in range(100)]
    )
    real.loc[real.index[::5], "age"] = 200
    real.loc[real.index[::10], "color"] = "violet"
    tables = Tables.prepare(real.head(400), real.tail(400), rows(50), build_schema(CONTENT), outside="clamp")
    result = {estimate.subject: estimate for estimate in validity.measure(tables).estimates}
    assert (result[("age",)].reference, result[("age",)].floor) == (0.8, 0.8)
    assert result[("color",)].reference == 0.9
    assert result[()].reference == 0.8, "rows with both count once"
    assert result[()].floor == pytest.approx(0.8 * 0.9, abs=0.04), "shuffled, they fall apart"


YEAR = ["2020-01-01T00:00:00", "2020-12-31T00:00:00"]
SCHEMA: dict[str, Any] = {
    "status": "declared",
    "columns": {
        "low": {"kind": "integer", "bounds": [0, 100]},
        "high": {"kind": "real", "bounds": [0, 200], "decimals": 1},
        "net": {"kind": "real", "bounds": [0, 300], "missing": True},
        "town": {"kind": "categorical", "categories": ["Wien", "Ålesund"]},
        "ill": {"kind": "boolean"},
        "start": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "end": {"kind": "datetime", "bounds": YEAR},
        "until": {"kind": "datetime", "bounds": YEAR},
    },
}


def shapes_of(rows: dict[str, Any], **constraint: Any) -> list[tuple[str, int]]:
    schema = build_schema({**SCHEMA, "constraints": [constraint]})
    return shapes(pd.DataFrame(rows), schema.constraints[0], schema)


def whole(*values: int) -> Any:
    return pd.array(values, dtype="Int64")


BETWEEN = {"kind": "inequality", "low": "low", "high": "high"}
NIGHT = {"end": pd.to_datetime(["2020-03-17 00:10"]), "until": pd.to_datetime(["2020-03-16 22:47"])}
SHAPES: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, int]]]] = [
    ({"low": whole(93, 94, 40), "high": [10.0, 11.0, 39.9]}, BETWEEN, [
        ("'low' is above 'high' by about 40% of the range of both", 2),
        ("'low' is above 'high' by about 0.05% of the range of both", 1)]),
    ({"low": whole(7), "high": [7.0]}, {**BETWEEN, "strict": True}, [("'low' equals 'high'", 1)]),
    ({"start": pd.to_datetime(["2020-03-17"] * 2), "end": pd.to_datetime(["2020-03-04 11:00", "2020-03-16 22:47"])},
     {"kind": "inequality", "low": "start", "high": "end"}, [
        ("'start' is above 'end' by about 1 days", 1), ("'start' is above 'end' by about 10 days", 1)]),
    (NIGHT, {"kind": "inequality", "low": "end", "high": "until"}, [("'end' is above 'until' by about 1 hours", 1)]),
    (NIGHT, {"kind": "inequality", "low": "end", "high": "until", "by_day": True},
     [("'end' is above 'until' by about 1 days", 1)]),
    ({"town": ["Ålesund", "Ålesund", "Graz 7"], "low": whole(17, 42, 9), "ill": [True] * 3},
     {"kind": "fixed_combinations", "columns": ["town", "low", "ill"], "combinations": [["Wien", 1, False]]}, [
        ("the combination (level 2 of 'town', 99 of 'low', 'ill' true or false) is not listed", 2),
        ("the combination (Aaaa 9 of 'town', 9 of 'low', 'ill' true or false) is not listed", 1)]),
    ({"low": whole(10, 10, 10), "net": [87.5, np.nan, 0.0]},
     {"kind": "formula", "column": "net", "expression": "2 * low"}, [
        ("'net' is above what its formula gives by about 20% of its range", 1),
        ("'net' is below what its formula gives by about 7% of its range", 1),
        ("'net' is missing where its formula gives a value", 1)]),
    ({"town": ["Wien"] * 3, "start": pd.to_datetime(["2020-03-17"] * 3)},
     {"kind": "unique", "columns": ["town", "start"]},
     [("3 rows hold the same values (level 1 of 'town', a time of 'start')", 3)]),
    ({"low": whole()}, {"kind": "unique", "columns": ["low"]}, []),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "constraint", "expected"), SHAPES)
def test_a_shape_tells_how_a_constraint_is_broken_and_no_value(rows: Any, constraint: Any, expected: Any) -> None:
    assert shapes_of(rows, **constraint) == expected


@pytest.mark.parametrize(
    ("text", "masked"), [("", ""), ("Ünal-37", "Aaaa-99"), ("漢字 ٣", "aa 9"), ("x" * 40, "a" * 24 + "..."), ("²", "9")]
)
def test_texts_keep_their_form_alone(text: str, masked: str) -> None:
    assert form(text) == masked
