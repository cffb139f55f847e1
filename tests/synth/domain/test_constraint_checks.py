"""Rows that keep constraints and rows that break them, kind by kind, and columns computed by a formula."""

import datetime as dt
from typing import Any

import pandas as pd

from synth.constraints import Formula
from synth.domain.constraint_checks import broken, compute
from synth.schema import build_schema
from synth.table import conform

TIMES = ["2020-01-01T00:00:00", "2021-01-01T00:00:00"]
Rows = dict[str, list[Any]]
COLUMNS: dict[str, Any] = {
    "n": {"kind": "integer", "bounds": [0, 100], "missing": True},
    "x": {"kind": "real", "bounds": [0, 100], "decimals": 2, "missing": True},
    "made": {"kind": "real", "bounds": [-5, 60], "decimals": 1, "missing": True},
    "whole": {"kind": "integer", "bounds": [0, 50]},
    "free": {"kind": "real", "bounds": [0, 0.3], "missing": True},
    "word": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "code": {"kind": "categorical", "categories": [7, 8], "missing": True},
    "yes": {"kind": "boolean", "missing": True},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"], "missing": True},
    "time": {"kind": "datetime", "bounds": ["1960-01-01T00:00:00", TIMES[1]], "missing": True},
    "other": {"kind": "datetime", "bounds": ["1960-01-01T00:00:00", TIMES[1]]},
    "paris": {"kind": "datetime", "bounds": TIMES, "missing": True, "timezone": "Europe/Paris"},
    "anywhere": {"kind": "datetime", "bounds": TIMES, "missing": True, "timezone": "mixed"},
}


def flags(constraint: dict[str, Any], rows: Rows) -> list[bool]:
    used = {name: COLUMNS[name] for name in rows}
    schema = build_schema({"status": "declared", "columns": used, "constraints": [constraint]})
    frame = conform(pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in rows.items()}), schema)
    found: list[bool] = broken(frame, schema.constraints[0], schema.columns).tolist()
    return found


def test_numbers_are_compared_and_missing_ones_break_nothing() -> None:
    rows: Rows = {"n": [1, 2, 3, None, 3], "x": [1.5, 2.0, 2.99, 0.0, None]}
    constraint = {"kind": "inequality", "low": "n", "high": "x"}
    assert flags(constraint, rows) == [False, False, True, False, False]
    assert flags({**constraint, "strict": True}, rows) == [False, True, True, False, False]


def test_beside_a_date_a_time_counts_as_its_day() -> None:
    rows: Rows = {
        "day": ["2020-05-02"] * 5,
        "time": ["2020-05-01T23:59:59", "2020-05-02T00:00:00", "2020-05-02T09:00:00", "2020-05-03T00:00:00", None],
    }
    after = {"kind": "inequality", "low": "day", "high": "time"}
    assert flags(after, rows) == [True, False, False, False, False]
    # Within one day nothing comes first: a midnight has no claim to be earlier than nine o'clock.
    assert flags({**after, "strict": True}, rows) == [True, True, True, False, False]
    before = {"kind": "inequality", "low": "time", "high": "day"}
    assert flags(before, rows) == [False, False, False, True, False]
    assert flags({**before, "strict": True}, rows) == [False, True, True, True, False]


def test_days_of_two_times_are_compared_where_it_is_asked_for() -> None:
    rows: Rows = {
        "time": ["2020-05-02T09:00:00", "2020-05-02T09:00:00", "2020-05-03T00:00:00", "1969-12-31T23:59:59"],
        "other": ["2020-05-02T00:00:00", "2020-05-01T23:00:00", "2020-05-02T23:59:59", "1969-12-31T00:00:00"],
    }
    constraint = {"kind": "inequality", "low": "time", "high": "other"}
    assert flags(constraint, rows) == [True, True, True, True]
    assert flags({**constraint, "by_day": True}, rows) == [False, True, True, False]


def test_times_of_zones_are_compared_as_instants() -> None:
    noon = dt.datetime(2020, 6, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    rows: Rows = {"paris": [f"2020-06-01T{hour}:00:00+02:00" for hour in ("08", "09", "10")], "anywhere": [noon] * 3}
    assert flags({"kind": "inequality", "low": "paris", "high": "anywhere"}, rows) == [False, False, True]


def test_combinations_are_of_texts_whole_numbers_and_booleans_together() -> None:
    rows: Rows = {
        "word": ["a", "a", "b", None, "b"],
        "code": [7, 8, 8, 8, 8],
        "yes": [True, True, False, True, True],
        "n": [1, 1, 2, 3, 2],
    }
    listed = [["a", 7, True, 1], ["b", 8, False, 2]]
    constraint = {"kind": "fixed_combinations", "columns": list(rows), "combinations": listed}
    assert flags(constraint, rows) == [False, True, False, False, True]


def test_a_formula_holds_to_the_precision_of_its_column() -> None:
    rows: Rows = {"n": [10, 10, 10, 10, None, None], "x": [3.25] * 6, "made": [6.7, 6.8, 6.6, None, None, 6.8]}
    constraint = {"kind": "formula", "column": "made", "expression": "n - x"}
    # 10 - 3.25 = 6.75 is a tie: 6.7 and 6.8 both round it.
    assert flags(constraint, rows) == [False, False, True, True, False, True]


def computed(column: str, expression: str, rows: Rows) -> tuple[list[Any], list[bool]]:
    used = {name: COLUMNS[name] for name in (*rows, column)}
    formula = {"kind": "formula", "column": column, "expression": expression}
    schema = build_schema({"status": "declared", "columns": used, "constraints": [formula]})
    frame = pd.DataFrame(
        {name: conform(pd.DataFrame({name: cells}), _alone(name))[name] for name, cells in rows.items()}
    )
    constraint = schema.constraints[0]
    assert isinstance(constraint, Formula)
    series, unlawful = compute(frame, constraint, schema.columns)
    lawful = frame.assign(**{column: series})[~unlawful]
    assert not broken(lawful, constraint, schema.columns).any()
    values: list[Any] = series.astype(object).where(series.notna(), None).tolist()
    return values, unlawful.tolist()


def _alone(name: str) -> Any:
    return build_schema({"status": "declared", "columns": {name: COLUMNS[name]}})


def test_a_computed_column_is_rounded_and_missing_where_an_operand_is() -> None:
    rows: Rows = {"n": [10, 1, None], "x": [3.26, 0.34, 1.0]}
    assert computed("made", "n - x", rows) == ([6.7, 0.7, None], [False, False, False])
    assert computed("whole", "n + x", rows)[0][:2] == [13, 1]


def test_a_value_beyond_the_bounds_or_missing_where_it_may_not_be_is_not_lawful() -> None:
    rows: Rows = {"n": [70, 0, 60, None], "x": [0.0, 5.5, 0.04, 1.0]}
    assert computed("made", "n - x", rows)[1] == [True, True, False, False]
    assert computed("whole", "n / x", {"n": [1, 1], "x": [0.0, 1.0]})[1] == [True, False]


def test_float_noise_at_a_bound_is_no_reason_to_reject() -> None:
    values, unlawful = computed("free", "x + n / 5", {"n": [1, 1], "x": [0.1, 0.11]})
    assert unlawful == [False, True]
    assert values[0] == 0.3


def test_values_beyond_64_bits_are_rejected_and_not_wrapped_around() -> None:
    rows: Rows = {"n": [100, 2], "x": [100.0, 1.0]}
    assert computed("whole", "*".join(["n * x"] * 8), rows)[1] == [True, True]
    assert computed("whole", "n + 1e300 * (x - 1)", rows)[1] == [True, False]
