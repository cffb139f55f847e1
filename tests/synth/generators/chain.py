"""A table in which a column and an amount hang on the first one."""

import numpy as np
import pandas as pd

from synth.schema import build_schema

N_CHAIN = 3_000
CHAIN = build_schema({
    "status": "declared",
    "n_units": N_CHAIN,
    "target": "last",
    "columns": {
        "first": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "amount": {"kind": "real", "bounds": [0.0, 40.0], "decimals": 2},
        "last": {"kind": "categorical", "categories": ["x", "y", "z"]},
    },
})  # fmt: skip
"""`last` is known from `first` nine times in ten, and `amount` is above or below 10, 20 by it."""


def chain(n: int = N_CHAIN, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    first = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    last = np.where(rng.random(n) < 0.9, first, rng.integers(0, 3, n))
    amount = np.round(10 * first + rng.gamma(3.0, 1.5, n).clip(0, 9.9), 2)
    texts = np.array(["a", "b", "c"], dtype=object), np.array(["x", "y", "z"], dtype=object)
    return pd.DataFrame({"first": texts[0][first], "amount": amount, "last": texts[1][last]})
