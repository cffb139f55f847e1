"""Seeded samples of rows, and the sides of an evaluation that they are drawn from.

A sample depends on what the rows hold, not on the order in which they or their columns stand.
"""

from typing import Literal, get_args

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from synth.schema import Schema


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
MOSTLY = 0.5  # Share of rows above which a table is one without twins, and a holdout is not held out

Side = Literal["train", "synthetic", "holdout", "shuffled", "fresh", "control"]
SIDES: tuple[Side, ...] = get_args(Side)[:4]  # Those whose rows have an order of their own


def side_seed(seed: int, side: Side) -> int:
    """The seed of the order of one table's rows: tables are drawn independently of each other."""
    return len(SIDES) * seed + SIDES.index(side)


def refuse_few(n_train: int, n_holdout: int, *, held_out: bool = True) -> None:
    if not held_out and min(n_train, n_holdout) < MIN_TRAIN_ROWS:
        raise EvaluationError(
            f"an evaluation without a holdout halves the real rows and needs at least {MIN_TRAIN_ROWS} in either half; "
            "give it a larger table"
        )
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
    """Refuse a holdout whose rows stand in train, though the table is not one of twins. Keys: *Sensitive*."""
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
