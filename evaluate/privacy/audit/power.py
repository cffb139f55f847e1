"""The power of an audit: with which probability it shows noise that is some share of what is stated.

Every number follows from the known distribution of the audit's own test statistic, at the number of trials that it
made. Nothing is fitted, and no real row is read.

- Counts: under Gaussian noise with f times the stated sigma an attacker errs with Phi(-mu / 2f), where mu is the
  canary's size over the noise, over all releases. Errors are binomial, and the audit's answer is a function of them.
  Whole numbers with little noise are far from Gaussian, and then the error rate is simulated.
- Steps of DP-SGD: a score is the noise's part and a binomial number of samples that the canary was in.
- The scale of noise: the mean square of what was drawn.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from evaluate.audit_result import Power
from evaluate.privacy.audit.bounds import gaussian_epsilon, rules_out
from synth.dp.events import SubsampledGaussianEvent

USUAL = 0.9  # Share of audits that have to show a fault for it to count as one that would be shown
N_SIMULATED, N_DRAWN = 2_000, 200_000
LATTICE = 3.0  # Noise with a smaller standard deviation than this is simulated as the whole numbers that it is
_SEED = 20_240


def power_of(shows: Callable[[float], float]) -> Power:
    """The power of an audit that shows a share of the noise with a probability that falls with the share.

    >>> power_of(lambda share: 1.0 - share)
    Power(half=0.5, share=0.1)
    """
    shown, missed = -1, 100
    while missed - shown > 1:
        middle = (shown + missed) // 2
        shown, missed = (middle, missed) if shows(middle / 100) >= USUAL - 1e-12 else (shown, middle)
    return Power(round(shows(0.5), 4), None if shown < 0 else shown / 100)


@dataclass(frozen=True)
class Signal:
    canary: np.ndarray  # what it adds to the exact count of each, shape (n_releases,)
    sigma: np.ndarray  # of each one's noise as stated, shape (n_releases,)

    @property
    def mu(self) -> float:
        """The canary's size over the noise, over all releases: the mean of the best test in standard deviations."""
        return float(np.sqrt(np.sum((self.canary / self.sigma) ** 2)))

    def error_rate(self, share: float) -> float:
        if share == 0 or len(self.sigma) == 0:
            return 0.0 if len(self.sigma) else 0.5
        if share * self.sigma.min() >= LATTICE:
            return float(special.ndtr(-self.mu / (2 * share)))
        rng, total = np.random.default_rng(_SEED), np.zeros(N_DRAWN)
        kinds, counts = np.unique(np.column_stack([self.canary, self.sigma]), axis=0, return_counts=True)
        for (canary, sigma), count in zip(kinds, counts, strict=True):
            total += canary / sigma**2 * _sums(share * sigma, int(count), rng)
        surplus = total - self.mu**2 / 2
        return float(np.mean(surplus > 1e-9) + np.mean(np.abs(surplus) <= 1e-9) / 2)


def _sums(sigma: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of so many whole numbers with discrete Gaussian noise, shape (N_DRAWN,)."""
    reach = math.ceil(10 * sigma) + 1
    points = np.arange(-reach, reach + 1)
    weights = np.exp(-(points.astype(np.float64) ** 2) / (2 * sigma**2))
    of_one = of_all = weights / weights.sum()
    for _ in range(count - 1):
        of_all = np.convolve(of_all, of_one)
    return np.asarray(rng.choice(np.arange(len(of_all)) - count * reach, size=N_DRAWN, p=of_all / of_all.sum()))


def power_of_counts(signal: Signal, n_each: int, confidence: float, least_mu: float) -> Power:
    errors = np.arange(n_each + 1)
    # Of a rate's upper end, how much mu it proves: -infinity where all were errors.
    proved = -special.ndtri(upper_ends(errors, n_each, confidence))
    # For each number of errors of one kind, how many of the other still show the fault; they fall as these grow.
    most = np.searchsorted(-proved, proved - least_mu) - 1

    def shows(share: float) -> float:
        rate = signal.error_rate(share)
        return float(stats.binom.pmf(errors, n_each, rate) @ stats.binom.cdf(most, n_each, rate))

    return power_of(shows)


def mu_of_claim(epsilon: float, delta: float) -> float:
    """The sensitivity over sigma at which a Gaussian mechanism has this epsilon at delta.

    >>> round(mu_of_claim(gaussian_epsilon(0.5, 1e-6), 1e-6), 6)
    0.5
    """
    high = 1.0
    while gaussian_epsilon(high, delta) < epsilon:
        high *= 2
    return float(optimize.brentq(lambda mu: gaussian_epsilon(mu, delta) - epsilon, 0.0, high))


def upper_ends(errors: np.ndarray, n: int, confidence: float) -> np.ndarray:
    """Clopper-Pearson upper ends of rates, each exceeded with half of what the confidence leaves; shape of `errors`."""
    inside = np.minimum(errors, n - 1)
    ends = stats.beta.ppf((1 + confidence) / 2, inside + 1, n - inside)
    return np.where(errors >= n, 1.0, ends)


def power_of_steps(
    event: SubsampledGaussianEvent, sizes: Sequence[float], n_each: tuple[int, int], confidence: float
) -> Power:
    n_steps, rate, rng = len(sizes), event.sampling_rate, np.random.default_rng(_SEED)
    size = float(np.sqrt(np.mean(np.square(sizes)))) if n_steps else 0.0
    times = np.arange(n_steps + 1)
    chances = stats.binom.pmf(times, n_steps, rate)

    def shows(share: float) -> float:
        spread = max(share, 1e-9) * math.sqrt(max(n_steps, 1))
        wrong_in = float(special.ndtr(-size * n_steps * rate / 2 / spread))
        wrong_out = float(chances @ special.ndtr(-size * (times - n_steps * rate / 2) / spread))
        drawn = [rng.binomial(n, p, N_SIMULATED) for n, p in zip(n_each, (wrong_in, wrong_out), strict=True)]
        ends = [upper_ends(errors, n, confidence) for errors, n in zip(drawn, n_each, strict=True)]
        return float(np.mean(rules_out(event, ends[0], ends[1])))

    return power_of(shows)


@dataclass
class Residuals:
    """Sums over drawn noise: its mean square beside the stated one."""

    observed: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    n: int = 0

    def add(self, residuals: np.ndarray, sigma: float) -> None:
        """Count the noise of one release."""
        second, fourth = discrete_moments(sigma)
        self.observed += float(np.sum((residuals / sigma) ** 2))
        self.expected += len(residuals) * second / sigma**2
        self.variance += len(residuals) * (fourth - second**2) / sigma**4
        self.n += len(residuals)

    def add_real(self, residuals: np.ndarray, sigma: float) -> None:
        """Count the noise of one release of real numbers."""
        self.observed += float(np.sum((residuals / sigma) ** 2))
        self.expected += len(residuals)
        self.variance += 2 * len(residuals)
        self.n += len(residuals)

    def most(self, confidence: float) -> float:
        """At most so many times the stated noise is there; infinite where too little was drawn to say."""
        least = self.expected - float(stats.norm.isf(1 - confidence)) * math.sqrt(self.variance)
        return math.sqrt(self.observed / least) if least > 0 else math.inf

    def power(self, confidence: float) -> Power:
        """The power of `most` to show less noise than is stated."""
        spread = math.sqrt(self.variance)
        least = self.expected - float(stats.norm.isf(1 - confidence)) * spread

        def shows(share: float) -> float:
            if share == 0 or spread == 0:
                return float(least > 0 and share == 0)
            return float(special.ndtr((least / share**2 - self.expected) / spread))

        return power_of(shows)


def discrete_moments(sigma: float) -> tuple[float, float]:
    """The second and the fourth moment of discrete Gaussian noise.

    >>> [round(moment, 6) for moment in discrete_moments(10.0)]
    [100.0, 30000.0]
    """
    if sigma >= LATTICE:  # alike to the last digit
        return sigma**2, 3 * sigma**4
    points = np.arange(-math.ceil(40 * sigma) - 1, math.ceil(40 * sigma) + 2, dtype=np.float64)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    mass /= mass.sum()
    return float(mass @ points**2), float(mass @ points**4)
