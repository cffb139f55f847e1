"""All columns of the samples as codes and numbers: how they hang together, and how far off a few of them are."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from evaluate.fidelity import associations, contingency
from evaluate.fidelity.samples import Samples
from evaluate.intervals import replicate_groups
from evaluate.tables import Tables
from synth.domain import Discretizer, line

Kind = Literal["pearson", "cramers_v", "correlation_ratio"]
KINDS: tuple[Kind, ...] = ("pearson", "cramers_v", "correlation_ratio")
_KIND_OF: tuple[Kind, ...] = ("cramers_v", "correlation_ratio", "pearson")
"""By how many of two columns are numbers."""
ROWS_A_CELL = 5
"""Held-out rows that a cell of numbers should hold."""
N_BINS = {2: (4, 20), 3: (3, 10)}
"""The least and the most bins of a number where so many columns are counted together."""


@dataclass(frozen=True)
class Coded:
    """All learned columns of the four samples: training, synthetic, fresh and shuffled rows.

    Attributes:
        columns: their names, d of them.
        sizes: number of codes of each.
        is_number: whether a column is a number or a date; shape (d,).
        codes: one array for each sample, shape (n, d), int64.
        numbers: one array for each sample, shape (n, d), standardized; NaN where missing and for categories.
        samples: the samples, for their groups.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    is_number: np.ndarray
    codes: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]
    samples: Samples

    @classmethod
    def of(cls, tables: Tables, samples: Samples, *, together: int = 2) -> Self:
        """The samples in the bins of the training table, coarse enough to count so many columns together."""
        n_bins = int(np.clip((len(tables.holdout) / ROWS_A_CELL) ** (1 / together), *N_BINS[together]))
        discretizer = Discretizer.by_quantiles(tables.schema, samples.train.rows, n_bins)
        codes = [discretizer.encode(sample.rows) for sample in samples.all]
        sizes = list(discretizer.sizes.values())
        frequencies = [np.bincount(codes[0][:, i], minlength=size) for i, size in enumerate(sizes)]
        merged = [contingency.merged_codes(frequency, contingency.MAX_CODES[together]) for frequency in frequencies]
        return cls(
            columns=discretizer.columns,
            sizes=tuple(int(new[-1]) + 1 for new in merged),
            is_number=np.array([attribute.edges is not None for attribute in discretizer.attributes]),
            codes=tuple(_merged(code, merged) for code in codes),
            numbers=tuple(_numbers(discretizer, sample.rows) for sample in samples.all),
            samples=samples,
        )

    def counts(self, *clique: int) -> list[np.ndarray]:
        """How often each combination of codes occurs, by sample; each of shape (n_replicates, product of sizes)."""
        n_cells = math.prod(self.sizes[i] for i in clique)
        counted = []
        for codes, sample in zip(self.codes, self.samples.all, strict=True):
            cells = codes[:, clique[0]]
            for i in clique[1:]:
                cells = cells * self.sizes[i] + codes[:, i]
            counted.append(contingency.counts(cells, n_cells, sample.groups, self.samples.n_groups))
        return counted

    def tvd(self, *clique: int) -> np.ndarray:
        """Total variation from the training table of a few columns together; shape (3, n_replicates)."""
        train, *others = (contingency.shares(table) for table in self.counts(*clique))
        return np.array([contingency.total_variation(train, other) for other in others])

    def kind(self, a: int, b: int) -> Kind:
        """Which association fits two columns."""
        return _KIND_OF[int(self.is_number[a]) + int(self.is_number[b])]

    def associations(self) -> np.ndarray:
        """Of all pairs, NaN where undefined and on the diagonal; shape (4, n_replicates, d, d), symmetric."""
        d, n_replicates = len(self.columns), len(replicate_groups(self.samples.n_groups))
        found = np.full((4, n_replicates, d, d), np.nan)
        for a, b in itertools.combinations(range(d), 2):
            if self.kind(a, b) == "cramers_v":
                shape = (n_replicates, self.sizes[a], self.sizes[b])
                pair = [associations.cramers_v(table.reshape(shape)) for table in self.counts(a, b)]
                found[:, :, a, b] = found[:, :, b, a] = pair
        _fill_numbers(self, found)
        return found


def _merged(codes: np.ndarray, merged: list[np.ndarray]) -> np.ndarray:
    made = np.empty(codes.shape, dtype=np.int64, order="F")
    for index, new in enumerate(merged):
        made[:, index] = new[codes[:, index]]
    return made


def _numbers(discretizer: Discretizer, rows: Any) -> np.ndarray:
    made = np.full((len(rows), len(discretizer.attributes)), np.nan, order="F")
    for index, attribute in enumerate(discretizer.attributes):
        column: Any = attribute.column
        if attribute.edges is not None:
            made[:, index] = line.positions(rows[attribute.name], column)
    return associations.standardized(made)


def _fill_numbers(coded: Coded, found: np.ndarray) -> None:
    """Write Pearson's correlations and correlation ratios into the associations."""
    numeric, categorical = np.flatnonzero(coded.is_number), np.flatnonzero(~coded.is_number)
    n_groups = coded.samples.n_groups
    for index, sample in enumerate(coded.samples.all):
        codes, numbers = coded.codes[index], coded.numbers[index]
        if len(numeric):
            correlations = associations.pearson(numbers[:, numeric], sample.groups, n_groups)
            correlations[:, np.arange(len(numeric)), np.arange(len(numeric))] = np.nan
            found[index][:, numeric[:, None], numeric[None, :]] = correlations
        for a in categorical:
            for b in numeric:
                of = codes[:, a], coded.sizes[a], numbers[:, b], sample.groups, n_groups
                found[index, :, a, b] = found[index, :, b, a] = associations.correlation_ratio(*of)
