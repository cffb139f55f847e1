"""Estimates with their interval and landmarks, and failures of what gave none.

Nothing here computes. `evaluate.result` holds these for each synthetic table, and passes them on by name.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from synth.dp.statement import CLOSED
from synth.errors import BadInput

Direction = Literal["lower", "higher", "none"]
Reason = Literal["failed", "timed out", "skipped", "not applicable"]
UNASKED = "it was not asked for"  # The message of a measure that was left out by choice

NO_HOLDOUT = "no holdout was given"  # That of a measure which compares with rows that the generator did not see


class EvaluationError(BadInput):
    """An evaluation cannot be read, or its inputs do not belong together; nothing was measured."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """One number about one synthetic table, with what is needed to judge it.

    Attributes:
        measure: name in the registry of measures, such as ``"columns.tvd.excess"``.
        subject: the columns it is about; empty for the whole table.
        value: the number itself; finite.
        low: lower end of the 95% interval; `None` where the measure has no interval.
        high: upper end of the 95% interval; `None` where the measure has no interval.
        n: rows (or targets, or test rows) the number rests on.
        direction: which way is better; "none" for a number that only describes.
        reference: the same figure for a fresh real sample; `None` where it makes no sense.
        floor: the same figure for columns shuffled independently; `None` where it makes no sense.
        note: one sentence that a reader needs beside the number.
        detectable: of an attack, the smallest value that it would have told from chance in 80 of 100 repetitions at
            this sample size; `None` for all others.
    """

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    value: float
    n: Annotated[int, Field(ge=0)]
    direction: Direction
    subject: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    floor: float | None = None
    note: str = ""
    detectable: float | None = None

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


@dataclass(frozen=True)
class Failure:
    """A measure that did not give a number, and why. A rule about it is INCONCLUSIVE.

    Attributes:
        measure: name of the number, or of the measure that would have given several.
        reason: "failed", "timed out", "not applicable" where the real table has nothing that it is about, or
            "skipped" where it could not be measured or was not asked for.
        message: why, in a sentence that holds no value of a table.
        subject: the columns it is about; empty for the whole table, or for all columns.
    """

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    reason: Reason
    message: str
    subject: tuple[str, ...] = ()
