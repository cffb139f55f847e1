"""Cells of a stored column as microseconds since 1970, in expressions that no cell can make fail.

A text is cast only where its pattern, which knows the calendar, holds: a cast of a day that there is not would end the
query. A form of texts is such a pattern, which no other text has, and what of the text is cast.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ibis
import ibis.expr.types as ir

from synth.errors import TableError
from synth.schema.kinds import DateColumn, DatetimeColumn
from synth.schema.kinds.moments import DAY, read_as
from synth.stored.numeric import whole_match
from synth.stored.sql_functions import days, matches, microseconds, microseconds_within, within

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
"""Patterns of the texts that strptime takes for each directive, but for digits of other scripts."""
_SEVENTIES = "[7-9][0-9]|69"
"""Years of two digits that strptime puts into the last century."""
_SHORT = "_"
"""Stands before a year of two digits until its century is known."""
_SPACES = "[ \t\n\r\x0b\x0c]+"


@dataclass(frozen=True)
class Form:
    """A form of texts."""

    pattern: str
    clock: bool
    has_offsets: bool = False
    groups: dict[str, int] | None = field(default=None, hash=False)

    @property
    def may_err(self) -> bool:
        """True if a text of this form may name a day that there is not."""
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
    """The form that a column declares; `None` where a directive needs a calendar, a language or a zone.

    >>> form_of(DateColumn(bounds=("2020-01-01", "2021-01-01"), format="%d.%m.%y")).groups
    {'d': 1, 'm': 2, 'y': 3}
    >>> form_of(DateColumn(bounds=("2020-01-01", "2021-01-01"), format="%d %B %Y")) is None
    True
    """
    if column.is_date and column.format == "%Y-%m-%d":
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


_SECOND = 10**6


@dataclass(frozen=True)
class Moments:
    """Cells as times."""

    micros: ir.IntegerColumn
    zone_at_fault: ir.BooleanColumn


def moments(cells: ir.Column, name: str, column: DateColumn | DatetimeColumn, backend: str) -> Moments:
    """Cells of any type as times.

    Args:
        cells: *Sensitive*. Texts are null where they stand for a missing value.
    """
    kind, zone = cells.type(), getattr(column, "timezone", None)
    if kind.is_string():
        return _of_texts(cells, name, column, backend)
    if kind.is_date() and zone is None:
        return Moments(days(cells) * DAY, ibis.literal(False))
    # Spark's own type is a moment that is shown on the clock of the session, with a zone or without.
    if kind.is_timestamp() and ((kind.timezone is None) == (zone is None) or backend == "pyspark"):
        return Moments(microseconds(cells, backend), ibis.literal(False))
    raise cannot(name, kind, "a time without a zone" if zone is None else f"a time of timezone={zone!r}")


def cannot(name: str, kind: Any, wanted: str) -> TableError:
    """A type that is not read as a kind: a fact about the column, which no row has a say in."""
    return TableError(
        f"column={name!r} is of type={str(kind)!r} where it is stored, which is not read as {wanted}; convert it "
        "there, in a view for example, or change its kind in the schema"
    )


def _of_texts(texts: Any, name: str, column: DateColumn | DatetimeColumn, backend: str) -> Moments:
    form, zone = form_of(column), getattr(column, "timezone", None)
    if form is None or zone not in (None, "mixed"):
        wanted = f"times of format={column.format!r}" if form is None else f"times of timezone={zone!r}"
        raise cannot(name, texts.type(), wanted)
    wall = _wall(texts, form, backend)
    if not form.has_offsets:
        return Moments(wall if zone is None else ibis.null("int64"), wall.notnull() & (zone is not None))
    bare = ~matches(texts, "[T ].*[Z+-]")
    if zone is None:
        lawful = _ahead(texts).notnull() | bare
        return Moments(ibis.ifelse(bare, wall, ibis.null("int64")), wall.notnull() & ~bare & lawful)
    return Moments(ibis.ifelse(bare, ibis.null("int64"), wall - _ahead(texts) * _SECOND), wall.notnull() & bare)


def _wall(texts: Any, form: Form, backend: str) -> Any:
    """Microseconds of the wall clock, null where a text has not the form or its day is none of the calendar."""
    sound = ibis.ifelse(whole_match(texts, form.pattern, backend), texts, ibis.null("string"))
    written = form.written(sound, backend)
    if form.may_err:
        written = ibis.ifelse(whole_match(written, form.calendar, backend), written, ibis.null("string"))
    if form.clock:
        return microseconds_within(written.cast("timestamp"), backend)
    return written.cast("date").delta(ibis.date("1970-01-01"), unit="day").cast("int64") * DAY


def _ahead(texts: Any) -> Any:
    """Seconds that the offset of a text is ahead of UTC, zero without one; null for a day or more, as Python has it."""
    there = matches(texts, "[T ][0-9:.,]+[+-][0-9:]{4,8}$")
    digits = ibis.ifelse(there, texts.re_extract("[+-]([0-9:]{4,8})$", 1).replace(":", "") + "00", "000000")
    hours, minutes, seconds = (digits.substr(start, 2).cast("int64") for start in (0, 2, 4))
    size = within((hours * 60 + minutes) * 60 + seconds, 0, DAY // _SECOND - 1)
    return ibis.ifelse(matches(texts, "-[0-9:]{4,8}$") & there, -size, size)
