"""Values in another form than the schema's: others write true for yes, 27.0 for 27, and midnights for days.

Only tables of others are translated, cell by cell and from the schema alone. A cell that is valid as it stands stays,
and so does one whose text may mean several values.
"""

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table import datetime_codec
from synth.table.conforming import of_names, refuse
from synth.table.decode import NUMBER, UNREADABLE, Fault, bits_of
from synth.table.table import Chunk, Table, as_raw
from synth.table.text_files import Batch
from synth.table.typed_cells import as_frame_column, as_objects, as_one, cast, cell_text, is_number, to_objects

Translations = Mapping[str, Mapping[str, int]]
"""For each column with any, the number of translated cells by the kind of what was other about them."""

BLANKS, WORD, NUMERAL, COMMAS, TIME, MISSING = (
    "blanks around a value", "another word for true or false", "a number written in another way",
    "commas between thousands", "a day or time written in another way", "a word for missing",
)  # fmt: skip
_PLAIN = (str, bool, int, float, np.generic, Decimal, dt.datetime)
_FAULTS = bits_of((*UNREADABLE, Fault.CATEGORY))
_FALSE, _TRUE = ("false", "f", "no", "n", "0", "0.0"), ("true", "t", "yes", "y", "1", "1.0")
_MISSING = frozenset({"nan", "NaN", "None", "null", "NULL", "<NA>", "NaT"})
"""As Python, pandas, JSON and SQL write a missing value."""
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}((,\d{3})+)(\.\d*)?", re.ASCII)
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?(Z|[+-]00:?00)?\Z", re.ASCII)


@dataclass(frozen=True)
class TranslatedTable:
    """A table of somebody else's, read with values of another form in the form of a schema.
    `counted`: what was translated when it was last read.
    """

    table: Table
    into: Schema
    counted: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        refuse(of_names(self.names, schema, extra=False))
        self.counted.clear()
        for batch, n in self._batches():
            chunk = Chunk.of(batch, n, self.into)
            wrong = [name for name in self.into.kept if (chunk.faults[name] & _FAULTS).any()]
            changed, counts = _translate({name: batch[name] for name in wrong}, self.into)
            for name, counted in counts.items():
                self.counted.setdefault(name, Counter()).update(counted)
            if changed or schema is not self.into:
                chunk = Chunk.of({**batch, **changed}, n, schema)
            yield chunk

    def columns(self, names: Sequence[str]) -> pd.DataFrame:
        """Some columns as they came."""
        frames = [pd.DataFrame({name: _series(batch[name]) for name in names}) for batch, _ in self._batches()]
        return pd.concat(frames, ignore_index=True)

    def _batches(self) -> Iterator[Batch]:
        return (batch for part in self.table.parts for batch in part())


def _series(cells: Any) -> pd.Series:
    return pd.Series(cells, dtype=object) if isinstance(cells, np.ndarray) else as_frame_column(cells)


def translate(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Translations]:
    """The table with values of another form in the form of the schema, and what was translated; it is not changed.

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "declared", "columns": {"paid": {"kind": "boolean", "tokens": ["no", "yes"]}}})
    >>> translate(pd.DataFrame({"paid": ["yes", "TRUE", "0"]}), schema)[0]["paid"].tolist()
    ['yes', 'yes', 'no']
    """
    refuse(of_names(tuple(frame.columns), schema, extra=False))
    changed, counts = _translate({name: as_raw(frame[name]) for name in schema.kept}, schema)
    columns = {name: pd.Series(cells, index=frame.index, dtype=object) for name, cells in changed.items()}
    return (frame.assign(**columns) if columns else frame), counts


def _translate(columns: Mapping[str, Any], schema: Schema) -> tuple[dict[str, np.ndarray], Translations]:
    missing_texts, changed, counts = frozenset({"", *schema.missing_values}), {}, {}
    for name, raw in columns.items():
        cells, counted = _translated(raw, schema.columns[name], missing_texts)
        if counted:
            changed[name], counts[name] = cells, dict(counted)
    return changed, counts


def in_words(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {n:,}" for kind, n in counted.items())


def _translated(raw: Any, column: Column, missing_texts: frozenset[str]) -> tuple[np.ndarray, Counter[str]]:
    """The cells of a column, those that no value of it stands for in its form, and how many of these by their form."""
    wrong, counted = _at_fault(raw, column, missing_texts), Counter[str]()
    if not wrong.any():
        return wrong, counted
    cells = raw if isinstance(raw, np.ndarray) else to_objects(as_one(raw))
    wrong &= np.array([isinstance(cell, _PLAIN) for cell in cells], dtype=bool)
    forms: dict[Any, list[tuple[str, str]]] = {}
    for cell in cells[wrong]:
        if (key := (type(cell), cell)) not in forms:
            forms[key] = list(dict.fromkeys(_forms(cell, column)))
    # Each form is read alone, all in one pass.
    texts = list(dict.fromkeys(text for some in forms.values() for _, text in some))
    sound = ~_at_fault(as_objects(texts), column, missing_texts)
    lawful = {text for text, is_sound in zip(texts, sound, strict=True) if is_sound}
    chosen = {key: next((form for form in some if form[1] in lawful), None) for key, some in forms.items()}
    result = cells.copy()
    for index in np.flatnonzero(wrong):
        form = chosen[type(cells[index]), cells[index]]
        if form is not None:
            counted[form[0]] += 1
            result[index] = form[1]
    if counted and not column.is_time:
        # Beside texts, what stands for itself in a typed column has to be text, too.
        for index in np.flatnonzero(~wrong):
            if not isinstance(cells[index], str):
                result[index] = cell_text(cells[index], column)
    return result, counted


def _at_fault(raw: Any, column: Column, missing_texts: frozenset[str]) -> np.ndarray:
    return np.asarray(cast(as_one(raw), column, missing_texts)[1] & _FAULTS != 0)


def _forms(cell: Any, column: Column) -> Iterator[tuple[str, str]]:
    """The texts in the schema's form that a cell may mean, each with what is other about the cell."""
    if column.is_time and isinstance(cell, dt.datetime):
        yield from _times(cell, column)
    elif not isinstance(cell, str):
        text = cell_text(cell, column)
        if text is not None and not (is_number(column) and isinstance(cell, bool | np.bool_)):
            yield NUMERAL, text
            yield from ((NUMERAL, other) for _, other in _other_texts(text, column))
    else:
        bare = cell.strip()
        yield BLANKS, bare
        yield from _other_texts(bare, column)
        if bare in _MISSING:
            yield MISSING, ""


def _other_texts(bare: str, column: Column) -> Iterator[tuple[str, str]]:
    if column.is_boolean:
        yield from _truths(bare.casefold(), column)
    elif column.is_time:
        yield TIME, _MIDNIGHT.sub("", bare)
        if datetime_codec.ISO_DATETIME.fullmatch(bare) and (moment := datetime_codec.iso(bare)) is not None:
            yield from _times(moment, column)
    elif column.is_categorical and not column.holds_whole_numbers:
        yield from _categories(bare, column)
    elif is_number(column) and (grouped := _GROUPED.fullmatch(bare)) is not None:
        # 1,234 alone may be a decimal comma's; not where no number has three digits behind it.
        decimals = getattr(column, "decimals", 0)
        if grouped[3] or len(grouped[1]) > len(",234") or (decimals is not None and decimals < len("234")):
            yield COMMAS, bare.replace(",", "")


def _truths(word: str, column: Column) -> Iterator[tuple[str, str]]:
    own = [token.casefold() for token in column.tokens]
    if own[0] != own[1] and word in own:
        yield WORD, column.tokens[own.index(word)]
    # Where a token is a word of the other side, or a number of its own, others are no matter of course.
    sides = (_FALSE, _TRUE)
    if all(token in side or not (token in (*_FALSE, *_TRUE) or NUMBER.fullmatch(token))
           for token, side in zip(own, sides, strict=True)):  # fmt: skip
        yield from ((WORD, token) for token, side in zip(column.tokens, sides, strict=True) if word in side)


def _times(moment: dt.datetime, column: Column) -> Iterator[tuple[str, str]]:
    zone = column.zone
    if column.is_date:
        if moment.time() == dt.time():  # midnight on the clock that it is written by
            yield TIME, datetime_codec.writer(column)(moment.replace(tzinfo=None))
    elif zone is None and not moment.utcoffset():
        yield TIME, datetime_codec.writer(column)(moment.replace(tzinfo=None))
    elif zone is not None and moment.tzinfo is not None and column.format is not None:
        with suppress(OverflowError):  # beyond the calendar
            yield TIME, datetime_codec.writer(column)(moment if zone == "mixed" else moment.astimezone(ZoneInfo(zone)))


def _categories(bare: str, column: Column) -> Iterator[tuple[str, str]]:
    by_content, by_number = _looked_up(tuple(map(str, column.categories)))
    number = Decimal(bare) if NUMBER.fullmatch(bare) else None
    for kind, same in ((BLANKS, by_content.get(bare, [])), (NUMERAL, by_number.get(number, []))):
        if len(same) == 1:  # of several, none is meant more than the others
            yield kind, same[0]


@lru_cache(maxsize=8)
def _looked_up(categories: tuple[str, ...]) -> tuple[dict[str, list[str]], dict[Decimal | None, list[str]]]:
    """The categories without their blanks, and by the numbers that they write."""
    by_content, by_number = defaultdict[str, list[str]](list), defaultdict[Decimal | None, list[str]](list)
    for category in categories:
        by_content[category.strip()].append(category)
        if NUMBER.fullmatch(category.strip()):
            by_number[Decimal(category.strip())].append(category)
    return by_content, by_number
