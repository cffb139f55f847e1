"""The rows that fidelity compares with the training table: equally many of each, in groups for half-samples.

Synthetic, fresh and shuffled rows are cut to one n. So small-sample bias is the same for all three, and cancels in
differences. The fresh rows are of the whole holdout: its halves are for attacks and models. Of tables larger than
`Real.n_rows` a sample is taken; what that costs is in the intervals, as they are those of a smaller table. Shuffled
rows are the training rows in their seeded order, each column moved along it by an offset of its own, around the end:
right in each column, and pairs of columns are of rows that stand nowhere near each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from evaluate.fidelity.in_memory import HeldRows, InMemorySample, moved
from evaluate.fidelity.protocol import SampledRows
from evaluate.intervals import N_GROUPS
from evaluate.sampling import Side
from evaluate.tables import Tables
from synth.schema import Schema

if TYPE_CHECKING:  # its libraries are slow to import
    from evaluate.fidelity.stored import StoredSource
    from evaluate.stored.tables import StoredTables

SYNTHETIC, FRESH, SHUFFLED = 0, 1, 2
"""Order of the landmarks in every array that has one entry for each."""

_SOURCES = "fidelity sources"

AnyRows = TypeVar("AnyRows", bound=SampledRows, covariant=True)


class Source(Protocol[AnyRows]):
    """A table in seeded order, from which rows are cut."""

    @property
    def n_rows(self) -> int:
        """Rows that may be compared at most."""

    def n_units(self, n_rows: int) -> int:
        """Entities of the first rows, or these rows."""

    def cut(self, n_rows: int, n_groups: int) -> AnyRows:
        """The first rows, in so many groups."""


Sources = tuple[Source[AnyRows], Source[AnyRows], Source[AnyRows], Source[AnyRows]]


@dataclass(frozen=True, eq=False)
class AnySamples(Generic[AnyRows]):
    """The training table and what is compared with it.

    Attributes:
        train: *Sensitive*. The training rows.
        sources: *Sensitive*. What they were cut from: training, synthetic, fresh and shuffled rows.
    """

    train: AnyRows
    others: tuple[AnyRows, AnyRows, AnyRows]
    n_groups: int
    n_holdout: int
    sources: Sources[AnyRows] = field(repr=False)

    @staticmethod
    def draw(tables: Tables) -> "AnySamples[HeldRows]":
        """The samples of one evaluation from the rows in memory, by its seed; they do not depend on the order of rows.

        Args:
            tables: *Sensitive*. As `Tables.prepare` gives them.
        """
        holdout = tables.holdout
        train = InMemorySample.drawn(tables.train, tables.order("train"), tables)
        synthetic = InMemorySample.drawn(tables.synthetic, tables.order("synthetic"), tables)
        fresh = InMemorySample.drawn(holdout, tables.order("holdout"), tables)
        shuffled = moved(train, offsets(tables.schema, train.n_rows, tables.seed))
        return _cut((train, synthetic, fresh, shuffled), len(holdout))

    @staticmethod
    def of(tables: Tables) -> "AnySamples[Any]":
        """The samples of one evaluation, from where its tables are."""
        if tables.stored is None:
            return AnySamples.draw(tables)
        stored = tables.stored
        train, fresh, shuffled, n_holdout = tables.kept_of_real.once(_SOURCES, lambda: _stored_real(tables, stored))
        synthetic = tables.kept.once(_SOURCES, lambda: _stored(tables, stored, "synthetic"))
        return _cut((train, synthetic, fresh, shuffled), n_holdout)

    def whole(self) -> "AnySamples[AnyRows]":
        """All rows, as many as train has at most, not cut to one n: for figures that a small sample does not bias."""
        return _cut(self.sources, self.n_holdout, self.train.n_rows)

    @property
    def n(self) -> int:
        """Synthetic rows that are compared with the training table."""
        return self.others[SYNTHETIC].n_rows

    @property
    def all(self) -> tuple[AnyRows, AnyRows, AnyRows, AnyRows]:
        """The training rows, then the others."""
        return (self.train, *self.others)


Samples = AnySamples[HeldRows]
"""Samples of rows in memory."""


def _stored(tables: Tables, stored: "StoredTables", side: Side) -> "StoredSource":
    from evaluate.fidelity.stored import StoredSource

    return StoredSource.drawn(stored.drawn(side, tables.n_rows), tables.schema)


def _stored_real(tables: Tables, stored: "StoredTables") -> "tuple[StoredSource, StoredSource, StoredSource, int]":
    """Train, the holdout and shuffled train, and the number of rows of the holdout."""
    train, fresh = _stored(tables, stored, "train"), _stored(tables, stored, "holdout")
    shuffled = train.moved(offsets(tables.schema, train.n_rows, tables.seed))
    return train, fresh, shuffled, len(stored.holdout)


def _cut(sources: Sources[AnyRows], n_holdout: int, n: int | None = None) -> AnySamples[AnyRows]:
    """At most n rows of each source but the training table, or as many as the smaller of synthetic and fresh rows."""
    train, *rest = sources
    n = min(rest[SYNTHETIC].n_rows, rest[FRESH].n_rows) if n is None else n
    sizes = [train.n_rows, *(min(n, source.n_rows) for source in rest)]
    n_units = min(source.n_units(size) for source, size in zip(sources, sizes, strict=True))
    n_groups = N_GROUPS if n_units >= N_GROUPS else 1
    first, *others = (source.cut(size, n_groups) for source, size in zip(sources, sizes, strict=True))
    return AnySamples(first, tuple(others), n_groups, n_holdout, sources)  # type: ignore[arg-type]


def offsets(schema: Schema, n_rows: int, seed: int) -> Mapping[str, int]:
    """Shift of each learned column of the shuffled rows: all differ, where there are rows enough."""
    names = sorted(schema.learned)
    drawn = np.random.default_rng([seed, 12]).permutation(max(n_rows, len(names)))[: len(names)] % n_rows
    return dict(zip(names, drawn.tolist(), strict=True))
