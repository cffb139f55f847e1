"""Days and times, and the text form they have."""

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from synth.errors import TableError
from synth.infer.facts import ColumnFacts
from synth.schema.kinds import Column, DateColumn, DatetimeColumn
from synth.schema.kinds.moments import DAY, MICROSECONDS
from synth.table import datetime_codec
from synth.table.faults import Fault

_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y%m%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
    "%d-%b-%Y", "%d-%B-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%y",
)  # fmt: skip
"""Forms of days; those with a day and a month in digits may stand without leading zeros, too."""
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b-%Y", "%b %Y", "%B %Y", "%B-%Y", "%Y-%b", "%b-%y")
"""Forms without a day, which stand for the first of the month."""
_JOINTS = (" ", "T", ", ")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H%M%S", "%I:%M %p", "%I:%M:%S %p")
_MIDNIGHT = {"%H": "00", "%-H": "0", "%I": "12", "%-I": "12", "%M": "00", "%S": "00", "%f": "000000", "%p": "AM"}
_LONGEST = 40
_NAMES = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_LIKELY = re.compile(
    rf"\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d|(\d{{4}}[-/]\d\d|\d\d[-/]\d{{4}})$|(\d{{1,2}}[- ]|\d{{4}}-){_NAMES}|\d{{8}}[ T,]|"
    rf"{_NAMES}[a-z]*[- ]\d",
    re.ASCII,
)
"""The beginning of a text that may be a day: most columns of text are none, and need no look at each form."""
_COMPACT = re.compile(r"(19|20)\d{6}|21000101", re.ASCII)
"""Eight digits that may be a day from 1900 to 2100."""
_FEWEST = 3  # different numbers of eight digits that are days, from which on they are no chance
_PRECISIONS: tuple[Literal["day", "h", "min", "s", "ms"], ...] = ("day", "h", "min", "s", "ms")
_ZONED_MIDNIGHT = re.compile(r"[T ]00:00(:00([.,]0+)?)?(Z|[+-]\d\d:?\d\d)", re.ASCII)


def of_texts(about: ColumnFacts) -> Column | None:
    """A column of days or times in one text form, or `None` where it is not."""
    texts = [str(text) for text in about.present]
    if _LIKELY.match(texts[0]) is None or any(len(text) > _LONGEST for text in texts):
        return None
    if all(datetime_codec.ISO_DATETIME.fullmatch(text) for text in texts):
        return _iso(about, texts)
    form, parsed = _form_of(texts)
    return None if form is None else _of_form(about, parsed, form)


def are_times(texts: Sequence[str]) -> bool:
    """True if all texts are days or times of one form. *Sensitive*."""
    if _LIKELY.match(texts[0]) is None or any(len(text) > _LONGEST for text in texts):
        return False
    if all(datetime_codec.ISO_DATETIME.fullmatch(text) for text in texts):
        return True
    return _form_of(texts)[0] is not None


def of_digits(about: ColumnFacts) -> Column | None:
    """A column of days of eight digits each, such as 20141013, or `None` where it is not."""
    if about.n_distinct < _FEWEST or not all(_COMPACT.fullmatch(str(text)) for text in about.present):
        return None
    parsed = _parsed([str(text) for text in about.present], "%Y%m%d")
    return None if parsed is None else _of_form(about, parsed, "%Y%m%d")


def _iso(about: ColumnFacts, texts: list[str]) -> Column | None:
    for form in ("%Y-%m-%d", *(f"%Y-%m-%d{joint}{clock}" for joint in _JOINTS[:2] for clock in _CLOCKS[:3])):
        parsed = _parsed(texts, form)
        if parsed is not None and ("T" not in form or _only_days(parsed)):  # others with a T need no form
            return _of_form(about, parsed, form)
    ends = {text[10:] for text in texts}
    if len(ends) == 1 and _ZONED_MIDNIGHT.fullmatch(end := ends.pop()):  # days, whatever zone they are written in
        form = f"%Y-%m-%d{end}"
        if (parsed := _parsed(texts, form)) is not None:
            return _of_form(about, parsed, form)
    parse = datetime_codec.parser(DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max)))
    made = [parse(text) for text in texts]
    known = [moment for moment in made if moment is not None]
    if len(known) < len(made) or len({moment.tzinfo is None for moment in known}) > 1:
        return None
    return _datetimes(about, known, None)


def _form_of(texts: Sequence[str]) -> tuple[str | None, list[dt.datetime]]:
    """The form of all texts, and the moments that they stand for; `None` where several forms differ in these."""
    form, known = None, list[dt.datetime]()
    for candidate in _forms():
        parsed = None if _parsed(texts[:1], candidate) is None else _parsed(texts, candidate)
        if parsed is not None and form is not None and parsed != known:
            return None, []
        if parsed is not None and form is None:
            form, known = candidate, parsed
    return form, known


@cache
def _forms() -> tuple[str, ...]:
    days = [*_DAYS, *(form.replace("%m", "%-m").replace("%d", "%-d") for form in _DAYS if form != "%Y%m%d")]
    clocks = [*_CLOCKS, *(clock.replace("%H", "%-H").replace("%I", "%-I") for clock in _CLOCKS if clock != "%H%M%S")]
    timed = (f"{day}{joint}{clock}" for day in days for joint in _JOINTS for clock in clocks)
    return tuple(dict.fromkeys([*days, *_MONTHS, *timed]))


def _parsed(texts: Sequence[str], form: str) -> list[dt.datetime] | None:
    """The moments that texts stand for, or `None` where one is not of that form or would be written otherwise."""
    column = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), format=form)
    parse, write = datetime_codec.parser(column), datetime_codec.writer(column)
    made = []
    for text in texts:
        moment = parse(text)
        if moment is None or write(moment) != text:
            return None
        made.append(moment)
    return made


def _of_form(about: ColumnFacts, parsed: list[dt.datetime], form: str) -> Column:
    """A column of days where the form has no clock, or each clock shows midnight, which the form then holds."""
    if not _only_days(parsed):
        return _datetimes(about, parsed, form)
    days = re.sub("%-?[a-zA-Z]", lambda found: _MIDNIGHT.get(found[0], found[0]), form)
    bounds = (min(parsed).date(), max(parsed).date())
    return DateColumn(bounds=bounds, format=days, **about.common("datetime64[us]", text=True))


def _only_days(parsed: list[dt.datetime]) -> bool:
    return all(moment.time() == dt.time() for moment in parsed)


def _datetimes(about: ColumnFacts, known: list[dt.datetime], form: str | None) -> DatetimeColumn:
    line = datetime_codec.micros(known) - datetime_codec.offsets(known)
    return _column(about, line, _zone_of(known), form, text=True)


def _zone_of(known: list[dt.datetime]) -> str | None:
    if known[0].tzinfo is None:
        return None
    return "UTC" if not datetime_codec.offsets(known).any() else "mixed"


def _column(about: ColumnFacts, line: np.ndarray, zone: str | None, form: str | None, *, text: bool) -> DatetimeColumn:
    low, high = (np.datetime64(int(end), "us").item() for end in (line.min(), line.max()))
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        raise TableError(f"times must lie between the years 1 and 9999: column={about.name!r} has others; correct them")
    precision = next((p for p in _PRECISIONS if not (line % MICROSECONDS[p]).any()), "us")
    default = "object" if zone == "mixed" else "datetime64[us]" if zone is None else f"datetime64[us, {zone}]"
    common: dict[str, Any] = about.common(default, text=text)
    if zone == "mixed" and not text:
        common.pop("dtype", None)
    return DatetimeColumn(bounds=(low, high), format=form, timezone=zone, precision=precision, **common)


def of_stamps(about: ColumnFacts) -> Column:
    """A column of a datetime dtype: of days where every time is midnight and there is no zone."""
    line = about.present.astype("datetime64[us]").astype(np.int64)
    zone = None if about.given.zone is None else zone_name(about.given.zone)
    if zone is None and not (line % DAY).any():
        return _of_days(about, line)
    return _column(about, line, zone, None, text=False)


def _of_days(about: ColumnFacts, line: np.ndarray) -> Column:
    low, high = (np.datetime64(int(end), "us").astype("datetime64[D]").item() for end in (line.min(), line.max()))
    if not isinstance(low, dt.date) or not isinstance(high, dt.date):
        raise TableError(f"days must lie between the years 1 and 9999: column={about.name!r} has others; correct them")
    return DateColumn(bounds=(low, high), **about.common("datetime64[us]"))


def zone_name(zone: Any) -> str:
    """The IANA name of a zone, or "mixed" for one without a name."""
    import zoneinfo

    name = str(zone)
    return name if name in zoneinfo.available_timezones() else "mixed"


def of_objects(about: ColumnFacts) -> Column:
    """A column of Python dates and datetimes."""
    made = [datetime_codec.plain(cell) for cell in about.present]
    known = [moment for moment in made if not isinstance(moment, Fault)]
    zoned = {moment.tzinfo is not None for moment in known}
    if len(known) < len(made) or len(zoned) > 1:
        raise TableError(
            f"a column of times must be of one form: column={about.name!r} mixes several (with and without a zone, or "
            "finer than microseconds); convert it first"
        )
    line = datetime_codec.micros(known) - datetime_codec.offsets(known)
    only_days = all(type(cell) is dt.date for cell in about.present) or (zoned == {False} and not (line % DAY).any())
    if only_days:
        return _of_days(about, line)
    return _column(about, line, _zone_of(known), None, text=False)
