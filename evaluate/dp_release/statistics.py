"""The exact statistics behind a release, each a whole number with the bound on what one unit can move it.

*Every function here reads real rows and returns what must not be seen.* Under zero-out one unit takes at most k rows
with it (`synth.generators.fitting.training_data`), and all bounds are k:

- A count of rows moves by at most k.
- The distance between the counts c of the real codes and r times the shares s / n of the synthetic ones, with r fixed,
  is ``sum |n c - r s| / n`` half rows (twice the total variation, times r). A row that goes lowers one c by one, which
  moves the sum by at most n; k rows move it by at most k n. Division rounds down. Rounding down keeps order and
  commutes with whole numbers, so that it adds nothing: the result moves by at most k.
- The mean over pairs of columns is one such sum over all of them, divided by n times their number.
- A row is right, or wrong, or without a target: k rows move the two counts by at most k in L1, and so in L2.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from evaluate.utility.models import Classifier, Fitted, fit_classes
from evaluate.utility.task import MAX_CLASSES, MAX_ROWS
from synth.domain import Attribute, Discretizer
from synth.domain.discretizer import regroup
from synth.generators.fitting.training_data import bound_contributions
from synth.observed import observe
from synth.schema import Schema
from synth.table import conform

N_BINS, N_PAIR_BINS = 20, 10
"""Bins of a number or time, and categories told apart, in a column alone and in a pair."""
MOST_PAIRS = 500
"""Pairs of columns that the mean is taken over at most: of more, a sample that no row decides."""


@dataclass(frozen=True)
class Yardstick:
    """A synthetic table as others are compared with it; all of it is public once the table is.

    Attributes:
        schema: declared, with domains that are not declared read off the synthetic table.
        synthetic: its rows, in canonical form.
        columns: codes of single columns, of about equal synthetic mass.
        pairs: coarser codes, for pairs.
    """

    schema: Schema
    synthetic: pd.DataFrame
    columns: Discretizer = field(repr=False)
    pairs: Discretizer = field(repr=False)

    @classmethod
    def of(cls, synthetic: pd.DataFrame, schema: Schema) -> "Yardstick":
        """The yardstick that a table makes.

        Args:
            synthetic: the table that is released.
            schema: declared.
        """
        rows = conform(synthetic, schema, outside="clamp", part=True)
        seen = observe(schema, rows)
        rows = conform(rows, seen, outside="clamp", part=True)
        return cls(seen, rows, _codes(seen, rows, N_BINS), _codes(seen, rows, N_PAIR_BINS))

    @property
    def chosen_pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns that the mean is over, by place."""
        every = list(itertools.combinations(range(len(self.pairs.columns)), 2))
        if len(every) <= MOST_PAIRS:
            return every
        kept = np.random.default_rng(0).choice(len(every), size=MOST_PAIRS, replace=False)
        return [every[place] for place in np.sort(kept)]

    def column_counts(self, rows: pd.DataFrame) -> list[np.ndarray]:
        """One-way counts of codes, for every column."""
        codes = self.columns.encode(rows)
        return [np.bincount(codes[:, i], minlength=a.size) for i, a in enumerate(self.columns.attributes)]

    def pair_counts(self, rows: pd.DataFrame) -> list[np.ndarray]:
        """Two-way counts of codes, for every chosen pair; flat."""
        codes, sizes = self.pairs.encode(rows).astype(np.int64), [a.size for a in self.pairs.attributes]
        return [
            np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
            for a, b in self.chosen_pairs
        ]


def bounded(rows: pd.DataFrame, yardstick: Yardstick) -> pd.DataFrame:
    """The real rows that count: in canonical form, at most k of each unit. *Sensitive*.

    Args:
        rows: *Sensitive*. Of the source table.
        yardstick: names entity and k.
    """
    return bound_contributions(conform(rows, yardstick.schema, outside="clamp", part=True), yardstick.schema)


def half_rows(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    """The distance between two tables in half rows, averaged over several sets of counts, rounded down. *Sensitive*.

    Args:
        real: *Sensitive*. Counts of codes in the source table.
        synthetic: counts of the same codes in the synthetic table; each set adds up to its rows.
        n_rows: what the synthetic counts are scaled to; public.

    >>> half_rows([np.array([3, 1])], [np.array([2, 2])], 4)
    2
    """
    n = int(synthetic[0].sum())
    scaled = zip(real, synthetic, strict=True)
    total = sum(int(np.abs(n * c.astype(np.int64) - n_rows * s.astype(np.int64)).sum()) for c, s in scaled)
    return total // (n * len(real))


def right_and_wrong(holdout: pd.DataFrame, yardstick: Yardstick) -> np.ndarray | None:
    """Counts of held-out rows that a model of the synthetic table gets right and wrong; shape (2,). *Sensitive*.

    Args:
        holdout: *Sensitive*. Bounded.
        yardstick: what the model learns from.

    Returns:
        None where the synthetic table has no value of the target, which is public.
    """
    target, rows = str(yardstick.schema.target), yardstick.synthetic
    classes = rows[target].dropna().astype(object).value_counts().sort_index()
    known = classes.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES]
    if not len(known):
        return None
    truth = known.get_indexer(pd.Index(holdout[target].astype(object)))
    asked = holdout[target].notna().to_numpy(dtype=bool)
    right = asked & (truth == _guesses(_model(rows, known, yardstick.schema), holdout))
    return np.array([int(right.sum()), int((asked & ~right).sum())])


def _model(rows: pd.DataFrame, known: pd.Index, schema: Schema) -> Fitted:
    """A logistic regression on the synthetic table, the same whenever it is fitted."""
    codes = known.get_indexer(pd.Index(rows[schema.target].astype(object)))
    usable = np.flatnonzero(codes >= 0)
    if len(usable) > MAX_ROWS:
        usable = np.sort(np.random.default_rng(0).choice(usable, size=MAX_ROWS, replace=False))
    return fit_classes("linear", rows.iloc[usable].reset_index(drop=True), codes[usable], schema, len(known))


def _guesses(model: Fitted, rows: pd.DataFrame) -> np.ndarray:
    """The most probable class of every row, shape (n,).

    Each row's score is a sum of its own: a matrix product may round a row otherwise when another one is gone, and so
    turn a tie over.
    """
    if not isinstance(model, Classifier):
        return np.full(len(rows), int(np.argmax(model.predict_matrix(np.empty((1, 0)))[0])))
    X = np.ascontiguousarray(model.features.apply(rows))
    weights = zip(model.model.coef_, model.model.intercept_, strict=True)
    scores = np.column_stack([(X * w).sum(axis=1) + b for w, b in weights])
    places = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else np.argmax(scores, axis=1)
    return np.asarray(model.seen[places])


def _codes(schema: Schema, synthetic: pd.DataFrame, n_codes: int) -> Discretizer:
    made = Discretizer.by_quantiles(schema, synthetic, n_codes)
    return Discretizer(tuple(_merged(a, a.cells(synthetic[a.name]), n_codes) for a in made.attributes))


def _merged(attribute: Attribute, cells: np.ndarray, n_codes: int) -> Attribute:
    """The attribute with all but its most frequent categories joined to `other`."""
    counts = np.bincount(cells, minlength=attribute.n_cells)[:-2]
    if attribute.edges is not None or len(counts) <= n_codes:
        return attribute
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return regroup(attribute, np.where(rank < n_codes, np.arange(len(counts)), -1))
