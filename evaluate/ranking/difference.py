"""The difference of one figure between two synthetic tables, with its error: what a comparison of two rests on."""

from dataclasses import dataclass

import numpy as np

from evaluate.intervals import LEVEL


@dataclass(frozen=True)
class Difference:
    """A difference and how far chance moves it.

    Attributes:
        value: first less second.
        error: its standard error, at least 0.
        freedom: degrees of freedom of the error, above 0.
    """

    value: float
    error: float
    freedom: float

    @classmethod
    def of(cls, value: float, variance: float, freedom: float) -> "Difference":
        """A difference by the variance of its error."""
        return cls(value, float(np.sqrt(max(variance, 0.0))), freedom)

    @property
    def p(self) -> float:
        """How often chance alone gives a difference as large, by Student's t; 1 for none at all.

        >>> round(Difference(2.131, 1.0, 15).p, 3)
        0.05
        """
        from scipy import special

        if self.value == 0.0:
            return 1.0
        if self.error == 0.0:
            return 0.0
        return float(2 * special.stdtr(self.freedom, -abs(self.value) / self.error))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of this difference alone, whatever others are looked at."""
        from scipy import special

        half = float(special.stdtrit(self.freedom, 1 - (1 - LEVEL) / 2)) * self.error
        return self.value - half, self.value + half
