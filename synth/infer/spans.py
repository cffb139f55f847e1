"""Times of day and durations, and the text form they have."""

import datetime as dt
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from synth.infer import numeric
from synth.infer.facts import ColumnFacts
from synth.schema.kinds import ClockColumn, Column, DurationColumn
from synth.schema.kinds.moments import DAY, MICROSECONDS
from synth.schema.kinds.spans import SpanColumn

_CLOCKS = tuple(
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
_LIKELY = re.compile(r"-?\d{1,6}([:.]\d\d|[ ]?(d|h|m|s))|P[T\d]", re.ASCII)
"""The beginning of a text that may be a time of day or a duration."""
_FEWEST, _HOURS = 20, 4
"""Different numbers above 59 that end as minutes do, from which on it is no chance, and the hours that they lie in."""
_FEW, _ROWS_A_VALUE = 12, 10  # so few different texts, in so many rows each, are categories


def propose(about: ColumnFacts) -> Column | None:
    """A column of times of day or durations; `None` where it is none."""
    form = about.raw.form
    if form == "text":
        return of_texts(about) or of_digits(about)
    return of_objects(about) if form == "mixed" else of_digits(about) if form in ("integer", "real") else None


def of_texts(about: ColumnFacts) -> Column | None:
    """A column of times of day or durations in one text form, or `None` where it is not."""
    texts = [str(text) for text in about.present]
    few = len(texts) <= _FEW and about.n_present >= _ROWS_A_VALUE * len(texts)
    if few or any(_LIKELY.match(text) is None for text in texts):
        return None
    for form in (*_CLOCKS, *_DURATIONS, *_in_words(texts)):
        micros = _read(texts, form)
        if micros is not None:
            return _column(about, form, micros)
    return None


def of_digits(about: ColumnFacts) -> Column | None:
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
            return _column(about, form, [read.plain(int(text)) * read.micros for text in texts], precision)
    return None


def of_objects(about: ColumnFacts) -> Column | None:
    """A column of Python's or numpy's durations, or of Python's times of day; `None` where it is not."""
    if all(isinstance(cell, dt.time) for cell in about.present):
        seconds = [(cell.hour * 60 + cell.minute) * 60 + cell.second for cell in about.present]
        micros = [s * 10**6 + cell.microsecond for s, cell in zip(seconds, about.present, strict=True)]
        return _column(about, "%H:%M:%S", micros)
    if not all(isinstance(cell, dt.timedelta | np.timedelta64) for cell in about.present):
        return None
    micros = [int(np.timedelta64(cell, "us").astype(np.int64)) for cell in about.present]
    return _column(about, "%-d days %H:%M:%S", micros)


def _read(texts: Sequence[str], form: str) -> list[int] | None:
    """Microseconds of all texts, or `None` where one is not of that form or would be written otherwise."""
    column = DurationColumn(bounds=(0, 1), format=form, precision="us")
    micros = []
    for text in texts:
        value = column.parse(text)
        if value is None or column.write(value) != text:
            return None
        micros.append(value)
    return micros


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


def _column(about: ColumnFacts, form: str, micros: Sequence[int], precision: str | None = None) -> Column:
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
    fields |= {"dtype": about.common("", text=about.raw.form == "text").get("dtype")}
    if about.raw.form in ("integer", "real") and fields["dtype"] in (None, "object"):
        fields["dtype"] = "Int64" if about.missing else "int64"
    return kind(**{key: value for key, value in fields.items() if key in kind.model_fields and key != "kind"})
