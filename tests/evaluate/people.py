"""A table of mixed columns that hang together, with missing values, and its declared schema."""

from typing import Any

import numpy as np
import pandas as pd

from synth.schema import build_schema

MIXED: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "real", "bounds": [0, 1e6], "decimals": 2, "missing": True},
    "region": {"kind": "categorical", "categories": ["north", "south", "east"], "missing": True},
    "since": {"kind": "date", "bounds": ["2000-01-01", "2030-12-31"]},
    "smoker": {"kind": "boolean"},
}
SCHEMA = build_schema({"status": "declared", "target": "smoker", "sensitive": ["region"], "columns": MIXED})


def rows(n: int, seed: int) -> pd.DataFrame:
    """Rows that hang together, with missing values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    smoker = rng.random(n) < np.where(age > 50, 0.6, 0.2)
    income = np.round(rng.lognormal(9, 0.5, n) * (1 + smoker), 2)
    region = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "region": np.where(rng.random(n) < 0.05, None, np.where(smoker & (rng.random(n) < 0.5), "south", region)),
            "since": pd.to_datetime("2010-01-01") + pd.to_timedelta(age * 40 + rng.integers(0, 99, n), unit="D"),
            "smoker": smoker,
        }
    )
