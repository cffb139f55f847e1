"""People by how many share their quasi-identifiers, and whether their combination stands in the synthetic table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluate.intervals import Rate, design_effect_of_units, wilson
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.tables import Tables
from synth.schema import Schema


@dataclass(frozen=True)
class Crowds:
    """How many people share the quasi-identifiers of others, and who stands in the synthetic table. *Sensitive*.

    Attributes:
        sizes: people with one combination, among as many as there are training rows, each one of those who are looked
            at included; shape (k,).
        people: how many of those who are looked at have it, shape (k,).
        matched: whether a synthetic row has it, shape (k,), boolean.
        times: how many combinations are alike in all this, shape (k,).
    """

    sizes: np.ndarray
    people: np.ndarray
    matched: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, n_others: np.ndarray, matched: np.ndarray) -> "Crowds":
        """People by the keys of their combinations, with how many others have the same, and whether it is matched."""
        _, first, people = np.unique(keys, return_index=True, return_counts=True)
        return cls(n_others[first] + 1, people, matched[first], np.ones_like(people))

    @classmethod
    def of_members(cls, sizes: np.ndarray, matched: np.ndarray, times: np.ndarray) -> "Crowds":
        """People who are all looked at, by how many have a combination and how many combinations these are."""
        return cls(sizes, sizes, matched, times)

    def of_size(self, least: int, most: int) -> "Crowds":
        """The people who are in a crowd of that size."""
        found = (self.sizes >= least) & (self.sizes <= most)
        return Crowds(self.sizes[found], self.people[found], self.matched[found], self.times[found])

    def __len__(self) -> int:
        return int((self.people * self.times).sum())

    @property
    def n_matched(self) -> int:
        """People whose combination stands in the synthetic table."""
        return int((self.people * self.times)[self.matched].sum())

    @property
    def rate(self) -> Rate:
        """Their share, with its interval: people who share a combination are matched together."""
        return wilson(self.n_matched / len(self), self.n_independent)

    @property
    def n_independent(self) -> float:
        """How many independent people tell as much as these."""
        return len(self) / design_effect_of_units(self.people, self.people * self.matched, self.times)


def of_combinations(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema of some learned columns alone, and of the entity: keys of its rows are keys of their combinations."""
    kept = {*columns, schema.entity}
    return schema.model_copy(update={"columns": {name: c for name, c in schema.columns.items() if name in kept}})


def crowds(tables: Tables, columns: Sequence[str]) -> tuple[Crowds, Crowds]:
    """Of training and of control rows, each among as many others; one row of each entity.

    Args:
        tables: *Sensitive*.
        columns: quasi-identifiers, at least one.
    """
    people = (
        tables.train.iloc[one_per_entity(tables.order("train"), tables.train, tables.schema)],
        tables.control.iloc[control_people(tables)],
    )
    schema = of_combinations(tables.schema, columns)
    # Control rows beyond as many as there are training rows would tell more of few combinations, not of more.
    train, control = (learned_keys(frame.head(len(people[0])), schema) for frame in people)
    synthetic = np.unique(learned_keys(tables.synthetic, schema))
    return (
        Crowds.of(train, _times(train, train) - 1, np.isin(train, synthetic)),
        Crowds.of(control, _times(control, train[:-1]), np.isin(control, synthetic)),
    )


def control_people(tables: Tables) -> np.ndarray:
    """Positions of control rows, one of each entity, in a seeded order."""
    order = drawn_order(learned_keys(tables.control, tables.schema), tables.seed)
    return one_per_entity(order, tables.control, tables.schema)


def _times(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """How often each key occurs among others, shape (len(keys),)."""
    ranked = np.sort(among)
    return np.asarray(ranked.searchsorted(keys, "right") - ranked.searchsorted(keys, "left"))
