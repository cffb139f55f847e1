"""Tables of histories whose law is known: patients by a Markov chain, and shoppers whose orders have times."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

STATES = ("dead", "ill", "ward", "well")
TRANSITIONS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0],
        [0.05, 0.70, 0.15, 0.10],
        [0.10, 0.15, 0.70, 0.05],
        [0.00, 0.15, 0.05, 0.80],
    ]
)
"""The chance of each state after each: the dead stay dead, and their history ends."""
KEPT = 0.7
"""The share of a number's distance from its patient's own level that is left a row later."""


def patients(n: int, seed: int = 0) -> pd.DataFrame:
    """Rows of `n` patients in no order."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(n):
        sex, level = "mf"[rng.integers(2)], rng.normal()
        state, value = int(rng.integers(1, 4)), level + rng.normal(0, 0.5)
        day = first = int(rng.integers(0, 500))
        age = int(rng.integers(20, 70))
        for position in range(1 + rng.geometric(0.3)):
            rows.append(
                (number, sex, day, STATES[state], round(float(value), 2), age + (day - first) // 365, position + 1)
            )
            if state == 0:
                break
            day += 1 + int(rng.exponential(5 if state == 2 else 30))
            value = level + KEPT * (value - level) + rng.normal(0, 0.5)
            state = int(rng.choice(4, p=TRANSITIONS[state]))
    table = pd.DataFrame(rows, columns=["who", "sex", "day", "state", "value", "age", "visit"])
    table["who"] = table["who"].map("P-{:06d}".format)
    table["day"] = np.datetime64("2020-01-01", "us") + table["day"].to_numpy() * np.timedelta64(1, "D")
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


@cache
def patients_schema(n_units: int = 100_000, max_rows: int = 8) -> Schema:
    """The schema of `patients`."""
    return build_schema({
        "status": "declared", "n_units": n_units, "max_rows_per_unit": max_rows, "entity": "who", "order": "day",
        "constant_in_entity": ["sex"], "nondecreasing_in_entity": ["age", "visit"], "target": "state",
        "constraints": [{"kind": "unique", "columns": ["who", "day"]}],
        "columns": {
            "who": {"kind": "identifier", "template": "P-######"},
            "sex": {"kind": "categorical", "categories": ["f", "m"]},
            "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"]},
            "state": {"kind": "categorical", "categories": list(STATES)},
            "value": {"kind": "real", "bounds": [-10, 10], "decimals": 2},
            "age": {"kind": "integer", "bounds": [15, 100]},
            "visit": {"kind": "integer", "bounds": [1, 100]},
        },
    })  # fmt: skip


CHANNELS = ("shop", "web", "app")


def shoppers(n: int, seed: int = 0) -> pd.DataFrame:
    """Orders of `n` shoppers in no order: a channel is seldom left, amounts follow the last one, hours the segment."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(n):
        segment = "new" if rng.random() < 0.4 else "old"
        hour, channel, points = (19 if segment == "new" else 11), int(rng.integers(3)), 0
        day, level = int(rng.integers(0, 600)), rng.normal(3, 0.6)
        spend = level + rng.normal(0, 0.4)
        for _ in range(1 + min(rng.poisson(2 if segment == "new" else 6), 25)):
            minutes = int(np.clip(rng.normal(60 * hour, 90), 0, 1439))
            amount = round(float(np.exp(spend)), 2)
            points += int(amount)
            rows.append((number, segment, 1440 * day + minutes, CHANNELS[channel], amount, points))
            day += 1 + int(rng.exponential(10 if amount > 40 else 40))
            spend = level + 0.6 * (spend - level) + rng.normal(0, 0.4)
            channel = channel if rng.random() < 0.85 else int(rng.integers(3))
    table = pd.DataFrame(rows, columns=["who", "segment", "at", "channel", "amount", "points"])
    table["who"] = table["who"].map("C-{:06d}".format)
    table["at"] = np.datetime64("2021-01-01", "us") + table["at"].to_numpy() * np.timedelta64(1, "m")
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


@cache
def shoppers_schema(n_units: int = 100_000, max_rows: int = 8) -> Schema:
    """The schema of `shoppers`."""
    return build_schema({
        "status": "declared", "n_units": n_units, "max_rows_per_unit": max_rows, "entity": "who", "order": "at",
        "constant_in_entity": ["segment"], "nondecreasing_in_entity": ["points"], "target": "channel",
        "columns": {
            "who": {"kind": "identifier", "template": "C-######"},
            "segment": {"kind": "categorical", "categories": ["new", "old"]},
            "at": {"kind": "datetime", "bounds": ["2021-01-01T00:00:00", "2030-12-31T23:59:00"], "precision": "min"},
            "channel": {"kind": "categorical", "categories": list(CHANNELS)},
            "amount": {"kind": "real", "bounds": [0, 2000], "decimals": 2, "scale": "log"},
            "points": {"kind": "integer", "bounds": [0, 20000], "scale": "log"},
        },
    })  # fmt: skip
