"""Rows dealt to entities so that a key within an entity never repeats, such as one visit of a patient a day.

Rows are drawn without their entity. Where two rows of an entity share the rest of its key, rows change hands: first at
random, and where that does not do, the most frequent values first, each to the entities with most rows left.
"""

import numpy as np
import pandas as pd

from synth.constraints import Unique
from synth.domain.lawfulness import repeated
from synth.errors import ModelError
from synth.generators.entities import row_groups
from synth.schema import Schema

ROUNDS = 30
"""How often rows change hands at random."""


def deal(learned: pd.DataFrame, owner: np.ndarray, schema: Schema, rng: np.random.Generator) -> np.ndarray:
    """The entity of every row, shape (n,), none of which holds a value of its key twice; sizes stay as they are.

    Rows change hands among entities that agree in the columns which are constant within one. The same array comes back
    where nothing has to change.

    Args:
        learned: canonical columns that a generator made.
        owner: the entity of every row as a number from 0, shape (n,).
        schema: names the key, if there is one that holds the entity.
        rng: source of the draw.

    Raises:
        ModelError: no way of dealing the rows keeps the key; there is no table.

    Source: Gale 1957, "A theorem on flows in networks", whose construction finds a way wherever there is one.
    """
    key = next((c for c in schema.constraints if isinstance(c, Unique) and schema.entity in c.columns), None)
    if key is None:
        return owner
    values = _values(learned, tuple(name for name in key.columns if name != schema.entity), schema)
    constant = [name for name in schema.constant_in_entity if name in schema.learned]
    groups = row_groups(learned[constant]) if constant else np.zeros(len(learned), dtype=np.int64)
    owner = _swapped(owner, values, groups, rng)
    for group in np.unique(groups[_clashes(owner, values)]):
        rows = np.flatnonzero(groups == group)
        dealt = _dealt(values[rows], owner[rows], rng)
        if dealt is None:
            raise ModelError(
                f"the rows that were drawn cannot be dealt to entities so that {key}: a value is in more rows than "
                "there are entities to hold it; correct the constraint, or name fewer columns in constant_in_entity"
            )
        owner = owner.copy()
        owner[rows] = dealt
    return owner


def _values(learned: pd.DataFrame, names: tuple[str, ...], schema: Schema) -> np.ndarray:
    """A number for the rest of each row's key, equal where it repeats; a missing part repeats nothing."""
    again = repeated(learned, Unique(columns=names), schema.columns)
    numbers = np.arange(len(learned))
    places = np.flatnonzero(again)
    numbers[places] = len(learned) + row_groups(learned[list(names)].iloc[places])
    return np.unique(numbers, return_inverse=True)[1]


def _clashes(owner: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which rows hold a value that a row of the same entity holds before them; positions."""
    together = owner.astype(np.int64) * (int(values.max()) + 1) + values
    first = np.zeros(len(owner), dtype=bool)
    first[np.unique(together, return_index=True)[1]] = True
    return np.flatnonzero(~first)


def _swapped(owner: np.ndarray, values: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The owners after rows that clash have changed hands with others of their group, as long as that helps."""
    clashes = _clashes(owner, values)
    for _ in range(ROUNDS):
        if len(clashes) == 0:
            break
        others = rng.choice(len(owner), size=min(len(owner), 4 * len(clashes)), replace=False)
        rows = np.union1d(clashes, others)
        tried = owner.copy()
        tried[rows[np.argsort(groups[rows], kind="stable")]] = owner[
            rows[np.lexsort((rng.random(len(rows)), groups[rows]))]
        ]
        left = _clashes(tried, values)
        if len(left) < len(clashes):
            owner, clashes = tried, left
    return owner


def _dealt(values: np.ndarray, owner: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The owners of one group's rows, with the same number of rows each and no value twice; none where there is none.

    A value goes to the entities with most rows left, which leaves a way for all others wherever there is one.
    """
    entities, left = np.unique(owner, return_counts=True)
    dealt = np.empty_like(owner)
    numbers, counts = np.unique(values, return_counts=True)
    order = np.argsort(values, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    for index in np.lexsort((rng.random(len(numbers)), -counts)):
        most = np.lexsort((rng.random(len(left)), -left))[: counts[index]]
        if len(most) < counts[index] or left[most].min() == 0:
            return None
        left[most] -= 1
        dealt[order[starts[index] : starts[index] + counts[index]]] = entities[most]
    return dealt
