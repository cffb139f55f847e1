"""Days."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from synth.schema.kinds.moments import DAY, NANOSECONDS, TimeColumn
from synth.schema.kinds.number import BOUNDS


class DateColumn(TimeColumn):
    """A day without a time."""

    is_date: ClassVar[bool] = True
    per_position: ClassVar[int] = DAY
    noun: ClassVar[str] = "a day"
    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date] = Field(description=BOUNDS)
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    timezone: str | None = Field(default=None, description="IANA name of the zone whose midnights stand for the days.")
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
    def is_monthly(self) -> bool:
        """True of a form without a day: each value is the first of a month."""
        return re.search("%-?d", self.format) is None

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        series = super().values(counts, missing)
        if not self.is_monthly:
            return series
        days = series.to_numpy().astype("datetime64[D]")  # of a form without a day: the nearest first of a month
        months = days.astype("datetime64[M]")
        months = months + ((days - months) > np.timedelta64(15, "D"))
        return series.where(missing, months.astype("datetime64[us]"))

    def in_zone(self, series: Any) -> Any:
        """Days as midnights of the zone that stands for them."""
        return series.dt.tz_localize(
            self.timezone, ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )

    def plain(self, value: Any) -> dt.date:
        day: dt.date = value.date()
        return day
