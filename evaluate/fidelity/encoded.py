"""Encoded columns of the samples: contingency tables of their codes, and total variation and associations of these."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from evaluate.fidelity.samples import Clique, EncodedRows, SampledRows, Samples
from evaluate.intervals import replicate_groups
from evaluate.tables import Tables
from synth.domain import Attribute, Discretizer
from synth.schema import Schema

MAX_CODES = {2: 50, 3: 12, 4: 8}  # Codes that a column has at most where so many columns are counted together


def replicated(counts: np.ndarray) -> np.ndarray:
    """Counts on all rows and on each half-sample, from counts by group. `counts`: how often each code occurs in each
    group, shape (n_groups, n_codes).

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
    """The new code of every code of a column, such that there are no more than `most`. `frequency`: *Sensitive*. How
    often each code occurs in the training table, shape (size,).

    The rarest codes become one, the third but last; `other` and `missing` stay the last two, so that unseen categories
    are not taken for rare ones.

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


Kind = Literal["pearson", "cramers_v", "correlation_ratio"]
KINDS: tuple[Kind, ...] = ("pearson", "cramers_v", "correlation_ratio")
ROWS_A_CELL = 5  # Held-out rows that a cell of numbers should hold
N_BINS = {2: (4, 20), 3: (3, 10), 4: (3, 6)}
"""The least and the most bins of a number where so many columns are counted together."""
Four = tuple[np.ndarray, ...]
"""Counts of the training, synthetic, fresh and shuffled rows by group, each of shape (n_groups, n_cells)."""


@dataclass(frozen=True, eq=False)
class EncodedSamples:
    """All learned columns of the four samples: training, synthetic, fresh and shuffled rows."""

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    is_number: np.ndarray  # whether a column is a number or a date; shape (d,)
    rows: tuple[EncodedRows, ...]
    samples: Samples

    @classmethod
    def of(cls, tables: Tables, samples: Samples, *, together: int = 2) -> Self:
        """The samples in the bins of the training table, coarse enough to count so many columns together."""
        n_bins = int(np.clip((samples.n_holdout / ROWS_A_CELL) ** (1 / together), *N_BINS[together]))
        discretizer = binned(tables.schema, samples.train, n_bins)
        attributes = _merged(discretizer.attributes, samples.train, MAX_CODES[together])
        return cls(
            columns=discretizer.columns,
            sizes=tuple(attribute.size for attribute in attributes),
            is_number=np.array([attribute.edges is not None for attribute in attributes]),
            rows=tuple(sample.coded(attributes) for sample in samples.all),
            samples=samples,
        )

    def each(self, cliques: Sequence[Clique]) -> Iterator[Four]:
        yield from zip(*(rows.each(cliques) for rows in self.rows), strict=True)

    def kind(self, a: int, b: int) -> Kind:
        if self.is_number[a] and self.is_number[b]:
            return "pearson"
        return "correlation_ratio" if self.is_number[a] or self.is_number[b] else "cramers_v"

    def names(self, cliques: Sequence[Clique]) -> list[tuple[str, ...]]:
        return [tuple(self.columns[i] for i in clique) for clique in cliques]

    def pairwise(self) -> tuple[np.ndarray, np.ndarray]:
        """Total variation (3, n, d, d), a column alone on the diagonal, and associations (4, n, d, d), NaN on it."""
        d, n_replicates = range(len(self.columns)), len(replicate_groups(self.samples.n_groups))
        tvd = np.zeros((3, n_replicates, len(d), len(d)))
        coefficients = np.full((4, *tvd.shape[1:]), np.nan)
        cliques = list(itertools.chain(((a,) for a in d), itertools.combinations(d, 2)))
        for clique, counts in zip(cliques, self.each(cliques), strict=True):
            a, b = clique[0], clique[-1]
            tvd[:, :, a, b] = tvd[:, :, b, a] = total_variations(counts)
            if a != b and self.kind(a, b) == "cramers_v":
                shape = (-1, self.sizes[a], self.sizes[b])
                values = [cramers_v(replicated(table).reshape(shape)) for table in counts]
                coefficients[:, :, a, b] = coefficients[:, :, b, a] = values
        numeric, categorical = np.flatnonzero(self.is_number), np.flatnonzero(~self.is_number)
        for block, rows in zip(coefficients, self.rows if len(numeric) else (), strict=False):
            numbers, groups, n_groups = rows.rows.numbers, rows.rows.groups, self.samples.n_groups
            correlations = pearson(pair_moments(numbers, groups, n_groups))
            correlations[:, np.arange(len(numeric)), np.arange(len(numeric))] = np.nan
            block[:, numeric[:, None], numeric[None, :]] = correlations
            for x in categorical:
                by_code = moments(rows.codes[:, x], self.sizes[x], numbers, groups, n_groups)
                for y, of_number in zip(numeric, by_code, strict=True):
                    block[:, x, y] = block[:, y, x] = correlation_ratio(*of_number)
        return tvd, coefficients


def binned(schema: Schema, train: SampledRows, n_bins: int = 20) -> Discretizer:
    """Bins of about equal mass in the training sample, spikes in bins of their own. `train`: *Sensitive*."""
    return Discretizer.by_counts(schema, train.counted(), n_bins)


def total_variations(counts: Four) -> np.ndarray:
    """Of synthetic, fresh and shuffled rows from training rows; shape (3, n_replicates)."""
    train, *others = (shares(replicated(table)) for table in counts)
    return np.array([total_variation(train, other) for other in others])


def _merged(attributes: tuple[Attribute, ...], train: SampledRows, most: int) -> tuple[Attribute, ...]:
    """The attributes with no more than `most` codes each, the rarest in the training sample as one."""
    large = [attribute for attribute in attributes if attribute.size > most]
    if not large:
        return attributes
    codes = train.coded(large)
    frequencies = [counts.sum(axis=0) for counts in codes.each([(i,) for i in range(len(large))])]
    new = {
        attribute.name: replace(attribute, group=merged_codes(frequency, most)[attribute.group])
        for attribute, frequency in zip(large, frequencies, strict=True)
    }
    return tuple(new.get(attribute.name, attribute) for attribute in attributes)


LEAST_VARIANCE = 1e-12  # Share of a column's variance below which it counts as constant among some of its rows


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
