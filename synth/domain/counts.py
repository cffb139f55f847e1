"""Counts of a clique's cells, by codes or by coarse ones: the one way in which mechanisms on marginals reach a table.

A coarse attribute stands beside a column of many codes, and merges these into a few. Two numbers of many codes have a
marginal of so many cells that noise fills it. Counted by coarse codes, the marginal is small; where the fine codes tell
more than noise hides, they are measured as well. A distribution over both keeps them together by structural zeros.
Groups are made of released counts, so that they cost nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synth.domain.discretizer import OTHER, Discretizer
from synth.table.rows import Rows
from synth.table.spool import Spool


class Counts(Protocol):
    """A table, as far as counting it goes."""

    @property
    def domain(self) -> Mapping[str, int]:
        """Number of codes of each attribute, in the order of the columns."""

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """Counts of rows by combination of codes, of many cliques in their order; one axis for each attribute."""

    def counts(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """The counts of one clique."""

    def coarse(self, coarsening: "Coarsening") -> "Counts":
        """The table by coarse codes as well."""


class ByEach:
    """What follows from `each`."""

    def counts(self: Any, clique: Sequence[str]) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = next(iter(self.each([clique])))
        return counts

    def coarse(self: Any, coarsening: "Coarsening") -> "CoarseCounts":
        return CoarseCounts(self, coarsening)


@dataclass(frozen=True, eq=False)
class CodedTable(ByEach):
    """Counts of codes that are held in memory.
    `codes`: shape (n, d), integers below the domain's sizes. *Sensitive* where they are a real table's.

    >>> CodedTable({"a": 2, "b": 2}, np.array([[0, 1], [1, 1], [1, 1]])).counts(("b", "a")).tolist()
    [[0, 0], [1, 2]]
    """

    domain: Mapping[str, int]
    codes: NDArray[np.integer] = field(repr=False)

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        for clique in cliques:
            shape = tuple(self.domain[name] for name in clique)
            joint = _joint([self._columns[name] for name in clique], shape, len(self.codes))
            yield np.bincount(joint, minlength=math.prod(shape)).reshape(shape)

    @cached_property
    def _columns(self) -> dict[str, NDArray[np.integer]]:
        """The codes of each attribute side by side in memory: a column is read in many counts."""
        return dict(zip(self.domain, np.ascontiguousarray(self.codes.T), strict=True))


CELLS_AT_ONCE = 1 << 22
"""Cells of the cliques that are counted in one pass over the rows: the counts of all of them are held."""


def in_batches(cliques: Sequence[Sequence[str]], domain: Mapping[str, int]) -> Iterator[list[Sequence[str]]]:
    """Cliques that are counted in one pass over the rows, in their order."""
    batch: list[Sequence[str]] = []
    n_cells = 0
    for clique in cliques:
        size = math.prod(domain[name] for name in clique)
        if batch and n_cells + size > CELLS_AT_ONCE:
            yield batch
            batch, n_cells = [], 0
        batch.append(clique)
        n_cells += size
    if batch:
        yield batch


@dataclass(frozen=True, eq=False)
class SpooledTable(ByEach):
    """Counts of the codes of rows in chunks, 1 to 4 bytes a cell: in memory while they are few, then in a file.
    `chunks`: *Sensitive*. By chunk, the number of each attribute's codes in the spool.
    """

    domain: Mapping[str, int]
    spool: Spool = field(repr=False)
    chunks: tuple[Mapping[str, int], ...] = field(repr=False)

    @classmethod
    def of(cls, rows: Rows, discretizer: Discretizer) -> Self:
        spool, chunks = Spool(rows.folder), []
        for chunk in rows.chunks(*discretizer.columns):
            codes = {each.name: each.group[chunk.cells(each)] for each in discretizer.attributes}
            smallest = {name: np.min_scalar_type(size - 1) for name, size in discretizer.sizes.items()}
            chunks.append({name: spool.add(pa.array(codes[name].astype(kind))) for name, kind in smallest.items()})
        return cls(discretizer.sizes, spool, tuple(chunks))

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        for batch in in_batches(cliques, self.domain):
            yield from self._counted(batch)

    def _counted(self, cliques: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        names = sorted({name for clique in cliques for name in clique})
        shapes = [tuple(self.domain[name] for name in clique) for clique in cliques]
        sums = [np.zeros(math.prod(shape), dtype=np.int64) for shape in shapes]
        for chunk in self.chunks:
            codes = {name: np.asarray(self.spool.read(chunk[name])) for name in names or [*chunk][:1]}
            n = len(next(iter(codes.values())))
            for clique, shape, total in zip(cliques, shapes, sums, strict=True):
                total += np.bincount(_joint([codes[name] for name in clique], shape, n), minlength=len(total))
        return [total.reshape(shape) for total, shape in zip(sums, shapes, strict=True)]


def _joint(columns: Sequence[NDArray[np.integer]], shape: Sequence[int], n: int) -> NDArray[np.intp]:
    """The cell of each of n rows in a table of that shape; shape (n,)."""
    joint = np.zeros(n, dtype=np.intp)
    for codes, size in zip(columns, shape, strict=True):
        joint *= size
        joint += codes
    return joint


MARK = "\0coarse"
"""Ends the name of a coarse attribute after its column's: no column's name holds a NUL."""
MOST_CODES = 128  # codes that are merged at most: a triple is counted by fine codes before they are


def fine(name: str) -> str:
    """The column that an attribute belongs to.

    >>> fine("age"), fine("age" + MARK)
    ('age', 'age')
    """
    return name.partition("\0")[0]


def has_coarse_codes(n_codes: int, n_groups: int) -> bool:
    """True if a number or time of so many codes, `other` and `missing` aside, has coarse ones as well."""
    return 2 * n_groups < n_codes <= MOST_CODES


@dataclass(frozen=True)
class Coarsening:
    """Coarse attributes of some columns.
    `groups`: by column, the coarse code of every code, shape (size,); the last two are `other` and `missing`.
    """

    groups: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, discretizer: Discretizer, masses: Mapping[str, np.ndarray], n_groups: int) -> "Coarsening":
        """Groups of even mass, for every number and time with more than twice as many codes, up to `MOST_CODES`.
        `masses`: released counts of the codes of each column, shape (size,).
        """
        groups = {}
        for attribute in discretizer.attributes:
            if attribute.edges is not None and has_coarse_codes(attribute.size + OTHER, n_groups):
                groups[attribute.name] = _even(masses[attribute.name][:OTHER], n_groups)
        return cls(groups)

    @classmethod
    def of_all(
        cls, discretizer: Discretizer, masses: Mapping[str, np.ndarray], n_groups: Mapping[str, int], n_categories: int
    ) -> "Coarsening":
        """Groups for every column with more codes than it may have, so that each pair of columns has few cells.
        `masses`: released counts of the codes of each column, shape (size,).
        """
        groups = {}
        for attribute in discretizer.attributes:
            counts = masses[attribute.name][:OTHER]
            ordered = attribute.edges is not None or getattr(attribute.column, "ordered", False)
            most = n_groups[attribute.name] if ordered else n_categories
            if len(counts) > most:
                groups[attribute.name] = _even(counts, most) if ordered else _frequent(counts, most)
        return cls(groups)

    def coarsest(self, name: str) -> str:
        """The attribute of a column that has the fewest codes."""
        return name + MARK if name in self.groups else name

    def merged(self, counts: NDArray[Any], clique: Iterable[str]) -> NDArray[Any]:
        """Counts of a clique's columns by codes, merged where an attribute of it is coarse; shaped by the clique."""
        for axis, name in enumerate(clique):
            if name.endswith(MARK):
                group = self.groups[fine(name)]
                order = np.argsort(group, kind="stable")
                starts = np.flatnonzero(np.diff(group[order], prepend=-1))
                counts = np.add.reduceat(counts.take(order, axis=axis), starts, axis=axis)
        return counts

    def domain(self, of_codes: Mapping[str, int]) -> dict[str, int]:
        """The domain with coarse attributes after all others."""
        return {**of_codes, **{name + MARK: int(group[-1]) + 1 for name, group in self.groups.items()}}

    def zeros(self) -> Iterator[tuple[tuple[str, str], NDArray[np.bool_]]]:
        """For each column its two attributes, and the pairs of codes that go together, boolean."""
        for name, group in self.groups.items():
            yield (name, name + MARK), group[:, np.newaxis] == np.arange(group[-1] + 1)


def _frequent(masses: np.ndarray, n_groups: int) -> NDArray[np.int64]:
    """A group for each of the codes of largest mass and one for the rest, `other` and `missing` apart."""
    ranks = np.empty(len(masses), dtype=np.int64)
    ranks[np.argsort(-masses, kind="stable")] = np.arange(len(masses))
    return np.concatenate([np.minimum(ranks, n_groups - 1), [n_groups, n_groups + 1]])


def _even(masses: np.ndarray, n_groups: int) -> NDArray[np.int64]:
    """Groups of adjacent codes of about even mass, `other` and `missing` apart; shape (n_codes + 2,)."""
    counts = np.maximum(masses, 0.0)
    middle = (np.cumsum(counts) - counts / 2) / max(float(counts.sum()), 1e-300)
    numbers = np.minimum((middle * n_groups).astype(np.int64), n_groups - 1)
    dense = np.unique(numbers, return_inverse=True)[1]
    return np.concatenate([dense, [dense[-1] + 1, dense[-1] + 2]])


@dataclass(frozen=True, eq=False)
class CoarseCounts(ByEach):
    """Counts of a table by fine and coarse codes. `table`: *Sensitive*. Counts by fine codes."""

    table: Counts
    coarsening: Coarsening

    @property
    def domain(self) -> Mapping[str, int]:
        return self.coarsening.domain(self.table.domain)

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        # Cliques over the same columns are counted once.
        asked: dict[tuple[str, ...], list[int]] = {}
        for index, clique in enumerate(cliques):
            asked.setdefault(tuple(sorted(map(fine, clique))), []).append(index)
        counted: dict[int, NDArray[np.int64]] = {}
        for (columns, indices), counts in zip(asked.items(), self.table.each(list(asked)), strict=True):
            for index in indices:
                turned = counts.transpose([columns.index(fine(name)) for name in cliques[index]])
                counted[index] = self.coarsening.merged(turned, cliques[index])
        return (counted[index] for index in range(len(cliques)))

    def coarse(self, coarsening: Coarsening) -> "CoarseCounts":
        return CoarseCounts(self.table, coarsening)
