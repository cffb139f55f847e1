"""Samples of histories: training, synthetic and fresh ones, synthetic rows dealt to other entities; steps as rows.

Entities are in a seeded random order and in groups, which half-samples are made of: whole histories stay together.
Dealt histories are as many and as long as the synthetic ones, and hold the same rows. No row has to do with the one
before it. A table without histories would come to the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.gate.spoiled_cases import SpoiledCase
from evaluate.intervals import N_GROUPS
from evaluate.sampling import Side, side_seed
from evaluate.tables import Real, Tables
from synth.row_order import Histories, histories_of, order_ranks
from synth.schema import Schema
from synth.schema.counted import free_name
from synth.schema.kinds import IntegerColumn

NO_ORDER = "the schema names no order of an entity's rows, so that they make no history"
"""The reason why nothing is measured of a table without histories."""
MIN_HISTORIES = 2 * N_GROUPS  # Entities with two rows or more that each table needs
MIN_COMPARED = 24
"""Of these, those that are left where tables are cut to equally many steps: with fewer a half-sample may be empty."""
N_BINS = 8  # Quantiles of the training table that values of a number are told apart by
MOST_CATEGORIES = 16  # Categories that are told apart, the most frequent ones; the others are one
MOST_ROWS = 10_000_000  # The largest place in a history


@dataclass(frozen=True)
class StepLayout:
    """A table of steps, each row that follows another one beside that row, for measures that look at single rows."""

    schema: Schema
    before: dict[str, str]
    now: tuple[str, ...]
    place: str | None

    @classmethod
    def of(cls, schema: Schema, now: tuple[str, ...], *, with_place: bool = False) -> "StepLayout":
        before = {name: free_name(f"{name}, row before", schema.columns) for name in varying(schema)}
        place = free_name("place in the history", {*schema.columns, *before.values()}) if with_place else None
        constant = (name for name in schema.modeled if name in schema.constant_in_entity)
        # As values: what a column is modeled by may be no column of the steps.
        values = {name: column.model_copy(update={"modeled": None}) for name, column in schema.columns.items()}
        columns: dict[str, Any] = {name: values[name] for name in (str(schema.entity), *constant, *now)}
        columns |= {new: values[name] for name, new in before.items()}
        if place is not None:
            columns[place] = IntegerColumn(bounds=(1, MOST_ROWS))
        target = schema.target if schema.target in now else None
        made = Schema(
            status=schema.status, target=target, task=schema.task if target else None, entity=schema.entity,
            columns=columns,
        )  # fmt: skip
        return cls(made, before, now, place)

    def steps(self, frame: pd.DataFrame, histories: Histories) -> pd.DataFrame:
        """The steps of a table. `frame`: *Sensitive* where it is real. Conforming to the schema."""
        now, before = histories.pairs
        rows, earlier = (frame.iloc[at].reset_index(drop=True) for at in (now, before))
        made: dict[str, Any] = {name: rows[name] for name in self.schema.columns if name in rows}
        made |= {new: earlier[name] for name, new in self.before.items()}
        if self.place is not None:
            places = histories.places
            made[self.place] = pd.Series(places[places > 1], dtype="Int64")
        return pd.DataFrame({name: made[name] for name in self.schema.columns}, copy=False)


@dataclass(frozen=True, eq=False)
class GroupedHistories:
    """Histories of one table. *Sensitive* where it is real."""

    frame: pd.DataFrame
    histories: Histories
    ranks: np.ndarray  # values of the order as numbers, shape (n_rows,)
    turns: np.ndarray  # the place of each entity in a seeded random order, shape (n_entities,)

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, seed: int) -> "GroupedHistories":
        histories = histories_of(frame, schema)
        turns = np.random.default_rng([seed, 14]).permutation(len(histories.starts))
        return cls(frame, histories, order_ranks(frame[str(schema.order)], schema), turns)

    def dealt(self, seed: int) -> "GroupedHistories":
        """The same rows, dealt at random to as many histories of the same lengths, and put in order there."""
        rows, owners = self.histories.rows, self.histories.owners
        dealt = np.random.default_rng([seed, 15]).permutation(rows)
        order = np.lexsort((self.ranks[dealt], owners))
        return GroupedHistories(self.frame, Histories(dealt[order], self.histories.starts), self.ranks, self.turns)

    @property
    def lengths(self) -> np.ndarray:
        return self.histories.lengths

    @property
    def n_histories(self) -> int:
        """Entities with two rows or more."""
        return int((self.lengths > 1).sum())

    @property
    def n_steps(self) -> int:
        return int((self.lengths - 1).sum())

    def first_entities(self, n: int) -> "GroupedHistories":
        kept = self.turns < n
        if kept.all():
            return self
        lengths = self.lengths[kept]
        rows = self.histories.rows[np.repeat(kept, self.lengths)]
        return GroupedHistories(self.frame, Histories(rows, np.cumsum(lengths) - lengths), self.ranks, self.turns[kept])

    def first_steps(self, n: int) -> "GroupedHistories":
        """The first entities of the random order that have n steps together, at most."""
        order = np.argsort(self.turns)
        return self.first_entities(int(np.searchsorted(np.cumsum(self.lengths[order] - 1), n, "right")))

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
    others: tuple[GroupedHistories, ...]  # synthetic, fresh and dealt ones

    @classmethod
    def of(cls, tables: Tables) -> "HistorySamples":
        """The histories of an evaluation, made once for the same tables."""
        schema = tables.schema

        def real(side: Side, frame: pd.DataFrame) -> GroupedHistories:
            seed = side_seed(tables.seed, side)
            return tables.kept_of_real.once(("histories", side), lambda: GroupedHistories.of(frame, schema, seed))

        def make() -> HistorySamples:
            synthetic = GroupedHistories.of(tables.synthetic, schema, side_seed(tables.seed, "synthetic"))
            dealt = synthetic.dealt(side_seed(tables.seed, "shuffled"))
            return cls(real("train", tables.train), (synthetic, real("holdout", tables.holdout), dealt))

        return tables.kept.once("histories", make)

    @property
    def all(self) -> tuple[GroupedHistories, ...]:
        return (self.train, *self.others)

    @property
    def n_histories(self) -> int:
        return min(each.n_histories for each in self.all)

    def equal_entities(self) -> "HistorySamples":
        """The others cut to equally many entities: a small sample adds to a distance."""
        n = min(len(each.lengths) for each in self.others)
        return HistorySamples(self.train, tuple(each.first_entities(n) for each in self.others))

    def equal_steps(self) -> "HistorySamples":
        n = min(each.n_steps for each in self.others)
        return HistorySamples(self.train, tuple(each.first_steps(n) for each in self.others))


def varying(schema: Schema) -> tuple[str, ...]:
    """Modeled columns that may change from row to row, without the order, which rows are sorted by."""
    return tuple(name for name in schema.modeled if name not in schema.constant_in_entity and name != schema.order)


@dataclass(frozen=True)
class StepCodes:
    """One column as codes in each table: those of values, then `other`, then missing."""

    codes: tuple[np.ndarray, ...]
    labels: tuple[str, ...]
    is_number: bool

    @classmethod
    def of(cls, name: str, samples: HistorySamples, schema: Schema) -> "StepCodes":
        """Values are told apart as the training table suggests. `samples`: *Sensitive*."""
        column, series = schema.columns[name], [each.frame[name] for each in samples.all]
        if column.is_categorical:
            counts = series[0].dropna().astype(object).value_counts()
            # The most frequent categories; of equally frequent ones those that sort first.
            names = sorted(counts.index, key=lambda value: (-int(counts[value]), str(value)))[:MOST_CATEGORIES]
            frequent = pd.Index(names, dtype=object)
            known = [frequent.get_indexer(pd.Index(each.astype(object))) for each in series]
            missing = [each.isna().to_numpy(dtype=bool) for each in series]
            labels, n = [str(value) for value in frequent], len(frequent)
        else:
            positions = step_positions(name, samples.all, schema)
            missing = [np.isnan(each) for each in positions]
            edges = _edges(positions[0][~missing[0]])
            known = [np.searchsorted(edges, each, side="right") for each in positions]
            n = len(edges) + 1
            labels = [f"part {i + 1} of {n}" for i in range(n)]
        codes = (np.where(gone, n + 1, np.where(code < 0, n, code)) for code, gone in zip(known, missing, strict=True))
        return cls(tuple(codes), (*labels, "other", "missing"), not column.is_categorical)


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges between the quantiles of values; between all values where these are few."""
    distinct = np.unique(values)
    if len(distinct) <= N_BINS:
        return np.asarray(distinct[1:])
    return np.unique(np.quantile(values, np.arange(1, N_BINS) / N_BINS, method="lower"))


def step_positions(name: str, samples: Iterable[GroupedHistories], schema: Schema) -> list[np.ndarray]:
    """A number or time of each table's rows as positions, NaN where missing."""
    column = schema.columns[name]
    return [column.positions(each.frame[name]) for each in samples]


def deal_rows(real: Real) -> pd.DataFrame:
    """The training rows, dealt at random to the entities; each has as many rows as before. `real`: *Sensitive*."""
    entity = str(real.schema.entity)
    turns = np.random.default_rng([real.seed, 5]).permutation(len(real.train))
    return real.train.assign(**{entity: real.train[entity].take(turns).set_axis(real.train.index)})


DEALT = SpoiledCase(
    needs="order",
    measure="fidelity.histories",
    spoil=deal_rows,
    title="Rows dealt at random to entities must fail on histories",
    text="The training table with its rows dealt at random to entities",
    subject="the dependence on the row before",
    silent="Rows hardly depend on the row before, or too few entities have two rows to tell.",
)
