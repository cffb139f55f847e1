"""Forms of texts of days and times: a pattern that no other text has, and what of it is cast."""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from synth.columns import DateColumn, DatetimeColumn, read_as

_LEAP = "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_MONTHS = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE = f"(({_YEAR}-({_MONTHS}))|({_LEAP.replace('|([02468][048]', '|(0[48]|[2468][048]')}-02-29))"
"""Every day from the year 1 to 9999, and no other."""
CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,6}0{0,3})?)?"
OFFSET = "(Z|[+-][0-9]{2}(:[0-9]{2}(:[0-9]{2})?|[0-9]{2}([0-9]{2})?))"
_DIRECTIVES = {
    "Y": "[0-9]{4}", "y": "[0-9]{2}", "m": "1[0-2]|0[1-9]|[1-9]", "d": "3[01]|[12][0-9]|0[1-9]|[1-9]| [1-9]",
    "H": "2[0-3]|[01][0-9]|[0-9]", "M": "[0-5][0-9]|[0-9]", "S": "[0-5][0-9]|[0-9]", "f": "[0-9]{1,6}",
}  # fmt: skip
"""What strptime takes for each, but for digits of other scripts."""
_SEVENTIES = "[7-9][0-9]|69"
"""Years of two digits that strptime puts into the last century."""
_SHORT = "_"
"""Stands before a year of two digits until its century is known."""
_SPACES = "[ \t\n\r\x0b\x0c]+"


@dataclass(frozen=True)
class Form:
    """A form of texts.

    Attributes:
        pattern: of the whole text.
        clock: whether a time of day is told.
        has_offsets: whether an offset from UTC may be told.
        groups: the group of each directive of a declared format; none where the text is of ISO 8601.
    """

    pattern: str
    clock: bool
    has_offsets: bool = False
    groups: dict[str, int] | None = field(default=None, hash=False)

    @property
    def may_err(self) -> bool:
        """Whether a text of this form may name a day that there is not."""
        return self.groups is not None

    @property
    def calendar(self) -> str:
        """The pattern of what is written, if it names a day that there is."""
        return f"{DATE}T[0-9:.]{{15}}" if self.clock else DATE

    def written(self, texts: Any, backend: str) -> Any:
        """Texts of this form in ISO's, without an offset, as every backend casts it.

        Each step names the one before it once: every other mention would double what is planned and worked out.

        Args:
            texts: *Sensitive*. Of this form, or null.
            backend: Ibis's name of where they are.
        """
        if self.groups is None:
            return texts.re_replace(f"{OFFSET}$", "").replace(",", ".").substr(0, 26) if self.clock else texts
        mark = "$" if backend == "pyspark" else "\\"
        parts = {name: f"{mark}{group}" for name, group in self.groups.items()}
        year = f"{_SHORT}{parts['y']}" if "y" in parts else parts.get("Y", "1900")
        made = f"{year}-0{parts.get('m', '1')}-0{parts.get('d', '1')}"
        if self.clock:
            made += "T" + ":".join(f"0{parts.get(name, '0')}" for name in "HMS") + f".{parts.get('f', '')}000000"
        iso = texts.re_replace(f"^{self.pattern}$", made).replace(" ", "")  # before days of one digit one may stand
        iso = iso.re_replace("([-T:])0([0-9][0-9])", f"{mark}1{mark}2")
        if "y" in parts:
            iso = iso.re_replace(f"^{_SHORT}({_SEVENTIES})", f"19{mark}1").re_replace(f"^{_SHORT}", "20")
        return iso.re_replace("[.]([0-9]{6}).*", f".{mark}1") if self.clock else iso


def form_of(column: DateColumn | DatetimeColumn) -> Form | None:
    """The form that a column declares; none where a directive needs a calendar, a language or a zone.

    >>> form_of(DateColumn(bounds=("2020-01-01", "2021-01-01"), format="%d.%m.%y")).groups
    {'d': 1, 'm': 2, 'y': 3}
    >>> form_of(DateColumn(bounds=("2020-01-01", "2021-01-01"), format="%d %B %Y")) is None
    True
    """
    if isinstance(column, DateColumn) and column.format == "%Y-%m-%d":
        return Form(DATE, clock=False)
    if column.format is None:
        return Form(f"{DATE}([T ]{CLOCK}{OFFSET}?)?", clock=True, has_offsets=True)
    return _declared(column.format)


@cache
def _declared(form: str) -> Form | None:
    parts: list[str] = []
    groups: dict[str, int] = {}
    for directive, space, sign in re.findall(r"%(.?)|(\s+)|(.)", read_as(form), re.DOTALL):
        if space or sign:
            parts.append(_SPACES if space else _literal(sign))
        elif directive == "%":
            parts.append("%")
        elif directive in _DIRECTIVES and directive not in groups:
            groups[directive] = len(groups) + 1
            parts.append(f"({_DIRECTIVES[directive]})")
        else:
            return None
    if {"Y", "y"} <= set(groups):
        return None
    return Form("".join(parts), clock=not groups.keys().isdisjoint("HMSf"), groups=groups)


def _literal(sign: str) -> str:
    """A character in either case, as strptime takes it."""
    cases = sorted({sign, *(other for other in (sign.lower(), sign.upper()) if len(other) == 1)})
    return re.escape(sign) if len(cases) == 1 else f"[{''.join(cases)}]"
