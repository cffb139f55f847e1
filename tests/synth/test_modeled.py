"""Columns that are modeled as what is left of a formula: exact in every row, by every generator, and free of charge."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.domain.counted_form import from_counted, to_counted
from synth.schema import Schema, build_schema
from synth.table import conform

N, DAYS = 400, ["2020-01-01", "2022-12-31"]
LANGUAGES = {"de": "deu", "fr": "fra", "it": "ita"}
COLUMNS: dict[str, dict[str, Any]] = {
    "admitted": {"kind": "date", "bounds": DAYS},
    "stay": {"kind": "integer", "bounds": [0, 30]},
    "discharged": {"kind": "date", "bounds": DAYS},
    "paid": {"kind": "date", "bounds": DAYS},
    "price": {"kind": "real", "bounds": [0, 300], "decimals": 2},
    "n": {"kind": "integer", "bounds": [1, 8]},
    "total": {"kind": "real", "bounds": [0, 2400], "decimals": 2, "missing": True},
    "gross": {"kind": "real", "bounds": [0, 400], "decimals": 2},
    "country": {"kind": "categorical", "categories": list(LANGUAGES)},
    "language": {"kind": "categorical", "categories": list(LANGUAGES.values())},
    "visit": {"kind": "datetime", "bounds": ["2020-12-28T00:00:00", "2022-01-02T00:00:00"], "precision": "min"},
    "low": {"kind": "integer", "bounds": [0, 1000], "missing": True},
    "high": {"kind": "integer", "bounds": [0, 1200]},
}
NONE_LEFT = {"kind": "real", "bounds": [0, 0], "decimals": 2, "missing": True}
MODELED: dict[str, dict[str, Any]] = {
    "discharged": {"expression": "admitted + stay", "unit": "day", "column": {"kind": "integer", "bounds": [0, 0]}},
    "paid": {"expression": "admitted", "unit": "day"},
    "total": {"expression": "price * n", "column": NONE_LEFT},
    "gross": {
        "expression": "price",
        "left": "ratio",
        "column": {"kind": "real", "bounds": [1, 1.5], "spikes": [1.1, 1.2]},
    },
    "language": {"by": "country", "usual": [list(pair) for pair in LANGUAGES.items()]},
    "visit": {"parts": True},
    "high": {"expression": "low", "alone": True},
}
LAWS = [{"kind": "inequality", "low": low, "high": high} for low, high in (("low", "high"), ("admitted", "paid"))]


def modeled(only: tuple[str, ...] = tuple(MODELED), **more: Any) -> Schema:
    """The schema in which some columns are modeled."""
    columns = {
        name: {**column, "modeled": MODELED[name]} if name in only else column for name, column in COLUMNS.items()
    }
    return build_schema({"status": "declared", "n_units": N, "columns": columns, "constraints": LAWS, **more})


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    admitted = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"))
    stay, price, pieces = (
        rng.geometric(0.2, n).clip(0, 30),
        np.round(rng.gamma(3, 10, n), 2).clip(1, 300),
        rng.integers(1, 9, n),
    )
    country = pd.Series(rng.choice(list(LANGUAGES), n))
    minutes = pd.to_timedelta(rng.integers(480, 1080, n), "min")
    day = rng.integers(0, 50, n) * 7 + rng.choice(5, n) + 3  # from a Monday on
    low = pd.Series(np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 1000, n)))
    return pd.DataFrame(
        {
            "admitted": admitted,
            "stay": stay,
            "discharged": admitted + pd.to_timedelta(stay, "D"),
            "paid": admitted + pd.to_timedelta(rng.gamma(2, 5, n).round(), "D"),
            "price": price,
            "n": pieces,
            "total": np.where(rng.random(n) < 0.02, np.nan, np.round(price * pieces, 2)),
            "gross": np.round(price * np.where(rng.random(n) < 0.8, 1.2, 1.1), 2),
            "country": country,
            "language": country.map(LANGUAGES).where(rng.random(n) > 0.1, "ita"),
            "visit": pd.Timestamp("2021-01-01") + pd.to_timedelta(day, "D") + minutes,
            "low": low.astype("Int64"),
            "high": (low.fillna(500) + rng.integers(0, 20, n)).astype("Int64"),
        }
    )  # fmt: skip


def kept(rows: pd.DataFrame) -> dict[str, float]:
    """Share of rows that keep each relation."""
    times = {name: pd.to_datetime(rows[name]) for name in ("admitted", "discharged", "paid", "visit")}
    ratio = rows["gross"] / rows["price"]
    flags = {
        "discharged": (times["discharged"] - times["admitted"]).dt.days == rows["stay"],
        "paid": times["paid"] >= times["admitted"],
        "total": rows["total"].isna() | np.isclose(rows["total"], rows["price"] * rows["n"], atol=0.0051),
        "gross": np.abs(ratio - ratio.round(1)) * rows["price"] < 0.0051,
        "language": rows["language"] == rows["country"].map(LANGUAGES),
        "visit": (times["visit"].dt.weekday < 5) & times["visit"].dt.hour.between(8, 17),
        "high": rows["low"].isna() | (rows["high"] >= rows["low"]),
    }
    return {name: float(np.mean(flag)) for name, flag in flags.items()}


@pytest.mark.parametrize("name", MODELED)
def test_rows_come_back_from_their_counted_form_as_they_were(name: str) -> None:
    schema = modeled((name,))
    rows = conform(table(), schema)
    counted = to_counted(rows, schema)
    assert list(counted) == list(schema.counted.columns)
    columns: Any = {each: rows[each] for each in schema.columns if each != name}
    assert not from_counted(columns, counted, schema).any()
    pd.testing.assert_series_equal(columns[name], rows[name], check_names=False)


@pytest.mark.parametrize(
    ("generator", "epsilon"), [("trees", None), ("aim", None), ("mst", 3.0), ("latent_class", 3.0)]
)
def test_relations_hold_in_the_rows_of_every_generator(generator: str, epsilon: float | None) -> None:
    rows = table(2000)
    parameters = {} if epsilon is None else {"epsilon": epsilon}
    model = synth.fit(rows, modeled(), generator, **parameters)
    assert model.schema == modeled()
    real, synthetic = kept(rows), kept(model.sample(1000, seed=1))
    exact = ("discharged", "paid", "total", "high")
    assert [synthetic[name] for name in exact] == [1.0] * len(exact)
    assert all(synthetic[name] > real[name] - 0.08 for name in ("gross", "language", "visit")), synthetic
