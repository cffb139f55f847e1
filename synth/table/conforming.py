"""A table in the canonical form of its schema, and all that does not fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import TableError, nearest
from synth.schema import Schema
from synth.table.chunk import Chunk
from synth.table.faults import BIT, CLAMPED_BITS, UNREADABLE, Fault, faults_in, words
from synth.table.restore_dtypes import dtype_trouble
from synth.table.table import Table, names_at_fault

Outside = Literal["refuse", "clamp"]


@dataclass(frozen=True)
class Violation:
    """One way in which a table does not fit its schema. It tells no cell value and no exact count."""

    column: str | None
    rule: str
    remedy: str

    def __str__(self) -> str:
        subject = "the table" if self.column is None else f"column={self.column!r}"
        return f"{subject} {self.rule}; {self.remedy}"


def conform(source: Any, schema: Schema, *, outside: Outside = "refuse", part: bool = False) -> pd.DataFrame:
    """The table in the canonical form of its schema: kept columns, in order, each in its kind's dtype.

    Args:
        source: *Sensitive*. All that `Table.of` takes; it is not changed. Columns that the schema drops may be absent.
        schema: what is public about it.
        outside: "refuse" a table that does not fit, or "clamp" its cells to the nearest bound.
        part: the rows are some of a table, which may lack or have by chance what the whole does not.
    """
    if outside == "clamp":
        return clamp(source, schema)[0]
    table = Table.of(source)
    for violation in of_names(table.names, schema, extra=True):
        raise TableError(str(violation))
    chunk = table.chunk(schema)
    for violation in _of_cells(chunk, schema):
        raise TableError(str(violation))
    frame = chunk.frame(schema)
    if not part:
        for violation in _of_table(frame, schema):
            raise TableError(str(violation))
    return frame


def clamp(source: Any, schema: Schema) -> tuple[pd.DataFrame, dict[str, float]]:
    """The table as `conform` clamps it, and the shares of cells that were clamped, of columns with any. *Sensitive*."""
    table = Table.of(source)
    for violation in of_names(table.names, schema, extra=False):
        raise TableError(str(violation))
    chunk = table.chunk(schema)
    counts = {name: int(np.count_nonzero(bits & CLAMPED_BITS)) for name, bits in chunk.faults.items() if bits.any()}
    return chunk.frame(schema), {name: n / chunk.n for name, n in counts.items() if n}


def readable(source: Any, schema: Schema) -> pd.DataFrame:
    """The table in canonical form as it is, bounds and categories unchecked."""
    table = Table.of(source)
    for violation in of_names(table.names, schema, extra=True):
        raise TableError(str(violation))
    chunk = table.chunk(schema, clamp=False)
    for name, bits in chunk.faults.items():
        for fault in faults_in(bits):
            if fault in UNREADABLE:
                raise TableError(str(violation_of(name, fault, schema)))
    return chunk.frame(schema)


def violations(source: Any, schema: Schema) -> list[Violation]:
    """All that does not fit, column by column, then the table as a whole; empty where the table conforms."""
    table = Table.of(source, named=False)
    broken = list(of_names(table.names, schema, extra=True))
    if any(violation.column is None for violation in broken):
        return broken
    chunk = table.chunk(schema, clamp=False, only=set(table.names))
    return [*broken, *_of_cells(chunk, schema), *_of_table(chunk.frame(schema), schema)]


def faulty_rows(source: Any, schema: Schema) -> np.ndarray:
    """Flags of the rows with a cell that does not fit; shape (n_rows,), boolean."""
    return np.asarray(faulty_cells(source, schema).to_numpy(dtype=bool).any(axis=1))


def faulty_cells(source: Any, schema: Schema) -> pd.DataFrame:
    """Flags of the cells that do not fit, by kept column; the rest as of `faulty_rows`."""
    table = Table.of(source)
    for violation in of_names(table.names, schema, extra=False):
        raise TableError(str(violation))
    chunk = table.chunk(schema)
    flags = {name: bits != 0 for name, bits in _all_bits(chunk, schema)}
    return pd.DataFrame(flags, index=pd.RangeIndex(chunk.n), columns=pd.Index(list(flags), dtype=object))


def _all_bits(chunk: Chunk, schema: Schema) -> Iterator[tuple[str, np.ndarray]]:
    """Bits of the cells of each column, with those that depend on its role."""
    for name, bits in chunk.faults.items():
        if schema.columns[name].is_identifier and name != schema.entity:
            series = chunk.frame(schema, [name])[name]
            again = series.notna().to_numpy() & series.duplicated(keep="first").to_numpy()
            bits = bits | np.where(again, BIT[Fault.REPEATED], np.uint16(0))
        yield name, bits


def _of_cells(chunk: Chunk, schema: Schema) -> Iterator[Violation]:
    for name, bits in _all_bits(chunk, schema):
        yield from (violation_of(name, fault, schema) for fault in faults_in(bits))


def violation_of(name: str, fault: Fault, schema: Schema) -> Violation:
    return Violation(name, *words(fault, schema.columns[name], declared=schema.status == "declared"))


def of_names(names: Sequence[str], schema: Schema, *, extra: bool) -> Iterator[Violation]:
    """Violations of column names: any of them keeps the cells from being read."""
    yield from (Violation(None, *trouble) for trouble in names_at_fault(names))
    sources = {c.part.column for c in schema.columns.values() if c.part is not None}
    missing = [source for source, parts in schema.written.items() if source not in names and not {*parts} <= {*names}]
    known = [str(name) for name in names if name not in schema.columns and name not in sources]
    for name in missing:
        near = nearest(name, known) if known else ""
        hint = f"{near} Rename it, or" if near.startswith("did") else "add it, or"
        yield Violation(name, "is in the schema and not in the table", f"{hint} set drop = true for it in the schema")
    for name in known if extra else []:
        near = nearest(name, missing) if missing else ""
        hint = f"{near} Rename it, or" if near.startswith("did") else "remove it, or"
        yield Violation(name, "is in the table and not in the schema", f"{hint} add it to the schema")


def _of_table(frame: pd.DataFrame, schema: Schema) -> Iterator[Violation]:
    n_present = {str(name): int(series.notna().sum()) for name, series in frame.items()}
    n_values = len(frame[schema.target].dropna().unique()) if schema.target in n_present else None
    n_units = len(frame) if schema.entity is None else None
    if schema.entity in n_present:
        n_units = int(frame[schema.entity].nunique())
    yield from of_table(schema, len(frame), n_present, n_values, n_units)


def of_table(
    schema: Schema, n_rows: int, n_present: Mapping[str, int], n_values: int | None, n_units: int | None
) -> Iterator[Violation]:
    """Violations of the table as a whole.

    Args:
        n_present: how many cells of each column that there is are not missing.
        n_values: how many values the target has; `None`: it is not there.
        n_units: how many rows, or entities where there are such; `None`: the entity is not there.
    """
    if n_rows == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name, n in n_present.items():
        column = schema.columns[name]
        known_empty = column.is_categorical and not (column.levels or column.is_measured)
        if not (known_empty or n):
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(name, "has missing values only", remedy)
    if n_values == 1:
        yield Violation(schema.target, "is the target and has one value only", "choose a target that varies")
    for name in n_present:
        if (trouble := dtype_trouble(name, schema.columns[name])) is not None:
            yield Violation(name, *trouble)
    if schema.n_units is not None and n_units is not None and n_units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")
