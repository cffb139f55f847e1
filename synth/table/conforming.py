"""A table in the canonical form of its schema, all that does not fit, and the way back to real dtypes and texts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.errors import TableError, nearest
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table import datetime_codec
from synth.table.decode import CLAMPED_BITS, Fault, faults_in, rounded, words
from synth.table.table import Chunk, Table, as_series, names_at_fault
from synth.table.typed_cells import as_objects, cast, dtype_of, is_null

Outside = Literal["refuse", "clamp"]


@dataclass(frozen=True)
class Violation:
    """One way in which a table does not fit its schema. It tells no cell value and no exact count."""

    column: str | None
    rule: str
    remedy: str

    def __str__(self) -> str:
        subject = "the table" if self.column is None else f"column={self.column!r}"
        return f"{subject} {self.rule}; {self.remedy}"


def conform(source: Any, schema: Schema, *, outside: Outside = "refuse", part: bool = False) -> pd.DataFrame:
    """The table in the canonical form of its schema: kept columns, in order, each in its kind's dtype. *Sensitive*.
    `outside`: "refuse" a table that does not fit, or "clamp" its cells to the nearest bound.
    `part`: the rows are some of a table, which may lack or have by chance what the whole does not.
    """
    chunk = matching(source, schema, extra=outside == "refuse").chunk(schema)
    if outside == "refuse":
        refuse(violations_of([chunk], schema, part=part))
    return chunk.frame(schema)


def clamp(source: Any, schema: Schema) -> tuple[pd.DataFrame, dict[str, float]]:
    """The table as `conform` clamps it, and the shares of cells that were clamped. *Sensitive*."""
    chunk = matching(source, schema, extra=False).chunk(schema)
    return chunk.frame(schema), shares_clamped([chunk])


def matching(source: Any, schema: Schema, *, extra: bool) -> Table:
    """The table that a source is, once it has the columns of a schema, and no others where `extra` ones are refused."""
    table = Table.of(source)
    refuse(of_names(table.names, schema, extra=extra))
    return table


def shares_clamped(chunks: Iterable[Chunk]) -> dict[str, float]:
    """*Sensitive*. The shares of cells that were clamped, of columns with any."""
    counts, n = Counter[str](), 0
    for chunk in chunks:
        counts.update({name: int(np.count_nonzero(bits & CLAMPED_BITS)) for name, bits in chunk.faults.items()})
        n += chunk.n
    return {name: count / n for name, count in counts.items() if count}


def refuse(broken: Iterable[Violation]) -> None:
    for violation in broken:
        raise TableError(str(violation))


def violations(source: Any, schema: Schema) -> list[Violation]:
    """All that does not fit, column by column, then the table as a whole; empty where the table conforms."""
    table = Table.of(source, named=False)
    broken = list(of_names(table.names, schema, extra=True))
    if any(violation.column is None for violation in broken):
        return broken
    names = {*table.names}
    present = {n: c for n, c in schema.columns.items() if {n, c.part.column if c.part else n} & names}
    chunks = table.chunks(schema.model_copy(update={"columns": present}), clamp=False)
    return [*broken, *violations_of(chunks, schema)]


def violations_of(chunks: Iterable[Chunk], schema: Schema, *, part: bool = False) -> list[Violation]:
    """Violations of cells column by column, then, unless the rows are a part, of the table as a whole."""
    n_rows, bits, n_present = 0, dict[str, np.uint16](), Counter[str]()
    hashes = defaultdict[str, list[np.ndarray]](list)  # of values, in 8 bytes a row
    counted = {schema.entity, schema.target, *(name for name in schema.kept if schema.columns[name].is_identifier)}
    for chunk in chunks:
        n_rows += chunk.n
        for name, flags in chunk.faults.items():
            bits[name] = bits.get(name, np.uint16(0)) | np.bitwise_or.reduce(flags, initial=0)
            n_present[name] += int(np.count_nonzero(~is_null(chunk.columns[name])))
            if name in counted:
                values = chunk.frame(schema, [name])[name].dropna()
                hashes[name].append(pd.util.hash_array(values.to_numpy(dtype=object)))
    n_values = {name: len(np.unique(np.concatenate(pieces))) for name, pieces in hashes.items()}
    broken = []
    for name in bits:
        faults = faults_in(np.array([bits[name]]))
        if schema.columns[name].is_identifier and name != schema.entity and n_values[name] < n_present[name]:
            faults.append(Fault.REPEATED)
        broken += [violation_of(name, fault, schema) for fault in faults]
    return broken if part else [*broken, *_of_table(schema, n_rows, dict(n_present), n_values)]


def violation_of(name: str, fault: Fault, schema: Schema) -> Violation:
    return Violation(name, *words(fault, schema.columns[name], declared=schema.status == "declared"))


def of_names(names: Sequence[str], schema: Schema, *, extra: bool) -> Iterator[Violation]:
    """Violations of column names: any of them keeps the cells from being read."""
    yield from (Violation(None, *trouble) for trouble in names_at_fault(names))
    sources = {c.part.column for c in schema.columns.values() if c.part is not None}
    missing = [source for source, parts in schema.written.items() if source not in names and not {*parts} <= {*names}]
    known = [str(name) for name in names if name not in schema.columns and name not in sources]
    for name in missing:
        remedy = f"{_renamed(name, known) or 'add it'}, or set drop = true for it in the schema"
        yield Violation(name, "is in the schema and not in the table", remedy)
    for name in known if extra else []:
        remedy = f"{_renamed(name, missing) or 'remove it'}, or add it to the schema"
        yield Violation(name, "is in the table and not in the schema", remedy)


def _renamed(name: str, others: Sequence[str]) -> str:
    near = nearest(name, others) if others else ""
    return f"{near} Rename it" if near.startswith("did") else ""


def _of_table(
    schema: Schema, n_rows: int, n_present: Mapping[str, int], n_values: Mapping[str, int]
) -> Iterator[Violation]:
    """Violations of the table as a whole, of the columns that there are."""
    if n_rows == 0:
        yield Violation(None, "has no rows", "give it at least one")
        return
    for name, n in n_present.items():
        column = schema.columns[name]
        known_empty = column.is_categorical and not (column.levels or column.is_measured)
        if not (known_empty or n):
            remedy = "set drop = true, or declare it categorical with categories = []"
            yield Violation(name, "has missing values only", remedy)
    if schema.target is not None and n_values.get(schema.target) == 1:
        yield Violation(schema.target, "is the target and has one value only", "choose a target that varies")
    for name in n_present:
        if (trouble := dtype_trouble(name, schema.columns[name])) is not None:
            yield Violation(name, *trouble)
    n_units = n_rows if schema.entity is None else n_values.get(schema.entity, 0)
    if schema.n_units is not None and n_units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield Violation(None, f"has more {what} than n_units={schema.n_units}", "declare a larger n_units")


def present(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table as its reader knows it: whole numbers as int64 where none is missing, declared dtypes where declared.

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "declared", "columns": {"n": {"kind": "integer", "bounds": [0, 9]}}})
    >>> present(pd.DataFrame({"n": pd.array([1, 2], dtype="Int64")}), schema).dtypes.astype(str).to_dict()
    {'n': 'int64'}
    """
    shown = {
        source: pd.Series(written_cells(frame, source, schema), dtype=object)
        if schema.columns[parts[0]].part is not None
        else shown_column(frame[source], source, schema.columns[source])
        for source, parts in schema.written.items()
    }
    # Gathering columns of one dtype into a block would take as long as all else.
    names = pd.Index(list(schema.written), dtype=object)
    return pd.DataFrame(shown, index=pd.RangeIndex(len(frame)), columns=names, copy=False)


def shown_column(series: pd.Series, name: str, column: Column) -> pd.Series:
    """One canonical column as its reader knows it."""
    try:
        return pd.Series(_shown(series, column), index=series.index)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        raise TableError(f"column={name!r} {'; '.join(_unfit(str(column.dtype)))}") from None


def dtype_trouble(name: str, column: Column) -> tuple[str, str] | None:
    """The rule and the remedy where the declared dtype cannot hold what the schema allows, else `None`."""
    if column.dtype is None or (column.is_categorical and column.is_measured):
        return None
    try:
        shown_column(_extremes(column), name, column)
    except TableError:
        return _unfit(column.dtype)
    return None


def _unfit(dtype: str) -> tuple[str, str]:
    rule = f"may hold values that dtype={dtype!r} cannot"
    return rule, "name a pandas dtype that can, or leave dtype out of the schema"


def _extremes(column: Column) -> pd.Series:
    """A canonical column of the least and the greatest value that the schema allows."""
    ends: Any = getattr(column, "bounds", None) or getattr(column, "categories", ()) or ()
    if not ends:
        return pd.Series([False, True], dtype="boolean") if column.is_boolean else pd.Series([], dtype=object)
    zoneless = column.model_copy(update={"timezone": None}) if column.zone is not None else column
    series: pd.Series = as_series(cast(as_objects(ends), zoneless, clamp=False)[0], zoneless)
    if column.zone not in (None, "mixed"):
        return pd.Series(series.dt.tz_localize("UTC").dt.tz_convert(column.zone))
    return series


def _shown(series: pd.Series, column: Column) -> Any:
    dtype = column.dtype
    if column.reads_digits and dtype is not None and getattr(dtype_of(dtype), "kind", "O") in "iuf":
        whole = [None if text is None else int(text.removesuffix(".0")) for text in texts(series, column)]
        return _cast(pd.Series(pd.array(whole, dtype="Int64"), index=series.index), column)
    if (values := column.typed(series)) is not None:
        return pd.Series(values, index=series.index, dtype=dtype_of(dtype or "object"))
    if column.shows_texts or dtype == "str":
        return pd.Series(texts(series, column), index=series.index, dtype=object)
    return _by_default(series, column) if dtype is None else _typed(series, column, dtype)


def _typed(series: pd.Series, column: Any, dtype: str) -> Any:
    if dtype == "object":
        cells: Any = series.astype(object).where(series.notna(), None)
        if column.is_time:
            cells = datetime_codec.pythonic(series)
        cells = [c.date() if column.is_date and c is not None else c for c in cells]
        return pd.Series(as_objects(cells), index=series.index, dtype=object)
    is_category = column.is_categorical and not column.is_boolean
    if dtype == "category":
        levels: Any = None
        if is_category:
            levels = sorted(series.dropna().unique()) if column.measure else list(column.categories)
        return pd.Categorical(series, categories=levels, ordered=is_category and column.ordered)
    if dtype.startswith("string") and not (column.is_identifier or is_category):
        return pd.Series(texts(series, column), index=series.index, dtype=_holding(dtype, series))
    return _cast(series, column)


def _cast(series: pd.Series, column: Column) -> pd.Series:
    dtype = _holding(str(column.dtype), series)
    if dtype.name.startswith("decimal"):
        # By way of texts: Arrow's own cast refuses whole numbers, and floats are only near to a decimal.
        step, exact = Decimal(1).scaleb(-dtype.pyarrow_dtype.scale), Context(prec=76)
        written = texts(series, column)
        cells = [None if text is None else Decimal(text).quantize(step, context=exact) for text in written]
        return pd.Series(pd.array(cells, dtype=dtype), index=series.index)
    if pd.api.types.is_integer_dtype(dtype):
        # pandas would let a number that is too large wrap around.
        room = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        whole = series.dropna()
        if len(whole) and not (room.min <= int(whole.min()) and int(whole.max()) <= room.max):
            raise OverflowError
    if isinstance(dtype, pd.DatetimeTZDtype) and column.is_date:
        series = column.in_zone(series)
    return series.astype(dtype)


def _by_default(series: pd.Series, column: Column) -> pd.Series:
    if column.is_weight and column.decimals == 0:
        series = series.astype("Int64")
    if column.is_date and column.timezone is not None:
        return pd.Series(column.in_zone(series))
    plain: Any = {"Int64": "int64", "boolean": "bool"}.get(str(series.dtype))
    return series if plain is None or series.isna().any() else series.astype(plain)


def _holding(dtype: str, series: pd.Series) -> Any:
    """The declared dtype, in its nullable form where a missing value asks for it."""
    known: Any = dtype_of(dtype)
    if isinstance(known, np.dtype) and series.isna().any():
        if known.kind in "iu":
            return pd.api.types.pandas_dtype(dtype.replace("uint", "UInt").replace("int", "Int"))
        if known.kind == "b":
            return pd.BooleanDtype()
    return known


def written_cells(frame: pd.DataFrame, source: str, schema: Schema) -> list[str | None]:
    """The cells of one column of a file, which several canonical ones may give; `None` where one is missing."""
    names = schema.written[source]
    columns: list[Any] = [schema.columns[name] for name in names]
    values = [texts(frame[name], column) for name, column in zip(names, columns, strict=True)]
    if columns[0].part is None:
        return values[0]
    order = sorted(range(len(names)), key=lambda at: columns[at].part.place)
    own = {text for column in columns if column.is_line for text in column.own_texts}
    return [
        None if None in row else next((text for text in row if text in own), columns[0].part.form.format(*row))
        for row in zip(*(values[at] for at in order), strict=True)
    ]


def texts(series: pd.Series, column: Column) -> list[str | None]:
    """The text form of a canonical column, as a CSV file holds it; `None` where missing."""
    written = _texts(series, column)
    for text, known in column.own_texts.items() if column.is_line else ():
        for index in np.flatnonzero(column.line(series) == column.position(known)):
            written[index] = text
    return written


def _texts(series: pd.Series, column: Column) -> list[str | None]:
    if column.is_time:
        return datetime_codec.texts(series, column)
    absent = series.isna().to_numpy()
    if column.has_own_texts or (column.is_number and column.format is not None):
        codes, values = pd.factorize(series)
        written = [*map(column.write, values.tolist()), None]
        return [written[code] for code in codes]
    if column.is_boolean:
        false, true = column.tokens
        return [None if m else (true if v else false) for v, m in zip(series, absent, strict=True)]
    if column.is_number and not column.is_whole:
        return _reals(series.to_numpy(dtype=np.float64), column.decimals)
    if series.dtype == "Int64":
        point = ".0" if str(column.dtype).lower().startswith(("float", "double")) else ""
        return [None if m else f"{v}{point}" for v, m in zip(series, absent, strict=True)]
    return [None if m else v for v, m in zip(series, absent, strict=True)]


def _reals(values: np.ndarray, decimals: int | None) -> list[str | None]:
    if decimals is not None:
        values, _ = rounded(values, decimals)
    return [None if value != value else _real(value, decimals) for value in values.tolist()]


def _real(value: float, decimals: int | None) -> str:
    if not decimals:
        return repr(value) if decimals is None else f"{value:.0f}"
    text = f"{value:.{decimals}f}".rstrip("0") if "e" in repr(value) else repr(value)
    return text + "0" * text.endswith(".")  # as Python writes it; a column's format says otherwise
