"""Relations within groups, and of single categories: what ties columns together there, beside the same real rows.

A relation that is turned round in a third of the rows is still there on average. So dependence is looked at among the
rows of each level of the target and of each large category, as a share of train's own squares in the group or in the
table, whichever are more; and in all rows for each frequent category alone. What chance adds to squares is subtracted
by a jackknife.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples
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
    """The largest share of a column in a group, or of a category; its interval holds all at once (Bonferroni)."""
    if coded.samples.n_groups != N_GROUPS:
        return Failure(NAME, "skipped", "there are too few rows for an interval")
    flags = Flags.of(coded)
    whole = flags.squares()
    words, shares, lost = [], [], []
    own, lost_by_flag = _shares(whole, whole[:, 2])
    train = coded.rows[0]
    frequent = [np.bincount(column, minlength=size) >= FREQUENT * len(column)
                for column, size in zip(train.codes.T, coded.sizes, strict=True)]  # fmt: skip
    for at, (column, code) in enumerate(zip(flags.owner.tolist(), flags.codes.tolist(), strict=True)):
        # Of two categories, each says what the column says.
        if coded.sizes[column] > 4 and not coded.is_number[column] and frequent[column][code]:
            label = train.attributes[column].labels()[code]
            words.append(f"{label!r} of {coded.columns[column]!r}")
            shares.append(own[at])
            lost.append(lost_by_flag[at])
    for level in _levels(coded, target):
        inside = flags.by_column(flags.squares(level))
        of_columns, lost_by_column = _shares(inside, np.maximum(inside[:, 2], flags.by_column(whole)[:, 2]))
        words += [f"{name!r} where {level.words}" for name in coded.columns]
        shares += [*of_columns]
        lost += [*lost_by_column]
    ends = [[jackknife(float(share[0]), share[1:], n_comparisons=len(shares)) for share in pair] for pair in shares]
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
    levels = []
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
                levels.append((name != target, -share, Level(column, range(low, high), words)))
    return [
        level
        for *_, level in sorted(levels, key=lambda each: each[:2])[
            : max(MAX_LEVELS * WIDE // max(len(coded.columns), WIDE), 6)
        ]
    ]


def _shares(squares: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares as shares of a base, of synthetic and fresh rows, to first order; and what shuffling loses."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = squares[0] / base[0]
        linear = value + (squares - value * base[:, None]) / base[0]
    linear = np.where(base[0] > 0, np.nan_to_num(linear), 0.0)
    return np.asarray(linear[:, :2].transpose(2, 1, 0)), linear[0, 2]


@dataclass(frozen=True, eq=False)
class Flags:
    """*Sensitive*. What rows are by group: "is a", or "up to a" where codes have an order; not what all or none are."""

    owner: np.ndarray  # the column of each flag, shape (k,)
    codes: np.ndarray  # the code of each flag, shape (k,)
    roots: np.ndarray  # by which each column alone has variance 1 in all training rows, 0 within a column; shape (k, k)
    rows: tuple[tuple[tuple[np.ndarray, np.ndarray], ...], ...]
    """By table and group the codes of all columns, shape (n, d), and the flags, shape (n, k), boolean."""

    @classmethod
    def of(cls, coded: EncodedSamples) -> "Flags":
        sizes, shapes = coded.sizes, [*map(_indicators, coded.sizes, coded.is_number)]
        owner, codes = np.repeat(np.arange(len(sizes)), sizes), np.concatenate([*map(np.arange, sizes)])
        shares = np.array([
            np.concatenate([
                np.bincount(column, minlength=len(shape)) @ shape / len(table.codes)
                for column, shape in zip(table.codes.T, shapes, strict=True)
            ])
            for table in coded.rows[: FRESH + 2]
        ])  # fmt: skip
        variances = np.bincount(owner, shares[0] * (1 - shares[0]))
        kept = ((shares > 0) & (shares < 1)).any(axis=0)
        roots = np.where(variances > 1e-9, 1 / np.sqrt(np.maximum(variances, 1e-9)), 0.0)[owner[kept]]
        rows = []
        for table in coded.rows[: FRESH + 2]:
            flags = np.concatenate(
                [shape[column] for column, shape in zip(table.codes.T, shapes, strict=True)], axis=1
            )[:, kept]
            parts = [table.rows.groups == group for group in range(N_GROUPS)]
            rows.append(tuple((table.codes[part], flags[part]) for part in parts))
        apart = owner[kept][:, None] != owner[kept]
        return cls(owner[kept], codes[kept], np.outer(roots, roots) * apart, tuple(rows))

    def by_column(self, squares: np.ndarray) -> np.ndarray:
        """Sums over the flags of each column; the last axis is of columns then."""
        return np.asarray(squares @ (self.owner[:, None] == np.arange(self.rows[0][0][0].shape[1])))

    def squares(self, level: Level | None = None) -> np.ndarray:
        """By flag, over the flags of all other columns: squared differences of the dependence of synthetic and of fresh
        rows from train's, and train's own squares, without what chance adds. On all rows of a group and without one
        part of them; shape (17, 3, k).
        """
        ties = [_Ties.of(rows, level) for rows in self.rows]
        result, squares = np.empty((N_GROUPS + 1, 3, len(self.owner))), np.zeros((3, len(self.owner)))
        means = [np.zeros(1)] * 3
        for replicate, left_out in enumerate((None, *range(N_GROUPS))):
            train, *others = tables = [tie.without(left_out) * self.roots for tie in ties]
            result[replicate] = [_row_squares(tie) for tie in (*(other - train for other in others), train)]
            if left_out is not None:
                squares = squares + np.array([_row_squares(tie) for tie in tables])
                means = [mean + tie / N_GROUPS for mean, tie in zip(means, tables, strict=True)]
        # What chance adds, by the jackknife: the mean square of each table around the mean of its replicates.
        noise = (N_GROUPS - 1) * (squares / N_GROUPS - np.array([_row_squares(mean) for mean in means]))
        return np.asarray(result - np.array([noise[1] + noise[0], noise[2] + noise[0], noise[0]]))


def _row_squares(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix))


@dataclass(frozen=True, eq=False)
class _Ties:
    """Counts and products of flags in one group of rows, by half-sample group."""

    n: np.ndarray  # shape (16,)
    sums: np.ndarray  # shape (16, k)
    products: np.ndarray  # shape (16, k, k)

    @classmethod
    def of(cls, rows: tuple[tuple[np.ndarray, np.ndarray], ...], level: Level | None) -> "_Ties":
        inside = [
            flags if level is None else flags[np.isin(codes[:, level.column], level.codes)] for codes, flags in rows
        ]
        # Counts below 2^24 are whole in single precision, too.
        parts = [flags.astype(np.float32) for flags in inside]
        sums, products = np.array([part.sum(axis=0) for part in inside]), np.array([part.T @ part for part in parts])
        return cls(np.array([*map(len, parts)]), sums, products)

    def without(self, group: int | None) -> np.ndarray:
        """The covariances of all flags without the rows of one half-sample group; shape (k, k)."""
        kept = np.arange(N_GROUPS) != group
        n, mean = max(int(self.n[kept].sum()), 1), self.sums[kept].sum(axis=0)
        covariances = self.total.copy() if group is None else self.total - self.products[group]
        covariances /= n
        covariances -= np.outer(mean / n, mean / n)
        return np.asarray(covariances)

    @cached_property
    def total(self) -> np.ndarray:
        return np.asarray(self.products.sum(axis=0, dtype=np.float64))


def _indicators(size: int, is_number: bool) -> np.ndarray:
    """What each code is: itself, or for the bins of a number every one that it is not above; shape (size, size)."""
    flags = np.eye(size, dtype=bool)
    if is_number:
        flags[: size - 2, : size - 2] = np.triu(np.ones((size - 2, size - 2), dtype=bool))
    return flags
