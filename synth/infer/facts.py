"""Facts about a column before its kind is proposed: its cells in one of a few forms, and what name and values say."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from synth.table.table import as_raw
from synth.table.typed_cells import as_objects, dtype_of, is_text, to_objects, typed_cells, unlike

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

    def without(self, texts: Collection[str]) -> "RawColumn":
        """The column with some of its texts missing."""
        absent = np.fromiter((text in texts for text in self.cells), dtype=bool, count=len(self.cells))
        return replace(self, missing=self.missing | absent)


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
        codes = numbers.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        column = RawColumn("text", as_objects(map(str, different)), np.zeros(len(different), dtype=bool), codes=codes)
        return column.without(missing_texts)
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


Role = Literal["target", "entity"] | None

_IDENTIFIER = re.compile(r"(^|[^a-z])(id|uuid|guid|key|nbr|identifier|ssn|mrn)$")
_COUNTER = re.compile(
    r"(^|[^a-z])(no|nr|num|number|nbr|index|ref|order|invoice|ticket|case|encounter|row|seq|record|id)$"
)
_ROW_NAME = re.compile(r"Unnamed: \d+|rownames|row[. _]names?", re.IGNORECASE)
_WEIGHT = re.compile(
    r"^(fnlwgt|finalwgt|perwt|pwgtp|wtfinl|asecwt|hhwt|hwt|(final|person|sample|sampling|survey)[_ -]?(weight|wgt|wt))$"
)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class ColumnFacts:
    """A column and what can be said of it without deciding on a kind. `raw`: *Sensitive*. Its cells."""

    name: str
    raw: RawColumn
    dtype: str | None
    ordered: bool
    from_text: bool
    role: Role
    written: Mapping[str, Any] = field(default_factory=dict)  # fields that say how numbers are written

    @cached_property
    def codes(self) -> np.ndarray:
        """The number of each row's value among the distinct ones, -1 where missing."""
        if self.raw.codes is not None:
            return np.where(self.raw.missing_rows, -1, self.raw.codes)
        cells = self.raw.cells
        if self.raw.form == "mixed":
            cells = np.array([f"{type(cell).__name__} {cell}" for cell in cells], dtype=object)
        return np.where(self.raw.missing, -1, pd.factorize(cells)[0])

    @cached_property
    def present(self) -> Any:
        """The values that are not missing: distinct ones where they are text or categories."""
        if self.raw.codes is None or self.categories_declared:
            return self.raw.cells[~self.raw.missing]
        used = np.zeros(len(self.raw.cells), dtype=bool)
        used[self.codes[self.codes >= 0]] = True
        return self.raw.cells[used]

    @cached_property
    def per_row(self) -> Any:
        """The value of every row that has one."""
        if self.raw.codes is None:
            return self.present
        return self.raw.cells[self.codes[self.codes >= 0]]

    @cached_property
    def digits(self) -> tuple[list[str], str] | None:
        """The different values as up to 14 digits each, and what follows these (".0"); `None` if there are others."""
        tail = ""
        if self.raw.form == "text":
            tail = ".0" if all(text.endswith(".0") for text in self.present) else ""
            texts = [str(text).removesuffix(tail) for text in self.present]
        elif self.role == "entity" or not np.array_equal(np.rint(np.clip(self.present, 0, 1e14)), self.present):
            return None
        else:
            texts = [f"{value:.15g}" for value in np.unique(self.present).tolist()]
        return (texts, tail) if all(len(text) < 15 and text.isdecimal() for text in texts) else None

    @cached_property
    def numbers_per_row(self) -> np.ndarray:
        """For every row that has a value, its number among the different ones."""
        values = self.present if self.raw.codes is None else self.codes[self.codes >= 0]
        return np.asarray(np.unique(values, return_inverse=True)[1])

    @property
    def categories_declared(self) -> bool:
        """True if the source has a dtype that lists categories."""
        return self.dtype == "category"

    @cached_property
    def n_present(self) -> int:
        return int((self.codes >= 0).sum())

    @cached_property
    def n_distinct(self) -> int:
        return len(np.unique(self.codes[self.codes >= 0]))

    @property
    def missing(self) -> bool:
        return self.n_present < len(self.codes)

    @property
    def unique(self) -> bool:
        return self.n_distinct == self.n_present

    @property
    def int64(self) -> str:
        """The dtype of whole numbers, with room for missing ones where there are some."""
        return "Int64" if self.missing else "int64"

    @cached_property
    def named_identifier(self) -> bool:
        return _IDENTIFIER.search(snake(self.name)) is not None

    @property
    def named_counter(self) -> bool:
        return _COUNTER.search(snake(self.name)) is not None

    @property
    def names_rows(self) -> bool:
        """True of the row numbers or names that pandas and R write into a first column without a name."""
        return self.unique and not self.missing and self.role is None and _ROW_NAME.fullmatch(self.name) is not None

    @property
    def named_weight(self) -> bool:
        return _WEIGHT.match(self.name.lower()) is not None

    def common(self, default: str) -> dict[str, Any]:
        """The fields that columns of all kinds have."""
        return {"missing": self.missing} | ({} if self.dtype in (None, default) else {"dtype": self.dtype})


def facts_of(
    name: str, series: pd.Series, raw: RawColumn, *, from_text: bool = False, all_text: bool = False, role: Role = None
) -> ColumnFacts:
    """The facts about one column. `series`: *Sensitive*. As the caller has it."""
    dtype: str | None = str(series.dtype)
    if dtype == "object" and raw.form == "mixed":
        dtype = _of_decimals(raw) or dtype
    if dtype == "object" and raw.form == "text":
        dtype = None if all_text else "str" if from_text else dtype
    try:
        dtype_of(str(dtype))
    except (TypeError, ValueError, NotImplementedError):
        dtype = None
    ordered = isinstance(series.dtype, pd.CategoricalDtype) and bool(series.dtype.ordered)
    return ColumnFacts(name, raw, dtype, ordered, from_text, role)


def _of_decimals(raw: RawColumn) -> str | None:
    """The dtype of Python's decimals, with room for 21 digits before the point; `None` where it does not hold them."""
    cells = raw.cells[~raw.missing]
    if not len(cells) or not all(type(cell) is Decimal and cell.is_finite() and cell.adjusted() < 20 for cell in cells):
        return None
    decimals = max(0, *(-int(cell.as_tuple().exponent) for cell in cells))
    return f"decimal128(38, {decimals})[pyarrow]" if decimals <= 17 else None
