"""Columns reduced to one of a few forms whatever their dtype, for an inference that sees all their cells."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.table.arrow import AGES, from_arrow

Form = Literal["integer", "real", "boolean", "time", "text", "mixed"]

INT64_MAX = 2**63 - 1
EXACT_FLOAT = 2**53  # up to here every whole number is a float64
_FORMS: dict[str, Form] = {
    "integer": "integer",
    "floating": "real",
    "mixed-integer-float": "real",
    "boolean": "boolean",
}


@dataclass(frozen=True)
class RawColumn:
    """Cells of a column in one form."""

    form: Form
    cells: np.ndarray
    missing: np.ndarray
    codes: np.ndarray | None = None
    zone: Any = None
    digits: int = 15

    @property
    def missing_rows(self) -> np.ndarray:
        """Flags of the missing rows, boolean."""
        return self.missing if self.codes is None else np.asarray(np.append(self.missing, True)[self.codes], dtype=bool)


def look(series: pd.Series, missing_texts: frozenset[str] = frozenset({""})) -> RawColumn:
    """The column in one of the forms. *Sensitive*."""
    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(series, missing_texts)
    if isinstance(dtype, pd.ArrowDtype):
        series = from_arrow(series.array.__arrow_array__())
        dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = series.astype(dtype.subtype)
        dtype = series.dtype
    if isinstance(dtype, pd.DatetimeTZDtype) or dtype.kind == "M":
        return _times(series)
    if pd.api.types.is_bool_dtype(dtype):
        missing = series.isna().to_numpy()
        return RawColumn("boolean", series.to_numpy(dtype=bool, na_value=False), missing)
    if dtype.kind in "iu":
        return _integers(series)
    if dtype.kind == "f":
        reals = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return RawColumn("real", reals, np.isnan(reals), digits=15 if dtype.itemsize >= 8 else 6)
    return _objects(series.to_numpy(dtype=object), missing_texts)


def _categorical(series: pd.Series, missing_texts: frozenset[str]) -> RawColumn:
    levels = look(pd.Series(series.cat.categories), missing_texts)
    codes = series.cat.codes.to_numpy().astype(np.int64)
    if levels.codes is not None:
        codes = np.append(levels.codes, -1)[codes]
    return replace(levels, codes=codes)


def _times(series: pd.Series) -> RawColumn:
    zone = series.dt.tz
    naive = series.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else series
    stamps = naive.to_numpy()
    if np.datetime_data(stamps.dtype)[0] != "ns":  # coarser units reach further than microseconds do
        stamps = np.where(np.isnat(stamps), stamps, np.clip(stamps, *(limit.astype(stamps.dtype) for limit in AGES)))
    return RawColumn("time", stamps, np.isnat(stamps), zone=zone)


def _integers(series: pd.Series) -> RawColumn:
    missing = series.isna().to_numpy()
    if series.dtype.kind == "u" and series.dtype.itemsize == 8 and bool((series.dropna() > INT64_MAX).any()):  # type: ignore[union-attr]
        return RawColumn("mixed", series.to_numpy(dtype=object), missing)
    return RawColumn("integer", series.to_numpy(dtype=np.int64, na_value=0), missing)


def _objects(cells: np.ndarray, missing_texts: frozenset[str]) -> RawColumn:
    found = _text_codes(cells)
    if found is None:
        return _uniform(cells, _missing(cells, missing_texts))
    codes, texts = found
    absent = np.fromiter((text in missing_texts for text in texts), dtype=bool, count=len(texts))
    return RawColumn("text", texts, absent, codes=codes)


def _text_codes(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The number of each cell's text, -1 where missing, and the distinct texts; `None` where a cell is neither.

    pandas compares texts as C strings: to it all that follows a NUL is nothing, and one cell would stand for others.

    Args:
        cells: *Sensitive*. Objects of any type, shape (n,).

    Returns:
        Codes, shape (n,), int64, and texts in the order they were met, as objects.
    """
    numbers: dict[str, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    for index, cell in enumerate(cells):
        if isinstance(cell, str):
            codes[index] = numbers.setdefault(str(cell), len(numbers))
        elif cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and math.isnan(cell)):
            codes[index] = -1
        else:
            return None
    texts = np.empty(len(numbers), dtype=object)
    texts[:] = list(numbers)
    return codes, texts


def _missing(cells: np.ndarray, missing_texts: frozenset[str]) -> np.ndarray:
    texts = np.fromiter((isinstance(v, str) and v in missing_texts for v in cells), dtype=bool, count=len(cells))
    absent: np.ndarray = pd.isna(cells) | texts
    return absent


def _uniform(cells: np.ndarray, missing: np.ndarray) -> RawColumn:
    """Objects that are all of one numeric kind in that form, all others as they are."""
    form = _FORMS.get(pd.api.types.infer_dtype(cells[~missing], skipna=True))
    present = cells[~missing]
    if form is None or (form != "boolean" and not _exact(present)):
        return RawColumn("mixed", cells, missing)
    dtype = {"integer": np.int64, "real": np.float64, "boolean": bool}[form]
    values = np.zeros(len(cells), dtype=dtype)
    values[~missing] = present.astype(dtype)
    return RawColumn(form, values, missing)


def _exact(present: np.ndarray) -> bool:
    """True if all whole numbers fit 64 bits, and a float where there are floats beside them."""
    whole = [int(v) for v in present if isinstance(v, int | np.integer)]
    limit = INT64_MAX if len(whole) == len(present) else EXACT_FLOAT
    return all(-limit - 1 <= v <= limit for v in whole)
