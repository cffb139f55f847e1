"""The sides that an evaluation compares: their names, their seeds, and what each must have."""

from typing import Literal, get_args

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from evaluate.sampling import learned_keys
from synth.schema import Schema

MIN_TRAIN_ROWS = 40
MIN_HOLDOUT_ROWS = 40
MIN_SYNTHETIC_ROWS = 2
MOSTLY = 0.5
"""Share of rows above which a table is one without twins, and a holdout is not held out."""

Side = Literal["train", "synthetic", "holdout", "shuffled"]
SIDES: tuple[Side, ...] = get_args(Side)


def side_seed(seed: int, side: Side) -> int:
    """The seed of the order of one table's rows: tables are drawn independently of each other."""
    return len(SIDES) * seed + SIDES.index(side)


def refuse_few(n_train: int, n_holdout: int) -> None:
    """Refuse a side with too few rows.

    Raises:
        EvaluationError: a side has fewer than it needs; nothing was measured.
    """
    for name, n, least in (("train", n_train, MIN_TRAIN_ROWS), ("holdout", n_holdout, MIN_HOLDOUT_ROWS)):
        if n < least:
            raise EvaluationError(f"an evaluation needs at least {least} rows of {name}; give it a larger table")


def refuse_one_unit(*halves: pd.DataFrame) -> None:
    """Refuse a holdout that has no two halves, since all of its rows are of one entity.

    Raises:
        EvaluationError: a half has no row; nothing was measured.
    """
    if any(half.empty for half in halves):
        raise EvaluationError(
            "the holdout is halved, whole entities together: it has the rows of one entity alone; give it more entities"
        )


def refuse_overlap(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema) -> None:
    """Refuse a holdout that is not held out: its rows stand in train, though the table is not one of twins.

    Args:
        train: *Sensitive*. Conforming to the schema.
        holdout: *Sensitive*. Conforming to the schema.
        schema: names the columns.

    Raises:
        EvaluationError: most rows of the holdout are rows of train; nothing was measured.
    """
    keys, counts = np.unique(learned_keys(train, schema), return_counts=True)
    alone = counts[counts == 1].sum() / counts.sum()
    shared = np.isin(learned_keys(holdout, schema), keys[counts == 1]).mean()
    refuse_shared(float(alone), float(shared))


def refuse_shared(alone: float, shared: float) -> None:
    """Refuse a holdout that is not held out.

    Args:
        alone: share of the training rows that occur once.
        shared: share of the holdout's rows that equal one of these.

    Raises:
        EvaluationError: both are most; nothing was measured.
    """
    if alone > MOSTLY and shared > MOSTLY:
        raise EvaluationError(
            "a holdout is held out, and most rows of this one are rows of train; pass the two parts that "
            "`understudy split` made"
        )


def shuffle_columns(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The table with every column permuted on its own: right in each column, wrong in every pair."""
    shuffled = {name: frame[name].take(rng.permutation(len(frame))).reset_index(drop=True) for name in frame.columns}
    return pd.DataFrame(shuffled)
