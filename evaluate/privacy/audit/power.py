"""The size of the noise that an audit saw drawn, and the power of that to show less than is stated."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

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
