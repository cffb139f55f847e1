"""A table: something that gives rows in chunks, as often as asked, whatever it comes from."""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import pandas as pd
import pyarrow as pa

from synth.errors import TableError, TableNote
from synth.schema import Schema
from synth.table.arrow import as_frame_column, as_objects
from synth.table.chunk import Chunk, concat_chunks
from synth.table.databases import open_database, parse_address
from synth.table.files import Part, open_files
from synth.table.frames import (
    Back,
    as_arrow,
    as_they_are,
    back_to,
    back_to_pandas,
    batches_of_arrow,
    batches_of_pandas,
    in_numpy,
    worked_out,
)
from synth.table.limits import IN_PARTS, SizeLimits
from synth.table.text_files import Batch
from synth.validation import is_plain, lacks_scheme

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Table:
    """*Sensitive*. Rows that are read in chunks, as often as asked."""

    names: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)
    back: Back = field(default=as_they_are, repr=False)
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    distributed: Callable[[Callable[[Iterator[Batch]], Any]], list[Any]] | None = field(default=None, repr=False)
    whole: pd.DataFrame | None = field(default=None, repr=False)
    cluster: Any = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, source: Any, *, limits: SizeLimits = IN_PARTS, named: bool = True) -> Self:
        """The table that a source is: a frame of any library, a dict of columns, a path, an address of a database.
        `named`: refuse columns whose names do not tell which is which.
        """
        if isinstance(source, cls):
            return source
        table = cls._open(source, limits)
        for note in table.notes if named else ():
            warnings.warn(TableNote(note), stacklevel=2)
        for rule, remedy in names_at_fault(table.names) if named else ():
            where = f" (path={str(source)!r})" if isinstance(source, str | Path) and "://" not in str(source) else ""
            raise TableError(f"the table {rule}; {remedy}{where}")
        if named and not table.names:
            raise TableError("a table needs at least one column, and this one has no columns; export it anew")
        return table

    @classmethod
    def _open(cls, source: Any, limits: SizeLimits) -> Self:
        if isinstance(source, str | Path):
            files = _open_path(str(source), limits)
            return cls(files.names, files.parts, kinds=files.kinds, notes=files.notes)
        if isinstance(source, Mapping):
            try:
                source = pd.DataFrame(dict(source))
            except (ValueError, TypeError):
                reason = "a dict of columns has a list or an array of values for each, all of one length; correct it"
                raise TableError(reason) from None
        if isinstance(source, pd.DataFrame):
            part = partial(batches_of_pandas, source)
            return cls(tuple(source.columns), (part,), back_to_pandas(source), whole=source)
        if hasattr(type(source), "frames") and hasattr(type(source), "chunks"):  # rows that were cast before
            return cls(tuple(source.schema.kept), (partial(_rows_again, source),))
        library = type(source).__module__.split(".")[0]
        if library == "pyspark":
            return cls(
                tuple(source.columns),
                (partial(_rows_of_spark, source),),
                _to_spark(source),
                distributed=partial(_map_on_spark, source),
                cluster=source,
            )
        if library in ("dask", "dask_expr") and hasattr(source, "to_delayed"):
            return cls(
                tuple(source.columns),
                tuple(partial(_rows_of_dask, part) for part in source.to_delayed()),
                distributed=partial(_map_on_dask, source),
                cluster=source,
            )
        rows = as_arrow(source)
        return cls(tuple(rows.schema.names), (partial(batches_of_arrow, rows),), back_to(source))

    def chunks(self, schema: Schema, *, clamp: bool = True) -> Iterator[Chunk]:
        """The rows in the canonical form of a schema, some at a time, in one order at every call."""
        for part in self.parts:
            yield from (Chunk.of(columns, n, schema, clamp=clamp) for columns, n in part())

    def chunk(self, schema: Schema, *, clamp: bool = True, only: Iterable[str] | None = None) -> Chunk:
        """All rows at once, of those kept columns that the table has where `only` says so."""
        if only is not None:
            columns = {n: c for n, c in schema.columns.items() if {n, c.part.column if c.part else n} & {*only}}
            schema = schema.model_copy(update={"columns": columns})
        return concat_chunks(list(self.chunks(schema, clamp=clamp)), schema)

    def frame(self) -> pd.DataFrame:
        if self.whole is not None:
            return in_numpy(self.whole)
        batches = [batch for part in self.parts for batch in part()]
        columns = {
            i: _joined([b[name] for b, _ in batches if name in b], self.kinds.get(name))
            for i, name in enumerate(self.names)
        }
        frame = pd.DataFrame(columns, index=pd.RangeIndex(sum(n for _, n in batches)), copy=False)
        frame.columns = pd.Index(self.names, dtype=object)
        return frame

    def map(self, function: Callable[[Iterator[Chunk]], Result], schema: Schema) -> list[Result]:
        """The function's result for each part of the rows, worked out where these are: pickled if that is elsewhere."""
        apply = partial(_apply, function, schema)
        return [apply(part()) for part in self.parts] if self.distributed is None else self.distributed(apply)

    def on(self, executor: Any) -> Self:
        """The same table, whose parts a pool of `concurrent.futures`, or Dask's client, reads and maps."""
        return replace(self, distributed=partial(_map_on_executor, executor, self.parts))


def _open_path(text: str, limits: SizeLimits) -> Any:
    if not text.strip():
        raise TableError("a table is named by a path or an address, and this one has no name; give it one")
    if "://" in text:
        return open_database(parse_address(text))
    if lacks_scheme(text) and not Path(text).exists():
        raise TableError("the address of the table has no scheme; write it like postgresql://host/database#table")
    return open_files(Path(text), limits)


def _apply(function: Callable[[Iterator[Chunk]], Any], schema: Schema, batches: Iterator[Batch]) -> Any:
    return function(Chunk.of(columns, n, schema) for columns, n in batches)


def _map_on_executor(executor: Any, parts: Sequence[Part], apply: Callable[[Iterator[Batch]], Any]) -> list[Any]:
    results = executor.map(partial(_apply_to_part, apply), parts)
    return list(executor.gather(results) if hasattr(executor, "gather") else results)


def _apply_to_part(apply: Callable[[Iterator[Batch]], Any], part: Part) -> Any:
    return apply(part())


def _joined(arrays: Sequence[Any], kind: pa.DataType | None) -> pd.Series:
    if not arrays:
        return pd.Series([], dtype=object)
    if not all(isinstance(array, pa.Array) for array in arrays):
        cells = [cell for array in arrays for cell in (array.to_pylist() if isinstance(array, pa.Array) else array)]
        try:
            return as_frame_column(pa.chunked_array([pa.array(cells, from_pandas=True)]))
        except (pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError):  # of several types
            return pd.Series(as_objects(cells), dtype=object)
    joined = pa.chunked_array(arrays)
    return as_frame_column(joined if kind is None or joined.type == kind else joined.cast(kind))


def names_at_fault(names: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Rules that names break which make it unclear which column is which, each with its remedy."""
    if not all(isinstance(name, str) for name in names):
        yield "has column names that are not text", "rename its columns to texts"
        return
    for name in dict.fromkeys(n for n in names if len(names) > len(set(names)) and list(names).count(n) > 1):
        yield f"has two columns of name={name!r}", "give every column a name of its own"
    if "" in names:
        yield "has a column with an empty name", "give every column a name of its own"
    for name in names:
        if not is_plain(name):
            yield f"has a NUL character or half a surrogate pair in column={name!r}", "rename it"


def _rows_again(rows: Any) -> Iterator[Batch]:
    yield from ((chunk.columns, chunk.n) for chunk in rows.chunks())


def _rows_of_dask(part: Any) -> Iterator[Batch]:
    with worked_out():
        frame = part.compute()
    yield from batches_of_pandas(frame)


def _map_on_dask(frame: Any, apply: Callable[[Iterator[Batch]], Any]) -> list[Any]:
    from dask.base import compute
    from dask.delayed import delayed

    work = delayed(_apply_to_pandas)
    with worked_out():
        return list(compute(*(work(apply, part) for part in frame.to_delayed())))


def _apply_to_pandas(apply: Callable[[Iterator[Batch]], Any], frame: pd.DataFrame) -> Any:
    return apply(batches_of_pandas(frame))


def _map_on_spark(frame: Any, apply: Callable[[Iterator[Batch]], Any]) -> list[Any]:
    """The result for each partition of a Spark DataFrame, whose rows stay where they are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = apply((dict(zip(b.schema.names, b.columns, strict=True)), b.num_rows) for b in batches)
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})

    with worked_out():
        rows = frame.mapInArrow(run, "result binary").collect()
    return [pickle.loads(row.result) for row in rows]  # noqa: S301 - our own


def _rows_of_spark(frame: Any) -> Iterator[Batch]:
    """The rows of one partition after the other."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_pydict({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    with worked_out():
        for row in frame.mapInArrow(write, "rows binary").toLocalIterator():
            yield from batches_of_arrow(pa.ipc.open_stream(bytes(row.rows)).read_all())


def _to_spark(frame: Any) -> Back:
    session = frame.sparkSession

    def convert(rows: pd.DataFrame) -> Any:
        return session.createDataFrame(rows)

    return convert
