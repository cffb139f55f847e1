"""Tables in memory: frames of several libraries as raw batches, and rows given back as the frame that came in."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.errors import TableError, UnderstudyError, raise_alone
from synth.table.arrow import as_frame_column, as_one
from synth.table.text_files import ROWS, Batch

Back = Callable[[pd.DataFrame], Any]


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


def batches_of_arrow(table: Any) -> Iterator[Batch]:
    """The rows of an Arrow table or data set, some at a time."""
    with worked_out():
        for batch in table.to_batches(max_chunksize=ROWS) if isinstance(table, pa.Table) else table.to_batches():
            for start in range(0, batch.num_rows, ROWS):
                rows = batch.slice(start, ROWS)
                yield dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows


@contextmanager
def worked_out() -> Iterator[None]:
    """A block in which a library works out a frame: whatever goes wrong there may quote a cell, and is not told."""
    try:
        yield
        return
    except (UnderstudyError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - of any library, or of the steps that a user gave it
        kind = type(error).__name__
    raise_alone(
        TableError(
            f"a table that is not worked out yet cannot be: its own library refused it ({kind}), for a reason that may "
            "hold a cell and is not shown; collect or compute it first, and read what the library says"
        )
    )


def in_numpy(frame: pd.DataFrame) -> pd.DataFrame:
    """A pandas frame without Arrow's dtypes, but for decimals, of which NumPy has none."""
    columns = {n: frame[n] for n in frame.columns if isinstance(frame[n].dtype, pd.ArrowDtype)}
    changed = {n: as_frame_column(c.array.__arrow_array__()).set_axis(c.index) for n, c in columns.items()}
    return frame.assign(**changed) if changed else frame


def back_to_pandas(frame: pd.DataFrame) -> Back:
    """Rows with Arrow's dtypes where a frame has them."""
    kinds = {name: dtype for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype)}
    return partial(_in_arrow, kinds) if kinds else as_they_are


def _in_arrow(kinds: Mapping[Any, Any], rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.copy(deep=False)
    for name in kinds.keys() & set(rows.columns):
        array = _as_kind(pa.array(rows[name], from_pandas=True), kinds[name].pyarrow_dtype)
        rows[name] = pd.Series(pd.arrays.ArrowExtensionArray(array), index=rows.index)
    return rows


def _as_kind(array: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """An array in a type where it is cast without loss, else as it is."""
    try:
        return pa.chunked_array([as_one(array).cast(kind)])
    except pa.ArrowException:
        return pa.chunked_array([as_one(array)])


def as_they_are(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


def to_arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


_MAKERS = {"polars": "from_arrow", "duckdb": "from_arrow", "ibis": "memtable"}
"""By library, its function that makes a frame of an Arrow table."""


def back_to(source: Any) -> Back:
    """What makes pandas rows the kind of frame that a source is; an Arrow table where it is none."""
    library = type(source).__module__.split(".")[0].removeprefix("_")
    return partial(_make, library) if library in _MAKERS else to_arrow


def _make(library: str, rows: pd.DataFrame) -> Any:
    return getattr(importlib.import_module(library), _MAKERS[library])(to_arrow(rows))


def as_arrow(source: Any) -> Any:
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
