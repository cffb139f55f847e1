"""Rows in the canonical form of a schema, read in chunks as often as asked: what fits and evaluations count."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.table.chunk import Chunk
from synth.table.table import Table


@dataclass(frozen=True, eq=False)
class Rows:
    """*Sensitive*. Some rows of a table, conforming to a schema (clamped; `Chunk.faults` says where)."""

    schema: Schema
    stored: tuple[Chunk, ...] = field(repr=False)
    kept: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Any, schema: Schema) -> Self:
        """The rows of anything that `Table.of` takes."""
        return cls(schema, tuple(Table.of(source).chunks(schema)))

    def __len__(self) -> int:
        return sum(chunk.n for chunk in self.stored) if self.kept is None else int(self.kept.sum())

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time, in one order at every call."""
        start = 0
        for chunk in self.stored:
            yield chunk if self.kept is None else chunk.filter(self.kept[start : start + chunk.n])
            start += chunk.n

    def frames(self, *names: str) -> Iterator[pd.DataFrame]:
        """The same as frames of some columns, or of all that are kept, as `conform` gives them."""
        return (chunk.frame(self.schema, names or self.schema.kept) for chunk in self.chunks())

    def frame(self, *names: str) -> pd.DataFrame:
        """All rows in memory."""
        return pd.concat(self.frames(*names), ignore_index=True)

    def where(self, flags: np.ndarray) -> Self:
        """Those of these rows that are flagged; shape (len(self),), boolean."""
        if self.kept is None:
            return replace(self, kept=flags)
        kept = self.kept.copy()
        kept[kept] = flags
        return replace(self, kept=kept)

    def take(self, positions: np.ndarray) -> pd.DataFrame:
        """The rows at some positions among these, in that order, in memory."""
        order = np.argsort(positions, kind="stable")
        wanted, start, found = positions[order], 0, []
        for frame in self.frames():
            first, end = np.searchsorted(wanted, [start, start + len(frame)])
            found.append(frame.iloc[wanted[first:end] - start])
            start += len(frame)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return pd.concat(found, ignore_index=True).iloc[rank].reset_index(drop=True)

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)
