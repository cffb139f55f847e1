"""Rows as codes and ranks within them: what sequential generators learn from and draw, and evidence on them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain.discretizer import Discretizer

Codes = NDArray[np.int32]
Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as codes, and where within their codes values lie.
    `codes`: shape (n, d), column-major.
    `ranks`: by place, of numbers and times some code of which has several cells, the share of its code's mass below
    each value; shape (n,) each.
    `positions`: by place, of some numbers, where on the line each value lies, NaN where missing; shape (n,) each.
    `log_weights`: log-likelihood of the known values in each row that was drawn on conditions; shape (n,).
    """

    codes: Codes
    ranks: Mapping[int, Array]
    log_weights: Array
    positions: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        discretizer: Discretizer,
        cells: Mapping[int, NDArray[np.int64]],
        positions: Mapping[int, Array] | None = None,
    ) -> Self:
        """Real rows. `cells`: *Sensitive*. The cell of every value, by place; shape (n,) each; of others code 0."""
        n = len(next(iter(cells.values())))
        codes = np.zeros((n, len(discretizer.attributes)), dtype=np.int32, order="F")
        ranks = {}
        for index, own in cells.items():
            attribute = discretizer.attributes[index]
            codes[:, index] = attribute.group[own]
            if attribute.is_refined:
                ranks[index] = attribute.middle_ranks[own]
        return cls(codes, ranks, np.zeros(n), positions or {})

    @classmethod
    def encoded(cls, discretizer: Discretizer, frame: pd.DataFrame) -> Self:
        """Rows of a canonical table; of columns that it lacks the code is 0."""
        places = [index for index, each in enumerate(discretizer.attributes) if each.name in frame]
        attributes = discretizer.attributes
        return cls.of(discretizer, {at: attributes[at].cells(frame[attributes[at].name]) for at in places})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All rows of some parts, in order; at least one part."""
        if len(parts) == 1:
            return parts[0]
        codes = np.asfortranarray(np.concatenate([part.codes for part in parts]))
        ranks = {index: np.concatenate([part.ranks[index] for part in parts]) for index in parts[0].ranks}
        positions = {at: np.concatenate([part.positions[at] for part in parts]) for at in parts[0].positions}
        return cls(codes, ranks, np.concatenate([part.log_weights for part in parts]), positions)

    def taken(self, rows: NDArray[np.intp]) -> "CodedRows":
        ranks = {index: values[rows] for index, values in self.ranks.items()}
        positions = {index: values[rows] for index, values in self.positions.items()}
        return CodedRows(np.asfortranarray(self.codes[rows]), ranks, self.log_weights[rows], positions)

    def decoded(self, discretizer: Discretizer, rng: np.random.Generator, known: Collection[str] = ()) -> pd.DataFrame:
        """A canonical table of the modeled columns that are not known, values drawn within their cells."""
        columns = {
            attribute.name: attribute.values(self.codes[:, index], rng, self.ranks.get(index))
            if index not in self.positions
            else attribute.placed(self.positions[index])
            for index, attribute in enumerate(discretizer.attributes)
            if attribute.name not in known
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self.codes)), copy=False)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence: columns that are known of each row before the others are drawn, and codes that go together.
    `rows`: the rows, of which columns that are not known mean nothing.
    """

    rows: CodedRows | None = None
    places: frozenset[int] = frozenset()
    zeros: tuple[tuple[tuple[int, ...], Flags], ...] = ()

    def is_leading(self, order: Sequence[int]) -> bool:
        """True if the known columns are the first ones of an order."""
        return {*order[: len(self.places)]} == self.places

    def taken(self, rows: NDArray[np.intp]) -> "Evidence":
        return self if self.rows is None else replace(self, rows=self.rows.taken(rows))

    def open_codes(self, rank: int, codes: Codes, drawn: Collection[int]) -> Flags | None:
        """The codes that a column may have beside those of columns that are there; shape (n, size); `None`: all.
        `codes`: of rows, shape (n, d).
        """
        flags = None
        for places, together in self.zeros:
            others = [other for other in places if other != rank]
            if rank in places and {*drawn} >= {*others}:
                moved = np.moveaxis(together, places.index(rank), -1)
                more = moved[tuple(codes[:, other] for other in others)] if others else np.tile(moved, (len(codes), 1))
                narrow = more if flags is None else flags & more
                # What is known may leave no code at all, which is for whoever judges the row.
                flags = np.where(narrow.any(axis=1, keepdims=True), narrow, True if flags is None else flags)
        return flags
