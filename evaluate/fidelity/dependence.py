"""Dependence between columns: how far a table's is from the training table's, as a share of what shuffling loses.

For all codes a and b of two columns it is the covariance of "is a" and "is b"; where codes have an order, of "up to a"
and "up to b". This is zero for independent columns alone. Tables are compared by the sum of squared differences, less
what chance adds to it by half-samples: so all rows count, and tables need not be of one size.

Averages hide a relation that is turned round in a third of the rows. So dependence is also looked at among the rows of
each level of the target and of each large category, as a share of train's own squares in the group or in the table,
whichever are more; and in all rows for each frequent category alone.

Source: Blum, Kiefer and Rosenblatt 1961, "Distribution free tests of independence based on the sample distribution
function", eq. 1.1; Lyons 2013, "Distance covariance in metric spaces", for columns without an order.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from evaluate.fidelity.encoded import EncodedSamples, Four
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.intervals import HALVES, LEVEL, N_GROUPS, jackknife, replicate_groups
from evaluate.result import Estimate, Failure

SHARE, WORST = "pairs.dependence.floor_share", "pairs.dependence.floor_share.worst"
TELLING = 0.2  # A column takes part where chance moves a fresh sample's share by no more than this
_N_HALVES = N_GROUPS - 1
_PARTS = replicate_groups(N_GROUPS)[: HALVES.stop]
_MEANING = "0 is as good as a fresh real sample, 1 as bad as columns shuffled independently; more is made up."


@dataclass(frozen=True, eq=False)
class Squares:
    """Sums over pairs: squares of a difference, products with half-samples' changes, and products of these."""

    square: np.ndarray  # of synthetic, fresh and shuffled rows from train, and of train; shape (4,)
    slope: np.ndarray  # shape (4, 15)
    noise: np.ndarray  # shape (4, 15, 15)

    @classmethod
    def of(cls, dependence: np.ndarray) -> Self:
        """From the dependence of train, synthetic, fresh and shuffled: all, halves, complements; (4, 31, n_codes)."""
        whole, halves, complements = np.split(dependence, [1, _N_HALVES + 1], axis=1)
        return cls._of_moved(np.concatenate([whole, (halves - complements) / 2], axis=1))

    @classmethod
    def of_counts(cls, counts: Four, sizes: tuple[int, int], are_numbers: tuple[bool, bool]) -> Self:
        """From counts of both codes by group, (16, n_codes) each, in units of the columns' deviations in train."""
        cells = np.array(counts, dtype=np.float64)
        parts = _PARTS / (cells.sum(axis=2) @ _PARTS.T)[:, :, None]
        whole, halves, complements = np.split(parts, [1, _N_HALVES + 1], axis=1)
        mean, moved = (np.concatenate([whole, part], axis=1) for part in ((halves + complements) / 2,
                                                                          (halves - complements) / 2))  # fmt: skip
        joint = (moved @ cells).reshape(4, 1 + _N_HALVES, *sizes)
        cells = cells.reshape(4, N_GROUPS, *sizes)
        means, moves, scale = [], [], 1.0
        for axis, is_number in enumerate(are_numbers):
            margin = cells.sum(axis=3 - axis)
            means.append(_up_to(mean @ margin, 2, is_number))
            moves.append(_up_to(moved @ margin, 2, is_number))
            joint = _up_to(joint, 2 + axis, is_number)
            share = means[-1][0, 0]
            scale *= float((share * (1 - share)).clip(0.0).sum())
        # Half of what products of margins differ by is mean times move and move times mean; the first ones are whole.
        moves[0][:, 0] = 0.0
        joint -= np.stack(means[:1] + moves[:1], axis=3) @ np.stack([moves[1], means[1]], axis=2)
        return cls._of_moved(joint.reshape(*joint.shape[:2], -1) * (1 / np.sqrt(scale) if scale > 1e-12 else 0.0))

    @classmethod
    def _of_moved(cls, dependence: np.ndarray) -> Self:
        """From that on all rows, then half of what half-samples differ from their complements by, (4, 16, n_codes)."""
        dependence[1:] -= dependence[0]
        whole, moved = (np.roll(part, -1, axis=0) for part in (dependence[:, 0], dependence[:, 1:]))
        return cls(
            np.einsum("kc,kc->k", whole, whole), np.einsum("khc,kc->kh", moved, whole), moved @ moved.swapaxes(1, 2)
        )

    @classmethod
    def total(cls, parts: "Iterable[Squares]") -> Self:
        """The sum over disjoint pairs."""
        parts = list(parts)
        return cls(*(sum(getattr(part, name) for part in parts) for name in ("square", "slope", "noise")))

    @property
    def beyond_noise(self) -> np.ndarray:
        """The squares without what chance adds to them; shape (4,)."""
        return np.asarray(self.square - np.trace(self.noise, axis1=1, axis2=2) / _N_HALVES)

    @property
    def noise_variance(self) -> np.ndarray:
        """The variance of a square of nothing but noise; shape (4,)."""
        between = ~np.eye(_N_HALVES, dtype=bool)
        return np.asarray(2 * np.mean(self.noise[:, between] ** 2, axis=1))

    def share(self, side: int) -> float:
        """The place of one table between a fresh sample (0) and shuffled columns (1)."""
        lost = self.beyond_noise
        return float(lost[side] / lost[-1])

    def interval(self, n_comparisons: int = 1) -> tuple[float, float]:
        """Of the share of synthetic rows, to first order, by half-samples. The square of a half-sample's difference
        holds the noise of all rows once more. Half of that is taken off: where a difference happens to be small, what
        half-samples show is small, too.
        """
        share, room = self.share(SYNTHETIC), float(self.beyond_noise[-1])
        moved = 2 * (self.slope[SYNTHETIC] - share * self.slope[-1]) / room
        noise = float(self.noise_variance[SYNTHETIC]) / room**2
        error = float(np.sqrt(max(np.mean(moved**2) - noise / 2, noise)))
        return share - _quantile(n_comparisons) * error, share + _quantile(n_comparisons) * error

    def tells(self, size_ratio: float, n_comparisons: int = 1) -> bool:
        """True where chance moves a fresh sample's share by no more than `TELLING`."""
        room, noise = float(self.beyond_noise[-1]), float(np.sqrt(self.noise_variance[-1]))
        return room > 0 and _quantile(n_comparisons) * noise * (1 + size_ratio) <= TELLING * room


def pair_squares(coded: EncodedSamples) -> dict[tuple[int, int], Squares]:
    """The sums of squares of all pairs of columns."""
    pairs, sizes, are_numbers = list(itertools.combinations(range(len(coded.columns)), 2)), coded.sizes, coded.is_number
    return {
        (a, b): Squares.of_counts(counts, (sizes[a], sizes[b]), (are_numbers[a], are_numbers[b]))
        for (a, b), counts in zip(pairs, coded.each(pairs), strict=True)
    }


def over_all_rows(coded: EncodedSamples) -> list[Estimate | Failure]:
    """The share over all pairs, and the largest of one column, whose interval holds those of all columns at once."""
    samples = coded.samples
    if samples.n_groups != N_GROUPS:
        return [Failure(name, "skipped", "there are too few rows for an interval") for name in (SHARE, WORST)]
    squares = pair_squares(coded)
    ratio, total = samples.train.n_rows / samples.n, Squares.total(squares.values())
    why = "shuffled columns are not told from a fresh real sample: few rows, or columns hardly tied"
    overall: Estimate | Failure = Failure(SHARE, "skipped", why)
    if total.tells(ratio):
        marks = total.share(FRESH), total.share(SHUFFLED)
        overall = Estimate(SHARE, total.share(SYNTHETIC), samples.n, "lower", (), *total.interval(), *marks, _MEANING)
    return [overall, _worst(squares, coded, ratio)]


def _worst(squares_of: Mapping[tuple[int, int], Squares], coded: EncodedSamples, ratio: float) -> Estimate | Failure:
    d = len(coded.columns)
    by_column = {
        name: Squares.total(part for pair, part in squares_of.items() if column in pair)
        for column, name in enumerate(coded.columns)
    }
    telling = {name: squares for name, squares in by_column.items() if squares.tells(ratio, d)}
    if not telling:
        why = "no column's relations are strong enough to be told from none: few rows, or columns hardly tied"
        return Failure(WORST, "skipped", why)
    n = len(telling)
    low, high = np.array([squares.interval(n) for squares in telling.values()]).max(axis=0).tolist()
    name = max(telling, key=lambda name: telling[name].share(SYNTHETIC))
    note = f"The worst is {name!r}." + (f" Of {n} of {d} columns; the relations of the others are weak." * (n < d))
    fresh, shuffled = (max(squares.share(side) for squares in telling.values()) for side in (FRESH, SHUFFLED))
    value = telling[name].share(SYNTHETIC)
    return Estimate(WORST, value, coded.samples.n, "lower", (), low, high, fresh, shuffled, note)


def _up_to(shares: np.ndarray, axis: int, is_number: bool) -> np.ndarray:
    """Shares up to each bin of a number, in place; its last two codes, and those of a category, are as they are."""
    if is_number:
        bins = (slice(None),) * axis + (slice(-2),)
        np.cumsum(shares[bins], axis=axis, out=shares[bins])
    return shares


def _quantile(n_comparisons: int) -> float:
    return float(special.stdtrit(_N_HALVES, 1 - (1 - LEVEL) / 2 / n_comparisons))


WITHIN = "pairs.dependence.within.worst"
LEAST_SHARE, MAX_LEVELS, COARSE = 0.1, 24, 20
"""Share of the training rows that a group has, and that it lacks, at least; groups at most, the largest ones; values of
a number at most whose bins are groups like categories."""
WIDE = 30  # Columns of a table beyond which fewer groups are looked at
FREQUENT = 0.05  # Share of the training rows that a category has at least whose own relations are looked at
TELLING_WITHIN = 0.5
"""A column of a group, or a category, takes part where the interval of a fresh real sample reaches no further than this
from its share: fewer rows, or columns hardly tied, do not show a relation turned round."""


@dataclass(frozen=True)
class Level:
    """Rows of one category, or of a stretch of the bins of a numeric target."""

    column: int
    codes: range
    words: str


def within_groups(coded: EncodedSamples, target: str | None) -> Estimate | Failure:
    """The largest share of a column in a group, or of a category; its interval holds all at once (Bonferroni)."""
    if coded.samples.n_groups != N_GROUPS:
        return Failure(WITHIN, "skipped", "there are too few rows for an interval")
    flags = Flags.of(coded)
    whole = flags.squares()
    words, shares, lost = [], [], []
    own, lost_by_flag = _shares(whole, whole[:, 2])
    train = coded.rows[0]
    for at, (column, code) in enumerate(zip(flags.owner.tolist(), flags.codes.tolist(), strict=True)):
        # Of two categories, each says what the column says.
        if coded.sizes[column] <= 4 or coded.is_number[column]:
            continue
        if (train.codes[:, column] == code).sum() >= FREQUENT * len(train.codes):
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
    telling = [i for i, (_, (low, high)) in enumerate(ends) if 0 < high - low <= 2 * TELLING_WITHIN]
    if not telling:
        why = "in no group of rows are columns tied strongly enough to be told from a fresh real sample"
        return Failure(WITHIN, "not applicable", why)
    chosen = max(telling, key=lambda i: float(shares[i][SYNTHETIC, 0]))
    low, high = (max(ends[i][SYNTHETIC][end] for i in telling) for end in (0, 1))
    fresh, gone = max(float(shares[i][FRESH, 0]) for i in telling), max(float(lost[i]) for i in telling)
    note = f"The worst is {words[chosen]}, of {len(telling):,} columns in groups, and categories."
    value = float(shares[chosen][SYNTHETIC, 0])
    return Estimate(WITHIN, value, coded.samples.n, "lower", (), low, high, fresh, gone, note)


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
    most = max(MAX_LEVELS * WIDE // max(len(coded.columns), WIDE), 6)
    return [level for *_, level in sorted(levels, key=lambda each: each[:2])[:most]]


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
        inside = [
            [flags if level is None else flags[np.isin(codes[:, level.column], level.codes)] for codes, flags in rows]
            for rows in self.rows
        ]
        result, squares = np.empty((N_GROUPS + 1, 3, len(self.owner))), np.zeros((3, len(self.owner)))
        means = [np.zeros(1)] * 3
        for replicate, covariances in enumerate(zip(*map(_covariances, inside), strict=True)):
            train, *others = tables = [table * self.roots for table in covariances]
            result[replicate] = [_row_squares(tie) for tie in (*(other - train for other in others), train)]
            if replicate > 0:
                squares = squares + np.array([_row_squares(tie) for tie in tables])
                means = [mean + tie / N_GROUPS for mean, tie in zip(means, tables, strict=True)]
        # What chance adds, by the jackknife: the mean square of each table around the mean of its replicates.
        noise = (N_GROUPS - 1) * (squares / N_GROUPS - np.array([_row_squares(mean) for mean in means]))
        return np.asarray(result - np.array([noise[1] + noise[0], noise[2] + noise[0], noise[0]]))


def _row_squares(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix))


def _covariances(flags: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Of flags by half-sample group: in all rows, then without each group in turn; shape (k, k) each."""
    n, sums = np.array([*map(len, flags)]), np.array([part.sum(axis=0) for part in flags])
    # Counts below 2^24 are whole in single precision, too.
    products = np.array([part.T @ part for part in (part.astype(np.float32) for part in flags)])
    total = products.sum(axis=0, dtype=np.float64)
    for left_out in (None, *range(N_GROUPS)):
        kept = np.arange(N_GROUPS) != left_out
        n_kept, sum_kept = max(int(n[kept].sum()), 1), sums[kept].sum(axis=0)
        covariances = total.copy() if left_out is None else total - products[left_out]
        covariances /= n_kept
        covariances -= np.outer(sum_kept / n_kept, sum_kept / n_kept)
        yield covariances


def _indicators(size: int, is_number: bool) -> np.ndarray:
    """What each code is: itself, or for the bins of a number every one that it is not above; shape (size, size)."""
    flags = np.eye(size, dtype=bool)
    if is_number:
        flags[: size - 2, : size - 2] = np.triu(np.ones((size - 2, size - 2), dtype=bool))
    return flags
