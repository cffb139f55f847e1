"""Days and times, and the text form they have."""

import datetime as dt
import math
import re
import zoneinfo
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from synth.errors import TableError
from synth.infer import numeric
from synth.infer.facts import ColumnFacts
from synth.schema.kinds import ClockColumn, Column, DateColumn, DatetimeColumn, DurationColumn
from synth.schema.kinds.dates import DAY, EPOCH, MICROSECONDS, every_of, write_as
from synth.schema.kinds.spans import SpanColumn
from synth.table import datetime_codec
from synth.table.decode import Fault
from synth.table.table import as_series
from synth.table.typed_cells import as_objects, cast

T = TypeVar("T")

_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y%m%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
    "%d-%b-%Y", "%d-%B-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%y",
    "%d%b%Y", "%d/%b/%Y", "%a %b %d %Y", "%a, %d %b %Y", "%a %d %b %Y", "%A, %B %d, %Y", "%A, %d %B %Y",
)  # fmt: skip
"""Forms of days; those with a day and a month in digits may stand without leading zeros, too."""
_MONTHS = (
    "%Y-%m", "%Y/%m", "%Y.%m", "%m/%Y", "%m-%Y", "%m.%Y", "%b-%Y", "%b %Y", "%B %Y", "%B-%Y", "%Y-%b", "%Y %b", "%b-%y",
    "%YM%m",
)  # fmt: skip
"""Forms without a day, which stand for the first of the month."""
_JOINTS = (" ", "T", ", ", ":")
_CLOCKS = (
    "%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S.%3f", "%H%M%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H.%M",
)  # fmt: skip
_MIDNIGHT = {"H": "00", "I": "12", "M": "00", "S": "00", "p": "AM"}
_LONGEST = 40
_RUN = re.compile("[0-9]+|[a-zA-Z]+")
_NAMES = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_LIKELY = re.compile(
    rf"\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d|(\d{{4}}[-/.M]\d\d|\d\d[-/.]\d{{4}})$|(\d{{1,2}}[-/ ]?|\d{{4}}[- ]){_NAMES}|"
    rf"\d{{8}}[ T,]|{_NAMES}[a-z]*[- ]\d|(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? ",
    re.ASCII,
)
"""The beginning of a text that may be a day: most columns of text are none, and need no look at each form."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d)?(?:([.,])(\d{1,9}))?([+-]\d\d(:?)\d\d)?", re.ASCII)
_ISO_FORMAT = "%Y-%m-%dT%H:%M:%S"  # what a column without a format is written as
_ZONE = re.compile(r"(?:[T ]\d{4,6}|:\d\d)(?:[.,]\d+)?( ?(?:Z|UTC|GMT|[+-][01]\d(?::?[0-5]\d)?))$", re.ASCII)
_OFTEN = (
    "Europe/London", "Europe/Berlin", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/Halifax", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Sydney",
)  # fmt: skip
"""Zones that are tried first: others have the same clock."""
_PRECISIONS: tuple[Literal["day", "h", "min", "s", "ms"], ...] = ("day", "h", "min", "s", "ms")
_DIGITS = (
    ("%Y%m%d%H%M%S", 3), ("%Y%m%d%H%M", 3), ("%Y%m%d", 3), ("%Y%m", 6), ("%d%m%Y", 20), ("%m%d%Y", 20), ("%y%m%d", 20),
    ("%-d%m%Y", 20), ("%-m%d%Y", 20), ("%-y%m%d", 20),
)  # fmt: skip
"""Forms of digits alone, and the different ones from which on they are no chance: one of 30 numbers of eight digits
that begin as a year does is a day, and one of eight of six digits a month."""
_SWAPPED = {"%d%m%Y": "%m%d%Y", "%m%d%Y": "%d%m%Y", "%-d%m%Y": "%-m%d%Y", "%-m%d%Y": "%-d%m%Y"}
_NAMED = 20  # the same where the name says that they identify something
_YEARS = (1900, 2100)  # of digits that are days; 9999 says that there is no end


def propose_time(about: ColumnFacts) -> Column | None:
    """A column of days or times; `None` where it is none."""
    form = about.raw.form
    if form == "time":
        return _times_of_stamps(about)
    if form == "mixed":
        is_time = all(isinstance(cell, dt.date | np.datetime64) for cell in about.present)
        return _times_of_objects(about) if is_time else None
    if form == "boolean":
        return None
    return times_of_digits(about) or (times_of_texts(about) if form == "text" else None)


def times_of_texts(about: ColumnFacts) -> Column | None:
    """A column of days or times in one text form, or `None` where it is not."""
    known = read_times([str(text) for text in about.present])
    return None if known is None else _of_form(about, *known)


def times_of_digits(about: ColumnFacts) -> Column | None:
    """A column of days, months or moments of digits alone, such as 20141013, or `None` where it is not."""
    texts, tail = about.digits or ([], "")
    if any(len(text) < 5 for text in texts):
        return None
    for form, n_values in _DIGITS:
        parsed = None
        if len(texts) >= max(n_values, _NAMED if about.named_identifier else 0):
            parsed = _parsed(texts, form)
        if parsed is None or (form in _SWAPPED and _parsed(texts, _SWAPPED[form]) is not None):
            continue
        # Of several months, within the years that there are.
        likely = all(_YEARS[0] <= moment.year <= _YEARS[1] or moment.year == dt.MAXYEAR for moment in parsed)
        if likely and len({moment.year if form == "%Y%m" else (moment.year, moment.month) for moment in parsed}) > 1:
            return _of_form(about, parsed, form + tail)
    return None


def _of_form(about: ColumnFacts, parsed: list[dt.datetime], form: str | None) -> Column:
    """A column of days where the form has no clock, or each clock shows midnight, which the form then holds."""
    wall, zone = datetime_codec.micros(parsed), _zone_of(parsed)
    is_zoned = form is not None and form.endswith("z")
    if form is None or (is_zoned and zone in ("UTC", "mixed")) or (wall % DAY).any():
        if form is not None and zone == "mixed" and not is_zoned:  # of no zone that has a name
            form = re.sub(r" ?[^%]*$", "%:z", form[:-1])
        is_default = form in (_ISO_FORMAT, f"{_ISO_FORMAT}%:z", f"{_ISO_FORMAT}+00:00")
        line = wall - datetime_codec.offsets(parsed)
        return _column(about, line, zone, None if is_default else form)
    days = re.sub(r"%-?([HIMSp])", lambda part: _MIDNIGHT[part[1]][part[0] == "%-H" :], form)
    days = re.sub(r"%\.?(\d?)f", lambda part: "" if part[0][1] == "." else "0" * int(part[1] or 6), days)
    return _column(about, wall, zone if is_zoned else None, days, days=True)


def read_times(texts: Sequence[str]) -> tuple[list[dt.datetime], str | None] | None:
    """The moments of all texts and their form; `None` where they have none in common."""
    if _LIKELY.match(texts[0]) is None or any(len(text) > _LONGEST for text in texts):
        return None
    zones = {match[1] if (match := _ZONE.search(text)) else "" for text in texts}
    zone = zones.pop() if len(zones) == 1 else ""
    # An offset that all texts have is a part of their form.
    known = _read_bare([text.removesuffix(zone) for text in texts])
    if known is None or zone == "":
        return known
    offset = f"{zone.strip().replace(':', '')}00"[:5]
    info = dt.UTC if zone.strip() in ("Z", "UTC", "GMT") else dt.datetime.strptime(offset, "%z").tzinfo
    form = _ISO_FORMAT if known[1] is None else known[1]
    return [moment.replace(tzinfo=info) for moment in known[0]], form + zone


def _read_bare(texts: Sequence[str]) -> tuple[list[dt.datetime], str | None] | None:
    form, moments = _iso_form(texts), list[dt.datetime]()
    if form is not None and (parsed := _parsed(texts, form)) is not None:
        return parsed, form
    if all(datetime_codec.ISO_DATETIME.fullmatch(text) for text in texts):
        moments = [moment for text in texts if (moment := datetime_codec.iso(text)) is not None]
        is_alike = len({moment.tzinfo is None for moment in moments}) == 1
        return (moments, None) if len(moments) == len(texts) and is_alike else None
    form = None
    for candidate in _forms().get(_outline(texts[0]), ()):
        parsed = None if _parsed(texts[:1], candidate) is None else _parsed(texts, candidate)
        if parsed is not None and form is not None and parsed != moments:
            return None  # several forms, which differ in what the texts stand for
        if parsed is not None and form is None:
            form, moments = candidate, parsed
    return None if form is None else (moments, form)


def _iso_form(texts: Sequence[str]) -> str | None:
    """The form of texts of ISO 8601 as the first of them has it."""
    if datetime_codec.ISO_DATE.fullmatch(texts[0]):
        return "%Y-%m-%d"
    if (first := _ISO.fullmatch(texts[0])) is None:
        return None
    digits = {len(match[4] or "") for text in texts if (match := _ISO.fullmatch(text))}
    fraction = "%.f" if len(digits - {0}) > 1 else f"%.{max(digits)}f" if 0 in digits else f"{first[3]}%{max(digits)}f"
    zone = "" if first[5] is None else f"%{first[6]}z"
    seconds = "" if first[2] is None else ":%S" + (fraction if digits != {0} else "")
    return f"%Y-%m-%d{first[1]}%H:%M{seconds}{zone}"


def _outline(text: str) -> str:
    """A text with its runs of digits, and those of letters, as one each."""
    return _RUN.sub(lambda run: "0" if run[0][0].isdigit() else "a", text)


@cache
def _forms() -> dict[str, list[str]]:
    """All forms, by the outline of their texts: `strptime` compiles each anew, and there are thousands."""
    days = [*_DAYS, *(form.replace("%m", "%-m").replace("%d", "%-d") for form in _DAYS if form != "%Y%m%d")]
    clocks = [*_CLOCKS, *(clock.replace("%H", "%-H").replace("%I", "%-I") for clock in _CLOCKS if clock != "%H%M%S")]
    timed = (f"{day}{joint}{clock}" for day in days for joint in _JOINTS for clock in clocks)
    forms: dict[str, list[str]] = {}
    for form in dict.fromkeys([*days, *_MONTHS, *timed]):
        forms.setdefault(_outline(write_as(form, EPOCH)), []).append(form)
    return forms


def _parsed(texts: Sequence[str], form: str) -> list[dt.datetime] | None:
    column = DatetimeColumn(bounds=(dt.datetime.min, dt.datetime.max), format=form)
    return _read_back(texts, datetime_codec.parser(column), datetime_codec.writer(column))


def _read_back(texts: Sequence[str], parse: Callable[[str], T | None], write: Callable[[T], str]) -> list[T] | None:
    """What texts stand for, or `None` where one is not of the form or would be written otherwise."""
    values = []
    for text in texts:
        value = parse(text)
        if value is None or write(value) != text:
            return None
        values.append(value)
    return values


def _zone_of(known: list[dt.datetime]) -> str | None:
    if known[0].tzinfo is None:
        return None
    ahead = datetime_codec.offsets(known)
    if not ahead.any():
        return "UTC"
    hours, rest = divmod(int(ahead[0]), MICROSECONDS["h"])
    if rest == 0 and (ahead == ahead[0]).all() and -14 <= -hours <= 12:
        return f"Etc/GMT{-hours:+d}"
    for zone in (*_OFTEN, *sorted(zoneinfo.available_timezones())):
        info = zoneinfo.ZoneInfo(zone)
        if all(moment.astimezone(info).utcoffset() == moment.utcoffset() for moment in known):
            return zone
    return "mixed"


def _column(
    about: ColumnFacts, line: np.ndarray, zone: str | None, form: str | None = None, *, days: bool = False
) -> Column:
    """A column of days, or of times, at these microseconds since 1970."""
    low, high = (np.datetime64(int(end), "us").item() for end in (line.min(), line.max()))
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        raise TableError(f"times must lie between the years 1 and 9999: column={about.name!r} has others; correct them")
    common = _common(about, "object" if zone == "mixed" else f"datetime64[us{f', {zone}' if zone else ''}]")
    if days:
        form = form or ("%Y-%m-%d" if zone is None else "%Y-%m-%dT00:00:00%:z")
        every = every_of(np.asarray(line, dtype=np.int64).astype("datetime64[us]").astype("datetime64[D]"))
        return DateColumn(bounds=(low.date(), high.date()), format=form, timezone=zone, every=every, **common)
    if zone == "mixed" and about.raw.form != "text":
        common.pop("dtype", None)
    precision = next((p for p in _PRECISIONS if not (line % MICROSECONDS[p]).any()), "us")
    return DatetimeColumn(bounds=(low, high), format=form, timezone=zone, precision=precision, **common)


def _common(about: ColumnFacts, default: str) -> dict[str, Any]:
    """Fields that columns of all kinds have; numbers and texts that Python holds as objects stay such."""
    common: dict[str, Any] = about.common(default)
    if about.raw.form in ("integer", "real") and about.dtype in (None, "object", "str"):
        common["dtype"] = about.int64
    elif about.raw.form == "text" and about.dtype == "object":
        common["dtype"] = "str"
    return common


def _times_of_stamps(about: ColumnFacts) -> Column:
    """A column of a datetime dtype: of days where every time is midnight and there is no zone, or one with a name."""
    wall = line = about.present.astype("datetime64[us]").astype(np.int64)
    zone = None if about.raw.zone is None else str(about.raw.zone)
    if zone is not None and zone not in zoneinfo.available_timezones():
        zone = "mixed"
    if zone not in (None, "UTC", "mixed"):
        stamps = pd.DatetimeIndex(line.astype("datetime64[us]")).tz_localize("UTC").tz_convert(zone).tz_localize(None)
        wall = stamps.to_numpy().astype("datetime64[us]").astype(np.int64)
    if zone in ("UTC", "mixed") or (wall % DAY).any():
        return _column(about, line, zone)
    return _column(about, wall, zone, days=True)


def _times_of_objects(about: ColumnFacts) -> Column:
    """A column of Python dates and datetimes."""
    known = [datetime_codec.plain(cell) for cell in about.present]
    moments = [moment for moment in known if not isinstance(moment, Fault)]
    zoned = {moment.tzinfo is not None for moment in moments}
    if len(moments) < len(known) or len(zoned) > 1:
        raise TableError(
            f"a column of times must be of one form: column={about.name!r} mixes several (with and without a zone, or "
            "finer than microseconds); convert it first"
        )
    line = datetime_codec.micros(moments) - datetime_codec.offsets(moments)
    if zoned == {True} or (line % DAY).any():
        return _column(about, line, _zone_of(moments))
    return _column(about, line, None, days=True)


_SPAN_CLOCKS = tuple(
    f"%{bare}{hour}" for hour in
    ("H:%M:%S", "H:%M", "I:%M %p", "I:%M:%S %p", "I:%M%p", "I:%M %P", "I:%M%P", "H:%M:%S.%3f", "H:%M:%S.%f")
    for bare in ("", "-")
)  # fmt: skip
_DURATIONS = (
    "%-M:%S.%3f", "%-M:%S.%2f", "%-M:%S.%1f", "%-d days %H:%M:%S", "%-d days %H:%M:%S.%f", "[%-d day(s)] %H:%M:%S",
    "[%-d day(s),] %-H:%M:%S", "%-d.%H:%M:%S", "PT[%-HH][%-MM][%-SS]", "P[%-dD]T[%-HH][%-MM][%-SS]",
    "P%-dDT%-HH%-MM%-SS",
)  # fmt: skip
_WORD = re.compile(r"(\d+)( ?)(d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)(?![a-z])", re.ASCII)
_LETTERS = {"d": "d", "h": "H", "m": "M", "s": "S"}
_LIKELY_SPAN = re.compile(r"-?\d{1,6}([:.]\d\d|[ ]?(d|h|m|s))|P[T\d]", re.ASCII)
"""The beginning of a text that may be a time of day or a duration."""
_FEWEST, _HOURS = 20, 4
"""Different numbers above 59 that end as minutes do, from which on it is no chance, and the hours that they lie in."""
_FEW_TEXTS, _ROWS_A_VALUE = 12, 10  # so few different texts, in so many rows each, are categories


def propose_span(about: ColumnFacts) -> Column | None:
    """A column of times of day or durations; `None` where it is none."""
    form = about.raw.form
    if form == "mixed":
        return _spans_of_objects(about)
    if form in ("boolean", "time"):
        return None
    return (spans_of_texts(about) if form == "text" else None) or spans_of_digits(about)


def spans_of_texts(about: ColumnFacts) -> Column | None:
    """A column of times of day or durations in one text form, or `None` where it is not."""
    texts = [str(text) for text in about.present]
    few = len(texts) <= _FEW_TEXTS and about.n_present >= _ROWS_A_VALUE * len(texts)
    if few or any(_LIKELY_SPAN.match(text) is None for text in texts):
        return None
    for form in (*_SPAN_CLOCKS, *_DURATIONS, *_in_words(texts)):
        read = DurationColumn(bounds=(0, 1), format=form, precision="us")
        micros = _read_back(texts, read.parse, read.write)
        if micros is not None:
            return _span_column(about, form, micros)
    return None


def spans_of_digits(about: ColumnFacts) -> Column | None:
    """A column of clock times as 745 or "0745", or `None` where it is not."""
    texts, tail = about.digits or ([""], "")
    if not all(0 < len(text) < 7 for text in texts):
        return None
    bare = "-" if {len(text) for text in texts} not in ({4}, {6}) or about.raw.form != "text" else ""
    numbers = np.unique(np.array(texts, dtype=np.int64))
    for form, most, seconds in (("H%M", 2400, 1), ("H%M%S", 240000, 100)):
        minutes = numbers // seconds
        told = minutes[minutes > 59]
        on_clock = numbers[-1] <= most and (minutes % 100 < 60).all() and (numbers % 100 < 60).all()
        varied = len(told) >= _FEWEST and len(np.unique(told // 100)) >= _HOURS and math.gcd(*told.tolist()) % 50
        if on_clock and varied:
            form, precision = f"%{bare}{form}{tail}", "min" if seconds == 1 else "s"
            read = ClockColumn(bounds=(0, 1), format=form, precision=precision)
            return _span_column(about, form, [read.plain(int(text)) * read.micros for text in texts], precision)
    return None


def _spans_of_objects(about: ColumnFacts) -> Column | None:
    """A column of Python's or numpy's durations, or of Python's times of day; `None` where it is not."""
    cells, form = about.present, "%-d days %H:%M:%S"
    if all(isinstance(cell, dt.time) for cell in cells):
        moments = [dt.datetime.combine(dt.date.min, cell.replace(tzinfo=None)) for cell in cells]
        cells, form = [moment - dt.datetime.min for moment in moments], "%H:%M:%S"
    if not all(isinstance(cell, dt.timedelta | np.timedelta64) for cell in cells):
        return None
    return _span_column(about, form, [int(np.timedelta64(cell, "us").astype(np.int64)) for cell in cells])


def _in_words(texts: Sequence[str]) -> list[str]:
    """Forms such as "3 h 20 min" that the texts may have."""
    words: dict[str, set[str]] = {}
    longest: list[Any] = []
    gaps = {""}
    for text in texts:
        parts = list(_WORD.finditer(text))
        if not parts or text[: parts[0].start()] or text[parts[-1].end() :]:
            return []
        gaps |= {text[a.end() : b.start()] for a, b in pairwise(parts)}
        for part in parts:
            words.setdefault(_LETTERS[part[3][0]], set()).add(part[2] + part[3])
        longest = max(longest, [part.groups() for part in parts], key=len)
    if len(longest) < 2 or len(gaps - {""}) > 1:
        return []
    gap = max(gaps)
    units = [(letter, min(words[letter], key=len)) for letter in "dHMS" if letter in words]
    named = [(letter, word if len(words[letter]) == 1 else f"{word}(s)") for letter, word in units]
    whole = [
        gap.join(f"%{'-' * (i == 0 or bare)}{letter}{word}" for i, (letter, word) in enumerate(named))
        for bare in (1, 0)
    ]
    return [gap.join(f"[%-{letter}{word}]" for letter, word in named), *whole]


def _span_column(about: ColumnFacts, form: str, micros: Sequence[int], precision: str | None = None) -> Column:
    line = np.array(micros, dtype=np.int64)
    units = ("s", "ms", "us") if "%S" in form else ("h", "min", "s", "ms", "us")
    precision = precision or next(unit for unit in units if not (line % MICROSECONDS[unit]).any())
    if precision in ("ms", "us") and "f" not in form:
        form += ".%f"
    counts = line // MICROSECONDS[precision]
    if about.raw.form != "mixed":
        counts = counts[about.numbers_per_row]
    is_clock = line.min() >= 0 and line.max() <= DAY and re.match("%-?[HI](:|%M)", form)
    kind: type[SpanColumn] = ClockColumn if is_clock else DurationColumn
    fields: dict[str, Any] = dict(numeric.integer(about, counts)) | {"format": form, "precision": precision}
    fields["dtype"] = _common(about, "").get("dtype")
    return kind(**{key: value for key, value in fields.items() if key in kind.model_fields and key != "kind"})


_ENDS_OF_DAYS = {(1, 1), (1, 2), (12, 30), (12, 31), (6, 6), (4, 11)}  # of years, and of what computers count days in


def set_apart(column: Any, about: ColumnFacts) -> Any:
    """A column of days or times, those beside the line apart from all others."""
    codes, cells = pd.factorize(about.per_row)
    if about.raw.form == "time":
        line = cells.astype("datetime64[us]").astype(np.int64)
    else:
        line = column.instants(as_series(cast(as_objects(cells), column)[0], column)).astype(np.int64)
    order = np.argsort(line, kind="stable")

    def fits(micros: float) -> bool:
        moment = np.datetime64(int(micros), "us").item()
        return isinstance(moment, dt.datetime) and (moment.year >= 2070 or (moment.month, moment.day) in _ENDS_OF_DAYS)

    n_below, n_above = numeric.sentinels(line[order], np.bincount(codes)[order], fits)
    if not (n_below or n_above):
        return column
    known = [column.plain(moment) for moment in line[order].astype("datetime64[us]").tolist()]
    end = len(known) - n_above
    parts = {"below": tuple(known[:n_below]), "above": tuple(known[end:]), "bounds": (known[n_below], known[end - 1])}
    return column.model_copy(update=parts)
