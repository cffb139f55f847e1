"""A relation of two tables: parents, one row an entity, and their rows, joined by a key (one to many).

The tables are modeled as two ordinary ones. Each parent holds its number of rows, too, so that a parent may have none.
Each row holds the columns of its parent, which are constant within an entity. Parents are drawn first, and the rows of
each are a history that is drawn given it.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.columns import AnyColumn, BooleanColumn, CategoricalColumn, IdentifierColumn
from synth.errors import SchemaError, TableError, nearest
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.split import row_keys
from synth.table import conform
from synth.table.conforming import Outside

_OF_TABLE = ("target", "task", "sensitive", "quasi_identifiers", "parties", "entity", "constant_in_entity", "order")


class RowsModel(Protocol):
    """A model of histories, as a relation asks it for the rows of parents."""

    @property
    def schema(self) -> Schema:
        """The schema it was fitted under; no domain in it is left to measure."""

    def rows_of(
        self, parents: pd.DataFrame, counts: NDArray[np.int64], *, seed: int | None = None, progress: Progress = quiet
    ) -> pd.DataFrame:
        """The rows of parents that are known, so many of each."""


class ParentsModel(Protocol):
    """A model of parents, each with its number of rows."""

    def sample(self, n_rows: int | None = None, *, seed: int | None = None, progress: Progress = quiet) -> pd.DataFrame:
        """So many synthetic parents."""


@dataclass(frozen=True)
class Relation:
    """Parents and their rows, and the two tables that stand for them in a fit.

    Attributes:
        given_parents: the schema of the parents as they are.
        given_rows: the schema of their rows as they are.
        count: the name of the column that holds the rows of each parent.
        parents: the schema of the parents with their numbers of rows.
        rows: the schema of the rows with their parents' columns.
    """

    given_parents: Schema
    given_rows: Schema
    count: str = field(init=False)
    parents: Schema = field(init=False)
    rows: Schema = field(init=False)
    private: bool = False

    def __post_init__(self) -> None:
        _check(self.given_parents, self.given_rows)
        name = "number of rows"
        while name in self.given_parents.columns or name in self.given_rows.columns:
            name += " "
        object.__setattr__(self, "count", name)
        object.__setattr__(self, "parents", self._parents())
        object.__setattr__(self, "rows", self._rows())

    @classmethod
    def of(cls, parents: Schema, rows: Schema, *, private: bool = False) -> Self:
        """The relation of two tables.

        Args:
            parents: of the parents; their key is an identifier that never repeats.
            rows: of their rows; it names the key as entity, and an order.
            private: whether any fit has an epsilon. Then a parent has at most `max_rows_per_unit` rows of its rows'
                schema, and no row is a reason to refuse. Otherwise the greatest number of rows is read off the rows.

        Raises:
            SchemaError: the two do not fit together, in a sentence.
        """
        return cls(parents, rows, private)

    @property
    def key(self) -> str:
        """The name of the key: the rows' foreign key, which names a parent."""
        return str(self.given_rows.entity)

    @property
    def inherited(self) -> tuple[str, ...]:
        """Columns of a parent that its rows are drawn given: those that are modeled."""
        return self.given_parents.modeled

    def joined(
        self, parents: pd.DataFrame, rows: pd.DataFrame, *, outside: Outside = "refuse"
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables as they are fitted, each part of them made from one entity's own rows.

        Args:
            parents: *Sensitive*. One row each.
            rows: *Sensitive*. Any order.
            outside: "refuse" what does not fit, or "clamp": of parents with one key one counts, and rows without a
                parent are left out.

        Raises:
            TableError: a table does not fit its schema, a key repeats, or a row has no parent.
        """
        parents = conform(parents, self.given_parents, outside=outside)
        rows = conform(rows, self.given_rows, outside=outside)
        keys = parents[self.key]
        has_parent = rows[self.key].isin(keys.dropna())
        if outside == "refuse":
            self._refuse(keys, has_parent)
        parents = self._once(parents)
        rows = rows[has_parent & rows[self.key].notna()].reset_index(drop=True)
        counts = rows[self.key].value_counts().reindex(parents[self.key]).fillna(0).to_numpy(dtype=np.int64)
        if self.private:
            counts = np.minimum(counts, self.given_rows.max_rows_per_unit)
        held = parents.assign(**{self.count: counts})
        return (
            conform(held, self.parents, outside=outside, part=True),
            conform(self._with_parents(rows, parents), self.rows, outside=outside, part=True),
        )

    def apart(self, parents: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables as they were given: parents without numbers of rows, rows without their parents' columns."""
        return parents[list(self.given_parents.kept)], rows[list(self.given_rows.kept)]

    def sample(
        self,
        of_parents: ParentsModel,
        of_rows: RowsModel,
        n_parents: int | None = None,
        *,
        seed: int | None = None,
        progress: Progress = quiet,
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Synthetic parents and their rows, as the two tables were given; every key of a row is a parent's.

        Args:
            of_parents: fitted on the parents of `joined`.
            of_rows: fitted on the rows of `joined`, a model of histories.
            n_parents: of parents; `None`: the model's own number.
            seed: the same seed gives the same tables; `None` draws fresh ones.
            progress: told what is being done.
        """
        parents = of_parents.sample(n_parents, seed=seed, progress=progress)
        return self.apart(parents, self.rows_of(of_rows, parents, seed=seed, progress=progress))

    def rows_of(
        self, model: RowsModel, parents: pd.DataFrame, *, seed: int | None = None, progress: Progress = quiet
    ) -> pd.DataFrame:
        """The rows of synthetic parents, each with its parent's columns.

        Args:
            model: of histories, fitted under `rows`.
            parents: with their numbers of rows, as a model of them draws them.
            seed: the same seed gives the same rows; `None` draws fresh ones.
            progress: told what is being done.

        Raises:
            ModelError: next to no row keeps the constraints; there are no rows.
        """
        held = conform(parents, self.parents, part=True)
        counts = held[self.count].to_numpy(dtype=np.int64)
        known = self._known(held, model.schema, np.random.default_rng(seed))
        rows = model.rows_of(known, counts, seed=seed, progress=progress)
        own = conform(rows[list(self.given_rows.kept)], self.given_rows, outside="clamp")
        return self._with_parents(own, held)

    def matches(self, parents: pd.DataFrame, rows: pd.DataFrame) -> "KeyMatch":
        """The match of keys between synthetic parents and their rows.

        Args:
            parents: with their numbers of rows.
            rows: synthetic.
        """
        held = conform(parents, self.parents, part=True)
        keys, owners = held[self.key].astype(str), rows[self.key].astype(str)
        counts = owners.value_counts().reindex(keys).fillna(0).to_numpy(dtype=np.int64)
        drawn = held[self.count].to_numpy(dtype=np.int64)
        return KeyMatch(
            is_unique=keys.is_unique,
            keys_matched=float(owners.isin(set(keys)).mean()) if len(owners) else 1.0,
            counts_matched=float((counts == drawn).mean()) if len(drawn) else 1.0,
        )

    def _parents(self) -> Schema:
        given = self.given_parents
        most = self.given_rows.max_rows_per_unit
        count = {"kind": "integer", **({"bounds": (0, most)} if self.private else {"measure": True})}
        made = {**dict(given), **self._public(), "entity": self.key, "columns": {**given.columns, self.count: count}}
        return Schema.model_validate(made)

    def _rows(self) -> Schema:
        given, parents = self.given_rows, self.given_parents
        columns = {**given.columns, self.key: parents.columns[self.key]}
        columns |= {name: parents.columns[name] for name in self.inherited}

        def both(role: str) -> tuple[str, ...]:
            return (*getattr(given, role), *(name for name in getattr(parents, role) if name in self.inherited))

        made = {**dict(given), **self._public(), "columns": columns, "constant_in_entity": self.inherited}
        return Schema.model_validate(made | {role: both(role) for role in ("sensitive", "quasi_identifiers")})

    def _public(self) -> dict[str, Any]:
        given = (self.given_parents, self.given_rows)
        declared = all(one.status == "declared" for one in given)
        return {
            "status": "declared" if declared else "inferred",
            "dataset": next((one.dataset for one in given if one.dataset is not None), None),
            "n_units": next((one.n_units for one in given if one.n_units is not None), None),
        }

    def _refuse(self, keys: pd.Series, has_parent: pd.Series) -> None:
        if keys.duplicated().any():
            raise TableError(
                f"a parent has one row: column={self.key!r} repeats in the table of parents; keep one row of each"
            )
        if not has_parent.all():
            raise TableError(
                f"every row has a parent: column={self.key!r} names some that are not in the table of parents; add "
                "these parents, or take their rows out"
            )

    def _once(self, parents: pd.DataFrame) -> pd.DataFrame:
        """One row of each parent: of several the one with the least hash of its content, whatever their order."""
        keys = parents[self.key]
        if not keys.dropna().duplicated().any():
            return parents
        first = np.argsort(row_keys(parents, self.given_parents.kept), kind="stable")
        again = keys.iloc[first].duplicated() & keys.iloc[first].notna()
        return parents.iloc[np.sort(first[~again.to_numpy()])].reset_index(drop=True)

    def _with_parents(self, rows: pd.DataFrame, parents: pd.DataFrame) -> pd.DataFrame:
        places = pd.Index(parents[self.key]).get_indexer(rows[self.key])
        taken = {name: parents[name].take(places).reset_index(drop=True) for name in self.inherited}
        own = {name: rows[name] for name in self.given_rows.kept}
        return pd.DataFrame({**own, **taken}, index=rows.index, copy=False)

    def _known(self, parents: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        """The parents as the model of rows knows them: the nearest number, or any category, for what it never saw."""
        names = [self.key, *self.inherited]
        columns = {name: schema.columns[name] for name in names}
        plain = {role: Schema.model_fields[role].default for role in _OF_TABLE}
        more = {"max_rows_per_unit": 1, "nondecreasing_in_entity": (), "constraints": (), "n_units": None}
        known = conform(
            parents[names], schema.model_copy(update={"columns": columns, **plain, **more}), outside="clamp"
        )
        for name in self.inherited:
            known[name] = _of_known_categories(known[name], columns[name], rng)
        return known


@dataclass(frozen=True)
class KeyMatch:
    """The match of keys between two synthetic tables.

    Attributes:
        is_unique: whether no key of a parent repeats.
        keys_matched: share of rows whose key is a parent's.
        counts_matched: share of parents with as many rows as were drawn for them; a history may end early where no row
            keeps the constraints.
    """

    is_unique: bool
    keys_matched: float
    counts_matched: float

    @property
    def holds(self) -> bool:
        """True if every row has one parent."""
        return self.is_unique and self.keys_matched == 1.0


def _of_known_categories(series: pd.Series, column: AnyColumn, rng: np.random.Generator) -> pd.Series:
    if not isinstance(column, CategoricalColumn) or isinstance(column, BooleanColumn) or not column.categories:
        return series
    unknown = np.flatnonzero((~series.isin(column.categories) & series.notna()).to_numpy())
    if not len(unknown):
        return series
    made = series.copy()
    made.iloc[unknown] = np.array(column.categories, dtype=object)[
        rng.integers(len(column.categories), size=len(unknown))
    ]
    return made


def _check(parents: Schema, rows: Schema) -> None:
    """Refuse schemas that do not fit together; one level alone is modeled."""
    key = rows.entity
    if key is None:
        raise SchemaError(
            "the rows of parents need a key: their schema names no entity; set entity to the column that names the "
            "parent"
        )
    if rows.order is None:
        raise SchemaError(
            "the rows of a parent follow each other: their schema names no order; set order to a date, a time, a "
            "number or an identifier"
        )
    if key not in parents.columns:
        raise SchemaError(
            f"the key of rows is a column of their parents, too: entity={key!r} is none there; "
            f"{nearest(key, parents.columns)}"
        )
    column = parents.columns[key]
    if not isinstance(column, IdentifierColumn) or column.missing or column.drop:
        raise SchemaError(
            f"the key of parents names each of them: column={key!r} must be a kept identifier that is never missing"
        )
    of_rows = rows.columns[key]
    if isinstance(of_rows, IdentifierColumn) and (of_rows.template is None) != (column.template is None):
        raise SchemaError(
            f"a key is of one kind in both tables: column={key!r} has a template, for texts, in one schema, and "
            "bounds, for whole numbers, in the other; declare both alike"
        )
    if parents.entity not in (None, key) or parents.max_rows_per_unit != 1 or parents.order is not None:
        raise SchemaError(
            "a parent has one row, and one level of parents and rows is modeled: the parents' schema names an entity "
            f"other than {key!r}, an order, or several rows of a unit; leave these out, or join the upper tables first"
        )
    if rows.constant_in_entity:
        raise SchemaError(
            "what is constant within an entity stands in the table of parents: constant_in_entity of the rows' schema "
            f"names {rows.constant_in_entity[0]!r}; move that column to the parents, or take it off the list"
        )
    _check_both(parents, rows, key)


def _check_both(parents: Schema, rows: Schema, key: str) -> None:
    """Refuse schemas that say two things of one name."""
    for name in rows.kept:
        if name != key and name in parents.kept:
            raise SchemaError(
                f"columns of parents and rows have names of their own: column={name!r} is in both; rename one, or set "
                "drop = true for it"
            )
    for what in ("dataset", "n_units"):
        one, other = getattr(parents, what), getattr(rows, what)
        if None not in (one, other) and one != other:
            raise SchemaError(
                f"parents and rows are of the same units: {what} differs between the two schemas; name the same"
            )
