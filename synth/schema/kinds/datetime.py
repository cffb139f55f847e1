"""Points in time."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from synth.errors import nearest
from synth.schema.kinds.moments import MICROSECONDS, NANOSECONDS, TimeColumn


class DatetimeColumn(TimeColumn):
    """A point in time. `timezone` is `None` (wall clock), an IANA name, or "mixed" (each value has its own offset)."""

    per_position: ClassVar[int] = 1
    kind: Literal["datetime"] = "datetime"
    bounds: tuple[dt.datetime, dt.datetime] = Field(description="Wall clock without a zone; UTC when there is one.")
    format: str | None = Field(default=None, description="strptime format of the text form; left out: ISO 8601.")
    timezone: str | None = Field(
        default=None, description='An IANA name, or "mixed": each value has its own offset. Left out: wall clock.'
    )
    precision: Literal["us", "ms", "s", "min", "h", "day"] = Field(default="s", description="Of every value.")

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.datetime, dt.datetime]:
        zone = content.get("timezone")
        if "[ns" in str(content.get("dtype")):
            return NANOSECONDS
        room = dt.timedelta(days=0 if zone is None else 1)
        # Before that, pandas cannot turn times of a named zone into objects: it crashes.
        low = dt.datetime.min + room if zone in (None, "mixed") else NANOSECONDS[0]
        last = dt.datetime.max - room
        precision = str(content.get("precision"))
        micros = MICROSECONDS["s"] if precision == "day" else MICROSECONDS.get(precision, MICROSECONDS["s"])
        return low, last - (last - dt.datetime.min) % dt.timedelta(microseconds=micros)

    @field_validator("bounds")
    @classmethod
    def _naive(cls, bounds: tuple[dt.datetime, dt.datetime]) -> tuple[dt.datetime, dt.datetime]:
        low, high = (b.astimezone(dt.UTC).replace(tzinfo=None) if b.tzinfo else b for b in bounds)
        return low, high

    def rules(self) -> Iterator[tuple[object, str]]:
        if self.timezone not in (None, "mixed"):
            import zoneinfo

            known = zoneinfo.available_timezones()
            close = nearest(self.timezone, known) if self.timezone not in known else ""
            remedy = close if close.startswith("did") else 'write one such as "Europe/Paris", or "mixed"'
            yield self.timezone not in known, f"timezone={self.timezone!r} is not an IANA name; {remedy}"
        yield from super().rules()

    @property
    def noun(self) -> str:
        """A time to its precision."""
        return f"a time to the {self.precision}"

    @property
    def zone(self) -> str | None:
        return self.timezone

    @property
    def micros(self) -> int:
        """Of the precision."""
        return MICROSECONDS[self.precision]

    def instants(self, series: Any) -> np.ndarray:
        """As datetime64[us]: wall clock without a zone, UTC with one."""
        if self.timezone == "mixed":
            naive = [v.astimezone(dt.UTC).replace(tzinfo=None) if v is not None else None for v in series]
            return np.array(naive, dtype="datetime64[us]")
        return super().instants(series if self.timezone is None else series.dt.tz_convert("UTC").dt.tz_localize(None))

    def plain(self, value: Any) -> dt.datetime:
        moment: dt.datetime = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        import pandas as pd

        series = super().values(counts, missing)
        if self.timezone is None:
            return series
        if self.timezone != "mixed":
            return series.dt.tz_localize("UTC").dt.tz_convert(self.timezone)
        # DEVIATES: a synthetic value of a mixed column is written in UTC; offsets are not learned.
        stamps = series.to_numpy().tolist()
        return pd.Series([None if s is None else s.replace(tzinfo=dt.UTC) for s in stamps], dtype=object)
