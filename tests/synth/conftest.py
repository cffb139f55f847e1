"""One small table with every kind of column, as the packages below use it."""

import numpy as np
import pandas as pd
import pytest

from synth.schema import Schema, build_schema
from tests.synth.postgres import server  # noqa: F401

CONTENT = {
    "status": "declared",
    "n_units": 400,
    "target": "income",
    "columns": {
        "id": {"kind": "identifier", "template": "P-####"},
        "age": {"kind": "integer", "bounds": [17, 90]},
        "gain": {"kind": "real", "bounds": [0.0, 99_999.0], "decimals": 2, "scale": "log"},
        "weight": {"kind": "weight", "bounds": [0.5, 4.0]},
        "job": {"kind": "categorical", "categories": ["007", "NA", "clerk", "None"], "missing": True},
        "level": {"kind": "categorical", "categories": [1, 2, 7], "ordered": True},
        "married": {"kind": "boolean", "missing": True},
        "visited": {"kind": "date", "bounds": ["2011-03-28", "2019-07-08"], "missing": True},
        "seen": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"], "timezone": "Europe/Paris",
            "precision": "min",
        },
        "income": {"kind": "categorical", "categories": ["<=50K", ">50K"]},
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def schema() -> Schema:
    return build_schema(CONTENT)


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """400 canonical rows with structure: income follows age, gain is mostly zero, visits are missing for the young."""
    return make_frame(400, seed=0)


def make_frame(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, n)
    gain = np.where(rng.random(n) < 0.8, 0.0, np.round(rng.lognormal(7, 1, n).clip(0, 99_999), 2))
    job = rng.choice(np.array(["007", "NA", "clerk", "None", None], dtype=object), n)
    visited = np.datetime64("2011-03-28", "us") + rng.integers(0, 3024, n) * np.timedelta64(1, "D")
    seen = np.datetime64("2020-01-01", "us") + rng.integers(0, 500_000, n) * np.timedelta64(1, "m")
    return pd.DataFrame(
        {
            "id": pd.Series([f"P-{i:04d}" for i in range(n)], dtype=object),
            "age": pd.array(age, dtype="Int64"),
            "gain": gain,
            "weight": rng.uniform(0.5, 4.0, n),
            "job": job,
            "level": pd.array(rng.choice([1, 2, 7], n), dtype="Int64"),
            "married": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "visited": pd.Series(visited.astype("datetime64[us]")).mask(age < 30),
            "seen": pd.Series(seen.astype("datetime64[us]")).dt.tz_localize("UTC").dt.tz_convert("Europe/Paris"),
            "income": np.where(age + rng.normal(0, 10, n) > 50, ">50K", "<=50K").astype(object),
        }
    )
