"""Projections: many marginals of one table with few passes over it, and the way back.

A table of half a million cells may hold a dozen measured marginals. Summing it anew for each reads it a dozen times;
here one axis is summed out once for all marginals that lack it, and these are found in the smaller table alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from synth.marginals.factor import Array, Clique, axes_beside, broadcast_shape, shape_of


@dataclass(frozen=True)
class Projection:
    """A table summed from another.

    Attributes:
        attributes: of the table, in the domain's order.
        source: index of the table that it is summed from.
        axes: of the source, summed over.
        shape: of the table, with axes of length 1 where the source was summed over.
    """

    attributes: Clique
    source: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Projections:
    """How marginals of a table over some attributes come from one another.

    Attributes:
        projections: each from the table itself (index 0) or an earlier one (its place in this list plus 1).
        index: of the table of each marginal asked for.
    """

    projections: tuple[Projection, ...]
    index: Mapping[Clique, int]

    @classmethod
    def of(cls, domain: Mapping[str, int], attributes: Clique, cliques: Iterable[Clique]) -> Self:
        """Projections of a table over the attributes onto each of the cliques.

        Args:
            domain: number of codes of each attribute.
            attributes: of the table, in the domain's order.
            cliques: within the attributes, in their order.

        >>> Projections.of({"a": 2, "b": 3, "c": 4}, ("a", "b", "c"), [("a",), ("a", "b")]).index
        {('a', 'b'): 1, ('a',): 2}
        """
        projections: list[Projection] = []
        index: dict[Clique, int] = {}
        waiting = [(0, attributes, list(dict.fromkeys(cliques)))]
        while waiting:
            source, held, wanted = waiting.pop()
            if held in wanted:
                index[held] = source
                wanted.remove(held)
            while wanted:
                group = _most_that_lack_one(domain, held, wanted)
                names = {name for clique in group for name in clique}
                kept = tuple(name for name in held if name in names)
                shape = broadcast_shape(kept, shape_of(domain, kept), held)
                projections.append(Projection(kept, source, axes_beside(held, kept), shape))
                waiting.append((len(projections), kept, group))
                wanted = [clique for clique in wanted if clique not in group]
        return cls(tuple(projections), index)

    def down(self, table: Array) -> list[Array]:
        """The table, and every one that is summed from it."""
        tables = [table]
        for projection in self.projections:
            tables.append(np.add.reduce(tables[projection.source], axis=projection.axes))
        return tables

    def up(self, parts: Mapping[Clique, Array]) -> Array:
        """The sum of tables over the cliques, each spread evenly: what broadcasts over the table itself."""
        sums: list[Array | None] = [None] * (len(self.projections) + 1)
        for clique, part in parts.items():
            sums[self.index[clique]] = part
        for place in range(len(self.projections), 0, -1):
            projection, found = self.projections[place - 1], sums[place]
            if found is not None:
                spread, there = found.reshape(projection.shape), sums[projection.source]
                sums[projection.source] = spread if there is None else there + spread
        return np.zeros(()) if sums[0] is None else sums[0]


def _most_that_lack_one(domain: Mapping[str, int], held: Clique, wanted: Sequence[Clique]) -> list[Clique]:
    """The cliques that lack the attribute which most of them lack; of two such, the one with more codes."""
    lacking = {name: [clique for clique in wanted if name not in clique] for name in held}
    return lacking[max(held, key=lambda name: (len(lacking[name]), domain[name]))]
