"""A table in the canonical form of its schema, and all that does not fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import TableError, nearest
from synth.schema import BooleanColumn, CategoricalColumn, Column, IdentifierColumn, Schema
from synth.table.faults import UNREADABLE, Fault, words
from synth.table.given import Given, look
from synth.table.kinds import read

Outside = Literal["refuse", "clamp"]


@dataclass(frozen=True)
class Violation:
    """One way in which a table does not fit its schema. It tells no cell value and no exact count.

    Attributes:
        column: the column it is about; none: the table as a whole.
        rule: what is broken.
        remedy: what to do about it.
    """

    column: str | None
    rule: str
    remedy: str

    def __str__(self) -> str:
        subject = "the table" if self.column is None else f"column={self.column!r}"
        return f"{subject} {self.rule}; {self.remedy}"


@dataclass(frozen=True)
class _Checked:
    """One column in canonical form, and which rows are at fault."""

    values: pd.Series
    faults: dict[Fault, np.ndarray]


def conform(
    frame: pd.DataFrame, schema: Schema, *, outside: Outside = "refuse", part: bool = False
) -> pd.DataFrame:
    """The table in the canonical form of its schema: kept columns, in order, each in its kind's dtype.

    Args:
        frame: *Sensitive*. Any dtypes, any index; it is not changed. Columns that the schema drops may be absent.
        schema: what the columns should hold.
        outside: "refuse" whatever does not fit, or "clamp": numbers and times go to the nearest bound, unknown
            categories stay as they are, what cannot be read becomes missing, and no value is refused.
        part: the rows are part of a table that was checked as a whole, so that a column may be empty, and a target
            constant, by chance.

    Raises:
        TableError: the table does not fit, named by its first violation, or it lacks a column.
    """
    for violation in _of_names(frame, schema, extra=outside == "refuse"):
        raise TableError(str(violation))
    missing_texts = frozenset({"", *schema.missing_values})
    columns = {}
    for name in schema.kept:
        checked = _check(frame[name], schema.columns[name], missing_texts, clamp=outside == "clamp")
        if outside == "refuse":
            for violation in _of_cells(name, checked, schema):
                raise TableError(str(violation))
        columns[name] = checked.values
    made = pd.DataFrame(columns, index=pd.RangeIndex(len(frame)), columns=list(schema.kept))
    if outside == "refuse" and not part:
        for violation in _of_table(made, schema):
            raise TableError(str(violation))
    return made


def violations(frame: pd.DataFrame, schema: Schema) -> list[Violation]:
    """All that does not fit, column by column, then the table as a whole; empty where the table conforms.

    Args:
        frame: *Sensitive*. Any dtypes, any index.
        schema: what the columns should hold.
    """
    found = list(_of_names(frame, schema, extra=True))
    if any(violation.column is None for violation in found):
        return found
    missing_texts = frozenset({"", *schema.missing_values})
    columns = {}
    for name in schema.kept:
        if name not in frame.columns:
            continue
        checked = _check(frame[name], schema.columns[name], missing_texts, clamp=False)
        found.extend(_of_cells(name, checked, schema))
        columns[name] = checked.values
    return found + list(_of_table(pd.DataFrame(columns, index=pd.RangeIndex(len(frame))), schema))


def faulty_rows(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Which rows have a cell that does not fit; shape (len(frame),), boolean.

    Args:
        frame: rows to check; every column of the schema must be there.
        schema: what the columns should hold.

    Raises:
        TableError: a column is missing.
    """
    for violation in _of_names(frame, schema, extra=False):
        raise TableError(str(violation))
    faulty = np.zeros(len(frame), dtype=bool)
    missing_texts = frozenset({"", *schema.missing_values})
    for name in schema.kept:
        checked = _check(frame[name], schema.columns[name], missing_texts, clamp=False)
        for flags in _all_faults(name, checked, schema).values():
            faulty |= flags
    return faulty


def readable(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table in canonical form as it is, bounds and categories unchecked.

    Raises:
        TableError: a column is missing, or holds cells that no value of its kind stands for.
    """
    for violation in _of_names(frame, schema, extra=True):
        raise TableError(str(violation))
    missing_texts = frozenset({"", *schema.missing_values})
    columns = {}
    for name in schema.kept:
        checked = _check(frame[name], schema.columns[name], missing_texts, clamp=False)
        for fault in UNREADABLE:
            if checked.faults.get(fault, np.zeros(1)).any():
                raise TableError(str(Violation(name, *words(fault, schema.columns[name]))))
        columns[name] = checked.values
    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)), columns=list(schema.kept))


def _check(series: pd.Series, column: Column, missing_texts: frozenset[str], *, clamp: bool) -> _Checked:
    given = look(series, missing_texts)
    done = read(given, column, clamp=clamp)
    values = pd.Series(given.taken(done.values), index=pd.RangeIndex(len(series)))
    faults = {fault: given.rows(flags) for fault, flags in done.faults.items() if flags.any()}
    faults[Fault.MISSING] = _missing_rows(given)
    return _Checked(values, faults)


def _missing_rows(given: Given) -> np.ndarray:
    return given.missing_rows


def _all_faults(name: str, checked: _Checked, schema: Schema) -> dict[Fault, np.ndarray]:
    """Faults of the rows of a column, those that depend on its role included."""
    column = schema.columns[name]
    faults = dict(checked.faults)
    if column.missing:
        faults.pop(Fault.MISSING)
    if isinstance(column, IdentifierColumn) and name != schema.entity:
        present = checked.values.notna().to_numpy()
        faults[Fault.REPEATED] = present & checked.values.duplicated(keep="first").to_numpy()
    return faults


def _of_cells(name: str, checked: _Checked, schema: Schema) -> Iterator[Violation]:
    for fault, flags in _all_faults(name, checked, schema).items():
        if flags.any():
            yield Violation(name, *words(fault, schema.columns[name]))


def _of_names(frame: Any, schema: Schema, *, extra: bool) -> Iterator[Violation]:
    """Violations of column names: any of them keeps the cells from being read."""
    yield from names_at_fault(frame)
    missing = [name for name in schema.kept if name not in frame.columns]
    known = [str(name) for name in frame.columns if name not in schema.columns]
    for name in missing:
        near = nearest(name, known) if known else ""
        hint = f"{near} Rename it, or" if near.startswith("did") else "add it, or"
        yield Violation(name, "is in the schema and not in the table", f"{hint} set drop = true for it in the schema")
    for name in known if extra else []:
        near = nearest(name, missing) if missing else ""
        hint = f"{near} Rename it, or" if near.startswith("did") else "remove it, or"
        yield Violation(name, "is in the table and not in the schema", f"{hint} add it to the schema")


def names_at_fault(frame: Any) -> Iterator[Violation]:
    """Violations that make it unclear which column is which."""
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"a table must be a pandas DataFrame, not type={type(frame).__name__!r}; convert it first")
    if isinstance(frame.columns, pd.MultiIndex) or not all(isinstance(name, str) for name in frame.columns):
        yield Violation(None, "has column names that are not text", "rename its columns to texts")
        return
    for name in dict.fromkeys(frame.columns[frame.columns.duplicated()]):
        yield Violation(None, f"has two columns of name={name!r}", "give every column a name of its own")
    if "" in frame.columns:
        yield Violation(None, "has a column with an empty name", "give every column a name of its own")


def _of_table(made: pd.DataFrame, schema: Schema) -> Iterator[Violation]:
    """Violations of the table as a whole."""
    if len(made) == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name in made.columns:
        column = schema.columns[name]
        known_empty = isinstance(column, CategoricalColumn) and not column.categories
        if made[name].isna().all() and not known_empty:
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(str(name), "has missing values only", remedy)
    yield from _of_target(made, schema)
    units = len(made) if schema.entity is None else made.get(schema.entity, pd.Series(dtype=object)).nunique()
    if schema.n_units is not None and units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")


def _of_target(made: pd.DataFrame, schema: Schema) -> Iterator[Violation]:
    name = schema.target
    if name in made.columns and made[name].nunique() == 1:
        kind = "classes" if isinstance(schema.columns[str(name)], BooleanColumn | CategoricalColumn) else "values"
        yield Violation(name, f"is the target and has one value only, where two {kind} are needed", "choose another target")
