"""Seeded samples of rows that depend on what the rows hold, not on the order in which they or their columns stand."""

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.split import row_keys

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def learned_keys(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A key for each row, equal for rows that agree in all learned columns; shape (len(frame),), uint64."""
    return row_keys(frame, sorted(schema.learned))


def drawn_order(keys: np.ndarray, seed: int) -> np.ndarray:
    """Positions of the rows in a seeded random order; its first k are a sample of k rows without replacement.

    Args:
        keys: equal for equal rows, shape (n,), uint64. Equal rows are told apart by their count, so they are drawn
            independently of each other.
        seed: another seed gives another order.
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
    repeat = np.arange(len(keys)) - np.repeat(first, np.diff(np.r_[first, len(keys)]))
    salt = _scrambled(np.full(1, seed % 2**64, dtype=np.uint64))
    tickets = _scrambled(ranked ^ _scrambled(repeat.astype(np.uint64) + salt))
    return np.asarray(order[np.argsort(tickets, kind="stable")])


def one_per_entity(order: np.ndarray, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The order with only the first row of each entity; unchanged where rows have no entity."""
    if schema.entity is None:
        return order
    later = frame[schema.entity].iloc[order].duplicated().to_numpy(dtype=bool)
    return np.asarray(order[~later])


def entity_codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The entity of each row as a code from 0; without entities, each row is its own; shape (len(frame),)."""
    if schema.entity is None:
        return np.arange(len(frame))
    return np.asarray(pd.factorize(frame[schema.entity])[0])


def _scrambled(numbers: np.ndarray) -> np.ndarray:
    """Numbers that look drawn at random (splitmix64).

    Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", figure 14.
    """
    numbers = numbers + _GOLDEN
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
