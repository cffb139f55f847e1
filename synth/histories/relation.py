"""A one-to-many relation of two tables: parents, one row an entity, and their child rows, joined by a foreign key.

The tables are modeled as two ordinary ones. Each parent holds its number of child rows, too, so that it may have none.
Each child row holds the columns of its parent, which are constant within an entity. Parents are drawn first. The child
rows of each are a history that is drawn given it.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import SchemaError, TableError, nearest
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.counted import free_name
from synth.schema.kinds import AnyColumn
from synth.split import row_keys
from synth.table import conform
from synth.table.conforming import Outside

TableRole = Literal["parents", "rows"]  # the role of a table in a relation
RELATED_TABLES: tuple[TableRole, ...] = ("parents", "rows")
"""The two tables of a relation, parents first: their child rows are drawn given them."""
_TABLE_KEYS = ("target", "task", "sensitive", "quasi_identifiers", "parties", "entity", "constant_in_entity", "order")
"""Keys of a schema that say something of its whole table, and nothing of the columns of parents alone."""


@dataclass(frozen=True)
class Relation:
    """A one-to-many relation, and the two tables that stand for it in a fit.

    Attributes:
        parent_schema: the schema of the parents as they are; their key is an identifier that never repeats.
        child_schema: the schema of their child rows as they are; it names the key as entity, and an order.
        private: whether any fit has an epsilon. Then a parent has at most `max_rows_per_unit` rows of the child schema,
            and no row is a reason to refuse. Otherwise the greatest number of rows is read off the table.
        count: the name of the column that holds the number of child rows of each parent.
        parents: the schema of the parents with their numbers of child rows.
        rows: the schema of the child rows with their parents' columns.

    Raises:
        SchemaError: the two schemas do not fit together; there is no relation.
    """

    parent_schema: Schema
    child_schema: Schema
    private: bool = field(default=False, kw_only=True)
    count: str = field(init=False)
    parents: Schema = field(init=False)
    rows: Schema = field(init=False)

    def __post_init__(self) -> None:
        _check(self.parent_schema, self.child_schema)
        taken = {*self.parent_schema.columns, *self.child_schema.columns}
        object.__setattr__(self, "count", free_name("number of rows", taken))
        object.__setattr__(self, "parents", self._parents())
        object.__setattr__(self, "rows", self._rows())

    @property
    def key(self) -> str:
        """The name of the key: unique among parents, and the foreign key of child rows."""
        return str(self.child_schema.entity)

    @property
    def inherited(self) -> tuple[str, ...]:
        """Columns of a parent that its child rows are drawn given: those that are modeled."""
        return self.parent_schema.modeled

    def joined(
        self, parents: pd.DataFrame, rows: pd.DataFrame, *, outside: Outside | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables as they are fitted, each part of them made from one entity's own rows.

        Args:
            parents: *Sensitive*. One row each.
            rows: *Sensitive*. Child rows in any order.
            outside: "refuse" what does not fit, or "clamp": of parents with one key one counts, and child rows without
                a parent are left out. `None`: "clamp" if private, so that no row decides if a fit stops, else "refuse".

        Raises:
            TableError: a table does not fit its schema, a key repeats, or a child row has no parent. Nothing was
                joined.
        """
        if outside is None:
            outside = "clamp" if self.private else "refuse"
        parents = conform(parents, self.parent_schema, outside=outside)
        rows = conform(rows, self.child_schema, outside=outside)
        keys = parents[self.key]
        has_parent = rows[self.key].isin(keys.dropna())
        if outside == "refuse":
            self._refuse(keys, has_parent)
        parents = self._once(parents)
        rows = rows[has_parent & rows[self.key].notna()].reset_index(drop=True)
        counts = rows[self.key].value_counts().reindex(parents[self.key]).fillna(0).to_numpy(dtype=np.int64)
        if self.private:
            counts = np.minimum(counts, self.child_schema.max_rows_per_unit)
        held = parents.assign(**{self.count: counts})
        return (
            conform(held, self.parents, outside=outside, part=True),
            conform(self._with_parents(rows, parents), self.rows, outside=outside, part=True),
        )

    def split(self, parents: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables as they were given: without numbers of child rows, and without their parents' columns."""
        return parents[list(self.parent_schema.kept)], rows[list(self.child_schema.kept)]

    def sample(
        self,
        of_parents: Any,
        of_rows: Any,
        n_parents: int | None = None,
        *,
        seed: int | None = None,
        progress: Progress = quiet,
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Synthetic parents and their child rows, as the two tables were given; every foreign key is a parent's key.

        Args:
            of_parents: a model fitted on the parents of `joined`.
            of_rows: fitted on the rows of `joined`, a model of histories.
            n_parents: of parents; `None`: the model's own number.
            seed: the same seed gives the same tables; `None` draws fresh ones.
            progress: told what is being done.
        """
        parents = of_parents.sample(n_parents, seed=seed, progress=progress)
        return self.split(parents, self.rows_of(of_rows, parents, seed=seed, progress=progress))

    def rows_of(
        self, model: Any, parents: pd.DataFrame, *, seed: int | None = None, progress: Progress = quiet
    ) -> pd.DataFrame:
        """The child rows of synthetic parents, each with its parent's columns.

        Args:
            model: of histories, fitted under `rows`.
            parents: with their numbers of child rows, as a model of them draws them.
            seed: the same seed gives the same rows; `None` draws fresh ones.
            progress: told what is being done.

        Raises:
            ModelError: next to no row keeps the constraints; there are no rows.
        """
        held = conform(parents, self.parents, part=True)
        counts = held[self.count].to_numpy(dtype=np.int64)
        known = self._known(held, model.schema, np.random.default_rng(seed))
        rows = model.rows_of(known, counts, seed=seed, progress=progress)
        own = conform(rows[list(self.child_schema.kept)], self.child_schema, outside="clamp")
        return self._with_parents(own, held)

    def matches(self, parents: pd.DataFrame, rows: pd.DataFrame) -> "KeyMatch":
        """The match of keys between synthetic parents and their child rows.
        `parents`: with their numbers of child rows.
        `rows`: synthetic child rows.
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
        given = self.parent_schema
        most = self.child_schema.max_rows_per_unit
        count = {"kind": "integer", **({"bounds": (0, most)} if self.private else {"measure": True})}
        made = {**dict(given), **self._public(), "entity": self.key, "columns": {**given.columns, self.count: count}}
        return Schema.model_validate(made)

    def _rows(self) -> Schema:
        given, parents = self.child_schema, self.parent_schema
        columns = {**given.columns, self.key: parents.columns[self.key]}
        columns |= {name: parents.columns[name].model_copy(update={"modeled": None}) for name in self.inherited}

        def both(role: str) -> tuple[str, ...]:
            return (*getattr(given, role), *(name for name in getattr(parents, role) if name in self.inherited))

        made = {**dict(given), **self._public(), "columns": columns, "constant_in_entity": self.inherited}
        return Schema.model_validate(made | {role: both(role) for role in ("sensitive", "quasi_identifiers")})

    def _public(self) -> dict[str, Any]:
        given = (self.parent_schema, self.child_schema)
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
        first = np.argsort(row_keys(parents, self.parent_schema.kept), kind="stable")
        again = keys.iloc[first].duplicated() & keys.iloc[first].notna()
        return parents.iloc[np.sort(first[~again.to_numpy()])].reset_index(drop=True)

    def _with_parents(self, rows: pd.DataFrame, parents: pd.DataFrame) -> pd.DataFrame:
        places = pd.Index(parents[self.key]).get_indexer(rows[self.key])
        taken = {name: parents[name].take(places).reset_index(drop=True) for name in self.inherited}
        own = {name: rows[name] for name in self.child_schema.kept}
        return pd.DataFrame({**own, **taken}, index=rows.index, copy=False)

    def _known(self, parents: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        """The parents as the model of rows knows them: the nearest number, or any category, for what it never saw."""
        names = [self.key, *self.inherited]
        columns = {name: schema.columns[name] for name in names}
        plain = {role: Schema.model_fields[role].default for role in _TABLE_KEYS}
        more = {"max_rows_per_unit": 1, "nondecreasing_in_entity": (), "constraints": (), "n_units": None}
        known = conform(
            parents[names], schema.model_copy(update={"columns": columns, **plain, **more}), outside="clamp"
        )
        for name in self.inherited:
            known[name] = _of_known_categories(known[name], columns[name], rng)
        return known


@dataclass(frozen=True)
class KeyMatch:
    """The match of keys between two synthetic tables."""

    is_unique: bool
    keys_matched: float
    counts_matched: float

    @property
    def holds(self) -> bool:
        """True if every child row has one parent."""
        return self.is_unique and self.keys_matched == 1.0


def _of_known_categories(series: pd.Series, column: AnyColumn, rng: np.random.Generator) -> pd.Series:
    if column.is_boolean or not column.levels:
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
    """Refuse schemas of parents and child rows that do not fit together; one level alone is modeled."""
    key = rows.entity
    if key is None:
        raise SchemaError(
            "the rows of parents need a key: entity=None in their schema; set entity to the column that names the "
            "parent"
        )
    if rows.order is None:
        raise SchemaError(
            "the rows of a parent follow each other: order=None in their schema; set order to a date, a time, a number "
            "or an identifier"
        )
    if key not in parents.columns:
        raise SchemaError(
            f"the key of rows is a column of their parents, too: entity={key!r} is no column there; "
            f"{nearest(key, parents.columns)}"
        )
    column = parents.columns[key]
    if not column.is_identifier or column.missing or column.drop:
        raise SchemaError(
            f"the key of parents names each of them: column={key!r} must be a kept identifier that is never missing"
        )
    of_rows = rows.columns[key]
    if of_rows.is_identifier and (of_rows.template is None) != (column.template is None):
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
    for name in ("dataset", "n_units"):
        one, other = getattr(parents, name), getattr(rows, name)
        if None not in (one, other) and one != other:
            raise SchemaError(
                f"parents and rows are of the same units: {name} differs between the two schemas; name the same"
            )
