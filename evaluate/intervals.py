"""95% intervals: half-samples, jackknife, a blend of both, Clopper-Pearson, Wilson, Newcombe; placements."""

from collections.abc import Iterable, Sequence
from string import ascii_letters

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats
from scipy.linalg import hadamard

LEVEL = 0.95  # Coverage of every interval

Rate = tuple[float, float, float]  # A rate, or a difference of two, and the ends of its interval

N_GROUPS = 16  # Groups that replicates are made of; a sample with fewer rows (or entities) has no interval

_CONTRASTS = hadamard(N_GROUPS)[1:] > 0
_REPLICATES = np.concatenate([np.ones((1, N_GROUPS)), _CONTRASTS, ~_CONTRASTS, 1 - np.eye(N_GROUPS)])
HALVES = slice(1, 2 * N_GROUPS - 1)
"""Places of half-samples and then their complements among the replicates; the first is of all rows."""
WITHOUT = slice(2 * N_GROUPS - 1, 3 * N_GROUPS - 1)  # Places of the replicates without one group


def replicate_groups(n_groups: int) -> NDArray[np.float64]:
    """The row groups of each replicate: the whole, 15 half-samples, their complements, all groups but one. Returns:
    Ones and zeros, shape (47, 16), or (1, 1) for the whole alone.

    Any two half-samples share half of their groups (a Hadamard matrix), so that each is evidence of its own.

    >>> replicate_groups(1)
    array([[1.]])
    """
    return _REPLICATES if n_groups == N_GROUPS else np.ones((1, 1))


def half_samples(
    value: float, halves: ArrayLike, *, bounds: tuple[float, float] = (-np.inf, np.inf), n_comparisons: int = 1
) -> tuple[float, float]:
    """The interval of a number by balanced half-samples, with Student's t on as many degrees of freedom as halves.
    `halves`: the number on each half-sample, then on their complements in the same order; shape (2 n_halves,).

    The variance is the mean square of half the difference between a half-sample and its complement. For a sum of
    absolute differences, such as total variation, that is right both near zero and far from it, where a jackknife is
    too wide and a bootstrap too far up: of x and noise d, ((|x + d| - |x - d|) / 2)^2 = min(|x|, |d|)^2, whose mean is
    the variance of |x| where x is as large as d or much larger. It takes many differences: for a single one, which may
    happen to be zero, use `blended`.

    Source: Wolter 2007, "Introduction to Variance Estimation", section 3.4; McCarthy 1969, "Pseudo-replication".

    >>> [round(end, 3) for end in half_samples(2.0, [2.5, 1.5])]
    [-4.353, 8.353]
    """
    variance, degrees = _half_sample_variance(halves)
    return _around(value, variance, degrees, bounds, n_comparisons)


def _half_sample_variance(halves: ArrayLike) -> tuple[float, int]:
    """The variance by half-samples and their complements, and its degrees of freedom."""
    samples, complements = np.asarray(halves, dtype=np.float64).reshape(2, -1)
    return float(np.mean((samples - complements) ** 2) / 4), len(samples)


def jackknife(
    value: float, without: ArrayLike, *, bounds: tuple[float, float] = (-np.inf, np.inf), n_comparisons: int = 1
) -> tuple[float, float]:
    """The interval of a number by the delete-a-group jackknife, with Student's t on n_groups - 1 degrees of freedom.
    `without`: the number with each group of rows left out in turn, shape (n_groups,), finite, at least 2.

    Source: Kott 2001, "The Delete-a-Group Jackknife", eq. 2 and 3.

    >>> [round(end, 3) for end in jackknife(2.0, [1.5, 2.5])]
    [-4.353, 8.353]
    """
    return _around(value, _jackknife_variance(without), len(np.asarray(without)) - 1, bounds, n_comparisons)


def _jackknife_variance(without: ArrayLike) -> float:
    replicates = np.asarray(without, dtype=np.float64)
    return float((len(replicates) - 1) * replicates.var())


FEW_DISTANCES = 8  # Below so many distances, a mean of them behaves like a single one
JACKKNIFE_SHARES = (0.25, 0.15)
"""Of the jackknife's variance in a blend, for few distances and for many: the least that cover 93 of 100 where a
distance is about as large as its noise, as simulations in the test suite show."""


def blended(
    value: float,
    replicates: ArrayLike,
    n_distances: int,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    n_comparisons: int = 1,
) -> tuple[float, float]:
    """The interval of a distance, a mean of distances, or their excess over others, by a blend of two variances.
    `replicates`: the number on all rows and on parts of them, in the order of `replicate_groups`; shape (47,).

    Half-samples are right on average, but for few distances they are noisy and too small just where these happen to
    come out small; the jackknife is too large near zero, and steady. A blend covers 93 to 97 of 100 for a mean of many
    distances, and 93 to 99 for few; the most where equal distributions on two values are compared.
    """
    numbers = np.asarray(replicates, dtype=np.float64)
    by_halves, degrees = _half_sample_variance(numbers[HALVES])
    share = JACKKNIFE_SHARES[int(n_distances >= FEW_DISTANCES)]
    variance = (1 - share) * by_halves + share * _jackknife_variance(numbers[WITHOUT])
    return _around(value, variance, degrees, bounds, n_comparisons)


def _around(
    value: float, variance: float, degrees: int, bounds: tuple[float, float], n_comparisons: int
) -> tuple[float, float]:
    error = float(np.sqrt(variance))
    quantile = float(special.stdtrit(degrees, 1 - (1 - LEVEL) / 2 / n_comparisons))
    low, high = np.clip([value - quantile * error, value + quantile * error], *bounds)
    return float(min(low, value)), float(max(high, value))


def clopper_pearson(k: float, n: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a rate.

    Source: Clopper & Pearson 1934.

    >>> [round(end, 4) for end in clopper_pearson(0, 10)]
    [0.0, 0.3085]
    """
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(stats.beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(stats.beta.ppf(1 - tail, k + 1, n - k))
    return low, high


def wilson(share: float, n: float, n_comparisons: int = 1) -> Rate:
    """A rate with its score interval, which has a width also where the rate is zero.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".

    >>> [round(number, 4) for number in wilson(0.5, 100)]
    [0.5, 0.4038, 0.5962]
    """
    z = float(special.ndtri(1 - (1 - LEVEL) / 2 / n_comparisons))
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return share, max(0.0, min(share, center - half)), min(1.0, max(share, center + half))


def design_effect(hits: NDArray[np.bool_], units: NDArray[np.integer]) -> float:
    """The design effect (Kish): rows worth one independent row, as rows of a unit are alike. `hits`: which rows a rate
    counts, shape (n,). `units`: codes from 0 of the unit of each row, shape (n,).

    Where all rows agree, nothing shows how much they do: they count as if each unit were one row.

    Source: Kish 1965, "Survey Sampling", section 8.2; the variance of a ratio by its clusters.

    >>> design_effect(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))
    2.0
    """
    sizes, hits_of = np.bincount(units), np.bincount(units, weights=hits)
    n, n_hits, squares = float(sizes.sum()), float(hits_of.sum()), float((sizes**2).sum())
    share, most = n_hits / n, squares / n
    if n_hits in (0, n) or most == 1.0:
        return most
    residuals = float((hits_of**2).sum()) - 2 * share * float((sizes * hits_of).sum()) + share**2 * squares
    return max(1.0, residuals / (n * share * (1 - share)))


def clustered(hits: NDArray[np.bool_], units: NDArray[np.integer], n_comparisons: int = 1) -> Rate:
    """A rate with its score interval, on as many rows as tell as much where rows of a unit are alike."""
    return wilson(float(hits.mean()), len(hits) / design_effect(hits, units), n_comparisons)


def newcombe(first: Rate, second: Rate) -> Rate:
    """The difference of two independent rates with its hybrid score interval, from the score interval of each.

    Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.

    >>> [round(number, 4) for number in newcombe(wilson(56 / 70, 70), wilson(48 / 80, 80))]
    [0.2, 0.0524, 0.3339]
    """
    difference = first[0] - second[0]
    below = float(np.hypot(first[0] - first[1], second[2] - second[0]))
    above = float(np.hypot(first[2] - first[0], second[0] - second[1]))
    return difference, max(-1.0, difference - below), min(1.0, difference + above)


_Z = float(special.ndtri(1 - (1 - LEVEL) / 2))
_CUT_OFF = (1.45, 2.0)
"""How far an end that is cut off at 0 or 1 is taken to lie from the number, in widths of what is seen there and of the
other side. So the n of the test of coincidence, which is stricter below than above, is met within a factor of two."""


def interval_at(rate: Rate, n: int, times: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """The interval of the same number on `times` as many rows.

    Of a share it is what `wilson` or `clopper_pearson` give, and of a difference of two shares that are 0, exactly. Any
    other is narrower by the root of `times`.

    >>> [round(end, 4) for end in interval_at(wilson(0.5, 25), 25, 4, (0.0, 1.0))]
    [0.4038, 0.5962]
    """
    value, low, high = rate
    if bounds == (0.0, 1.0):
        # Both ends of a score interval solve (end - value)^2 = t end (1 - end), where t is z^2 over the trials.
        ts = [(end - value) ** 2 / (end * (1 - end)) for end in (low, high) if 0 < end < 1 and end != value]
        if np.isclose(ts[0], ts[1] if len(ts) == 2 else _Z**2 / n, rtol=1e-6) if ts else False:
            return wilson(value, times * _Z**2 / ts[-1])[1:]
        if np.allclose(clopper_pearson(value * n, n), (low, high), rtol=1e-6, atol=0):
            return clopper_pearson(value * n * times, n * times)
    if value == 0 and low < 0 and np.isclose(high, wilson(0.0, n)[2], rtol=1e-6):
        return -wilson(0.0, times * _Z**2 * (1 + low) / -low)[2], wilson(0.0, times * n)[2]
    below, above = value - low, high - value
    below, above = (
        (max(_CUT_OFF[0] * seen, _CUT_OFF[1] * other) if other > 0 else np.inf) if is_cut and seen > 0 else seen
        for seen, other, is_cut in ((below, above, low <= bounds[0]), (above, below, high >= bounds[1]))
    )
    root = float(np.sqrt(times))
    return max(bounds[0], value - below / root), min(bounds[1], value + above / root)


def placements(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """For each positive the share of negatives below it, for each negative the share of positives above; ties half.

    Source: DeLong et al. 1988, whose interval of the area under the ROC curve rests on these; by ranks as in Sun & Xu
    2014.
    """
    n_pos, n_neg = len(positives), len(negatives)
    ranks = stats.rankdata(np.concatenate([positives, negatives]))
    wins = (ranks[:n_pos] - stats.rankdata(positives)) / n_neg
    losses = 1 - (ranks[n_pos:] - stats.rankdata(negatives)) / n_pos
    return wins, losses


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given: at most 5 in 100 families have a false one below 0.05.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> [round(adjusted, 6) for adjusted in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p)), key=lambda position: p[position])
    adjusted, most = [1.0] * len(p), 0.0
    for rank, position in enumerate(order):
        most = max(most, min(1.0, (len(p) - rank) * p[position]))
        adjusted[position] = most
    return adjusted


def letters(names: Sequence[str], apart: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each name: two names share a letter if and only if they are not told apart.

    Source: Piepho 2004, "An algorithm for a letter-based representation of all-pairwise comparisons".

    >>> letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(names)] if names else []
    for first, second in apart:
        split = [group - {name} for group in groups if {first, second} <= group for name in (first, second)]
        every = dict.fromkeys([group for group in groups if not {first, second} <= group] + split)
        groups = [group for group in every if not any(group < other for other in every)]
    position = {name: at for at, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(position[name] for name in group))
    return {name: "".join(_letter(at) for at, group in enumerate(groups) if name in group) for name in names}


def _letter(at: int) -> str:
    return ascii_letters[at] if at < len(ascii_letters) else f"({at + 1})"
