"""All that does not fit a schema in rows that were read in chunks: faults of cells, and rules about the whole table."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from synth.columns import CategoricalColumn, IdentifierColumn
from synth.schema import Schema
from synth.table.conforming import Violation
from synth.table.faults import Fault, faults_in, words
from synth.table.restore_dtypes import dtype_trouble
from synth.table.rows import Rows


def violations_of(rows: Rows) -> list[Violation]:
    """Violations column by column, then those of the table as a whole; without a cell value or a count."""
    schema = rows.schema
    bits, n_present = dict.fromkeys(schema.kept, np.uint16(0)), dict.fromkeys(schema.kept, 0)
    for chunk in rows.chunks():
        for name, array in chunk.columns.items():
            bits[name] |= np.bitwise_or.reduce(chunk.faults[name], initial=0)
            n_present[name] += len(array) - array.null_count
    found = []
    for name in schema.kept:
        faults = faults_in(np.array([bits[name]]))
        if isinstance(schema.columns[name], IdentifierColumn) and name != schema.entity and _repeats(rows, name):
            faults.append(Fault.REPEATED)
        declared = schema.status == "declared"
        found += [Violation(name, *words(fault, schema.columns[name], declared=declared)) for fault in faults]
    return [*found, *_of_table(rows, schema, n_present)]


def _of_table(rows: Rows, schema: Schema, n_present: dict[str, int]) -> Iterator[Violation]:
    if len(rows) == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name in schema.kept:
        column = schema.columns[name]
        known_empty = isinstance(column, CategoricalColumn) and not (column.categories or column.measure)
        if not known_empty and n_present[name] == 0:
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(name, "has missing values only", remedy)
    if schema.target in n_present:
        values = {value for frame in rows.frames(schema.target) for value in frame[schema.target].dropna().unique()[:2]}
        if len(values) == 1:
            yield Violation(schema.target, "is the target and has one value only", "choose a target that varies")
    for name in schema.kept:
        if (trouble := dtype_trouble(name, schema.columns[name])) is not None:
            yield Violation(name, *trouble)
    if schema.n_units is None or (schema.entity is not None and schema.entity not in n_present):
        return
    units = len(rows) if schema.entity is None else len(np.unique(_hashes(rows, schema.entity)))
    if units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")


def _repeats(rows: Rows, name: str) -> bool:
    hashes = _hashes(rows, name)
    return len(np.unique(hashes)) < len(hashes)


def _hashes(rows: Rows, name: str) -> np.ndarray:
    """A number for each present value of a column, in 8 bytes a row."""
    parts = [pd.util.hash_array(frame[name].dropna().to_numpy(dtype=object)) for frame in rows.frames(name)]
    return np.concatenate(parts)
