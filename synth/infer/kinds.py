"""Column kinds, proposed from the data or chosen by the user, and texts that stand for a missing value.

`propose` picks a kind by values, form and name; `as_kind` takes the kind that the user chose. Bounds, categories,
templates and forms are read off the table in both cases.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from synth.errors import SchemaError, TableError, nearest
from synth.identifiers import ALPHABETS
from synth.infer import beside, numeric, personal, spans, temporal
from synth.infer.amounts import has_point_thousands, read_amounts
from synth.infer.codes import are_codes, are_levels, named_code
from synth.infer.facts import ColumnFacts
from synth.infer.look import RawColumn
from synth.schema.kinds import (
    KINDS,
    BooleanColumn,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    IdentifierColumn,
    RealColumn,
    TextColumn,
)
from synth.schema.kinds.number import INT64
from synth.table.arrow import as_objects
from synth.table.cast import cell_text
from synth.validation import is_plain

MISSING_TEXTS = frozenset({
    "n", "na", "n/a", "n.a.", "n.a", "<na>", "#n/a", "nan", "null", "(null)", "\\n", "none", "nil", "nd", "missing",
    "(missing)", "unknown", "unk", "undefined", "unspecified", "?", "??", "-", "--", "---", ".", "..", "...", "*",
    "not available", "not applicable", "not reported", "not known", "no data",
})  # fmt: skip
"""Words that people write where there is nothing, in lower case."""
_NUMBER = RealColumn(bounds=(0.0, 0.0))
LEAST_VALUES = 2  # different values beside such a text that say what a column holds


def missing_texts_of(
    looked: Mapping[str, RawColumn], said: Collection[str], readable: Collection[str], roles: Collection[str]
) -> tuple[str, ...]:
    """Texts of a table that stand for a missing value, most frequent first; the empty one where there is nothing.

    A word says that nothing is there if all other texts of its column are numbers, or times. It then says so in every
    column. Among texts alone a word is a category like others. It is one everywhere where it is a value of the target
    or of the entity, and these hold texts.
    `looked`: *Sensitive*. Every column, by name.
    """
    used = {name: _used(given) for name, given in looked.items() if given.form == "text"}
    found, values = set[str](), set[str]()
    for name, texts in used.items():
        words = {text for text in texts if text.strip().lower() in MISSING_TEXTS or text in said}
        if name in readable and words and _tells(sorted(texts - words)):
            found |= words
        elif name in roles:
            values |= words
    tokens = (found - values) | set(said)
    counts = Counter[str]()
    for given in looked.values():
        if given.form == "text":
            counts.update({text: n for text, n in _counts(given).items() if text in tokens})
        counts[""] += int(given.missing_rows.sum())
    if not tokens:
        return ("",)
    known = [text for text in (*sorted(tokens), "") if counts[text] or text in said]
    return tuple(sorted(dict.fromkeys(known), key=lambda text: -counts[text]))


def texts_of_mixed(given: RawColumn) -> np.ndarray | None:
    """The texts of numbers and odd texts in a column of objects, as spreadsheets have them; `None` where it is none."""
    if given.form != "mixed" or not any(isinstance(cell, str) for cell in given.cells):
        return None
    shown = [None if gone else cell_text(c, _NUMBER) for c, gone in zip(given.cells, given.missing_rows, strict=True)]
    counts = Counter(text for text in shown if text is not None and text.strip().lower() not in MISSING_TEXTS)
    return as_objects(shown) if counts and read_amounts(counts) is not None else None


def numbers_beside(given: RawColumn, tokens: Collection[str]) -> bool:
    """True if a column of texts holds numbers and texts that stand for a missing value."""
    if given.form != "text":
        return False
    texts = _used(given)
    others = sorted(texts - {*tokens})
    return 0 < len(others) < len(texts) and numeric.are_numbers(others)


def without(given: RawColumn, tokens: Collection[str]) -> RawColumn:
    """A column of texts in which those that stand for a missing value are missing."""
    absent = np.fromiter((text in tokens for text in given.cells), dtype=bool, count=len(given.cells))
    return replace(given, missing=given.missing | absent)


def _tells(texts: list[str]) -> bool:
    """True if texts are all numbers, or all times."""
    if len(texts) < LEAST_VALUES:
        return False
    return numeric.are_numbers(texts) or temporal.are_times(texts) or read_amounts(dict.fromkeys(texts, 1)) is not None


def _counts(given: RawColumn) -> Counter[str]:
    codes = np.arange(len(given.cells)) if given.codes is None else given.codes
    n_rows: list[int] = np.bincount(codes[codes >= 0], minlength=len(given.cells)).tolist()
    counts: Counter[str] = Counter()
    for text, n in zip(given.cells.tolist(), n_rows, strict=True):
        counts[text] += n
    return counts


def _used(given: RawColumn) -> set[str]:
    return {text for text, n in _counts(given).items() if n and text}


def is_long_list(column: Column, about: ColumnFacts) -> bool:
    """True of categories that are many, for the rows that there are."""
    return column.is_categorical and about.given.form == "text" and about.role is None and not _few(about)


_ALPHABETS = ("#", "A", "a", "x", "X")
"""From the narrowest alphabet to the widest."""
_LONGEST_TEMPLATE = 80
_NUMBER_RUN = re.compile(r"[0-9]*#[0-9#]*")
"""A run of digits of which one varies: all of them do, or there would be no room for new numbers."""


def template_of(texts: Sequence[str]) -> str | None:
    """The narrowest template that all texts follow, or `None` where they follow none.
    `texts`: *Sensitive*. Distinct texts.

    >>> template_of(["P-0172", "P-9401"])
    'P-####'
    """
    lengths = {len(text) for text in texts}
    if len(lengths) != 1 or not 0 < max(lengths) <= _LONGEST_TEMPLATE:
        return None
    marks = [_mark(set(characters)) for characters in zip(*texts, strict=True)]
    if None in marks or not any(mark in ALPHABETS for mark in marks):
        return None
    return _NUMBER_RUN.sub(lambda run: "#" * len(run.group()), "".join(mark for mark in marks if mark is not None))


def _mark(characters: set[str]) -> str | None:
    if len(characters) == 1:
        character = next(iter(characters))
        return f"\\{character}" if character in ALPHABETS or character == "\\" else character
    return next((mark for mark in _ALPHABETS if characters <= set(ALPHABETS[mark])), None)


FEW = 20  # so many distinct texts are categories in any table
MANY = 2_000  # more distinct texts than this are never categories
OFTEN = 5  # rows of a value that repeats itself
TOKENS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))


def propose(about: ColumnFacts) -> Column:
    """The proposed kind of a column, with its bounds or categories."""
    if about.role == "entity":
        return _entity(about)
    if about.n_present == 0:
        return CategoricalColumn(categories=(), **about.common("object") | {"missing": True})
    if about.names_rows and about.n_present > 1:
        return IdentifierColumn(drop=True, **about.common("object"))
    own = (kind.propose(about) for kind in KINDS.values())
    found: Column | None = next((column for column in own if column is not None), None)
    if found is None and about.role is None:
        found = personal.propose(about, few=_few(about))
    if found is not None:
        return found
    column = _listed(about) if about.categories_declared else _of_form(about)
    return beside.of_times(column, about) if column.is_time else column


def _of_form(about: ColumnFacts) -> Column:
    form = about.given.form
    if form == "boolean":
        return BooleanColumn(**about.common("boolean" if about.missing else "bool"))
    if form in ("integer", "real"):
        return temporal.of_digits(about) or spans.of_digits(about) or numeric.propose(about, about.present)
    if form == "time":
        return temporal.of_stamps(about)
    return _of_text(about) if form == "text" else _of_objects(about)


def _listed(about: ColumnFacts) -> Column:
    """A column whose dtype lists its categories."""
    levels = about.present.tolist()
    if about.given.form == "boolean":
        return BooleanColumn(**about.common("bool"))
    if about.given.form not in ("text", "integer"):
        if about.given.form == "real":
            return numeric.propose(about, about.per_row)
        raise TableError(
            f"categories must be all texts or all whole numbers: column={about.name!r} has others; convert it first"
        )
    return categorical(about, levels, ordered=about.ordered)


def categorical(about: ColumnFacts, values: list[Any], *, ordered: bool) -> CategoricalColumn:
    if not all(is_plain(value) for value in values if isinstance(value, str)):
        # No schema lists such a text, and a fit without a budget refuses the table: better said here.
        raise TableError(
            f"a category holds neither a NUL character nor half a surrogate pair: column={about.name!r} has texts that "
            "do; replace them in the table, or drop the column"
        )
    return CategoricalColumn(categories=tuple(values), ordered=ordered, **about.common("object"))


def _of_text(about: ColumnFacts) -> Column:
    if about.from_text:
        for tokens in TOKENS:
            if set(about.present) <= set(tokens):
                return BooleanColumn(tokens=tokens, **about.common("bool"))
        if (times := temporal.of_digits(about) or spans.of_digits(about)) is not None:
            return times
        values = None if has_point_thousands(about.present) else numeric.of_texts(about.present, about.name)
        if values is not None:
            return numeric.propose(_as_written(about), values[about.numbers_per_row])
    if (times := temporal.of_texts(about) or spans.of_texts(about)) is not None:
        return times
    return _of_amounts(about) or _of_plain_text(about)


def _as_written(about: ColumnFacts) -> ColumnFacts:
    """The facts with the decimals that plain numbers are written with, where Python would write others: 40, 40.00."""
    digits = [text.partition(".")[2] for text in about.present]
    least, most = min(map(len, digits)), max(map(len, digits))
    if not 0 < most <= numeric.MAX_DECIMALS or any("e" in text.lower() for text in about.present):
        return about
    written = {} if least == 1 else {"format": "0." + "0" * least + "#" * (most - least)}
    return replace(about, written=written, dtype=about.dtype or ("float64" if least else None))


def _of_amounts(about: ColumnFacts) -> Column | None:
    """A column of numbers in a form that people write, or with odd texts beside; `None` where it is none."""
    rows = about.numbers_per_row
    counts = dict(zip(about.present, np.bincount(rows).tolist(), strict=True))
    known = None if about.named_identifier else read_amounts(counts)
    if known is None:
        return None
    values = np.array([float(known.numbers.get(text, "nan")) for text in about.present])
    plain = known.form.is_plain
    if plain and (named_code(about.name) or not (known.below or known.above)):
        return None
    few = about.n_distinct <= FEW and about.n_distinct <= about.n_present / 2
    if few and (about.role != "target" or plain or len(known.numbers) <= 2):
        order = sorted(about.present, key=lambda text: (known.numbers.get(text, 0), text))
        return categorical(about, order, ordered=not (known.below or known.above))
    whole = all(number == int(number) for number in known.numbers.values()) and np.nanmax(np.abs(values)) < numeric.EXACT_FLOAT
    per_row = values[rows][~np.isnan(values[rows])]
    if plain and whole and are_codes(about.name, *np.unique(per_row.astype(np.int64), return_counts=True)):
        return None
    about = replace(about, written=known.fields)
    return numeric.integer(about, per_row.astype(np.int64)) if whole else numeric.real(about, per_row)


def _of_plain_text(about: ColumnFacts) -> Column:
    template = template_of(about.present) if about.role is None else None
    telling = about.named_identifier or any(character.isdigit() for character in str(about.present[0]))
    if about.unique and template is not None and telling and about.n_present >= 10:
        return IdentifierColumn(template=template, **about.common("object"))
    if _few(about) or about.role == "target" or (repeats(about) and not about.named_identifier):
        return categorical(about, sorted(about.present), ordered=False)
    if about.named_identifier:
        return IdentifierColumn(template=template, drop=template is None, **about.common("object"))
    return personal.propose_prose(about) or TextColumn(drop=True, **about.common("object"))


def _few(about: ColumnFacts) -> bool:
    """True if so few texts repeat themselves that they are categories."""
    distinct, rows = about.n_distinct, about.n_present
    return distinct <= FEW or (distinct <= 50 and distinct <= rows / 2) or (distinct <= MANY and distinct <= rows / 20)


def repeats(about: ColumnFacts, owners: np.ndarray | None = None) -> bool:
    """True of codes: most rows, or entities, have a value that several others have, too, however many there are.
    `owners`: *Sensitive*. The entity of each row, as a code.
    """
    codes = about.codes[about.codes >= 0]
    if owners is not None:
        codes = np.unique(np.stack([codes, owners[about.codes >= 0]]), axis=1)[0]
    counts = np.bincount(codes)
    return bool(about.n_distinct <= MANY and counts[counts >= OFTEN].sum() >= len(codes) / 2)


def _of_objects(about: ColumnFacts) -> Column:
    """Python objects of more than one type, or of one that is neither text nor a number of the machine."""
    types = {type(cell) for cell in about.present}
    if all(issubclass(t, dt.date | np.datetime64) for t in types):
        return temporal.of_objects(about)
    if (times := spans.of_objects(about)) is not None:
        return times
    if any(isinstance(cell, int | np.integer) and not INT64[0] <= cell <= INT64[1] for cell in about.present):
        raise TableError(f"whole numbers must fit 64 bits: column={about.name!r} has larger ones; convert it to text")
    if types <= {Decimal, int, float}:
        return numeric.propose(about, np.array([float(cell) for cell in about.present]))
    what = "mixes" if len(types) > 1 else "holds"
    names = ", ".join(sorted(t.__name__ for t in types))
    raise TableError(f"a column must hold one type of value: column={about.name!r} {what} {names}; convert it")


def _entity(about: ColumnFacts) -> Column:
    if about.missing:
        raise TableError(
            f"every row needs an entity: entity={about.name!r} has missing values; fill them or choose another"
        )
    values = _whole_or_none(about)
    if values is not None:
        return numeric.identifier(about, values)
    if about.given.form != "text":
        raise TableError(
            f"an entity must be text or whole numbers: entity={about.name!r} is neither, or held as floats that do not "
            "tell such large ones apart; choose another, or convert it"
        )
    return IdentifierColumn(template=template_of(about.present) or digits(about), **about.common("object"))


def digits(about: ColumnFacts) -> str:
    """A template of digits, with room for a thousand times as many identifiers as there are rows."""
    return "#" * max(9, len(str(len(about.codes))) + 3)


def _whole_or_none(about: ColumnFacts) -> np.ndarray | None:
    """A column's values as int64 where all are whole numbers that are told apart as they are held; else `None`."""
    values: Any = about.present
    if about.from_text and about.given.form == "text":
        values = numeric.of_texts(values, about.name)
    if values is None or values.dtype.kind not in "if":
        return None
    if values.dtype.kind == "f" and not (np.all(values == np.rint(values)) and np.abs(values).max() <= numeric.EXACT_FLOAT):
        return None
    return values.astype(np.int64)  # type: ignore[no-any-return]


NUMBERS = ("integer", "real", "weight")  # kinds that numbers are looked for in texts for
_FALSE = ("0", "n", "no", "f", "false", "off", "-", "none")  # texts that say no, in lower case


def check_kinds(kinds: Mapping[str, str], names: list[str], entity: str | None) -> None:
    """Refuse kinds that there are not, and kinds of columns that there are not."""
    for name, kind in kinds.items():
        if name not in names:
            raise SchemaError(f"kinds names column={name!r}, which the table does not have; {nearest(name, names)}")
        if kind not in KINDS:
            raise SchemaError(f"kind={kind!r} of column={name!r} is no kind of column; {nearest(kind, KINDS)}")
        if name == entity and kind != "identifier":
            raise SchemaError(
                f"entity={name!r} must be of kind identifier, not kind={kind!r}; choose another entity, or leave its "
                "kind out"
            )


def as_kind(about: ColumnFacts, kind: str) -> Column:
    if about.n_present == 0 and kind not in ("categorical", "text"):
        raise _cannot(about, kind, "it holds no value", 'choose kind="categorical"')
    if kind in _MADE:
        return _MADE[kind](about)
    column: Column | None = KINDS[kind].propose(about)
    if column is None:
        raise _cannot(about, kind, "its values have not the form of that kind", "convert it")
    return column


def _cannot(about: ColumnFacts, kind: str, reason: str, remedy: str) -> SchemaError:
    return SchemaError(f"column={about.name!r} cannot be of kind={kind!r}: {reason}; {remedy}, or leave its kind out")


def _numbers(about: ColumnFacts, kind: str) -> np.ndarray:
    """The number of each row that has one, int64 where all are whole, else float64."""
    values: Any = about.per_row
    if about.given.form == "text":
        found = numeric.of_texts(about.present, about.name)
        if found is None:
            raise _cannot(about, kind, "some of its texts are no numbers", "name those that stand for a missing value")
        values = found[about.numbers_per_row]
    elif about.given.form == "mixed":
        if not all(isinstance(cell, int | float | np.number) for cell in values):
            raise _cannot(about, kind, "it holds values that are no numbers", "convert it")
        values = np.array([float(cell) for cell in values])
    if values.dtype.kind not in "iufb":
        raise _cannot(about, kind, "its values are no numbers", "convert it")
    numeric.check_finite(about.name, values)
    whole = values.dtype.kind != "f" or (np.all(values == np.rint(values)) and np.abs(values).max() < 2.0**63)
    return np.asarray(values.astype(np.int64 if whole else np.float64))


def _whole(about: ColumnFacts, kind: str) -> np.ndarray:
    values = _numbers(about, kind)
    if values.dtype.kind == "f":
        raise _cannot(about, kind, "it holds fractions, or numbers beyond 64 bits", 'choose kind="real"')
    return values


def _categorical(about: ColumnFacts) -> Column:
    form = about.given.form
    if about.n_present == 0:
        return CategoricalColumn(categories=(), **about.common("object") | {"missing": True})
    if form == "text" and not (about.from_text and numeric.are_whole(about.present)):
        return categorical(about, sorted(about.present), ordered=about.ordered)
    if form not in ("text", "integer", "real", "boolean"):
        raise _cannot(about, "categorical", "categories are texts or whole numbers", "convert it to text")
    values = _whole(about, "categorical")
    distinct, counts = np.unique(values, return_counts=True)
    return numeric.levels(about, values, ordered=are_levels(distinct, counts) and not named_code(about.name))


def _boolean(about: ColumnFacts) -> Column:
    form, common = about.given.form, about.common("boolean" if about.missing else "bool")
    if form == "boolean":
        return BooleanColumn(**common)
    if form == "text":
        texts = sorted(about.present)
        if len(texts) != 2:
            raise _cannot(about, "boolean", "its texts are not two", "name those that stand for a missing value")
        false = [text for text in texts if text.strip().lower() in _FALSE] or texts
        return BooleanColumn(tokens=(false[0], next(text for text in texts if text != false[0])), **common)
    if form in ("integer", "real") and set(np.unique(about.present).tolist()) <= {0, 1}:
        return BooleanColumn(**common)
    raise _cannot(about, "boolean", "its values are not 0 and 1, or two texts", "convert it")


def _date(about: ColumnFacts) -> Column:
    column = _moments(about, "date")
    if not column.is_date:
        raise _cannot(about, "date", "its times are not all midnight", 'choose kind="datetime"')
    return column


def _datetime(about: ColumnFacts) -> Column:
    column = _moments(about, "datetime")
    if not column.is_date:
        return column
    bounds = tuple(np.datetime64(bound, "us").item() for bound in column.bounds)
    form = column.format if about.given.form == "text" else None
    return DatetimeColumn(bounds=bounds, format=form, precision="h", missing=column.missing, dtype=column.dtype)


def _moments(about: ColumnFacts, kind: str) -> Column:
    form = about.given.form
    column: Column | None = None
    if form == "time":
        column = temporal.of_stamps(about)
    elif form in ("text", "integer", "real"):
        column = temporal.of_digits(about) or (temporal.of_texts(about) if form == "text" else None)
    elif form == "mixed" and not any(isinstance(cell, str | int | float) for cell in about.present):
        column = temporal.of_objects(about)
    if column is None or not column.is_time:
        raise _cannot(about, kind, "its values are no days or times of one known form", "convert it to ISO 8601")
    return column


def _span(about: ColumnFacts, kind: str) -> Column:
    form = about.given.form
    read = {"text": spans.of_texts, "mixed": spans.of_objects}.get(form, spans.of_digits)
    column = read(about) or (spans.of_digits(about) if form == "text" else None)
    if column is None:
        raise _cannot(about, kind, "its values are no times of day or durations of one known form", "convert it")
    return KINDS[kind](**{key: value for key, value in dict(column).items() if key != "kind"})


def _identifier(about: ColumnFacts) -> Column:
    if about.given.form == "text" and not (about.from_text and numeric.are_whole(about.present)):
        return IdentifierColumn(template=template_of(about.present) or digits(about), **about.common("object"))
    if about.given.form not in ("text", "integer", "real"):
        raise _cannot(about, "identifier", "it holds neither texts nor whole numbers", "convert it")
    return numeric.identifier(about, _whole(about, "identifier"))


def _personal(about: ColumnFacts) -> Column:
    column = personal.propose(about, few=False) or personal.propose_prose(about)
    if column is None:
        raise _cannot(about, "personal", "its name and values do not say what it holds", "write it into the schema")
    return column


_MADE: Mapping[str, Callable[[ColumnFacts], Column]] = {
    "integer": lambda about: numeric.integer(about, _whole(about, "integer")),
    "real": lambda about: numeric.real(about, _numbers(about, "real")),
    "weight": lambda about: numeric.weight(about, _numbers(about, "weight")),
    "categorical": _categorical,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
    "clock": lambda about: _span(about, "clock"),
    "duration": lambda about: _span(about, "duration"),
    "identifier": _identifier,
    "personal": _personal,
    "text": lambda about: TextColumn(drop=True, **about.common("object")),
}
