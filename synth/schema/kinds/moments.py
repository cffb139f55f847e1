"""What dates and times have in common: the calendar, their text form, and microseconds since 1970."""

import datetime as dt
import re
from typing import Any, ClassVar

import numpy as np

from synth.schema.kinds.base import LineColumn

MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "day": 24 * 3600 * 10**6}
"""Of each precision."""
DAY = MICROSECONDS["day"]
EPOCH = dt.datetime(1970, 1, 1)
NANOSECONDS = (dt.datetime(1677, 9, 23), dt.datetime(2262, 4, 10))
"""Limits of times in nanoseconds, short of a day, which a zone may need."""
_DIRECTIVE = re.compile(r"%(-?)(.)", re.DOTALL)


def read_as(form: str) -> str:
    """The strptime format that reads a format: ``%-d``, a day without a leading zero, is read as ``%d`` is.

    >>> read_as("%-d.%-m.%Y")
    '%d.%m.%Y'
    """
    return _DIRECTIVE.sub(r"%\2", form)


def write_as(form: str, moment: dt.datetime) -> str:
    """The strftime format that writes one moment in a format.

    It holds the moment's year and all parts without a leading zero already, which systems write differently.

    >>> write_as("%-d.%m.%Y", dt.datetime(987, 3, 4))
    '4.%m.0987'
    """
    parts = {"Y": f"{moment.year:04d}"}
    bare = {"m": moment.month, "d": moment.day, "H": moment.hour, "I": moment.hour % 12 or 12}
    bare |= {"M": moment.minute, "S": moment.second}
    parts |= {f"-{letter}": str(part) for letter, part in bare.items()}
    return _DIRECTIVE.sub(lambda found: parts.get(found[1] + found[2], found[0]), form)


def can_be_parsed(form: str | None) -> str | None:
    """The format, refused where it names a directive twice."""
    try:
        dt.datetime.strptime("", read_as(form or ""))
    except re.error:
        raise ValueError(f"format={form!r} has a directive twice; name each once") from None
    except ValueError:
        pass  # nothing was there to be parsed
    return form


class TimeColumn(LineColumn):
    """A date or a time."""

    is_time: ClassVar[bool] = True
    per_position: ClassVar[int]  # microseconds between one position and the next

    @property
    def micros(self) -> int:
        """Microseconds between neighboring values."""
        raise NotImplementedError

    @property
    def unit(self) -> float:
        return float(self.micros // self.per_position)

    def instants(self, series: Any) -> np.ndarray:
        """A canonical column as datetime64[us]: wall clock without a zone, UTC with one."""
        return np.asarray(series.to_numpy(dtype="datetime64[us]"))

    def line(self, series: Any) -> np.ndarray:
        stamps = self.instants(series)
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / self.per_position)

    def position(self, value: Any) -> float:
        moment = dt.datetime.combine(value, dt.time()) if self.is_date else value
        return float((moment - EPOCH) // dt.timedelta(microseconds=self.per_position))

    def canonical(self, value: Any) -> Any:
        import pandas as pd

        if self.zone is None:
            return np.datetime64(value, "us")
        moment = value.replace(tzinfo=dt.UTC)
        return moment if self.zone == "mixed" else pd.Timestamp(moment).tz_convert(self.zone)

    def value_at(self, position: float) -> Any:
        return self.plain(EPOCH + dt.timedelta(microseconds=int(position) * self.per_position))

    def between(self, first: float, last: float) -> tuple[Any, Any]:
        low, high = self.bounds
        least, most = self.ends
        return low if first <= least else self.value_at(first), high if last >= most else self.value_at(last)

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        import pandas as pd

        low, high = (np.datetime64(bound, "us").astype(np.int64) for bound in self.bounds)
        stamps = np.clip(counts * self.micros, low, high).astype("datetime64[us]")
        for place, known in self.beside.values():
            stamps[counts == round(place / self.unit)] = np.datetime64(known, "us")
        stamps[missing] = np.datetime64("NaT", "us")
        return pd.Series(stamps)

    def show(self, count: int) -> str:
        return str(self.plain(EPOCH + dt.timedelta(microseconds=count * self.micros)))
