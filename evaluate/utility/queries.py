"""Five hundred random queries, answered by the synthetic table and by the training table.

Half of them count rows in a box of one to three columns; a quarter count rows by group, and a quarter take the mean of
a number by group, each with at most one condition. The error of a count is relative to the true count, or to a sanity
bound where that is larger; that of a mean is in standard deviations of its column; a query with groups has the mean
error of its groups. Intervals hold what other rows would change, not other queries.

DEVIATES: from Xiao et al., an error above 1 counts as 1: one query that is off by more than the truth must not outweigh
the others.

Source: Xiao, Wang, Gehrke 2010 (Privelet, 0909.5530), section VII, for random range counts with a sanity bound of 0.1%
of the rows; McKenna et al. 2021 (2108.04978) for error over workloads of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.fidelity.samples import FRESH, SYNTHETIC, Samples
from evaluate.intervals import HALVES, half_samples, replicate_groups
from evaluate.metrics import COMPARED, Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Numbers
from synth.domain import Discretizer

EXCESS = "utility.queries.excess"
METRICS = (
    Metric(EXCESS, "lower", "Random queries, error beyond noise",
           "Mean relative error of 500 random counts and means that one might ask for, minus that of a fresh real "
           "sample; 0 is as good as real.", counted=COMPARED),
)  # fmt: skip

N_QUERIES = 500
N_BINS = 32  # Bins of a number, between whose edges ranges run
MAX_GROUPS = 8  # Groups of one column at most; rarer categories and neighboring bins are taken together
MAX_PREDICATES = 3
SANITY_SHARE, SANITY_ROWS = 0.001, 10
"""The least answer that errors are relative to: a share of the rows, and at least so many of the rows compared."""


@dataclass(frozen=True)
class Query:
    predicates: tuple[tuple[int, np.ndarray], ...]
    groups: np.ndarray | None = None
    by: int = -1
    mean_of: int = -1

    @property
    def n_groups(self) -> int:
        return 1 if self.groups is None else int(self.groups.max()) + 1


@dataclass(frozen=True)
class QueriedTable:
    codes: np.ndarray  # shape (d, n), integers
    # of the columns that have a mean, standardized by the training table, 0 where missing; shape (d, n).
    numbers: np.ndarray
    there: np.ndarray  # where they are not missing; shape (d, n), float64
    groups: np.ndarray  # which group of the half-samples a row belongs to, shape (n,)


def measure(tables: Tables) -> MetricResult:
    """The error of answers to count and mean queries beyond that of a fresh real sample."""
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, N_BINS)
    coded = _coded(discretizer, samples)
    queries = drawn_queries(discretizer, coded[0], np.random.default_rng([tables.seed, 10]))
    errors = _errors(queries, coded, samples)
    mean = errors.mean(axis=2)
    excess = mean - mean[FRESH]
    low, high, few = None, None, "; too few rows for an interval"
    if errors.shape[1] > 1:
        few = ""
        low, high = half_samples(float(excess[SYNTHETIC, 0]), excess[SYNTHETIC, HALVES], bounds=(-1.0, 1.0))
    note = (
        f"mean relative error of {errors.shape[2]} random counts and means ({mean[SYNTHETIC, 0]:.3f}; at most 1 each, "
        f"sanity bound 0.1% of the rows), less that of a fresh real sample ({mean[FRESH, 0]:.3f}){few}"
    )
    value, fresh, shuffled = excess[:, 0].tolist()
    return MetricResult((Estimate(EXCESS, value, samples.n, "lower", (), low, high, fresh, shuffled, note),))


def _coded(discretizer: Discretizer, samples: Samples) -> tuple[QueriedTable, ...]:
    """Training, synthetic, fresh and shuffled rows."""
    train = samples.train.rows
    scales = {
        index: Numbers.fit(train[attribute.name], attribute.column)
        for index, attribute in enumerate(discretizer.attributes)
        if attribute.edges is not None
    }
    coded = []
    for sample in samples.all:
        codes = np.ascontiguousarray(discretizer.encode(sample.rows).T)
        numbers = np.full(codes.shape, np.nan)
        for index, scale in scales.items():
            numbers[index] = scale.apply(sample.rows[discretizer.columns[index]], "boosting")[:, 0]
        there = ~np.isnan(numbers)
        coded.append(QueriedTable(codes, np.where(there, numbers, 0.0), there.astype(np.float64), sample.groups))
    return tuple(coded)


def drawn_queries(discretizer: Discretizer, train: QueriedTable, rng: np.random.Generator) -> list[Query]:
    """The queries of one seed. They depend on columns by name, not on their order. `train`: *Sensitive*. Its rows."""
    order = np.argsort(np.array(discretizer.columns, dtype=object))
    sizes = [attribute.size for attribute in discretizer.attributes]
    counts = [np.bincount(codes, minlength=size) for codes, size in zip(train.codes, sizes, strict=True)]
    on_line = [attribute.edges is not None for attribute in discretizer.attributes]
    varying = [int(i) for i in order if (counts[i] > 0).sum() > 1] or [int(order[0])]
    numeric = [i for i in varying if on_line[i]]
    queries = []
    for index in range(N_QUERIES):
        grouped = index % 2 == 1
        most = 1 if grouped else min(MAX_PREDICATES, len(varying))
        n_predicates = int(rng.integers(0 if grouped else 1, most + 1))
        chosen = rng.permutation(len(varying))
        predicates = tuple(
            (varying[i], _allowed(counts[varying[i]], on_line=on_line[varying[i]], rng=rng))
            for i in chosen[:n_predicates]
        )
        if not grouped:
            queries.append(Query(predicates))
            continue
        by = varying[chosen[-1]]
        mean_of = numeric[int(rng.integers(len(numeric)))] if numeric and index % 4 == 3 else -1
        queries.append(Query(predicates, _grouped(counts[by], on_line=on_line[by]), by, mean_of))
    return queries


def _allowed(counts: np.ndarray, *, on_line: bool, rng: np.random.Generator) -> np.ndarray:
    """A condition on one column, boolean by code: a range, a set of categories, or (1 in 10, where any is) missing."""
    allowed = np.zeros(len(counts), dtype=bool)
    if counts[-1] > 0 and (rng.random() < 0.1 or not counts[:-1].any()):
        allowed[-1] = True
        return allowed
    present = np.flatnonzero(counts[:-1])
    if on_line:
        first, last = np.sort(rng.integers(len(present), size=2))
        allowed[present[first] : present[last] + 1] = True
        return allowed
    n_chosen = 1 + int(rng.integers(max(1, len(present) // 2)))
    allowed[rng.permutation(present)[:n_chosen]] = True
    return allowed


def _grouped(counts: np.ndarray, *, on_line: bool) -> np.ndarray:
    """The group of each code: missing has one of its own, others are as even as they get."""
    groups = np.zeros(len(counts), dtype=np.int64)
    inner = counts[:-1]
    if on_line:
        below = np.r_[0, np.cumsum(inner)[:-1]]
        groups[:-1] = np.minimum(below * (MAX_GROUPS // 2) // max(int(inner.sum()), 1), MAX_GROUPS // 2 - 1)
    else:
        ranks = np.empty(len(inner), dtype=np.int64)
        ranks[np.argsort(-inner, kind="stable")] = np.arange(len(inner))
        groups[:-1] = np.minimum(ranks, MAX_GROUPS - 1)
    groups[-1] = groups[:-1].max() + 1
    used = np.unique(groups[np.flatnonzero(counts)])
    return np.minimum(np.searchsorted(used, groups), max(len(used) - 1, 0))


def _errors(queries: Sequence[Query], coded: Sequence[QueriedTable], samples: Samples) -> np.ndarray:
    """Of synthetic, fresh and shuffled rows on each replicate, shape (3, n_replicates, n_queries)."""
    replicates = replicate_groups(samples.n_groups)
    sums = [answers(queries, table, samples.n_groups) for table in coded]
    sizes = [replicates @ np.bincount(table.groups, minlength=samples.n_groups) for table in coded]
    sanity = max(SANITY_SHARE, SANITY_ROWS / max(samples.n, 1))
    of_query = np.repeat(np.arange(len(queries)), [query.n_groups for query in queries])
    is_mean = np.array([query.mean_of >= 0 for query in queries])[of_query]
    n_groups = np.bincount(of_query, minlength=len(queries))
    truth = _shares_and_means(sums[0], sizes[0], replicates)
    errors = []
    for table in range(1, len(coded)):
        answered = _shares_and_means(sums[table], sizes[table], replicates)
        # Means of no row on either side are right, on one side as wrong as can be.
        only_one = np.isnan(answered[1]) != np.isnan(truth[1])
        off_means = np.where(only_one, 1.0, np.abs(np.nan_to_num(answered[1]) - np.nan_to_num(truth[1])))
        off_counts = np.abs(answered[0] - truth[0]) / np.maximum(truth[0], sanity)
        off = np.minimum(np.where(is_mean, off_means, off_counts), 1.0)
        errors.append(np.array([np.bincount(of_query, row, minlength=len(queries)) for row in off]) / n_groups)
    return np.array(errors)


def _shares_and_means(
    sums: tuple[np.ndarray, np.ndarray], sizes: np.ndarray, replicates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Counts as shares of the rows and means, NaN over no row; each of shape (n_replicates, n_answers)."""
    counts, totals = (replicates @ part for part in sums)
    means = np.where(counts > 0, totals / np.where(counts > 0, counts, 1.0), np.nan)
    return counts / np.maximum(sizes, 1)[:, None], means


def answers(queries: Sequence[Query], table: QueriedTable, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that answer each query, and the sum of the number that its mean is of; (n_groups, n_answers)."""
    counts, totals = [], []
    for query in queries:
        rows: Any = slice(None)
        for column, allowed in query.predicates:
            # Each condition looks at the rows that are left.
            kept = np.flatnonzero(allowed[table.codes[column][rows]])
            rows = kept if isinstance(rows, slice) else rows[kept]
        cells, shape = table.groups[rows], (n_groups, query.n_groups)
        if query.groups is not None:
            cells = cells * query.n_groups + query.groups[table.codes[query.by][rows]]
        has_mean = query.mean_of >= 0
        there, values = (part[query.mean_of][rows] if has_mean else None for part in (table.there, table.numbers))
        counts.append(np.bincount(cells, there, minlength=np.prod(shape)).reshape(shape))
        total = np.bincount(cells, values, minlength=np.prod(shape)) if has_mean else np.zeros(shape)
        totals.append(total.reshape(shape))
    return np.hstack(counts).astype(np.float64), np.hstack(totals)
