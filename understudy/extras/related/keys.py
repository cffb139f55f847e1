"""The keys of related tables: which columns name a row, and which name the row of another table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, ValidationError, field_validator, model_validator

from evaluate.text import listed
from synth.errors import SchemaError, TableError, nearest
from synth.table import Table
from synth.validation import Frozen, refuse, sentence

Orphans = Literal["refuse", "drop", "keep"]
Most = Annotated[int, Field(ge=1, strict=True)]
Positions = NDArray[np.intp]  # of rows in another table, -1 for none; shape (n,)


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class ForeignKey(Frozen):
    columns: tuple[str, ...] = Field(min_length=1, description="Columns that name a row of a table, as its key does.")
    table: str = Field(description="That table.")

    _tuple = field_validator("columns", mode="before", json_schema_input_type=str | tuple[str, ...])(_names)

    def __str__(self) -> str:
        return f"{' + '.join(self.columns)} -> {self.table}"


class TableKeys(Frozen):
    """The keys of one table. `foreign` may be written as a dict of tables by column."""

    primary: tuple[str, ...] = Field(default=(), description="Columns that together name a row, and never repeat.")
    foreign: tuple[ForeignKey, ...] = Field(
        default=(), description="Its parents: by columns, the table that they name."
    )
    number: str | None = Field(default=None, description="Part of the key that counts the rows of a parent from 1.")
    most: Most | None = Field(default=None, description="Rows of one parent that a fit with epsilon uses at most.")
    most_of_unit: Most | None = Field(default=None, description="Rows of one unit likewise; left out: a product.")

    _tuple = field_validator("primary", mode="before", json_schema_input_type=str | tuple[str, ...])(_names)

    @field_validator("foreign", mode="before", json_schema_input_type=dict[str, str] | tuple[ForeignKey, ...])
    @classmethod
    def _listed(cls, value: Any) -> Any:
        pairs = value.items() if isinstance(value, Mapping) else ()
        return tuple({"columns": columns, "table": table} for columns, table in pairs) or value or ()

    @property
    def columns(self) -> set[str]:
        """All columns that are part of a key."""
        return {*self.primary, *(name for key in self.foreign for name in key.columns)}


class Keys(Frozen):
    """The keys of all tables, as somebody declared them or `infer_keys` proposed them."""

    tables: dict[str, TableKeys]
    reasons: dict[str, tuple[str, ...]] = Field(default={}, description="By table, why each key was proposed.")

    @classmethod
    def of(cls, keys: Any) -> Self:
        """Keys by table: the name of the primary key alone, or a dict with `primary` and `foreign`."""
        if isinstance(keys, cls):
            return keys
        if not isinstance(keys, Mapping):
            raise SchemaError(f"keys is a {type(keys).__name__}; give a dict of tables, or what infer_keys gives")
        content = {str(n): {"primary": key} if isinstance(key, str | tuple | list) else key for n, key in keys.items()}
        try:
            return cls(tables=content)
        except ValidationError as error:
            words = sentence(error, cls).replace("a table of TOML, with keys", "a dict with primary and foreign")
            raise SchemaError(f"keys cannot be used: {words.replace('a valid table', 'a dict')}") from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, own in self.tables.items():
            named = [("its primary key", own.primary), *((str(key), key.columns) for key in own.foreign)]
            if twice := next((words for words, columns in named if len({*columns}) < len(columns)), None):
                raise ValueError(f"{name}: {twice} has a column twice; name each once")
            for key in own.foreign:
                if key.table not in self.tables:
                    raise ValueError(f"{name}: {key} names no table; {nearest(key.table, self.tables)}")
                parent = self.tables[key.table]
                refuse([
                    (key.table == name,
                     f"{name}: {key} is of the table itself, and rows of one table are drawn at a time; take the key "
                     "and its column out, or keep the relation in a table of its own"),
                    (len(parent.primary) != len(key.columns),
                     f"{name}: {key} has {len(key.columns)} columns, and the key of {key.table} has "
                     f"{len(parent.primary)}; name the columns of its primary key"),
                    (sum({*key.columns} == {*other.columns} for other in own.foreign) > 1,
                     f"{name}: {key} is one of several keys of the same columns, and these name one parent; keep one"),
                ])  # fmt: skip
            of_foreign = {column for key in own.foreign for column in key.columns}
            if own.number is not None and own.number not in {*own.primary} - of_foreign:
                raise ValueError(f"{name}: number={own.number!r} is no part of its own of the primary key; add it")
        try:
            _ = self.order
        except CycleError as error:
            around = " -> ".join(map(str, error.args[1]))
            raise ValueError(f"tables refer to each other in a circle: {around}; take one of these keys out") from None
        return self

    def declared(self) -> Self:
        """The same keys, confirmed by whoever calls this: a fit with epsilon takes them."""
        return self.model_copy(update={"reasons": {}})

    @property
    def order(self) -> tuple[str, ...]:
        """The tables, parents before their children, else as they were named."""
        sorter = TopologicalSorter({name: [key.table for key in own.foreign] for name, own in self.tables.items()})
        sorter.prepare()
        order, names = list[str](), list(self.tables)
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=names.index)
            order += ready
            sorter.done(*ready)
        return tuple(order)

    def edges(self) -> Iterator[tuple[str, ForeignKey]]:
        for name in self.order:
            yield from ((name, key) for key in self.tables[name].foreign)

    def __repr__(self) -> str:
        n = sum(1 for _ in self.edges())
        return f"<Keys of {len(self.tables)} tables with {n} relation{'s' * (n != 1)}>"

    def __str__(self) -> str:
        """A line for each key, and why it was proposed."""
        lines = [repr(self).strip("<>")]
        for name in self.order:
            own, reasons = self.tables[name], self.reasons.get(name, ())
            numbered = f", {own.number} counts from 1" if own.number else ""
            written = [f"key {' + '.join(own.primary)}{numbered}" if own.primary else "no key", *map(str, own.foreign)]
            lines.append(f"{name}")
            lines += [
                f"  {key}{chr(32) * 2 * bool(key)}({why})" if why else f"  {key}"
                for key, why in zip_longest(written, reasons, fillvalue="")
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def positions(child: pd.DataFrame, columns: Sequence[str], parent: pd.DataFrame, key: Sequence[str]) -> Positions:
    """The row of the parent that each row of a child names, -1 where it names none. Of equal keys the first counts."""
    n = len(parent)
    whole, missing = np.zeros(n + len(child), dtype=np.int64), np.zeros(n + len(child), dtype=bool)
    for own, other in zip(columns, key, strict=True):
        codes = pd.factorize(pd.concat([comparable(parent[other]), comparable(child[own])], ignore_index=True))[0]
        missing |= codes < 0
        whole = np.unique(whole * (int(codes.max(initial=0)) + 2) + codes + 1, return_inverse=True)[1]
    whole = np.where(missing, -1, whole)
    first = np.full(int(whole.max(initial=0)) + 2, -1, dtype=np.intp)
    first[whole[:n][::-1]] = np.arange(n)[::-1]
    first[-1] = -1
    return np.asarray(first[whole[n:]])


def followed(at: Positions, rows: Positions) -> Positions:
    """Rows of rows: of those at some positions, -1 for none."""
    return np.append(rows, -1)[at]


def taken(series: pd.Series, at: Positions) -> pd.Series:
    """Cells at some positions, missing where there is none."""
    return pd.Series(series.array.take(at, allow_fill=True))


def comparable(series: pd.Series) -> pd.Series:
    """Cells of a key such that those of two tables that name the same are equal: whole numbers, or objects."""
    if pd.api.types.is_numeric_dtype(series.dtype):
        with suppress(TypeError, ValueError, OverflowError):  # of numbers that are not whole, or too large
            return series.reset_index(drop=True).astype("Int64")
    return series.astype(object).where(series.notna(), None).reset_index(drop=True)


def repeats(frame: pd.DataFrame, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Rows whose key an earlier row has; shape (n,)."""
    return np.asarray(pd.DataFrame({name: comparable(frame[name]) for name in columns}).duplicated())


@dataclass(frozen=True)
class Checked:
    """Tables whose keys are valid, and the parent's row of each row by foreign key."""

    tables: Mapping[str, pd.DataFrame]  # *Sensitive*
    parents: Mapping[str, Mapping[ForeignKey, Positions]]  # *Sensitive*


def sources_of(tables: Any, what: str = "tables") -> dict[str, Table]:
    """Tables by their names, each as what `us.fit` takes."""
    if not isinstance(tables, Mapping) or not tables:
        raise TableError(f"{what} are told by their names; pass a dict of one at least")
    return {str(name): Table.of(table) for name, table in tables.items()}


def check_columns(tables: Mapping[str, pd.DataFrame], keys: Keys) -> None:
    """Refuse keys of other tables or columns than there are. Reads no row."""
    if tables.keys() != keys.tables.keys():
        odd = sorted({*tables} ^ {*keys.tables})
        raise SchemaError(f"tables and keys are of the same names, and {listed(odd)} is in one only; add or remove it")
    for name, own in keys.tables.items():
        for column in own.columns:
            if column not in tables[name]:
                remedy = nearest(column, map(str, tables[name]))
                if column in tables[name].index.names:
                    remedy = "it is the index of the frame: pass frame.reset_index()"
                raise SchemaError(f"{name}: key column={column!r} is not there; {remedy}")


def check_keys(tables: Mapping[str, pd.DataFrame], keys: Keys, orphans: Orphans = "refuse") -> Checked:
    """The tables with valid keys, before anything is split or fitted. `tables`: *Sensitive*.

    Raises:
        SchemaError: keys are of other tables or columns than there are.
        TableError: a primary key repeats or is missing, or a foreign key names no row and is not to be dropped or kept.
    """
    check_columns(tables, keys)
    kept, parents = dict[str, pd.DataFrame](), dict[str, dict[ForeignKey, Positions]]()
    for name in keys.order:
        frame, own = tables[name].reset_index(drop=True), keys.tables[name]
        of_foreign, whole = dict[ForeignKey, Positions](), np.ones(len(frame), dtype=bool)
        if own.primary and frame[list(own.primary)].isna().any(axis=None):
            raise TableError(f"{name}: the key {' + '.join(own.primary)} is missing in some rows; take these rows out")
        if own.primary and repeats(frame, own.primary).any():
            raise TableError(
                f"{name}: the key {' + '.join(own.primary)} names more than one row; keep one row of each, or name "
                "more columns"
            )
        for key in own.foreign:
            at = positions(frame, key.columns, kept[key.table], keys.tables[key.table].primary)
            # Part of a key that is missing makes it missing, as SQL has it (MATCH SIMPLE).
            is_orphan = (at < 0) & frame[list(key.columns)].notna().all(axis=1).to_numpy()
            of_foreign[key] = at
            if is_orphan.any():
                if orphans == "refuse":
                    pairs = zip(key.columns, keys.tables[key.table].primary, strict=True)
                    differ = any(_has_texts(frame[a]) != _has_texts(kept[key.table][b]) for a, b in pairs)
                    remedy = (
                        "add them, or set orphans to drop (such rows go, and those below them) or keep (it is missing)"
                    )
                    remedy = "make both numbers, or both texts" if differ else remedy
                    words = f"{key} names rows that are not there ({is_orphan.mean():.2%} of its rows)"
                    raise TableError(f"{name}: {words}; {remedy}")
                if orphans == "drop" or {*key.columns} & {*own.primary}:
                    whole &= ~is_orphan
        kept[name] = frame[whole].reset_index(drop=True)
        parents[name] = {key: at[whole] for key, at in of_foreign.items()}
    return Checked(kept, parents)


def _has_texts(series: pd.Series) -> bool:
    return isinstance(next(iter(series.dropna()), None), str)


def check_kept(keys: Keys, keep: Any) -> None:
    if not isinstance(keep, Collection) or not all(isinstance(name, str) for name in keep):
        raise SchemaError(f"keep={keep!r} must be a list of names of tables")
    for name in keep:
        if name not in keys.tables:
            raise SchemaError(f"keep names {name!r}, which is no table")
        if lost := [key.table for key in keys.tables[name].foreign if key.table not in keep]:
            raise SchemaError(
                f"{name} is kept as it is and refers to {listed(lost)}, which is not: its keys would name no synthetic "
                "row; keep both, or neither"
            )


def candidates(keys: Keys, name: str, keep: Collection[str]) -> list[ForeignKey]:
    """Foreign keys that a row may be drawn below: of tables that are drawn, and no part of a longer key."""
    own = keys.tables[name].foreign
    return [k for k in own if k.table not in keep and not any({*k.columns} < {*other.columns} for other in own)]


def made_anew(keys: Keys, name: str) -> tuple[str, ...]:
    """Columns of a primary key whose values mean nothing: of one column, which refers to no other table."""
    own = keys.tables[name]
    return tuple(c for c in own.primary if len(own.primary) == 1 and not any(c in key.columns for key in own.foreign))


def hidden_columns(keys: Keys, name: str) -> set[str]:
    """Columns that no model learns: keys that are made anew, or taken from a parent."""
    own = keys.tables[name]
    alone = {*own.primary} if len(own.primary) == 1 else set()
    numbers = set() if own.number is None else {own.number}
    return {column for key in own.foreign for column in key.columns} | alone | numbers
