"""Cells of a stored column as microseconds since 1970, in expressions that no cell can make fail.

A text is cast only where its pattern, which knows the calendar, holds: a cast of a day that there is not would end the
query.
"""

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from synth.columns import DateColumn, DatetimeColumn
from synth.domain.numeric_scale import DAY
from synth.errors import TableError
from synth.stored.formats import Form, form_of
from synth.stored.functions import days, matches, microseconds, microseconds_within, within
from synth.stored.numbers import whole_match

_SECOND = 10**6


@dataclass(frozen=True)
class Moments:
    """Cells as times.

    Attributes:
        micros: since 1970, of UTC where the column has a zone; null where there is none.
        zone_at_fault: which texts are a time, but with an offset where none is declared, or without one that is needed.
    """

    micros: ir.IntegerColumn
    zone_at_fault: ir.BooleanColumn


def moments(cells: ir.Column, name: str, column: DateColumn | DatetimeColumn, backend: str) -> Moments:
    """Cells of any type as times.

    Args:
        cells: *Sensitive*. Texts are null where they stand for a missing value.
        name: of the column, for messages.
        column: what they should be.
        backend: Ibis's name of where they are.

    Raises:
        TableError: this type is not read as such times; nothing was read.
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
