"""Seeded samples of rows that depend on what the rows hold, not on the order in which they or their columns stand."""

import hashlib

import numpy as np
import pandas as pd

from synth.row_hash import content_keys, tickets
from synth.schema import Schema


def learned_keys(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A key for each row, equal for rows that agree in all learned columns; shape (len(frame),), uint64.

    The same where a table is stored: see `synth.row_hash`.
    """
    return content_keys(frame, schema)


def drawn_order(keys: np.ndarray, seed: int, ties: np.ndarray | None = None) -> np.ndarray:
    """Positions of the rows in a seeded random order; its first k are a sample of k rows without replacement.

    Args:
        keys: equal for equal rows, shape (n,), uint64. Equal rows are told apart by their count, so they are drawn
            independently of each other.
        seed: another seed gives another order.
        ties: in what order equal rows are counted, shape (n,); none: as they stand.
    """
    order = np.argsort(keys, kind="stable") if ties is None else np.lexsort((ties, keys))
    ranked = keys[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
    repeat = np.arange(len(keys)) - np.repeat(first, np.diff(np.r_[first, len(keys)]))
    return np.asarray(order[np.argsort(tickets(ranked, repeat, seed), kind="stable")])


def seeded_order(frame: pd.DataFrame, schema: Schema, seed: int) -> np.ndarray:
    """Positions of the rows in a seeded random order, whatever their order was: `drawn_order` of what they hold.

    Rows that are equal in all learned columns are told apart by their entities, so that the units come out alike, too.
    """
    keys = learned_keys(frame, schema)
    if schema.entity is None:
        return drawn_order(keys, seed)
    codes, entities = pd.factorize(frame[schema.entity])
    digests = [hashlib.md5(str(entity).encode(), usedforsecurity=False).hexdigest() for entity in entities]
    _, ranks = np.unique(np.array(digests, dtype=str), return_inverse=True)
    # A row without an entity comes after those with one.
    return drawn_order(keys, seed, np.append(ranks, len(ranks))[codes])


def one_per_entity(order: np.ndarray, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The order with only the first row of each entity; unchanged where rows have no entity."""
    if schema.entity is None:
        return order
    later = frame[schema.entity].iloc[order].duplicated().to_numpy(dtype=bool)
    return np.asarray(order[~later])


def entity_codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The entity of each row as a code from 0; a row without one is its own; shape (len(frame),)."""
    if schema.entity is None:
        return np.arange(len(frame))
    codes, names = pd.factorize(frame[schema.entity])
    alone = codes < 0
    return np.where(alone, len(names) + np.cumsum(alone) - 1, codes)
