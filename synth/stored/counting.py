"""Counts of codes where they are stored: many of them in few scans, and nothing but counts comes back."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from synth.stored.place import Place

SETS_A_SCAN = 64
"""Counts that one scan makes at most where it makes many."""
CELLS_A_SCAN = 2_000_000
"""Cells of all of them at most: the server holds them at once."""


@dataclass(frozen=True, eq=False)
class StoredCounts:
    """Counts of the codes of a stored table.

    Attributes:
        domain: number of codes of each attribute, in the order of the columns.
        codes: *Sensitive*. A column of codes for each attribute, in the same order; their names do not matter.
        place: where they are.
    """

    domain: Mapping[str, int]
    codes: ir.Table = field(repr=False)
    place: Place

    def counts(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """How many rows have each combination of codes; shaped by the clique, one axis for each attribute."""
        return next(self.each([clique]))

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """The counts of many cliques, in their order."""
        columns = dict(zip(self.domain, self.codes.columns, strict=True))
        sizes = {columns[name]: size for name, size in self.domain.items()}
        for some in self._batches(cliques):
            yield from self.place.counts(self.codes, [[columns[name] for name in clique] for clique in some], sizes)

    def _n_cells(self, clique: Sequence[str]) -> int:
        return math.prod(self.domain[name] for name in clique)

    def _batches(self, cliques: Sequence[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
        batch: list[Sequence[str]] = []
        n_cells = 0
        for clique in cliques:
            size = self._n_cells(clique)
            if batch and (len(batch) == SETS_A_SCAN or n_cells + size > CELLS_A_SCAN):
                yield batch
                batch, n_cells = [], 0
            batch.append(clique)
            n_cells += size
        if batch:
            yield batch
