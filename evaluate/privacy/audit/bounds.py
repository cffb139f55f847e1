"""Lower bounds on epsilon from what an attacker got right: what a Gaussian mechanism allows, and what any does.

Nothing here fits or draws. What a schedule of subsampled steps allows is `tradeoff`'s matter.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize, special, stats

GUESSED = 0.2, 0.05
"""Shares of the canaries that an attacker of one run guesses, half of them "in", the rest left open.

Fixed before anything is seen: few and sure where epsilon is large, many where it is small. The error is split.
"""
ROOM, LEAST_CANARIES = 0.02, 1_000
"""Canaries times delta at most, and canaries at least: the theorem charges every canary with a delta."""
MOST_EPSILON, GRID = 40.0, 0.05


def gaussian_mu(one: float, other: float) -> float:
    """The sensitivity over sigma that two error rates need at least of a Gaussian mechanism."""
    return float(special.ndtri(1 - one) - special.ndtri(other))


def free_epsilon(one: float, other: float, delta: float) -> float:
    """Epsilon that two error rates need at least of any mechanism: 1 - other <= e^epsilon one + delta.

    Source: Kairouz, Oh, Viswanath 2015 (1311.0776).
    """
    surplus = 1 - other - delta
    return max(0.0, math.log(surplus / one)) if surplus > 0 else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian mechanism with sensitivity / sigma = mu, at delta; 0 where mu is not positive.

    Source: Balle & Wang 2018, Theorem 8.

    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        first, second = (float(special.log_ndtr(sign * mu / 2 - epsilon / mu)) for sign in (1, -1))
        return math.exp(first) - math.exp(epsilon + second) - delta

    if excess(0.0) <= 0:
        return 0.0
    above = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # zCDP's bound (Bun & Steinke 2016, Proposition 1.3)
    return float(optimize.brentq(excess, 0.0, above))


def one_run_p_value(epsilon: float, delta: float, n_canaries: int, n_guesses: int, n_right: int) -> float:
    """At most how likely so many right guesses are of one run of any mechanism with that epsilon and delta.

    Args:
        epsilon: of the mechanism.
        delta: of it.
        n_canaries: each in by the toss of a fair coin, alone.
        n_guesses: of them; the others are left open.
        n_right: of the guesses.

    Source: Steinke, Nasr, Jagielski 2023 (2305.08846), Theorem 5.2.

    >>> round(one_run_p_value(0.0, 0.0, n_canaries=9, n_guesses=3, n_right=3), 3)
    0.125
    """
    right = float(special.expit(epsilon))  # of one guess, by randomized response
    tail = float(stats.binom.sf(n_right - 1, n_guesses, right))
    if n_right == 0 or delta == 0:
        return min(tail, 1.0)
    # P[v - i <= W < v] / i for i = 1, ..., v; of a larger i the sum is the same and the share smaller.
    below = np.cumsum(stats.binom.pmf(np.arange(n_right - 1, -1, -1), n_guesses, right))
    worst = float((below / np.arange(1, n_right + 1)).max())
    return min(tail + 2 * n_canaries * delta * worst, 1.0)


def one_run_epsilon(delta: float, n_canaries: int, n_guesses: int, n_right: int, confidence: float) -> float:
    """The smallest epsilon that so many right guesses do not rule out: a lower bound, at that confidence.

    The p-value need not grow with epsilon, by its delta term, so the smallest is looked for from 0 on.

    >>> round(one_run_epsilon(0.0, 1_000, 100, 90, confidence=0.95), 2)
    1.63
    """
    error = 1 - confidence

    def p_value(epsilon: float) -> float:
        return one_run_p_value(epsilon, delta, n_canaries, n_guesses, n_right)

    if p_value(0.0) >= error:
        return 0.0
    first = next(e for e in np.arange(GRID, MOST_EPSILON + 2 * GRID, GRID) if p_value(e) >= error or e > MOST_EPSILON)
    return _crossing(p_value, error, (float(first) - GRID, float(first)))


def _crossing(p_value: Callable[[float], float], error: float, ends: tuple[float, float]) -> float:
    """The end of what is ruled out between a value that is and one that is not."""
    low, high = ends
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) < error else (low, middle)
    return low


def best_of_run(
    scores: np.ndarray, present: np.ndarray, delta: float, confidence: float, guessed: Sequence[float] = GUESSED
) -> float:
    """The largest of the bounds from one run's scores, each on another number of guesses; all hold at once.

    Where delta is large, the first canaries alone are looked at, the others being part of the table: how many follows
    from delta.

    Args:
        scores: of each canary, large where it seems to be in, shape (n_canaries,).
        present: whether it is, by the toss of a fair coin, shape (n_canaries,).
        delta: claimed.
        confidence: of the bound.
        guessed: shares of canaries to guess, fixed before the scores were seen.
    """
    n = min(len(scores), max(LEAST_CANARIES, round(ROOM / delta)))
    order, bounds = np.argsort(scores[:n], kind="stable"), []
    for share in guessed:
        each = max(round(n * share / 2), 1)
        n_right = int((~present[order[:each]]).sum() + present[order[-each:]].sum())
        bounds.append(one_run_epsilon(delta, n, 2 * each, n_right, 1 - (1 - confidence) / len(guessed)))
    return max(bounds)
