"""Tables of which it is known what a gate must say: honest rows, leaks of training rows, and garbage.

Every one is made from real rows alone, of the real table's own columns, so that any table serves. Garbage is made of
fresh rows: it copies nobody, so that what fails it is what was ruined. Where a case would say nothing about a table, it
gives the reason in place of rows: a column that it needs is not there, or what it copies is common property.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd

from benchmarks.leaking_tables import LEAKS
from benchmarks.ruined_tables import RUINS
from benchmarks.sides import Sides, Spoil

Must = Literal["honest", "leak", "garbage"]
"""No policy may FAIL an honest table, and every policy has to FAIL a leak and garbage."""
TABLES: Mapping[str, tuple[Must, Spoil]] = {
    "fresh real rows": ("honest", lambda sides, rng: sides.fresh),
    **{name: ("leak", spoil) for name, spoil in LEAKS.items()},
    **{name: ("garbage", spoil) for name, spoil in RUINS.items()},
}
"""By name."""


def make(name: str, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """One of `TABLES`, or why there is none: a reason of its own, or a ruin that leaves all rows as they were."""
    must, spoil = TABLES[name]
    spoiled = spoil(sides, rng)
    unchanged = must != "honest" and not isinstance(spoiled, str) and spoiled.equals(sides.fresh)
    return "it leaves the rows as they are" if unchanged else spoiled


def spoiled_table(name: str, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """One of `TABLES` by its name, made of a single sample."""
    spoiled = TABLES[name][1](Sides(rows, rows, rows), rng)
    if isinstance(spoiled, str):
        raise ValueError(f"{name}: {spoiled}")
    return spoiled
