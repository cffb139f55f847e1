"""A table in the canonical form of its schema, and all that does not fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import TableError, nearest
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn, Column, IdentifierColumn
from synth.table.cells import CLAMPED, UNREADABLE, Fault, look, words
from synth.table.decode import holds_whole_numbers, read
from synth.table.restore_dtypes import dtype_trouble
from synth.table.strict_decode import look_alone
from synth.validation import is_plain

Outside = Literal["refuse", "clamp"]
_NONE = type(None)


@dataclass(frozen=True)
class Violation:
    """One way in which a table does not fit its schema. It tells no cell value and no exact count."""

    column: str | None
    rule: str
    remedy: str

    def __str__(self) -> str:
        subject = "the table" if self.column is None else f"column={self.column!r}"
        return f"{subject} {self.rule}; {self.remedy}"


@dataclass(frozen=True)
class _Checked:
    """One column in canonical form, and which rows are at fault."""

    series: pd.Series
    faults: dict[Fault, np.ndarray]


def conform(frame: pd.DataFrame, schema: Schema, *, outside: Outside = "refuse", part: bool = False) -> pd.DataFrame:
    """The table in the canonical form of its schema: kept columns, in order, each in its kind's dtype.

    Args:
        frame: *Sensitive*. Any dtypes, any index; it is not changed. Columns that the schema drops may be absent.
    """
    if outside == "clamp":
        return clamp(frame, schema)[0]
    for violation in of_names(frame, schema, extra=True):
        raise TableError(str(violation))
    columns = {}
    for name, checked in _checked(frame, schema):
        columns[name] = checked
        for violation in _of_cells(name, checked, schema):
            raise TableError(str(violation))
    if not part:
        for violation in _of_table(columns, len(frame), schema):
            raise TableError(str(violation))
    return _assembled(columns, len(frame))


def clamp(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, dict[str, float]]:
    """The table as `conform` clamps it, and the shares of cells that were clamped.

    Args:
        frame: *Sensitive*. As of `conform`.

    Returns:
        cannot be read; columns without any are left out. *Sensitive*: the shares are exact. Infinite numbers among
    """
    for violation in of_names(frame, schema, extra=False):
        raise TableError(str(violation))
    columns = dict(_checked(frame, schema, clamp=True))
    counts = {name: _n_clamped(checked) for name, checked in columns.items()}
    return _assembled(columns, len(frame)), {name: n / len(frame) for name, n in counts.items() if n}


def _n_clamped(checked: _Checked) -> int:
    flags = [checked.faults[fault] for fault in CLAMPED if fault in checked.faults]
    return int(np.count_nonzero(np.logical_or.reduce(flags))) if flags else 0


def violations(frame: pd.DataFrame, schema: Schema) -> list[Violation]:
    """All that does not fit, column by column, then the table as a whole; empty where the table conforms.

    Args:
        frame: *Sensitive*. Any dtypes, any index.
    """
    found = list(of_names(frame, schema, extra=True))
    if any(violation.column is None for violation in found):
        return found
    columns = {}
    for name, checked in _checked(frame, schema):
        columns[name] = checked
        found.extend(_of_cells(name, checked, schema))
    return found + list(_of_table(columns, len(frame), schema))


def faulty_rows(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Flags of the rows with a cell that does not fit; shape (len(frame),), boolean."""
    return np.asarray(faulty_cells(frame, schema).to_numpy(dtype=bool).any(axis=1))


def faulty_cells(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Flags of the cells that do not fit, by kept column; the rest as of `faulty_rows`."""
    for violation in of_names(frame, schema, extra=False):
        raise TableError(str(violation))
    columns = ((name, _all_faults(name, checked, schema)) for name, checked in _checked(frame, schema))
    flags = {name: np.logical_or.reduce([np.zeros(len(frame), bool), *faults.values()]) for name, faults in columns}
    return pd.DataFrame(flags, index=pd.RangeIndex(len(frame)), columns=pd.Index(list(flags), dtype=object))


def readable(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table in canonical form as it is, bounds and categories unchecked."""
    for violation in of_names(frame, schema, extra=True):
        raise TableError(str(violation))
    columns = {}
    for name, checked in _checked(frame, schema):
        columns[name] = checked
        for fault in UNREADABLE:
            if fault in checked.faults:
                declared = schema.status == "declared"
                raise TableError(str(Violation(name, *words(fault, schema.columns[name], declared=declared))))
    return _assembled(columns, len(frame))


def _assembled(columns: dict[str, _Checked], n_rows: int) -> pd.DataFrame:
    # No column shares memory with the caller's table, so that none needs to be copied into a block.
    values = {name: checked.series for name, checked in columns.items()}
    return pd.DataFrame(values, index=pd.RangeIndex(n_rows), columns=pd.Index(list(columns), dtype=object), copy=False)


def _checked(frame: pd.DataFrame, schema: Schema, *, clamp: bool = False) -> Iterator[tuple[str, _Checked]]:
    """The kept columns that the table has, in order, one at a time: the first fault ends the work."""
    missing_texts = frozenset({"", *schema.missing_values})
    for name in schema.kept:
        if name in frame.columns:
            yield name, _check(frame[name], schema.columns[name], missing_texts, clamp=clamp)


def _check(series: pd.Series, column: Column, missing_texts: frozenset[str], *, clamp: bool) -> _Checked:
    absent = _known_texts(series, column, missing_texts)
    if absent is not None:
        return _Checked(series.reset_index(drop=True), {Fault.MISSING: absent})
    given = look_alone(series, column, missing_texts) if clamp else look(series, missing_texts)
    done = read(given, column, clamp=clamp)
    taken = given.taken(done.values)
    # Named, so that pandas does not make times of objects that are to keep their own offsets.
    dtype = object if isinstance(taken, np.ndarray) and taken.dtype == object else None
    values = pd.Series(taken, index=pd.RangeIndex(len(series)), dtype=dtype)
    faults = {fault: given.rows(flags) for fault, flags in done.faults.items() if flags.any()}
    faults[Fault.MISSING] = given.missing_rows
    return _Checked(values, faults)


def check_column(series: pd.Series, column: Column, missing_texts: frozenset[str]) -> dict[Fault, np.ndarray]:
    """Flags of the rows of a column with each fault of a cell."""
    return _check(series, column, missing_texts, clamp=False).faults


def _known_texts(series: pd.Series, column: Column, missing_texts: frozenset[str]) -> np.ndarray | None:
    """Flags of the missing rows of a column of text categories that is canonical already; else `None`."""
    if series.dtype != object or not isinstance(column, CategoricalColumn) or holds_whole_numbers(column):
        return None
    if column.measure:  # with no list to compare with, every text is looked at for what it is
        return None
    cells = series.to_numpy()
    if not {type(cell) for cell in cells} <= {str, _NONE}:  # first of all: anything else may not even be compared
        return None
    distinct = set(cells.tolist())
    # A text that is missing when read alone is missing here too, whatever stands beside it.
    known = {category for category in column.categories if isinstance(category, str) and is_plain(category)}
    if not distinct <= {*known, None} - missing_texts:
        return None
    return pd.isna(cells) if None in distinct else np.zeros(len(cells), dtype=bool)


def _all_faults(name: str, checked: _Checked, schema: Schema) -> dict[Fault, np.ndarray]:
    """Faults of the rows of a column, those that depend on its role included."""
    column = schema.columns[name]
    faults = dict(checked.faults)
    if column.missing:
        faults.pop(Fault.MISSING)
    if isinstance(column, IdentifierColumn) and name != schema.entity:
        present = checked.series.notna().to_numpy()
        faults[Fault.REPEATED] = present & checked.series.duplicated(keep="first").to_numpy()
    return faults


def _of_cells(name: str, checked: _Checked, schema: Schema) -> Iterator[Violation]:
    for fault, flags in _all_faults(name, checked, schema).items():
        if flags.any():
            yield Violation(name, *words(fault, schema.columns[name], declared=schema.status == "declared"))


def of_names(frame: Any, schema: Schema, *, extra: bool) -> Iterator[Violation]:
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
    for name in frame.columns:
        if not is_plain(name):
            yield Violation(None, f"has a NUL character or half a surrogate pair in column={name!r}", "rename it")


def _of_table(columns: dict[str, _Checked], n_rows: int, schema: Schema) -> Iterator[Violation]:
    """Violations of the table as a whole."""
    if n_rows == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name, checked in columns.items():
        column = schema.columns[name]
        known_empty = isinstance(column, CategoricalColumn) and not (column.categories or column.measure)
        if checked.faults[Fault.MISSING].all() and not known_empty:
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(name, "has missing values only", remedy)
    if schema.target in columns and len(columns[schema.target].series.dropna().unique()) == 1:
        yield Violation(schema.target, "is the target and has one value only", "choose a target that varies")
    for name in columns:
        if (trouble := dtype_trouble(name, schema.columns[name])) is not None:
            yield Violation(name, *trouble)
    yield from _of_units(columns, n_rows, schema)


def _of_units(columns: dict[str, _Checked], n_rows: int, schema: Schema) -> Iterator[Violation]:
    if schema.n_units is None or (schema.entity is not None and schema.entity not in columns):
        return
    units = n_rows if schema.entity is None else columns[schema.entity].series.nunique()
    if units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")
