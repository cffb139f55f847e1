"""A small population with five columns that hang together, and the tables of an evaluation drawn from it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import Schema, build_schema
from synth.table import conform

SCHEMA = build_schema(
    {
        "status": "declared",
        "columns": {
            "color": {"kind": "categorical", "categories": list("abcdef")},
            "shape": {"kind": "categorical", "categories": list("uvwxyz"), "missing": True},
            "flag": {"kind": "boolean"},
            "length": {"kind": "real", "bounds": [-10, 10]},
            "count": {"kind": "integer", "bounds": [0, 50]},
        },
    }
)
_COMMON = np.cumsum([0.4, 0.25, 0.15, 0.1, 0.06])
_RARE = np.cumsum([0.04, 0.06, 0.1, 0.15, 0.25])

Population = Callable[..., pd.DataFrame]


def _population(n: int, rng: np.random.Generator, *, strength: float = 1.0, tilt: float = 0.0) -> pd.DataFrame:
    """Rows with a hidden class that each column follows with probability `strength`; `tilt` moves the margins."""
    hidden = rng.random(n) < 0.5
    follows = [np.where(rng.random(n) < strength, hidden, rng.random(n) < 0.5) for _ in range(5)]
    draws = [rng.random(n) ** (1 + tilt) for _ in range(2)]
    color, shape = (
        np.where(f, np.searchsorted(_COMMON, u), np.searchsorted(_RARE, u))
        for f, u in zip(follows[:2], draws, strict=True)
    )
    letters = np.array(list("uvwxyz"), dtype=object)[shape]
    frame = pd.DataFrame(
        {
            "color": np.array(list("abcdef"), dtype=object)[color],
            "shape": np.where(rng.random(n) < 0.1, None, letters),
            "flag": rng.random(n) < np.where(follows[2], 0.7, 0.2),
            "length": np.clip(rng.normal(size=n) + follows[3] * 1.5 + tilt * 0.5, -10, 10),
            "count": np.clip(rng.poisson(np.where(follows[4], 6, 3) + tilt, n), 0, 50),
        }
    )
    return conform(frame, SCHEMA)


def make_tables(
    train: pd.DataFrame, fresh: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, seed: int = 0
) -> Tables:
    """Tables with a chosen fresh sample, which is the whole holdout."""
    synthetic_rows = conform(synthetic, schema, outside="clamp")
    shuffled = shuffle_columns(train, np.random.default_rng([seed, 99]))
    return Tables(schema, schema, train, *halved(fresh), shuffled, seed, synthetic=synthetic_rows)


def halved(holdout: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two halves of a holdout."""
    return holdout.iloc[::2].reset_index(drop=True), holdout.iloc[1::2].reset_index(drop=True)


@pytest.fixture(scope="session")
def population() -> Population:
    return _population


@pytest.fixture(scope="session")
def schema() -> Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def tables_of() -> Callable[..., Tables]:
    return make_tables


@pytest.fixture
def tables() -> Tables:
    """A synthetic table that follows the population half the time."""
    rng = np.random.default_rng(5)
    train, fresh = _population(900, rng), _population(400, rng)
    return make_tables(train, fresh, _population(700, rng, strength=0.5, tilt=0.2), SCHEMA)


@pytest.fixture
def offer(tables: Tables) -> Callable[[pd.DataFrame], Tables]:
    """The same tables with other synthetic rows."""

    def given(synthetic: pd.DataFrame) -> Tables:
        return replace(tables, synthetic=conform(synthetic, tables.schema, outside="clamp"))

    return given


@pytest.fixture(scope="session")
def tables_with_entities() -> Tables:
    """Persons with four rows each, two of whose values are the person's own."""
    rng = np.random.default_rng(6)
    schema = build_schema(
        {
            "status": "declared", "entity": "person", "max_rows_per_unit": 9,
            "columns": {
                "person": {"kind": "identifier", "bounds": [0, 10**6]},
                "size": {"kind": "real", "bounds": [-99, 99]},
                "color": {"kind": "categorical", "categories": list("abc")},
                "visit": {"kind": "real", "bounds": [-99, 99]},
            },
        }
    )  # fmt: skip

    def rows(n: int, first: int) -> pd.DataFrame:
        person = np.repeat(np.arange(n), 4)
        size, color = rng.standard_normal(n), rng.choice(list("abc"), n)
        own = pd.DataFrame({"person": person + first, "size": size[person], "color": color[person]})
        return conform(own.assign(visit=rng.standard_normal(4 * n)), schema)

    return make_tables(rows(60, 0), rows(40, 100), rows(50, 0), schema)
