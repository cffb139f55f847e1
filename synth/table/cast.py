"""Cells of a table cast to the declared kind, one by one: each distinct text of a chunk is looked at once.

Plain texts are read by Arrow, odd ones by the strict reader, so that both mean the same and no cell depends on its
neighbors.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from synth.schema.kinds import DateColumn, DatetimeColumn, IntegerColumn, RealColumn, WeightColumn
from synth.table import decode, strict_decode
from synth.table.cells import BIT, INT64_MAX, Fault, RawColumn, from_arrow

TIMES = (DateColumn, DatetimeColumn)
_DAY = "[12][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = "(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?)?"
# Narrower than what Arrow takes: its cast also reads 0x10, nan and inf, and its strptime makes March of 31 February.
_PLAIN_WHOLE = "^-?[0-9]{1,18}$"
_PLAIN_REAL = "^-?(?:[0-9]{1,17}(?:[.][0-9]{0,17})?|[.][0-9]{1,17})(?:[eE][+-]?[0-9]{1,2})?$"


def _plain_form(column: Any) -> tuple[str, pa.DataType] | None:
    """The texts that Arrow may read, and as what; `None`: the product's reader reads all distinct texts."""
    if column.has_own_texts:
        return None
    if isinstance(column, IntegerColumn) or decode.holds_whole_numbers(column):
        return _PLAIN_WHOLE, pa.int64()
    if isinstance(column, RealColumn | WeightColumn):
        return _PLAIN_REAL, pa.float64()
    if isinstance(column, DateColumn) and column.format == "%Y-%m-%d":
        return f"^{_DAY}$", pa.timestamp("us")
    if isinstance(column, DatetimeColumn) and column.format is None and column.timezone is None:
        return f"^{_DAY}{_CLOCK}$", pa.timestamp("us")
    return None


def cast(cells: Any, column: Any, missing_texts: Iterable[str] = ("",)) -> tuple[pa.Array, np.ndarray]:
    """The cells in canonical form (clamped), and for each the bits of its faults (`cells.BIT`), 0 where it fits.

    Args:
        cells: an Arrow array of any type, or Python objects as a NumPy array.
        column: declared.
        missing_texts: texts that stand for a missing value.
    """
    missing_texts = frozenset({"", *missing_texts})
    if isinstance(cells, np.ndarray):
        numbers: dict[Any, int] = {}  # 1, 1.0 and True are equal and not the same cell
        codes = [-1 if _absent(c) else numbers.setdefault((type(c), c), len(numbers)) for c in cells]
        values, faults = _cast_objects([c for _, c in numbers], column, missing_texts)
        return _taken(values, faults, pa.array(codes, pa.int32()), np.array(codes) < 0)
    kind = cells.type
    typed = _typed(cells, column)
    if typed is not None:
        return _read(typed, column)
    if pa.types.is_timestamp(kind):  # Arrow's to_pylist overflows on times of far years
        return cast(strict_decode._objects(from_arrow(cells)), column, missing_texts)
    coded = cells if pa.types.is_dictionary(kind) else cells.dictionary_encode()
    texts, codes = coded.dictionary, coded.indices
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type) or pa.types.is_string_view(texts.type):
        values, faults = _cast_texts(texts.cast(pa.string()), column, missing_texts)
    else:
        values, faults = _cast_objects(texts.to_pylist(), column, missing_texts)
    return _taken(values, faults, codes, codes.is_null().to_numpy(zero_copy_only=False))


def _absent(cell: Any) -> bool:
    return cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and cell != cell)


def _taken(values: pa.Array, faults: np.ndarray, codes: pa.Array, absent: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Of distinct cells, those of the rows; texts stay a dictionary."""
    codes = pc.if_else(pa.array(absent), pa.scalar(None, codes.type), codes)
    where = codes.fill_null(0).to_numpy(zero_copy_only=False)
    flags = np.where(absent, 0, faults[where]) if len(faults) else np.zeros(len(where), dtype=np.uint16)
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), values), flags
    return values.take(codes), flags


def _typed(cells: pa.Array, column: Any) -> RawColumn | None:
    """A typed array that is read as its cells would be one by one; `None`: read its distinct values."""
    kind, numeric = cells.type, isinstance(column, IntegerColumn | RealColumn | WeightColumn)
    numeric = numeric or decode.holds_whole_numbers(column) or column.kind == "boolean"
    missing = cells.is_null().to_numpy(zero_copy_only=False)
    if numeric and pa.types.is_boolean(kind):
        return RawColumn("boolean", cells.fill_null(False).to_numpy(zero_copy_only=False), missing)
    if numeric and pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(cells).as_py() or 0) <= INT64_MAX):
        return RawColumn("integer", cells.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), missing)
    if numeric and pa.types.is_floating(kind):
        reals = cells.to_numpy(zero_copy_only=False).astype(np.float64)
        return RawColumn("real", reals, np.isnan(reals), digits=15 if kind.bit_width >= 64 else 6)
    zone = getattr(column, "timezone", None)
    if isinstance(column, TIMES) and zone is None and (pa.types.is_date(kind) or kind in map(pa.timestamp, UNITS)):
        stamps = from_arrow(cells).to_numpy()  # days beyond the years of Python are brought to the ages
        return strict_decode._within_the_calendar(RawColumn("time", stamps, np.isnat(stamps)))
    if isinstance(column, DatetimeColumn) and zone not in (None, "mixed") and getattr(kind, "tz", None):
        stamps = cells.cast(pa.timestamp(kind.unit)).to_numpy(zero_copy_only=False)
        return strict_decode._within_the_calendar(RawColumn("time", stamps, np.isnat(stamps), zone=kind.tz))
    return None


UNITS = ("s", "ms", "us", "ns")


def _cast_texts(texts: pa.Array, column: Any, missing_texts: frozenset[str]) -> tuple[pa.Array, np.ndarray]:
    """Distinct texts: plain ones by Arrow, the others by the product's reader, one by one."""
    absent = pc.is_in(texts, pa.array(sorted(missing_texts))).to_numpy(zero_copy_only=False)
    absent |= pc.match_substring(texts, "\0").fill_null(True).to_numpy(zero_copy_only=False)
    form = _plain_form(column)
    plain = np.zeros(len(texts), dtype=bool)
    if form is not None:
        plain = pc.match_substring_regex(texts, form[0]).fill_null(False).to_numpy(zero_copy_only=False) & ~absent
    odd = as_objects(texts.filter(pa.array(~plain)).to_pylist())
    values, faults = _read(RawColumn("text", odd, absent[~plain]), column)
    if not plain.any():
        return values, faults
    quick, more = _read(_typed(pc.cast(texts.filter(pa.array(plain)), form[1]), column), column)
    order = np.empty(len(texts), dtype=np.int64)
    order[plain], order[~plain] = np.arange(len(quick)), len(quick) + np.arange(len(values))
    both = pa.concat_arrays([quick, values.cast(quick.type)])
    return both.take(pa.array(order)), np.concatenate([more, faults])[order]


# An object that no table holds, by the kind of its column.
_FOREIGN = {
    "integer": Fault.NUMBER, "real": Fault.NUMBER, "weight": Fault.NUMBER, "boolean": Fault.BOOLEAN,
    "date": Fault.TIME, "datetime": Fault.TIME, "categorical": Fault.CATEGORY,
}  # fmt: skip


def _cast_objects(objects: list[Any], column: Any, missing_texts: frozenset[str]) -> tuple[pa.Array, np.ndarray]:
    """Distinct Python objects, each as if it were alone; what no table holds is at fault."""
    if isinstance(column, TIMES):
        made: Any = [None if o is None else strict_decode._time(o, missing_texts) for o in objects]
    else:
        made = [None if o is None else strict_decode._text(o, column, missing_texts) for o in objects]
    cells = as_objects(made)
    missing = np.array([m is None for m in made], dtype=bool)
    values, faults = _read(RawColumn("mixed" if isinstance(column, TIMES) else "text", cells, missing), column)
    known = np.array([o is None or (isinstance(o, str) and o in missing_texts) for o in objects], dtype=bool)
    return values, faults | np.where(missing & ~known, BIT[_FOREIGN.get(column.kind, Fault.TEXT)], 0)


def _read(given: RawColumn, column: Any) -> tuple[pa.Array, np.ndarray]:
    done = decode.read(given, column, clamp=True)
    faults = np.zeros(len(given.cells), dtype=np.uint16)
    for fault, flags in done.faults.items():
        faults |= np.where(flags & ~given.missing, BIT[fault], 0)
    values = done.values
    if isinstance(values, np.ndarray) and values.dtype == object:
        texts = [None if v is None else v if isinstance(v, str) else v.isoformat() for v in values]
        return pa.array(texts, pa.string()), faults
    made = pa.array(values if hasattr(values, "__arrow_array__") else pd.Series(values), from_pandas=True)
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made, faults


def as_objects(cells: Iterable[Any]) -> np.ndarray:
    """Python objects as a NumPy array of objects."""
    return np.array([*cells, None], dtype=object)[:-1]  # without the last, numpy might make an array of texts


def as_one(array: Any) -> Any:
    """A chunked array in one piece."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
