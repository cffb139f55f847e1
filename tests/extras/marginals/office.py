"""An office that publishes tables of people it made up: age in years, by region in groups of five, and by status."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

N = 20_000
REGIONS, STATUSES = ["north", "east", "south", "west"], ["child", "at work", "at home"]
SCHEMA = """status = "declared"
[columns.region]
kind = "categorical"
categories = ["north", "east", "south", "west"]
[columns.age]
kind = "integer"
bounds = [0, 99]
[columns.status]
kind = "categorical"
categories = ["child", "at work", "at home"]
"""
SCALES = {"age": 8.0, "region by age": 12.0, "age by status": 12.0}


def schema_of(**more: Any) -> Schema:
    columns: dict[str, Any] = {
        "region": {"kind": "categorical", "categories": REGIONS},
        "age": {"kind": "integer", "bounds": [0, 99]},
        "status": {"kind": "categorical", "categories": STATUSES},
    }
    return build_schema({"status": "declared", "columns": columns, **more})


def people(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    region = rng.choice(REGIONS, N, p=[0.2, 0.35, 0.3, 0.15])
    age = np.clip(rng.gamma(5, 9, N).astype(int) + np.where(region == "north", 6, 0), 0, 99)
    works = rng.random(N) < np.select([age < 30, age < 67], [0.35, 0.8], 0.12)
    return pd.DataFrame(
        {"region": region, "age": age, "status": np.where(age < 16, "child", np.where(works, *STATUSES[1:]))}
    )


def counts_of(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """All cells of a table; ages are in years where they stand alone, and in groups of five where they do not."""
    step = 1 if len(columns) == 1 else 5
    levels = {"region": REGIONS, "age": range(0, 100, step), "status": STATUSES}
    index = pd.MultiIndex.from_product([levels[name] for name in columns], names=columns)
    cells = frame.assign(age=frame["age"] // step * step).groupby(columns).size()
    cells.index = pd.MultiIndex.from_frame(cells.index.to_frame())
    return cells.reindex(index, fill_value=0).rename("value").reset_index()


def published(seed: int = 0, declared: Mapping[str, float] | None = None) -> dict[str, dict[str, Any]]:
    """Tables with noise of `SCALES`. `declared`: what the scales of some are said to be, over what they are."""
    rng, frame, tables = np.random.default_rng(1000 + seed), people(seed), {}
    for name, scale in SCALES.items():
        cells = counts_of(frame, name.split(" by "))
        cells["value"] += np.rint(rng.normal(0, scale, len(cells))).astype(int)
        stated = scale * (declared or {}).get(name, 1.0)
        tables[name] = {"cells": cells, "mechanism": "discrete gaussian", "scale": stated}
    return tables
