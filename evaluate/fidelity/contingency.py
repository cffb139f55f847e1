"""Counts of codes, of one column or a few together, on all rows and on replicates; and total variation between them."""

import numpy as np

from evaluate.intervals import replicate_groups

MAX_CODES = {2: 50, 3: 12}
"""Codes that a column has at most where so many columns are counted together."""


def replicated(counts: np.ndarray) -> np.ndarray:
    """Counts on all rows and on each half-sample, from counts by group.

    Args:
        counts: how often each code occurs in each group, shape (n_groups, n_codes).

    Returns:
        Shape (n_replicates, n_codes), float64; the first row is of all rows.

    >>> replicated(np.array([[1, 2]]))
    array([[1., 2.]])
    """
    return replicate_groups(len(counts)) @ counts.astype(np.float64)


def shares(table: np.ndarray) -> np.ndarray:
    """Counts as shares of their row; shape as given, (n_replicates, n_codes)."""
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Half the sum of absolute differences of two tables of shares; shape (n_replicates,), in [0, 1].

    >>> total_variation(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]]))
    array([0.25])
    """
    return np.asarray(np.minimum(0.5 * np.abs(first - second).sum(axis=1), 1.0))


def merged_codes(frequency: np.ndarray, most: int) -> np.ndarray:
    """The new code of every code of a column, such that there are no more than `most`.

    The rarest codes become one, the third but last; `other` and `missing` stay the last two, so that unseen categories
    are not taken for rare ones.

    Args:
        frequency: *Sensitive*. How often each code occurs in the training table, shape (size,).
        most: codes to keep at most, at least 4.

    Returns:
        Shape (size,), in [0, min(size, most)).

    >>> merged_codes(np.array([5, 1, 9, 2, 0, 3]), most=5)
    array([0, 2, 1, 2, 3, 4])
    """
    size = len(frequency)
    if size <= most:
        return np.arange(size)
    kept = np.sort(np.argsort(-frequency[: size - 2], kind="stable")[: most - 3])
    merged = np.full(size, most - 3)
    merged[kept] = np.arange(most - 3)
    merged[size - 2 :] = most - 2, most - 1
    return merged
