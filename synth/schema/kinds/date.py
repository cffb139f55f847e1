"""Days."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field

from synth.schema.kinds.moments import DAY, NANOSECONDS, TimeColumn
from synth.schema.kinds.number import BOUNDS

Every = Literal["month", "month end", "quarter", "quarter end", "year", "year end"]
MONTHS = {"month": 1, "quarter": 3, "year": 12}
LEAST_DAYS = 6  # different days from which on it is no chance that all are first, or last, ones


def number_of(days: np.ndarray, every: Every) -> np.ndarray:
    """The number of the month, quarter or year whose first, or last, day is the latest by then; shape (n,)."""
    months = (days + np.timedelta64(int(every.endswith("end")), "D")).astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // MONTHS[every.split()[0]])


def day_of(numbers: np.ndarray, every: Every) -> np.ndarray:
    """That day: datetime64[D], shape (n,)."""
    days = (numbers * MONTHS[every.split()[0]]).astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(days - np.timedelta64(int(every.endswith("end")), "D"))


def every_of(days: np.ndarray) -> Every | None:
    """What all of these days are the first, or the last, of: the longest. `days`: datetime64[D]; *Sensitive*."""
    days = np.unique(days)
    regular = [each for each in get_args(Every) if (day_of(number_of(days, each), each) == days).all()]
    return regular[-1] if regular and len(days) >= LEAST_DAYS else None


class DateColumn(TimeColumn):
    """A day without a time."""

    is_date: ClassVar[bool] = True
    per_position: ClassVar[int] = DAY
    noun: ClassVar[str] = "a day"
    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date] = Field(description=BOUNDS)
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    timezone: str | None = Field(default=None, description="IANA name of the zone whose midnights stand for the days.")
    every: Every | None = Field(default=None, description="Every value is the first day, or the last, of such a time.")
    bins: tuple[dt.date, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    @property
    def micros(self) -> int:
        return DAY

    @property
    def rhythm(self) -> Every | None:
        """What values are the first days of; a form without a day says so, too."""
        return self.every or (None if re.search("%-?d", self.format) else "month")

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        series = super().values(counts, missing)
        if (every := self.rhythm) is None:
            return series
        days = series.to_numpy().astype("datetime64[D]")
        low, high = (np.array(end, dtype="datetime64[D]") for end in self.bounds)
        numbers = number_of(days, every)
        numbers += days - day_of(numbers, every) > day_of(numbers + 1, every) - days
        first = number_of(low, every)
        numbers = np.clip(numbers, first + (day_of(first, every) < low), number_of(high, every))
        is_beside = missing | (days < low) | (days > high)
        return series.where(is_beside, day_of(numbers, every).astype("datetime64[us]"))

    def in_zone(self, series: Any) -> Any:
        """Days as midnights of the zone that stands for them."""
        return series.dt.tz_localize(
            self.timezone, ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )

    def plain(self, value: Any) -> dt.date:
        day: dt.date = value.date()
        return day
