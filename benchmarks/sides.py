"""Three samples of one real table, and what tables that are made of them have in common."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

COARSE = 20
"""Values of a coarse column, at most."""
GROUP = 0.02
"""Share of rows that a group has at least."""


@dataclass(frozen=True)
class Sides:
    """Three samples of one population, no row in two of them. *Sensitive* where the table is.

    Attributes:
        train: rows that a generator saw.
        holdout: rows that it did not see.
        fresh: rows that play an honest synthetic table.
        entity: column that names the unit of a row, if any; it is not learned, and cases of columns leave it alone.
    """

    train: pd.DataFrame
    holdout: pd.DataFrame
    fresh: pd.DataFrame
    entity: str | None = None

    @classmethod
    def of(cls, table: pd.DataFrame, most: int, seed: int, entity: str | None = None) -> "Sides":
        """A random 40%, 30% and 30% of the rows, or of the entities, each of at most so many rows."""
        codes = np.arange(len(table)) if entity is None else pd.factorize(table[entity])[0]
        turns = np.random.default_rng(seed).permutation(int(codes.max()) + 1)[codes]
        order = np.argsort(turns, kind="stable")
        cuts = np.split(order, np.searchsorted(turns[order], np.quantile(turns, [0.4, 0.7])))
        return cls(*(table.iloc[part[:most]].reset_index(drop=True) for part in cuts), entity)


Spoil = Callable[[Sides, np.random.Generator], pd.DataFrame | str]
"""Rows, or why a table has no such case."""


def beside_entity(spoil: Spoil) -> Spoil:
    """The same of all columns but the entity; made rows have the entities of fresh ones."""

    def of_the_rest(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
        if sides.entity is None:
            return spoil(sides, rng)
        spoiled = spoil(Sides(*(f.drop(columns=sides.entity) for f in (sides.train, sides.holdout, sides.fresh))), rng)
        if isinstance(spoiled, str):
            return spoiled
        entities = np.resize(sides.fresh[sides.entity].to_numpy(), len(spoiled))
        return spoiled.assign(**{sides.entity: entities})[list(sides.fresh.columns)]

    return of_the_rest


def numbers(frame: pd.DataFrame, n_values: int = 0) -> list[str]:
    """Columns of numbers that have more than so many values."""
    names = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    return [name for name in names if frame[name].nunique() > n_values]


def finest(frame: pd.DataFrame, n: int) -> list[str]:
    """The columns with the most distinct values, which tell rows apart best."""
    return sorted(frame.columns, key=lambda name: (-frame[name].nunique(), str(name)))[:n]


def finest_number(frame: pd.DataFrame) -> str | None:
    """The number with the most values, where one has many."""
    return next(iter(finest(frame[numbers(frame, COARSE)], 1)), None)


def replaced(rows: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The rows, of which as many as there are others give way to these, in a random order."""
    both = pd.concat([rows.iloc[len(others) :], others.astype(rows.dtypes.to_dict(), errors="ignore")])
    return both.iloc[rng.permutation(len(both))].reset_index(drop=True)


def decimals(column: pd.Series) -> int:
    """The fewest decimals that hold all numbers; 15 where even these do not."""
    known = column.dropna()
    return next((n for n in range(15) if bool((known.round(n) == known).all())), 15)


def coded(column: pd.Series) -> np.ndarray:
    """Numbers as they are, texts by their rank, missing ones below all."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        values = column.astype(np.float64)
        return np.asarray(values.fillna(float(values.min(skipna=True)) - 1.0 if values.notna().any() else 0.0))
    return np.asarray(pd.factorize(column, sort=True)[0], dtype=np.float64)


def groups(frame: pd.DataFrame, least: float, most: float) -> list[tuple[float, str, object]]:
    """The share, column and value of each group of rows that share a value, the smallest first."""
    codes = [
        (float(share), str(name), value)
        for name in frame.columns
        if frame[name].nunique() <= COARSE
        for value, share in frame[name].value_counts(normalize=True).items()
        if least <= share <= most
    ]
    return sorted(codes, key=lambda group: (group[0], str(group[1:])))
