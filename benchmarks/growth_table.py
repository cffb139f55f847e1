"""A made table of any number of rows and columns, of mixed kinds that hang together, and its declared schema."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import synth
from synth.schema import Schema

FIRST_CATEGORIES = 10
"""Categories of the first column, unless it is the one that grows."""
MORE_CATEGORIES = (6, 20, 3, 12)
N_FACTORS, LOADING = 3, 0.7
"""Columns hang together by a few factors; a column is that much one of them, and noise of its own besides."""

Column = tuple[Any, dict[str, Any]]
"""Values, and what the schema says of them."""


def make_table(n_rows: int, n_columns: int, n_categories: int = FIRST_CATEGORIES) -> tuple[pd.DataFrame, Schema]:
    """The same table whenever it is asked for, and what is public about it.

    Of each five columns two are categories, one each is a whole number, an amount of money and a boolean.

    Args:
        n_rows: at least one.
        n_columns: at least one.
        n_categories: of the first column; the most frequent is drawn about as much more often than the k-th as k says.
    """
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((N_FACTORS, n_rows))
    values: dict[str, Any] = {}
    facts: dict[str, dict[str, Any]] = {}
    for index in range(n_columns):
        own = rng.standard_normal(n_rows)
        latent = LOADING * factors[index % N_FACTORS] + np.sqrt(1 - LOADING**2) * own
        values[f"c{index:03d}"], facts[f"c{index:03d}"] = _column(index, latent, n_categories)
    content = {"status": "declared", "n_units": n_rows, "columns": facts}
    return pd.DataFrame(values, copy=False), synth.schema.build_schema(content)


def _column(index: int, latent: NDArray[np.float64], n_categories: int) -> Column:
    if index == 0:
        return _categorical(latent, n_categories)
    makers: tuple[Callable[[NDArray[np.float64]], Column], ...] = (
        lambda z: _categorical(z, MORE_CATEGORIES[index // 5 % len(MORE_CATEGORIES)]),
        _whole_number,
        _money,
        lambda z: _categorical(z, MORE_CATEGORIES[(index // 5 + 2) % len(MORE_CATEGORIES)]),
        lambda z: (z > 1.0, {"kind": "boolean"}),
    )
    return makers[index % len(makers)](latent)


def _categorical(latent: NDArray[np.float64], n_categories: int) -> Column:
    """Texts, as `synth.read_table` gives them, whose frequencies fall as one over their rank (Zipf's law)."""
    weights = 1 / np.arange(1, n_categories + 1)
    edges = np.cumsum(weights)[:-1] / weights.sum()
    names = [f"v{code:05d}" for code in range(n_categories)]
    codes = np.searchsorted(edges, _share_below(latent))
    return np.array(names, dtype=object)[codes], {"kind": "categorical", "categories": names}


def _whole_number(latent: NDArray[np.float64]) -> Column:
    values = np.clip(np.rint(45 + 15 * latent), 0, 99).astype(np.int64)
    return values, {"kind": "integer", "bounds": [0, 99]}


def _money(latent: NDArray[np.float64]) -> Column:
    values = np.clip(np.round(np.exp(7 + latent), 2), 1.0, 100_000.0)
    return values, {"kind": "real", "bounds": [1.0, 100_000.0], "decimals": 2, "scale": "log"}


def _share_below(latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normal distribution function, near enough: its logistic approximation."""
    return 1 / (1 + np.exp(-1.702 * latent))
