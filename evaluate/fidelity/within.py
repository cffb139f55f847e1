"""Relations within groups, and of single categories: what ties columns together there, beside the same real rows.

A relation that is turned round in a third of the rows is still there on average, and so are those of two labels that
were exchanged. So dependence (`dependence`) is looked at among the rows of each level of the target, and of each large
category: for every column, the squared differences of its dependence on all others from train's, as a share of train's
own squares in the group or in the table, whichever are more. And in all rows it is looked at for each frequent category
alone. 0 is a fresh sample, and up to 1 what is lost is gone; a relation turned round comes to 4.

What chance adds to squares is subtracted, as a jackknife shows it. So all rows count, whatever their numbers are.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.rows import EncodedRows
from evaluate.fidelity.samples import FRESH, SYNTHETIC
from evaluate.intervals import N_GROUPS, jackknife
from evaluate.result import Estimate, Failure

NAME = "pairs.dependence.within.worst"
LEAST_SHARE, MAX_LEVELS, COARSE = 0.1, 24, 20
"""Share of the training rows that a group has, and that it lacks, at least; groups at most, the largest ones; values of
a number at most whose bins are groups like categories."""
WIDE = 30  # Columns of a table beyond which fewer groups are looked at
FREQUENT = 0.05  # Share of the training rows that a category has at least whose own relations are looked at
TELLING = 0.5
"""A column of a group, or a category, takes part where the interval of a fresh real sample reaches no further than this
from its share: fewer rows, or columns hardly tied, do not show a relation turned round."""


@dataclass(frozen=True)
class Level:
    """Rows of one category, or of a stretch of the bins of a numeric target."""

    column: int
    codes: range
    words: str


def measure(coded: EncodedSamples, target: str | None) -> Estimate | Failure:
    """The largest share of a column in a group, or of a category; its interval holds those of all at once (Bonferroni).
    `coded`: *Sensitive*. All rows of the samples, in few bins.
    """
    if coded.samples.n_groups != N_GROUPS:
        return Failure(NAME, "skipped", "there are too few rows for an interval")
    starts, whole = np.r_[0, np.cumsum(coded.sizes)[:-1]], _squares(coded, None)
    own, lost_by_flag = _shares(whole, whole[:, 2])
    words, shares, lost = [], [], []
    for column, (start, size) in enumerate(zip(starts, coded.sizes, strict=True)):
        labels = coded.rows[0].attributes[column].labels()
        counts = np.bincount(coded.rows[0].codes[:, column], minlength=size)
        for code in np.flatnonzero(counts >= FREQUENT * counts.sum()):
            if size > 4 and not coded.is_number[column]:  # of two categories, each says what the column says
                words.append(f"{labels[code]!r} of {coded.columns[column]!r}")
                shares.append(own[start + code])
                lost.append(lost_by_flag[start + code])
    for level in _levels(coded, target):
        inside = np.add.reduceat(_squares(coded, level), starts, axis=2)
        of_columns, lost_by_column = _shares(
            inside, np.maximum(inside[:, 2], np.add.reduceat(whole[:, 2], starts, axis=1))
        )
        words += [f"{name!r} where {level.words}" for name in coded.columns]
        shares += [*of_columns]
        lost += [*lost_by_column]
    ends = [[jackknife(float(of[0]), of[1:], n_comparisons=len(shares)) for of in pair] for pair in shares]
    telling = [i for i, (_, (low, high)) in enumerate(ends) if 0 < high - low <= 2 * TELLING]
    if not telling:
        why = "in no group of rows are columns tied strongly enough to be told from a fresh real sample"
        return Failure(NAME, "not applicable", why)
    chosen = max(telling, key=lambda i: float(shares[i][SYNTHETIC, 0]))
    low, high = (max(ends[i][SYNTHETIC][end] for i in telling) for end in (0, 1))
    fresh, gone = max(float(shares[i][FRESH, 0]) for i in telling), max(float(lost[i]) for i in telling)
    note = f"The worst is {words[chosen]}, of {len(telling):,} columns in groups, and categories."
    value = float(shares[chosen][SYNTHETIC, 0])
    return Estimate(NAME, value, coded.samples.n, "lower", (), low, high, fresh, gone, note)


def _levels(coded: EncodedSamples, target: str | None) -> list[Level]:
    """Those of the target first, then the largest ones."""
    found = []
    for column, (name, attribute) in enumerate(zip(coded.columns, coded.rows[0].attributes, strict=True)):
        is_coarse = coded.is_number[column] and len(coded.samples.train.counted()[name][0]) <= COARSE
        if coded.is_number[column] and name != target and not is_coarse:
            continue
        cuts = np.arange(attribute.size + 1)
        if coded.is_number[column] and not is_coarse:
            cuts = np.unique(np.linspace(0, attribute.size - 2, 5).astype(int))
        counts = np.bincount(coded.rows[0].codes[:, column], minlength=attribute.size)
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            share = counts[low:high].sum() / counts.sum()
            if LEAST_SHARE <= share <= 1 - LEAST_SHARE:
                labels = attribute.labels()[low:high]
                words = f"{name!r} is {labels[0]!r}" + (f" to {labels[-1]!r}" if len(labels) > 1 else "")
                found.append((name != target, -share, Level(column, range(low, high), words)))
    return [
        level
        for *_, level in sorted(found, key=lambda each: each[:2])[
            : max(MAX_LEVELS * WIDE // max(len(coded.columns), WIDE), 6)
        ]
    ]


def _squares(coded: EncodedSamples, level: Level | None) -> np.ndarray:
    """By flag, over the flags of all other columns: squared differences of the dependence of synthetic and of fresh
    rows from train's, and train's own squares, without what chance adds. On all rows of a group and without one part of
    them; shape (17, 3, k).
    """
    owner = np.repeat(np.arange(len(coded.sizes)), coded.sizes)
    # Each column alone has variance 1 in all training rows.
    shares = np.concatenate([
        _indicators(size, bool(number))[column].mean(axis=0)
        for column, size, number in zip(coded.rows[0].codes.T, coded.sizes, coded.is_number, strict=True)
    ])  # fmt: skip
    variances = np.bincount(owner, shares * (1 - shares))
    scale = np.where(variances > 1e-9, 1 / np.maximum(variances, 1e-9), 0.0)[owner]
    weights = np.outer(scale, scale) * (owner[:, None] != owner)
    tables = [_Ties.of(rows, level, coded.is_number) for rows in coded.rows[: FRESH + 2]]
    # Summed one by one: of a wide table, sixteen of them at once would be large.
    means = [sum(of.without(group) for group in range(N_GROUPS)) / N_GROUPS for of in tables]
    noise, found = np.zeros((3, len(owner))), np.empty((N_GROUPS + 1, 3, len(owner)))
    for replicate, left_out in enumerate((None, *range(N_GROUPS))):
        train, *others = (of.without(left_out) for of in tables)
        found[replicate] = [(of**2 * weights).sum(axis=1) for of in (*(other - train for other in others), train)]
        if left_out is not None:
            moved = [of - mean for of, mean in zip((train, *others), means, strict=True)]
            noise += (N_GROUPS - 1) / N_GROUPS * np.array([(of**2 * weights).sum(axis=1) for of in moved])
    return np.asarray(found - np.array([noise[1] + noise[0], noise[2] + noise[0], noise[0]]))


def _shares(squares: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares as shares of a base, of synthetic and fresh rows, to first order around all rows, shape (k, 2, 17); and
    what shuffling loses, shape (k,). `base`: shape (17, k).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        value = squares[0] / base[0]
        linear = value + (squares - value * base[:, None]) / base[0]
    linear = np.where(base[0] > 0, np.nan_to_num(linear), 0.0)
    return np.asarray(linear[:, :2].transpose(2, 1, 0)), linear[0, 2]


@dataclass(frozen=True, eq=False)
class _Ties:
    """Counts and products of "is a", of "up to a" where codes have an order, in one group by half-sample group."""

    n: np.ndarray  # shape (16,)
    sums: np.ndarray  # shape (16, k)
    products: np.ndarray  # shape (16, k, k)

    @classmethod
    def of(cls, rows: EncodedRows, level: Level | None, is_number: np.ndarray) -> "_Ties":
        shapes = [_indicators(attribute.size, bool(n)) for attribute, n in zip(rows.attributes, is_number, strict=True)]
        inside = np.ones(len(rows.codes), bool) if level is None else np.isin(rows.codes[:, level.column], level.codes)
        n, sums, products = [], [], []
        for group in range(N_GROUPS):
            codes = rows.codes[inside & (rows.rows.groups == group)]
            flags = np.concatenate([shape[codes[:, i]] for i, shape in enumerate(shapes)], axis=1)
            n.append(len(codes))
            sums.append(flags.sum(axis=0, dtype=np.float64))
            products.append(flags.T @ flags)
        return cls(np.array(n), np.array(sums), np.array(products))

    def without(self, group: int | None) -> np.ndarray:
        """The covariances of all flags without the rows of one half-sample group; shape (k, k)."""
        kept = np.arange(N_GROUPS) != group
        n, mean = max(int(self.n[kept].sum()), 1), self.sums[kept].sum(axis=0)
        total = self.total if group is None else self.total - self.products[group]
        return np.asarray(total / n - np.outer(mean / n, mean / n))

    @cached_property
    def total(self) -> np.ndarray:
        return np.asarray(self.products.sum(axis=0, dtype=np.float64))


def _indicators(size: int, is_number: bool) -> np.ndarray:
    """What each code is: itself, or for the bins of a number every one that it is not above; shape (size, size)."""
    flags = np.eye(size, dtype=np.float32)
    if is_number:
        flags[: size - 2, : size - 2] = np.triu(np.ones((size - 2, size - 2)))
    return flags
