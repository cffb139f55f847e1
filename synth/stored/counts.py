"""Counts of codes where they are stored: many of them in few scans, and nothing but counts comes back.

Few wide counts hold many narrow ones: the counts of three columns are the sums of the counts of four. A database pays
for each row and each set of columns, hardly for the cells. For example, 105 pairs of 15 columns are in 30 sets of up to
16,384 cells, and are counted in about half the time (`benchmarks.stored_counts`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from synth.domain.counts import CoarseCounts, Coarsening
from synth.stored.connection import StorageLocation

Clique = frozenset[str]
Block = tuple[str, ...]


def covering(cliques: Sequence[Sequence[str]], sizes: Mapping[str, int], n_cells: int) -> dict[Block, list[Clique]]:
    """Sets of columns, and the cliques that each holds: every clique is in one of them.

    A set grows from the first clique that none holds yet, by the column that brings most others in.

    >>> covering(  # doctest: +ELLIPSIS
    ...     [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], {"a": 2, "b": 3, "c": 4, "d": 50}, 24
    ... )
    {('a', 'b', 'c'): [...], ('c', 'd'): [...]}
    """
    left: dict[Clique, None] = dict.fromkeys(map(frozenset, cliques))
    holding: dict[str, dict[Clique, None]] = {}
    for clique in left:
        for name in clique:
            holding.setdefault(name, {})[clique] = None
    found = {}
    for seed in list(left):
        if seed not in left:
            continue
        block = _grown(set(seed), holding, sizes, n_cells)
        held = list(dict.fromkeys(clique for name in block for clique in holding[name] if clique <= block))
        for clique in held:
            del left[clique]
            for name in clique:
                del holding[name][clique]
        found[tuple(sorted(block))] = held
    return found


def _grown(
    block: set[str], holding: Mapping[str, Mapping[Clique, None]], sizes: Mapping[str, int], n_cells: int
) -> set[str]:
    size = math.prod(sizes[name] for name in block)
    while True:
        near = {clique for name in block for clique in holding[name] if len(clique - block) == 1}
        gains = Counter(name for clique in near for name in clique - block)
        fitting = [(gain, -sizes[name], name) for name, gain in gains.items() if size * sizes[name] <= n_cells]
        if not fitting:
            return block
        name = max(fitting)[-1]
        block, size = block | {name}, size * sizes[name]


SETS_A_SCAN = 32
"""Sets of columns that one query counts at most: of 64, Spark compiles no code any more."""
CELLS_A_SET = 16_384
"""Cells up to which cliques are counted as one set of columns that holds them all."""
CELLS_AT_ONCE = 2_000_000
"""Cells of the cliques that are counted together, and of the sets of one query, at most: all are held at once."""


Named = TypeVar("Named", bound=Sequence[str])


@dataclass(frozen=True, eq=False)
class StoredCounts:
    """Counts of the codes of a stored table.

    Attributes:
        codes: *Sensitive*. A column of codes for each attribute, in the same order; their names do not matter.
    """

    domain: Mapping[str, int]
    codes: ir.Table = field(repr=False)
    place: StorageLocation

    def counts(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """Counts of rows by combination of codes; shaped by the clique, one axis for each attribute."""
        return next(self.each([clique]))

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """The counts of many cliques, in their order."""
        for some in self._batches(cliques, len(cliques)):
            holding = covering(some, self.domain, CELLS_A_SET)
            found: dict[Clique, NDArray[np.int64]] = {}
            for blocks in self._batches(holding, SETS_A_SCAN):
                for block, counts in zip(blocks, self._counted(blocks), strict=True):
                    found |= {clique: _summed(counts, block, clique) for clique in holding[block]}
            yield from (_turned(found[frozenset(clique)], clique) for clique in some)

    def coarse(self, coarsening: Coarsening) -> CoarseCounts:
        """The same table, which has coarse attributes as well."""
        return CoarseCounts(self, coarsening)

    def _counted(self, blocks: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """The counts of a few sets of columns, in one query."""
        columns = dict(zip(self.domain, self.codes.columns, strict=True))
        sizes = {columns[name]: size for name, size in self.domain.items()}
        return self.place.counts(self.codes, [[columns[name] for name in block] for block in blocks], sizes)

    def _batches(self, cliques: Iterable[Named], n_most: int) -> Iterator[list[Named]]:
        batch: list[Named] = []
        n_cells = 0
        for clique in cliques:
            size = math.prod(self.domain[name] for name in clique)
            if batch and (len(batch) == n_most or n_cells + size > CELLS_AT_ONCE):
                yield batch
                batch, n_cells = [], 0
            batch.append(clique)
            n_cells += size
        if batch:
            yield batch


def _summed(counts: NDArray[np.int64], block: Block, clique: Clique) -> NDArray[np.int64]:
    """The counts of some columns of a set; one axis for each, in the order of their names."""
    summed: NDArray[np.int64] = counts.sum(axis=tuple(at for at, name in enumerate(block) if name not in clique))
    return summed


def _turned(counts: NDArray[np.int64], clique: Sequence[str]) -> NDArray[np.int64]:
    """Axes in the order of their names, turned into the order of the clique."""
    return counts.transpose([sorted(clique).index(name) for name in clique])
