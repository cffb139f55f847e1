"""The rows that fidelity compares with the training table: equally many of each, in groups for half-samples.

Synthetic, fresh and shuffled rows are cut to one n, so that what a small sample adds to a distance is the same for all
three and cancels in their differences. The fresh rows are of the whole holdout: its halves are for attacks and models.
Of larger tables a sample is taken; what that costs is in the intervals, as they are those of a smaller table.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from evaluate.intervals import N_GROUPS
from evaluate.sampling import entity_codes
from evaluate.tables import SIDES, Side, Tables

SYNTHETIC, FRESH, SHUFFLED = 0, 1, 2
"""Order of the landmarks in every array that has one entry for each."""
MAX_ROWS = 50_000
"""Rows of each table that are compared at most."""


@dataclass(frozen=True)
class Sample:
    """Rows of one table and the group of each.

    Attributes:
        rows: canonical, shape (n, columns).
        groups: which group of the half-samples a row belongs to, in [0, n_groups), whole entities together; shape (n,).
        units: entity of each row, or a number of its own, from 0 in random order; shape (n,).
    """

    rows: pd.DataFrame
    groups: np.ndarray
    units: np.ndarray


@dataclass(frozen=True)
class Samples:
    """The training table and what is compared with it.

    Attributes:
        train: *Sensitive*. The training rows.
        others: synthetic, fresh and shuffled rows, in this order, n of each unless they are whole.
        n_groups: groups that half-samples are made of; 1 where there are too few rows for an interval.
    """

    train: Sample
    others: tuple[Sample, Sample, Sample]
    n_groups: int

    @classmethod
    def draw(cls, tables: Tables, *, whole: bool = False) -> Self:
        """The samples of one evaluation, by its seed; they do not depend on the order of rows.

        Args:
            tables: *Sensitive*. As `Tables.prepare` gives them.
            whole: do not cut to one n, but take all rows, as many as train has at most: for figures that a small sample
                does not bias.
        """
        n_train = min(len(tables.train), MAX_ROWS)
        n = n_train if whole else min(len(tables.synthetic), len(tables.holdout), MAX_ROWS)
        drawn = [_draw(tables, side, n_train if side == "train" else n) for side in SIDES]
        n_groups = N_GROUPS if min(int(units.max()) + 1 for _, units in drawn) >= N_GROUPS else 1
        train, synthetic, fresh, shuffled = (Sample(rows, units % n_groups, units) for rows, units in drawn)
        return cls(train, (synthetic, fresh, shuffled), n_groups)

    @property
    def n(self) -> int:
        """Synthetic rows that are compared with the training table."""
        return len(self.others[SYNTHETIC].rows)

    @property
    def all(self) -> tuple[Sample, Sample, Sample, Sample]:
        """The training rows, then the others."""
        return (self.train, *self.others)


def _draw(tables: Tables, side: Side, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A sample of at most n rows, and the unit (entity, or row) of each, numbered from 0 in random order."""
    frame, order = getattr(tables, side), tables.order(side)[:n]
    units = pd.factorize(entity_codes(frame, tables.schema)[order])[0]
    return frame.iloc[order].reset_index(drop=True), units
