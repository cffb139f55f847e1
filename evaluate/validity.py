"""Whether synthetic rows keep the rules of the schema: kinds, bounds, categories, precision, missing values, keys.

This is the one measure that looks at the table as it was offered; the others look at it clamped to the schema. Repeated
values of an identifier that is not the entity count against the rows that repeat them.
"""

import numpy as np
import pandas as pd

from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.tables import Measurement, Tables
from synth.schema import Schema
from synth.table import faulty_rows, violations


def measure(tables: Tables) -> Measurement:
    """The share of rows without a violation, and for each column the share of its values that are valid."""
    offered, schema = tables.offered, tables.declared
    faulty = {name: faulty_rows(offered, _only(schema, name)) for name in schema.kept}
    columns = [_column(offered, schema, name, flags) for name, flags in faulty.items()]
    rows = np.logical_or.reduce(list(faulty.values()))
    broken = [name for name, flags in faulty.items() if flags.any()]
    return Measurement(estimates=(_share("validity.rows", rows, (), _rows_note(offered, schema, broken)), *columns))


def _only(schema: Schema, name: str) -> Schema:
    """The schema of one column alone; its entity stays named, so that a key is still told from the entity."""
    return schema.model_copy(update={"columns": {name: schema.columns[name]}})


def _share(measure: str, faulty: np.ndarray, subject: tuple[str, ...], note: str) -> Estimate:
    n, n_valid = len(faulty), int((~faulty).sum())
    low, high = clopper_pearson(n_valid, n)
    return Estimate(measure, n_valid / n, n, "higher", subject=subject, low=low, high=high, reference=1.0, note=note)


def _column(offered: pd.DataFrame, schema: Schema, name: str, faulty: np.ndarray) -> Estimate:
    note = ""
    if faulty.any():
        rules = [violation.rule for violation in violations(offered[[name]], _only(schema, name))]
        note = f"{int(faulty.sum()):,} of {len(faulty):,} rows break a rule: the column {', and '.join(rules)}."
    return _share("validity.column", faulty, (name,), note)


def _rows_note(offered: pd.DataFrame, schema: Schema, broken: list[str]) -> str:
    notes = []
    if broken:
        notes.append(f"Columns that break a rule: {', '.join(map(repr, broken))}.")
    extra = [str(name) for name in offered.columns if name not in schema.columns]
    if extra:
        notes.append(f"Columns that the schema does not know: {', '.join(map(repr, extra))}.")
    return " ".join(notes)
