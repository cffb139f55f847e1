"""Singling out: is there a description in the synthetic table that fits exactly one person of the real one?

A predicate is a range of codes for each column. Codes come from the synthetic table alone, which is all that the
attacker knows: a number equal to its i-th value is 2i + 1, one between two of them the even code between.

Success depends on n. So the training rows are cut into blocks of as many rows as there are control rows, and what a
predicate gains over control rows is added up over the blocks. Several predicates may hold of one outlying person: the
interval takes as many attempts as single out the same person for one.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459,
section 5.1; Cohen & Nissim 2020, "Towards formalizing the GDPR's notion of singling out".
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.metrics import ATTEMPTS, Metric
from evaluate.privacy.experiment import Experiment, not_measured
from evaluate.sampling import one_per_entity
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema

METRICS = (
    Metric("privacy.singling_out.multivariate", "lower", "Singling out by several values",
           "How much more often a combination of values that one synthetic row has is true of exactly one training row "
           "than of one other row.", counted=ATTEMPTS, key=True, attack="always",
           criteria=("singling out", "identifiability")),
)  # fmt: skip

MISSING, LEAST, MOST = -1, -9, 2**30  # The code of a missing value, and codes below and above all others
UNKNOWN = -2  # The code of a category that no synthetic row has
NARROW = 0.01  # Part of the synthetic rows on either side of a number that a narrow range takes in


@dataclass(frozen=True)
class Predicates:
    """Conjunctions of ranges, ends included."""

    low: np.ndarray  # codes from which each column may go, shape (n_predicates, d); `LEAST` where anything goes
    high: np.ndarray  # codes to which it may go, shape (n_predicates, d); `MOST` where anything goes

    def __len__(self) -> int:
        return len(self.low)

    def take(self, positions: np.ndarray) -> "Predicates":
        return Predicates(self.low[positions], self.high[positions])

    def joined(self, other: "Predicates") -> "Predicates":
        """These predicates and those of the other ones that are none of these, each once, in this order."""
        low, high = np.concatenate([self.low, other.low]), np.concatenate([self.high, other.high])
        _, first = np.unique(np.hstack([low, high]), axis=0, return_index=True)
        first.sort()
        return Predicates(low[first], high[first])


@dataclass(frozen=True)
class IndexedRows:
    """Rows of one table as codes, and for each column the rows in the order of their codes. *Sensitive* where real."""

    codes: np.ndarray  # shape (d, n), int32
    order: np.ndarray  # positions of the rows by code, shape (d, n)
    ranked: np.ndarray  # codes in that order, shape (d, n)

    def matching(self, predicates: Predicates) -> list[np.ndarray]:
        columns, matches = range(len(self.codes)), []
        starts = np.column_stack([self.ranked[i].searchsorted(predicates.low[:, i], "left") for i in columns])
        ends = np.column_stack([self.ranked[i].searchsorted(predicates.high[:, i], "right") for i in columns])
        for start, width, low, high in zip(starts, ends - starts, predicates.low, predicates.high, strict=True):
            first, *others = np.argsort(width, kind="stable")  # the column that leaves the fewest rows
            rows = self.order[first, start[first] : start[first] + width[first]]
            for i in others:
                if not len(rows) or width[i] == self.codes.shape[1]:
                    break
                codes = self.codes[i, rows]
                rows = rows[(codes >= low[i]) & (codes <= high[i])]
            matches.append(rows)
        return matches


def coded(frame: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> IndexedRows:
    """The rows of a table by the codes of the synthetic one; *Sensitive* where it is real."""
    names = sorted(schema.learned)
    codes = np.stack([_codes(frame[name], synthetic[name], schema.columns[name]) for name in names])
    order = np.argsort(codes, axis=1, kind="stable")
    return IndexedRows(codes, order, np.take_along_axis(codes, order, axis=1))


def are_numbers(schema: Schema) -> np.ndarray:
    """Mask of the columns, as `coded` has them, that are numbers or times; shape (d,)."""
    kinds = [schema.columns[name] for name in sorted(schema.learned)]
    return np.array([not kind.is_categorical for kind in kinds], dtype=bool)


def _codes(series: pd.Series, synthetic: pd.Series, column: Any) -> np.ndarray:
    if column.is_categorical:
        levels = pd.Index(synthetic.dropna().unique()).sort_values()
        positions = levels.get_indexer(pd.Index(series.array))
        codes = np.where(positions < 0, UNKNOWN, 2 * positions + 1)
        return np.where(series.isna().to_numpy(), MISSING, codes).astype(np.int32)
    values, known = (column.positions(part) for part in (series, synthetic))
    known = np.unique(known[~np.isnan(known)])
    codes = known.searchsorted(values, "left") + known.searchsorted(values, "right")
    return np.where(np.isnan(values), MISSING, codes).astype(np.int32)


def multivariate(table: IndexedRows, records: np.ndarray, numbers: np.ndarray, rng: np.random.Generator) -> Predicates:
    """A predicate made of each of some synthetic records; whether it holds of others, too, is for the caller to see.
    `records`: their positions, shape (n_predicates,).

    Source: Giomi et al. 2023, section 5.1; the published code of anonymeter.
    """
    codes = table.codes[:, records].T
    low, high = codes.copy(), codes.copy()
    # DEVIATES: half of the predicates take narrow ranges of numbers, not half-lines: a half-line that holds of one row
    # of a large table holds of one among a few real rows nearly as often by chance as by a leak.
    narrow = rng.random(len(records)) < 0.5
    for i in np.flatnonzero(numbers):
        for way, rows in ((_narrow, narrow), (_half_line, ~narrow)):
            low[rows, i], high[rows, i] = way(codes[rows, i], table.ranked[i])
    # DEVIATES: the paper leaves the number of columns to the user, and which of them works depends on the table.
    return _of_some_columns(low, high, 2, rng)


def _of_some_columns(low: np.ndarray, high: np.ndarray, least: int, rng: np.random.Generator) -> Predicates:
    """The predicates, each on some of its columns, as many as chance has it."""
    n, d = low.shape
    wanted = rng.integers(least, d + 1, n)
    columns = rng.random((n, d)).argsort(axis=1).argsort(axis=1) < wanted[:, None]
    return Predicates(np.where(columns, low, LEAST), np.where(columns, high, MOST))


def _half_line(codes: np.ndarray, ranked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From the value away from the median."""
    known = ranked[ranked != MISSING]
    above = codes > (known[len(known) // 2] if len(known) else 0)
    missing = codes == MISSING
    return np.where(above | missing, codes, 0), np.where(above & ~missing, MOST, codes)


def _narrow(codes: np.ndarray, ranked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Around the value, as far as some of the rows on either side go."""
    width, first = max(1, round(NARROW * len(ranked))), int((ranked == MISSING).sum())
    before = np.maximum(ranked.searchsorted(codes, "left") - width, first)
    after = np.minimum(ranked.searchsorted(codes, "right") - 1 + width, len(ranked) - 1)
    missing = codes == MISSING
    low, high = ranked[np.minimum(before, len(ranked) - 1)], ranked[after]
    return np.where(missing, codes, low), np.where(missing, codes, high)


def guesses(table: IndexedRows, numbers: np.ndarray, n: int, rng: np.random.Generator) -> Predicates:
    """Predicates of somebody who knows which categories there are, and where numbers lie, but no value of anybody.

    Source: Giomi et al. 2023, section 4.1 (the naive attack).
    """
    low = np.empty((n, len(numbers)), dtype=np.int32)
    high = np.empty_like(low)
    for i, ranked in enumerate(table.ranked):
        low[:, i] = high[:, i] = rng.choice(np.unique(ranked), n)
        if numbers[i]:
            # DEVIATES: between two values and not at one, which may be somebody's.
            between, above = 2 * rng.integers(0, max(ranked[-1] + 1, 0) // 2 + 1, n), rng.random(n) < 0.5
            low[:, i], high[:, i] = np.where(above, between, 0), np.where(above, MOST, between)
    return _of_some_columns(low, high, -(-len(numbers) // 2), rng)


NAME = "privacy.singling_out.multivariate"
N_PREDICATES = 2_000  # Predicates that are tried, at most
MIN_PREDICATES = 10  # Predicates that an attack needs
MAX_BATCHES = 5  # Batches that are drawn until as many predicates have been found as one holds
N_GUESSES = 500  # Predicates by somebody who knows no synthetic row: the success that needs no leak
_STREAM = 0x51  # Tells this module's random numbers from those of others with the same seed


def alone(table: IndexedRows, numbers: np.ndarray, rng: np.random.Generator, n: int) -> Predicates:
    """Predicates on several columns that hold of exactly one synthetic row, each once."""
    nothing, n_rows = np.zeros((0, len(numbers)), dtype=np.int32), table.codes.shape[1]
    predicates = Predicates(nothing, nothing)
    for batch in range(MAX_BATCHES):
        tried = multivariate(table, (np.arange(n) + batch * n) % n_rows, numbers, rng)
        is_alone = [len(rows) == 1 for rows in table.matching(tried)]
        predicates = predicates.joined(tried.take(np.flatnonzero(is_alone)))
        if len(predicates) >= n:
            break
    return predicates.take(np.arange(min(n, len(predicates))))


def measure(tables: Tables) -> MetricResult:
    """The advantage of predicates on several columns: the estimate `privacy.singling_out.multivariate`."""
    schema, rng = tables.schema, np.random.default_rng([tables.seed, _STREAM])
    if len(schema.learned) < 2:
        return not_measured("a combination of values takes two columns, and fewer are learned", NAME)
    # One row of each entity, in seeded order.
    orders = tables.order("synthetic"), tables.order("train"), tables.drawn(tables.control)
    frames = zip((tables.synthetic, tables.train, tables.control), orders, strict=True)
    people = [frame.iloc[one_per_entity(order, frame, schema)] for frame, order in frames]
    synthetic, *sides = (coded(frame, people[0], schema) for frame in people)
    numbers = are_numbers(schema)
    predicates = alone(synthetic, numbers, rng, N_PREDICATES)
    if len(predicates) < MIN_PREDICATES:
        message = "hardly any combination of values is alone in the synthetic table, so that there is nothing to single"
        return not_measured(f"{message} anybody out by", NAME)
    n_train, n_control = (rows.codes.shape[1] for rows in sides)
    n = min(n_train, n_control)
    (train, of_train), (control, of_control) = (attempts(rows, predicates, n) for rows in sides)
    guessed, _ = attempts(sides[0], guesses(synthetic, numbers, N_GUESSES, rng), n)
    tried = Experiment(train.ravel(), control.ravel(), float(guessed.mean()), dependence(of_train, of_control))
    note = (
        "how much more often a combination of values that one synthetic row has is true of exactly one training row "
        "than of exactly one of as many other rows, added up over all training rows"
    )
    mean, n_blocks = tried.estimate(NAME, note=note), max(1, n_train // n_control)
    # Over all blocks at most one person in every attempt.
    ends = (mean.value, *mean.interval, tried.detectable())
    value, low, high, detectable = (float(np.clip(n_blocks * end, -1.0, 1.0)) for end in ends)
    estimate = replace(mean, value=value, low=low, high=high, detectable=detectable)
    return MetricResult((estimate,), figures={"singling_out": {"multivariate": tried.figure()}})


def attempts(rows: IndexedRows, predicates: Predicates, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Which predicates hold of exactly one row of each block of n rows, and that row for each hit. *Sensitive*."""
    n_blocks = rows.codes.shape[1] // n
    hits = np.zeros((len(predicates), n_blocks), dtype=bool)
    singled_out = [np.zeros(0, dtype=np.int64)]
    for i, matching in enumerate(rows.matching(predicates)):
        used = matching[matching < n * n_blocks]
        hits[i] = np.bincount(used // n, minlength=n_blocks) == 1
        singled_out.append(used[hits[i, used // n]])
    return hits, np.concatenate(singled_out)


def dependence(*singled_out: np.ndarray) -> float:
    """Design effect of attempts, since several may single out the same person. Successes come in bundles, one for each
    person: the variance of their sum is that of a compound Poisson count, the sum of squares of the bundles' sizes.
    """
    sizes = np.concatenate([np.unique(side, return_counts=True)[1] for side in singled_out])
    return float((sizes**2).sum() / sizes.sum()) if len(sizes) else 1.0
