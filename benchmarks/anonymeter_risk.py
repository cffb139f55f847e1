"""anonymeter's risk, worked out from counts: Giomi et al. 2023, arXiv:2211.10459, as version 1.1.0 has it.

A rate is Wilson's: the middle of his interval, drawn to 1/2, with half its width as the error. The risk is the part of
what an attack on rows that were not used misses that it gains on training rows. Its error adds both, to first order;
value and interval are cut to [0, 1].
"""

from dataclasses import dataclass
from math import hypot, sqrt

Z = 1.959963984540054
"""Of a 95% interval."""


@dataclass(frozen=True)
class Risk:
    """A risk and the interval around it."""

    value: float
    low: float
    high: float


def risk(attack: tuple[float, float], control: tuple[float, float]) -> Risk:
    """The risk.

    Args:
        attack: successes against training rows, and attempts.
        control: successes against rows that were not used, which need not be whole, and attempts.

    >>> risk((300, 1000), (100, 1000))
    Risk(value=0.22174897801800716, low=0.18630327453385237, high=0.25719468150216196)
    """
    (hit, hit_error), (chance, chance_error) = _rate(*attack), _rate(*control)
    left = 1 - chance
    value = (hit - chance) / left
    error = hypot(hit_error / left, chance_error * (1 - hit) / left**2)
    return Risk(*(min(max(number, 0.0), 1.0) for number in (value, value - error, value + error)))


def _rate(n_success: float, n: float) -> tuple[float, float]:
    center = (n_success + Z**2 / 2) / (n + Z**2)
    return center, Z / (n + Z**2) * sqrt(n_success * (n - n_success) / n + Z**2 / 4)
