"""A differentially private number about a table, as it was published: the noisy value with its exact interval."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from evaluate.estimate import Direction, Estimate
from synth.dp.statement import CLOSED

N_ROWS, COLUMN, COLUMN_MEAN = "rows.released", "columns.tvd.released", "columns.tvd.released.mean"
PAIR_MEAN, RIGHT = "pairs.tvd.released.mean", "utility.accuracy.released"
MEASURES: Mapping[str, Direction] = {
    N_ROWS: "none", COLUMN: "lower", COLUMN_MEAN: "lower", PAIR_MEAN: "lower", RIGHT: "higher",
}  # fmt: skip
"""Every number that may be published, and which way is better."""


@dataclass(frozen=True)
class Released:
    """One published number, its ends those of the 95% interval for the noise alone."""

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    value: float  # within its range
    low: float
    high: float
    drawn: tuple[int, ...]  # the noisy whole numbers that it is made of, as they were drawn: they may be negative
    counts: str  # what these count
    what: str  # the event of the statement that paid for it
    sigma: float  # of the noise in each drawn number
    sensitivity: int  # how far one unit moves them together, in L2
    epsilon: float
    """Of this number alone, at the delta of the statement. Numbers compose to less than the sum: a mean is made of
    draws that other numbers show, too."""
    subject: tuple[str, ...] = ()
    denominator: int | None = None  # of the drawn numbers: noisy or declared, never an exact count
    expected: float | None = None  # what two tables of these sizes show by chance alone
    mechanism: Literal["discrete Gaussian"] = "discrete Gaussian"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES or not -math.inf < self.low <= self.value <= self.high < math.inf:
            raise ValueError(f"measure={self.measure!r} is no published number with its interval; release it anew")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the scale of the number, with the divisor as it was released."""
        if self.measure == RIGHT:
            return self.sigma * math.hypot(self.value, 1 - self.value) / (self.denominator or 1)
        return self.sigma / math.sqrt(len(self.drawn)) / (self.denominator or 1)

    @property
    def estimate(self) -> Estimate:
        """The number as an evaluation holds it, so that a rule may rest on it."""
        return Estimate(
            self.measure, self.value, self.denominator or 0, MEASURES[self.measure], subject=self.subject,
            low=self.low, high=self.high, reference=self.expected,
            note="Published under a budget of its own; the interval is that of its noise.",
        )  # fmt: skip
