"""Stored rows as codes: counts of cliques, and moments of numbers, by group of the half-samples."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow.compute as pc

from evaluate.fidelity.compared import Clique
from evaluate.fidelity.stored_sums import grouped, one_row
from synth.domain import Attribute, numeric_scale
from synth.stored.connection import Place
from synth.stored.counts import StoredCounts
from synth.stored.decode import code_of
from synth.stored.sql_functions import exactly

_SUMS_A_SCAN = 400


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """Stored rows as codes; the protocol is `evaluate.fidelity.compared.CodedRows`.

    Attributes:
        place: where they are.
        rows: *Sensitive*. The columns as they were read, and the group of each row, `g`.
        attributes: what they are codes of.
        names: the column of `rows` that each attribute is read in.
        n_groups: groups of the half-samples.
    """

    place: Place
    rows: ir.Table = field(repr=False)
    attributes: tuple[Attribute, ...]
    names: Mapping[str, str]
    n_groups: int
    _written: list[ir.Table] = field(default_factory=list, init=False, repr=False)

    def each(self, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
        """How many rows of each group have each combination of codes."""
        for counts in self._counts.each([("g", *map(str, clique)) for clique in cliques]):
            yield counts.reshape(self.n_groups, -1)

    def products(self) -> np.ndarray:
        """Moments of all pairs of numbers by group."""
        rows, d = self._scaled, len(self._numbers)
        asked: dict[str, Any] = {}
        for a, b in itertools.product(range(d), repeat=2):
            first, second = rows[f"z{a}"], rows[f"z{b}"]
            if a <= b:
                asked[f"3_{a}_{b}"] = (first * second).sum()
            if a == b or not self._complete[a] or not self._complete[b]:
                both = ibis.ifelse(second.notnull(), first, ibis.null("float64"))
                asked |= {f"0_{a}_{b}": both.count(), f"1_{a}_{b}": both.sum(), f"2_{a}_{b}": (both * both).sum()}
        made = np.zeros((self.n_groups, 4, d, d))
        for some in _batches(asked):
            found = self.place.fetch(rows.group_by("g").agg(**some))
            groups = found.column("g").to_numpy()
            for name in some:
                which, a, b = map(int, name.split("_"))
                made[groups, which, a, b] = pc.fill_null(found.column(name), 0).to_numpy()
        for a, b in itertools.product(range(d), repeat=2):
            made[:, 3, a, b] = made[:, 3, min(a, b), max(a, b)]
            if self._complete[a] and self._complete[b]:
                made[:, :3, a, b] = made[:, :3, a, a]
        return made

    def moments(self, columns: Sequence[int]) -> Iterator[np.ndarray]:
        """Moments of all numbers by the codes of each of these columns."""
        rows, d = self._scaled, len(self._numbers)
        sums: dict[str, Any] = {}
        one, none = exactly(1.0), exactly(0.0)
        for b in range(d):
            z = rows[f"z{b}"]
            sums |= {f"i{b}": ibis.ifelse(z.notnull(), one, none), f"z{b}": ibis.coalesce(z, none)}
            sums[f"q{b}"] = ibis.coalesce(z * z, none)
        filled = rows.select("g", *(f"k{column}" for column in columns), **sums)
        tables = grouped(self.place, filled, [["g", f"k{column}"] for column in columns], list(sums))
        for column, found in zip(columns, tables, strict=True):
            groups, codes, _, *numbers = (found.column(i).to_numpy() for i in range(found.num_columns))
            made = np.zeros((d, 3, self.n_groups, self.attributes[column].size))
            made[:, :, groups, codes] = np.array(numbers).reshape(d, 3, -1)
            yield made

    def close(self) -> None:
        """Remove what was written down to count it."""
        while self._written:
            self.place.forget(self._written.pop())

    @cached_property
    def _counts(self) -> StoredCounts:
        coded = {str(index): self._code(attribute) for index, attribute in enumerate(self.attributes)}
        sizes = {"g": self.n_groups, **{str(index): attribute.size for index, attribute in enumerate(self.attributes)}}
        codes = self.place.kept(self.rows.select("g", **coded), sizes.values())
        self._written.append(codes)
        return StoredCounts(sizes, codes, self.place)

    @cached_property
    def _scaled(self) -> ir.Table:
        """The group of each row, codes of categories `k0`, ..., standardized numbers `z0`, ..., null where missing."""
        coded = {f"k{i}": self._code(a) for i, a in enumerate(self.attributes) if a.edges is None}
        scaled = {f"z{index}": self._standardized(name) for index, name in enumerate(self._numbers)}
        written = self.place.written(self.place.apart(self.rows.select("g", **coded, **scaled)))
        self._written.append(written)
        return written

    @property
    def _numbers(self) -> list[str]:
        return [attribute.name for attribute in self.attributes if attribute.edges is not None]

    def _code(self, attribute: Attribute) -> ir.IntegerColumn:
        return code_of(self.rows[self.names[attribute.name]], attribute)

    @cached_property
    def _about(self) -> dict[str, Any]:
        """Of each number how many are present, the least, the largest, and mean and deviation in its own unit."""
        asked = {"n_rows": self.rows.count()}
        for index, name in enumerate(self._numbers):
            x = self.rows[self.names[name]]
            scaled = x * exactly(1 / self._unit(name))
            asked |= {f"n{index}": x.count(), f"low{index}": x.min(), f"high{index}": x.max()}
            asked |= {f"mean{index}": scaled.mean(), f"deviation{index}": scaled.std(how="pop")}
        return one_row(self.place, self.rows, asked)

    @cached_property
    def _complete(self) -> list[bool]:
        """Which numbers no row misses."""
        return [self._about[f"n{index}"] == self._about["n_rows"] for index in range(len(self._numbers))]

    def _standardized(self, name: str) -> ir.FloatingColumn:
        """What `associations.standardized` makes of a number, but for a shift and a factor near 0 and 1."""
        index, x = self._numbers.index(name), self.rows[self.names[name]]
        low, high, mean, deviation = (self._about[f"{what}{index}"] for what in ("low", "high", "mean", "deviation"))
        if low == high or not deviation:
            return ibis.ifelse(x.isnull(), ibis.null("float64"), exactly(0.0))
        return (x * exactly(1 / self._unit(name)) - exactly(mean)) / exactly(deviation)

    def _unit(self, name: str) -> float:
        """A power of two as large as the bounds: dividing by it changes no digit, and no square overflows."""
        column: Any = next(attribute.column for attribute in self.attributes if attribute.name == name)
        largest = max(map(abs, numeric_scale.bounds(column)))
        return float(2.0 ** np.clip(np.floor(np.log2(largest)), -1_000, 1_000)) if largest else 1.0


def _batches(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = list(asked)
    for start in range(0, len(names), _SUMS_A_SCAN):
        yield {name: asked[name] for name in names[start : start + _SUMS_A_SCAN]}
