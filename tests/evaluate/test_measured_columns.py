"""Domains that nobody declared: an evaluation reads them off the real tables, and every measure works."""

from typing import Any

import numpy as np
import pandas as pd

from evaluate.engine import measure_candidate
from evaluate.tables import Tables
from synth.schema import Schema, build_schema

KINDS: dict[str, dict[str, Any]] = {
    "age": {"kind": "integer"},
    "pay": {"kind": "real", "decimals": 1, "missing": True},
    "weight": {"kind": "weight"},
    "born": {"kind": "date"},
    "seen": {"kind": "datetime", "timezone": "Europe/Paris"},
    "town": {"kind": "categorical", "missing": True},
    "code": {"kind": "categorical", "whole_numbers": True},
    "never": {"kind": "real", "missing": True},
}


def schema() -> Schema:
    columns = {name: {**column, "measure": True} for name, column in KINDS.items()}
    return build_schema({"status": "declared", "target": "town", "columns": {**columns, "ill": {"kind": "boolean"}}})


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    day = np.datetime64("1950-01-01", "us") + age * np.timedelta64(100, "D")
    town = np.where(age > 60, "North", rng.choice(["South", "East"], n)).astype(object)
    town[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {
            "age": age,
            "pay": np.where(rng.random(n) < 0.1, np.nan, (age + rng.normal(0, 9, n)).round(1)),
            "weight": rng.uniform(0.5, 2, n),
            "born": day,
            "seen": pd.Series(day + rng.integers(0, 10**6, n) * np.timedelta64(1, "s")).dt.tz_localize("UTC"),
            "town": town,
            "code": rng.choice([3, 5, 12], n),
            "never": np.nan,
            "ill": rng.random(n) < age / 120,
        }
    )


def test_every_measure_runs_on_columns_of_every_kind() -> None:
    synthetic = rows(200, 2)
    synthetic.loc[:9, ["town", "age"]] = ["elsewhere", 500]
    candidate = measure_candidate("a", Tables.prepare(rows(200, 0), rows(150, 1), synthetic, schema()))
    assert {failure.reason for failure in candidate.failures} == {"skipped", "not applicable"}
    assert {failure.subject for failure in candidate.failures} == {(), ("never",)}
    assert all(find is not None for find in map(candidate.find, ("columns.tvd.excess", "pairs.tvd.excess")))


def test_domains_come_from_both_real_tables_and_never_from_the_synthetic_one() -> None:
    train, holdout, synthetic = rows(100, 0), rows(100, 1).assign(age=99), rows(100, 2).assign(age=500, code=77)
    tables = Tables.prepare(train, holdout, synthetic, schema())
    age, code = (tables.schema.columns[name] for name in ("age", "code"))
    assert age.model_dump()["bounds"] == (train["age"].min(), 99)
    assert code.model_dump()["categories"] == (3, 5, 12)
    assert tables.synthetic["age"].eq(99).all()
