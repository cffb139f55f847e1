"""Rows of a parent for rows that were drawn with about its columns: alike, and each as often as it is to be named.

Both sides are cut in halves by the ranks of one column after another, the columns that tell most first and most often.
What comes to the same place in the end goes together: a parent with more slots is there more often. So the parent's
columns keep their distribution among the rows, and its numbers of rows their own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

N_BINS = 8  # of ranks, by which two columns are compared
ROUNDS = 40  # rounds in which rows that name one pair of parents twice change theirs

Codes = NDArray[np.int64]


def joint_codes(drawn: pd.DataFrame, parent: pd.DataFrame) -> tuple[Codes, Codes]:
    """Ranks of the values of each column, equal for equal ones on both sides, missing first; shapes (n, d)."""
    sides = np.empty((len(drawn) + len(parent), drawn.shape[1]), dtype=np.int64)
    for at, name in enumerate(map(str, drawn)):
        both = pd.concat([drawn[name], parent[name]], ignore_index=True)
        if pd.api.types.is_object_dtype(both.dtype) or isinstance(both.dtype, pd.CategoricalDtype | pd.StringDtype):
            both = both.astype(object).where(both.notna(), None).map(lambda v: None if v is None else str(v))
        sides[:, at] = pd.factorize(both, sort=True)[0]
    return sides[: len(drawn)], sides[len(drawn) :]


def importance(codes: Codes, beside: Codes) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """How much each column goes together with any of those beside it, Cramer's V less what chance adds, and with which
    of them most; shapes (d,).

    Source: Bergsma 2013.
    """
    n, values = len(codes), np.zeros((codes.shape[1], max(beside.shape[1], 1)))
    bins = [_binned(column) for column in codes.T]
    for which, other in enumerate(map(_binned, beside.T)):
        for at, own in enumerate(bins):
            sizes = int(own.max()) + 1, int(other.max()) + 1
            if min(sizes) < 2 or n < 2:
                continue
            counts = np.bincount(own * sizes[1] + other, minlength=sizes[0] * sizes[1]).reshape(sizes).astype(float)
            expected = counts.sum(1, keepdims=True) * counts.sum(0) / n
            shares = np.divide((counts - expected) ** 2, expected, out=np.zeros(sizes), where=expected > 0)
            phi = max(float(shares.sum()) / n - (sizes[0] - 1) * (sizes[1] - 1) / (n - 1), 0.0)
            values[at, which] = np.sqrt(phi / (min(sizes) - 1))
    return values.max(axis=1), values.argmax(axis=1)


def by_other(own: NDArray[np.int64], theirs: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[Any, Any]:
    """Codes of categories in the order of the means of another column, so that halves tell of it."""
    n = max(int(own.max(initial=0)), int(theirs.max(initial=0))) + 2
    sums, counts = np.bincount(own + 1, other, n), np.bincount(own + 1, minlength=n)
    rank = np.argsort(np.argsort(np.where(counts > 0, sums / np.maximum(counts, 1), other.mean()), kind="stable"))
    return rank[own + 1], rank[theirs + 1]


def _binned(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.bincount(codes + 1)
    if np.count_nonzero(counts) <= N_BINS:
        return np.unique(codes, return_inverse=True)[1]
    middle = np.cumsum(counts) - counts / 2
    return np.unique((middle * N_BINS / len(codes)).astype(np.int64)[codes + 1], return_inverse=True)[1]


def halving_order(codes: Codes, groups: Codes, turns: Sequence[int], rng: np.random.Generator) -> NDArray[np.intp]:
    """Positions in an order in which groups, and what is alike in the columns, stand together."""
    node = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    chance = rng.random(len(codes))
    order = np.lexsort((chance, node))
    for turn in turns:
        order = np.lexsort((chance, codes[:, turn], node))
        starts = np.flatnonzero(np.diff(node[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        if len(sizes) == 0 or sizes.max() <= 1:
            break
        rank = np.arange(len(order)) - np.repeat(starts, sizes)
        node[order] = 2 * node[order] + (2 * rank + 1 > np.repeat(sizes, sizes))
    return np.asarray(order)


def turns_of(weights: NDArray[np.float64], codes: Codes, n_turns: int) -> list[int]:
    """Which column halves come by: the one of most weight, which counts half from then on."""
    left = weights + 1e-3
    levels = np.array([len(np.unique(column)) for column in codes.T], dtype=float)
    turns = []
    for _ in range(n_turns):
        at = int(np.argmax(np.where(levels > 1, left, -1.0)))
        turns.append(at)
        left[at], levels[at] = left[at] / 2, levels[at] / 2 if levels[at] > 2 else levels[at]
    return turns


def match(
    drawn: pd.DataFrame, beside: pd.DataFrame, parent: pd.DataFrame, slots: NDArray[np.int64],
    groups: tuple[Codes, Codes] | None, rng: np.random.Generator,
) -> NDArray[np.intp]:  # fmt: skip
    """A row of the parent for each drawn row, shape (n,); -1 where its group has none.

    `drawn`: the parent's columns as they were drawn. `beside`: the other columns of these rows. `slots`: how often each
    row of the parent is to be named. `groups`: of drawn rows and of rows of the parent, which go together alone.
    """
    own, theirs = joint_codes(drawn, parent[list(drawn)])
    of_rows, of_parent = groups if groups is not None else (np.zeros(len(own), "i8"), np.zeros(len(theirs), "i8"))
    # A group of whose rows none is to be named has each of them once.
    most = pd.Series(slots).groupby(of_parent).transform("max").to_numpy() if len(slots) else slots
    places = np.repeat(np.arange(len(slots)), np.where(most > 0, slots, 1))
    weights = np.zeros(0)
    if drawn.shape[1] and len(own) and beside.shape[1]:
        others = joint_codes(beside, beside.iloc[:0])[0]
        weights, best = importance(own, others)
        for at, name in enumerate(drawn):
            if not (is_numeric_dtype(drawn[name].dtype) or is_datetime64_any_dtype(drawn[name].dtype)):
                own[:, at], theirs[:, at] = by_other(own[:, at], theirs[:, at], others[:, best[at]])
    largest = max(np.unique(of_rows, return_counts=True)[1].max(initial=1), 2)
    turns = turns_of(weights, theirs, int(np.ceil(np.log2(largest))) + 1) if len(weights) and len(theirs) else []
    first = halving_order(own, of_rows, turns, rng)
    second = places[halving_order(theirs[places], of_parent[places], turns, rng)]
    names, starts, counts = np.unique(of_parent[second], return_index=True, return_counts=True)
    own_names, own_starts, own_counts = np.unique(of_rows[first], return_index=True, return_counts=True)
    rank = np.arange(len(first)) - np.repeat(own_starts, own_counts)
    share = (rank + 0.5) / np.repeat(own_counts, own_counts)
    # The group of each row among those of the parent, and the place there that is as far along as its own.
    group = np.repeat(np.searchsorted(names, own_names), own_counts)
    is_there = np.append(names, -2)[group] == of_rows[first]
    place = np.append(starts, 0)[group] + np.floor(share * np.append(counts, 0)[group]).astype(np.int64)
    result = np.full(len(own), -1, dtype=np.intp)
    result[first[is_there]] = second[place[is_there]]
    return result


def deal(
    of_rows: Codes, of_parent: Codes, slots: NDArray[np.int64], totals: NDArray[np.int64] | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:  # fmt: skip
    """A row of the parent for rows of the same group, shape (n,), -1 for none; which rows get which is left to chance.

    `slots`: how often each row of the parent is named, in several draws, shape (n_draws, n_parents). Names are dealt by
    how often a row has one in these, to no row more than in any; where that does not do, others are named once.
    `totals`: how many rows of each group name one; `None`: all, so that some are named again.
    """
    n = np.bincount(of_rows[of_rows >= 0], minlength=int(of_parent.max(initial=0)) + 1)
    wanted = n if totals is None else np.minimum(n, np.append(totals, np.zeros(len(n), "i8"))[: len(n)])
    has = np.bincount(of_parent[of_parent >= 0], minlength=len(n))
    again = -(-n // np.maximum(has, 1)) if totals is None else np.ones(len(n), dtype=np.int64)
    inside, most, mean = of_parent >= 0, slots.max(axis=0), slots.mean(axis=0)
    each = np.repeat(np.arange(len(most)), np.where(inside, most, 0))
    # An exponential race by odds: about the chance of a name given how many there are in the group.
    share = mean / np.maximum(most, 1)
    turn = rng.exponential(size=len(each)) / (share / (1 - share + 0.5 / len(slots)))[each]
    others = np.repeat(
        np.arange(len(most)), np.where(inside & ((most == 0) | (totals is None)), again[np.maximum(of_parent, 0)], 0)
    )
    places = np.append(each, others)
    turn = np.append(turn, turn.max(initial=0.0) + rng.random(len(others)))
    places = places[np.lexsort((turn, of_parent[places]))]
    rows = np.lexsort((rng.random(len(of_rows)), of_rows))
    rows = rows[of_rows[rows] >= 0]
    rank, place_rank = _ranks(of_rows[rows]), _ranks(of_parent[places])
    rows = rows[rank < np.minimum(wanted, np.bincount(of_parent[places], minlength=len(n)))[of_rows[rows]]]
    places = places[place_rank < np.bincount(of_rows[rows], minlength=len(n))[of_parent[places]]]
    result = np.full(len(of_rows), -1, dtype=np.intp)
    result[rows] = places  # both by group, and as many of each
    return result


def _ranks(groups: Codes) -> Codes:
    """The place of each row in its group, of groups that stand together; shape (n,)."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.asarray(np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups)))))


def without_pairs(
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    order: NDArray[np.intp],
    groups: Codes | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """The second parents such that few pairs come twice: rows near each other in an order change theirs."""
    second, rank = second.copy(), np.argsort(order)
    for turn in range(ROUNDS):
        again = np.flatnonzero(pd.DataFrame({"a": first, "b": second}).duplicated().to_numpy() & (second >= 0))
        if len(again) == 0:
            break
        reach = 2 ** (1 + turn // 3)
        step = rng.integers(1, reach + 1, len(again)) * rng.choice([-1, 1], len(again))
        other = order[np.clip(rank[again] + step, 0, len(order) - 1)]
        _, alone = np.unique(other, return_index=True)
        chosen = alone[~np.isin(other[alone], again) & (second[other[alone]] >= 0)]
        if groups is not None:
            chosen = chosen[groups[again[chosen]] == groups[other[chosen]]]
        rows, partners = again[chosen], other[chosen]
        second[rows], second[partners] = second[partners], second[rows].copy()
    return second
