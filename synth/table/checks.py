"""All that does not fit a schema in rows that were read in chunks: faults of cells, and rules about the whole table."""

import numpy as np

from synth.table.conforming import Violation, of_table, violation_of
from synth.table.faults import Fault, faults_in
from synth.table.rows import Rows, has_repeats, value_hashes


def violations_of(rows: Rows) -> list[Violation]:
    """Violations column by column, then those of the table as a whole; without a cell value or a count."""
    schema = rows.schema
    bits, n_present = dict.fromkeys(schema.kept, np.uint16(0)), dict.fromkeys(schema.kept, 0)
    for chunk in rows.chunks():
        for name, array in chunk.columns.items():
            bits[name] |= np.bitwise_or.reduce(chunk.faults[name], initial=0)
            n_present[name] += len(array) - array.null_count
    broken = []
    for name in schema.kept:
        faults = faults_in(np.array([bits[name]]))
        if schema.columns[name].is_identifier and name != schema.entity and has_repeats(rows, name):
            faults.append(Fault.REPEATED)
        broken += [violation_of(name, fault, schema) for fault in faults]
    values = (
        {v for f in rows.frames(schema.target) for v in f[schema.target].dropna().unique()[:2]} if schema.target else ()
    )
    n_units = len(rows) if schema.entity is None else len(np.unique(value_hashes(rows, schema.entity)))
    n_values = len(values) if schema.target else None
    return [*broken, *of_table(schema, len(rows), n_present, n_values, n_units)]
