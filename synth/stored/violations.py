"""Violations of a schema by a stored table, counted where it is: what `synth.table` finds in memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from synth.domain import numeric_scale
from synth.errors import TableError
from synth.schema import Schema
from synth.schema.kinds import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    IdentifierColumn,
    RealColumn,
    WeightColumn,
)
from synth.stored.decode import Reader, rounded
from synth.stored.numeric import ABOVE_INT64, is_number
from synth.stored.sql_functions import (
    days,
    exactly,
    finer_than_micros,
    floored,
    half_even,
    holds_nul,
    matches,
    microseconds,
)
from synth.stored.table import StoredTable
from synth.stored.temporal import cannot, moments
from synth.table.conforming import Violation, of_names
from synth.table.faults import Fault, words

Flags = dict[Fault, ir.BooleanColumn]

_INFINITY = "^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_TOLERANCE, _TOLERANCE_OF_FLOAT32 = 1e-12, 3e-7
"""Relative noise of a number that is none of its digits."""


@dataclass(frozen=True)
class Looked:
    """The cells of one column.

    Attributes:
        missing: *Sensitive*. Which cells are missing.
        faults: *Sensitive*. Which cells have each fault, in the order in which they are told; never null.
    """

    missing: ir.BooleanColumn = field(repr=False)
    faults: Flags = field(repr=False)


@dataclass(frozen=True)
class _Given:
    """Cells as they are stored.

    Attributes:
        cells: *Sensitive*. Null where missing.
    """

    cells: Any = field(repr=False)
    form: str
    name: str
    reader: Reader

    @property
    def present(self) -> Any:
        return self.cells.notnull()

    @property
    def backend(self) -> str:
        return self.reader.backend


def look(cells: ir.Column, name: str, column: Column, reader: Reader) -> Looked:
    """The missing cells of a column, and those that do not fit it.

    Args:
        cells: *Sensitive*. Of any type.
    """
    form = _form(cells.type())
    if form == "text":
        # A text with a NUL is one, though none that any column allows.
        cells = ibis.ifelse(cells.isin(sorted({"", *reader.missing_texts})), ibis.null("string"), cells)
    elif form == "real":
        cells = ibis.ifelse(cells.isnan(), ibis.null(cells.type()), cells)
    elif form == "decimal" and reader.backend == "postgres":
        cells = ibis.ifelse(cells == ibis.literal("NaN").cast("decimal"), ibis.null(cells.type()), cells)
    given = _Given(cells, form, name, reader)
    found = _of_kind(column)(given, column)
    flags = {fault: flag.fill_null(False) for fault, flag in found.items()}
    missing = given.cells.isnull()
    return Looked(missing, flags if column.missing else {**flags, Fault.MISSING: missing})


def _form(kind: Any) -> str:
    forms = {"text": kind.is_string(), "integer": kind.is_integer(), "boolean": kind.is_boolean(),
             "real": kind.is_floating(), "decimal": kind.is_decimal(),
             "time": kind.is_date() or kind.is_timestamp()}  # fmt: skip
    return next((form for form, is_it in forms.items() if is_it), "other")


def _of_kind(column: Column) -> Callable[[_Given, Any], Flags]:
    if column.is_whole or column.holds_whole_numbers:
        return _integers
    if isinstance(column, RealColumn | WeightColumn):
        return _reals
    if column.is_boolean:
        return _booleans
    if column.is_time:
        return _times
    return _texts if isinstance(column, CategoricalColumn | IdentifierColumn) else _any_text


def _numbers(given: _Given) -> tuple[Any, Flags]:
    """Cells as finite reals, and those that are none."""
    if given.form in ("time", "other"):
        return ibis.null("float64"), {Fault.NUMBER: given.present}
    reals = given.reader.reals(given.cells, given.name)
    if given.form == "text":
        infinite = matches(given.cells, _INFINITY)
        number = is_number(given.cells, given.backend)
        return reals, {Fault.NUMBER: ~number & ~infinite, Fault.INFINITE: infinite | (number & reals.isnull())}
    return reals, {Fault.INFINITE: given.present & reals.isnull()} if given.form in ("real", "decimal") else {}


def _integers(given: _Given, column: Any) -> Flags:
    reals, flags = _numbers(given)
    infinite = flags.pop(Fault.INFINITE, ibis.literal(False))
    fraction = half_even(reals) != reals
    if given.form in ("time", "other"):
        return {**flags, Fault.INFINITE: infinite}
    held = given.reader.rounded_wholes(given.cells, given.name)
    # What has more than 64 bits is cut off.
    wide = (reals.abs() >= exactly(ABOVE_INT64)) & given.reader.wholes(given.cells, given.name).isnull()
    low, high = column.limits if isinstance(column, CategoricalColumn) else column.bounds
    outside = (held < low) | (held > high) | wide
    if isinstance(column, CategoricalColumn):
        unknown = outside if column.measure else held.notin(list(column.categories)) | wide
        return {**flags, Fault.INFINITE: infinite, Fault.FRACTION: fraction, Fault.CATEGORY: unknown}
    inexact = {Fault.INFINITE: infinite, Fault.FRACTION: fraction}
    if given.form == "text":  # the order in which they are told in memory
        return {**flags, Fault.BOUNDS: outside, **inexact}
    return {**flags, **inexact, Fault.BOUNDS: outside}


def _reals(given: _Given, column: Any) -> Flags:
    reals, flags = _numbers(given)
    if column.decimals is not None:
        single = given.form == "real" and given.cells.type().nbytes < 8
        allowed = reals.abs() * exactly(_TOLERANCE_OF_FLOAT32 if single else _TOLERANCE)
        flags[Fault.PRECISION] = (rounded(reals, column.decimals) - reals).abs() > allowed
        reals = rounded(reals, column.decimals)
    low, high = column.bounds
    return {**flags, Fault.BOUNDS: (reals < exactly(low)) | (reals > exactly(high))}


def _booleans(given: _Given, column: BooleanColumn) -> Flags:
    if given.form == "boolean":
        return {}
    if given.form == "text":
        return {Fault.BOOLEAN: given.cells.notin(list(column.tokens))}
    if given.form in ("integer", "real"):
        return {Fault.BOOLEAN: (given.cells != 0) & (given.cells != 1)}
    return {Fault.BOOLEAN: given.present}


def _texts(given: _Given, column: Any) -> Flags:
    if given.form not in ("text", "integer"):
        return {Fault.TEXT: given.present}
    if not isinstance(column, CategoricalColumn):
        return {}
    if column.measure:
        return {Fault.TEXT: holds_nul(given.cells, given.backend)} if given.form == "text" else {}
    known = list(column.categories)
    if given.form == "text":
        return {Fault.CATEGORY: given.cells.notin(known) if known else given.present}
    members = given.reader.members(given.cells, given.name, column)
    return {Fault.CATEGORY: members == len(known)}


def _any_text(given: _Given, column: Any) -> Flags:
    """Personal data, of which nothing is learned, and free text, which must be text."""
    return {Fault.TEXT: given.present} if column.kind == "text" and given.form not in ("text", "integer") else {}


def _times(given: _Given, column: Any) -> Flags:
    if given.form not in ("text", "time"):
        return {Fault.TIME: given.present}
    zone, kind = getattr(column, "timezone", None), given.cells.type()
    day = column.is_date
    unit = numeric_scale.DAY if day else numeric_scale.MICROSECONDS[column.precision]
    low, high = (int(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
    flags: Flags = {}
    if given.form == "text":
        found = moments(given.cells, given.name, column, given.backend)
        micros, beyond = found.micros, ibis.literal(False)
        flags = {Fault.TIME: given.present & micros.isnull() & ~found.zone_at_fault, Fault.ZONE: found.zone_at_fault}
        fine = ibis.literal(False)
    else:
        zoned = kind.is_timestamp() and kind.timezone is not None and given.backend != "pyspark"
        if zoned and zone is None:
            return {Fault.ZONE: given.present}
        if zone is not None and not zoned and given.backend != "pyspark":
            raise cannot(given.name, kind, f"a time of timezone={zone!r}")
        micros = days(given.cells) * numeric_scale.DAY if kind.is_date() else microseconds(given.cells, given.backend)
        # What is not of the calendar lies outside any bounds.
        beyond = given.present & micros.isnull()
        fine = finer_than_micros(given.cells, given.backend)
    held = floored(micros, unit, given.backend) * unit
    flags[Fault.CLOCK if day else Fault.PRECISION] = (micros != held) | fine
    # Only what is null is beyond: a comparison with it says nothing.
    flags[Fault.BOUNDS] = ((held < low) | (held > high)).fill_null(False) | beyond
    return flags


COLUMNS_A_SCAN = 16
"""Columns whose faults one scan counts."""


@dataclass(frozen=True)
class ColumnFaults:
    """The faults of one column."""

    counts: Mapping[Fault, int]
    n_missing: int


def violations_of(table: StoredTable, schema: Schema) -> list[Violation]:
    """All that does not fit, in the order and the words of `synth.table`; empty where the table conforms.

    The table may be a part of one that was checked as a whole: a column may be empty by chance.

    Args:
        table: *Sensitive*. Where it is stored.
    """
    names = [name for name in table.rows.columns if name != table.slot]
    found = list(of_names(names, schema, extra=True))
    if found:
        return found
    declared = schema.status == "declared"
    return [
        Violation(name, *words(fault, schema.columns[name], declared=declared))
        for name, faults in counted_faults(table, schema).items()
        for fault in faults.counts
    ]


def refuse_violations(table: StoredTable, schema: Schema) -> None:
    """Refuse a table that does not fit, by the first violation."""
    for violation in violations_of(table, schema):
        raise TableError(str(violation))


def counted_faults(table: StoredTable, schema: Schema) -> dict[str, ColumnFaults]:
    """The faults of every kept column that the table has."""
    names = [name for name in schema.kept if name in table.rows.columns]
    found: dict[str, ColumnFaults] = {}
    for start in range(0, len(names), COLUMNS_A_SCAN):
        found |= _counted(table, schema, names[start : start + COLUMNS_A_SCAN])
    return found


def looked(table: StoredTable, schema: Schema) -> dict[str, Looked]:
    """The cells with each fault, repeated identifiers among them."""
    reader = Reader.of(table.place.backend, schema)
    found = {}
    for name in schema.kept:
        seen = look(table.rows[name], name, schema.columns[name], reader)
        if is_key(name, schema):
            own = own_values(table.rows[name], schema.columns[name], reader)
            again = later(table, own)
            seen = Looked(seen.missing, {**seen.faults, Fault.REPEATED: again})
        found[name] = seen
    return found


def later(table: StoredTable, own: Any) -> ir.BooleanColumn:
    """Flags of the rows that repeat a value of an earlier one; without an order, of all but one of them, whichever.

    Args:
        table: *Sensitive*.
    """
    order = [] if table.slot is None else [table.rows[table.slot].length(), table.rows[table.slot]]
    place = ibis.row_number().over(group_by=own, order_by=order)
    return ~own.isnull() & (place > 0)


def is_key(name: str, schema: Schema) -> bool:
    """True if a column is an identifier that names rows, so that it may not repeat."""
    return schema.columns[name].is_identifier and name != schema.entity


def own_values(cells: ir.Column, column: Column, reader: Reader) -> Any:
    """Cells of an identifier such that equal names are equal; null where there is none."""
    kind: Any = cells.type()
    if not column.holds_whole_numbers:
        return reader.present(cells) if kind.is_string() else cells
    return reader.wholes(cells, "") if kind.is_string() or kind.is_numeric() else ibis.null("int64")


def _counted(table: StoredTable, schema: Schema, names: list[str]) -> dict[str, ColumnFaults]:
    reader = Reader.of(table.place.backend, schema)
    seen = {name: look(table.rows[name], name, schema.columns[name], reader) for name in names}
    flags = dict(_named(seen))
    repeated = {name: f"r{place}" for place, name in enumerate(names) if is_key(name, schema)}
    own = {number: own_values(table.rows[name], schema.columns[name], reader) for name, number in repeated.items()}
    read = table.place.apart(
        table.rows.select(**{key: ibis.ifelse(flag, 1, 0) for key, (_, _, flag) in flags.items()}, **own)
    )
    asked = {key: read[key].sum().fill_null(0).cast("int64") for key in flags}
    asked |= {number: read[number].count() - read[number].nunique() for number in own}
    answer = table.place.fetch(read.agg(**asked))
    counts = {key: int(answer.column(key)[0].as_py()) for key in asked}
    found = {}
    for name in names:
        of_name = {
            fault: counts[key] for key, (whose, fault, _) in flags.items() if whose == name and fault is not None
        }
        if name in repeated:
            of_name[Fault.REPEATED] = counts[repeated[name]]
        n_missing = next(counts[key] for key, (whose, fault, _) in flags.items() if whose == name and fault is None)
        found[name] = ColumnFaults({fault: n for fault, n in of_name.items() if n}, n_missing)
    return found


def _named(seen: Mapping[str, Looked]) -> Iterator[tuple[str, tuple[str, Fault | None, Any]]]:
    """Every flag under a short key, with its column and fault; no fault: which cells are missing."""
    for place, (name, column) in enumerate(seen.items()):
        yield f"m{place}", (name, None, column.missing)
        for number, (fault, flag) in enumerate(column.faults.items()):
            yield f"f{place}_{number}", (name, fault, flag)
