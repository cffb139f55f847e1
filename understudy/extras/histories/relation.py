"""A one-to-many relation of two tables: parents, one row an entity, and their child rows, joined by a foreign key.

The tables are modeled as two ordinary ones. Each parent holds its number of child rows, too, so that it may have none.
Each child row holds the columns of its parent, which are constant within an entity. Parents are drawn first. The child
rows of each are a history that is drawn given it.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import SchemaError, TableError
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.residual_schema import free_name
from synth.split import row_keys
from synth.table import conform
from synth.table.conforming import Outside

Role = Literal["parents", "rows"]
ROLES: tuple[Role, ...] = ("parents", "rows")
"""The two tables of a relation, parents first: their child rows are drawn given them."""


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
        parent_schema, own = self.parent_schema, self.child_schema
        public = {
            "status": "declared" if {parent_schema.status, own.status} == {"declared"} else "inferred",
            "dataset": parent_schema.dataset or own.dataset,
            "n_units": parent_schema.n_units or own.n_units,
        }
        count = free_name("number of rows", {*parent_schema.columns, *own.columns})
        of_count = {"bounds": (0, own.max_rows_per_unit)} if self.private else {"measure": True}
        columns = {**parent_schema.columns, count: {"kind": "integer", **of_count}}
        parents = Schema.model_validate({**dict(parent_schema), **public, "entity": self.key, "columns": columns})
        columns = {**own.columns, self.key: parents.columns[self.key]}
        columns |= {name: parents.columns[name].model_copy(update={"modeled": None}) for name in self.inherited}
        roles = {
            role: (*getattr(own, role), *(name for name in getattr(parent_schema, role) if name in self.inherited))
            for role in ("sensitive", "quasi_identifiers")
        }
        content = {**dict(own), **public, **roles, "columns": columns, "constant_in_entity": self.inherited}
        for name, value in (("count", count), ("parents", parents), ("rows", Schema.model_validate(content))):
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """The name of the key: unique among parents, and the foreign key of child rows."""
        return str(self.child_schema.entity)

    @property
    def schemas(self) -> tuple[Schema, Schema]:
        return self.parent_schema, self.child_schema

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
            TableError: a table does not fit its schema, a key repeats, or a child row has no parent.
        """
        outside = outside or ("clamp" if self.private else "refuse")
        parents = conform(parents, self.parent_schema, outside=outside)
        rows = conform(rows, self.child_schema, outside=outside)
        # Of parents with one key the one with the least hash of its content, in whatever order they stand.
        first = np.argsort(row_keys(parents, self.parent_schema.kept), kind="stable")
        keys = parents[self.key].iloc[first]
        again, has_parent = keys.duplicated() & keys.notna(), rows[self.key].isin(keys.dropna())
        if outside == "refuse" and again.any():
            raise TableError(
                f"a parent has one row: column={self.key!r} repeats in the table of parents; keep one row of each"
            )
        if outside == "refuse" and not has_parent.all():
            raise TableError(
                f"every row has a parent: column={self.key!r} names some that are not in the table of parents; add "
                "these parents, or take their rows out"
            )
        parents = parents.iloc[np.sort(first[~again.to_numpy()])].reset_index(drop=True)
        rows = rows[has_parent & rows[self.key].notna()].reset_index(drop=True)
        counts = rows[self.key].value_counts().reindex(parents[self.key]).fillna(0).to_numpy(dtype=np.int64)
        if self.private:
            counts = np.minimum(counts, self.child_schema.max_rows_per_unit)
        return (
            conform(parents.assign(**{self.count: counts}), self.parents, outside=outside, part=True),
            conform(self._with_parents(rows, parents), self.rows, outside=outside, part=True),
        )

    def split(self, parents: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables as they were given: without numbers of child rows, and without their parents' columns."""
        return parents[list(self.parent_schema.kept)], rows[list(self.child_schema.kept)]

    def sample(
        self, of_parents: Any, of_rows: Any, n_parents: int | None = None, *, seed: int | None = None,
        progress: Progress = quiet,
    ) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
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
        """The child rows of synthetic parents, as a model of them draws these, each with its parent's columns.
        `model`: of histories, fitted under `rows`.
        """
        parents_known, columns = conform(parents, self.parents, part=True), model.schema.columns
        names, rng = [self.key, *self.inherited], np.random.default_rng(seed)
        # The model knows the nearest number, or any of its categories, for what it never saw.
        alone = Schema(
            status="declared", missing_values=model.schema.missing_values, columns={n: columns[n] for n in names}
        )
        known = conform(parents_known[names], alone, outside="clamp")
        for name in (n for n in self.inherited if columns[n].is_categorical and not columns[n].is_boolean):
            values, categories = known[name].copy(), np.array(columns[name].categories, dtype=object)
            unknown = np.flatnonzero((~values.isin(categories) & values.notna()).to_numpy())
            values.iloc[unknown] = categories[rng.integers(len(categories), size=len(unknown))]
            known[name] = values
        counts = parents_known[self.count].to_numpy(dtype=np.int64)
        rows = model.rows_of(known, counts, seed=seed, progress=progress)
        return self._with_parents(
            conform(rows[list(self.child_schema.kept)], self.child_schema, outside="clamp"), parents_known
        )

    def _with_parents(self, rows: pd.DataFrame, parents: pd.DataFrame) -> pd.DataFrame:
        positions = pd.Index(parents[self.key]).get_indexer(rows[self.key])
        taken = {name: parents[name].take(positions).set_axis(rows.index) for name in self.inherited}
        return rows[list(self.child_schema.kept)].assign(**taken)


def _check(parents: Schema, rows: Schema) -> None:
    key = str(rows.entity)
    column, own = parents.columns.get(key), rows.columns.get(key)
    twice = next((name for name in rows.kept if name != key and name in parents.kept), "")
    both = {name: {getattr(parents, name), getattr(rows, name)} - {None} for name in ("dataset", "n_units")}
    units = next((name for name, values in both.items() if len(values) > 1), "")
    refusals = (
        (rows.entity is None, "the rows of parents need a key: entity=None in their schema; set entity to the column "
         "that names the parent"),
        (rows.order is None, "the rows of a parent follow each other: order=None in their schema; set order to a date, "
         "a time, a number or an identifier"),
        (column is None or not column.is_identifier or column.missing or column.drop,
         f"the key names each parent: column={key!r} must be a kept identifier of theirs that is never missing"),
        (own is not None and column is not None and own.is_identifier
         and (own.template is None) != (getattr(column, "template", None) is None),
         f"a key is of one kind in both tables: column={key!r} has a template in one schema, and bounds in the other"),
        (parents.entity not in (None, key) or parents.max_rows_per_unit != 1 or parents.order is not None,
         "a parent has one row, and one level of parents and rows is modeled: the parents' schema names an entity "
         f"other than {key!r}, an order, or several rows of a unit; leave these out, or join the upper tables first"),
        (rows.constant_in_entity, "what is constant within an entity stands in the table of parents: move what "
         "constant_in_entity of the rows' schema names to the parents, or take it off the list"),
        (twice, f"columns of parents and rows have names of their own: column={twice!r} is in both; rename one, or "
         "set drop = true for it"),
        (units, f"parents and rows are of the same units: {units} differs between the two schemas"),
    )  # fmt: skip
    for is_refused, message in refusals:
        if is_refused:
            raise SchemaError(message)
