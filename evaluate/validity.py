"""Whether synthetic rows keep the rules of the schema: of kinds, domains, precision, missing values, keys, constraints.

This is the one measure that looks at the table as it was offered; the others look at it clamped to the schema. Repeated
values of an identifier that is not the entity count against the rows that repeat them.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.tables import Measurement, Tables
from synth.constraints import Constraint
from synth.domain.lawfulness import broken
from synth.schema import Schema
from synth.table import conform, faulty_rows, violations


def measure(tables: Tables) -> Measurement:
    """The share of rows without a violation, of valid values in each column, and of rows that keep each constraint."""
    offered, schema = tables.offered, tables.declared
    faulty = {name: faulty_rows(offered, _only(schema, name)) for name in schema.kept}
    columns = [_column(offered, schema, name, flags) for name, flags in faulty.items()]
    unlawful = _unlawful(offered, schema, faulty)
    constraints = [
        _constraint(constraint, flags) for constraint, flags in zip(schema.constraints, unlawful, strict=True)
    ]
    rows = np.logical_or.reduce([*faulty.values(), *unlawful])
    wrong = [name for name, flags in faulty.items() if flags.any()]
    whole = _share("validity.rows", rows, (), _rows_note(offered, schema, wrong))
    return Measurement(estimates=(whole, *columns, *constraints))


def _unlawful(offered: pd.DataFrame, schema: Schema, faulty: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """For each constraint, which rows do not keep it; a row with a faulty value in one of its columns never does.

    The constraint itself is checked on values that are clamped and missing where they cannot be read: without the
    flags, what no column allows would count as lawful.
    """
    if not schema.constraints:
        return []
    read = conform(offered, schema, outside="clamp", part=True)
    return [
        np.logical_or.reduce(
            [broken(read, constraint, schema.columns), *(faulty[name] for name in constraint.columns)], axis=0
        )
        for constraint in schema.constraints
    ]


def _constraint(constraint: Constraint, flags: np.ndarray) -> Estimate:
    note = ""
    if flags.any():
        note = (
            f"{int(flags.sum()):,} of {len(flags):,} rows break the constraint that {constraint}, or hold a value in "
            "its columns that the schema does not allow."
        )
    return _share("validity.constraint", flags, constraint.columns, note)


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
