"""The order of an entity's rows: by the column that the schema names, and among equal values by what the rows hold."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.constraints import Constraint
from synth.domain.relations import broken
from synth.errors import SchemaError
from synth.schema import Schema
from synth.split import row_keys

FIRST_ROWS, LATER_ROWS = "first rows", "later rows"
"""The ends of events' names in statements, where the first rows of units are counted apart from those after them."""


@dataclass(frozen=True, eq=False)
class Histories:
    """*Sensitive*. The rows of a table by entity, each entity's in their order.
    `rows`: positions of the rows in the table, those of an entity side by side, shape (n,).
    `starts`: where each entity's rows begin among them, shape (n_entities,).
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]

    @property
    def lengths(self) -> NDArray[np.intp]:
        """Rows of each entity, shape (n_entities,)."""
        return np.diff(np.append(self.starts, len(self.rows)))

    @property
    def owners(self) -> NDArray[np.intp]:
        """The number of each row's entity, shape (n,), in the order of `rows`."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def places(self) -> NDArray[np.intp]:
        """The place of each row in its history, from 1 on, shape (n,), in the order of `rows`."""
        return np.arange(len(self.rows)) - np.repeat(self.starts, self.lengths) + 1

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions in the table of each row that follows another, and of that other; shape (n_pairs,) both."""
        follows = np.flatnonzero(self.places > 1)
        return self.rows[follows], self.rows[follows - 1]

    def first(self, most: int) -> "Histories":
        """The first rows of each history, at most so many."""
        kept = self.places <= most
        lengths = np.minimum(self.lengths, most)
        return Histories(self.rows[kept], np.cumsum(lengths) - lengths)


def histories_of(table: pd.DataFrame, schema: Schema) -> Histories:
    """The rows by entity and order; rows without an entity are left out.

    Rows that have the order in common follow each other by what never falls, and then by a hash of what they hold. So
    an entity's history depends on its own rows alone, and never on their places in the table.
    `table`: *Sensitive*. Conforming to the schema.
    """
    if schema.entity is None:
        raise SchemaError("histories are of entities, and the schema names none; name the entity column")
    numbers = pd.factorize(table[schema.entity])[0]
    chosen = np.flatnonzero(numbers >= 0)
    names = [name for name in schema.kept if name != schema.entity and name in table]
    rows = table.iloc[chosen]
    ranks = [] if schema.order is None else [order_ranks(rows[schema.order], schema)]
    along = [name for name in schema.growing if name != schema.order] if ranks else []
    ranks += [schema.columns[name].positions(rows[name]) for name in along]
    order = np.lexsort([row_keys(rows, names), *reversed(ranks), numbers[chosen]])
    owners = numbers[chosen][order]
    return Histories(chosen[order], np.flatnonzero(np.diff(owners, prepend=-1)))


def broken_in(table: pd.DataFrame, constraint: Constraint, schema: Schema) -> NDArray[np.bool_]:
    """True for rows of a whole table that break a constraint, which may be about the row before, too; shape (n,).
    `table`: *Sensitive* where it is real. Conforming to the schema.
    """
    before = rows_before(table, schema) if constraint.looks_back else None
    return broken(table, constraint, schema.columns, before)


def rows_before(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The row before each, of the same entity, by the order; all missing where there is none.
    `table`: *Sensitive*. Whole entities, conforming to the schema.
    """
    now, before = histories_of(table, schema).pairs
    places = np.full(len(table), -1)
    places[now] = before
    earlier = table.take(np.maximum(places, 0)).set_axis(table.index)
    return earlier.where(pd.Series(places >= 0, index=table.index))


NUMBER = "[+-]?[0-9]{1,40}"  # texts of an order that sort as whole numbers


def order_ranks(series: pd.Series, schema: Schema) -> NDArray[np.float64]:
    """The values of the order as numbers that sort as they do, shape (n,): NaN, which is last, where one is missing.

    Identifiers that are whole numbers sort as such, and others come after them, as texts. Each is read alone: no other
    row has a say in which of two rows comes first.
    """
    column = schema.columns[str(schema.order)]
    if not column.is_identifier:
        return np.asarray(column.positions(series))
    texts, present = series.astype(str).to_numpy(dtype=object), series.notna().to_numpy()
    whole = present & pd.Series(texts).str.fullmatch(NUMBER).to_numpy(dtype=bool)
    values = np.array([int(text) for text in texts[whole]], dtype=object)  # exact, however many digits they have
    distinct, numbers = np.unique(values, return_inverse=True)
    ranks = np.full(len(series), np.nan)
    ranks[whole] = numbers
    ranks[present & ~whole] = len(distinct) + pd.factorize(texts[present & ~whole], sort=True)[0]
    return ranks


def order_of_identifiers(schema: Schema) -> str | None:
    """The identifier by which rows follow each other; `None`: the order is a learned column, or there is no order."""
    name = schema.order
    return name if name is not None and schema.columns[name].is_identifier else None
