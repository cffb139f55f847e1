"""Tables of which it is known what a gate must say: honest rows, leaks of training rows, and garbage.

Every one is made from real rows alone, of the real table's own columns, so that any table serves. Garbage is made of
fresh rows: it copies nobody, so that what fails it is what was ruined.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

Must = Literal["honest", "leak", "garbage"]
"""No policy may FAIL an honest table, and every policy has to FAIL a leak and garbage."""

STRETCH_FACTOR = 3.0
"""Factor by which distances from the median are stretched, beyond the 5% and 95% quantiles."""
GARBAGE_SHARE = 0.1
"""Share of rows that are replaced by uniform ones."""
COARSE = 20
"""Values of a coarse column, at most."""
GROUP = 0.02
"""Share of rows that a group has at least."""
JITTER = 0.01
"""Of a column's standard deviation."""


@dataclass(frozen=True)
class Sides:
    """Three samples of one population, no row in two of them. *Sensitive* where the table is.

    Attributes:
        train: rows that a generator saw.
        holdout: rows that it did not see.
        fresh: rows that play an honest synthetic table.
        entity: column that names the unit of a row, if any; it is not learned, and ruins leave it alone.
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


Spoil = Callable[[Sides, np.random.Generator], pd.DataFrame]


def numbers(frame: pd.DataFrame) -> list[str]:
    """Columns of numbers."""
    return [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name].dtype)]


def finest(frame: pd.DataFrame, n: int) -> list[str]:
    """The columns with the most distinct values, which tell rows apart best."""
    return sorted(frame.columns, key=lambda name: (-frame[name].nunique(), str(name)))[:n]


def copies(share: float) -> Spoil:
    """Fresh rows, some of which are replaced by training rows that occur once."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        alone = sides.train[~sides.train.duplicated(keep=False)]
        n = min(max(round(share * len(sides.fresh)), 1), len(alone))
        return _replaced(sides.fresh, alone.iloc[rng.choice(len(alone), n, replace=False)], rng)

    return made


def outliers_copied(share: float) -> Spoil:
    """Fresh rows, some of which are replaced by the training rows that lie furthest out."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        alone = sides.train[~sides.train.duplicated(keep=False)]
        n = min(max(round(share * len(sides.fresh)), 1), len(alone))
        rarity = sum((_rarity(alone[name]) for name in alone.columns), start=np.zeros(len(alone)))
        return _replaced(sides.fresh, alone.iloc[np.argsort(-rarity, kind="stable")[:n]], rng)

    return made


def values_kept(n: int) -> Spoil:
    """Fresh rows with the training values of the finest columns, each shuffled among the rows."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        spoiled = sides.fresh.copy()
        for name in finest(sides.train, n):
            drawn = rng.permutation(len(sides.train))[: len(spoiled)]
            spoiled[name] = sides.train[name].to_numpy()[np.resize(drawn, len(spoiled))]
        return spoiled

    return made


def unknown_column(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows beside a column that the schema does not know, each cell of which is a whole training row."""
    memo = sides.train.astype(str).agg(";".join, axis=1)
    return sides.fresh.assign(memo=memo.sample(len(sides.fresh), replace=True, random_state=0).to_numpy())


def both_sides(share: float) -> Spoil:
    """Fresh rows, some of which are replaced by real rows of either side, as a copier of the whole real table does."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        real = pd.concat([sides.train, sides.holdout], ignore_index=True)
        drawn = rng.choice(len(real), min(round(share * len(sides.fresh)), len(real)), replace=False)
        return _replaced(sides.fresh, real.iloc[drawn], rng)

    return made


def halves_copied(share: float) -> Spoil:
    """Fresh rows, some of which carry a random half of a training row's columns."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        spoiled, n = sides.fresh.copy(), round(share * len(sides.fresh))
        names = list(rng.permutation(list(spoiled.columns)))[: (len(spoiled.columns) + 1) // 2]
        to, of = (rng.choice(len(frame), min(n, len(sides.train)), replace=False) for frame in (spoiled, sides.train))
        for name in names:
            cells = spoiled[name].to_numpy(copy=True)
            cells[to] = sides.train[name].to_numpy()[of]
            spoiled[name] = cells
        return spoiled

    return made


def jittered(share: float) -> Spoil:
    """Training rows with a little noise in every number of many values, with its usual decimals, among fresh rows."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        spoiled = sides.train.copy()
        for name in numbers(spoiled):
            column = spoiled[name].astype(np.float64)
            if column.nunique() > 20:
                moved = column + rng.normal(scale=JITTER * float(column.std()), size=len(column))
                spoiled[name] = moved.round(_decimals(column)).clip(column.min(), column.max())
        if share == 1:
            return spoiled
        n = min(round(share * len(sides.fresh)), len(spoiled))
        return _replaced(sides.fresh, spoiled.iloc[rng.choice(len(spoiled), n, replace=False)], rng)

    return made


def cart(leaf: int) -> Spoil:
    """Sequential classification and regression trees that draw a training value from each leaf, as synthpop does."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        train = sides.train
        codes = pd.DataFrame({name: _coded(train[name]) for name in train.columns})
        names = list(train.columns)
        drawn = {names[0]: rng.integers(len(train), size=len(train))}
        values = pd.DataFrame({names[0]: codes[names[0]].to_numpy()[drawn[names[0]]]})
        for position, name in enumerate(names[1:], start=1):
            drawn[name] = _leaf_draws(codes[names[:position]], codes[name], values[names[:position]], leaf, rng)
            values[name] = codes[name].to_numpy()[drawn[name]]
        return pd.DataFrame({name: train[name].to_numpy()[rows] for name, rows in drawn.items()})

    return made


def sorted_alone(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column sorted on its own."""
    return _ordered(sides.fresh, [True] * len(sides.fresh.columns))


def anti_sorted(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column sorted on its own, every second one downwards."""
    return _ordered(sides.fresh, [position % 2 == 0 for position in range(len(sides.fresh.columns))])


def comonotone(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column the quantile function of one uniform number."""
    up_to = rng.random(len(sides.fresh))
    ordered = _ordered(sides.fresh, [True] * len(sides.fresh.columns))
    return ordered.iloc[np.floor(up_to * len(ordered)).astype(np.int64)].reset_index(drop=True)


def shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column shuffled on its own."""
    return _shuffled(sides.fresh, [[name] for name in sides.fresh.columns], rng)


def block_shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Blocks of three random columns, each shuffled as a whole."""
    names = list(rng.permutation(list(sides.fresh.columns)))
    return _shuffled(sides.fresh, [names[i : i + 3] for i in range(0, len(names), 3)], rng)


def column_ruined(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The finest column of numbers uniform between its ends; without one, the finest column uniform in its values."""
    spoiled = sides.fresh.copy()
    name = finest(spoiled[numbers(spoiled)] if numbers(spoiled) else spoiled, 1)[0]
    spoiled[name] = uniform(sides.train[name], len(spoiled), rng)
    return spoiled


def column_shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The column that goes along with the others most, shuffled on its own."""
    spoiled = sides.fresh.copy()
    ranks = pd.DataFrame({name: _coded(spoiled[name]) for name in spoiled.columns}).rank()
    name = ranks.corr().abs().fillna(0.0).sum().idxmax()
    spoiled[name] = rng.permutation(spoiled[name].to_numpy())
    return spoiled


def some_sorted(n: int) -> Spoil:
    """Random columns sorted each on its own, the others as they are."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        names = list(rng.permutation(list(sides.fresh.columns)))[:n]
        spoiled = sides.fresh.copy()
        spoiled[names] = _ordered(sides.fresh[names], [True] * len(names))
        return spoiled

    return made


def column_times_1000(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The finest column of numbers times 1,000."""
    spoiled = sides.fresh.copy()
    for name in finest(spoiled[numbers(spoiled)], 1):
        spoiled[name] = spoiled[name] * 1_000
    return spoiled


def rows_of_garbage(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, a tenth of which are replaced by rows that are uniform in every column."""
    n = round(GARBAGE_SHARE * len(sides.fresh))
    noise = pd.DataFrame({name: uniform(sides.train[name], n, rng) for name in sides.train.columns})
    return _replaced(sides.fresh, noise, rng)


def tails_stretched(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows whose numbers beyond the 5% and 95% quantiles lie three times as far from the median."""
    spoiled = sides.fresh.copy()
    for name in numbers(spoiled):
        column = spoiled[name].astype(np.float64)
        if sides.train[name].nunique() <= 20:
            continue
        low, middle, high = sides.train[name].quantile([0.05, 0.5, 0.95])
        far = (column < low) | (column > high)
        spoiled[name] = column.where(~far, middle + STRETCH_FACTOR * (column - middle))
    return spoiled


def tails_cut(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows whose numbers are clipped at the 5% and 95% quantiles."""
    spoiled = sides.fresh.copy()
    for name in numbers(spoiled):
        if sides.train[name].nunique() > 20:
            spoiled[name] = spoiled[name].clip(*sides.train[name].quantile([0.05, 0.95]))
    return spoiled


def column_at_its_end(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, in 15% of which the finest column of numbers is at its maximum."""
    spoiled = sides.fresh.copy()
    for name in finest(spoiled[numbers(spoiled)], 1):
        spoiled.loc[rng.random(len(spoiled)) < 0.15, name] = sides.train[name].max()
    return spoiled


def rows_shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, half of which have every column shuffled."""
    others = shuffled(sides, rng).head((len(sides.fresh) + 1) // 2)
    return _replaced(sides.fresh, others, rng)


def coarse_outliers(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, in 1% of which all coarse columns are those of the rarest training rows."""
    spoiled, n = sides.fresh.copy(), max(1, round(0.01 * len(sides.fresh)))
    coarse = [name for name in spoiled.columns if sides.train[name].nunique() <= COARSE]
    rarity = sum((_rarity(sides.train[name]) for name in coarse), start=np.zeros(len(sides.train)))
    sources, targets = np.argsort(-rarity, kind="stable")[:n], rng.choice(len(spoiled), n, replace=False)
    for name in coarse:
        cells = spoiled[name].to_numpy(copy=True)
        cells[targets[: len(sources)]] = sides.train[name].to_numpy()[sources]
        spoiled[name] = cells
    return spoiled


def each_twice(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """A random half of the fresh rows, each of them twice."""
    half = sides.fresh.iloc[rng.permutation(len(sides.fresh))[: len(sides.fresh) // 2]]
    return pd.concat([half, half], ignore_index=True)


def group_removed(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows without the smallest group of at least 2% that shares a value; rows of all others take its place."""
    shares = {
        (share, name, value)
        for name in sides.fresh.columns.drop([] if sides.entity is None else [sides.entity])
        for value, share in sides.fresh[name].value_counts(normalize=True).items()
        if share >= GROUP
    }
    if not shares:
        return sides.fresh
    _, name, value = min(shares, key=lambda one: (one[0], str(one[1:])))
    left = sides.fresh[sides.fresh[name] != value]
    return (
        left.iloc[rng.integers(len(left), size=len(sides.fresh))].reset_index(drop=True) if len(left) else sides.fresh
    )


def labels_swapped(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The last column of two values with its values exchanged in half of the rows: even in itself, and of no use."""
    spoiled = sides.fresh.copy()
    binary = [name for name in spoiled.columns if spoiled[name].nunique() == 2]
    for name in binary[-1:]:
        first, second = spoiled[name].dropna().unique()
        swapped = spoiled[name].map({first: second, second: first})
        spoiled[name] = spoiled[name].where(rng.random(len(spoiled)) < 0.5, swapped)
    return spoiled


def triple_made_up(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows in which the last of three coarse columns follows from the other two, and from neither alone."""
    spoiled = sides.fresh.copy()
    varied = spoiled[[name for name in spoiled.columns if len(spoiled[name].unique()) > 1]]
    names = finest(varied, len(varied.columns))[-3:]
    if len(names) < 3:
        return spoiled
    halves = [pd.Series(_coded(spoiled[name])).rank(method="first").to_numpy() > len(spoiled) / 2 for name in names]
    odd = np.flatnonzero(halves[0] ^ halves[1] ^ halves[2])
    # Among rows whose three halves do not come to an even sum, the last column goes to a row of the other half.
    up, down = (rng.permutation(odd[halves[2][odd] == half]) for half in (True, False))
    n = min(len(up), len(down))
    cells = spoiled[names[2]].to_numpy(copy=True)
    cells[up[:n]], cells[down[:n]] = cells[down[:n]].copy(), cells[up[:n]].copy()
    return spoiled.assign(**{names[2]: cells})


def beside_entity(spoil: Spoil) -> Spoil:
    """The same of all columns but the entity; made rows have the entities of fresh ones."""

    def made(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
        if sides.entity is None:
            return spoil(sides, rng)
        bare = (frame.drop(columns=sides.entity) for frame in (sides.train, sides.holdout, sides.fresh))
        spoiled = spoil(Sides(*bare), rng)
        entities = np.resize(sides.fresh[sides.entity].to_numpy(), len(spoiled))
        return spoiled.assign(**{sides.entity: entities})[list(sides.fresh.columns)]

    return made


_ROWS: Mapping[str, tuple[Must, Spoil]] = {
    "fresh real rows": ("honest", lambda sides, rng: sides.fresh),
    "copy": ("leak", lambda sides, rng: sides.train),
    "1% copies": ("leak", copies(0.01)),
    "2% copies": ("leak", copies(0.02)),
    "5% copies": ("leak", copies(0.05)),
    "1% outliers copied": ("leak", outliers_copied(0.01)),
    "5% of either side": ("leak", both_sides(0.05)),
}
"""Whole rows, by name."""
_COLUMNS: Mapping[str, tuple[Must, Spoil]] = {
    "5% half rows": ("leak", halves_copied(0.05)),
    "values of 1 column": ("leak", values_kept(1)),
    "values of 2 columns": ("leak", values_kept(2)),
    "values of 5 columns": ("leak", values_kept(5)),
    "jittered copy": ("leak", jittered(1.0)),
    "5% jittered": ("leak", jittered(0.05)),
    "CART, leaves of 1": ("leak", cart(1)),
    "CART, leaves of 50": ("leak", cart(50)),
    "sorted": ("garbage", sorted_alone),
    "anti-sorted": ("garbage", anti_sorted),
    "comonotone": ("garbage", comonotone),
    "shuffled": ("garbage", shuffled),
    "blocks shuffled": ("garbage", block_shuffled),
    "half of rows shuffled": ("garbage", rows_shuffled),
    "one column shuffled": ("garbage", column_shuffled),
    "4 columns sorted": ("garbage", some_sorted(4)),
    "one column ruined": ("garbage", column_ruined),
    "one column x 1,000": ("garbage", column_times_1000),
    "10% of rows garbage": ("garbage", rows_of_garbage),
    "tails tripled": ("garbage", tails_stretched),
    "tails cut at 5%": ("garbage", tails_cut),
    "15% at the maximum": ("garbage", column_at_its_end),
}
"""Rows of which single columns are taken or changed, by name."""
_DOORS: Mapping[str, tuple[Must, Spoil]] = {
    "swapped sides": ("leak", lambda sides, rng: sides.holdout),
    "unknown columns": ("leak", unknown_column),
    "each row twice": ("garbage", each_twice),
    "group removed": ("garbage", group_removed),
    "labels swapped evenly": ("garbage", beside_entity(labels_swapped)),
    "three-way relation made up": ("garbage", beside_entity(triple_made_up)),
    "outliers on a coarse table": ("leak", beside_entity(coarse_outliers)),
}
"""What once stood open, by name."""
TABLES: Mapping[str, tuple[Must, Spoil]] = {
    **_ROWS, **{name: (must, beside_entity(spoil)) for name, (must, spoil) in _COLUMNS.items()}, **_DOORS,
}  # fmt: skip
"""By name."""


def spoiled_table(name: str, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """One of `TABLES` by its name, made of a single sample."""
    return TABLES[name][1](Sides(rows, rows, rows), rng)


def _replaced(rows: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The rows, of which as many as there are others give way to these, in a random order."""
    both = pd.concat([rows.iloc[len(others) :], others.astype(rows.dtypes.to_dict(), errors="ignore")])
    return both.iloc[rng.permutation(len(both))].reset_index(drop=True)


def _decimals(column: pd.Series) -> int:
    """The fewest decimals that hold all numbers; 15 where even these do not."""
    known = column.dropna()
    return next((n for n in range(15) if bool((known.round(n) == known).all())), 15)


def _rarity(column: pd.Series) -> np.ndarray:
    """Distance from the median in standard deviations, or minus the logarithm of a category's share."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        distance = (column - column.median()).abs() / max(float(column.std()), 1e-12)
        return np.asarray(distance.fillna(0.0), dtype=np.float64)
    share = column.map(column.value_counts(normalize=True)).astype(np.float64).fillna(1.0)
    return np.asarray(-np.log(share), dtype=np.float64)


def _ordered(frame: pd.DataFrame, upwards: list[bool]) -> pd.DataFrame:
    """Columns sorted each on its own, categories as texts, missing cells last."""
    made = {}
    for (name, column), up in zip(frame.items(), upwards, strict=True):
        key = column if pd.api.types.is_numeric_dtype(column.dtype) else column.astype("string")
        made[name] = column.to_numpy()[key.reset_index(drop=True).sort_values(ascending=up).index]
    return pd.DataFrame(made)


def _shuffled(frame: pd.DataFrame, blocks: list[list[str]], rng: np.random.Generator) -> pd.DataFrame:
    made = pd.concat(
        [frame[block].iloc[rng.permutation(len(frame))].reset_index(drop=True) for block in blocks], axis=1
    )
    return made[list(frame.columns)]


def uniform(column: pd.Series, n: int, rng: np.random.Generator) -> np.ndarray:
    """Values between a number's ends, or a text's values, all alike."""
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype != bool and known.nunique() > 20:
        drawn = rng.uniform(float(known.min()), float(known.max()), n)
        return np.asarray(np.round(drawn) if bool((known % 1 == 0).all()) else drawn)
    return np.asarray(rng.choice(known.unique(), n))


def _coded(column: pd.Series) -> np.ndarray:
    """Numbers as they are, texts by their rank, missing ones below all."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers_ = column.astype(np.float64)
        return np.asarray(numbers_.fillna(float(numbers_.min(skipna=True)) - 1.0 if numbers_.notna().any() else 0.0))
    return np.asarray(pd.factorize(column, sort=True)[0], dtype=np.float64)


def _leaf_draws(
    before: pd.DataFrame, column: pd.Series, made: pd.DataFrame, leaf: int, rng: np.random.Generator
) -> np.ndarray:
    """For each row that was made so far, a training row from the same leaf of a tree that explains the column."""
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=int(rng.integers(2**31)))
    of_train = tree.fit(before.to_numpy(), column.to_numpy()).apply(before.to_numpy())
    order = np.argsort(of_train, kind="stable")
    leaves, first, sizes = np.unique(of_train[order], return_index=True, return_counts=True)
    places = np.searchsorted(leaves, tree.apply(made.to_numpy()))
    return np.asarray(order[first[places] + rng.integers(sizes[places])])
