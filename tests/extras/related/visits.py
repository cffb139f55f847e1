"""Two related tables, patients and their visits: how many visits there are, and how they go on, depends on the sex."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

MEAN_VISITS = {"f": 0.8, "m": 3.0}
STAYS_ILL = {"f": 0.8, "m": 0.2}  # the chance that a visit of somebody ill follows one of somebody ill
MOST_VISITS = 8
KEY = {"kind": "identifier", "template": "P-######"}


def pair(n: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Patients, of whom some have no visit, and their visits; both in no order."""
    rng = np.random.default_rng(seed)
    sexes, ages = rng.choice(["f", "m"], n), rng.integers(20, 90, n)
    counts = np.minimum(rng.poisson([MEAN_VISITS[sex] for sex in sexes]), MOST_VISITS)
    owners = np.repeat(np.arange(n), counts)
    ill, days = np.zeros(len(owners), dtype=bool), np.zeros(len(owners), dtype=np.int64)
    for at, owner in enumerate(owners):
        follows = at > 0 and owners[at - 1] == owner
        stays = STAYS_ILL[sexes[owner]]
        ill[at] = rng.random() < ((stays if ill[at - 1] else 1 - stays) if follows else 0.5)
        days[at] = (days[at - 1] + 1 if follows else 0) + rng.integers(0, 60)
    names = np.array([f"P-{number:06d}" for number in range(n)])
    patients = pd.DataFrame({"who": names, "sex": sexes, "age": ages})
    visits = pd.DataFrame({
        "who": names[owners], "day": np.datetime64("2020-01-01", "us") + days * np.timedelta64(1, "D"), "ill": ill,
        "weight": np.round(50 + ages[owners] / 2 + rng.normal(0, 3, len(owners)), 1),
    })  # fmt: skip
    orders = (rng.permutation(len(table)) for table in (patients, visits))
    first, second = (table.iloc[o].reset_index(drop=True) for table, o in zip((patients, visits), orders, strict=True))
    return first, second


@cache
def schemas(n_units: int | None = None, dataset: str | None = None) -> tuple[Schema, Schema]:
    public = {"status": "declared", "n_units": n_units, "dataset": dataset}
    sex = {"kind": "categorical", "categories": ["f", "m"]}
    return (
        build_schema(public | {"columns": {"who": KEY, "sex": sex, "age": {"kind": "integer", "bounds": [0, 110]}}}),
        build_schema(public | {
            "entity": "who", "order": "day", "max_rows_per_unit": MOST_VISITS, "target": "ill",
            "columns": {
                "who": KEY, "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"]},
                "ill": {"kind": "boolean"}, "weight": {"kind": "real", "bounds": [20, 150], "decimals": 1},
            },
        }),
    )  # fmt: skip


def changed(schema: Schema, **changes: Any) -> Schema:
    return Schema.model_validate({**dict(schema), **changes})


def visits_of(patients: pd.DataFrame, visits: pd.DataFrame) -> pd.Series:
    return visits["who"].value_counts().reindex(patients["who"]).fillna(0).astype(int).reset_index(drop=True)


def stays_ill(patients: pd.DataFrame, visits: pd.DataFrame, sex: str) -> float:
    """The share of those who are ill at the next visit, among visits of somebody ill."""
    own = visits[visits["who"].isin(patients["who"][patients["sex"] == sex])].sort_values(["who", "day"])
    before = own.groupby("who")["ill"].shift(1)
    return float(own["ill"][before == True].mean())  # noqa: E712 - of the first visit there is none before
