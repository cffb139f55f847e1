"""Days."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from synth.schema.kinds.base import ordered
from synth.schema.kinds.moments import DAY, NANOSECONDS, TimeColumn, can_be_parsed
from synth.schema.kinds.number import BOUNDS


class DateColumn(TimeColumn):
    """A day without a time."""

    is_date: ClassVar[bool] = True
    per_position: ClassVar[int] = DAY
    noun: ClassVar[str] = "a day"
    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date] = Field(description=BOUNDS)
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    bins: tuple[dt.date, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    _check = field_validator("bounds")(ordered)
    _parsed = field_validator("format")(can_be_parsed)

    @property
    def micros(self) -> int:
        return DAY

    def plain(self, value: Any) -> dt.date:
        day: dt.date = value.date()
        return day
