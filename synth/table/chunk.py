"""Rows of a table in the canonical form of a schema, as Arrow arrays, and which cells did not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.schema.kinds import DatetimeColumn
from synth.table.cast import as_one, cast


@dataclass(frozen=True)
class Chunk:
    """Rows in canonical form, and for each column flags of the cells that did not fit."""

    columns: Mapping[str, pa.Array]
    faults: Mapping[str, np.ndarray]
    n: int

    @classmethod
    def of(cls, batch: Any, schema: Any) -> "Chunk":
        named = {name: batch[name] for name in schema.kept}
        done = {n: cast(as_one(a), schema.columns[n], schema.missing_values) for n, a in named.items()}
        return cls(
            {n: a for n, (a, _) in done.items()}, {n: f for n, (_, f) in done.items()}, len(next(iter(named.values())))
        )

    def filter(self, kept: np.ndarray) -> "Chunk":
        mask = pa.array(kept)
        return Chunk(
            {n: a.filter(mask) for n, a in self.columns.items()},
            {n: f[kept] for n, f in self.faults.items()},
            int(kept.sum()),
        )

    def take(self, positions: np.ndarray) -> "Chunk":
        where = pa.array(positions)
        return Chunk(
            {n: a.take(where) for n, a in self.columns.items()},
            {n: f[positions] for n, f in self.faults.items()},
            len(positions),
        )

    def frame(self, schema: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows as today's `conform` gives them."""
        return pd.DataFrame({n: _series(self.columns[n], schema.columns[n]) for n in names or self.columns})

    def cells(self, attribute: Any) -> np.ndarray:
        """The cells of an attribute: of a dictionary, its distinct values are looked up once."""
        array = self.columns[attribute.name]
        if not pa.types.is_dictionary(array.type):
            return attribute.cells(_series(array, attribute.column))
        distinct = attribute.cells(_series(array.dictionary, attribute.column))
        return np.append(distinct, attribute.n_cells - 1)[array.indices.fill_null(-1).to_numpy(zero_copy_only=False)]

    def codes(self, discretizer: Any) -> np.ndarray:
        return np.column_stack([a.group[self.cells(a)].astype(np.int16) for a in discretizer.attributes])


def _series(array: pa.Array, column: Any) -> pd.Series:
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        texts = array.dictionary if pa.types.is_dictionary(kind) else array
        objects = np.append(texts.to_numpy(zero_copy_only=False), [None])
        if isinstance(column, DatetimeColumn):  # each with its own offset
            objects = np.array([None if t is None else pd.Timestamp(t).to_pydatetime() for t in objects], dtype=object)
        codes = (
            array.indices.fill_null(-1).to_numpy(zero_copy_only=False) if texts is not array else np.arange(len(texts))
        )
        return pd.Series(objects[codes], dtype=object)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pd.Series((pd.Int64Dtype() if pa.types.is_integer(kind) else pd.BooleanDtype()).__from_arrow__(array))
    return pd.Series(array.to_pandas().to_numpy() if not getattr(kind, "tz", None) else array.to_pandas())
