"""Dependence between columns: how far a table's is from the training table's, as a share of what shuffling loses.

For all codes a and b of two columns it is the covariance of "is a" and "is b"; where codes have an order, of "up to a"
and "up to b". This is zero for independent columns alone. Tables are compared by the sum of squared differences, less
what chance adds to it by half-samples: so all rows count, and tables need not be of one size.

Source: Blum, Kiefer and Rosenblatt 1961, "Distribution free tests of independence based on the sample distribution
function", eq. 1.1; Lyons 2013, "Distance covariance in metric spaces", for columns without an order.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from evaluate.fidelity.encoded import EncodedSamples, Four
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.intervals import HALVES, LEVEL, N_GROUPS, replicate_groups
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


def measure(coded: EncodedSamples) -> list[Estimate | Failure]:
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
