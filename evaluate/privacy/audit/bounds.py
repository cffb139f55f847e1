"""Lower bounds on epsilon from an attacker's error rates, and the size of the noise that an audit saw drawn.

The steps of a schedule are a family: the same steps, the noise of each times a factor. Every factor has a privacy curve
delta(epsilon), and two error rates must satisfy 1 - FNR <= e^epsilon FPR + delta(epsilon), and the same with the rates
exchanged, at every epsilon. The largest factor that allows the observed rates says how much noise there can have been
at most. No Gaussian limit is taken: few steps, or steps with little noise, are far from it. Curves lie on a coarse
grid, rounded so that delta is never too small: more rates are allowed, and the bound stays one.

Source: Kairouz, Oh, Viswanath 2015 (1311.0776) for the region of rates; Nasr et al. 2023 (2302.07956), section 4, for
families of mechanisms in audits; Doroshenko et al. 2022 (2207.04380) for the grid; Steinke, Nasr, Jagielski 2023
(2305.08846) for the bound of one run.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from synth.dp.accounting import epsilon_pld, loss_deviation
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import Schedule

LEAST_FACTOR, MOST_FACTOR = 1 / 4, 16.0
"""Less noise than a quarter is reported as a quarter, and beyond 16 times as much nothing is proved."""
FINENESS, INTERVALS = 20, (1e-5, 1e-2)
"""Grid points per standard deviation of a step's privacy loss, a fifth of what a claim is worked out with."""
EPSILONS = np.linspace(0.0, 14.0, 71)
"""The epsilons at which rates are held against the curve; more could only rule out more."""
N_HALVINGS = 7
GUESSED = 0.2, 0.05
"""Shares of the canaries that an attacker of one run guesses, half of them "in". Fixed before anything is seen: few and
sure where epsilon is large, many where it is small. The error is split."""
ROOM, LEAST_CANARIES = 0.02, 1_000
"""Canaries times delta at most, and canaries at least: the theorem charges every canary with a delta."""
MOST_EPSILON, GRID = 40.0, 0.05


def allows(event: SubsampledGaussianEvent, factor: float, rates: tuple[float, float]) -> bool:
    """True where steps with so many times the noise allow both error rates at once."""
    delta, least = _curve(_scaled(event, factor)), np.exp(EPSILONS)
    return all(bool(np.all(1 - other - least * rate <= delta)) for rate, other in (rates, rates[::-1]))


@lru_cache(maxsize=256)
def _curve(event: SubsampledGaussianEvent) -> np.ndarray:
    """Delta of all steps at `EPSILONS`, never too small."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = pld.from_gaussian_mechanism(
        event.noise_multiplier,
        sampling_prob=event.sampling_rate,
        value_discretization_interval=float(np.clip(loss_deviation(event) / FINENESS, *INTERVALS)),
        use_connect_dots=True,
    )
    return np.asarray(step.self_compose(event.count).get_delta_for_epsilon(EPSILONS.tolist()))


def largest_factor(event: SubsampledGaussianEvent, rates: tuple[float, float]) -> float:
    """The largest factor on the noise that allows both rates, or somewhat more; infinite where any seems to."""
    if sum(rates) >= 1 or allows(event, MOST_FACTOR, rates):
        return math.inf
    if not allows(event, LEAST_FACTOR, rates):
        return LEAST_FACTOR
    # The claim itself first: the answer that matters most is on which side of it the factor lies.
    low, high = (1.0, MOST_FACTOR) if allows(event, 1.0, rates) else (LEAST_FACTOR, 1.0)
    for _ in range(N_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allows(event, middle, rates) else (low, middle)
    return high


def epsilon_of_steps(schedule: Schedule, done: SubsampledGaussianEvent, factor: float) -> float:
    """Epsilon that a factor on the noise of steps proves: of the steps alone where there is as much as stated."""
    if factor >= 1:
        return 0.0 if math.isinf(factor) else epsilon_pld([_scaled(done, factor)], schedule.delta)
    return epsilon_of_less(schedule, done.what, factor)


def epsilon_of_less(schedule: Schedule, what: str, factor: float) -> float:
    """Epsilon of the schedule with less noise in one event: above the claim, it or the list of events is false."""
    factor = max(factor, LEAST_FACTOR)
    events = [_scaled(event, factor) if event.what == what else event for event in schedule.events]
    return epsilon_pld(events, schedule.delta)


def _scaled(event: Any, factor: float) -> Any:
    """The steps or counts with so many times their noise."""
    name = "noise_multiplier" if isinstance(event, SubsampledGaussianEvent) else "sigma"
    return replace(event, **{name: getattr(event, name) * factor})


def gaussian_mu(first: float, other: float) -> float:
    """The sensitivity over sigma that two error rates need at least of a Gaussian mechanism."""
    return float(special.ndtri(1 - first) - special.ndtri(other))


def free_epsilon(first: float, other: float, delta: float) -> float:
    """Epsilon that two error rates need at least of any mechanism: 1 - other <= e^epsilon one + delta."""
    surplus = 1 - other - delta
    return max(0.0, math.log(surplus / first)) if surplus > 0 else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian mechanism with sensitivity / sigma = mu, at delta; 0 where mu is not positive.

    Source: Balle & Wang 2018 (1805.06530), Theorem 8.

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

    >>> round(one_run_epsilon(0.0, 1_000, 100, 90, confidence=0.95), 2)
    1.63
    """

    def is_ruled_out(epsilon: float) -> bool:
        return one_run_p_value(epsilon, delta, n_canaries, n_guesses, n_right) < 1 - confidence

    if not is_ruled_out(0.0):
        return 0.0
    # The p-value need not grow with epsilon, by its delta term, so the smallest is looked for from 0 on.
    high = next(e for e in np.arange(GRID, MOST_EPSILON + 2 * GRID, GRID) if not is_ruled_out(e) or e > MOST_EPSILON)
    low = high - GRID
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if is_ruled_out(middle) else (low, middle)
    return float(low)


def best_of_run(scores: np.ndarray, present: np.ndarray, delta: float, confidence: float) -> float:
    """The largest of the bounds from one run's scores, each on another number of guesses; all hold at once. `scores`:
    of each canary, large where it seems to be in, shape (n_canaries,). `present`: whether it is, by the toss of a fair
    coin, shape (n_canaries,).
    """
    # Where delta is large, the first canaries alone are looked at, the others being part of the table.
    n = min(len(scores), max(LEAST_CANARIES, round(ROOM / delta)))
    order, bounds = np.argsort(scores[:n], kind="stable"), []
    for share in GUESSED:
        each = max(round(n * share / 2), 1)
        n_right = int((~present[order[:each]]).sum() + present[order[-each:]].sum())
        bounds.append(one_run_epsilon(delta, n, 2 * each, n_right, 1 - (1 - confidence) / len(GUESSED)))
    return max(bounds)


LATTICE = 3.0  # Whole numbers with a larger standard deviation have the moments of real ones, to the last digit


@dataclass
class Residuals:
    """Sums over drawn noise: its mean square beside the stated one."""

    observed: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    n: int = 0

    def add(self, residuals: np.ndarray, sigma: float, *, whole: bool = True) -> None:
        """Count the noise of one release, of whole numbers or of real ones."""
        second, fourth = discrete_moments(sigma) if whole else (sigma**2, 3 * sigma**4)
        self.observed += float(np.sum((residuals / sigma) ** 2))
        self.expected += len(residuals) * second / sigma**2
        self.variance += len(residuals) * (fourth - second**2) / sigma**4
        self.n += len(residuals)

    def _least(self, confidence: float) -> float:
        return self.expected - float(stats.norm.isf(1 - confidence)) * math.sqrt(self.variance)

    def most(self, confidence: float) -> float:
        """At most so many times the stated noise is there; infinite where too little was drawn to say."""
        least = self._least(confidence)
        return math.sqrt(self.observed / least) if least > 0 else math.inf

    def words(self, confidence: float) -> str:
        return (
            f"{self.n:,} numbers published less their exact ones: at {confidence:.4%} confidence at most "
            f"{self.most(confidence):.3g} times the noise that was asked for"
        )

    def power(self, confidence: float) -> float:
        """The probability that `most` shows half the noise."""
        spread, least = math.sqrt(self.variance), self._least(confidence)
        return float(special.ndtr((4 * least - self.expected) / spread)) if spread > 0 and least > 0 else 0.0


def discrete_moments(sigma: float) -> tuple[float, float]:
    """The second and the fourth moment of discrete Gaussian noise.

    >>> [round(moment, 6) for moment in discrete_moments(10.0)]
    [100.0, 30000.0]
    """
    if sigma >= LATTICE:
        return sigma**2, 3 * sigma**4
    points = np.arange(-math.ceil(40 * sigma) - 1, math.ceil(40 * sigma) + 2, dtype=np.float64)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    mass /= mass.sum()
    return float(mass @ points**2), float(mass @ points**4)
