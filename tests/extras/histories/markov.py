"""Histories of a known law: a Markov chain of states, a number that follows itself, days with gaps, and constants."""

import numpy as np
import pandas as pd

from synth.schema import build_schema

STATES = ("calm", "warm", "hot", "spent")
TRANSITIONS = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.5, 0.3, 0.1], [0.0, 0.2, 0.5, 0.3], [0.6, 0.1, 0.0, 0.3]])
AUTOCORRELATION = 0.8
SCHEMA = build_schema({
    "status": "declared", "target": "state", "entity": "machine", "order": "day", "max_rows_per_unit": 40,
    "constant_in_entity": ["site"], "nondecreasing_in_entity": ["hours"],
    "columns": {
        "machine": {"kind": "identifier", "bounds": [0, 10**9]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2030-12-31"]},
        "state": {"kind": "categorical", "categories": list(STATES)},
        "reading": {"kind": "real", "bounds": [-50, 50], "decimals": 3},
        "hours": {"kind": "integer", "bounds": [0, 100_000]},
        "site": {"kind": "categorical", "categories": ["north", "south", "east"]},
    },
})  # fmt: skip


def markov(n: int, seed: int, first: int = 0) -> pd.DataFrame:
    """Histories of n machines, numbered from `first` on, with 1 to about 20 rows each."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(0.25, n), 40)
    state, reading = rng.integers(0, 4, n), rng.standard_normal(n) * 5
    day, hours = rng.integers(0, 300, n), rng.integers(0, 500, n)
    site, parts = rng.choice(["north", "south", "east"], n), []
    for rank in range(int(lengths.max())):
        there = np.flatnonzero(lengths > rank)
        parts.append(pd.DataFrame({
            "machine": first + there, "day": np.datetime64("2020-01-01") + day[there], "state": state[there],
            "reading": np.round(reading[there], 3), "hours": hours[there], "site": site[there],
        }))  # fmt: skip
        state = (rng.random(n)[:, None] > np.cumsum(TRANSITIONS[state], axis=1)).sum(axis=1).clip(max=3)
        reading = AUTOCORRELATION * reading + rng.standard_normal(n) * 5 * np.sqrt(1 - AUTOCORRELATION**2)
        day, hours = day + 1 + rng.geometric(0.1, n), hours + rng.integers(0, 50, n)
    table = pd.concat(parts, ignore_index=True)
    table["state"] = np.array(STATES, dtype=object)[table["state"]]
    return table.assign(day=table["day"].astype("datetime64[us]"))


def dealt(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    owners = np.random.default_rng(seed).permutation(table["machine"].to_numpy())
    return table.assign(machine=owners)
