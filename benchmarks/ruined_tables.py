"""Tables that copy nobody and are of no use: fresh rows of which something was ruined."""

from functools import partial

import numpy as np
import pandas as pd

from benchmarks.leaking_tables import two_digits
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

STRETCH_FACTOR = 3.0
"""Factor by which distances from the median are stretched, beyond the 5% and 95% quantiles."""
GARBAGE_SHARE = 0.1
"""Share of rows that are replaced by garbage."""
NO_NUMBER = "no number of many values"
NO_GROUP = "no group of that size"
LEAST_TIED = 0.3
"""Rank correlation from which on two columns have a relation that can be turned round."""


def all_sorted(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column sorted on its own."""
    return ordered(sides.fresh, [True] * len(sides.fresh.columns))


def anti_sorted(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column sorted on its own, every second one downwards."""
    return ordered(sides.fresh, [position % 2 == 0 for position in range(len(sides.fresh.columns))])


def comonotone(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Every column the quantile function of one uniform number."""
    up_to = rng.random(len(sides.fresh))
    upwards = ordered(sides.fresh, [True] * len(sides.fresh.columns))
    return upwards.iloc[np.floor(up_to * len(upwards)).astype(np.int64)].reset_index(drop=True)


def shuffled(sides: Sides, rng: np.random.Generator, size: int = 1) -> pd.DataFrame:
    """Blocks of so many random columns, each shuffled as a whole."""
    names = list(rng.permutation(list(sides.fresh.columns)))
    blocks = [names[i : i + size] for i in range(0, len(names), size)]
    dealt = [sides.fresh[block].iloc[rng.permutation(len(sides.fresh))].reset_index(drop=True) for block in blocks]
    return pd.concat(dealt, axis=1)[list(sides.fresh.columns)]


def rows_shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, half of which have every column shuffled."""
    return replaced(sides.fresh, shuffled(sides, rng).head((len(sides.fresh) + 1) // 2), rng)


def column_shuffled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The column that goes along with the others most, shuffled on its own."""
    name = correlations(sides.fresh).abs().sum().idxmax()
    return sides.fresh.assign(**{name: rng.permutation(sides.fresh[name].to_numpy())})


def some_sorted(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Four random columns sorted each on its own, the others as they are."""
    names = list(rng.permutation(list(sides.fresh.columns)))[:4]
    upwards = ordered(sides.fresh[names], [True] * len(names))
    return sides.fresh.assign(**{name: upwards[name].to_numpy() for name in names})


def column_ruined(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """The finest number uniform between its ends; without one, the finest column uniform in its values."""
    name = finest_number(sides.fresh) or finest(sides.fresh, 1)[0]
    return sides.fresh.assign(**{name: uniform(sides.train[name], len(sides.fresh), rng)})


def column_scaled(sides: Sides, rng: np.random.Generator, factor: float) -> pd.DataFrame | str:
    """The finest number times a factor, with its usual decimals."""
    name = finest_number(sides.fresh)
    if name is None:
        return NO_NUMBER
    return sides.fresh.assign(**{name: (sides.fresh[name] * factor).round(decimals(sides.train[name]))})


def columns_exchanged(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The two finest numbers under each other's name."""
    names = finest(sides.fresh[numbers(sides.fresh, COARSE)], 2)
    if len(names) < 2:
        return "fewer than two numbers of many values"
    return sides.fresh.assign(**{name: sides.fresh[other] for name, other in zip(names, names[::-1], strict=True)})


def values_exchanged(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The two commonest values of a column of three or more under each other's name, where one is twice as common."""
    for name in sides.fresh.columns:
        shares = sides.fresh[name].value_counts(normalize=True)
        if 2 < len(shares) <= COARSE and shares.iloc[0] - shares.iloc[1] > 0.2 and shares.iloc[1] > 0.1:
            first, second = shares.index[:2]
            other = sides.fresh[name].map({first: second, second: first})
            return sides.fresh.assign(**{name: sides.fresh[name].where(other.isna(), other)})
    return "no column whose two commonest values are apart"


def rows_of_garbage(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """Fresh rows, a tenth of which are replaced by rows that are uniform in every column."""
    n = round(GARBAGE_SHARE * len(sides.fresh))
    noise = pd.DataFrame({name: uniform(sides.train[name], n, rng) for name in sides.train.columns})
    return replaced(sides.fresh, noise, rng)


def noisy(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Half a standard deviation of noise in every number of many values."""
    spoiled = sides.fresh.copy()
    for name in numbers(sides.train, COARSE):
        noise = rng.normal(scale=0.5 * float(sides.train[name].std()), size=len(spoiled))
        spoiled[name] = (spoiled[name] + noise).round(decimals(sides.train[name]))
    return NO_NUMBER if spoiled.equals(sides.fresh) else spoiled


def one_digit(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Every number of many values with one digit."""
    spoiled = sides.fresh.copy()
    for name in numbers(sides.train, COARSE):
        spoiled[name] = two_digits(spoiled[name].astype(np.float64), 1)
    return NO_NUMBER if spoiled.equals(sides.fresh) else spoiled


def tails_stretched(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows whose numbers beyond the 5% and 95% quantiles lie three times as far from the median."""
    spoiled = sides.fresh.copy()
    for name in numbers(sides.train, COARSE):
        column = spoiled[name].astype(np.float64)
        low, middle, high = sides.train[name].quantile([0.05, 0.5, 0.95])
        far = (column < low) | (column > high)
        spoiled[name] = column.where(~far, middle + STRETCH_FACTOR * (column - middle))
    return NO_NUMBER if spoiled.equals(sides.fresh) else spoiled


def tails_cut(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows whose numbers are clipped at the 5% and 95% quantiles."""
    spoiled = sides.fresh.copy()
    for name in numbers(sides.train, COARSE):
        spoiled[name] = spoiled[name].astype(np.float64).clip(*sides.train[name].quantile([0.05, 0.95]))
    return NO_NUMBER if spoiled.equals(sides.fresh) else spoiled


def column_at_its_end(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows, in 15% of which the finest number is at its maximum."""
    spoiled, name = sides.fresh.copy(), finest_number(sides.fresh)
    if name is None:
        return NO_NUMBER
    spoiled.loc[rng.random(len(spoiled)) < 0.15, name] = sides.train[name].max()
    return spoiled


def missing_filled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Every missing cell holds a value of its column."""
    spoiled, shares = sides.fresh.copy(), sides.train.isna().mean()
    if shares.max() < 0.05:
        return "hardly a cell is missing"
    for name in shares.index[shares > 0]:
        gaps, known = spoiled[name].isna().to_numpy(), sides.fresh[name].dropna().to_numpy()
        if len(known):
            cells = spoiled[name].to_numpy(copy=True)
            cells[gaps] = rng.choice(known, int(gaps.sum()))
            spoiled[name] = cells
    return spoiled


def each_twice(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """A random half of the fresh rows, each of them twice."""
    half = sides.fresh.iloc[rng.permutation(len(sides.fresh))[: len(sides.fresh) // 2]]
    return pd.concat([half, half], ignore_index=True)


def few_rows(sides: Sides, rng: np.random.Generator) -> pd.DataFrame:
    """A twentieth of the fresh rows, again and again."""
    few = sides.fresh.iloc[: max(len(sides.fresh) // 20, 1)]
    return few.iloc[rng.integers(len(few), size=len(sides.fresh))].reset_index(drop=True)


def group_removed(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows without the smallest group of at least 2% that shares a value; rows of all others take its place."""
    for _, name, value in groups(_bare(sides), GROUP, 0.5):
        left = sides.fresh[sides.fresh[name] != value]
        return left.iloc[rng.integers(len(left), size=len(sides.fresh))].reset_index(drop=True)
    return NO_GROUP


def group_tripled(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows, in which the smallest group of at least 2% has three times its rows."""
    for _, name, value in groups(_bare(sides), GROUP, 0.25):
        theirs = sides.fresh[sides.fresh[name] == value]
        return replaced(sides.fresh, pd.concat([theirs, theirs]), rng)
    return NO_GROUP


def target_balanced(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """As many rows of either value of the last column of two values, of which one was twice as common."""
    for name in [name for name in sides.fresh.columns if sides.fresh[name].nunique() == 2][::-1]:
        shares = sides.fresh[name].value_counts(normalize=True)
        if shares.iloc[1] < 0.3:
            weights = sides.fresh[name].map(1 / shares).fillna(0.0).to_numpy(dtype=np.float64)
            drawn = rng.choice(len(weights), len(weights), p=weights / weights.sum())
            return sides.fresh.iloc[drawn].reset_index(drop=True)
    return "no column of two values, one of them rare"


def labels_swapped(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """The last column of two values with its values exchanged in half of the rows: of no use to any model."""
    binary = [name for name in sides.fresh.columns if sides.fresh[name].nunique() == 2]
    if not binary:
        return "no column of two values"
    column = sides.fresh[binary[-1]]
    first, second = column.dropna().unique()
    return sides.fresh.assign(
        **{binary[-1]: column.where(rng.random(len(column)) < 0.5, column.map({first: second, second: first}))}
    )


def triple_made_up(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """Fresh rows in which the half of a third column follows from those of two others, and from neither alone."""
    cut = {name: even_halves(sides.fresh[name]) for name in sides.fresh.columns}
    names: list[str] = []
    for name in finest(sides.fresh, len(cut))[::-1]:
        if 0.3 <= cut[name].mean() <= 0.7 and all(abs(np.corrcoef(cut[name], cut[n])[0, 1]) < 0.3 for n in names):
            names.append(name)
    if len(names) < 3:
        return "fewer than three columns whose values are two halves, and are not told by each other"
    halves = [cut[name] for name in names[:3]]
    odd = np.flatnonzero(halves[0] ^ halves[1] ^ halves[2])
    # Among rows whose three halves do not come to an even sum, the last column goes to a row of the other half.
    up, down = (rng.permutation(odd[halves[2][odd] == half]) for half in (True, False))
    n = min(len(up), len(down))
    cells = sides.fresh[names[2]].to_numpy(copy=True)
    cells[up[:n]], cells[down[:n]] = cells[down[:n]].copy(), cells[up[:n]].copy()
    return sides.fresh.assign(**{names[2]: cells})


def even_halves(column: pd.Series) -> np.ndarray:
    """Whether a value is of the upper half, cut between two values so that halves are as even as can be; shape (n,)."""
    codes = coded(column)
    values, counts = np.unique(codes, return_counts=True)
    below = np.cumsum(counts) / len(codes)
    return np.asarray(codes > values[np.abs(below - 0.5).argmin()])


def turned_in_a_group(
    sides: Sides, rng: np.random.Generator, least: float, most: float, *, lost: bool = False
) -> pd.DataFrame | str:
    """Inside a group of rows, the column that goes along with another most: its ranks turned round, or dealt anew."""
    best: tuple[float, np.ndarray, str] | None = None
    for _, column, value in groups(sides.fresh, least, most):
        rows = np.flatnonzero((sides.fresh[column] == value).to_numpy())
        within = correlations(sides.fresh.iloc[rows].drop(columns=column)).abs()
        tied = within.where(~np.eye(len(within), dtype=bool), 0.0).max()
        if len(tied) and (best is None or tied.max() > best[0]):
            best = float(tied.max()), rows, str(tied.idxmax())
    if best is None or best[0] < LEAST_TIED:
        return "no relation within a group of that size"
    _, rows, name = best
    cells = sides.fresh[name].to_numpy(copy=True)
    order = rows[np.lexsort([rng.random(len(rows)), coded(sides.fresh[name].iloc[rows])])]
    cells[order] = rng.permutation(cells[order]) if lost else cells[order[::-1]].copy()
    return sides.fresh.assign(**{name: cells})


def dependency_broken(sides: Sides, rng: np.random.Generator) -> pd.DataFrame | str:
    """In a tenth of the rows another value of a column that follows from another one."""
    fine = [name for name in sides.fresh.columns if 2 < sides.fresh[name].nunique() <= 300]
    for by in fine:
        for name in sides.fresh.columns:
            counts = sides.fresh.groupby(by)[name].nunique()
            if name != by and 2 < sides.fresh[name].nunique() <= 300 and counts.max() == 1:
                at = rng.random(len(sides.fresh)) < GARBAGE_SHARE
                cells = sides.fresh[name].to_numpy(copy=True)
                cells[at] = rng.permutation(cells)[: int(at.sum())]
                return sides.fresh.assign(**{name: cells})
    return "no column follows from another"


def uniform(column: pd.Series, n: int, rng: np.random.Generator) -> np.ndarray:
    """Values between a number's ends, or a text's values, all alike."""
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype != bool and known.nunique() > COARSE:
        drawn = rng.uniform(float(known.min()), float(known.max()), n)
        return np.asarray(np.round(drawn) if bool((known % 1 == 0).all()) else drawn)
    return np.asarray(rng.choice(known.unique(), n))


def ordered(frame: pd.DataFrame, upwards: list[bool]) -> pd.DataFrame:
    """Columns sorted each on its own, categories as texts, missing cells last."""
    columns = {}
    for (name, column), up in zip(frame.items(), upwards, strict=True):
        key = column if pd.api.types.is_numeric_dtype(column.dtype) else column.astype("string")
        columns[name] = column.to_numpy()[key.reset_index(drop=True).sort_values(ascending=up).index]
    return pd.DataFrame(columns)


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of all columns, texts by their order; 0 where one does not vary."""
    return pd.DataFrame({name: coded(frame[name]) for name in frame.columns}).rank().corr().fillna(0.0)


def _bare(sides: Sides) -> pd.DataFrame:
    return sides.fresh.drop(columns=[] if sides.entity is None else [sides.entity])


_OF_COLUMNS: dict[str, Spoil] = {
    "sorted": all_sorted,
    "anti-sorted": anti_sorted,
    "comonotone": comonotone,
    "shuffled": shuffled,
    "blocks shuffled": partial(shuffled, size=3),
    "half of rows shuffled": rows_shuffled,
    "one column shuffled": column_shuffled,
    "4 columns sorted": some_sorted,
    "one column ruined": column_ruined,
    "one column x 1,000": partial(column_scaled, factor=1_000),
    "one column x 1.1": partial(column_scaled, factor=1.1),
    "columns exchanged": columns_exchanged,
    "values exchanged": values_exchanged,
    "10% of rows garbage": rows_of_garbage,
    "noisy numbers": noisy,
    "numbers of one digit": one_digit,
    "tails tripled": tails_stretched,
    "tails cut at 5%": tails_cut,
    "15% at the maximum": column_at_its_end,
    "missing cells filled": missing_filled,
    "labels swapped evenly": labels_swapped,
    "three-way relation made up": triple_made_up,
    "relation turned in a seventh": partial(turned_in_a_group, least=0.1, most=0.2),
    "relation turned in a third": partial(turned_in_a_group, least=0.25, most=0.45),
    "relation lost in a third": partial(turned_in_a_group, least=0.25, most=0.45, lost=True),
    "a tenth breaks a dependency": dependency_broken,
}
RUINS: dict[str, Spoil] = {
    **{name: beside_entity(spoil) for name, spoil in _OF_COLUMNS.items()},
    "each row twice": each_twice,
    "a few rows again and again": few_rows,
    "group removed": group_removed,
    "group tripled": group_tripled,
    "classes balanced": target_balanced,
}
"""By name."""
