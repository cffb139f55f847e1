"""Counts of a clique's cells: the one way in which the mechanisms on marginals reach a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Counts(Protocol):
    """A table, as far as counting it goes."""

    @property
    def domain(self) -> Mapping[str, int]:
        """Number of codes of each attribute, in the order of the columns."""

    def counts(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """How many rows have each combination of codes; shaped by the clique, one axis for each attribute."""

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """The counts of many cliques, in their order."""


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Counts of codes that are held in memory.

    Attributes:
        domain: number of codes of each attribute, in the order of the columns of `codes`.
        codes: shape (n, d), integers below the domain's sizes. *Sensitive* where they are a real table's.

    >>> CodedTable({"a": 2, "b": 2}, np.array([[0, 1], [1, 1], [1, 1]])).counts(("b", "a")).tolist()
    [[0, 0], [1, 2]]
    """

    domain: Mapping[str, int]
    codes: NDArray[np.integer] = field(repr=False)

    def counts(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """How many rows have each combination of codes; shaped by the clique, one axis for each attribute."""
        shape = tuple(self.domain[name] for name in clique)
        joint = np.zeros(len(self.codes), dtype=np.int64)
        for name, size in zip(clique, shape, strict=True):
            joint *= size
            joint += self._columns[name]
        return np.bincount(joint, minlength=int(np.prod(shape))).reshape(shape)

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
        """The counts of many cliques, in their order."""
        return map(self.counts, cliques)

    @cached_property
    def _columns(self) -> dict[str, NDArray[np.integer]]:
        """The codes of each attribute side by side in memory: a column is read in many counts."""
        return dict(zip(self.domain, np.ascontiguousarray(self.codes.T), strict=True))
