"""Histories proposed from a table: the order of an entity's rows, and what is constant or never falls in it.

Nothing is proposed of few entities, and nothing that chance explains. All of it is read off the data.
"""

import math
import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln

from synth.errors import TableError
from synth.row_order import Histories, histories_of, order_ranks
from synth.schema import Schema

LEAST_HISTORIES = 30  # entities with several rows, below which nothing is told from chance
# Entities that follow a column proposed as the order. Of 30 entities with two rows each, so many ascend in the file, or
# descend in it, by chance once in 17 million tables.
NEARLY_ALL = 0.95
MOST_TIED, MOST_TIED_NAMED = 0.05, 0.5  # Rows that may have the order of the row before: proposed, or named by somebody
MOST_CHANCE = 1e-6  # Chance of a fact, if values were dealt to rows in any order, above which it is not proposed
LEAST_RISES = 0.05  # Entities in which a column that never falls rises

Floats = NDArray[np.float64]
_BIRTH = re.compile(r"birth|(^|[^a-z])(born|dob)", re.IGNORECASE)  # names of dates of no use as an order


def propose(
    table: pd.DataFrame, schema: Schema, order: str | None, counters: Collection[str]
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """The order of an entity's rows, and what is constant or never falls along it; nothing where there is no order.
    `table`: *Sensitive*. Rows as in their file. `counters`: whole numbers taken for categories or identifiers.
    """
    rows = _EntityRows(table, schema)
    if order is not None:
        # A missing value is no tie: the schema refuses it in a sentence of its own.
        if rows.n_entities and not rows.table[order].isna().any() and rows.tied(rows.ranks(order)) > MOST_TIED_NAMED:
            raise TableError(
                f"an order tells the rows of an entity apart: most rows have the same value of order={order!r} as the "
                "row before; name a column that differs, or leave the order out"
            )
    elif rows.n_entities >= LEAST_HISTORIES:
        order = _order(rows, counters)
    if order is None or rows.n_entities < LEAST_HISTORIES:
        return order, (), ()
    constant = tuple(name for name in schema.learned if name not in {order, *counters} and rows.is_constant(name))
    histories = histories_of(rows.table, schema.model_copy(update={"order": order}))
    excluded = {order, *constant, *(name for name in counters if not rows.count(rows.ranks(name)))}
    growing = (name for name in schema.learned if name not in excluded and _grows(rows, name, histories))
    return order, constant, tuple(growing)


class _EntityRows:
    """*Sensitive*. The rows of entities that have several, entity by entity, each in the order of their file."""

    def __init__(self, table: pd.DataFrame, schema: Schema) -> None:
        owners = pd.factorize(table[str(schema.entity)])[0]
        several = np.flatnonzero(np.bincount(owners)[owners] > 1)
        rows = several[np.argsort(owners[several], kind="stable")]
        self.schema, self.table = schema, table.iloc[rows].reset_index(drop=True)
        self.owners = pd.factorize(owners[rows])[0]
        self.n_entities = int(self.owners.max(initial=-1)) + 1
        self.follows = np.diff(self.owners) == 0

    def ranks(self, name: str) -> Floats:
        return order_ranks(self.table[name], self.schema.model_copy(update={"order": name}))

    def steps(self, values: NDArray[Any], order: Floats | None = None) -> Floats:
        """Differences of rows from those before them in their entity, in the file or in an order; shape (n_pairs,)."""
        ordered = values if order is None else values[np.lexsort((order, self.owners))]
        return np.asarray(np.diff(ordered)[self.follows])

    def hold(self, faults: NDArray[np.bool_]) -> bool:
        """True if nearly all entities have no row at fault, of those that follow another."""
        at_fault = np.unique(self.owners[1:][self.follows][faults])
        return bool(1.0 - len(at_fault) / self.n_entities >= NEARLY_ALL)

    def tied(self, ranks: Floats) -> float:
        return float(np.mean(self.steps(ranks, ranks) == 0))

    def count(self, ranks: Floats) -> bool:
        """True if a number counts the rows of nearly all entities, from the same number on."""
        firsts = pd.Series(ranks).groupby(self.owners).min()
        return bool(np.mean(firsts == ranks.min()) >= NEARLY_ALL and self.hold(self.steps(ranks, ranks) != 1))

    def ascend(self, ranks: Floats) -> bool:
        steps = self.steps(ranks)
        return self.hold(steps <= 0) or self.hold(steps >= 0)

    def is_constant(self, name: str) -> bool:
        codes, values = pd.factorize(self.table[name], use_na_sentinel=False)
        alike = float(np.sum((np.bincount(codes) / len(codes)) ** 2))
        is_told = int(self.follows.sum()) * math.log(alike) <= math.log(MOST_CHANCE)
        return len(values) > 1 and not np.any(self.steps(codes)) and is_told


def _order(rows: _EntityRows, counters: Collection[str]) -> str | None:
    """The column that is convincing as the order, or `None`.

    A date or a time that hardly ever repeats within an entity; else whole numbers that count an entity's rows; else
    numbers or identifiers in which the rows of nearly all entities stand ascending, or descending, in the file.
    """
    known = {name: rows.ranks(name) for name in rows.schema.columns if _may_order(rows.schema, name)}
    ranks = {name: line for name, line in known.items() if rows.tied(line) <= MOST_TIED}
    columns = rows.schema.columns
    times = [name for name in ranks if columns[name].is_time]
    # Of several times, one that the file follows; then the one that tells most rows apart, then the first.
    best = min(times, key=lambda name: (not rows.ascend(ranks[name]), rows.tied(ranks[name])), default=None)
    if best is not None and rows.tied(ranks[best]) == 0:
        return best
    # Of numbers, those that count, then identifiers, then amounts; one that tells rows of one day apart is better than
    # the day, if the time never falls along it.
    whole, named = ([n for n in ranks if getattr(columns[n], flag)] for flag in ("is_whole", "is_identifier"))
    numbers = [n for n in whole if rows.count(ranks[n])]
    numbers += [n for n in named + whole if n not in counters and rows.ascend(ranks[n])]
    if best is not None:
        along = (n for n in numbers if rows.tied(ranks[n]) == 0)
        return next((n for n in along if rows.hold(rows.steps(ranks[best], ranks[n]) < 0)), best)
    return next(iter(numbers), None)


def _may_order(schema: Schema, name: str) -> bool:
    column = schema.columns[name]
    if column.drop or column.missing or name in (schema.entity, schema.target):
        return False
    # Identifiers may be in the order in which they were given: numbers, also behind fixed letters.
    free = set(re.sub(r"\\.", "", column.template or "")) if column.is_identifier else set[str]()
    is_serial = column.is_identifier and (column.bounds is not None or ("#" in free and free.isdisjoint("AaXx")))
    return bool((column.is_time and _BIRTH.search(name) is None) or column.is_whole or is_serial)


def _grows(rows: _EntityRows, name: str, histories: Histories) -> bool:
    """True if a column never falls along the order, and rises too often for chance.

    Values of an entity that are dealt to its rows in any order ascend with a chance of one over the number of their
    different orders. The product of that over all entities is the chance of the whole table.
    """
    column = rows.schema.columns[name]
    if column.missing or not column.is_quantity:
        return False
    values = column.positions(rows.table[name])[histories.rows]
    steps, begins = np.diff(values, prepend=values[:1]), histories.places == 1
    if np.any((steps < 0) & ~begins):
        return False
    risen = len(np.unique(histories.owners[(steps > 0) & ~begins]))
    runs = np.diff(np.append(np.flatnonzero(begins | (steps > 0)), len(values)))
    chance = float(np.sum(gammaln(runs + 1)) - np.sum(gammaln(histories.lengths + 1)))
    return risen >= LEAST_RISES * rows.n_entities and chance <= math.log(MOST_CHANCE)
