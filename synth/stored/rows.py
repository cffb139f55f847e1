"""The rows of a stored table as a fit on marginals reads them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import Attribute, Discretizer, numeric_scale
from synth.schema import Schema
from synth.stored.counting import StoredCounts
from synth.stored.functions import md5
from synth.stored.place import Place
from synth.stored.reading import Reader, cell_of, code_of
from synth.texts import is_plain

Counted = NDArray[np.int64]

OWNER = "understudy_owner"
"""The column that holds a keyed digest of each row's entity, where contributions are bounded."""
MANY_VALUES = 1_000_000
"""Distinct values up to which a column is counted value by value, and only the values are read as cells."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A training table that stays where it is stored; every read is a count.

    Attributes:
        place: where it is.
        rows: *Sensitive*. The columns as they are stored, contributions bounded.
        schema: what is public about them.
    """

    place: Place
    rows: ir.Table = field(repr=False)
    schema: Schema

    def __len__(self) -> int:
        return self.place.number(self.rows.count())

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Counted]:
        """How many values are in each cell of each attribute; shapes (n_cells,)."""
        for attribute in attributes:
            cells = self.rows[attribute.name]
            read = self.read(cells, attribute)  # refuses a type that cannot be read, and that may not be countable
            if self.place.number(cells.approx_nunique()) > MANY_VALUES:
                places = self.place.apart(self.rows.select(x=read))
                codes = places.select(cell=code_of(places["x"], attribute.fine))
                yield next(self.place.counts(codes, [["cell"]], {"cell": attribute.n_cells}))
            else:
                yield self._by_value(attribute)

    def coded(self, discretizer: Discretizer) -> StoredCounts:
        """The rows in the codes of a discretizer."""
        attributes = discretizer.attributes
        read = {f"x{index}": self.read(self.rows[a.name], a) for index, a in enumerate(attributes)}
        places = self.place.apart(self.rows.select(**read))
        codes = {f"c{index}": code_of(places[f"x{index}"], a) for index, a in enumerate(attributes)}
        kept = self.place.kept(places.select(**codes), discretizer.sizes.values())
        return StoredCounts(discretizer.sizes, kept, self.place)

    def rows_per_entity(self) -> Counted:
        """How many entities have 1, 2, ... rows; shape (k,), or longer where contributions are not bounded."""
        entities = self.rows.group_by(OWNER).agg(n=self.rows.count())
        found = self.place.fetch(entities.group_by("n").agg(n_entities=entities.count()))
        most = max([self.schema.max_rows_per_unit, *found.column(0).to_pylist()])
        return _by_number(found, most + 1)[1:]

    def category_counts(self, name: str) -> dict[Any, int]:
        """How often each present value of a column of categories occurs; every one of them comes here."""
        column: Any = self.schema.columns[name]
        values = self.rows.select(value=self.reader.unlisted(self.rows[name], name, column))
        found = self.place.fetch(self._counted(values))
        pairs = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
        return {value: n for value, n in pairs if value is not None and (not isinstance(value, str) or is_plain(value))}

    def value_counts(self, name: str) -> dict[float, int]:
        """How often each present value of a number occurs, within its bounds; every one of them comes here."""
        column: Any = self.schema.columns[name]
        values = self.place.apart(self.rows.select(value=self.reader.places(self.rows[name], name, column)))
        found = self.place.fetch(self._counted(values))
        counts: Counter[float] = Counter()
        for value, n in zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True):
            if value is not None:
                counts[value + 0.0] += n  # one zero, whatever its sign
        return dict(counts)

    def place_counts(self, name: str, column: numeric_scale.LineColumn, edges: np.ndarray) -> Counted:
        """How many present values of a number or time lie between edges, those beyond in the outermost."""
        n_cells = len(edges) - 1
        places = self.place.apart(self.rows.select(x=self.reader.places(self.rows[name], name, column)))
        codes = places.select(cell=cell_of(places["x"], edges))
        present = codes.filter(codes["cell"].notnull())
        return next(self.place.counts(present, [["cell"]], {"cell": n_cells}))

    @property
    def reader(self) -> Reader:
        """How its cells are read."""
        return Reader.of(self.place.backend, self.schema)

    def read(self, cells: ir.Column, attribute: Attribute) -> Any:
        """Where cells lie on the line, null where they are missing, or the numbers of their categories.

        Args:
            cells: *Sensitive*. Of the column, or values of it.
            attribute: names the column and its kind.

        Raises:
            TableError: their type cannot be read as that kind; nothing was read.
        """
        column = attribute.column
        if isinstance(column, CategoricalColumn | BooleanColumn):
            return self.reader.members(cells, attribute.name, column)
        return self.reader.places(cells, attribute.name, column)

    def _by_value(self, attribute: Attribute) -> Counted:
        """Counts of cells by counts of distinct values: only these are read as cells."""
        values = self._counted(self.rows.select(value=self.rows[attribute.name]))
        places = self.place.apart(values.select(x=self.read(values["value"], attribute), n=values["n"]))
        cells = places.select(cell=code_of(places["x"], attribute.fine), n=places["n"])
        found = self.place.fetch(cells.group_by("cell").agg(n=cells["n"].sum().cast("int64")))
        return _by_number(found, attribute.n_cells)

    def _counted(self, values: ir.Table) -> ir.Table:
        """How often each value occurs; texts by their bytes, since a collation may take different ones for one another.

        DuckDB groups by bytes whatever the collation.
        """
        if self.place.backend == "duckdb" or not values["value"].type().is_string():
            return values.group_by("value").agg(n=values.count())
        by_bytes = values.mutate(digest=md5(values["value"]))
        return by_bytes.group_by("digest").agg(value=by_bytes["value"].min(), n=by_bytes.count()).drop("digest")


def _by_number(found: Any, size: int) -> Counted:
    """The counts of numbers below `size`, those that none has among them; the numbers come first, then the counts."""
    made = np.zeros(size, dtype=np.int64)
    made[found.column(0).to_numpy().astype(np.int64)] = found.column(1).to_numpy()
    return made
