"""A table in the canonical form of its schema, and all that does not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import TableError, nearest
from synth.schema import Schema
from synth.table.cast import is_null
from synth.table.chunk import Chunk
from synth.table.faults import CLAMPED_BITS, UNREADABLE, Fault, faults_in, words
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
    """The table in the canonical form of its schema: kept columns, in order, each in its kind's dtype. *Sensitive*.
    `outside`: "refuse" a table that does not fit, or "clamp" its cells to the nearest bound.
    `part`: the rows are some of a table, which may lack or have by chance what the whole does not.
    """
    if outside == "clamp":
        return clamp(source, schema)[0]
    table = Table.of(source)
    refuse(of_names(table.names, schema, extra=True))
    chunk = table.chunk(schema)
    refuse(violations_of([chunk], schema, part=part))
    return chunk.frame(schema)


def clamp(source: Any, schema: Schema) -> tuple[pd.DataFrame, dict[str, float]]:
    """The table as `conform` clamps it, and the shares of cells that were clamped. *Sensitive*."""
    table = Table.of(source)
    refuse(of_names(table.names, schema, extra=False))
    chunk = table.chunk(schema)
    return chunk.frame(schema), shares_clamped([chunk])


def shares_clamped(chunks: Iterable[Chunk]) -> dict[str, float]:
    """*Sensitive*. The shares of cells that were clamped, of columns with any."""
    counts, n = Counter[str](), 0
    for chunk in chunks:
        counts.update({name: int(np.count_nonzero(bits & CLAMPED_BITS)) for name, bits in chunk.faults.items()})
        n += chunk.n
    return {name: count / n for name, count in counts.items() if count}


def readable(source: Any, schema: Schema) -> pd.DataFrame:
    """The table in canonical form as it is, bounds and categories unchecked."""
    table = Table.of(source)
    refuse(of_names(table.names, schema, extra=True))
    chunk = table.chunk(schema, clamp=False)
    refuse(
        violation_of(name, fault, schema)
        for name, bits in chunk.faults.items()
        for fault in faults_in(bits)
        if fault in UNREADABLE
    )
    return chunk.frame(schema)


def refuse(broken: Iterable[Violation]) -> None:
    for violation in broken:
        raise TableError(str(violation))


def violations(source: Any, schema: Schema) -> list[Violation]:
    """All that does not fit, column by column, then the table as a whole; empty where the table conforms."""
    table = Table.of(source, named=False)
    broken = list(of_names(table.names, schema, extra=True))
    if any(violation.column is None for violation in broken):
        return broken
    names = {*table.names}
    present = {n: c for n, c in schema.columns.items() if {n, c.part.column if c.part else n} & names}
    chunks = table.chunks(schema.model_copy(update={"columns": present}), clamp=False)
    return [*broken, *violations_of(chunks, schema)]


def violations_of(chunks: Iterable[Chunk], schema: Schema, *, part: bool = False) -> list[Violation]:
    """Violations of cells column by column, then, unless the rows are a part, of the table as a whole."""
    n_rows, bits, n_present = 0, dict[str, np.uint16](), Counter[str]()
    hashes = defaultdict[str, list[np.ndarray]](list)  # of values, in 8 bytes a row
    counted = {schema.entity, schema.target, *(name for name in schema.kept if schema.columns[name].is_identifier)}
    for chunk in chunks:
        n_rows += chunk.n
        for name, flags in chunk.faults.items():
            bits[name] = bits.get(name, np.uint16(0)) | np.bitwise_or.reduce(flags, initial=0)
            n_present[name] += int(np.count_nonzero(~is_null(chunk.columns[name])))
            if name in counted:
                values = chunk.frame(schema, [name])[name].dropna()
                hashes[name].append(pd.util.hash_array(values.to_numpy(dtype=object)))
    n_values = {name: len(np.unique(np.concatenate(pieces))) for name, pieces in hashes.items()}
    broken = []
    for name in bits:
        faults = faults_in(np.array([bits[name]]))
        if schema.columns[name].is_identifier and name != schema.entity and n_values[name] < n_present[name]:
            faults.append(Fault.REPEATED)
        broken += [violation_of(name, fault, schema) for fault in faults]
    return broken if part else [*broken, *_of_table(schema, n_rows, dict(n_present), n_values)]


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


def _of_table(
    schema: Schema, n_rows: int, n_present: Mapping[str, int], n_values: Mapping[str, int]
) -> Iterator[Violation]:
    """Violations of the table as a whole, of the columns that there are."""
    if n_rows == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name, n in n_present.items():
        column = schema.columns[name]
        known_empty = column.is_categorical and not (column.levels or column.is_measured)
        if not (known_empty or n):
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(name, "has missing values only", remedy)
    if schema.target is not None and n_values.get(schema.target) == 1:
        yield Violation(schema.target, "is the target and has one value only", "choose a target that varies")
    for name in n_present:
        if (trouble := dtype_trouble(name, schema.columns[name])) is not None:
            yield Violation(name, *trouble)
    n_units = n_rows if schema.entity is None else n_values.get(schema.entity, 0)
    if schema.n_units is not None and n_units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")
