"""Associations of two columns: Pearson, Spearman, Cramer's V and the correlation ratio, with replicates.

Those of categories are corrected for small-sample bias. An association is NaN where a column is constant.
"""

import numpy as np

from evaluate.intervals import replicate_groups

LEAST_VARIANCE = 1e-12  # Share of a column's variance below which it counts as constant among some of its rows


def standardized(positions: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, constant ones exactly 0; NaN where missing; shape as given, (n, d)."""
    scaled = np.full(positions.shape, np.nan)
    for index, column in enumerate(positions.T):
        present = np.flatnonzero(~np.isnan(column))
        if len(present) == 0:
            continue
        values = column[present] - column[present[0]]  # exactly 0 for a constant column, whatever its size
        values = values / max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
        values = values - values.mean()
        deviation = float(values.std())
        scaled[present, index] = values / deviation if deviation > 0 else 0.0
    return scaled


def pearson(products: np.ndarray) -> np.ndarray:
    """Pearson's correlation of all pairs of columns from `pair_moments`, over the rows where both are present."""
    n, sums, squares, products = np.moveaxis(np.tensordot(replicate_groups(len(products)), products, axes=1), 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / n
        variances = squares / n - means**2
        covariances = products / n - means * means.swapaxes(1, 2)
        correlations = covariances / np.sqrt(variances * variances.swapaxes(1, 2))
        defined = (variances > LEAST_VARIANCE) & (variances.swapaxes(1, 2) > LEAST_VARIANCE)
    return np.where(defined, np.clip(correlations, -1.0, 1.0), np.nan)


def pair_moments(numbers: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Counts, sums, sums of squares and of products of pairs by group, where both are present; (n_groups, 4, d, d)."""
    present = ~np.isnan(numbers)
    filled = np.where(present, numbers, 0.0)
    parts = [np.flatnonzero(groups == group) for group in range(n_groups)]
    return np.array([_moments(filled[rows], present[rows].astype(np.float64)) for rows in parts])


def _moments(filled: np.ndarray, present: np.ndarray) -> np.ndarray:
    return np.array([present.T @ present, filled.T @ present, (filled**2).T @ present, filled.T @ filled])


def cramers_v(table: np.ndarray) -> np.ndarray:
    """Cramer's V of contingency tables, corrected for its bias; NaN where a side has one category. `table`: counts,
    shape (n_replicates, size_a, size_b).

    Source: Bergsma 2013, "A bias-correction for Cramer's V and Tschuprow's T", eq. 6.
    """
    n = table.sum(axis=(1, 2))
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    n_rows, n_columns = (rows > 0).sum(axis=1), (columns > 0).sum(axis=1)
    weights = 1.0 / np.maximum(rows, 1.0)[:, :, None] / np.maximum(columns, 1.0)[:, None, :]
    phi = np.einsum("gab,gab,gab->g", table, table, weights) - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        phi = np.maximum(phi - (n_rows - 1) * (n_columns - 1) / (n - 1), 0.0)
        least = np.minimum(n_rows - (n_rows - 1) ** 2 / (n - 1), n_columns - (n_columns - 1) ** 2 / (n - 1)) - 1.0
        defined = (n_rows > 1) & (n_columns > 1) & (n > 2) & (least > 0)
        return np.where(defined, np.sqrt(np.minimum(phi / least, 1.0)), np.nan)


def moments(codes: np.ndarray, size: int, numbers: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Counts, sums and squares of each number by group and code, where present; shape (d, 3, n_groups, size)."""
    result = np.empty((numbers.shape[1], 3, n_groups, size))
    for block, number in zip(result, numbers.T, strict=True):
        rows = np.flatnonzero(~np.isnan(number))
        cells, values = groups[rows] * np.int64(size) + codes[rows], number[rows]
        for power in range(3):
            block[power] = np.bincount(cells, values**power, n_groups * size).reshape(n_groups, size)
    return result


def correlation_ratio(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The correlation ratio of a number given a category, corrected for its bias; NaN where either is constant.
    `counts`: by group and code, shape (n_groups, size), as `moments` gives them.

    Source: Kelley 1935, "An unbiased correlation ratio measure" (epsilon squared).
    """
    replicates = replicate_groups(len(counts))
    counts, sums, total = replicates @ counts, replicates @ sums, (replicates @ squares).sum(axis=1)
    n, n_codes = counts.sum(axis=1), (counts > 0).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        center = sums.sum(axis=1) ** 2 / n
        between = (sums**2 / np.maximum(counts, 1.0)).sum(axis=1) - center
        within = total - center
        unexplained = (1.0 - between / within) * (n - 1) / (n - n_codes)
        defined = (n_codes > 1) & (n > n_codes) & (within / n > LEAST_VARIANCE)
        return np.where(defined, np.sqrt(np.clip(1.0 - unexplained, 0.0, 1.0)), np.nan)
