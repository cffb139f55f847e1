"""Tables that no rule may pass: what is left of real rows when their relations or their values are ruined."""

from collections.abc import Callable

import numpy as np
import pandas as pd

Ruin = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def ordered(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every column sorted on its own."""
    return pd.DataFrame({name: _in_order(column) for name, column in rows.items()})


def comonotone(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every column along one hidden order: numbers by size, categories by how frequent they are."""
    made = {}
    for name, column in rows.items():
        if column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype):
            counts = column.map(column.value_counts()).fillna(0).to_numpy()
            made[name] = column.iloc[np.lexsort((column.astype(str), counts))].reset_index(drop=True)
        else:
            made[name] = _in_order(column)
    return pd.DataFrame(made).sample(frac=1.0, random_state=rng).reset_index(drop=True)


def anti_sorted(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Columns sorted up and down in turn."""
    sides = enumerate(rows.items())
    return pd.DataFrame({name: _in_order(c) if i % 2 else _in_order(c)[::-1].array for i, (name, c) in sides})


def shuffled(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every column in a random order of its own."""
    return block_shuffled(rows, rng, n_blocks=rows.shape[1])


def block_shuffled(rows: pd.DataFrame, rng: np.random.Generator, n_blocks: int = 3) -> pd.DataFrame:
    """Blocks of neighboring columns, each in a random order of its own."""
    orders = [rng.permutation(len(rows)) for _ in range(n_blocks)]
    of = np.arange(rows.shape[1]) * n_blocks // rows.shape[1]
    names = enumerate(rows.columns)
    return pd.DataFrame({name: rows[name].iloc[orders[of[i]]].reset_index(drop=True) for i, name in names})


def one_shuffled(name: str) -> Ruin:
    """One column in a random order."""
    return lambda rows, rng: rows.assign(**{name: rows[name].iloc[rng.permutation(len(rows))].array})


def one_noise(name: str) -> Ruin:
    """One column replaced by what is as likely anywhere within its bounds, or by any category alike."""
    return lambda rows, rng: rows.assign(**{name: _noise(rows[name], rng)})


def ten_percent(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A tenth of the rows replaced by noise in all columns."""
    spoiled = rng.random(len(rows)) < 0.1
    return pd.DataFrame({name: _noise(column, rng).where(spoiled, column) for name, column in rows.items()})


def thousandfold(name: str) -> Ruin:
    """A column times 1,000."""
    return lambda rows, rng: rows.assign(**{name: rows[name] * 1_000})


def tails_tripled(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers beyond the 5% and the 95% quantile moved to three times their distance from the median."""
    made = rows.copy()
    for name in rows.select_dtypes("number"):
        column = rows[name].astype("float64")
        low, middle, high = column.quantile([0.05, 0.5, 0.95])
        beyond = (column < low) | (column > high)
        tripled = column.where(~beyond, middle + 3 * (column - middle))
        whole = pd.api.types.is_integer_dtype(rows[name])
        made[name] = tripled.round().astype(rows[name].dtype) if whole else tripled
    return made


def _in_order(column: pd.Series) -> pd.Series:
    return column.sort_values(kind="stable", na_position="last").reset_index(drop=True)


def _noise(column: pd.Series, rng: np.random.Generator) -> pd.Series:
    present = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(column):
        drawn = present.min() + (present.max() - present.min()) * pd.Series(rng.random(len(column)))
        return drawn.dt.floor("D").astype(column.dtype)
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return pd.Series(rng.choice(np.array(sorted(present.unique()), dtype=object), len(column))).astype(column.dtype)
    low, high = float(present.min()), float(present.max())
    if pd.api.types.is_integer_dtype(column):
        return pd.Series(rng.integers(int(low), int(high), len(column), endpoint=True)).astype(column.dtype)
    decimals = 2 if (present == present.round(2)).all() else 12
    return pd.Series(rng.uniform(low, high, len(column)).round(decimals)).astype(column.dtype)
