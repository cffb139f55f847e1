"""Validity: the share of synthetic rows that keep the rules of the schema.

Rules are of kinds, domains, precision, missing values, keys and constraints. This is the one measure that looks at the
table as it was offered; the others look at it clamped to the schema. Repeated values of an identifier that is not the
entity count against the rows that repeat them.

A table that stays where it is stored is counted there, by `evaluate.validity.stored`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.metrics import SYNTHETIC, Metric
from evaluate.result import Estimate
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.validity.masking import shapes
from evaluate.validity.shares import Judged, Landmarks, Law, ViolationCounts, only, rules_of_personal, share
from synth.constraints import Constraint, Unique
from synth.domain.constraint_checks import broken
from synth.observed import observe
from synth.personal.formats import ill_formed
from synth.schema import Schema
from synth.table import conform, violations
from synth.table.conforming import faulty_cells

METRICS = (
    Metric("validity.rows", "higher", "Valid rows", "Share of synthetic rows that keep every rule of the schema.",
           counted=SYNTHETIC, key=True),
    Metric("validity.column", "higher", "Valid values",
           "Share of values of a column that keep every rule of the schema.", counted=SYNTHETIC),
    Metric("validity.constraint", "higher", "Lawful rows",
           "Share of synthetic rows that keep a constraint between columns.", counted=SYNTHETIC),
)  # fmt: skip


def measure(tables: Tables) -> MetricResult:
    """The share of rows without a violation, of valid values in each column, and of rows that keep each constraint."""
    if tables.stored is not None:
        from evaluate.validity.stored import measure_stored  # its libraries are slow to import

        return measure_stored(tables, tables.stored.offered)
    offered, schema = tables.offered, tables.declared
    read = conform(offered, schema, outside="clamp", part=True)
    faulty = _faulty(offered, read, schema)
    units = entity_codes(read, schema)
    kept = [_kept(read, constraint, tables.schema, faulty) for constraint in schema.constraints]
    rows = np.logical_or.reduce([*faulty.values(), *(broken for _, broken in kept)])
    judged = Judged(
        ViolationCounts.of(rows, units),
        {name: ViolationCounts.of(flags, units) for name, flags in faulty.items()},
        {name: _rules(offered, schema, name) for name, flags in faulty.items() if flags.any()},
        tuple(law for law, _ in kept),
        tables.translated,
    )
    return judged.measurement(Landmarks.of(tables))


def valid_rows(offered: pd.DataFrame, schema: Schema) -> Estimate:
    """The share of rows without a violation, from the table and its declared schema alone: no real row is read.

    It is `validity.rows` without the landmarks, which are those of real rows.
    """
    read = conform(offered, schema, outside="clamp", part=True)
    faulty = _faulty(offered, read, schema)
    seen = observe(schema, read)
    kept = [_kept(read, constraint, seen, faulty) for constraint in schema.constraints]
    rows = np.logical_or.reduce([*faulty.values(), *(broken for _, broken in kept)])
    whole = share("validity.rows", ViolationCounts.of(rows, entity_codes(read, schema)), (), "")
    return replace(whole, reference=None, floor=None)


def _kept(
    read: pd.DataFrame, constraint: Constraint, schema: Schema, faulty: Mapping[str, np.ndarray]
) -> tuple[Law, np.ndarray]:
    """A constraint, checked on values that are clamped and missing where they cannot be read, and the rows breaking it.

    What no column allows is flagged beside: it would count as lawful.
    """
    unread = np.logical_or.reduce([faulty[name] for name in constraint.columns])
    flags = broken(read, constraint, schema.columns)
    shown = shapes(read[flags & ~unread], constraint, schema)
    # Rows that repeat each other go wrong together; rows of an entity otherwise.
    units = _alike(read, flags, constraint) if isinstance(constraint, Unique) else entity_codes(read, schema)
    return Law(constraint, ViolationCounts.of(flags | unread, units), int(unread.sum()), tuple(shown)), flags | unread


def _alike(read: pd.DataFrame, repeated: np.ndarray, constraint: Unique) -> np.ndarray:
    """Each row as a unit of its own, but rows that repeat each other as one."""
    units = np.arange(len(read))
    places = np.flatnonzero(repeated)
    groups = read[list(constraint.columns)].iloc[places].groupby(list(constraint.columns), sort=False).ngroup()
    units[places] = len(read) + groups.to_numpy()
    return np.unique(units, return_inverse=True)[1]


def _faulty(offered: pd.DataFrame, read: pd.DataFrame, schema: Schema) -> dict[str, np.ndarray]:
    """Masks of the rows that break a rule of each column."""
    cells = faulty_cells(offered, schema)
    return {name: cells[name].to_numpy() | _misshapen(read, schema, name) for name in schema.kept}


def _misshapen(read: pd.DataFrame, schema: Schema, name: str) -> np.ndarray:
    """Mask of rows of a column of personal data with a value not of its form, or with a repeated unique value."""
    column: Any = schema.columns[name]
    values = read[name]
    if not column.is_personal:
        return np.zeros(len(values), dtype=bool)
    repeated = values.notna().to_numpy() & values.duplicated().to_numpy() & column.unique
    return np.asarray(ill_formed(values, column) | repeated)


def _rules(offered: pd.DataFrame, schema: Schema, name: str) -> list[str]:
    """The rules that a column breaks, in words."""
    rules = [violation.rule for violation in violations(offered[[name]], only(schema, name))]
    return [*rules, *rules_of_personal(schema.columns[name])]
