"""Seeded samples of rows, and the sides of an evaluation that they are drawn from.

A sample depends on what the rows hold, not on the order in which they or their columns stand. Each side (train,
synthetic, holdout, shuffled) has a seed of its own. A side that has too few rows, or a holdout that is not held out, is
refused here before anything is measured.
"""

import hashlib
from typing import Literal, get_args

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
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
        ties: in what order equal rows are counted, shape (n,); `None`: as they stand.
    """
    order = np.argsort(keys, kind="stable") if ties is None else np.lexsort((ties, keys))
    ranked = keys[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
    repeat = np.arange(len(keys)) - np.repeat(first, np.diff(np.r_[first, len(keys)]))
    return np.asarray(order[np.argsort(tickets(ranked, repeat, seed), kind="stable")])


def seeded_order(frame: pd.DataFrame, schema: Schema, seed: int) -> np.ndarray:
    """Positions of the rows in a seeded random order, whatever their order was: `drawn_order` of what they hold.

    Rows that are equal in all learned columns are told apart by their entities and free texts, so that units and texts
    come out alike, too.
    """
    keys = learned_keys(frame, schema)
    names = [name for name in (schema.entity, *schema.texts) if name is not None]
    if not names:
        return drawn_order(keys, seed)
    ranks = [_digest_ranks(frame[name]) for name in names]
    _, ties = np.unique(np.stack(ranks, axis=1), axis=0, return_inverse=True)
    return drawn_order(keys, seed, ties.reshape(-1))


def _digest_ranks(column: pd.Series) -> np.ndarray:
    """The place of each value among the digests of all of them, shape (n,); missing ones come last."""
    codes, values = pd.factorize(column)
    texts = [str(value).encode(errors="surrogatepass") for value in values]
    digests = [hashlib.md5(text, usedforsecurity=False).hexdigest() for text in texts]
    _, ranks = np.unique(np.array(digests, dtype=str), return_inverse=True)
    return np.append(ranks, len(ranks))[codes]


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


MIN_TRAIN_ROWS = 40
MIN_HOLDOUT_ROWS = 40
MIN_SYNTHETIC_ROWS = 2
MOSTLY = 0.5
"""Share of rows above which a table is one without twins, and a holdout is not held out."""

Side = Literal["train", "synthetic", "holdout", "shuffled", "fresh", "control"]
SIDES: tuple[Side, ...] = get_args(Side)[:4]
"""Those whose rows have an order of their own."""


def side_seed(seed: int, side: Side) -> int:
    """The seed of the order of one table's rows: tables are drawn independently of each other."""
    return len(SIDES) * seed + SIDES.index(side)


def refuse_few(n_train: int, n_holdout: int) -> None:
    """Refuse a side with too few rows."""
    for name, n, least in (("train", n_train, MIN_TRAIN_ROWS), ("holdout", n_holdout, MIN_HOLDOUT_ROWS)):
        if n < least:
            raise EvaluationError(f"an evaluation needs at least {least} rows of {name}; give it a larger table")


def refuse_one_unit(*halves: pd.DataFrame) -> None:
    """Refuse a holdout that has no two halves, since all of its rows are of one entity."""
    if any(half.empty for half in halves):
        raise EvaluationError(
            "the holdout is halved, whole entities together: it has the rows of one entity alone; give it more entities"
        )


def refuse_overlap(train: tuple[np.ndarray, np.ndarray], holdout: np.ndarray) -> None:
    """Refuse a holdout that is not held out: its rows stand in train, though the table is not one of twins.

    Args:
        train: *Sensitive*. The keys of its rows, each once, and how many rows have it.
        holdout: *Sensitive*. The keys of its rows.
    """
    keys, counts = train
    alone = counts[counts == 1].sum() / counts.sum()
    shared = np.isin(holdout, keys[counts == 1]).mean()
    if alone > MOSTLY and shared > MOSTLY:
        raise EvaluationError(
            "a holdout is held out, and most rows of this one are rows of train; pass the two parts that "
            "`understudy split` made"
        )


def shuffle_columns(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The table with every column permuted on its own: right in each column, wrong in every pair."""
    shuffled = {name: frame[name].take(rng.permutation(len(frame))).reset_index(drop=True) for name in frame.columns}
    return pd.DataFrame(shuffled)
