"""Columns as codes: every value falls into a *cell*, and cells are merged into *codes*.

Cells are fine and, for private use, public: a category, a stretch of the numeric scale. `other` and `missing` are
always the last two of both, so that the domain never depends on whether the data needed them. Codes are what marginals
are counted on. Within a code a value is drawn by the mass of its cells. `CodedRows` are codes and ranks within them:
what sequential generators learn from and draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.domain import grid, plain_arrays
from synth.errors import SchemaError
from synth.schema import Schema
from synth.schema.kinds import LineColumn

if TYPE_CHECKING:
    from synth.domain.copula import Copula

from collections.abc import Collection, Sequence
from dataclasses import field

from numpy.typing import NDArray

OTHER, MISSING = -2, -1
"""Places of `other` and `missing` among the cells and among the codes of an attribute."""


@dataclass(frozen=True)
class Attribute:
    """The codes of one column.
    `edges`: edges of the cells on the line, shape (n_cells - 1,); `None` for a column with categories.
    `group`: the code of every cell, shape (n_cells,); the last two are `other` and `missing`.
    `mass`: relative mass of every cell, shape (n_cells,); cells of one code are drawn in proportion to it.
    """

    name: str
    column: Any
    edges: np.ndarray | None
    group: np.ndarray
    mass: np.ndarray

    @classmethod
    def from_plain(cls, name: str, column: Any, content: Mapping[str, Any]) -> Self:
        """An attribute from plain data that may be damaged."""
        edges = None if content["edges"] is None else plain_arrays.reals(content, "edges")
        group, mass = plain_arrays.whole_numbers(content, "group"), plain_arrays.reals(content, "mass")
        _require_sound(column, edges, group, mass)
        return cls(name, column, edges, group, mass)

    @property
    def line(self) -> tuple[np.ndarray, LineColumn]:
        """Edges of the cells and the column, of a number or a time."""
        if self.edges is None or self.column.is_categorical:
            raise SchemaError(f"column={self.name!r} has categories and no line; take its codes")
        return self.edges, self.column

    @property
    def n_cells(self) -> int:
        """Number of cells, `other` and `missing` included."""
        return len(self.group)

    @property
    def size(self) -> int:
        """Number of codes, `other` and `missing` included."""
        return int(self.group[MISSING]) + 1

    @cached_property
    def impossible(self) -> np.ndarray:
        """Codes that a synthetic value may not have: `other` unless it holds categories, `missing` where never.

        Where that would leave no code at all, categories of no mass are in `other`, and it is possible.
        """
        other, missing = self.group[OTHER], self.group[MISSING]
        codes = [] if self.mass[self.group == other].sum() > self.mass[OTHER] else [other]
        codes += [] if self.column.missing else [missing]
        return np.array(codes if len(codes) < self.size else [missing], dtype=np.int64)

    def cells(self, series: pd.Series) -> np.ndarray:
        """The cell of every value, shape (n,); total: outside bounds is clamped, an unknown category is `other`."""
        if self.edges is None:
            cells = pd.Index(self.column.levels).get_indexer(pd.Index(series.array))
            cells = np.where(cells < 0, self.n_cells + OTHER, cells)
            return np.where(series.isna().to_numpy(), self.n_cells + MISSING, cells)
        return self.cells_at(self.line[1].positions(series))

    def cells_at(self, positions: np.ndarray) -> np.ndarray:
        """The cell of every place on the line, NaN where missing, shape (n,); of a number or a time."""
        cells = np.clip(np.searchsorted(self.line[0], positions, side="right") - 1, 0, self.n_cells - 3)
        return np.where(np.isnan(positions), self.n_cells + MISSING, cells)

    def codes(self, series: pd.Series) -> np.ndarray:
        return np.asarray(self.group[self.cells(series)], dtype=np.int32)

    def values(self, codes: np.ndarray, rng: np.random.Generator, ranks: np.ndarray | None = None) -> pd.Series:
        """A value for every code, shape (n,), as a canonical column.
        `ranks`: the share of its code's mass below each value, shape (n,), for possible codes; left out, it is drawn.
        """
        if ranks is None:
            codes = self.possible(codes, rng)
            ranks = np.zeros(len(codes)) if self.size == self.n_cells else rng.random(len(codes))
        cells = self.ranked(codes, ranks)
        missing = cells == self.n_cells + MISSING
        if self.edges is None:
            return self._categories(cells, missing)
        edges, column = self.line
        drawn = grid.draw(edges, np.where(missing, 0, cells), column, rng)
        return column.values(drawn, missing)

    def drawn(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A position on the line in each cell, NaN where missing; shape (n,)."""
        edges, column = self.line
        missing = cells == self.n_cells + MISSING
        drawn = grid.draw(edges, np.where(missing, 0, cells), column, rng)
        return np.where(missing, np.nan, drawn if column.unit is None else drawn * column.unit)

    def placed(self, positions: np.ndarray) -> pd.Series:
        """A canonical column of positions on the line, NaN where missing."""
        column, missing = self.line[1], np.isnan(positions)
        filled = np.where(missing, self.line[0][0], positions)
        return column.values(filled if column.unit is None else np.rint(filled / column.unit).astype(np.int64), missing)

    def _categories(self, cells: np.ndarray, missing: np.ndarray) -> pd.Series:
        known = self.column.levels
        inside = np.where(missing, 0, cells)
        if self.column.is_boolean:
            return pd.Series(pd.arrays.BooleanArray(inside.astype(bool), missing))
        if known and isinstance(known[0], int):
            return pd.Series(pd.arrays.IntegerArray(np.array(known, dtype=np.int64)[inside], missing))
        texts = np.array([*known, None], dtype=object)
        return pd.Series(texts[np.where(missing, len(known), cells)], dtype=object)

    def ranked(self, codes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """The cell of each code below which that share of the code's mass lies, shape (n,)."""
        order, below, firsts, ends = self._below
        low, high = below[firsts][codes], below[ends][codes]
        # Rounding may carry a rank up to the end, where a cell without mass may lie.
        masses = np.minimum(low + ranks * (high - low), np.nextafter(high, -np.inf))
        places = np.searchsorted(below, masses, side="right") - 1
        return np.asarray(order[np.clip(places, firsts[codes], ends[codes] - 1)])

    @cached_property
    def rank_intervals(self) -> np.ndarray:
        """Shares of its code's mass below every cell and its end, 0 and 1 in one without mass; shape (n_cells, 2)."""
        order, below, firsts, ends = self._below
        codes = self.group[order]
        low, high = below[firsts][codes, np.newaxis], below[ends][codes, np.newaxis]
        shares, whole = np.stack([below[:-1], below[1:]], axis=1) - low, np.tile([0.0, 1.0], (self.n_cells, 1))
        intervals = np.empty((self.n_cells, 2))
        intervals[order] = np.divide(shares, high - low, out=whole, where=high > low)
        return intervals

    @cached_property
    def middle_ranks(self) -> np.ndarray:
        """The share of its code's mass below the middle of every cell; shape (n_cells,)."""
        return np.asarray(self.rank_intervals.mean(axis=1))

    @cached_property
    def rank_widths(self) -> np.ndarray:
        """The share of its code's mass in every cell, 1 in codes without mass; shape (n_cells,)."""
        return np.diff(self.rank_intervals)[:, 0]

    @property
    def is_refined(self) -> bool:
        """True if some code of a number or time has several cells that hold values."""
        return self.edges is not None and bool((np.bincount(self.group[:OTHER][self.mass[:OTHER] > 0]) > 1).any())

    @cached_property
    def _below(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Cells by code, the mass below each, shape (n_cells + 1,), and where each code's cells begin and end."""
        order = np.argsort(self.group, kind="stable")
        sizes = np.bincount(self.group)
        ends = np.cumsum(sizes)
        return order, np.concatenate([[0.0], np.cumsum(self._drawn_mass[order])]), ends - sizes, ends

    def possible(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The codes with impossible ones (noise put mass there) redrawn from the possible ones of the same column."""
        flags = np.zeros(self.size, dtype=bool)
        flags[self.impossible] = True
        impossible = flags[codes]
        if not impossible.any():
            return codes
        allowed = np.setdiff1d(np.arange(self.size), self.impossible)
        pool = codes[~impossible] if not impossible.all() else allowed
        codes = codes.copy()
        codes[impossible] = rng.choice(pool, size=int(impossible.sum()))
        return codes

    @cached_property
    def _drawn_mass(self) -> np.ndarray:
        """The mass of each cell, `other` of none where it holds categories, shape (n_cells,)."""
        mass = self.mass.copy()
        if self.size - 2 not in self.impossible:
            mass[OTHER] = 0.0
            members = self.group == self.size - 2
            if not mass[members].any():
                mass[:OTHER][members[:OTHER]] = 1.0
        return mass

    def labels(self) -> list[str]:
        """One text per code, for showing."""
        texts, known = [], self.column.levels
        for code in range(self.size - 2):
            cells = np.flatnonzero(self.group == code)
            first, last = int(cells[0]), int(cells[-1])
            if self.edges is None:
                texts.append(str(known[first]) if first == last else f"{known[first]} to {known[last]}")
            else:
                texts.append(grid.label(self.edges[first], self.edges[last + 1], self.column))
        return [*texts, "other", "missing"]


@dataclass(frozen=True)
class Discretizer:
    """All learned columns of a table as integer codes.

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "declared", "columns": {"age": {"kind": "integer", "bounds": [0, 3]}}})
    >>> Discretizer.by_schema(schema).labels("age")
    ['0', '1', '2', '3', 'other', 'missing']
    """

    attributes: tuple[Attribute, ...]

    @classmethod
    def by_schema(cls, schema: Schema) -> Self:
        """Cells from what is declared alone: categories, and public grids merged into declared bins where there are."""
        if schema.measured:
            raise SchemaError(
                f"columns={', '.join(schema.measured)} have no domain yet; measure or observe it before there are codes"
            )
        attributes = []
        for name in schema.modeled:
            column: Any = schema.columns[name]
            edges = None if column.is_categorical else grid.public_grid(column)
            groups = None if edges is None else grid.declared_groups(column, edges)
            attribute = _attribute(name, column, edges)
            attributes.append(attribute if groups is None else regroup(attribute, groups))
        return cls(tuple(attributes))

    @classmethod
    def by_quantiles(cls, schema: Schema, train: pd.DataFrame, n_bins: int = 20) -> Self:
        """Bins of about equal mass in the training table, *Sensitive*, spikes in bins of their own: for evaluation."""
        counted = {}
        for name in schema.learned:
            column = schema.columns[name]
            if not column.is_categorical:
                positions = column.positions(train[name])
                counted[name] = np.unique(positions[~np.isnan(positions)], return_counts=True)
        return cls.by_counts(schema, counted, n_bins)

    @classmethod
    def by_counts(cls, schema: Schema, counted: Mapping[str, tuple[np.ndarray, np.ndarray]], n_bins: int = 20) -> Self:
        """The discretizer of `by_quantiles`, from the counts of a training table.
        `counted`: *Sensitive*. For each number or time the places that hold a value, ascending, and how many each.
        """
        columns: dict[str, Any] = {name: schema.columns[name] for name in schema.learned}
        edges = {name: grid.quantile_edges(*each, columns[name], n_bins) for name, each in counted.items()}
        return cls(tuple(_attribute(name, column, edges.get(name)) for name, column in columns.items()))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of codes of each column; the last two codes are `other` and `missing`."""
        return {attribute.name: attribute.size for attribute in self.attributes}

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """The codes of a conforming table; shape (n, d), int32, column-major."""
        codes = np.empty((len(frame), len(self.attributes)), dtype=np.int32, order="F")
        for index, attribute in enumerate(self.attributes):
            codes[:, index] = attribute.codes(frame[attribute.name])
        return codes

    def decode(
        self,
        codes: np.ndarray,
        rng: np.random.Generator,
        copula: "Copula | None" = None,
        known_values: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """A canonical table of the learned columns, values drawn within their codes; known ones are as they are."""
        columns = [np.asarray(codes[:, i]) for i in range(len(self.attributes))]
        ranks: dict[int, np.ndarray] = {}
        if copula is not None:
            columns = [a.possible(column, rng) for a, column in zip(self.attributes, columns, strict=True)]
            known = {
                i: np.append(a.middle_ranks[:MISSING], np.nan)[a.cells(known_values[a.name])]
                for i, a in enumerate(self.attributes)
                if known_values is not None and a.name in known_values and a.edges is not None
            }
            ranks = copula.ranks(columns, rng, known)
        decoded = {
            a.name: known_values[a.name]
            if known_values is not None and a.name in known_values
            else a.values(columns[i], rng, ranks.get(i))
            for i, a in enumerate(self.attributes)
        }
        return pd.DataFrame(decoded, index=pd.RangeIndex(len(codes)), copy=False)

    def labels(self, column: str) -> list[str]:
        return next(a for a in self.attributes if a.name == column).labels()

    def to_plain(self) -> dict[str, Any]:
        return {
            a.name: {
                "edges": None if a.edges is None else a.edges.tolist(),
                "group": a.group.tolist(),
                "mass": a.mass.tolist(),
            }
            for a in self.attributes
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], schema: Schema) -> Self:
        schema = schema.counted
        plain_arrays.require_columns(content, schema.modeled)
        return cls(tuple(Attribute.from_plain(name, schema.columns[name], content[name]) for name in schema.modeled))


def _require_sound(column: Any, edges: np.ndarray | None, group: np.ndarray, mass: np.ndarray) -> None:
    """Refuse cells, codes and masses that do not fit each other or the column's kind."""
    if column.is_categorical != (edges is None):
        raise ValueError("a column has edges where it has a line, and only there")
    n_cells = len(column.levels) if edges is None else len(edges) - 1
    if edges is not None and (n_cells < 1 or not (np.diff(edges) > 0).all()):
        raise ValueError("edges are not strictly ascending")
    if edges is not None and not grid.within(edges, column):
        raise ValueError("edges lie beyond the column's bounds")
    if len(group) != n_cells + 2 or len(mass) != len(group) or (mass < 0).any() or not np.isfinite(mass.sum()):
        raise ValueError("codes or masses are not of the column's cells")
    last = group[MISSING]
    if group.min() < 0 or group.max() != last or group[OTHER] != last - 1 or last >= len(group):
        raise ValueError("the last two codes are not other and missing")
    cells_of_codes = np.bincount(group)
    if (cells_of_codes == 0).any() or cells_of_codes[last] != 1:
        raise ValueError("a code has no cell, or missing shares its own")


def _attribute(name: str, column: Any, edges: np.ndarray | None) -> Attribute:
    """An attribute whose codes are its cells."""
    n_cells = (len(column.levels) if edges is None else len(edges) - 1) + 2
    return Attribute(name, column, edges, np.arange(n_cells), np.ones(n_cells))


def regroup(attribute: Attribute, groups: np.ndarray, mass: np.ndarray | None = None) -> Attribute:
    """The attribute with its cells merged anew.
    `groups`: a number for each cell but `other` and `missing`, shape (n_cells - 2,); equal numbers share a code, -1
    joins `other`. Numbers need not be dense.
    `mass`: new masses of all cells, shape (n_cells,).
    """
    distinct, dense = np.unique(np.where(groups < 0, np.iinfo(np.int64).max, groups), return_inverse=True)
    n_codes = len(distinct) - int((groups < 0).any())
    group = np.concatenate([np.where(groups < 0, n_codes, dense), [n_codes, n_codes + 1]])
    return replace(attribute, group=group, mass=attribute.mass if mass is None else mass)


def with_cells(attribute: Attribute, most: float) -> Attribute:
    """The attribute with neighboring cells joined to about `most`; declared bins and the cells of spikes stay."""
    if attribute.edges is None or getattr(attribute.column, "bins", None):
        return attribute
    edges, column = attribute.line
    alone = grid.spike_cells(edges, column)
    n_joined = int((~alone).sum() / most)  # a whole number, so that cells stay alike
    if n_joined < 2:
        return attribute
    widths = np.where(alone, 0.0, np.diff(grid.resolution(edges, column)))
    level = np.floor((np.cumsum(widths) - widths) / widths.sum() * ((~alone).sum() / n_joined) + 1e-9)
    starts = np.append(True, (np.diff(level) > 0) | alone[1:] | alone[:-1])
    return _attribute(attribute.name, column, np.append(edges[:-1][starts], edges[-1]))


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
