"""Times of day and durations: whole numbers of a unit of time, in the text forms that people write.

A form has the directives of `strftime`. Its largest unit may exceed what a clock shows: 26:30 is ``%H:%M``. What stands
in brackets is left out where it is zero, ``(s)`` is there for more than one: ``[%-H hour(s)] [%-M min]``.
"""

import datetime as dt
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from synth.schema.kinds.dates import DAY, MICROSECONDS
from synth.schema.kinds.number import IntegerColumn

_MICROS = {"d": DAY, "H": MICROSECONDS["h"], "I": MICROSECONDS["h"], "M": MICROSECONDS["min"], "S": MICROSECONDS["s"]}
_TOKEN = re.compile(r"%(-?)(\d?)([dHIMSfpP])|(\[|\]|\(s\))|([ ,]+)|(.)", re.DOTALL)
_DIRECTIVE = re.compile("%-?([dHMS])")
_PART = re.compile(r"%(-?)(\d?)([dHIMSfpP])((?:[^%(]*\(s\))?)")
_DIGITS = re.compile(r"%-?H%M(%S)?(\.0)?")
_JOINED = re.compile(r"\d{0,4}?[0-5]?\d", re.ASCII)
_PLAIN = re.compile(r"(?P<minus>-)?(?P<H>\d{1,18}):(?P<M>\d\d)(?::(?P<S>\d\d)(?:\.(?P<f>\d{1,9}))?)?", re.ASCII)
"""What every column reads, whatever its form: as Python writes a time of day, hours beyond 24 too."""


class SpanColumn(IntegerColumn):
    is_span: ClassVar[bool] = True
    has_own_texts: ClassVar[bool] = True
    _noun: ClassVar[str]
    precision: Literal["us", "ms", "s", "min", "h", "day"] = Field(default="s", description="What the numbers count.")
    format: str = Field(
        default="%H:%M:%S", description="Form of texts: strftime's, [] around what is left out where it is 0."
    )

    def rules(self) -> Iterator[tuple[object, str]]:
        letters = [match[3] for match in _TOKEN.finditer(self.format) if match[3]]
        yield (
            not {*letters} & {*_MICROS} or len({*letters}) < len(letters),
            f"format={self.format!r} names units of time (%d, %H, %M, %S), each once",
        )
        yield from super().rules()

    @property
    def noun(self) -> str:
        return f"{self._noun} (in {self.precision})"

    @property
    def domain_words(self) -> str:
        return " to ".join(map(self.show, self.bounds))

    @property
    def micros(self) -> int:
        return MICROSECONDS[self.precision]

    def parse(self, text: str) -> int | None:
        if self._joined and (number := _JOINED.fullmatch(text.removesuffix(".0"))) is not None:
            return int(number[0])
        known = _pattern(self.format).fullmatch(text) or _PLAIN.fullmatch(text)
        parts = {} if known is None else {name: part for name, part in known.groupdict().items() if part}
        if not {*parts} & {*_MICROS}:
            return None
        total = sum(int(part) * _MICROS[name] for name, part in parts.items() if name in "dHMS")
        if "I" in parts:
            total += (int(parts["I"]) % 12 + 12 * (parts.get("p", "a")[0] in "pP")) * _MICROS["I"]
        total += int(f"{parts.get('f', ''):0<6}"[:6])
        count: int = self.canonical((-total if "minus" in parts else total) // self.micros)
        return count

    def write(self, value: Any) -> str:
        if self._joined:
            digits = str(value) if "%-" in self.format else str(value).zfill(2 * self.format.count("%"))
            return digits + ".0" * self.format.endswith(".0")
        total = int(value) * self.micros
        return f"-{_text(self.format, -total)}" if total < 0 else _text(self.format, total)

    def show(self, count: int) -> str:
        return self.write(self.canonical(count))

    @property
    def shows_texts(self) -> bool:
        return re.match("u?int|float|timedelta|duration|object", self.dtype or "", re.IGNORECASE) is None

    # The values of a form without a separator are the numbers themselves (745), its positions are minutes or seconds.
    @property
    def _joined(self) -> int:
        """How many numbers of two digits are joined in one; 0: none."""
        return self.format.count("%") if _DIGITS.fullmatch(self.format) else 0

    def canonical(self, value: Any) -> Any:
        return _rebased(value, self._joined, 60, 100) if self._joined else value

    def plain(self, value: Any) -> Any:
        return int(_rebased(value, self._joined, 100, 60) if self._joined else value)

    def value_at(self, position: float) -> Any:
        return int(position)

    def line(self, series: Any) -> np.ndarray:
        line = super().line(series)
        return _rebased(line, self._joined, 100, 60) if self._joined else line

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        return self.canonical(super().values(counts, missing))


def _rebased(values: Any, n_digits: int, base: int, other: int) -> Any:
    """Numbers of some digits of one base as those of the same digits of another; the first may exceed the base."""
    total = values // base ** (n_digits - 1)
    for position in reversed(range(n_digits - 1)):
        total = total * other + values // base**position % base
    return total


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """The texts of a form, with a group for each of its numbers."""
    pattern, largest = "", next(letter for letter in "dHIMS" if re.search(f"%-?{letter}", form))
    for bare, _, letter, mark, gap, text in _TOKEN.findall(form):
        if letter in ("p", "P", "f"):
            pattern += "(?P<f>\\d{1,6})" if letter == "f" else "(?P<p>[AaPp][Mm])"
        elif letter:
            pattern += f"(?P<{letter}>\\d{{{1 if bare else 2},{18 if letter == largest else 2}}})"
        elif mark:
            pattern += {"[": "(?:", "]": ")?", "(s)": "s?"}[mark]
        else:
            is_optional = text == "T" and form.startswith("P")
            pattern += "[ ,]*+" if gap and "[" in form else re.escape(gap or text) + "?" * is_optional
    return re.compile(f"(?P<minus>-)?{pattern}", re.ASCII)


def _text(form: str, micros: int) -> str:
    """The text of so many microseconds."""
    numbers, rest = {"f": f"{micros % _MICROS['S']:06d}"}, micros
    for letter in (letter for letter in "dHIMS" if re.search(f"%-?{letter}", form)):
        number, rest = divmod(rest, _MICROS[letter])
        numbers[letter] = str(number)
    if "I" in numbers:
        half = "AM" if int(numbers["I"]) % 24 < 12 else "PM"
        numbers |= {"p": half, "P": half.lower(), "I": str(int(numbers["I"]) % 12 or 12)}

    def fill(match: re.Match[str]) -> str:
        number = numbers[match[3]][: int(match[2] or 6)]
        plural = match[4].replace("(s)", "" if number == "1" else "s")
        return (number if match[1] else number.zfill(2)) + plural

    pieces = re.split(r"\[(.*?)\]", form)  # every second one stood in brackets
    shown = [i % 2 == 0 or any(int(numbers[unit]) for unit in _DIRECTIVE.findall(p)) for i, p in enumerate(pieces)]
    if len(pieces) > 1 and not any(is_shown and "%" in piece for is_shown, piece in zip(shown, pieces, strict=True)):
        shown[-2] = True
    text = _PART.sub(fill, "".join(piece for is_shown, piece in zip(shown, pieces, strict=True) if is_shown))
    if len(pieces) > 1:
        text = re.sub(r"([ ,]+?)\1+", r"\1", text).strip(" ,")
    return text.removesuffix("T") if form.startswith("P") else text


class ClockColumn(SpanColumn):
    """A time of day, counted from midnight: 07:45, 7:45 PM, or 745 as a number."""

    _noun: ClassVar[str] = "a time of day"
    kind: Literal["clock"] = "clock"  # type: ignore[assignment]

    def typed(self, series: Any) -> Any:
        if self.dtype != "object":
            return None
        start = dt.datetime.min
        return [
            None if m else (start + dt.timedelta(microseconds=int(v) * self.micros)).time()
            for v, m in zip(series, series.isna(), strict=True)
        ]


class DurationColumn(SpanColumn):
    """How long something took: 26:03:45, 3 h 20 min, PT1H, or a timedelta."""

    _noun: ClassVar[str] = "a duration"
    kind: Literal["duration"] = "duration"  # type: ignore[assignment]

    def typed(self, series: Any) -> Any:
        if not str(self.dtype).startswith(("timedelta64", "duration", "object")):
            return None
        spans = (series.to_numpy(dtype=np.int64, na_value=0) * self.micros).astype("timedelta64[us]")
        spans[series.isna().to_numpy()] = np.timedelta64("NaT", "us")
        return spans
