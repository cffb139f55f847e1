"""Nearest rows by Gower's distance on some of the columns: for attackers who hold a part of a record.

In a column, two rows differ by 1 where categories differ or one value is missing. Numbers and times differ by their
ranks, and two missing values by nothing. Differences are added up in whole steps, so that equal sums are equal whatever
the order of the columns. The pool's own order decides between rows that are equally near: attacks hand it over in a
seeded random order, so that ties are split by chance.

Source: Gower 1971; Giomi et al. 2023 (2211.10459) for attacks by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evaluate.neighbors.space import SpaceRows

CELLS = 1 << 15
"""Pairs of a target and a row of the pool that are looked at together: their sums stay in a processor's cache."""
FINEST = 1 << 17
"""Steps that a difference of 1 is counted in, at most."""
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class _Column:
    """One column of targets and of the pool, in whole steps.

    Attributes:
        targets: codes or ranks, shape (n_targets,), int32; twice `unit` where a rank is missing.
        pool: the same of the pool, shape (n_pool,).
        unit: the largest difference.
        is_line: whether these are ranks.
        is_cut: whether differences of ranks can be larger than `unit`, as one value of two is missing.
    """

    targets: np.ndarray
    pool: np.ndarray
    unit: int
    is_line: bool
    is_cut: bool

    @classmethod
    def of(cls, targets: np.ndarray, pool: np.ndarray, unit: int) -> "_Column":
        if targets.dtype.kind == "i":
            return cls(targets, pool, unit, is_line=False, is_cut=False)
        one, other = (np.rint(values.astype(np.float64) * unit).astype(np.int32) for values in (targets, pool))
        return cls(one, other, unit, is_line=True, is_cut=bool((one > unit).any() or (other > unit).any()))

    def differences(self, block: slice | int, pool: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Of some targets from some rows of the pool; shape (n_block, n_pool), or (n_pool,) of one target; int32."""
        one, other = self.targets[block], self.pool[pool]
        one = one if isinstance(block, int) else one[:, None]
        if not self.is_line:
            return np.asarray(np.multiply(one != other, self.unit, dtype=np.int32))
        gaps = np.asarray(one - other)
        np.abs(gaps, out=gaps)
        return np.asarray(np.minimum(gaps, self.unit, out=gaps)) if self.is_cut else gaps


def gower_nearest(targets: SpaceRows, pool: SpaceRows, columns: Sequence[str], k: int = 1) -> np.ndarray:
    """Positions of the k nearest rows of the pool by some columns, nearest first; shape (n, k).

    Args:
        targets: shape (n,) rows.
        pool: at least k rows, in a seeded random order.
        columns: names of learned columns, at least one.
        k: how many.
    """
    parts = _columns(targets, pool, columns)
    found = [_first(sums, k) for _, sums in _sums(len(targets), len(pool), parts)]
    return np.concatenate(found) if found else np.zeros((0, k), dtype=np.int64)


def gower_without_each(targets: SpaceRows, pool: SpaceRows, secrets: Sequence[str]) -> dict[str, np.ndarray]:
    """For each secret column, positions of the nearest row of the pool by all the other columns; shape (n,) each.

    Args:
        targets: shape (n,) rows.
        pool: in a seeded random order.
        secrets: names of learned columns; where there is only one column, all rows are equally near.
    """
    names = sorted(targets.columns)
    parts = _columns(targets, pool, names)
    left_out = [parts[names.index(name)] for name in secrets]
    found = np.zeros((len(targets), len(secrets)), dtype=np.int64)
    for start, sums in _sums(len(targets), len(pool), parts):
        least = sums.min(axis=1)
        for row, total in enumerate(sums):
            # Leaving out one column takes at most a unit off: no other row can come first.
            near = np.flatnonzero(total <= least[row] + parts[0].unit)
            without = total[near] - np.array([part.differences(start + row, near) for part in left_out])
            found[start + row] = near[without.argmin(axis=1)]
    return dict(zip(secrets, found.T, strict=True))


def _columns(targets: SpaceRows, pool: SpaceRows, names: Sequence[str]) -> list[_Column]:
    unit = min(FINEST, LARGEST // (2 * len(names)))
    return [_Column.of(targets.columns[name], pool.columns[name], unit) for name in names]


def _sums(n_targets: int, n_pool: int, parts: Sequence[_Column]) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of targets: where each starts, and what they differ from each row of the pool by; (n_block, n_pool)."""
    size = max(1, CELLS // max(1, n_pool))
    for start in range(0, n_targets, size):
        block = slice(start, min(start + size, n_targets))
        total = np.zeros((block.stop - start, n_pool), dtype=np.int32)
        for part in parts:
            total += part.differences(block)
        yield start, total


def _first(sums: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest sums, ascending, of equal ones the first; shape (n, k)."""
    if k == 1:
        return np.asarray(sums.argmin(axis=1))[:, None]
    if k >= sums.shape[1]:
        return np.asarray(np.argsort(sums, axis=1, kind="stable")[:, :k])
    least = np.partition(sums, k - 1, axis=1)[:, k - 1 : k]
    found = np.empty((len(sums), k), dtype=np.int64)
    for row, below in enumerate(sums <= least):
        near = np.flatnonzero(below)
        found[row] = near[np.argsort(sums[row, near], kind="stable")[:k]]
    return found
