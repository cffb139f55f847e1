"""Estimates with their interval and landmarks, and failures of what gave none."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from synth.dp.statement import CLOSED
from synth.errors import BadInput

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Record:
    """Read back as it was written: every key, no other, and every value of its type."""

    __pydantic_config__: ClassVar = CLOSED


Direction = Literal["lower", "higher", "none"]
Reason = Literal["failed", "timed out", "skipped", "not applicable"]
UNASKED = "it was not asked for"  # The message of a measure that was left out by choice

NO_HOLDOUT = "no holdout was given"  # That of a measure which compares with rows that the generator did not see


class EvaluationError(BadInput):
    """An evaluation cannot be read, or its inputs do not belong together; nothing was measured."""


@dataclass(frozen=True, repr=False)
class Estimate(Record):
    """One number about one synthetic table, with what is needed to judge it."""

    measure: str
    """Name in the registry of measures, such as ``"columns.tvd.excess"``."""
    value: float
    """The number itself; finite."""
    n: Count
    """Rows (or targets, or test rows) the number rests on."""
    direction: Direction
    """Which way is better; "none" for a number that only describes."""
    subject: tuple[str, ...] = ()
    """The columns it is about; empty for the whole table."""
    low: float | None = None
    """Lower end of the 95% interval; `None` where the measure has no interval."""
    high: float | None = None
    """Upper end of the 95% interval; `None` where the measure has no interval."""
    reference: float | None = None
    """The same figure for a fresh real sample; `None` where it makes no sense."""
    floor: float | None = None
    """The same figure for columns shuffled independently; `None` where it makes no sense."""
    note: str = ""
    """One sentence that a reader needs beside the number."""
    detectable: float | None = None
    """Of an attack, the smallest value that it would have told from chance in 80 of 100 repetitions at this sample
    size; `None` for all others.
    """

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "reference", "floor", "detectable"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"an estimate is finite: measure={self.measure!r} has {name}={number}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"an interval has two ends: measure={self.measure!r}")

    def __repr__(self) -> str:
        """The number in one line, with its interval and landmarks."""
        subject = f" of {', '.join(map(repr, self.subject))}" if self.subject else ""
        interval = "" if self.low is None else f" ({self.low:.4g} to {self.high:.4g})"
        marks = (("fresh real", self.reference), ("shuffled", self.floor))
        landmarks = "".join(f", {name} {value:.4g}" for name, value in marks if value is not None)
        return f"<Estimate {self.measure}{subject}: {self.value:.4g}{interval}, n {self.n:,}{landmarks}>"

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the 95% interval.

        Raises:
            ValueError: the estimate has no interval.
        """
        if self.low is None or self.high is None:
            raise ValueError(f"no interval was measured: measure={self.measure!r}")
        return self.low, self.high


class NotMeasuredError(Exception):
    """A measure can say nothing of these tables: the message is why none of its numbers is there."""

    def __init__(self, message: str, reason: Reason = "skipped") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Failure(Record):
    """A measure that did not give a number, and why. A rule about it is INCONCLUSIVE."""

    measure: str
    """Name of the number, or of the measure that would have given several."""
    reason: Reason
    """"failed", "timed out", "not applicable" where the real table has nothing that it is about, or "skipped" where it
    could not be measured or was not asked for.
    """
    message: str
    """Why, in a sentence that holds no value of a table."""
    subject: tuple[str, ...] = ()
    """The columns it is about; empty for the whole table, or for all columns."""
