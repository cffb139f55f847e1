"""What was read from the real table and how, as frozen records; what it costs is `accounting`'s matter."""

import math
from dataclasses import dataclass

from synth.dp.statement import EventRecord


@dataclass(frozen=True)
class GaussianEvent:
    """Integer counts released with discrete Gaussian noise.

    Attributes:
        what: what was read, in words.
        sigma: standard deviation of the noise in every cell.
        sensitivity: L2 distance that one unit can move the counts of one release; whole.
        count: how many releases.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4.
    """

    what: str
    sigma: float
    sensitivity: int = 1
    count: int = 1

    @property
    def noise_multiplier(self) -> float:
        """Noise in units of the sensitivity."""
        return self.sigma / self.sensitivity

    @property
    def rho(self) -> float:
        """The zCDP cost of all releases.

        >>> GaussianEvent("ages", sigma=10.0, count=2).rho
        0.01
        """
        return self.count / (2 * self.noise_multiplier**2)

    def record(self) -> EventRecord:
        """The line of the books."""
        noise = {"sigma": self.sigma, "sensitivity": float(self.sensitivity)}
        return EventRecord(self.what, "discrete Gaussian", noise, self.count, self.rho)


@dataclass(frozen=True)
class SelectionEvent:
    """Choices by the exponential mechanism (Gumbel noisy max).

    Attributes:
        what: what was chosen, in words.
        epsilon: the bounded range of one choice, which is also its pure epsilon.
        count: how many choices.

    Source: Dong, Durfee, Rogers 2020 (bounded range); Cesar, Rogers 2021 (its zCDP, epsilon^2 / 8).
    """

    what: str
    epsilon: float
    count: int = 1

    @property
    def rho(self) -> float:
        """The zCDP cost of all choices.

        >>> SelectionEvent("pairs", epsilon=2.0, count=2).rho
        1.0
        """
        return self.count * self.epsilon**2 / 8

    @classmethod
    def of_rho(cls, what: str, rho: float, count: int) -> "SelectionEvent":
        """The event whose `count` choices cost `rho` in total."""
        return cls(what, math.sqrt(8 * rho / count), count)

    def record(self) -> EventRecord:
        """The line of the books."""
        return EventRecord(self.what, "exponential (Gumbel noisy max)", {"epsilon": self.epsilon}, self.count, self.rho)


Event = GaussianEvent | SelectionEvent


def gaussian_of_rho(what: str, rho: float, *, count: int, sensitivity: int) -> GaussianEvent:
    """The event whose `count` releases cost `rho` in total.

    >>> gaussian_of_rho("ages", 0.01, count=2, sensitivity=1).sigma
    10.0
    """
    return GaussianEvent(what, sensitivity * math.sqrt(count / (2 * rho)), sensitivity, count)
