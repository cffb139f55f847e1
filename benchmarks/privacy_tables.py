"""The tables that privacy is measured on: Adult's parts beside an honest table, one that leaks, and a copy."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

import synth
from benchmarks.adult_table import Adult
from benchmarks.peers.evaluated import Three

LEAK = 0.05
"""Part of the rows that are copies."""
GENERATOR = "mst"


def honest(adult: Adult, n: int, seed: int = 0) -> pd.DataFrame:
    """A table that knows pairs of columns and no row: our MST without epsilon, on public bins.

    Args:
        adult: the table that it is fitted to.
        n: its number of rows.
        seed: of the sample.
    """
    return synth.fit(adult.train, adult.binned, GENERATOR).sample(n, seed=seed)


def leaking(adult: Adult, seed: int = 0) -> pd.DataFrame:
    """The honest table with one row in twenty replaced by a training row, word for word."""
    rows = honest(adult, len(adult.train), seed)
    rng = np.random.default_rng(seed)
    n = round(LEAK * len(rows))
    copies = adult.train.iloc[rng.choice(len(adult.train), size=n, replace=False)]
    return _shuffled(pd.concat([rows.iloc[n:], copies]), rng)


def copied(adult: Adult, seed: int = 0) -> pd.DataFrame:
    """The training rows in another order."""
    return _shuffled(adult.train, np.random.default_rng(seed))


TABLES: Mapping[str, Callable[[Adult], pd.DataFrame]] = {
    "honest": lambda adult: honest(adult, len(adult.train)),
    "5% copies": leaking,
    "copy": copied,
}
"""By name."""


def resampled(adult: Adult, n: int, seed: int = 0) -> Three:
    """Many rows: drawn again from the parts, and an honest table of as many.

    Args:
        adult: the table.
        n: rows of train and of the synthetic table; the holdout has a quarter of them.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    train, holdout = (
        frame.iloc[rng.integers(len(frame), size=rows)].reset_index(drop=True)
        for frame, rows in ((adult.train, n), (adult.test, n // 4))
    )
    return Three(train, holdout, honest(adult, n, seed))


def write_three(folder: Path, tables: Three) -> None:
    """The tables as files that `read_three` reads."""
    for name, frame in vars(tables).items():
        frame.to_csv(folder / f"{name}.csv", index=False)


def _shuffled(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
