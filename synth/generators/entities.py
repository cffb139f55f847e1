"""Which synthetic rows belong to one entity: sizes by their noisy shares, and columns that are constant within one."""

import numpy as np
import pandas as pd


def entity_of_rows(shares: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """A synthetic entity's number for every row, shape (n_rows,): consecutive rows share one.

    Args:
        shares: share of entities with 1, 2, ..., k rows; not all zero.
        n_rows: rows to name.
        rng: source of the draw.
    """
    sizes = rng.choice(np.arange(1, len(shares) + 1), size=n_rows, p=shares / shares.sum())
    return np.repeat(np.arange(n_rows), sizes)[:n_rows]


def group_rows(constant: pd.DataFrame, shares: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An order of the rows in which those of one entity follow each other and hold the same values.

    Only the order changes: the table holds the rows that it held. Entities come in random order, so that it tells
    nothing.

    Args:
        constant: the columns that are constant within an entity, canonical; equal means equal exactly, and missing
            equals missing.
        shares: share of entities with 1, 2, ..., k rows; not all zero.
        rng: source of the draw.

    Returns:
        Positions of the rows in their new order, and the entity of each of them from there on; both shape (n,).
    """
    groups = row_groups(constant)
    of_entity, sizes = _cut(np.bincount(groups), shares, rng)
    # Rows of a group are alike but for their order, which is random: any of them may be in any of its entities.
    rows = np.argsort(groups, kind="stable")
    by_group = np.argsort(of_entity, kind="stable")
    entity = np.repeat(rng.permutation(len(sizes)), sizes[by_group])
    order = np.argsort(entity, kind="stable")
    return rows[order], entity[order]


def row_groups(constant: pd.DataFrame) -> np.ndarray:
    """A number for every row, equal where all the values are, from zero on without gaps; shape (n,).

    Args:
        constant: canonical columns; missing equals missing.
    """
    groups = np.zeros(len(constant), dtype=np.int64)
    for _, series in constant.items():
        numbers, n_values = _numbers(series)
        groups = np.unique(groups * n_values + numbers, return_inverse=True)[1]
    return groups


def _numbers(series: pd.Series) -> tuple[np.ndarray, int]:
    """A number for the value of every row, and how many there are."""
    if series.dtype == object:
        # pandas takes texts for equal that differ after a NUL.
        known: dict[object, int] = {}
        return np.array([known.setdefault(value, len(known)) for value in series], dtype=np.int64), len(known)
    numbers, values = pd.factorize(series, use_na_sentinel=False)
    return numbers, len(values)


def _cut(rows_left: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Entities that fill groups of rows exactly: the group of each, and how many rows it has.

    As many entities of each size as the shares say, the largest first, each into a group that still has room for it, in
    proportion to the room. One that fits nowhere becomes smaller, and what is then left over is cut up in the same way.

    Args:
        rows_left: rows of each group, shape (n_groups,).
        shares: share of entities with 1, 2, ..., k rows; not all zero.
        rng: source of the draw.
    """
    rows_left = rows_left.copy()
    groups, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    while n_left := int(rows_left.sum()):
        _, drawn = np.unique(entity_of_rows(shares, n_left, rng), return_counts=True)
        n_wanted = np.bincount(drawn, minlength=len(shares) + 1)
        n_unplaced = 0
        for size in range(len(shares), 0, -1):
            open_groups = np.flatnonzero(rows_left >= size)
            room = rows_left[open_groups] // size
            n_entities = min(int(n_wanted[size]) + n_unplaced, int(room.sum()))
            n_unplaced += int(n_wanted[size]) - n_entities
            placed = rng.multivariate_hypergeometric(room, n_entities, method="marginals")
            rows_left[open_groups] -= placed * size
            groups.append(np.repeat(open_groups, placed))
            sizes.append(np.full(n_entities, size))
    return np.concatenate(groups), np.concatenate(sizes)
