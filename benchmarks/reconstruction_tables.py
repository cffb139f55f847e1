"""Samples of Adult as a study of reconstruction drew them, and its synthetic tables made again."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.adult_table import N_ROWS, read_rows
from benchmarks.leaking_tables import cart
from benchmarks.peer import is_peer, run_peer
from benchmarks.sides import Sides, numbers
from synth.schema import Schema

TARGET = "income"
DELTA = 1e-9  # That of the library with which they made MST and AIM
CART, RANKS, CELLS, BINNED = "cart", "rank swapping", "cell suppression", "binned "
LEAST, KEYS = 5, ["age", "sex", "race"]
"""Rows that share these columns, below which they are left out: so a cell that is suppressed ends."""
CODED, SPAN = 0.05, 0.158
"""Share of a number's rows at either end that become their mean; of all ranks, by which the others move at most."""
N_PARTS = 20


def read_samples(path: Path, n: int) -> list[pd.DataFrame]:
    """All samples of so many rows that lie apart, as published; a gap is a category."""
    rows = read_rows(path)
    rows = rows[(np.arange(len(rows)) < N_ROWS) | rows.notna().all(axis=1)].reset_index(drop=True).fillna("?")
    rows[TARGET] = rows[TARGET].str.rstrip(".")
    rows = rows.sample(frac=1, random_state=np.random.RandomState(42)).reset_index(drop=True)
    return [rows.iloc[start : start + n].reset_index(drop=True) for start in range(0, len(rows) - n + 1, n)]


def make(train: pd.DataFrame, schema: Schema, fit: str, seed: int, limit_s: float) -> pd.DataFrame | str:
    """As many rows as train, fewer where cells are suppressed; or why there are none."""
    rng = np.random.default_rng(seed)
    if fit == CELLS:
        return train[train.groupby(KEYS)[KEYS[0]].transform("size") >= LEAST].reset_index(drop=True)
    if fit == RANKS:
        return train.assign(**{name: swapped(train[name].to_numpy(), rng) for name in numbers(train)})
    if fit == CART:
        return cart(Sides(train, train.head(0), train), rng)
    if fit.startswith(BINNED):
        return _make_of_bins(train, fit.removeprefix(BINNED), seed, limit_s)
    name, _, epsilon = fit.partition(":")
    privacy: dict[str, Any] = {"epsilon": float(epsilon), "delta": DELTA} if epsilon else {}
    if is_peer(fit):
        run = run_peer(name, train, schema, privacy, seed, limit_s)
        return run.failure or "" if run.synthetic is None else run.synthetic
    if epsilon:
        schema = synth.declare_schema(schema, n_units=len(train), dataset="adult")
    return synth.fit(train, schema, name, seed=seed, **privacy).sample(len(train), seed=seed)


def _make_of_bins(train: pd.DataFrame, fit: str, seed: int, limit_s: float) -> pd.DataFrame | str:
    """Numbers as published for mechanisms on counts: the middles of equal parts, each of them a category."""
    cut = numbers(train)
    rows = train.assign(**{name: [f"at {value}" for value in binned(train[name])] for name in cut})
    drawn = make(rows, synth.infer_schema(rows, target=TARGET), fit, seed, limit_s)
    return drawn if isinstance(drawn, str) else drawn.assign(**{name: drawn[name].str[3:].astype(int) for name in cut})


def binned(values: pd.Series) -> np.ndarray:
    """The middle, a whole number, of that of the equal parts of the range in which each value lies."""
    edges = np.linspace(values.min(), values.max(), N_PARTS + 1)
    middles: np.ndarray = np.rint((edges[1:] + edges[:-1]) / 2).astype(int)
    return middles[np.searchsorted(edges[1:-1], values)]


def swapped(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers that change places with others of nearly their rank, but for both ends, which become their means."""
    n, order = len(values), np.argsort(values, kind="stable")
    cut, ranked = round(CODED * n), values[order].copy()
    for end in (slice(cut), slice(n - cut, n)):
        ranked[end] = round(ranked[end].mean())
    moved = cut + np.argsort(np.arange(n - 2 * cut) + rng.uniform(0, SPAN * n, n - 2 * cut))
    ranked[cut : n - cut] = ranked[moved]
    drawn = np.empty_like(values)
    drawn[order] = ranked
    return drawn
