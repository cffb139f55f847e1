"""Days and times, and the text form they have."""

import datetime as dt
from typing import Any, Literal

import numpy as np

from synth.columns import Column, DateColumn, DatetimeColumn
from synth.errors import TableError
from synth.infer.facts import Facts
from synth.table import moments
from synth.table.faults import Fault

_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f")
_LONGEST = 40
_PRECISIONS: tuple[Literal["h", "min", "s", "ms"], ...] = ("h", "min", "s", "ms")


def of_texts(about: Facts) -> Column | None:
    """A column of days or times in one text form, or none where it is not."""
    texts = [str(text) for text in about.present]
    if not texts[0][:1].isdigit() or any(len(text) > _LONGEST for text in texts):
        return None
    if all(moments.ISO_DATE.fullmatch(text) for text in texts):
        return _dates(about, texts, "%Y-%m-%d")
    if all(moments.ISO_DATETIME.fullmatch(text) for text in texts):
        return _iso_datetimes(about, texts)
    days = [form for form in _DAYS if _parsed(texts, form) is not None]
    if len(days) == 1:
        return _dates(about, texts, days[0])
    if days:
        return None
    forms = [f"{day} {clock}" for day in _DAYS for clock in _CLOCKS]
    fitting = [form for form in forms if _parsed(texts, form) is not None]
    return _datetimes(about, _parsed(texts, fitting[0]), fitting[0]) if len(fitting) == 1 else None


def _parsed(texts: list[str], form: str) -> list[dt.datetime] | None:
    """The moments that texts stand for, or none where one is not of that form or would be written otherwise."""
    column = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), format=form)
    parse, write = moments.parser(column), moments.writer(column)
    made = []
    for text in texts:
        moment = parse(text)
        if moment is None or write(moment) != text:
            return None
        made.append(moment)
    return made


def _dates(about: Facts, texts: list[str], form: str) -> Column | None:
    parse = moments.parser(DateColumn(bounds=(dt.date.min, dt.date.max), format=form))
    days = [parse(text) for text in texts]
    known = [day for day in days if day is not None]
    if len(known) < len(days):
        return None
    bounds = (min(known).date(), max(known).date())
    return DateColumn(bounds=bounds, format=form, **about.common("datetime64[us]", text=True))


def _iso_datetimes(about: Facts, texts: list[str]) -> Column | None:
    for clock in _CLOCKS:
        form = f"%Y-%m-%d {clock}"
        parsed = _parsed(texts, form)
        if parsed is not None:
            return _datetimes(about, parsed, form)
    parse = moments.parser(DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max)))
    made = [parse(text) for text in texts]
    known = [moment for moment in made if moment is not None]
    if len(known) < len(made) or len({moment.tzinfo is None for moment in known}) > 1:
        return None
    return _datetimes(about, known, None)


def _datetimes(about: Facts, made: list[dt.datetime] | None, form: str | None) -> Column | None:
    known = made or []
    zone = _zone_of(known)
    line = moments.micros(known) - moments.offsets(known)
    return _column(about, line, zone, form, text=True)


def _zone_of(known: list[dt.datetime]) -> str | None:
    if known[0].tzinfo is None:
        return None
    return "UTC" if not moments.offsets(known).any() else "mixed"


def _column(about: Facts, line: np.ndarray, zone: str | None, form: str | None, *, text: bool) -> DatetimeColumn:
    low, high = (np.datetime64(int(end), "us").item() for end in (line.min(), line.max()))
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        raise TableError(f"times must lie between the years 1 and 9999: column={about.name!r} has others; correct them")
    precision = next((p for p in _PRECISIONS if not (line % moments.MICROSECONDS[p]).any()), "us")
    default = "object" if zone == "mixed" else "datetime64[us]" if zone is None else f"datetime64[us, {zone}]"
    common: dict[str, Any] = about.common(default, text=text)
    if zone == "mixed" and not text:
        common.pop("dtype", None)
    return DatetimeColumn(bounds=(low, high), format=form, timezone=zone, precision=precision, **common)


def of_stamps(about: Facts) -> Column:
    """A column of a datetime dtype: of days where every time is midnight and there is no zone."""
    line = about.present.astype("datetime64[us]").astype(np.int64)
    zone = None if about.given.zone is None else zone_name(about.given.zone)
    if zone is None and not (line % moments.DAY).any():
        return _of_days(about, line)
    return _column(about, line, zone, None, text=False)


def _of_days(about: Facts, line: np.ndarray) -> Column:
    low, high = (np.datetime64(int(end), "us").astype("datetime64[D]").item() for end in (line.min(), line.max()))
    if not isinstance(low, dt.date) or not isinstance(high, dt.date):
        raise TableError(f"days must lie between the years 1 and 9999: column={about.name!r} has others; correct them")
    return DateColumn(bounds=(low, high), **about.common("datetime64[us]"))


def zone_name(zone: Any) -> str:
    """The IANA name of a zone, or "mixed" for one without a name."""
    import zoneinfo

    name = str(zone)
    return name if name in zoneinfo.available_timezones() else "mixed"


def of_objects(about: Facts) -> Column:
    """A column of Python dates and datetimes."""
    made = [moments.plain(cell) for cell in about.present]
    known = [moment for moment in made if not isinstance(moment, Fault)]
    zoned = {moment.tzinfo is not None for moment in known}
    if len(known) < len(made) or len(zoned) > 1:
        raise TableError(
            f"a column of times must be of one form: column={about.name!r} mixes several (with and without a zone, or "
            "finer than microseconds); convert it first"
        )
    line = moments.micros(known) - moments.offsets(known)
    only_days = all(type(cell) is dt.date for cell in about.present) or (
        zoned == {False} and not (line % moments.DAY).any()
    )
    if only_days:
        return _of_days(about, line)
    return _column(about, line, _zone_of(known), None, text=False)
