"""Histories of training, synthetic, fresh and dealt rows, cut to one size; the values of their columns as codes.

Entities are in a seeded random order and in groups, which half-samples are made of: whole histories stay together.
Dealt histories are as many and as long as the synthetic ones, and hold the same rows, none of which has to do with the
one before it: a table without histories would come to the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.gate.checks import SpoiledCase
from evaluate.intervals import N_GROUPS
from evaluate.sampling import Side, side_seed
from evaluate.tables import Real, Tables
from synth.row_order import Histories, histories_of, order_ranks
from synth.schema import Schema

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
        histories = histories_of(frame, schema)
        turns = np.random.default_rng([seed, 14]).permutation(len(histories.starts))
        return cls(frame, histories, order_ranks(frame[str(schema.order)], schema), turns)

    def dealt(self, seed: int) -> "GroupedHistories":
        """The same rows, dealt at random to as many histories of the same lengths, and put in order there."""
        dealt = np.random.default_rng([seed, 15]).permutation(self.histories.rows)
        order = np.lexsort((self.ranks[dealt], self.histories.owners))
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
        lengths = self.lengths[kept]
        rows = self.histories.rows[np.repeat(kept, self.lengths)]
        return GroupedHistories(self.frame, Histories(rows, np.cumsum(lengths) - lengths), self.ranks, self.turns[kept])

    def first_steps(self, n: int) -> "GroupedHistories":
        """The first entities of the random order that have n steps together, at most."""
        order = np.argsort(self.turns)
        return self.first_entities(int(np.searchsorted(np.cumsum(self.lengths[order] - 1), n, "right")))

    @property
    def groups(self) -> np.ndarray:
        return self.turns % N_GROUPS

    @property
    def step_groups(self) -> np.ndarray:
        return np.asarray(self.groups[self.step_owners])

    @property
    def step_owners(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), self.lengths - 1)


@dataclass(frozen=True, eq=False)
class HistorySamples:
    train: GroupedHistories  # *Sensitive*
    others: tuple[GroupedHistories, ...]  # synthetic, fresh and dealt ones

    @classmethod
    def of(cls, tables: Tables) -> "HistorySamples":
        def grouped(side: Side, frame: Callable[[], pd.DataFrame]) -> GroupedHistories:
            kept = tables.kept if side == "synthetic" else tables.kept_of_real
            seed = side_seed(tables.seed, side)
            return kept.once(("histories", side), lambda: GroupedHistories.of(frame(), tables.schema, seed))

        train, fresh = grouped("train", lambda: tables.train), grouped("holdout", lambda: tables.holdout)
        synthetic = grouped("synthetic", lambda: tables.synthetic)
        seed = side_seed(tables.seed, "shuffled")
        return cls(train, (synthetic, fresh, tables.kept.once("dealt histories", lambda: synthetic.dealt(seed))))

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
    codes: tuple[np.ndarray, ...]
    labels: tuple[str, ...]
    is_number: bool
    is_cut: bool  # whether a code is of many values, which lie between two quantiles

    @classmethod
    def of(cls, name: str, samples: HistorySamples, schema: Schema) -> "StepCodes":
        """Values are told apart as the training table suggests. `samples`: *Sensitive*."""
        column, series = schema.columns[name], [each.frame[name] for each in samples.all]
        if column.is_categorical:
            counts = series[0].dropna().astype(object).value_counts()
            # The most frequent categories; of equally frequent ones those that sort first.
            frequent = sorted(counts.index, key=lambda value: (-int(counts[value]), str(value)))[:MOST_CATEGORIES]
            index = pd.Index(frequent, dtype=object)
            known = [index.get_indexer(pd.Index(each.astype(object))) for each in series]
            missing = [each.isna().to_numpy(dtype=bool) for each in series]
            labels, n, is_cut = [str(value) for value in frequent], len(frequent), False
        else:
            positions = [column.positions(each) for each in series]
            missing = [np.isnan(each) for each in positions]
            values = positions[0][~missing[0]]
            edges = np.unique(values)[1:]  # between all values where these are few, else between quantiles
            if is_cut := len(edges) >= N_BINS:
                edges = np.unique(np.quantile(values, np.arange(1, N_BINS) / N_BINS, method="lower"))
            known = [np.searchsorted(edges, each, side="right") for each in positions]
            n = len(edges) + 1
            labels = [f"part {i + 1} of {n}" for i in range(n)]
        codes = (np.where(gone, n + 1, np.where(code < 0, n, code)) for code, gone in zip(known, missing, strict=True))
        return cls(tuple(codes), (*labels, "other", "missing"), not column.is_categorical, is_cut)


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
