"""Columns of dates and times."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from synth.columns.base import MeasurableColumn, ordered
from synth.errors import nearest

NANOSECONDS = (dt.datetime(1677, 9, 23), dt.datetime(2262, 4, 10))
"""What times counted in nanoseconds reach, short of a day, which a zone may need."""
_STEPS = {
    "us": dt.timedelta(microseconds=1), "ms": dt.timedelta(milliseconds=1), "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1), "h": dt.timedelta(hours=1),
}  # fmt: skip


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


def _can_be_parsed(form: str | None) -> str | None:
    try:
        dt.datetime.strptime("", read_as(form or ""))
    except re.error:
        raise ValueError(f"format={form!r} has a directive twice; name each once") from None
    except ValueError:
        pass  # nothing was there to be parsed
    return form


class DateColumn(MeasurableColumn):
    """A day without a time."""

    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date]
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    bins: tuple[dt.date, ...] = ()

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        """Every day that Python knows, or that nanoseconds reach where the dtype counts them."""
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    _check = field_validator("bounds")(ordered)
    _parsed = field_validator("format")(_can_be_parsed)


class DatetimeColumn(MeasurableColumn):
    """A point in time. `timezone` is none (wall clock), an IANA name, or "mixed" (each value has its own offset)."""

    kind: Literal["datetime"] = "datetime"
    bounds: tuple[dt.datetime, dt.datetime] = Field(description="Wall clock without a zone; UTC when there is one.")
    format: str | None = Field(default=None, description="strptime format of the text form; none: ISO 8601.")
    timezone: str | None = None
    precision: Literal["us", "ms", "s", "min", "h"] = "s"

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.datetime, dt.datetime]:
        """Every time that Python knows, or that nanoseconds reach; short of both ends of the calendar in a zone."""
        zone = content.get("timezone")
        if "[ns" in str(content.get("dtype")):
            return NANOSECONDS
        room = dt.timedelta(days=0 if zone is None else 1)
        # Before that, pandas cannot turn times of a named zone into objects: it crashes.
        low = dt.datetime.min + room if zone in (None, "mixed") else NANOSECONDS[0]
        last = dt.datetime.max - room
        step = _STEPS.get(str(content.get("precision")), _STEPS["s"])
        return low, last - (last - dt.datetime.min) % step

    _parsed = field_validator("format")(_can_be_parsed)

    @field_validator("bounds")
    @classmethod
    def _naive(cls, bounds: tuple[dt.datetime, dt.datetime]) -> tuple[dt.datetime, dt.datetime]:
        low, high = (b.astimezone(dt.UTC).replace(tzinfo=None) if b.tzinfo else b for b in bounds)
        checked: tuple[dt.datetime, dt.datetime] = ordered((low, high))
        return checked

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, timezone: str | None) -> str | None:
        if timezone not in (None, "mixed"):
            import zoneinfo

            known = zoneinfo.available_timezones()
            if timezone not in known:
                close = nearest(timezone, known)
                remedy = close if close.startswith("did") else 'write one such as "Europe/Paris", or "mixed"'
                raise ValueError(f"timezone={timezone!r} is not an IANA name; {remedy}")
        return timezone
