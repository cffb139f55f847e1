"""Rows in the canonical form of a schema, read in chunks as often as asked: what fits and evaluations count."""

import datetime as dt
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.schema import Schema
from synth.table.conforming import Outside, matching, refuse, violation_of, violations_of
from synth.table.decode import GUESSED, Fault, faults_in
from synth.table.spool import Spool
from synth.table.table import Chunk
from synth.table.typed_cells import as_one, fitting


@dataclass(frozen=True, eq=False)
class _StoredChunk:
    """A chunk in a spool: the numbers of its columns, and of the faults of those that have any."""

    spool: Spool
    columns: Mapping[str, int]
    faults: Mapping[str, int]
    n: int

    @classmethod
    def of(cls, chunk: Chunk, spool: Spool) -> Self:
        faults = {name: spool.add(pa.array(flags)) for name, flags in chunk.faults.items() if flags.any()}
        return cls(spool, {name: spool.add(array) for name, array in chunk.columns.items()}, faults, chunk.n)

    def read(self, names: Iterable[str]) -> Chunk:
        columns = {name: self.spool.read(self.columns[name]) for name in names}
        faults = {
            n: np.asarray(self.spool.read(self.faults[n])) if n in self.faults else fitting(self.n) for n in columns
        }
        return Chunk(columns, faults, self.n)


@dataclass(frozen=True, eq=False)
class Rows:
    """*Sensitive*. Some rows of a table, conforming to a schema (clamped: `Chunk.faults` says what was wrong where).

    They lie in memory while they are few, else in a file without a name, which is gone with the last that reads it.
    """

    schema: Schema
    stored: tuple[_StoredChunk, ...] = field(repr=False)
    kept: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, source: Any, schema: Schema, *, outside: Outside = "clamp", folder: Path | None = None, other: bool = False
    ) -> Self:
        """The rows of anything that `Table.of` takes, or of rows that were read under another schema.
        `outside`: where a cell does not fit, it is clamped, or the table refused.
        `other`: the rows are others than those a schema was proposed from: what that guessed refuses none of them.
        """
        allowed = GUESSED if other and schema.status == "inferred" else ()
        if isinstance(source, cls):
            same = all(source.schema.columns.get(name) == schema.columns[name] for name in schema.kept)
            if same and {*schema.kept} <= {*source.stored[0].columns}:
                return source.under(schema)  # whoever read them has said what is done where a cell does not fit
            chunks: Iterator[Chunk] = (Chunk.of(chunk.columns, chunk.n, schema) for chunk in source.chunks())
            folder = folder or source.folder
        else:
            chunks = matching(source, schema, extra=outside == "refuse").chunks(schema)
        rows = cls.from_chunks(_fitting(chunks, schema, allowed) if outside == "refuse" else chunks, schema, folder)
        names = [name for name in schema.kept if schema.columns[name].is_identifier and name != schema.entity]
        repeated = [violation_of(name, Fault.REPEATED, schema) for name in names]
        if repeated and outside == "refuse":
            refuse(v for v in violations_of(rows.chunks(*names), schema, part=True) if v in repeated)
        return rows

    @classmethod
    def from_chunks(cls, chunks: Iterable[Chunk], schema: Schema, folder: Path | None = None) -> Self:
        spool = Spool(folder)
        stored = tuple(_StoredChunk.of(chunk, spool) for chunk in chunks)
        if not stored:
            stored = (_StoredChunk.of(Chunk.of({}, 0, schema), spool),)
        pa.default_memory_pool().release_unused()  # what casting took: Arrow would keep it for itself
        return cls(schema, stored)

    @classmethod
    def from_frames(cls, frames: Iterable[pd.DataFrame], schema: Schema, folder: Path | None = None) -> Self:
        """The rows of frames that are in canonical form already, which are read once."""
        rows = cls.from_chunks((), schema, folder)
        for frame in frames:
            rows = rows.plus(frame)
        return rows

    def plus(self, frame: pd.DataFrame) -> Self:
        """The rows with those of a frame after them, which is in canonical form already."""
        chunk = Chunk({n: _arrow(frame[n]) for n in self.schema.kept}, {}, len(frame))
        before = () if len(self) == 0 else self.stored
        return replace(self, stored=(*before, _StoredChunk.of(chunk, self.stored[0].spool)))

    @property
    def folder(self) -> Path | None:
        return self.stored[0].spool.folder

    def __len__(self) -> int:
        return sum(chunk.n for chunk in self.stored) if self.kept is None else int(self.kept.sum())

    def chunks(self, *names: str) -> Iterator[Chunk]:
        """The rows, some at a time, in one order at every call: some columns, or all that the schema keeps."""
        start = 0
        for stored in self.stored:
            chunk = stored.read(names or self.schema.kept)
            yield chunk if self.kept is None else chunk.filter(self.kept[start : start + stored.n])
            start += stored.n

    def frames(self, *names: str) -> Iterator[pd.DataFrame]:
        """The same as frames of some columns, or of all that are kept, as `conform` gives them."""
        return (chunk.frame(self.schema, names or self.schema.kept) for chunk in self.chunks(*names))

    def frame(self, *names: str) -> pd.DataFrame:
        return pd.concat(self.frames(*names), ignore_index=True)

    def where(self, flags: np.ndarray) -> Self:
        """Those of these rows that are flagged; shape (len(self),), boolean."""
        if self.kept is None:
            return replace(self, kept=flags)
        kept = self.kept.copy()
        kept[kept] = flags
        return replace(self, kept=kept)

    def take(self, positions: np.ndarray, *names: str) -> pd.DataFrame:
        """The rows at some positions among these, in that order, in memory."""
        order = np.argsort(positions, kind="stable")
        wanted, start = positions[order], 0
        parts: list[pd.DataFrame] = []
        for chunk in self.chunks(*names):
            first, end = np.searchsorted(wanted, [start, start + chunk.n])
            if end > first or not parts:
                parts.append(chunk.take(wanted[first:end] - start).frame(self.schema, names or self.schema.kept))
            start += chunk.n
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return pd.concat(parts, ignore_index=True).iloc[rank].reset_index(drop=True)

    def together(self, groups: np.ndarray, n_rows: int) -> Iterator["Rows"]:
        """The rows in parts of whole groups, in the order of their numbers, of about `n_rows` rows each.
        `groups`: the number of each row's group, from 0 on, shape (len(self),); rows of -1 are left out.
        """
        sizes = np.bincount(groups[groups >= 0], minlength=1)
        parts = np.append((np.cumsum(sizes) - sizes) // n_rows, -1)[groups]
        if parts.max(initial=0) == 0:
            yield self.where(groups >= 0) if (groups < 0).any() else self
            return
        stored: dict[int, list[_StoredChunk]] = {}
        spool, start = Spool(self.folder), 0
        for chunk in self.chunks():
            own = parts[start : start + chunk.n]
            start += chunk.n
            for part in np.unique(own[own >= 0]).tolist():
                rows = chunk.take(np.flatnonzero(own == part))
                stored.setdefault(part, []).append(_StoredChunk.of(rows, spool))
        for part in sorted(stored):
            yield Rows(self.schema, tuple(stored[part]))

    def under(self, schema: Schema) -> Self:
        """The same rows, read under the schema with its measured domains."""
        return replace(self, schema=schema)


def _fitting(chunks: Iterable[Chunk], schema: Schema, allowed: Container[Fault]) -> Iterator[Chunk]:
    for chunk in chunks:
        for name, bits in chunk.faults.items():
            refuse(violation_of(name, fault, schema) for fault in faults_in(bits) if fault not in allowed)
        yield chunk


def _arrow(series: pd.Series) -> pa.Array:
    """A canonical column; texts, and times that each have an offset, as a dictionary."""
    if series.dtype != object:
        return as_one(pa.array(series, from_pandas=True))
    texts = series.to_numpy()
    if any(isinstance(value, dt.datetime) for value in texts):  # one instant has several offsets
        texts = np.array([None if value is None else value.isoformat() for value in texts], dtype=object)
    codes, distinct = pd.factorize(texts)
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, pa.string()))


def observe(schema: Schema, *tables: pd.DataFrame | Rows) -> Schema:
    """The schema with bounds and categories read off the tables wherever they are to be measured.

    What comes out tells values of single rows. It is never for a private fit, which measures under its budget.
    `tables`: *Sensitive*. In canonical form under it.
    """
    observed = {name: _observed(schema.columns[name], _present(name, tables)) for name in schema.measured}
    return schema.model_copy(update={"columns": {**schema.columns, **observed}}) if observed else schema


def _present(name: str, tables: Sequence[pd.DataFrame | Rows]) -> Iterator[pd.Series]:
    """The present values of a column, some at a time."""
    for table in tables:
        for frame in [table] if isinstance(table, pd.DataFrame) else table.frames(name):
            yield frame[name].dropna()


def _observed(column: Any, parts: Iterator[pd.Series]) -> Any:
    if column.is_categorical:
        plain: type[Any] = int if column.holds_whole_numbers else str
        known = sorted({plain(value) for part in parts for value in part.unique()})
        change = {"categories": tuple(known), "measure": False, "whole_numbers": False}
        return column.model_copy(update=change if known else {**change, "missing": True})
    ends = [(filled.min(), filled.max()) for filled in (_in_utc(part) for part in parts if len(part))]
    if not ends:
        middle = min(max(column.value_at(0.0), column.bounds[0]), column.bounds[1])  # zero, or 1970
        return column.model_copy(update={"bounds": (middle, middle), "missing": True, "measure": False})
    bounds = min(low for low, _ in ends), max(high for _, high in ends)
    return column.model_copy(update={"bounds": tuple(column.plain(end) for end in bounds), "measure": False})


def _in_utc(part: pd.Series) -> pd.Series:
    """Times of a zone on the clock of UTC, which shows a year of the calendar wherever bounds do."""
    return part.dt.tz_convert("UTC") if isinstance(part.dtype, pd.DatetimeTZDtype) else part
