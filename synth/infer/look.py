"""Columns reduced to one of a few forms whatever their dtype, for an inference that sees all their cells."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.table.cast import as_objects, is_text, to_objects, typed_cells, unlike
from synth.table.table import as_raw

Form = Literal["integer", "real", "boolean", "time", "text", "mixed"]

_FORMS: dict[str, tuple[Form, type]] = {
    "integer": ("integer", np.int64),
    "floating": ("real", np.float64),
    "mixed-integer-float": ("real", np.float64),
    "boolean": ("boolean", bool),
}


@dataclass(frozen=True)
class RawColumn:
    """Cells of a column in one form: of texts and categories the distinct ones, and the number of each row's."""

    form: Form
    cells: np.ndarray
    missing: np.ndarray
    codes: np.ndarray | None = None
    zone: Any = None
    digits: int = 15

    @property
    def missing_rows(self) -> np.ndarray:
        return self.missing if self.codes is None else np.asarray(np.append(self.missing, True)[self.codes], dtype=bool)


def look(series: pd.Series, missing_texts: frozenset[str] = frozenset({""})) -> RawColumn:
    """The column in one of the forms. *Sensitive*."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        levels = look(pd.Series(series.cat.categories), missing_texts)
        codes = series.cat.codes.to_numpy().astype(np.int64)
        return replace(levels, codes=codes if levels.codes is None else np.append(levels.codes, -1)[codes])
    raw = as_raw(series)
    if not isinstance(raw, np.ndarray) and (typed := typed_cells(raw)) is not None:
        # Times beyond the calendar are not missing: they are refused.
        missing = raw.is_null().to_numpy(zero_copy_only=False) if typed.form == "time" else typed.missing
        return RawColumn(typed.form, typed.raw, missing, zone=typed.zone, digits=typed.digits)  # type: ignore[arg-type]
    # Not by pandas, which compares texts as C strings: to it all that follows a NUL is nothing.
    if not isinstance(raw, np.ndarray) and (is_text(raw.type) or pa.types.is_null(raw.type)):
        coded = raw.cast(pa.string()).dictionary_encode()
        different, numbers = coded.dictionary.to_pylist(), coded.indices
    else:
        raw = raw if isinstance(raw, np.ndarray) else to_objects(raw)
        different, numbers = unlike(raw)
    if all(isinstance(cell, str) for cell in different):
        absent = np.fromiter((text in missing_texts for text in different), dtype=bool, count=len(different))
        codes = numbers.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return RawColumn("text", as_objects(map(str, different)), absent, codes=codes)
    return _uniform(raw, pd.isna(raw) | np.array([isinstance(v, str) and v in missing_texts for v in raw], dtype=bool))


def _uniform(cells: np.ndarray, missing: np.ndarray) -> RawColumn:
    """Objects that are all of one numeric kind in that form, all others as they are."""
    present = cells[~missing]
    form, dtype = _FORMS.get(pd.api.types.infer_dtype(present, skipna=True), ("mixed", object))
    try:
        pa.array(present)  # numbers that 64 bits hold, exactly where there are floats beside
    except (pa.ArrowException, OverflowError):
        form = "mixed"
    if form == "mixed":
        return RawColumn("mixed", cells, missing)
    values: np.ndarray = np.zeros(len(cells), dtype=dtype)
    values[~missing] = present.astype(dtype)
    return RawColumn(form, values, missing)
