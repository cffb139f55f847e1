"""Cells cast to the declared kind, strictly: what one stands for depends on it and its column, never on its neighbors.

A private fit reads tables this way. Were a column's form inferred from all its cells, one row could change how every
other row is read, and no noise on counts would hide that. Each distinct text of a chunk is looked at once: plain ones
by Arrow, odd ones by the decoder of the kind, so that both mean the same.
"""

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from synth.schema.kinds import Column
from synth.schema.kinds.base import Part
from synth.table import datetime_codec
from synth.table.decode import BIT, INT64_MAX, Cells, Fault, Faults, decode
from synth.validation import is_plain

AGES = (np.datetime64("-99999-01-01"), np.datetime64("99999-12-31"))
"""Times beyond these are brought to them: they lie outside any bounds, which reach from the year 1 to 9999."""
_DAY_MICROS = 24 * 3600 * 10**6
_START = dt.datetime(1970, 1, 1)
_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d+), ?(-?\d+)\)\[pyarrow\]", re.ASCII)
_DAY = "[12][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = "(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?)?"
# Narrower than what Arrow takes: its cast also reads 0x10, nan and inf, and its strptime makes March of 31 February.
_NONE = "a^"  # no text at all
_PLAIN_WHOLE = "^-?[0-9]{1,18}$"
_PLAIN_REAL = "^-?(?:[0-9]{1,17}(?:[.][0-9]{0,17})?|[.][0-9]{1,17})(?:[eE][+-]?[0-9]{1,2})?$"
_ZONE_PACKAGES = frozenset({"datetime", "zoneinfo", "pytz", "dateutil", "pandas"})
_LARGEST_EXPONENT = 400  # decimals beyond ten to this are out of any bounds, and slow to write out


def cast(
    cells: Any, column: Column, missing_texts: Iterable[str] = (), *, clamp: bool = True
) -> tuple[pa.Array, np.ndarray]:
    """The cells in canonical form, and the bits of the faults of each, shape (n,), uint16. *Sensitive*.
    `cells`: an Arrow array of any type, or Python objects as a NumPy array.
    `clamp`: bring what does not fit to the nearest bound, and an unlisted category of a measured list to missing.
    """
    values, bits = _cast(cells, column, frozenset({"", *missing_texts}), clamp)
    if not column.missing and (absent := is_null(values)).any():
        # Missing where no cell may be is a fault, too, unless something else is wrong with the cell.
        bits = bits | _flagged(absent & (bits == 0), BIT[Fault.MISSING])
    return values, bits


def _cast(cells: Any, column: Column, missing_texts: frozenset[str], clamp: bool) -> tuple[pa.Array, np.ndarray]:
    if isinstance(cells, np.ndarray):
        different, codes = unlike(cells)
        return _take(*_cast_objects(different, column, missing_texts, clamp), codes)
    if column.reads_digits and (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
        cells = _digits(cells, column)
    if (typed := _typed(cells, column)) is not None:
        values, bits = _decode(typed, column, clamp)
        if typed.form == "time":  # missing, and yet there: beyond the calendar
            bits = bits | _flagged(typed.missing & _numpy(cells.is_valid()), BIT[Fault.BOUNDS])
        return values, bits
    if (coded := _coded_texts(cells)) is not None:
        values, bits = _cast_texts(coded.dictionary.cast(pa.string()), column, missing_texts, clamp)
        return _take(values, bits, coded.indices)
    return _cast(to_objects(cells), column, missing_texts, clamp)


def _flagged(flags: np.ndarray, bit: np.uint16) -> np.ndarray:
    return np.where(flags, bit, np.uint16(0))


def _numpy(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def pieces_of(cells: Any, part: Part, missing_texts: Iterable[str] = ()) -> Any:
    """The values of one part of cells that hold several; cells without that form stay as they are."""
    absent = {"", *missing_texts}
    if isinstance(cells, np.ndarray):
        known = {cell: cell if cell in absent else part.read(cell) for cell in {c for c in cells if isinstance(c, str)}}
        return as_objects([known[cell] if isinstance(cell, str) else cell for cell in cells])
    if (coded := _coded_texts(cells)) is None:
        return cells
    read = [text if text is None or text in absent else part.read(text) for text in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(read, pa.string()))


def _digits(cells: pa.Array, column: Column) -> pa.Array:
    if pa.types.is_floating(cells.type):
        cells = pa.array(_numpy(cells).astype(np.float64), from_pandas=True)  # NaN is missing
        whole = cells.cast(pa.int64(), safe=False).cast(pa.string())
        cells = pc.if_else(pc.equal(pc.round(cells), cells), whole, cells.cast(pa.string()))
    return pc.binary_join_element_wise(cells.cast(pa.string()), _tail(column), "")


def _tail(column: Column) -> str:
    return ".0" if column.format.endswith(".0") else ""


def is_null(values: pa.Array) -> np.ndarray:
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        of_values = np.append(_numpy(values.dictionary.is_null()), True)
        return np.asarray(of_values[_numpy(values.indices.fill_null(-1))])
    return _numpy(pc.is_null(values))


def _take(values: pa.Array, bits: np.ndarray, codes: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Of distinct cells, those of the rows; texts stay a dictionary."""
    bits = np.append(bits, np.uint16(0))[_numpy(codes.fill_null(len(bits)))] if bits.any() else fitting(len(codes))
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(codes, values), bits
    return values.take(codes), bits


def fitting(n: int) -> np.ndarray:
    """Bits of cells without a fault, which take no memory; shape (n,), read only."""
    return np.broadcast_to(np.uint16(0), (n,))


def _coded_texts(cells: pa.Array) -> Any:
    """Texts as a dictionary with codes of 32 bits; `None` for all else, such as texts that are not UTF-8."""
    coded = pa.types.is_dictionary(cells.type)
    if not is_text(cells.type.value_type if coded else cells.type):
        return None
    try:
        coded_cells = cells if coded else cells.dictionary_encode()
        coded_cells.dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return pa.DictionaryArray.from_arrays(coded_cells.indices.cast(pa.int32()), coded_cells.dictionary)


def to_objects(cells: pa.Array) -> np.ndarray:
    """Cells of Arrow as Python objects; pandas and Arrow may crash on times of far years."""
    kind = cells.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return as_objects(cells.to_pylist()) if pa.types.is_nested(kind) else from_arrow(cells).to_numpy(dtype=object)
    times = _stamps(cells)
    stamps = np.where(times.missing, np.datetime64("NaT", "us"), times.raw).astype("datetime64[us]").tolist()
    if times.zone is not None:
        zone = pd.DatetimeTZDtype("us", times.zone).tz
        stamps = [None if stamp is None else datetime_codec.in_zone(stamp, zone) for stamp in stamps]
    return as_objects(stamps)


def _stamps(cells: pa.Array) -> Cells:
    """Times of Arrow; those (of UTC, where there is a zone) beyond the years of Python's datetimes are missing."""
    if pa.types.is_date(cells.type):
        values, zone = from_arrow(cells).to_numpy(), None
    else:
        unit, zone = cells.type.unit, cells.type.tz
        values = _numpy(cells.cast(pa.int64()).fill_null(0)).astype(f"datetime64[{unit}]")
    missing = _numpy(cells.is_null())
    missing = missing | np.isnat(values) | ~_is_in_calendar(values.astype("datetime64[Y]").astype(np.int64) + 1970)
    if np.datetime_data(values.dtype)[0] != "ns":  # coarser units reach further than microseconds do
        first, last = (age.astype(values.dtype) for age in AGES)
        values = np.clip(np.where(missing, first, values), first, last)
    return Cells("time", values, missing, zone=zone)


def _typed(cells: pa.Array, column: Column) -> Cells | None:
    """A typed array that is read as its cells would be one by one; `None`: read its distinct values."""
    kind, zone = cells.type, column.zone
    if is_number(column) or column.is_boolean:
        if column.is_span and (pa.types.is_duration(kind) or pa.types.is_time(kind)):
            micros = cells.cast(pa.time64("us") if pa.types.is_time(kind) else pa.duration("us"), safe=False)
            counts = _numpy(micros.cast(pa.int64()).fill_null(0)) // column.micros
            return Cells("integer", counts, _numpy(cells.is_null()))
        return None if pa.types.is_temporal(kind) else typed_cells(cells)
    if column.is_time and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        return typed_cells(cells) if zone != "mixed" and zoned is (zone is not None) else None
    return None


def typed_cells(cells: pa.Array) -> Cells | None:
    """An array of numbers, truth values or times as it is; `None` of any other."""
    kind, missing = cells.type, _numpy(cells.is_null())
    if pa.types.is_boolean(kind):
        return Cells("boolean", _numpy(cells.fill_null(False)), missing)
    if pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(cells).as_py() or 0) <= INT64_MAX):
        return Cells("integer", _numpy(cells.fill_null(0)).astype(np.int64), missing)
    if pa.types.is_floating(kind):
        reals = _numpy(cells).astype(np.float64)
        return Cells("real", reals, missing | np.isnan(reals), digits=15 if kind.bit_width >= 64 else 6)
    return _stamps(cells) if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else None


def is_number(column: Column) -> bool:
    return column.is_number or column.holds_whole_numbers


def _plain_form(column: Column) -> tuple[str, pa.DataType]:
    """The texts that Arrow may read, and as what; all others are decoded."""
    if column.has_own_texts:
        return _NONE, pa.string()
    if column.is_whole or column.holds_whole_numbers:
        return _PLAIN_WHOLE, pa.int64()
    if column.is_number:
        return _PLAIN_REAL, pa.float64()
    if column.is_date and column.format == "%Y-%m-%d":
        return f"^{_DAY}$", pa.timestamp("us")
    if column.is_time and column.format is None and column.zone is None:
        return f"^{_DAY}{_CLOCK}$", pa.timestamp("us")
    return _NONE, pa.string()


def _cast_texts(
    texts: pa.Array, column: Column, missing_texts: frozenset[str], clamp: bool
) -> tuple[pa.Array, np.ndarray]:
    """Distinct texts: plain ones by Arrow, the others by the decoder, one by one."""
    absent = _numpy(pc.is_in(texts, pa.array(sorted(missing_texts), pa.string()))) | _numpy(texts.is_null())
    pattern, kind = _plain_form(column)
    plain = _numpy(pc.match_substring_regex(texts, pattern).fill_null(False)) & ~absent
    odd, absent = as_objects(texts.filter(pa.array(~plain)).to_pylist()), absent[~plain]
    # Texts with a NUL or half a surrogate pair are missing, and at fault: to pandas what follows a NUL is nothing.
    wrong = np.array([not a and not is_plain(text) for text, a in zip(odd, absent, strict=True)], dtype=bool)
    values, bits = _decode(Cells("text", odd, absent | wrong), column, clamp)
    bits = bits | _flagged(wrong, _unreadable(column))
    if not plain.any():
        return values, bits
    typed: Any = _typed(pc.cast(texts.filter(pa.array(plain)), kind), column)
    plain_values, plain_bits = _decode(typed, column, clamp)
    order = np.empty(len(texts), dtype=np.int64)
    order[plain], order[~plain] = np.arange(len(plain_values)), len(plain_values) + np.arange(len(values))
    both = pa.concat_arrays([plain_values, values.cast(plain_values.type)])
    return both.take(pa.array(order)), np.concatenate([plain_bits, bits])[order]


def _unreadable(column: Column) -> np.uint16:
    """The fault of a cell that no value of the column's kind stands for."""
    if column.is_personal:  # nothing in it is learned, so that none can be at fault
        return np.uint16(0)
    if is_number(column):
        return BIT[Fault.NUMBER]
    if column.is_boolean:
        return BIT[Fault.BOOLEAN]
    return BIT[Fault.TIME if column.is_time else Fault.TEXT]


def _decode(cells: Cells, column: Column, clamp: bool) -> tuple[pa.Array, np.ndarray]:
    values, faults = decode(cells, column, clamp=clamp)
    if isinstance(values, np.ndarray) and values.dtype == object:
        texts = [None if v is None else v if isinstance(v, str) else v.isoformat() for v in values]
        return pa.array(texts, pa.string()), _bits(faults, cells)
    array = pa.array(values if hasattr(values, "__arrow_array__") else pd.Series(values), from_pandas=True)
    return as_one(array), _bits(faults, cells)


def _bits(faults: Faults, cells: Cells) -> np.ndarray:
    flagged = {fault: flags & ~cells.missing for fault, flags in faults.items() if flags.any()}
    if not flagged:
        return fitting(len(cells.raw))
    bits = np.zeros(len(cells.raw), dtype=np.uint16)
    for fault, flags in flagged.items():
        bits[flags] |= BIT[fault]
    return bits


_HASHED = (str, int, float, bool, dt.date)
"""Types of cells that are looked at once where they are equal. Aware times are not: equal ones differ in their zone."""


def unlike(cells: np.ndarray) -> tuple[list[Any], pa.Array]:
    """Objects that may differ, and the number of each row's among them, null where missing."""
    numbers: dict[Any, int] = {}  # 1, 1.0 and True are equal and not the same cell
    different: list[Any] = []
    codes: list[int | None] = []
    for cell in cells:
        if _is_absent(cell):
            codes.append(None)
            continue
        kind = type(cell)
        number = numbers.setdefault((kind, cell) if kind in _HASHED else id(cell), len(different))
        if number == len(different):
            different.append(cell)
        codes.append(number)
    return different, pa.array(codes, pa.int32())


def _is_absent(cell: Any) -> bool:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    if isinstance(cell, float | np.floating):
        return bool(cell != cell)
    return (type(cell) is Decimal and cell.is_nan()) or (
        type(cell) in (np.datetime64, np.timedelta64) and bool(np.isnat(cell))
    )


def _cast_objects(
    cells: Sequence[Any], column: Column, missing_texts: frozenset[str], clamp: bool
) -> tuple[pa.Array, np.ndarray]:
    """Distinct Python objects, each as if it were alone; what no table holds is missing and at fault."""
    absent = np.array([isinstance(cell, str) and str(cell) in missing_texts for cell in cells], dtype=bool)
    read = [None if a else _read(cell, column) for cell, a in zip(cells, absent, strict=True)]
    missing = np.array([value is None for value in read], dtype=bool)
    form: Any = "moments" if column.is_time else "text"
    values, bits = _decode(Cells(form, as_objects(read), missing), column, clamp)
    return values, bits | _flagged(missing & ~absent, _unreadable(column))


def _read(cell: Any, column: Column) -> Any:
    if isinstance(cell, str):
        return _plain_text(cell)
    if column.reads_digits or column.has_own_texts:  # as in a typed column: a text of the number might say another
        number = _number(cell)
        if number is not None:
            return f"{number}{_tail(column)}" if column.is_time else number
    return _moment(cell) if column.is_time else cell_text(cell, column)


def cell_text(cell: Any, column: Column) -> str | None:
    """The content of a cell as text; `None` where it is nothing that a table holds."""
    kind = type(cell)
    if issubclass(kind, str):
        return _plain_text(cell)
    if kind is bool or issubclass(kind, np.bool_):  # in the words of a boolean column, as 1 and 0 where numbers are
        own = column.tokens[int(cell)] if column.is_boolean else int(cell) if is_number(column) else bool(cell)
        return str(own)
    number = _number(cell)
    if column.is_span and number is None:
        return _span(cell)
    if number is None:
        moment = _moment(cell) if column.is_personal else None
        return None if moment is None else str(moment)
    if column.is_boolean:
        return column.tokens[int(number)] if number in (0, 1) else None
    return str(number)


def _span(cell: Any) -> str | None:
    """A time of day or a duration as Python writes it, with all hours."""
    if isinstance(cell, dt.time):
        return cell.replace(tzinfo=None).isoformat()
    if not isinstance(cell, dt.timedelta | np.timedelta64):
        return None
    micros = cell // dt.timedelta(microseconds=1) if isinstance(cell, dt.timedelta) else cell // np.timedelta64(1, "us")
    seconds, rest = divmod(abs(int(micros)), 10**6)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"
    return f"-{text}" if micros < 0 else text


def _plain_text(cell: str) -> str | None:
    text = str.__str__(cell)
    return text if is_plain(text) else None


def _number(cell: Any) -> int | float | None:
    """A number, whole where it is whole, so that 1 and 1.0 say the same; `None` where it is none."""
    kind = type(cell)
    if kind is int or (issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64)):
        whole = int(cell)
        return whole if abs(whole) < 10**40 else None
    if kind is Decimal:
        if not cell.is_finite() or abs(cell.adjusted()) > _LARGEST_EXPONENT:
            return None
        return int(cell) if cell.adjusted() < 20 and cell == cell.to_integral_value() else float(cell)
    if kind is complex or issubclass(kind, np.complexfloating):
        cell = cell.real if cell.imag == 0 else None
        kind = type(cell)
    if kind is not float and not issubclass(kind, np.floating):
        return None
    with np.errstate(over="ignore"):
        real = float(cell)
    return int(real) if math.isfinite(real) and real.is_integer() and abs(real) < 2.0**63 else real


def _moment(cell: Any) -> dt.datetime | None:
    """A day or time as a datetime to the microsecond; `None` for anything else, and for what is beyond the calendar."""
    kind = type(cell)
    if kind is dt.date:
        return dt.datetime.combine(cell, dt.time())
    zone = cell.tzinfo if kind in (dt.datetime, pd.Timestamp) else None
    if zone is not None and type(zone).__module__.split(".")[0] not in _ZONE_PACKAGES:
        return None
    if kind is pd.Timestamp or issubclass(kind, np.datetime64):
        return _of_stamp(cell.to_datetime64() if kind is pd.Timestamp else cell, zone)
    if kind is dt.datetime and zone is None:
        # A typed column of times cannot tell the second of two equal hours.
        return cell.replace(fold=0)  # type: ignore[no-any-return]
    with suppress(OverflowError):
        if kind is dt.datetime and cell.astimezone(dt.UTC):
            return cell  # type: ignore[no-any-return]
    return None


def _of_stamp(stamp: np.datetime64, zone: Any) -> dt.datetime | None:
    """The moment of a time of NumPy, whose year is that of UTC, as a typed column holds it."""
    if np.isnat(stamp) or not _is_in_calendar(stamp.astype("datetime64[Y]").astype(np.int64) + 1970):
        return None
    moment: dt.datetime = stamp.astype("datetime64[us]").item()
    return moment if zone is None else datetime_codec.in_zone(moment, zone)


def _is_in_calendar(years: Any) -> Any:
    return (years >= dt.MINYEAR) & (years <= dt.MAXYEAR)


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
    clocks = [None if m is None or not 0 <= m < _DAY_MICROS else _START + dt.timedelta(microseconds=m) for m in micros]
    return pd.Series([None if clock is None else clock.time() for clock in clocks], dtype=object)


def is_text(kind: Any) -> bool:
    """True if an Arrow type holds texts, one by one."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def as_objects(cells: Any) -> np.ndarray:
    """Python objects as a NumPy array of objects."""
    return np.array([*cells, None], dtype=object)[:-1]  # without the last, numpy might make an array of texts


def as_one(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
