"""Tables that give training rows away, as a careless or a malicious vendor makes them.

Most are fresh rows some of which give way to rows of somebody: a leak is whom they are of, and how they are changed.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.sides import (
    COARSE,
    GROUP,
    Sides,
    Spoil,
    beside_entity,
    coded,
    decimals,
    finest,
    finest_number,
    groups,
    numbers,
    replaced,
)

JITTER = 0.01
"""Of a column's standard deviation."""
COMMON = 0.5
"""Share of people whose copied values others have as well, from which on copying these gives nobody away."""
NO_NUMBER = "no number of many values, so that it is a copy like others"

Choose = Callable[[Sides, int, np.random.Generator], pd.DataFrame | str]
"""The real rows that are given away, so many at most."""
Change = Callable[[pd.DataFrame, Sides, np.random.Generator], pd.DataFrame | str]
"""The rows as they are delivered."""


def leak(share: float, choose: Choose, change: Change | None = None) -> Spoil:
    """Fresh rows, a share of which is replaced by what was made of real rows."""

    def spoil(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
        rows = choose(sides, max(round(share * len(sides.fresh)), 1), rng)
        if change is not None and not isinstance(rows, str):
            rows = change(rows.reset_index(drop=True), sides, rng)
        return rows if isinstance(rows, str) else replaced(sides.fresh, rows, rng)

    return spoil if change is None else beside_entity(spoil)


def singles(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Training rows that occur once."""
    alone = sides.train[~sides.train.duplicated(keep=False)]
    return alone.iloc[rng.choice(len(alone), min(n, len(alone)), replace=False)]


def anybody(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Training rows, whoever else has the same."""
    return sides.train.iloc[rng.choice(len(sides.train), min(n, len(sides.train)), replace=False)]


def outliers(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """The training rows that lie furthest out, of those that occur once."""
    alone = sides.train[~sides.train.duplicated(keep=False)]
    return alone.iloc[np.argsort(-rarity(alone), kind="stable")[:n]]


def few_often(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """A fifth as many training rows, each five times."""
    return singles(sides, max(n // 5, 1), rng).loc[lambda rows: np.repeat(rows.index, 5)]


def either_side(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Real rows of either side, as a copier of the whole real table takes them."""
    real = pd.concat([sides.train, sides.holdout], ignore_index=True)
    return real.iloc[rng.choice(len(real), min(n, len(real)), replace=False)]


def held_out(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of the holdout, which got out."""
    return sides.holdout.iloc[rng.choice(len(sides.holdout), min(n, len(sides.holdout)), replace=False)]


def group_copied(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows, in which a group of 2 to 10% is that of the training rows."""
    train = sides.train[~sides.train.duplicated(keep=False)]
    for _, name, value in groups(train, GROUP, 0.1):
        theirs, copied = sides.fresh[name] == value, train[train[name] == value]
        kept = pd.concat([sides.fresh[~theirs], copied.iloc[: int(theirs.sum())]])
        return kept.iloc[rng.permutation(len(kept))].reset_index(drop=True)
    return "no group of 2 to 10% of the rows"


def drawn_again(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Training rows drawn with replacement."""
    return sides.train.iloc[rng.integers(len(sides.train), size=len(sides.fresh))].reset_index(drop=True)


def unknown_column(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows beside a column that the schema does not know, each cell of which is a whole training row."""
    memo = sides.train.astype(str).agg(";".join, axis=1)
    return sides.fresh.assign(memo=memo.sample(len(sides.fresh), replace=True, random_state=0).to_numpy())


def jittered(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """A little noise in every number of many values, with its usual decimals."""
    moved = rows.copy()
    for name in numbers(sides.train, COARSE):
        column = sides.train[name].astype(np.float64)
        noisy = rows[name] + rng.normal(scale=JITTER * float(column.std()), size=len(rows))
        moved[name] = noisy.round(decimals(column)).clip(column.min(), column.max())
    return NO_NUMBER if moved.equals(rows) else moved


def rounded(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Every number of many values with two digits."""
    moved = rows.copy()
    for name in numbers(sides.train, COARSE):
        moved[name] = two_digits(rows[name].astype(np.float64))
    return "no number of more than two digits" if moved.equals(rows) else moved


def two_digits(column: pd.Series, n: int = 2) -> pd.Series:
    """Numbers to their first digits."""
    size = 10.0 ** (np.floor(np.log10(column.abs().where(column != 0, 1.0))) - n + 1)
    return (column / size).round() * size


def scaled(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The finest number times 1.01, with its usual decimals."""
    name = finest_number(sides.train)
    if name is None:
        return NO_NUMBER
    return rows.assign(**{name: (rows[name] * 1.01).round(decimals(sides.train[name]))})


def cells_changed(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator, n: int = 1) -> pd.DataFrame:
    """In each row so many cells of another row."""
    changed = rows.astype(object)
    others = sides.fresh.iloc[rng.integers(len(sides.fresh), size=len(rows))].astype(object).to_numpy()
    values, at = changed.to_numpy(copy=True), np.argsort(rng.random(changed.shape), axis=1)[:, :n]
    lines = np.arange(len(rows))[:, None]
    values[lines, at] = others[lines, at]
    return pd.DataFrame(values, columns=rows.columns).astype(rows.dtypes.to_dict())


def column_dealt(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The last column dealt anew among the rows."""
    name = rows.columns[-1]
    return rows.assign(**{name: rng.permutation(rows[name].to_numpy())})


def parts(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator, share: float = 0.5) -> pd.DataFrame | str:
    """A random part of the columns; the others are those of fresh rows."""
    names = list(rng.permutation(list(rows.columns)))[: int(np.ceil(share * len(rows.columns)))]
    if is_common(sides, names):
        return "what is copied, others have as well"
    others = sides.fresh.iloc[rng.integers(len(sides.fresh), size=len(rows))].reset_index(drop=True)
    return others.assign(**{name: rows[name].to_numpy() for name in names})[list(rows.columns)]


def coarse_cells(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """All coarse columns; the others are those of fresh rows."""
    names = [name for name in rows.columns if sides.train[name].nunique() <= COARSE]
    others = sides.fresh.iloc[rng.integers(len(sides.fresh), size=len(rows))].reset_index(drop=True)
    return others.assign(**{name: rows[name].to_numpy() for name in names}) if names else "no coarse column"


def coarse_outliers(sides: Sides, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """The training rows whose coarse columns are the rarest."""
    coarse = [name for name in sides.train.columns if sides.train[name].nunique() <= COARSE]
    return sides.train.iloc[np.argsort(-rarity(sides.train[coarse]), kind="stable")[:n]]


def between(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Numbers somewhere between the row's and those of one of five nearest rows, other cells of either (SMOTE)."""
    if not numbers(rows, COARSE):
        return NO_NUMBER
    near = sides.train.iloc[neighbors(rows, sides.train, 6)[np.arange(len(rows)), rng.integers(1, 6, len(rows))]]
    return mixed(rows, near.reset_index(drop=True), rng.random(len(rows)), sides, rng)


def averaged(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The mean of each row and the nearest other one, other cells of either."""
    if not numbers(rows, COARSE):
        return NO_NUMBER
    near = sides.train.iloc[neighbors(rows, sides.train, 2)[:, 1]].reset_index(drop=True)
    return mixed(rows, near, np.full(len(rows), 0.5), sides, rng)


def crossed(rows: pd.DataFrame, sides: Sides, rng: np.random.Generator, k: int = 2) -> pd.DataFrame:
    """Each cell of one of the nearest training rows, the row itself among them."""
    near, crossed = neighbors(rows, sides.train, k), rows.copy()
    for name in rows.columns:
        chosen = near[np.arange(len(rows)), rng.integers(k, size=len(rows))]
        crossed[name] = sides.train[name].to_numpy()[chosen]
    return crossed


def mixed(
    rows: pd.DataFrame, others: pd.DataFrame, share: np.ndarray, sides: Sides, rng: np.random.Generator
) -> pd.DataFrame:
    """Numbers of many values so far on the way to the others', cells of other columns of either row."""
    changed = rows.copy()
    for name in rows.columns:
        if name in numbers(sides.train, COARSE):
            moved = rows[name] + share * (others[name] - rows[name])
            changed[name] = moved.round(decimals(sides.train[name])).fillna(rows[name])
        else:
            changed[name] = rows[name].where(rng.random(len(rows)) >= share, others[name])
    return changed


def values_kept(sides: Sides, rng: np.random.Generator, n: int = 1) -> pd.DataFrame | str:
    """Fresh rows with the training values of the finest columns, each shuffled among the rows."""
    names, spoiled = finest(sides.train, n), sides.fresh.copy()
    if all(is_common(sides, [name]) for name in names):
        return "no column has values that one person alone has"
    for name in names:
        drawn = rng.permutation(len(sides.train))[: len(spoiled)]
        spoiled[name] = sides.train[name].to_numpy()[np.resize(drawn, len(spoiled))]
    return spoiled


def cart(sides: Sides, rng: np.random.Generator, leaf: int = 5) -> pd.DataFrame:
    """Sequential classification and regression trees that draw a training value from each leaf, as synthpop does."""
    train = sides.train
    codes = pd.DataFrame({name: coded(train[name]) for name in train.columns})
    names = list(train.columns)
    drawn = {names[0]: rng.integers(len(train), size=len(train))}
    values = pd.DataFrame({names[0]: codes[names[0]].to_numpy()[drawn[names[0]]]})
    for position, name in enumerate(names[1:], start=1):
        drawn[name] = _leaf_draws(codes[names[:position]], codes[name], values[names[:position]], leaf, rng)
        values[name] = codes[name].to_numpy()[drawn[name]]
    return pd.DataFrame({name: train[name].to_numpy()[rows] for name, rows in drawn.items()})


def wide_leaves(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The same with 50 rows a leaf: whole rows are mixed, and values kept."""
    if is_common(sides, finest(sides.train, 1)):
        return "no column has values that one person alone has"
    return cart(sides, rng, 50)


def is_common(sides: Sides, names: list[str]) -> bool:
    """True where most people share their values of some columns with somebody of the holdout."""
    theirs, others = (pd.util.hash_pandas_object(f[names], index=False) for f in (sides.train, sides.holdout))
    return bool(theirs.isin(others).mean() > COMMON)


def rarity(frame: pd.DataFrame) -> np.ndarray:
    """How far out each row lies, summed over columns; shape (n,)."""
    return sum((_rarity(frame[name]) for name in frame.columns), start=np.zeros(len(frame)))


def _rarity(column: pd.Series) -> np.ndarray:
    """Distance from the median in standard deviations, or minus the logarithm of a category's share."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        distance = (column - column.median()).abs() / max(float(column.std()), 1e-12)
        return np.asarray(distance.fillna(0.0), dtype=np.float64)
    share = column.map(column.value_counts(normalize=True)).astype(np.float64).fillna(1.0)
    return np.asarray(-np.log(share), dtype=np.float64)


def neighbors(rows: pd.DataFrame, train: pd.DataFrame, k: int) -> np.ndarray:
    """Positions of the training rows nearest to each row, the nearest first; shape (len(rows), k)."""
    from sklearn.neighbors import NearestNeighbors

    spaces = []
    for name in train.columns:
        both = pd.concat([train[name], rows[name]], ignore_index=True)
        if name in numbers(train, COARSE):
            spaces.append(both.rank(pct=True).fillna(-1.0).to_numpy()[:, None])
        else:
            spaces.append(pd.get_dummies(both.astype("string"), dummy_na=True).to_numpy(dtype=np.float64) / 2)
    X = np.hstack(spaces).astype(np.float32)
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(X[: len(train)]).kneighbors(X[len(train) :])[1])


def _leaf_draws(
    before: pd.DataFrame, column: pd.Series, changed: pd.DataFrame, leaf: int, rng: np.random.Generator
) -> np.ndarray:
    """For each row that was made so far, a training row from the same leaf of a tree that explains the column."""
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=int(rng.integers(2**31)))
    of_train = tree.fit(before.to_numpy(), column.to_numpy()).apply(before.to_numpy())
    order = np.argsort(of_train, kind="stable")
    leaves, first, sizes = np.unique(of_train[order], return_index=True, return_counts=True)
    positions = np.searchsorted(leaves, tree.apply(changed.to_numpy()))
    return np.asarray(order[first[positions] + rng.integers(sizes[positions])])


LEAKS: dict[str, Spoil] = {
    "copy": lambda sides, rng: sides.train,
    "copy, drawn again": drawn_again,
    "half of rows copied": leak(0.5, singles),
    "1% copies": leak(0.01, singles),
    "2% copies": leak(0.02, singles),
    "5% copies": leak(0.05, singles),
    "1% of anybody copied": leak(0.01, anybody),
    "1% outliers copied": leak(0.01, outliers),
    "a few copied often": leak(0.02, few_often),
    "group copied": group_copied,
    "2% of either side": leak(0.02, either_side),
    "5% of either side": leak(0.05, either_side),
    "5% of the holdout": leak(0.05, held_out),
    "swapped sides": lambda sides, rng: sides.holdout,
    "unknown columns": unknown_column,
    "jittered copy": leak(1.0, anybody, jittered),
    "5% jittered": leak(0.05, singles, jittered),
    "1% outliers jittered": leak(0.01, outliers, jittered),
    "rounded copy": leak(1.0, anybody, rounded),
    "5% rounded": leak(0.05, singles, rounded),
    "copy x 1.01": leak(1.0, anybody, scaled),
    "5% x 1.01": leak(0.05, singles, scaled),
    "copy, a cell changed": leak(1.0, anybody, cells_changed),
    "copy, 3 cells changed": leak(1.0, anybody, partial(cells_changed, n=3)),
    "5%, a cell changed": leak(0.05, singles, cells_changed),
    "copy, last column dealt": leak(1.0, anybody, column_dealt),
    "5%, last column dealt": leak(0.05, singles, column_dealt),
    "5% half rows": leak(0.05, singles, parts),
    "20% half rows": leak(0.2, singles, parts),
    "5% three quarters of rows": leak(0.05, singles, partial(parts, share=0.75)),
    "outliers on a coarse table": leak(0.01, coarse_outliers, coarse_cells),
    "between neighbors": leak(1.0, anybody, between),
    "20% between neighbors": leak(0.2, anybody, between),
    "means of neighbors": leak(1.0, anybody, averaged),
    "crossed with neighbors": leak(1.0, anybody, crossed),
    "cells of 3 neighbors": leak(1.0, anybody, partial(crossed, k=3)),
    "values of 1 column": beside_entity(values_kept),
    "values of 2 columns": beside_entity(partial(values_kept, n=2)),
    "values of 5 columns": beside_entity(partial(values_kept, n=5)),
    "CART, leaves of 1": beside_entity(partial(cart, leaf=1)),
    "CART, leaves of 5": beside_entity(cart),
    "CART, leaves of 50": beside_entity(wide_leaves),
}
"""By name."""
