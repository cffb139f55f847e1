"""Whether synthetic rows keep the rules of the schema: of kinds, domains, precision, missing values, keys, constraints.

This is the one measure that looks at the table as it was offered; the others look at it clamped to the schema. Repeated
values of an identifier that is not the entity count against the rows that repeat them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from evaluate.intervals import clopper_pearson, design_effect
from evaluate.masking import shapes
from evaluate.result import Estimate
from evaluate.sampling import entity_codes
from evaluate.tables import Measurement, Tables
from synth.columns import PersonalColumn
from synth.constraints import Constraint, Unique
from synth.domain.lawfulness import broken
from synth.observed import observe
from synth.personal.forms import form_of, ill_formed
from synth.schema import Schema
from synth.table import conform, faulty_rows, violations


def measure(tables: Tables) -> Measurement:
    """The share of rows without a violation, of valid values in each column, and of rows that keep each constraint."""
    offered, schema = tables.offered, tables.declared
    read = conform(offered, schema, outside="clamp", part=True)
    faulty = {name: faulty_rows(offered, _only(schema, name)) | _misshapen(read, schema, name) for name in schema.kept}
    units = _entities(read, schema)
    lawful = _Landmarks.of(tables)
    columns = [_column(offered, schema, name, flags, units) for name, flags in faulty.items()]
    laws = [_Law.of(read, constraint, tables.schema, faulty) for constraint in schema.constraints]
    constraints = [_constraint(law, marks) for law, marks in zip(laws, lawful.each, strict=True)]
    rows = np.logical_or.reduce([*faulty.values(), *(law.broken for law in laws)])
    wrong = [name for name, flags in faulty.items() if flags.any()]
    whole = _share("validity.rows", rows, (), _rows_note(offered, schema, wrong), units=units, marks=lawful.rows)
    return Measurement(estimates=(whole, *columns, *constraints), figures=_figure(laws, lawful, faulty, columns))


def valid_rows(offered: pd.DataFrame, schema: Schema) -> Estimate:
    """The share of rows without a violation, from the table and its declared schema alone: no real row is read.

    It is `validity.rows` without the landmarks, which are those of real rows.

    Args:
        offered: the table as it is published.
        schema: declared.

    Raises:
        TableError: a column is missing; nothing was measured.
    """
    read = conform(offered, schema, outside="clamp", part=True)
    faulty = {name: faulty_rows(offered, _only(schema, name)) | _misshapen(read, schema, name) for name in schema.kept}
    seen = observe(schema, read)
    laws = [_Law.of(read, constraint, seen, faulty) for constraint in schema.constraints]
    rows = np.logical_or.reduce([*faulty.values(), *(law.broken for law in laws)])
    return replace(_share("validity.rows", rows, (), "", units=_entities(read, schema)), reference=None, floor=None)


Marks = tuple[float, float]
"""The share of rows without a violation among fresh real rows, and among rows with shuffled columns."""


@dataclass(frozen=True)
class _Landmarks:
    """Of all constraints together, and of each: real values are all valid, and shuffling them changes none."""

    rows: Marks
    each: tuple[Marks, ...]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        constraints, columns = tables.declared.constraints, tables.schema.columns
        if not constraints:
            return cls((1.0, 1.0), ())
        flags = [
            [broken(frame, constraint, columns) for constraint in constraints]
            for frame in (tables.holdout, tables.shuffled)
        ]
        real, shuffled = (float(1 - np.logical_or.reduce(side).mean()) for side in flags)
        each = zip(*([float(1 - broken.mean()) for broken in side] for side in flags), strict=True)
        return cls((real, shuffled), tuple(each))


@dataclass(frozen=True)
class _Law:
    """One constraint and the rows that do not keep it.

    Attributes:
        constraint: what it is.
        broken: rows that break it, or hold a value in its columns that no column allows.
        n_faulty: how many of them hold such a value.
        units: of rows that go wrong together: those that repeat each other; entities otherwise.
        shapes: what rows look like that break it, and how many do.
    """

    constraint: Constraint
    broken: np.ndarray
    n_faulty: int
    units: np.ndarray
    shapes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, read: pd.DataFrame, constraint: Constraint, schema: Schema, faulty: Mapping[str, np.ndarray]) -> Self:
        """The constraint, checked on values that are clamped and missing where they cannot be read.

        What no column allows is flagged beside: it would count as lawful.
        """
        unread = np.logical_or.reduce([faulty[name] for name in constraint.columns])
        flags = broken(read, constraint, schema.columns)
        shown = shapes(read[flags & ~unread], constraint, schema)
        units = _alike(read, flags, constraint) if isinstance(constraint, Unique) else _entities(read, schema)
        return cls(constraint, flags | unread, int(unread.sum()), units, tuple(shown))


def _entities(read: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The entity of each row as a code from 0; a row without one is its own."""
    codes = entity_codes(read, schema)
    stray = np.flatnonzero(codes < 0)
    codes[stray] = len(read) + np.arange(len(stray))
    return np.unique(codes, return_inverse=True)[1]


def _alike(read: pd.DataFrame, repeated: np.ndarray, constraint: Unique) -> np.ndarray:
    """Each row as a unit of its own, but rows that repeat each other as one."""
    units = np.arange(len(read))
    places = np.flatnonzero(repeated)
    groups = read[list(constraint.columns)].iloc[places].groupby(list(constraint.columns), sort=False).ngroup()
    units[places] = len(read) + groups.to_numpy()
    return np.unique(units, return_inverse=True)[1]


def _misshapen(read: pd.DataFrame, schema: Schema, name: str) -> np.ndarray:
    """Which rows of a column of personal data hold no value of its form, or repeat one that may not be repeated."""
    column, values = schema.columns[name], read[name]
    if not isinstance(column, PersonalColumn):
        return np.zeros(len(values), dtype=bool)
    repeated = values.notna().to_numpy() & values.duplicated().to_numpy() & column.unique
    return np.asarray(ill_formed(values, column) | repeated)


def _constraint(law: _Law, marks: Marks) -> Estimate:
    n_broken, notes = int(law.broken.sum()), []
    if n_broken:
        notes.append(
            f"{n_broken:,} of {len(law.broken):,} rows break the constraint that {law.constraint}, or hold a value in "
            "its columns that the schema does not allow."
        )
    if marks[0] < 1:
        notes.append("Fresh real rows break it, too: the constraint is wrong.")
    # Rows that repeat each other come in pairs at least.
    least = 2.0 if isinstance(law.constraint, Unique) else 1.0
    return _share(
        "validity.constraint",
        law.broken,
        law.constraint.columns,
        " ".join(notes),
        units=law.units,
        marks=marks,
        least=least,
    )


def _figure(
    laws: Sequence[_Law], lawful: _Landmarks, faulty: Mapping[str, np.ndarray], columns: Sequence[Estimate]
) -> dict[str, Any]:
    """What the report lists: every constraint, and every column that breaks a rule; empty where there is neither."""
    constraints = [
        {
            "rule": str(law.constraint), "n": len(law.broken), "n_broken": int(law.broken.sum()),
            "n_unreadable": law.n_faulty, "reference": marks[0], "floor": marks[1],
            "shapes": [{"shape": shape, "n": n} for shape, n in law.shapes],
        }
        for law, marks in zip(laws, lawful.each, strict=True)
    ]  # fmt: skip
    wrong = [
        {"column": name, "n": len(flags), "n_broken": int(flags.sum()), "note": column.note}
        for (name, flags), column in zip(faulty.items(), columns, strict=True)
        if flags.any()
    ]
    return {"validity": {"constraints": constraints, "columns": wrong}} if constraints or wrong else {}


def _only(schema: Schema, name: str) -> Schema:
    """The schema of one column alone; its entity stays named, so that a key is still told from the entity."""
    return schema.model_copy(update={"columns": {name: schema.columns[name]}})


def _share(
    measure: str,
    faulty: np.ndarray,
    subject: tuple[str, ...],
    note: str,
    *,
    units: np.ndarray,
    marks: Marks = (1.0, 1.0),
    least: float = 1.0,
) -> Estimate:
    n, share = len(faulty), float(1 - faulty.mean())
    worth = n / max(least, design_effect(faulty, units))
    low, high = clopper_pearson(share * worth, worth)
    return Estimate(
        measure, share, n, "higher", subject=subject, low=low, high=high, reference=marks[0], floor=marks[1], note=note
    )


def _column(offered: pd.DataFrame, schema: Schema, name: str, faulty: np.ndarray, units: np.ndarray) -> Estimate:
    note = ""
    if faulty.any():
        rules = [violation.rule for violation in violations(offered[[name]], _only(schema, name))]
        column = schema.columns[name]
        if isinstance(column, PersonalColumn):
            once = ", or repeats them" if column.unique else ""
            rules.append(f"holds values that have not the form of its kind ({form_of(column)}){once}")
        note = f"{int(faulty.sum()):,} of {len(faulty):,} rows break a rule: the column {', and '.join(rules)}."
    return _share("validity.column", faulty, (name,), note, units=units)


def _rows_note(offered: pd.DataFrame, schema: Schema, broken: list[str]) -> str:
    notes = []
    if broken:
        notes.append(f"Columns that break a rule: {', '.join(map(repr, broken))}.")
    extra = [str(name) for name in offered.columns if name not in schema.columns]
    if extra:
        notes.append(f"Columns that the schema does not know: {', '.join(map(repr, extra))}.")
    return " ".join(notes)
