"""Tables for the measures of utility: a population with a known signal, and a schema for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.dp.statement import PrivacyStatement
from synth.schema import Schema, build_schema

COLUMNS: dict[str, Any] = {
    "group": {"kind": "categorical", "categories": ["p", "q", "r"], "missing": True},
    "sex": {"kind": "boolean"},
    "x": {"kind": "real", "bounds": [-5, 5], "missing": True},
    "hours": {"kind": "integer", "bounds": [0, 80], "bins": [0, 20, 40, 60, 81]},
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "y": {"kind": "categorical", "categories": ["no", "yes"]},
    "amount": {"kind": "real", "bounds": [-10, 10], "drop": True},
}
Maker = Callable[..., Tables]


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows with a strong signal in `x`, a weaker one in `group` and `hours`, none in `sex`."""
    code, x, hours = rng.integers(0, 3, n), rng.standard_normal(n).clip(-5, 5), rng.integers(0, 81, n)
    signal = 2 * x + code + hours / 40 + rng.logistic(size=n)
    return pd.DataFrame(
        {
            "group": np.where(rng.random(n) < 0.05, None, np.array(["p", "q", "r"], dtype=object)[code]),
            "sex": pd.array(rng.random(n) < 0.4, dtype="boolean"),
            "x": np.where(rng.random(n) < 0.05, np.nan, x),
            "hours": pd.array(hours, dtype="Int64"),
            "who": pd.array(np.arange(n) // 2, dtype="Int64"),
            "y": np.where(signal > 2.5, "yes", "no").astype(object),
            "amount": signal.clip(-10, 10),
        }
    )


def schema_of(target: str | None = "y", **roles: object) -> Schema:
    """A declared schema whose target is `y`, `amount` or none."""
    columns = dict(COLUMNS)
    if target == "amount":
        columns = {**columns, "amount": {**columns["amount"], "drop": False}, "y": {**columns["y"], "drop": True}}
    return build_schema({"status": "declared", "n_units": 2_000, "columns": columns, "target": target, **roles})


@pytest.fixture(scope="session")
def make() -> Maker:
    """Tables of independent draws; another synthetic table, schema, claim or seed where one is given."""

    def made(
        schema: Schema | None = None,
        synthetic: pd.DataFrame | Callable[[pd.DataFrame], pd.DataFrame] | None = None,
        *,
        n: int = 600,
        claim: PrivacyStatement | None = None,
        seed: int = 0,
    ) -> Tables:
        schema = schema or schema_of()
        frame = population(4 * n, np.random.default_rng([seed, 1]))[list(schema.kept)]
        train, fresh, control, other = (frame.iloc[i * n : (i + 1) * n].reset_index(drop=True) for i in range(4))
        offered = synthetic if isinstance(synthetic, pd.DataFrame) else other
        offered = synthetic(train.copy()) if callable(synthetic) else offered
        shuffled = shuffle_columns(train, np.random.default_rng(0))
        return Tables(schema, schema, train, fresh, control, shuffled, seed, synthetic=offered, claim=claim)

    return made


def values(measurement: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every estimate's value by name and subject."""
    return {(estimate.measure, estimate.subject): estimate.value for estimate in measurement.estimates}
