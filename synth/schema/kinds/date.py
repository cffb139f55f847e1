"""Days."""

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from synth.schema.kinds.base import ordered
from synth.schema.kinds.moments import DAY, EPOCH, NANOSECONDS, TimeColumn, can_be_parsed
from synth.schema.kinds.number import BOUNDS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


class DateColumn(TimeColumn):
    """A day without a time."""

    is_date: ClassVar[bool] = True
    noun: ClassVar[str] = "a day"
    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date] = Field(description=BOUNDS)
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    bins: tuple[dt.date, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        """Every day that Python knows, or that nanoseconds reach where the dtype counts them."""
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    _check = field_validator("bounds")(ordered)
    _parsed = field_validator("format")(can_be_parsed)

    @property
    def unit(self) -> float:
        """Positions are days."""
        return 1.0

    @property
    def micros(self) -> int:
        """Of a day."""
        return DAY

    def positions(self, series: "pd.Series") -> "np.ndarray":
        """Days since 1970."""
        import numpy as np

        stamps = self.instants(series)
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / DAY)

    def position(self, value: Any) -> float:
        """Days since 1970."""
        return float((dt.datetime.combine(value, dt.time()) - EPOCH).days)

    def value_at(self, position: float) -> dt.date:
        """The day."""
        return (EPOCH + dt.timedelta(days=int(position))).date()

    def plain(self, value: Any) -> dt.date:
        """A date of Python."""
        day: dt.date = value.date()
        return day

    def show(self, count: int) -> str:
        """In ISO 8601."""
        return self.value_at(count).isoformat()
