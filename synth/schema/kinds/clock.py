"""Times of day."""

import datetime as dt
from typing import Any, ClassVar, Literal

from synth.schema.kinds.spans import SpanColumn


class ClockColumn(SpanColumn):
    """A time of day, counted from midnight: 07:45, 7:45 PM, or 745 as a number."""

    _noun: ClassVar[str] = "a time of day"
    kind: Literal["clock"] = "clock"

    def typed(self, series: Any) -> Any:
        if self.dtype != "object":
            return None
        start = dt.datetime.min
        return [
            None if m else (start + dt.timedelta(microseconds=int(v) * self.micros)).time()
            for v, m in zip(series, series.isna(), strict=True)
        ]
