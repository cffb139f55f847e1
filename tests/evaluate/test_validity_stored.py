"""Validity of a stored table: the numbers and the words of memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.tables import Tables
from evaluate.validity import stored as validity_stored
from evaluate.validity import validity
from evaluate.validity.stored import measure_stored
from synth.schema import build_schema
from synth.stored import open_table
from synth.table import read_table
from tests.synth.postgres import server  # noqa: F401
from tests.synth.stored.conftest import put, spark  # noqa: F401

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P##"},
    "key": {"kind": "identifier", "bounds": [0, 10_000]},
    "age": {"kind": "integer", "bounds": [18, 90]},
    "price": {"kind": "real", "bounds": [0, 100], "decimals": 2, "missing": True},
    "tax": {"kind": "real", "bounds": [0, 50], "decimals": 1, "missing": True},
    "ratio": {"kind": "real", "bounds": [-1e6, 1e6], "missing": True},
    "color": {"kind": "categorical", "categories": ["red", "green"]},
    "level": {"kind": "categorical", "categories": [1, 2, 3]},
    "since": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
    "seen": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "precision": "us"},
    "member": {"kind": "boolean"},
    "mail": {"kind": "personal", "personal": "email", "unique": True, "missing": True},
}
CONSTRAINTS = [
    {"kind": "inequality", "low": "price", "high": "age"},
    {"kind": "inequality", "low": "since", "high": "seen", "strict": True},  # on a later day
    {"kind": "fixed_combinations", "columns": ["color", "member", "level"],
     "combinations": [["red", True, 1], ["red", True, 2], ["green", False, 3], ["green", False, 1]]},
    {"kind": "formula", "column": "tax", "expression": "price * 0.1"},
    {"kind": "formula", "column": "ratio", "expression": "age / (price - 50)"},
    {"kind": "unique", "columns": ["color", "level", "since"]},
]  # fmt: skip


def _rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    price = rng.integers(0, 1800, n) / 100
    age = rng.integers(18, 91, n)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) // 4 % 360, unit="D")
    color = np.tile(["red", "red", "green", "green"], n)[:n]
    return pd.DataFrame(
        {
            "who": [f"P{i // 3 % 100:02d}" for i in range(n)], "key": np.arange(n), "age": age, "price": price,
            "tax": np.round(price * 0.1, 1), "ratio": age / (price - 50), "color": color,
            "level": np.tile([1, 2, 3, 1], n)[:n], "since": since.date, "seen": since + pd.Timedelta("24h"),
            "member": color == "red", "mail": [f"m{i}@example.org" for i in range(n)],
        }
    )  # fmt: skip


def _broken(n: int) -> pd.DataFrame:
    """Rows that break every rule, some of them several at once, and some of one entity together."""
    rows = _rows(n)
    rows.loc[[3, 4], "age"] = [5, 200]
    rows.loc[[7], "price"] = 0.123
    rows.loc[[8, 9], "price"] = np.nan
    rows.loc[[10], "price"] = 95.0
    rows.loc[[11], "price"] = np.inf
    rows.loc[[12], "tax"], rows.loc[[13], "tax"] = 40.0, np.nan
    rows.loc[[14], "price"], rows.loc[[15], "ratio"] = 50.0, 7.0
    rows.loc[[16, 17], "color"] = ["violet", None]
    rows.loc[[18], "level"] = 9
    rows.loc[[19], "level"] = 2
    rows.loc[[20, 21], "since"] = [pd.Timestamp("2021-01-01").date(), None]
    rows.loc[[22], "seen"] = pd.Timestamp(rows.loc[22, "since"])
    rows.loc[[23], "seen"] = pd.Timestamp("2020-01-01")
    rows.loc[[24, 26, 30], ["color", "level", "since", "member"]] = ["red", 1, rows.loc[0, "since"], True]
    # Of those that repeat each other any but one is at fault, so that all stand in one entity.
    rows.loc[[40, 43, 44], "mail"] = ["no mail", "m42@example.org", "m42@example.org"]
    rows.loc[[49, 50], "key"] = 48
    rows.loc[[60], "who"] = None
    return rows


def _tables(entity: str | None) -> Tables:
    columns = {name: column for name, column in COLUMNS.items() if entity or name != "who"}
    content = {"status": "declared", "entity": entity, "constraints": CONSTRAINTS, "columns": columns}
    schema = build_schema(content if entity is None else {**content, "max_rows_per_unit": 3})
    real = _rows(200, 1)[list(columns)]
    return Tables.prepare(real.head(100), real.tail(100), real, schema)


def _agree(here: Any, there: Any) -> None:
    assert len(here.estimates) == len(there.estimates)
    for one, other in zip(here.estimates, there.estimates, strict=True):
        assert (one.measure, one.subject, one.value, one.n, one.note) == (
            other.measure, other.subject, other.value, other.n, other.note,
        )  # fmt: skip
        assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-9)
        assert (one.reference, one.floor) == (other.reference, other.floor)
    assert here.figures == there.figures


@pytest.mark.parametrize("entity", [None, "who"])
def test_a_stored_table_is_judged_as_in_memory(put: Any, entity: str | None) -> None:  # noqa: F811
    tables = _tables(entity)
    rows = _broken(200)[list(tables.declared.kept)]
    here = validity.measure(replace(tables, offered=rows))
    assert sum(estimate.value < 1 for estimate in here.estimates) >= 14
    _agree(here, measure_stored(tables, put(rows).stored))


@pytest.mark.parametrize("entity", [None, "who"])
def test_a_stored_table_without_a_violation_is_judged_as_in_memory(put: Any, entity: str | None) -> None:  # noqa: F811
    tables = _tables(entity)
    rows = _rows(200)[list(tables.declared.kept)].assign(extra=1)
    here = validity.measure(replace(tables, offered=rows))
    there = measure_stored(tables, put(rows).stored)
    assert {estimate.value for estimate in here.estimates} == {1.0}
    _agree(here, there)


def test_texts_are_judged_as_in_memory(tmp_path: Path) -> None:
    tables = _tables("who")
    rows = _broken(200)
    rows["age"] = rows["age"].astype(object)
    rows.loc[[70, 71], "age"] = ["forty", "20.5"]
    rows["since"] = rows["since"].astype(object)
    rows.loc[[72], "since"] = "2020-02-30"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    here = validity.measure(replace(tables, offered=read_table(tmp_path / "rows.csv")))
    with open_table(tmp_path / "rows.csv") as stored:
        _agree(here, measure_stored(tables, stored))


def test_many_values_without_their_form_are_judged_as_in_memory(put: Any) -> None:  # noqa: F811
    tables = _tables(None)
    rows = _rows(5_300)[list(tables.declared.kept)]
    rows.loc[:5_200, "mail"] = [f"no mail {i}" for i in range(5_201)]
    here = validity.measure(replace(tables, offered=rows))
    assert min(e.value for e in here.estimates if e.subject == ("mail",)) == pytest.approx(99 / 5_300)
    _agree(here, measure_stored(tables, put(rows).stored))


def test_shapes_of_some_rows_say_of_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, rows = _tables("who"), _rows(200)
    rows["price"], rows["tax"] = 95.0, 9.5
    rows.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr(validity_stored, "SHOWN_ROWS", 50)
    with open_table(tmp_path / "rows.parquet") as stored:
        law = measure_stored(tables, stored).figures["validity"]["constraints"][0]
    assert law["n_broken"] > 50 and sum(shown["n"] for shown in law["shapes"]) <= 50
    assert all(shown["shape"].startswith("among 50 of them: ") for shown in law["shapes"])
