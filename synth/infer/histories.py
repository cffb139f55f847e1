"""Histories proposed from a table: the order of an entity's rows, and what is constant or never falls in it.

Nothing is proposed of few entities, and nothing that chance explains. All of it is read off the data.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln

from synth.errors import TableError
from synth.histories.ordering import Histories, histories_of, order_ranks
from synth.schema import Schema

LEAST_HISTORIES = 30  # entities with several rows, below which nothing is told from chance
NEARLY_ALL = 0.95
"""Share of the entities with several rows that follow a column proposed as the order.

Of 30 entities with two rows each, so many ascend in the file, or descend in it, by chance once in 17 million tables.
"""
MOST_TIED = 0.05
"""Share of the rows of an entity, behind its first ones, that may have the order of the row before in a proposal."""
MOST_TIED_NAMED = 0.5  # the same of an order that somebody named
MOST_CHANCE = 1e-6
"""Chance of a fact, if values were dealt to rows in any order, above which it is not proposed."""
LEAST_RISES = 0.05
"""Share of the entities with several rows in which a column that never falls rises."""

_BIRTH = re.compile(r"birth|(^|[^a-z])(born|dob)", re.IGNORECASE)
"""Names of dates that say nothing of when a row was written."""


@dataclass(frozen=True)
class HistoryProposal:
    """Histories in a table, as far as it shows any."""

    order: str | None = None
    constant: tuple[str, ...] = ()
    nondecreasing: tuple[str, ...] = ()


def propose_histories(
    table: pd.DataFrame, schema: Schema, *, order: str | None = None, counters: Collection[str] = ()
) -> HistoryProposal:
    """The order of an entity's rows, and what is constant or never falls along it; nothing where there is no order.
    `table`: *Sensitive*. Conforming to the schema, rows in the order of their file.
    """
    rows = _EntityRows.of(table, schema)
    if order is not None:
        rows.require_told_apart(order)
    elif rows.n_entities >= LEAST_HISTORIES:
        order = _order(rows, counters)
    if order is None:
        return HistoryProposal()
    if rows.n_entities < LEAST_HISTORIES:
        return HistoryProposal(order)
    constant = tuple(name for name in schema.learned if name not in {order, *counters} and rows.is_constant(name))
    histories = histories_of(rows.table, schema.model_copy(update={"order": order}))
    excluded = {order, *constant, *(name for name in counters if not _counts(rows, rows.ranks(name)))}
    others = [name for name in schema.learned if name not in excluded]
    growing = tuple(name for name in others if _grows(rows, name, histories))
    return HistoryProposal(order, constant, growing)


@dataclass(frozen=True, eq=False)
class _EntityRows:
    """*Sensitive*. The rows of entities that have several, in the order of their file.

    Attributes:
        owners: the number of each row's entity, shape (n,).
    """

    table: pd.DataFrame
    schema: Schema
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, table: pd.DataFrame, schema: Schema) -> "_EntityRows":
        owners = pd.factorize(table[str(schema.entity)])[0]
        several = np.bincount(owners)[owners] > 1
        return cls(table[several].reset_index(drop=True), schema, pd.factorize(owners[several])[0])

    @cached_property
    def n_entities(self) -> int:
        return int(self.owners.max()) + 1 if len(self.owners) else 0

    @cached_property
    def in_file(self) -> NDArray[np.intp]:
        """Positions of the rows, those of an entity side by side as the file has them."""
        return np.argsort(self.owners, kind="stable")

    @cached_property
    def follows(self) -> NDArray[np.bool_]:
        """True where rows side by side, entity by entity, are of one entity; shape (n - 1,)."""
        return np.asarray(np.diff(self.owners[self.in_file]) == 0)

    @cached_property
    def n_pairs(self) -> int:
        return int(self.follows.sum())

    def ranks(self, name: str) -> NDArray[np.float64]:
        """Values that sort as the column does, shape (n,); NaN where there is none."""
        return order_ranks(self.table[name], self.schema.model_copy(update={"order": name}))

    def sorted_by(self, ranks: NDArray[np.float64]) -> NDArray[np.intp]:
        """Positions of the rows, those of an entity side by side in their order."""
        return np.lexsort((ranks, self.owners))

    def steps(self, values: NDArray[np.float64], at: NDArray[np.intp]) -> NDArray[np.float64]:
        """Differences of rows from those before them in their entity, shape (n_pairs,)."""
        return np.diff(values[at])[self.follows]

    def share_without(self, faults: NDArray[np.bool_]) -> float:
        owners = self.owners[self.in_file][1:][self.follows]
        return 1.0 - len(np.unique(owners[faults])) / self.n_entities

    def tied(self, ranks: NDArray[np.float64]) -> float:
        """Share of the rows that follow another and have its value of the order."""
        return float(np.mean(self.steps(ranks, self.sorted_by(ranks)) == 0))

    def require_told_apart(self, order: str) -> None:
        """Refuse an order that most rows of an entity have in common."""
        # A missing value is no tie: the schema refuses it in a sentence of its own.
        if self.n_pairs and not self.table[order].isna().any() and self.tied(self.ranks(order)) > MOST_TIED_NAMED:
            raise TableError(
                f"an order tells the rows of an entity apart: most rows have the same value of order={order!r} as the "
                "row before; name a column that differs, or leave the order out"
            )

    def is_constant(self, name: str) -> bool:
        """True if each entity holds one value, and chance does not explain it."""
        codes, values = pd.factorize(self.table[name], use_na_sentinel=False)
        if len(values) < 2 or np.any(np.diff(codes[self.in_file])[self.follows]):
            return False
        alike = float(np.sum((np.bincount(codes) / len(codes)) ** 2))
        return self.n_pairs * math.log(alike) <= math.log(MOST_CHANCE)


def _order(rows: _EntityRows, counters: Collection[str]) -> str | None:
    """The column that is convincing as the order, or `None`.

    A date or a time that hardly ever repeats within an entity; else whole numbers that count an entity's rows; else
    numbers or identifiers in which the rows of nearly all entities stand ascending, or descending, in the file.
    """
    known = {name: rows.ranks(name) for name in _candidates(rows)}
    ranks = {name: line for name, line in known.items() if rows.tied(line) <= MOST_TIED}
    columns = rows.schema.columns
    times = [name for name in ranks if columns[name].is_time]
    # Of several times, one that the file follows; then the one that tells most rows apart, then the first.
    times.sort(key=lambda name: (not _stands_in_file(rows, ranks[name]), rows.tied(ranks[name])))
    best = times[0] if times else None
    if best is not None and rows.tied(ranks[best]) == 0:
        return best
    for name in _numbers(rows, ranks, counters):
        # A number that tells rows of one day apart is better than the day, if both go the same way.
        if best is None or (rows.tied(ranks[name]) == 0 and _agree(rows, ranks[name], ranks[best])):
            return name
    return best


def _candidates(rows: _EntityRows) -> Iterator[str]:
    for name, column in rows.schema.columns.items():
        if column.drop or column.missing or name in (rows.schema.entity, rows.schema.target):
            continue
        is_time = column.is_time and _BIRTH.search(name) is None
        if is_time or column.is_whole or _is_serial(column):
            yield name


def _is_serial(column: Any) -> bool:
    """True for identifiers whose order may be that in which they were given: numbers, also behind fixed letters."""
    if not column.is_identifier:
        return False
    free = set(re.sub(r"\\.", "", column.template or ""))
    return column.bounds is not None or ("#" in free and free.isdisjoint("AaXx"))


def _numbers(rows: _EntityRows, ranks: dict[str, NDArray[np.float64]], counters: Collection[str]) -> Iterator[str]:
    """Convincing whole numbers and identifiers, the most convincing first."""
    columns = rows.schema.columns
    whole = [name for name in ranks if columns[name].is_whole]
    yield from (name for name in whole if _counts(rows, ranks[name]))
    named = [name for name in ranks if columns[name].is_identifier]
    amounts = [name for name in whole if name not in counters]
    yield from (name for name in [*named, *amounts] if _stands_in_file(rows, ranks[name]))


def _counts(rows: _EntityRows, ranks: NDArray[np.float64]) -> bool:
    """True if a number counts the rows of nearly all entities, from the same number on."""
    at = rows.sorted_by(ranks)
    starts = np.flatnonzero(np.diff(rows.owners[at], prepend=-1))
    begins = ranks[at][starts] == ranks.min()
    faults = rows.steps(ranks, at) != 1
    return bool(np.mean(begins) >= NEARLY_ALL and rows.share_without(faults) >= NEARLY_ALL)


def _stands_in_file(rows: _EntityRows, ranks: NDArray[np.float64]) -> bool:
    """True if the rows of nearly all entities ascend in the file, or descend in it."""
    steps = rows.steps(ranks, rows.in_file)
    return max(rows.share_without(steps <= 0), rows.share_without(steps >= 0)) >= NEARLY_ALL


def _agree(rows: _EntityRows, ranks: NDArray[np.float64], times: NDArray[np.float64]) -> bool:
    """True if the time never falls along the number, in nearly all entities."""
    return rows.share_without(rows.steps(times, rows.sorted_by(ranks)) < 0) >= NEARLY_ALL


def _grows(rows: _EntityRows, name: str, histories: Histories) -> bool:
    """True if a column never falls along the order, and rises too often for chance.

    Values of an entity that are dealt to its rows in any order ascend with a chance of one over the number of their
    different orders. The product of that over all entities is the chance of the whole table.
    """
    column = rows.schema.columns[name]
    if column.missing or not column.is_quantity:
        return False
    values = column.positions(rows.table[name])[histories.rows]
    begins, rises = histories.places == 1, np.diff(values, prepend=values[:1]) > 0
    if np.any((np.diff(values, prepend=values[:1]) < 0) & ~begins):
        return False
    risen = len(np.unique(histories.owners[rises & ~begins]))
    runs = _lengths(np.flatnonzero(begins | rises), len(values))
    chance = float(np.sum(gammaln(runs + 1)) - np.sum(gammaln(histories.lengths + 1)))
    return risen >= LEAST_RISES * rows.n_entities and chance <= math.log(MOST_CHANCE)


def _lengths(starts: Sequence[int] | NDArray[np.intp], n: int) -> NDArray[np.intp]:
    return np.diff(np.append(starts, n))
