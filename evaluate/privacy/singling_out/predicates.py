"""Predicates that single out one synthetic row, and the rows of a real table that they hold of.

A predicate is a range of codes for each column: a column that it says nothing of has the range of everything. Codes
come from the synthetic table alone, which is all that the attacker knows: a number equal to its i-th value is 2i + 1,
one between two of them the even code between, so that every real number has its place among the synthetic ones.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import numeric_scale
from synth.schema import Schema

MISSING, LEAST, MOST = -1, -9, 2**30
"""The code of a missing value, and codes below and above all others."""
UNKNOWN = -2
"""The code of a category that no synthetic row has."""
NARROW = 0.01
"""Part of the synthetic rows on either side of a number that a narrow range takes in."""


@dataclass(frozen=True)
class Predicates:
    """Conjunctions of ranges, ends included.

    Attributes:
        low: codes from which each column may go, shape (n_predicates, d); `LEAST` where anything goes.
        high: codes to which it may go, shape (n_predicates, d); `MOST` where anything goes.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def none(cls, d: int) -> "Predicates":
        """No predicate on d columns."""
        return cls(np.zeros((0, d), dtype=np.int32), np.zeros((0, d), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.low)

    def take(self, positions: np.ndarray) -> "Predicates":
        """The predicates at some positions."""
        return Predicates(self.low[positions], self.high[positions])

    def joined(self, other: "Predicates") -> "Predicates":
        """These predicates and those of the other ones that are none of these, each once, in this order."""
        low, high = np.concatenate([self.low, other.low]), np.concatenate([self.high, other.high])
        _, first = np.unique(np.hstack([low, high]), axis=0, return_index=True)
        first.sort()
        return Predicates(low[first], high[first])


@dataclass(frozen=True)
class Coded:
    """Rows of one table as codes, and for each column the rows in the order of their codes. *Sensitive* where real.

    Attributes:
        codes: shape (d, n), int32.
        order: positions of the rows by code, shape (d, n).
        ranked: codes in that order, shape (d, n).
    """

    codes: np.ndarray
    order: np.ndarray
    ranked: np.ndarray

    def matching(self, predicates: Predicates) -> list[np.ndarray]:
        """Positions of the rows that each predicate holds of."""
        columns = range(len(self.codes))
        starts = np.column_stack([self.ranked[i].searchsorted(predicates.low[:, i], "left") for i in columns])
        ends = np.column_stack([self.ranked[i].searchsorted(predicates.high[:, i], "right") for i in columns])
        return [
            self._where(start, end, low, high)
            for start, end, low, high in zip(starts, ends, predicates.low, predicates.high, strict=True)
        ]

    def _where(self, starts: np.ndarray, ends: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        widths = ends - starts
        first, *others = np.argsort(widths, kind="stable")
        rows = self.order[first, starts[first] : ends[first]]
        for i in others:
            if not len(rows) or widths[i] == self.codes.shape[1]:
                break
            codes = self.codes[i, rows]
            rows = rows[(codes >= low[i]) & (codes <= high[i])]
        return rows


def coded(frame: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> Coded:
    """The rows of a table by the codes of the synthetic one.

    Args:
        frame: *Sensitive* where it is real; conforming to the schema.
        synthetic: conforming to the schema.
        schema: names the learned columns.
    """
    names = sorted(schema.learned)
    codes = np.stack([_codes(frame[name], synthetic[name], schema.columns[name]) for name in names])
    order = np.argsort(codes, axis=1, kind="stable")
    return Coded(codes, order, np.take_along_axis(codes, order, axis=1))


def are_numbers(schema: Schema) -> np.ndarray:
    """Which of the columns, as `coded` has them, are numbers or times; shape (d,), boolean."""
    kinds = [schema.columns[name] for name in sorted(schema.learned)]
    return np.array([not isinstance(kind, CategoricalColumn | BooleanColumn) for kind in kinds], dtype=bool)


def _codes(series: pd.Series, synthetic: pd.Series, column: object) -> np.ndarray:
    if isinstance(column, CategoricalColumn | BooleanColumn):
        levels = pd.Index(synthetic.dropna().unique()).sort_values()
        found = levels.get_indexer(pd.Index(series.array))
        codes = np.where(found < 0, UNKNOWN, 2 * found + 1)
        return np.where(series.isna().to_numpy(), MISSING, codes).astype(np.int32)
    values, known = (numeric_scale.positions(part, column) for part in (series, synthetic))  # type: ignore[arg-type]
    known = np.unique(known[~np.isnan(known)])
    codes = known.searchsorted(values, "left") + known.searchsorted(values, "right")
    return np.where(np.isnan(values), MISSING, codes).astype(np.int32)


def univariate(table: Coded, numbers: np.ndarray, rng: np.random.Generator, most: int) -> Predicates:
    """Predicates on one column that hold of exactly one synthetic row, all columns alike as far as they have any.

    They are values that occur once, the least and the largest number, and a missing value where there is just one.

    Args:
        table: the synthetic rows.
        numbers: which columns are numbers.
        rng: takes some where there are more.
        most: how many at most.

    Source: Giomi et al. 2023, section 5.1; the published code of anonymeter.
    """
    ranges: list[np.ndarray] = []
    for i, ranked in enumerate(table.ranked):
        values, counts = np.unique(ranked, return_counts=True)
        alone = values[counts == 1]
        found = np.column_stack([np.full(len(alone), i), alone, alone])
        if numbers[i]:
            known = alone[alone != MISSING]
            least, largest = known[known == values[values != MISSING][:1]], known[known == values[-1:]]
            ends = [[i, 0, code] for code in least] + [[i, code, MOST] for code in largest]
            found = np.concatenate([found, np.array(ends, dtype=found.dtype).reshape(-1, 3)])
        # DEVIATES: the paper shuffles all of them, so that one column of many distinct numbers leaves no room.
        ranges.append(np.column_stack([rng.permutation(len(found)), found]))
    every = np.concatenate(ranges)
    taken = every[np.lexsort((every[:, 1], every[:, 0]))[:most], 1:]
    low = np.full((len(taken), len(table.codes)), LEAST, dtype=np.int32)
    high = np.full_like(low, MOST)
    rows = np.arange(len(taken))
    low[rows, taken[:, 0]], high[rows, taken[:, 0]] = taken[:, 1], taken[:, 2]
    return Predicates(low, high)


def multivariate(
    table: Coded, records: np.ndarray, numbers: np.ndarray, rng: np.random.Generator
) -> Predicates:  # fmt: skip
    """A predicate made of each of some synthetic records; whether it holds of others, too, is for the caller to see.

    Args:
        table: the synthetic rows.
        records: their positions, shape (n_predicates,).
        numbers: which columns are numbers.
        rng: draws columns and kinds.

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
    return _limited(low, high, _some_columns(len(records), len(numbers), 2, len(numbers), rng))


def _limited(low: np.ndarray, high: np.ndarray, columns: np.ndarray) -> Predicates:
    return Predicates(np.where(columns, low, LEAST), np.where(columns, high, MOST))


def _some_columns(n: int, d: int, least: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """For each of n predicates some of the d columns, as many as chance has it; shape (n, d), boolean."""
    wanted = rng.integers(least, most + 1, n)
    return np.asarray(rng.random((n, d)).argsort(axis=1).argsort(axis=1) < wanted[:, None])


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


def guesses(table: Coded, numbers: np.ndarray, n_columns: int, n: int, rng: np.random.Generator) -> Predicates:
    """Predicates of somebody who knows which categories there are, and where numbers lie, but no value of anybody.

    Args:
        table: the synthetic rows, of which only each column by itself is used.
        numbers: which columns are numbers.
        n_columns: how many a predicate is about at most; at least half as many.
        n: how many predicates.
        rng: draws them.

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
    return _limited(low, high, _some_columns(n, len(numbers), -(-n_columns // 2), n_columns, rng))
