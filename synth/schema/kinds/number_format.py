"""Formats of numbers, as spreadsheets write them: ``$#,##0.00;($#,##0.00)``, ``0.0#%``, ``#.##0,00 €``, ``0.#,k;0``.

They have up to three sections: for positive numbers, negative ones and zero. ``0`` is a digit that is always written,
``#`` one that is where it says something; a backslash makes the next character stand for itself. Sections whose digits
end in commas count in thousands, millions and so on, and stand before all others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Self

GROUPS = ",.'’ \u00a0\u202f"
"""Marks between thousands."""
_DIGITS = re.compile(
    rf"(?P<whole>#(?P<mark>[{GROUPS}])(?P<lakh>##(?P=mark))?##0|[#0])(?P<fraction>(?P<point>[.,])(?P<least>0*)(?P<most>\#*)"
    r"(?<![.,]))?(?P<scale>,{0,4})"
)
_SPECIAL = "#0;\\"


@dataclass(frozen=True)
class Section:
    """One form of numbers: what stands before and after the digits, and how these are written."""

    before: str
    after: str
    mark: str = ""  # between thousands
    lakh: bool = False  # marks between hundreds beyond the first thousand: 12,34,567
    point: str = "."
    least: int = 0  # decimals that are always written
    most: int = 0
    bare: bool = False  # .5 rather than 0.5
    scale: int = 0  # powers of a thousand that it counts in

    @classmethod
    def of(cls, text: str) -> Self:
        for match in _DIGITS.finditer(text):
            if not _is_escaped(text, match.start()):
                whole, mark = match["whole"], match["mark"] or ""
                least, most = match["least"] or "", match["most"] or ""
                before, after = (re.sub(r"\\(.)", r"\1", part) for part in (text[: match.start()], text[match.end() :]))
                point = match["point"] or ("," if mark == "." else ".")
                return cls(before, after, mark, match["lakh"] is not None, point, len(least), len(least) + len(most),
                           whole == "#", len(match["scale"]))  # fmt: skip
        raise ValueError(f"a section of format={text!r} has no digits; write it like #,##0.00")

    def __str__(self) -> str:
        before, after = (re.sub(r"([#0;\\])", r"\\\1", part) for part in (self.before, self.after))
        whole = f"#{self.mark}{f'##{self.mark}' * self.lakh}##0" if self.mark else "#" if self.bare else "0"
        fraction = self.point + "0" * self.least + "#" * (self.most - self.least) if self.most else ""
        return before + whole + fraction + "," * self.scale + after

    @property
    def pattern(self) -> str:
        """The regular expression of its texts, the digits in a group."""
        mark = re.escape(self.mark)
        whole = r"\d{1,400}"
        if self.mark:
            every, last = ("{2}", rf"{mark}\d{{3}}") if self.lakh else ("{3}", "")
            whole = rf"(?:\d{{1,3}}(?:{mark}\d{every})*{last}|{whole})"
        point = re.escape(self.point)
        digits = rf"{whole}(?:{point}\d{{0,400}})?|{point}\d{{1,400}}"
        return f"{re.escape(self.before)}({digits}){re.escape(self.after)}"

    def read(self, digits: str) -> Decimal:
        plain = digits.replace(self.mark, "") if self.mark else digits
        return Decimal(plain.replace(self.point, ".")).scaleb(3 * self.scale)

    def write(self, value: Decimal) -> str:
        text = f"{value.scaleb(-3 * self.scale):.{self.most}f}"
        whole, _, fraction = text.partition(".")
        fraction = fraction[: self.least] + fraction[self.least :].rstrip("0")
        if self.mark and len(whole) > 3:
            head, every = whole[:-3], 2 if self.lakh else 3
            first = len(head) % every
            parts = [head[:first]] * (first > 0) + [head[i : i + every] for i in range(first, len(head), every)]
            whole = self.mark.join([*parts, whole[-3:]])
        whole = "" if self.bare and whole == "0" and fraction else whole
        return self.before + whole + (self.point + fraction if fraction else "") + self.after


@dataclass(frozen=True)
class NumberFormat:
    """All sections of a format: scaled ones, largest first, then of positive numbers, negative ones and zero."""

    scaled: tuple[Section, ...]
    plain: tuple[Section, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        sections = [Section.of(part) for part in re.split(r"(?<!\\);", text)]
        scaled = tuple(section for section in sections if section.scale)
        plain = tuple(section for section in sections if not section.scale) or (Section("", "", most=2),)
        if len(plain) > 3 or list(scaled) != sorted(scaled, key=lambda section: -section.scale):
            raise ValueError(
                f"format={text!r} has more than three sections, or smaller scales before larger ones; write those of "
                "millions and thousands first, then at most one each for positive numbers, negative ones and zero"
            )
        return cls(scaled, plain)

    def __str__(self) -> str:
        return ";".join(map(str, (*self.scaled, *self.plain)))

    @property
    def is_plain(self) -> bool:
        """True if its texts are numbers to any reader."""
        return not self.scaled and len(self.plain) == 1 and self.plain[0] in (
            Section("", "", least=self.plain[0].least, most=self.plain[0].most),)  # fmt: skip

    def read(self, text: str) -> Decimal | None:
        for pattern, section, sign in self._patterns:
            if (known := pattern.fullmatch(text)) is not None:
                return sign * section.read(known[1])
        return None

    @property
    def _patterns(self) -> Sequence[tuple[re.Pattern[str], Section, int]]:
        return _compiled(self)

    def write(self, value: Decimal) -> str:
        size = abs(value)
        section = next((s for s in self.scaled if size >= Decimal(1).scaleb(3 * s.scale)), None)
        if section is not None or len(self.plain) == 1:
            return "-" * (value < 0) + (section or self.plain[0]).write(size)
        place = 2 if value == 0 and len(self.plain) > 2 else 1 if value < 0 else 0
        return self.plain[place].write(size)


@cache
def _compiled(form: NumberFormat) -> list[tuple[re.Pattern[str], Section, int]]:
    signs = (1, -1, 1)
    signed = [(section.pattern, section, sign) for section, sign in zip(form.plain, signs, strict=False)]
    signed += [(section.pattern, section, 1) for section in form.scaled]
    signed += [(f"-{section.pattern}", section, -1) for section in (*form.plain[:1], *form.scaled)]
    return [(re.compile(pattern, re.ASCII), section, sign) for pattern, section, sign in signed]


@cache
def parsed(text: str) -> NumberFormat:
    """The format that a text writes."""
    return NumberFormat.of(text)


def _is_escaped(text: str, at: int) -> bool:
    return (at - len(text[:at].rstrip("\\"))) % 2 == 1
