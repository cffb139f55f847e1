"""A differentially private number about a table, as it was published: the noisy value with its exact interval."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evaluate.estimate import Direction, Estimate
from evaluate.record import Record

N_ROWS, COLUMN, COLUMN_MEAN = "rows.released", "columns.tvd.released", "columns.tvd.released.mean"
PAIR_MEAN, RIGHT = "pairs.tvd.released.mean", "utility.accuracy.released"
MEASURES: Mapping[str, Direction] = {
    N_ROWS: "none", COLUMN: "lower", COLUMN_MEAN: "lower", PAIR_MEAN: "lower", RIGHT: "higher",
}  # fmt: skip
"""Every number that may be published, and which way is better."""


@dataclass(frozen=True)
class Released(Record):
    """One published number."""

    measure: str
    """Its name, one of `MEASURES`."""
    value: float
    """The number, held within its range."""
    low: float
    """Lower end of the 95% interval for the noise."""
    high: float
    """Upper end."""
    drawn: tuple[int, ...]
    """The noisy whole numbers that it is made of, as they were drawn: they may be negative."""
    counts: str
    """What the drawn numbers count, in words."""
    what: str
    """The event of the statement that paid for it."""
    sigma: float
    """Of the noise in each drawn number."""
    sensitivity: int
    """How far one unit moves them together, in L2."""
    epsilon: float
    """Of this number alone, at the delta of the statement; the numbers compose to less than the sum, and a mean is made
    of draws that other numbers show, too.
    """
    subject: tuple[str, ...] = ()
    """The columns it is about; empty for the whole table."""
    denominator: int | None = None
    """What they are divided by; `None` where they are not. Noisy or declared, never an exact count."""
    expected: float | None = None
    """What two tables of these sizes show by chance alone, though both are drawn from the synthetic one's distribution;
    `None` where that makes no sense.
    """
    mechanism: Literal["discrete Gaussian"] = "discrete Gaussian"
    """How it was released."""

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
