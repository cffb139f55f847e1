"""The rows that fidelity compares with the training table: equally many of each, in groups for half-samples.

Synthetic, fresh and shuffled rows are cut to one n, so that what a small sample adds to a distance is the same for all
three and cancels in their differences. The fresh rows are of the whole holdout: its halves are for attacks and models.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd

from evaluate.intervals import HALVES, N_GROUPS, WITHOUT, half_samples, jackknife
from evaluate.result import Estimate
from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import Tables
from synth.schema import Schema

SYNTHETIC, FRESH, SHUFFLED = 0, 1, 2
"""Order of the landmarks in every array that has one entry for each."""


@dataclass(frozen=True)
class Sample:
    """Rows of one table and the group of each.

    Attributes:
        rows: canonical, shape (n, columns).
        groups: which group of the half-samples a row belongs to, in [0, n_groups), whole entities together; shape (n,).
    """

    rows: pd.DataFrame
    groups: np.ndarray


@dataclass(frozen=True)
class Samples:
    """The training table and what is compared with it.

    Attributes:
        train: *Sensitive*. All training rows.
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
        holdout = tables.holdout
        frames = (tables.train, tables.synthetic, holdout, tables.shuffled)
        n = len(tables.train) if whole else min(len(tables.synthetic), len(holdout))
        sizes = (len(tables.train), *(min(n, len(frame)) for frame in frames[1:]))
        seeds = range(4 * tables.seed, 4 * tables.seed + 4)
        drawn = [_draw(*of, tables.schema) for of in zip(frames, sizes, seeds, strict=True)]
        n_groups = N_GROUPS if min(int(units.max()) + 1 for _, units in drawn) >= N_GROUPS else 1
        train, synthetic, fresh, shuffled = (Sample(rows, units % n_groups) for rows, units in drawn)
        return cls(train, (synthetic, fresh, shuffled), n_groups)

    @property
    def n(self) -> int:
        """Synthetic rows that are compared with the training table."""
        return len(self.others[SYNTHETIC].rows)

    @property
    def all(self) -> tuple[Sample, Sample, Sample, Sample]:
        """The training rows, then the others."""
        return (self.train, *self.others)


def _draw(frame: pd.DataFrame, n: int, seed: int, schema: Schema) -> tuple[pd.DataFrame, np.ndarray]:
    """A sample of n rows, and the unit (entity, or row) of each, numbered from 0 in random order."""
    order = drawn_order(learned_keys(frame, schema), seed)[:n]
    units = pd.factorize(entity_codes(frame, schema)[order])[0]
    return frame.iloc[order].reset_index(drop=True), units


def summarize(
    measure: str,
    replicates: np.ndarray,
    n: int,
    *,
    subject: tuple[str, ...] = (),
    bounds: tuple[float, float] = (0.0, 1.0),
    n_comparisons: int = 1,
    note: str = "",
) -> Estimate:
    """An estimate, lower is better, from a figure's replicates.

    Args:
        measure: its name.
        replicates: the figure for synthetic, fresh and, where the floor makes sense, shuffled rows; on all rows, then
            on half-samples; shape (2 or 3, n_replicates).
        n: rows that the figure rests on.
        subject: columns it is about.
        bounds: the range of the figure.
        n_comparisons: from how many figures this one was picked as the worst.
        note: a sentence beside the number.
    """
    value, without = float(replicates[SYNTHETIC, 0]), replicates[SYNTHETIC, WITHOUT]
    low, high = None, None
    if len(without):
        low, high = jackknife(value, without, bounds=bounds, n_comparisons=n_comparisons)
    return Estimate(
        measure, value, n, "lower", subject=subject, low=low, high=high,
        reference=float(replicates[FRESH, 0]),
        floor=float(replicates[SHUFFLED, 0]) if len(replicates) > SHUFFLED else None,
        note=note if len(without) else f"{note} Too few rows for an interval.".strip(),
    )  # fmt: skip


def contrast(measure: str, replicates: np.ndarray, n: int, *, bounds: tuple[float, float], note: str) -> Estimate:
    """An estimate of a difference of means of many distances, by half-samples; else as `summarize`.

    These are the figures to gate: their intervals are as narrow as they may be, near zero too.
    """
    plain = summarize(measure, replicates, n, bounds=bounds, note=note)
    if plain.low is None:
        return plain
    low, high = half_samples(plain.value, replicates[SYNTHETIC, HALVES], bounds=bounds)
    return replace(plain, low=low, high=high)


def excess(measure: str, replicates: np.ndarray, n: int) -> Estimate:
    """An estimate of how far a mean of distances in [0, 1] lies above that of a fresh real sample; see `contrast`."""
    note = "The mean total variation minus that of a fresh real sample."
    return contrast(measure, replicates - replicates[FRESH], n, bounds=(-1.0, 1.0), note=note)
