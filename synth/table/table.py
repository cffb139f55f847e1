"""A table: something that gives rows in chunks, as often as asked, whatever it comes from."""

import datetime as dt
import importlib
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.errors import TableError, TableNote, UnderstudyError, raise_alone
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.databases import open_database, parse_address
from synth.table.files import Part, open_files
from synth.table.text_files import IN_PARTS, ROWS, Batch, SizeLimits, in_batches
from synth.table.typed_cells import as_frame_column, as_objects, as_one, cast, fitting, pieces_of
from synth.validation import is_plain, lacks_scheme

Back = Callable[[pd.DataFrame], Any]
Result = TypeVar("Result")


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
        return self.take(np.flatnonzero(kept))

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
        return np.asarray(np.append(distinct, attribute.n_cells - 1)[codes_of(array)])

    def codes(self, discretizer: Any) -> np.ndarray:
        return np.column_stack([a.group[self.cells(a)].astype(np.int16) for a in discretizer.attributes])


def codes_of(array: pa.DictionaryArray) -> np.ndarray:
    """The number of each cell's value in the dictionary, -1 where it is missing."""
    return np.asarray(array.indices.fill_null(-1).to_numpy(zero_copy_only=False))


def as_series(array: pa.Array, column: Column) -> pd.Series:
    """A canonical column as pandas holds it."""
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        coded = pa.types.is_dictionary(kind)
        objects = np.append((array.dictionary if coded else array).to_numpy(zero_copy_only=False), [None])
        if column.is_time:  # each with its own offset
            objects = np.array([None if t is None else dt.datetime.fromisoformat(t) for t in objects], dtype=object)
        return pd.Series(objects[codes_of(array) if coded else np.arange(len(array))], dtype=object)
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
    n, columns, faults = sum(chunk.n for chunk in chunks), {}, {}
    for name in schema.kept:
        columns[name] = as_one(pa.chunked_array([chunk.columns[name] for chunk in chunks]))
        bits = [chunk.faults[name] for chunk in chunks]
        faults[name] = np.concatenate(bits) if any(each.any() for each in bits) else fitting(n)
    return Chunk(columns, faults, n)


def as_they_are(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


@dataclass(frozen=True, eq=False)
class Table:
    """*Sensitive*. Rows that are read in chunks, as often as asked.
    `back`: makes the kind of frame that came in of pandas rows. `distributed`: maps a function where the rows are.
    """

    names: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)
    back: Back = field(default=as_they_are, repr=False)
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    distributed: Callable[[Callable[[Iterator[Batch]], Any]], list[Any]] | None = field(default=None, repr=False)
    whole: pd.DataFrame | None = field(default=None, repr=False)
    cluster: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Any, *, limits: SizeLimits = IN_PARTS, named: bool = True) -> Self:
        """The table that a source is: a frame of any library, a dict of columns, a path, an address of a database.
        `named`: refuse columns whose names do not tell which is which.
        """
        if isinstance(source, cls):
            return source
        notes: tuple[str, ...] = ()
        if isinstance(source, str | Path):
            files = _open_path(str(source), limits)
            table, notes = cls(files.names, files.parts, kinds=files.kinds), files.notes
        else:
            table = cls._of_frame(source)
        if not named:
            return table
        for note in notes:
            warnings.warn(TableNote(note), stacklevel=2)
        for rule, remedy in names_at_fault(table.names):
            where = f" (path={str(source)!r})" if isinstance(source, str | Path) and "://" not in str(source) else ""
            raise TableError(f"the table {rule}; {remedy}{where}")
        if not table.names:
            raise TableError("a table needs at least one column, and this one has no columns; export it anew")
        return table

    @classmethod
    def _of_frame(cls, source: Any) -> Self:
        if isinstance(source, Mapping):
            try:
                source = pd.DataFrame(dict(source))
            except (ValueError, TypeError):
                reason = "a dict of columns has a list or an array of values for each, all of one length; correct it"
                raise TableError(reason) from None
        if isinstance(source, pd.DataFrame):
            part = partial(batches_of_pandas, source)
            return cls(tuple(source.columns), (part,), _back_to_pandas(source), whole=source)
        if hasattr(type(source), "frames") and hasattr(type(source), "chunks"):  # rows that were cast before
            return cls(tuple(source.schema.kept), (partial(_rows_again, source),))
        library = type(source).__module__.split(".")[0].removeprefix("_")
        if library == "pyspark":
            back, distributed = source.sparkSession.createDataFrame, partial(_map_on_spark, source)
            part = partial(_rows_of_spark, source)
            return cls(tuple(source.columns), (part,), back, distributed=distributed, cluster=source)
        if library in ("dask", "dask_expr") and hasattr(source, "to_delayed"):
            parts = tuple(partial(_rows_of_dask, part) for part in source.to_delayed())
            return cls(tuple(source.columns), parts, distributed=partial(_map_on_dask, source), cluster=source)
        rows = _as_arrow(source)
        back = partial(_make, library) if library in _MAKERS else _to_arrow
        return cls(tuple(rows.schema.names), (partial(_batches_of_arrow, rows),), back)

    def chunks(self, schema: Schema, *, clamp: bool = True) -> Iterator[Chunk]:
        """The rows in the canonical form of a schema, some at a time, in one order at every call."""
        for part in self.parts:
            yield from (Chunk.of(columns, n, schema, clamp=clamp) for columns, n in part())

    def chunk(self, schema: Schema, *, clamp: bool = True) -> Chunk:
        """All rows at once."""
        return concat_chunks(list(self.chunks(schema, clamp=clamp)), schema)

    def frame(self) -> pd.DataFrame:
        if self.whole is not None:  # without Arrow's dtypes, but for decimals, of which NumPy has none
            whole = self.whole
            columns = {n: whole[n] for n in whole.columns if isinstance(whole[n].dtype, pd.ArrowDtype)}
            changed = {n: as_frame_column(c.array.__arrow_array__()).set_axis(c.index) for n, c in columns.items()}
            return whole.assign(**changed) if changed else whole
        batches = [batch for part in self.parts for batch in part()]
        joined = {
            i: _joined([b[name] for b, _ in batches if name in b], self.kinds.get(name))
            for i, name in enumerate(self.names)
        }
        frame = pd.DataFrame(joined, index=pd.RangeIndex(sum(n for _, n in batches)), copy=False)
        frame.columns = pd.Index(self.names, dtype=object)
        return frame

    def map(self, function: Callable[[Iterator[Chunk]], Result], schema: Schema) -> list[Result]:
        """The function's result for each part of the rows, worked out where these are: pickled if that is elsewhere."""
        apply = partial(_apply, function, schema)
        return [apply(part()) for part in self.parts] if self.distributed is None else self.distributed(apply)

    def on(self, executor: Any) -> Self:
        """The same table, whose parts a pool of `concurrent.futures`, or Dask's client, reads and maps."""
        return replace(self, distributed=partial(_map_on_executor, executor, self.parts))


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


def _open_path(text: str, limits: SizeLimits) -> Any:
    if not text.strip():
        raise TableError("a table is named by a path or an address, and this one has no name; give it one")
    if "://" in text:
        return open_database(parse_address(text))
    if lacks_scheme(text) and not Path(text).exists():
        raise TableError("the address of the table has no scheme; write it like postgresql://host/database#table")
    return open_files(Path(text), limits)


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


def batches_of_pandas(frame: pd.DataFrame) -> Iterator[Batch]:
    """The rows of a frame, some at a time; objects of several types go cell by cell."""
    for start in range(0, max(len(frame), 1), ROWS):
        rows = frame.iloc[start : start + ROWS]
        yield {name: as_raw(rows[name]) for name in frame.columns}, len(rows)


def as_raw(series: pd.Series) -> Any:
    """A column as an Arrow array, or as objects where Arrow holds no such column."""
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.astype(series.dtype.subtype)
    if isinstance(series.dtype, pd.CategoricalDtype):
        levels, codes = as_raw(pd.Series(series.cat.categories)), series.cat.codes.to_numpy()
        if isinstance(levels, np.ndarray):
            return np.append(levels, [None])[codes]
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), levels)
    if isinstance(series.dtype, pd.ArrowDtype):
        return as_one(series.array.__arrow_array__())
    if series.dtype == object and pd.api.types.infer_dtype(series, skipna=True) not in ("string", "empty"):
        return series.to_numpy()
    try:
        array = as_one(pa.array(series, from_pandas=True))
    except (pa.ArrowException, UnicodeEncodeError, TypeError):  # half a surrogate pair, or a dtype that Arrow has not
        return series.to_numpy(dtype=object)
    return series.to_numpy(dtype=object) if isinstance(array, pa.ExtensionArray) else array


def _back_to_pandas(frame: pd.DataFrame) -> Back:
    """Rows with Arrow's dtypes where a frame has them."""
    kinds = {name: dtype for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype)}
    return partial(_in_arrow, kinds) if kinds else as_they_are


def _in_arrow(kinds: Mapping[Any, Any], rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.copy(deep=False)
    for name in kinds.keys() & set(rows.columns):
        array = as_one(pa.array(rows[name], from_pandas=True))
        with suppress(pa.ArrowException):  # not without loss
            array = array.cast(kinds[name].pyarrow_dtype)
        rows[name] = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])), index=rows.index)
    return rows


_MAKERS = {"polars": "from_arrow", "duckdb": "from_arrow", "ibis": "memtable"}
"""By library, its function that makes a frame of an Arrow table."""


def _make(library: str, rows: pd.DataFrame) -> Any:
    return getattr(importlib.import_module(library), _MAKERS[library])(_to_arrow(rows))


def _to_arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


def _as_arrow(source: Any) -> Any:
    """An Arrow table or data set of anything that gives one; a reader, which is read once, is held in memory."""
    kind = type(source)  # never by attributes: those of some frames are their columns
    if hasattr(kind, "to_batches") and hasattr(kind, "schema"):  # a table, a data set or a scanner
        return source
    with worked_out():
        try:
            if isinstance(source, pa.RecordBatch):
                return pa.Table.from_batches([source])
            if kind.__module__.split(".")[0] == "ibis":
                return source.to_pyarrow()
            if hasattr(kind, "collect") and hasattr(kind, "collect_schema"):  # of polars, not yet worked out
                source = source.collect()
            if isinstance(source, pa.RecordBatchReader) or hasattr(kind, "__arrow_c_stream__"):
                return pa.table(source)
        except (pa.ArrowException, TypeError, ValueError):
            raise TableError(
                f"a table must hold columns that Arrow can: type={kind.__name__!r} gives none; convert it first"
            ) from None
    raise TableError(
        "a table must be a frame of pandas, polars, Arrow, DuckDB, Ibis, Spark or Dask, a dict of columns, the path of "
        f"a file or a folder, or the address of a database, not type={type(source).__name__!r}; convert it first"
    )


def _batches_of_arrow(table: Any) -> Iterator[Batch]:
    with worked_out():
        yield from in_batches(table.to_batches())


@contextmanager
def worked_out() -> Iterator[None]:
    """A block in which a library works out a frame: whatever goes wrong there may quote a cell, and is not told."""
    try:
        yield
    except (UnderstudyError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - of any library, or of the steps that a user gave it
        reason = (
            "a table that is not worked out yet cannot be: its own library refused it "
            f"({type(error).__name__}), for a reason that may hold a cell and is not shown; collect or compute it "
            "first, and read what the library says"
        )
        raise_alone(TableError(reason))


def _rows_again(rows: Any) -> Iterator[Batch]:
    yield from ((chunk.columns, chunk.n) for chunk in rows.chunks())


def _apply(function: Callable[[Iterator[Chunk]], Any], schema: Schema, batches: Iterator[Batch]) -> Any:
    return function(Chunk.of(columns, n, schema) for columns, n in batches)


def _map_on_executor(executor: Any, parts: Sequence[Part], apply: Callable[[Iterator[Batch]], Any]) -> list[Any]:
    results = executor.map(partial(_apply_to_part, apply), parts)
    return list(executor.gather(results) if hasattr(executor, "gather") else results)


def _apply_to_part(apply: Callable[[Iterator[Batch]], Any], part: Part) -> Any:
    return apply(part())


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
            yield from _batches_of_arrow(pa.ipc.open_stream(bytes(row.rows)).read_all())
