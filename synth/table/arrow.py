"""Arrow arrays as pandas holds them, without loss: whole numbers stay whole, and days become times."""

import datetime as dt
import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

AGES = (np.datetime64("-99999-01-01"), np.datetime64("99999-12-31"))
"""Times beyond these are brought to them: they lie outside any bounds, which reach from the year 1 to 9999."""
_DAY = 24 * 3600 * 10**6
_START = dt.datetime(1970, 1, 1)
_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d+), ?(-?\d+)\)\[pyarrow\]", re.ASCII)


def from_arrow(column: Any) -> pd.Series:
    """A column of Arrow as pandas, without loss: whole numbers stay whole and days become times."""
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _days(column) if pa.types.is_date(kind) else _clocks(column)
    if pa.types.is_null(kind):
        return pd.Series([None] * len(column), dtype=object)
    if column.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        name = "boolean" if pa.types.is_boolean(kind) else str(kind).replace("int", "Int").replace("uI", "UI")
        dtype: Any = pd.api.types.pandas_dtype(name)
        return pd.Series(dtype.__from_arrow__(column))
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return from_arrow(column.cast(kind.value_type))
    try:
        series: pd.Series = column.to_pandas()
    except (pa.ArrowException, UnicodeDecodeError):
        return _decoded(column)
    return series


def as_frame_column(column: Any) -> pd.Series:
    """A column of Arrow as a frame keeps it: as `from_arrow`, but for decimals, whose type is that of Arrow."""
    if pa.types.is_decimal(column.type):
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    return from_arrow(column)


def dtype_of(text: str) -> Any:
    """The dtype of a name, also of decimals, which pandas writes so and does not read.

    >>> dtype_of("decimal128(10, 2)[pyarrow]").pyarrow_dtype.scale
    2
    """
    digits = _DECIMAL.fullmatch(text)
    if digits is None:
        return pd.api.types.pandas_dtype(text)
    try:
        return pd.ArrowDtype(getattr(pa, digits[1])(int(digits[2]), int(digits[3])))
    except (AttributeError, ValueError):  # more digits than there are, or than this version of Arrow has
        raise TypeError(text) from None


def _decoded(column: Any) -> pd.Series:
    """Texts that are not all UTF-8: what is not becomes half surrogate pairs, which no reader takes for text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    wide = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    texts = [None if cell is None else cell.decode(errors="surrogateescape") for cell in column.cast(wide).to_pylist()]
    return pd.Series(texts, dtype=object)


def _days(column: Any) -> pd.Series:
    """Days of Arrow as times; those that microseconds do not reach are brought to the ages."""
    unit = "D" if pa.types.is_date32(column.type) else "ms"
    counts = column.cast(pa.int32() if unit == "D" else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    first, last = (age.astype(f"datetime64[{unit}]").astype(np.int64) for age in AGES)
    stamps = np.clip(counts, first, last).astype(f"datetime64[{unit}]").astype("datetime64[us]")
    stamps[column.is_null().to_numpy()] = np.datetime64("NaT", "us")
    return pd.Series(stamps)


def _clocks(column: Any) -> pd.Series:
    """Times of day of Arrow as Python's, to the microsecond; missing where there is no such time."""
    kind = column.type
    counts = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).to_pylist()
    steps = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    micros = [None if count is None else count * 10**6 // steps for count in counts]
    clocks = [None if m is None or not 0 <= m < _DAY else _START + dt.timedelta(microseconds=m) for m in micros]
    return pd.Series([None if clock is None else clock.time() for clock in clocks], dtype=object)


def is_text(kind: Any) -> bool:
    """True if an Arrow type holds texts, one by one."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def as_objects(cells: Any) -> np.ndarray:
    """Python objects as a NumPy array of objects."""
    return np.array([*cells, None], dtype=object)[:-1]  # without the last, numpy might make an array of texts


def as_one(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
