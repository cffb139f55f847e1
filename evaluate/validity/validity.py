"""Validity: the share of synthetic rows that keep the rules of the schema.

Rules are of kinds, domains, precision, missing values, keys and constraints. This is the one measure that looks at the
table as it was offered, and at all of its rows; the others look at it clamped to the schema. Repeated values of an
identifier that is not the entity count against the rows that repeat them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.all_rows import CellFaults, repeated, units_of
from evaluate.metrics import SYNTHETIC, Metric
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from evaluate.validity.masking import shapes
from evaluate.validity.shares import Judged, Landmarks, Law, ViolationCounts, rules_of_personal, share
from synth.constraints import Constraint, Unique
from synth.observed import observe
from synth.personal.formats import ill_formed
from synth.row_hash import entity_hashes
from synth.row_order import broken_in
from synth.schema import Schema
from synth.table.faults import words
from synth.table.restore_dtypes import dtype_trouble
from synth.table.rows import Rows

SHOWN_ROWS = 100_000  # Rows that break a constraint, of which shapes are told, at most

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
    rows = tables.offered if tables.offered is not None else Rows.of(tables.synthetic, tables.declared)
    judged = replace(_judged(rows, tables.declared, tables.schema, tables.ranks), translated=tables.translated)
    return judged.measurement(Landmarks.of(tables))


def valid_rows(offered: Any, schema: Schema) -> Estimate:
    """The share of rows without a violation, from the table and its declared schema alone: no real row is read. It is
    `validity.rows` without the landmarks, which are those of real rows.
    """
    rows = Rows.of(offered, schema)
    judged = _judged(rows, schema, observe(schema, rows.frame(*schema.measured)))
    return replace(share("validity.rows", judged.rows, (), ""), reference=None, floor=None)


def _judged(rows: Rows, schema: Schema, seen: Schema, ranks: np.ndarray | None = None) -> Judged:
    """The violations of all rows. `schema`: under which the rows were read. `seen`: the same with the domains that were
    observed.
    """
    faults, units = CellFaults.of(rows, schema, ranks), _units(rows, schema)
    faulty = {name: flags | _misshapen(rows, schema, name, ranks) for name, flags in faults.flags.items()}
    laws = [_law(rows, constraint, seen, faulty, units) for constraint in schema.constraints]
    flags = np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *faulty.values(), *(broken for _, broken in laws)])
    return Judged(
        ViolationCounts.of(flags, units),
        {name: ViolationCounts.of(flags, units) for name, flags in faulty.items()},
        {name: _rules(rows, schema, name, faults) for name, flags in faulty.items() if flags.any()},
        tuple(law for law, _ in laws),
    )


def _units(rows: Rows, schema: Schema) -> np.ndarray:
    """The entity of each row as a code from 0; a row without one is its own; shape (n,)."""
    if schema.entity is None:
        return np.arange(len(rows))
    return units_of(np.concatenate([entity_hashes(chunk, schema.entity, schema) for chunk in rows.chunks()]))


def _law(
    rows: Rows, constraint: Constraint, schema: Schema, faulty: Mapping[str, np.ndarray], units: np.ndarray
) -> tuple[Law, np.ndarray]:
    """A constraint, checked on values that are clamped and missing where they cannot be read, and the rows breaking it.
    What no column allows is flagged beside: it would count as lawful.
    """
    unread = np.logical_or.reduce([faulty[name] for name in constraint.columns])
    names = tuple(dict.fromkeys(constraint.columns))
    if isinstance(constraint, Unique):
        flags = repeated(rows, names, schema)
        units = _alike(rows, flags, names)  # rows that repeat each other go wrong together; rows of an entity otherwise
    else:
        frames = [rows.frame()] if constraint.looks_back else rows.frames(*names)
        flags = np.concatenate([broken_in(frame, constraint, schema) for frame in frames])
    tally = ViolationCounts.of(flags | unread, units)
    shown = _shapes(rows, flags & ~unread, constraint, schema)
    return Law(constraint, tally, int(unread.sum()), tuple(shown)), flags | unread


def _shapes(rows: Rows, flags: np.ndarray, constraint: Constraint, schema: Schema) -> Sequence[tuple[str, int]]:
    """The shapes of rows that break a constraint with values that columns allow, of many only some."""
    positions = np.flatnonzero(flags)
    if not len(positions):
        return []
    among = f"among {SHOWN_ROWS:,} of them: " if len(positions) > SHOWN_ROWS else ""
    broken_rows = rows.take(positions[:SHOWN_ROWS])
    return [(among + shape, n) for shape, n in shapes(broken_rows, constraint, schema)]


def _alike(rows: Rows, flags: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Each row as a unit of its own, but rows that repeat each other as one."""
    units, positions = np.arange(len(flags)), np.flatnonzero(flags)
    if len(positions):
        groups = rows.where(flags).frame(*names).groupby(list(names), sort=False).ngroup()
        units[positions] = len(flags) + groups.to_numpy()
    return np.unique(units, return_inverse=True)[1]


def _misshapen(rows: Rows, schema: Schema, name: str, ranks: np.ndarray | None) -> np.ndarray:
    """Flags of rows of a column of personal data with a value not of its form, or with a repeated unique value."""
    column: Any = schema.columns[name]
    if not column.is_personal:
        return np.zeros(len(rows), dtype=bool)
    flags = np.concatenate([ill_formed(frame[name], column) for frame in rows.frames(name)])
    ranks = np.arange(len(rows)) if ranks is None else ranks
    return np.asarray(flags | repeated(rows, (name,), schema, later=ranks)) if column.unique else flags


def _n_values(rows: Rows, name: str) -> int:
    return len(pd.concat([frame[name].drop_duplicates() for frame in rows.frames(name)]).dropna().unique())


def _rules(rows: Rows, schema: Schema, name: str, faults: CellFaults) -> list[str]:
    column = schema.columns[name]
    found = [words(kind, column, declared=schema.status == "declared")[0] for kind in faults.kinds[name]]
    known_empty = column.is_categorical and not (column.levels or column.is_measured)
    if name in faults.empty and not known_empty:
        found.append("has missing values only")
    if name == schema.target and _n_values(rows, name) == 1:
        found.append("is the target and has one value only")
    if (trouble := dtype_trouble(name, column)) is not None:
        found.append(trouble[0])
    if schema.n_units is not None and schema.entity in (None, name):
        n_units = len(rows) if schema.entity is None else _n_values(rows, name)
        what = "rows" if schema.entity is None else "entities"
        found += [f"has more {what} than n_units={schema.n_units}"] if n_units > schema.n_units else []
    return [*found, *rules_of_personal(column)]
