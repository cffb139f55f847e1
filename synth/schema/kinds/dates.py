"""Dates and points in time: the calendar, their text forms, and microseconds since 1970."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field, field_validator

from synth.errors import nearest
from synth.schema.kinds.base import ABOVE, BELOW, MOST_BESIDE, LineColumn
from synth.schema.kinds.number import BOUNDS

MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "day": 24 * 3600 * 10**6}
"""Of each precision."""
DAY = MICROSECONDS["day"]
EPOCH = dt.datetime(1970, 1, 1)
NANOSECONDS = (dt.datetime(1677, 9, 23), dt.datetime(2262, 4, 10))
"""Limits of times in nanoseconds, short of a day, which a zone may need."""
_DIRECTIVE = re.compile(r"%(-|:|\.?[1-9]?)(.)", re.DOTALL)
_BARE_NUMBER = re.compile(r"%-[a-zA-Z](%[a-zA-Z])+(\.0)?")
_DIGITS = re.compile(r"(%-?[YmdHMSy])+(\.0)?")


def read_as(form: str) -> str:
    """The strptime format that reads a format: ``%-d``, a day without a leading zero, is read as ``%d`` is.

    >>> read_as("%-d.%-m.%Y"), read_as("%H:%M:%S.%3f%:z"), read_as("%S%.f")
    ('%d.%m.%Y', '%H:%M:%S.%f%z', '%S')
    """
    return _DIRECTIVE.sub(lambda match: "" if match[1].startswith(".") else f"%{match[2]}", form)


def is_bare_number(form: str | None) -> bool:
    """True of digits without a separator of which the first are left out where they are zeros: ``%-y%m%d``."""
    return form is not None and _BARE_NUMBER.fullmatch(form) is not None


def filled(text: str, form: str) -> str:
    """The digits of a bare number with the zeros before it.

    >>> filled("50131", "%-y%m%d")
    '050131'
    """
    return text.zfill(len(write_as(form.replace("-", ""), EPOCH)))


def write_as(form: str, moment: dt.datetime) -> str:
    """The text of one moment in a format: `strftime`, also where systems write differently, and with fractions.

    ``%-d`` has no leading zero and ``%:z`` is an offset with a colon. ``%3f`` are three digits of a fraction, ``%.3f``
    the same with a point and nothing for whole seconds, and ``%.f`` as many as there are.

    >>> write_as("%-d.%m.%Y %S.%3f", dt.datetime(987, 3, 4, microsecond=50_000))
    '4.03.0987 00.050'
    """
    if is_bare_number(form):
        return write_as(form.replace("-", ""), moment).lstrip("0")
    return moment.strftime(_DIRECTIVE.sub(lambda match: _part(match[1], match[2], moment), form))


def _part(flag: str, letter: str, moment: dt.datetime) -> str:
    """A part of a text that systems write differently, or not at all."""
    if letter == "Y":
        return f"{moment.year:04d}"
    if letter == "f" and flag:
        digits = f"{moment.microsecond:06d}000"[: int(flag.removeprefix(".") or 9)]
        if flag == ".":
            digits = digits.rstrip("0")
        return digits if "." not in flag else f".{digits}" if moment.microsecond else ""
    if flag == "-" and letter in "mdHIMS":
        hour = moment.hour % 12 or 12
        bare = {"m": moment.month, "d": moment.day, "H": moment.hour, "I": hour, "M": moment.minute, "S": moment.second}
        return str(bare[letter])
    if flag == ":" and letter == "z":
        offset = moment.strftime("%z")
        return f"{offset[:3]}:{offset[3:]}"
    return f"%{flag}{letter}"


class TimeColumn(LineColumn):
    is_time: ClassVar[bool] = True
    below: tuple[dt.datetime | dt.date | str, ...] = Field(default=(), max_length=MOST_BESIDE, description=BELOW)
    above: tuple[dt.datetime | dt.date | str, ...] = Field(default=(), max_length=MOST_BESIDE, description=ABOVE)
    per_position: ClassVar[int]  # microseconds between one position and the next

    @field_validator("below", "above", mode="before")
    @classmethod
    def _moments(cls, listed: Any) -> Any:
        """Times that a file writes as texts are times, too."""
        return tuple(map(cls._moment, listed)) if isinstance(listed, list | tuple) else listed

    @classmethod
    def _moment(cls, value: Any) -> Any:
        try:
            moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            return value
        if isinstance(moment, dt.datetime):
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
            return moment.date() if cls.is_date else moment
        return moment if cls.is_date or not isinstance(moment, dt.date) else dt.datetime.combine(moment, dt.time())

    def rules(self) -> Iterator[tuple[object, str]]:
        try:
            dt.datetime.strptime("", read_as(self.format or ""))
        except re.error:
            yield True, f"format={self.format!r} has a directive twice; name each once"
        except ValueError:
            pass  # nothing was there to be parsed
        yield from super().rules()

    @property
    def reads_digits(self) -> bool:
        """True of a form without a separator, as of 20201105."""
        return _DIGITS.fullmatch(self.format or "") is not None

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
        try:
            return self.plain(EPOCH + dt.timedelta(microseconds=int(position) * self.per_position))
        except OverflowError:
            raise ValueError("there is no day before 0001-01-01 or after 9999-12-31; name a nearer one") from None

    def between(self, first: float, last: float) -> tuple[Any, Any]:
        low, high = self.bounds
        least, most = self.ends
        return low if first <= least else self.value_at(first), high if last >= most else self.value_at(last)

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        import pandas as pd

        low, high = (np.datetime64(bound, "us").astype(np.int64) for bound in self.bounds)
        stamps = np.clip(counts * self.micros, low, high).astype("datetime64[us]")
        for position, known in self.beside.values():
            stamps[counts == round(position / self.unit)] = np.datetime64(known, "us")
        stamps[missing] = np.datetime64("NaT", "us")
        return pd.Series(stamps)

    def show(self, count: int) -> str:
        return str(self.plain(EPOCH + dt.timedelta(microseconds=count * self.micros)))


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

    def rules(self) -> Iterator[tuple[object, str]]:
        yield from super().rules()
        ticks = self.ticks
        yield (
            ticks is not None and not len(ticks),
            f"bounds={list(map(str, self.bounds))} hold no first, or last, day of a {self.rhythm}; widen them",
        )

    @property
    def micros(self) -> int:
        return DAY

    @property
    def rhythm(self) -> Every | None:
        """What values are the first days of; a form without a day says so, too."""
        return self.every or (None if re.search("%-?[djcx]", self.format) else "month")

    @property
    def ticks(self) -> np.ndarray | None:
        """The positions of the days of its rhythm, ascending; `None`: any day may be a value."""
        if (every := self.rhythm) is None:
            return None
        low, high = (np.array(end, dtype="datetime64[D]") for end in self.bounds)
        days = day_of(np.arange(int(number_of(low, every)), int(number_of(high, every)) + 1), every)
        return np.asarray(days[days >= low].astype(np.int64), dtype=np.float64)

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        series, ticks = super().values(counts, missing), self.ticks
        if ticks is None or not len(ticks):
            return series
        days = series.to_numpy().astype("datetime64[D]").astype(np.int64)
        rounded = ticks[np.searchsorted((ticks[:-1] + ticks[1:]) / 2, days)]
        is_beside = missing | (days < self.span[0]) | (days > self.span[1])
        return series.where(is_beside, rounded.astype(np.int64).astype("datetime64[D]").astype("datetime64[us]"))

    def between(self, first: float, last: float) -> tuple[Any, Any]:
        low, high = super().between(first, last)
        if (ticks := self.ticks) is None:
            return low, high
        # Noise may leave none of these days.
        after = self.value_at(ticks[min(int(np.searchsorted(ticks, self.position(low))), len(ticks) - 1)])
        return min(low, after), max(high, after)

    def in_zone(self, series: Any) -> Any:
        return series.dt.tz_localize(
            self.timezone, ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )

    def plain(self, value: Any) -> dt.date:
        day: dt.date = value.date()
        return day


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
        return f"a time to the {self.precision}"

    @property
    def zone(self) -> str | None:
        return self.timezone

    @property
    def micros(self) -> int:
        return MICROSECONDS[self.precision]

    def instants(self, series: Any) -> np.ndarray:
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
