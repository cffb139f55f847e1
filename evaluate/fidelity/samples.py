"""The rows that fidelity compares with the training table: equally many of each, in groups for half-samples.

So small-sample bias is the same for synthetic, fresh and shuffled rows, and cancels in differences. Of tables larger
than `Real.n_rows` a sample is taken. Shuffled rows are the training rows in their seeded order, each column moved along
it by an offset of its own, around the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evaluate.fidelity.rows import SampledRows, SeededTable, moved
from evaluate.intervals import N_GROUPS
from evaluate.tables import Tables
from synth.schema import Schema

SYNTHETIC, FRESH, SHUFFLED = 0, 1, 2  # Order of the landmarks in every array that has one entry for each

Four = tuple[SeededTable, SeededTable, SeededTable, SeededTable]


@dataclass(frozen=True, eq=False)
class Samples:
    train: SampledRows  # *Sensitive*. The training rows
    others: tuple[SampledRows, SampledRows, SampledRows]
    n_groups: int
    n_holdout: int
    # *Sensitive*. What they were cut from: training, synthetic, fresh and shuffled rows.
    tables: Four = field(repr=False)

    @classmethod
    def draw(cls, tables: Tables) -> "Samples":
        """The samples of one evaluation, by its seed, drawn once; they do not depend on the order of rows."""
        return tables.kept.once("samples", lambda: cls._draw(tables))

    @classmethod
    def _draw(cls, tables: Tables) -> "Samples":
        holdout = tables.holdout
        train = SeededTable.drawn(tables.train, tables.order("train"), tables)
        synthetic = SeededTable.drawn(tables.synthetic, tables.order("synthetic"), tables)
        fresh = SeededTable.drawn(holdout, tables.order("holdout"), tables)
        shuffled = moved(train, offsets(tables.schema, train.n_rows, tables.seed))
        return _cut((train, synthetic, fresh, shuffled), len(holdout))

    def whole(self) -> "Samples":
        """All rows, as many as train has at most, not cut to one n: for figures that a small sample does not bias."""
        return _cut(self.tables, self.n_holdout, self.train.n_rows)

    @property
    def n(self) -> int:
        """Synthetic rows that are compared with the training table."""
        return self.others[SYNTHETIC].n_rows

    @property
    def all(self) -> tuple[SampledRows, SampledRows, SampledRows, SampledRows]:
        return (self.train, *self.others)


def _cut(tables: Four, n_holdout: int, n: int | None = None) -> Samples:
    """At most n rows of each table but the training one, or as many as the smaller of synthetic and fresh rows."""
    train, *rest = tables
    n = min(rest[SYNTHETIC].n_rows, rest[FRESH].n_rows) if n is None else n
    sizes = [train.n_rows, *(min(n, table.n_rows) for table in rest)]
    n_units = min(table.n_units(size) for table, size in zip(tables, sizes, strict=True))
    n_groups = N_GROUPS if n_units >= N_GROUPS else 1
    first, second, third, fourth = (table.cut(size, n_groups) for table, size in zip(tables, sizes, strict=True))
    return Samples(first, (second, third, fourth), n_groups, n_holdout, tables)


def offsets(schema: Schema, n_rows: int, seed: int) -> Mapping[str, int]:
    """Shift of each learned column of the shuffled rows: all differ, where there are rows enough."""
    names = sorted(schema.learned)
    drawn = np.random.default_rng([seed, 12]).permutation(max(n_rows, len(names)))[: len(names)] % n_rows
    return dict(zip(names, drawn.tolist(), strict=True))
