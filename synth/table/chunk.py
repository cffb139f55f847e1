"""Rows of a table in the canonical form of a schema, as Arrow arrays, and which cells did not fit."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.arrow import as_one
from synth.table.cast import cast, fitting, pieces_of


@dataclass(frozen=True, eq=False, repr=False)
class Chunk:
    """*Sensitive*. Rows in canonical form, and for each column the bits of its cells' faults: shape (n,), uint16."""

    columns: Mapping[str, pa.Array]
    faults: Mapping[str, np.ndarray]
    n: int

    @classmethod
    def of(cls, batch: Mapping[str, Any], n: int, schema: Schema, *, clamp: bool = True) -> "Chunk":
        """The kept columns of raw rows: Arrow arrays, or objects as NumPy arrays; one that is not there is missing."""
        columns, faults = {}, {}
        for name in schema.kept:
            column = schema.columns[name]
            source = name if name in batch or column.part is None else column.part.column
            raw = as_one(batch[source]) if source in batch else pa.nulls(n)
            if column.part is not None and source == column.part.column:
                raw = pieces_of(raw, column.part, schema.missing_values)
            columns[name], faults[name] = cast(raw, column, schema.missing_values, clamp=clamp)
        return cls(columns, faults, n)

    def filter(self, kept: np.ndarray) -> "Chunk":
        mask, n = pa.array(kept), int(np.count_nonzero(kept))
        faults = {name: bits[kept] if bits.any() else fitting(n) for name, bits in self.faults.items()}
        return Chunk({name: array.filter(mask) for name, array in self.columns.items()}, faults, n)

    def take(self, positions: np.ndarray) -> "Chunk":
        where, n = pa.array(positions), len(positions)
        faults = {name: bits[positions] if bits.any() else fitting(n) for name, bits in self.faults.items()}
        return Chunk({name: array.take(where) for name, array in self.columns.items()}, faults, n)

    def frame(self, schema: Schema, names: Sequence[str] | None = None) -> pd.DataFrame:
        names = list(self.columns if names is None else names)
        # No column shares memory with another table, so that none needs to be copied into a block.
        columns = {name: as_series(self.columns[name], schema.columns[name]) for name in names}
        return pd.DataFrame(columns, index=pd.RangeIndex(self.n), columns=pd.Index(names, dtype=object), copy=False)

    def cells(self, attribute: Any) -> np.ndarray:
        """The cells of an attribute: of a dictionary, its distinct values are looked up once."""
        array = self.columns[attribute.name]
        if not pa.types.is_dictionary(array.type):
            return np.asarray(attribute.cells(as_series(array, attribute.column)))
        distinct = attribute.cells(as_series(array.dictionary, attribute.column))
        codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(np.append(distinct, attribute.n_cells - 1)[codes])

    def codes(self, discretizer: Any) -> np.ndarray:
        return np.column_stack([a.group[self.cells(a)].astype(np.int16) for a in discretizer.attributes])


def as_series(array: pa.Array, column: Column) -> pd.Series:
    """A canonical column as pandas holds it."""
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        coded = pa.types.is_dictionary(kind)
        objects = np.append((array.dictionary if coded else array).to_numpy(zero_copy_only=False), [None])
        if column.is_time:  # each with its own offset
            objects = np.array([None if t is None else dt.datetime.fromisoformat(t) for t in objects], dtype=object)
        codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False) if coded else np.arange(len(array))
        return pd.Series(objects[codes], dtype=object)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        nullable: Any = pd.Int64Dtype() if pa.types.is_integer(kind) else pd.BooleanDtype()
        return pd.Series(nullable.__from_arrow__(array))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pd.Series(array.to_pandas())
    values = array.to_numpy(zero_copy_only=False)
    return pd.Series(values if values.flags.writeable else values.copy())


def concat_chunks(chunks: Sequence[Chunk], schema: Schema) -> Chunk:
    if not chunks:
        return Chunk.of({}, 0, schema)
    if len(chunks) == 1:
        return chunks[0]
    columns = {name: as_one(pa.chunked_array([chunk.columns[name] for chunk in chunks])) for name in schema.kept}
    faults = {name: _concat_bits([chunk.faults[name] for chunk in chunks]) for name in schema.kept}
    return Chunk(columns, faults, sum(chunk.n for chunk in chunks))


def _concat_bits(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if any(bits.any() for bits in pieces) else fitting(sum(map(len, pieces)))
