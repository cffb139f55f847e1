"""anonymeter's linkability and inference attacks, written anew from their definitions: nearest by Gower's distance.

Numbers differ by their share of the range of both tables, anything else by 0 or 1; two missing numbers differ by 1.

Source: Giomi et al. 2023, arXiv:2211.10459, and anonymeter 1.1.0.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

BLOCK = 50
"""Targets whose distances to all rows are held at once."""
TOLERANCE = 0.05
"""A number is guessed right within this share of the guess."""


def links(targets: pd.DataFrame, synthetic: pd.DataFrame, halves: Sequence[Sequence[str]]) -> tuple[int, float]:
    """How many targets have the same nearest row by either half of the columns.

    Args:
        targets: rows to link.
        synthetic: rows to link them by.
        halves: columns that one and the other data set know.

    Returns:
        Of the first among equally near rows; and what comes of drawing among them, on average.
    """
    first, drawn = 0, 0.0
    for left, right in zip(*(ties(targets, synthetic, half) for half in halves), strict=True):
        both = len(np.intersect1d(left, right, assume_unique=True))
        first += int(left[0] == right[0])
        drawn += both / len(left) / len(right)
    return first, drawn


def guessed(targets: pd.DataFrame, synthetic: pd.DataFrame, secret: str) -> tuple[int, float]:
    """How many secrets are guessed right from the nearest row by all other columns.

    Args:
        targets: rows whose secret is wanted.
        synthetic: rows to guess from.
        secret: the column.

    Returns:
        As `links`.
    """
    known = [name for name in targets.columns if name != secret]
    first, drawn = 0, 0.0
    guesses = synthetic[secret].to_numpy()
    for truth, near in zip(targets[secret].to_numpy(), ties(targets, synthetic, known), strict=True):
        hits = right(guesses[near], truth)
        first += int(hits[0])
        drawn += float(hits.mean())
    return first, drawn


def right(guesses: np.ndarray, truth: object) -> np.ndarray:
    """Which guesses of one secret count as right; shape (len(guesses),).

    >>> right(np.array([100.0, 106.0, 90.0]), 100.0)
    array([ True, False, False])
    """
    missing = pd.isna(guesses)
    if pd.isna(truth):  # type: ignore[call-overload]
        return np.asarray(missing)
    if guesses.dtype.kind in "iuf":
        return np.asarray(np.abs(guesses - truth) / (guesses + 1e-12) <= TOLERANCE)
    return np.asarray(~missing & (guesses == truth))


def ties(targets: pd.DataFrame, synthetic: pd.DataFrame, names: Sequence[str]) -> Iterator[np.ndarray]:
    """For each target, the positions of all synthetic rows at the least distance, ascending.

    Args:
        targets: rows.
        synthetic: rows among which to search.
        names: columns that count.
    """
    numbers = sorted(name for name in names if pd.api.types.is_numeric_dtype(targets[name]))
    others = sorted(set(names) - set(numbers))
    scaled = [_scaled(targets[name], synthetic[name]) for name in numbers]
    coded = [_coded(targets[name], synthetic[name]) for name in others]
    for start in range(0, len(targets), BLOCK):
        rows = slice(start, start + BLOCK)
        distance = np.zeros((len(targets.iloc[rows]), len(synthetic)))
        for left, pool in scaled:
            gap = np.abs(left[rows, None] - pool)
            gap[np.isnan(left[rows, None]) & np.isnan(pool)] = 1
            distance += gap
        for left, pool in coded:
            distance += left[rows, None] != pool
        least = np.nanmin(distance, axis=1)
        yield from (np.flatnonzero(row == near) for row, near in zip(distance, least, strict=True))


def _scaled(targets: pd.Series, synthetic: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Both divided by their common range."""
    span = float(max(targets.max(), synthetic.max()) - min(targets.min(), synthetic.min())) or 1.0
    return targets.to_numpy(dtype=np.float64) / span, synthetic.to_numpy(dtype=np.float64) / span


def _coded(targets: pd.Series, synthetic: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Both as codes, missing among them."""
    codes, _ = pd.factorize(pd.concat([targets, synthetic]), use_na_sentinel=False)
    small = codes.astype(np.int32)
    return small[: len(targets)], small[len(targets) :]
