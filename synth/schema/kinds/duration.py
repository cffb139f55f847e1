"""Durations."""

from typing import Any, ClassVar, Literal

import numpy as np

from synth.schema.kinds.spans import SpanColumn


class DurationColumn(SpanColumn):
    """How long something took: 26:03:45, 3 h 20 min, PT1H, or a timedelta."""

    _noun: ClassVar[str] = "a duration"
    kind: Literal["duration"] = "duration"

    def typed(self, series: Any) -> Any:
        if not str(self.dtype).startswith(("timedelta64", "duration", "object")):
            return None
        spans = (series.to_numpy(dtype=np.int64, na_value=0) * self.micros).astype("timedelta64[us]")
        spans[series.isna().to_numpy()] = np.timedelta64("NaT", "us")
        return spans
