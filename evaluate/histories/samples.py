"""Samples of histories: training, synthetic and fresh ones, and synthetic rows dealt to other entities.

Entities are in a seeded random order and in groups, which half-samples are made of: whole histories stay together.
Dealt histories are as many and as long as the synthetic ones, and hold the same rows. No row has to do with the one
before it. A table without histories would come to the same.

The steps of histories as a table of its own: each row that follows another one, beside that row.

Measures that look at single rows take them from there: what is predicted of the next event, and who is singled out by
what followed what.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.intervals import N_GROUPS
from evaluate.sampling import side_seed
from evaluate.tables import Tables
from synth.row_order import Histories, histories_of, order_ranks
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn
from understudy.extras.histories.layout import HistoryLayout

MOST_ROWS = 10_000_000  # The largest place in a history


@dataclass(frozen=True)
class StepLayout:
    """Columns of a table of steps, named as models of histories name them (`understudy.extras.histories.layout`)."""

    schema: Schema
    constant: tuple[str, ...]
    before: dict[str, str]
    now: tuple[str, ...]
    place: str | None

    @classmethod
    def of(cls, schema: Schema, now: tuple[str, ...], *, with_place: bool = False) -> "StepLayout":
        layout = HistoryLayout(schema, MOST_ROWS)
        before = {name: layout.before(name) for name in varying(schema)}
        place = layout.place if with_place else None
        names = (str(schema.entity), *layout.constant, *now)
        # As values: what a column is modeled by may be no column of the steps.
        values = {name: column.model_copy(update={"modeled": None}) for name, column in schema.columns.items()}
        columns: dict[str, Any] = {name: values[name] for name in names}
        columns |= {new: values[name] for name, new in before.items()}
        if place is not None:
            columns[place] = IntegerColumn(bounds=(1, MOST_ROWS))
        target = schema.target if schema.target in now else None
        made = Schema(
            status=schema.status, target=target, task=schema.task if target else None, entity=schema.entity,
            columns=columns,
        )  # fmt: skip
        return cls(made, layout.constant, before, now, place)

    def steps(self, frame: pd.DataFrame, histories: Histories) -> pd.DataFrame:
        """The steps of a table. `frame`: *Sensitive* where it is real. Conforming to the schema."""
        now, before = histories.pairs
        rows, earlier = (frame.iloc[at].reset_index(drop=True) for at in (now, before))
        made = {name: rows[name] for name in (str(self.schema.entity), *self.constant, *self.now)}
        made |= {new: earlier[name] for name, new in self.before.items()}
        if self.place is not None:
            places = histories.places
            made[self.place] = pd.Series(places[places > 1], dtype="Int64")
        return pd.DataFrame({name: made[name] for name in self.schema.columns}, copy=False)


NO_ORDER = "the schema names no order of an entity's rows, so that they make no history"
"""The reason why nothing is measured of a table without histories."""
MIN_HISTORIES = 2 * N_GROUPS  # Entities with two rows or more that each table needs
MIN_COMPARED = 24
"""Of these, those that are left where tables are cut to equally many steps: with fewer a half-sample may be empty."""
N_BINS = 8  # Quantiles of the training table that values of a number are told apart by
MOST_CATEGORIES = 16  # Categories that are told apart, the most frequent ones; the others are one


@dataclass(frozen=True, eq=False)
class GroupedHistories:
    """Histories of one table. *Sensitive* where it is real."""

    frame: pd.DataFrame
    histories: Histories
    ranks: np.ndarray  # values of the order as numbers, shape (n_rows,)
    turns: np.ndarray  # the place of each entity in a seeded random order, shape (n_entities,)

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, seed: int) -> "GroupedHistories":
        found = histories_of(frame, schema)
        turns = np.random.default_rng([seed, 14]).permutation(len(found.starts))
        return cls(frame, found, order_ranks(frame[str(schema.order)], schema), turns)

    def dealt(self, seed: int) -> "GroupedHistories":
        """The same rows, dealt at random to as many histories of the same lengths, and put in order there."""
        rows, owners = self.histories.rows, self.histories.owners
        dealt = np.random.default_rng([seed, 15]).permutation(rows)
        order = np.lexsort((self.ranks[dealt], owners))
        return GroupedHistories(self.frame, Histories(dealt[order], self.histories.starts), self.ranks, self.turns)

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each history, shape (n_entities,)."""
        return self.histories.lengths

    @property
    def n_histories(self) -> int:
        """Entities with two rows or more."""
        return int((self.lengths > 1).sum())

    @property
    def n_steps(self) -> int:
        """Rows that follow another one."""
        return int((self.lengths - 1).sum())

    def first_entities(self, n: int) -> "GroupedHistories":
        return self._where(self.turns < n)

    def first_steps(self, n: int) -> "GroupedHistories":
        """The first entities of the random order that have n steps together, at most."""
        order = np.argsort(self.turns)
        return self.first_entities(int(np.searchsorted(np.cumsum(self.lengths[order] - 1), n, "right")))

    def _where(self, kept: np.ndarray) -> "GroupedHistories":
        if kept.all():
            return self
        lengths = self.lengths[kept]
        rows = self.histories.rows[np.repeat(kept, self.lengths)]
        return GroupedHistories(self.frame, Histories(rows, np.cumsum(lengths) - lengths), self.ranks, self.turns[kept])

    @property
    def groups(self) -> np.ndarray:
        """The group of each entity, shape (n_entities,)."""
        return self.turns % N_GROUPS

    @property
    def step_groups(self) -> np.ndarray:
        """The group of each step, shape (n_steps,)."""
        return np.repeat(self.groups, np.maximum(self.lengths - 1, 0))

    @property
    def step_owners(self) -> np.ndarray:
        """The number of each step's entity, shape (n_steps,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths - 1)


@dataclass(frozen=True, eq=False)
class HistorySamples:
    train: GroupedHistories  # *Sensitive*
    others: tuple[GroupedHistories, GroupedHistories, GroupedHistories]

    @classmethod
    def of(cls, tables: Tables) -> "HistorySamples":
        """The histories of an evaluation, made once for the same tables."""
        return tables.kept.once("histories", lambda: cls._made(tables))

    @classmethod
    def _made(cls, tables: Tables) -> "HistorySamples":
        schema, seed = tables.schema, tables.seed

        def real(side: str, frame: pd.DataFrame) -> GroupedHistories:
            side_of = side_seed(seed, "train" if side == "train" else "holdout")
            return tables.kept_of_real.once(("histories", side), lambda: GroupedHistories.of(frame, schema, side_of))

        synthetic = GroupedHistories.of(tables.synthetic, schema, side_seed(seed, "synthetic"))
        dealt = synthetic.dealt(side_seed(seed, "shuffled"))
        return cls(real("train", tables.train), (synthetic, real("holdout", tables.holdout), dealt))

    @property
    def all(self) -> tuple[GroupedHistories, ...]:
        return (self.train, *self.others)

    @property
    def n_histories(self) -> int:
        """Entities with two rows or more in the table with the fewest."""
        return min(one.n_histories for one in self.all)

    def equal_entities(self) -> "HistorySamples":
        """The others cut to equally many entities: a small sample adds to a distance."""
        n = min(len(one.lengths) for one in self.others)
        return HistorySamples(self.train, tuple(one.first_entities(n) for one in self.others))  # type: ignore[arg-type]

    def equal_steps(self) -> "HistorySamples":
        n = min(one.n_steps for one in self.others)
        return HistorySamples(self.train, tuple(one.first_steps(n) for one in self.others))  # type: ignore[arg-type]


def varying(schema: Schema) -> tuple[str, ...]:
    """Modeled columns that may change from row to row, without the order. `HistoryLayout.varying` has the order, too:
    it is drawn like other columns, and is sorted here.
    """
    return tuple(name for name in schema.modeled if name not in schema.constant_in_entity and name != schema.order)


def numbers(schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in varying(schema) if schema.columns[name].is_line)


def has_times(schema: Schema) -> bool:
    """True where the order is a number or time, so that there are gaps between rows."""
    return schema.order is not None and not schema.columns[schema.order].is_identifier


@dataclass(frozen=True)
class StepCodes:
    """One column as codes: those of values, then `other`, then missing."""

    codes: tuple[np.ndarray, ...]
    labels: tuple[str, ...]
    is_number: bool


def step_codes(name: str, samples: HistorySamples, schema: Schema) -> StepCodes:
    """The codes of a column, told apart as the training table suggests. `samples`: *Sensitive*."""
    column, series = schema.columns[name], [one.frame[name] for one in samples.all]
    if column.is_categorical:
        frequent = _frequent(series[0])
        known = [frequent.get_indexer(pd.Index(one.astype(object))) for one in series]
        missing = [one.isna().to_numpy(dtype=bool) for one in series]
        labels, n = [str(value) for value in frequent], len(frequent)
    else:
        places = [column.positions(one) for one in series]
        missing = [np.isnan(one) for one in places]
        edges = _edges(places[0][~missing[0]])
        known = [np.searchsorted(edges, one, side="right") for one in places]
        n = len(edges) + 1
        labels = [f"part {i + 1} of {n}" for i in range(n)]
    codes = tuple(np.where(gone, n + 1, np.where(code < 0, n, code)) for code, gone in zip(known, missing, strict=True))
    return StepCodes(codes, (*labels, "other", "missing"), not column.is_categorical)


def _frequent(series: pd.Series) -> pd.Index:
    """The most frequent categories; of equally frequent ones those that sort first."""
    counts = series.dropna().astype(object).value_counts()
    names = sorted(counts.index, key=lambda value: (-int(counts[value]), str(value)))
    frequent: pd.Index = pd.Index(names[:MOST_CATEGORIES], dtype=object)
    return frequent


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges between the quantiles of values; between all values where these are few."""
    distinct = np.unique(values)
    if len(distinct) <= N_BINS:
        return np.asarray(distinct[1:])
    return np.unique(np.quantile(values, np.arange(1, N_BINS) / N_BINS, method="lower"))


def step_positions(name: str, samples: Iterable[GroupedHistories], schema: Schema) -> list[np.ndarray]:
    """A number or time of each table's rows as positions, NaN where missing."""
    column = schema.columns[name]
    return [column.positions(one.frame[name]) for one in samples]
