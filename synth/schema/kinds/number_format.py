"""Formats of numbers, as spreadsheets write them: ``$#,##0.00;($#,##0.00)``, ``0.0#%``, ``#.##0,00 €``, ``0.#,k;0``.

They have up to three sections: for positive numbers, negative ones and zero. ``0`` is a digit that is always written,
``#`` one that is where it says something. Sections whose digits end in commas count in thousands, millions and so on,
and stand before all others.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

GROUPS = ",.'’ \u00a0\u202f"  # marks between thousands
_SECTION = re.compile(
    rf"(?P<before>[^#0]*)(?P<whole>#(?P<mark>[{GROUPS}])(?P<lakh>##(?P=mark))?##0|[#0])"
    r"(?:(?P<point>[.,])(?P<least>0*)(?P<most>\#*)(?<![.,]))?(?P<scale>,{0,4})(?P<after>[^#0]*)"
)


@dataclass(frozen=True)
class Section:
    """One form of numbers: what stands before and after the digits, and how these are written."""

    before: str = ""
    after: str = ""
    mark: str = ""  # between thousands
    lakh: bool = False  # marks between hundreds beyond the first thousand: 12,34,567
    point: str = "."
    least: int = 0  # decimals that are always written
    most: int = 0
    bare: bool = False  # .5 rather than 0.5
    scale: int = 0  # powers of a thousand that it counts in

    def __str__(self) -> str:
        whole = f"#{self.mark}{f'##{self.mark}' * self.lakh}##0" if self.mark else "#" if self.bare else "0"
        fraction = self.point + "0" * self.least + "#" * (self.most - self.least) if self.most else ""
        return self.before + whole + fraction + "," * self.scale + self.after

    @property
    def pattern(self) -> str:
        mark, point = re.escape(self.mark), re.escape(self.point)
        grouped = rf"\d{{1,3}}(?:{mark}\d{{2,3}})*|" if self.mark else ""
        digits = rf"(?:{grouped}\d{{1,400}})(?:{point}\d{{0,400}})?|{point}\d{{1,400}}"
        return f"{re.escape(self.before)}({digits}){re.escape(self.after)}"

    def read(self, digits: str) -> Decimal:
        plain = digits.replace(self.mark, "") if self.mark else digits
        return Decimal(plain.replace(self.point, ".")).scaleb(3 * self.scale)

    def write(self, value: Decimal) -> str:
        whole, _, fraction = f"{value.scaleb(-3 * self.scale):.{self.most}f}".partition(".")
        fraction = fraction[: self.least] + fraction[self.least :].rstrip("0")
        if self.mark and len(whole) > 3:
            head = re.sub(r"\B(?=(\d\d)+$)" if self.lakh else r"\B(?=(\d{3})+$)", self.mark, whole[:-3])
            whole = head + self.mark + whole[-3:]
        whole = "" if self.bare and whole == "0" and fraction else whole
        return self.before + whole + (self.point + fraction if fraction else "") + self.after


@dataclass(frozen=True)
class NumberFormat:
    """All sections of a format: scaled ones, largest first, then of positive numbers, negative ones and zero."""

    scaled: tuple[Section, ...]
    plain: tuple[Section, ...]

    def __str__(self) -> str:
        return ";".join(map(str, (*self.scaled, *self.plain)))

    @property
    def is_plain(self) -> bool:
        """True if its texts are numbers to any reader."""
        first = self.plain[0]
        return not self.scaled and self.plain == (Section(least=first.least, most=first.most),)

    def read(self, text: str) -> Decimal | None:
        for pattern, section, sign in _patterns(self):
            if (known := pattern.fullmatch(text)) is not None:
                return sign * section.read(known[1])
        return None

    def write(self, value: Decimal) -> str:
        size = abs(value)
        section = next((s for s in self.scaled if size >= Decimal(1).scaleb(3 * s.scale)), None)
        if section is not None or len(self.plain) == 1:
            return "-" * (value < 0) + (section or self.plain[0]).write(size)
        return self.plain[2 if value == 0 and len(self.plain) > 2 else int(value < 0)].write(size)


@cache
def _patterns(form: NumberFormat) -> list[tuple[re.Pattern[str], Section, int]]:
    signed = [("", section, sign) for section, sign in zip(form.plain, (1, -1, 1), strict=False)]
    signed += [("", section, 1) for section in form.scaled]
    signed += [("-", section, -1) for section in (*form.plain[:1], *form.scaled)]
    return [(re.compile(minus + section.pattern, re.ASCII), section, sign) for minus, section, sign in signed]


@cache
def parsed(text: str) -> NumberFormat:
    """The format that a text writes."""
    sections = []
    for part in text.split(";"):
        if (known := _SECTION.fullmatch(part)) is None:
            raise ValueError(f"format={text!r} has no digits, or several times; write sections like #,##0.00 %")
        mark, n_least = known["mark"] or "", len(known["least"] or "")
        point, most = known["point"] or ("," if mark == "." else "."), n_least + len(known["most"] or "")
        is_bare, scale = known["whole"] == "#", len(known["scale"])
        sections.append(
            Section(known["before"], known["after"], mark, bool(known["lakh"]), point, n_least, most, is_bare, scale)
        )
    scaled = tuple(section for section in sections if section.scale)
    plain = tuple(section for section in sections if not section.scale) or (Section(most=2),)
    if len(plain) > 3 or list(scaled) != sorted(scaled, key=lambda section: -section.scale):
        raise ValueError(
            f"format={text!r} has more than three sections, or smaller scales before larger ones; write those of "
            "millions and thousands first, then at most one each for positive numbers, negative ones and zero"
        )
    return NumberFormat(scaled, plain)
