"""Column kinds, proposed from the data or chosen by the user, and texts that stand for a missing value."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from synth.errors import SchemaError, TableError, nearest
from synth.identifiers import ALPHABETS
from synth.infer import numeric, personal
from synth.infer.amounts import has_point_thousands, read_amounts
from synth.infer.facts import ColumnFacts, RawColumn
from synth.infer.numeric import are_codes, are_levels, named_code
from synth.infer.times import (
    propose_span,
    propose_time,
    read_times,
    set_apart,
    spans_of_digits,
    spans_of_texts,
    times_of_digits,
    times_of_texts,
)
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
from synth.table.typed_cells import as_objects, cell_text
from synth.validation import is_plain

MISSING_TEXTS = frozenset({
    "n", "na", "n/a", "n.a.", "n.a", "<na>", "#n/a", "nan", "null", "(null)", "\\n", "none", "nil", "nd", "missing",
    "(missing)", "unknown", "unk", "undefined", "unspecified", "?", "??", "-", "--", "---", ".", "..", "...", "*",
    "not available", "not applicable", "not reported", "not known", "no data",
})  # fmt: skip
"""Words that people write where there is nothing, in lower case."""
LEAST_VALUES = 2  # different values beside such a text that say what a column holds


def missing_texts_of(
    looked: Mapping[str, RawColumn], listed: Collection[str], readable: Collection[str], roles: Collection[str]
) -> tuple[str, ...]:
    """Texts of a table that stand for a missing value, most frequent first; the empty one where there is nothing.

    A word says that nothing is there if all other texts of its column are numbers, or times. It then says so in every
    column. Among texts alone a word is a category like others. It is one everywhere where it is a value of the target
    or of the entity, and these hold texts.
    """
    if isinstance(listed, str):
        raise SchemaError(f"missing_values={listed!r} must be a list of texts; write [{listed!r}]")
    counted = {name: _counts(raw) for name, raw in looked.items() if raw.form == "text"}
    missing, values = set[str](), set[str]()
    for name, known in counted.items():
        words = {text for text in known if text.strip().lower() in MISSING_TEXTS or text in listed}
        if name in readable and words and _tell(sorted(known.keys() - words)):
            missing |= words
        elif name in roles:
            values |= words
    tokens = (missing - values) | set(listed)
    if not tokens:
        return ("",)
    counts = Counter[str]({"": sum(int(raw.missing_rows.sum()) for raw in looked.values())})
    for known in counted.values():
        counts.update({text: n for text, n in known.items() if text in tokens})
    shown = [text for text in (*sorted(tokens), "") if counts[text] or text in listed]
    return tuple(sorted(dict.fromkeys(shown), key=lambda text: -counts[text]))


def _tell(texts: list[str]) -> bool:
    """True if texts beside words say that a column holds numbers or times."""
    return len(texts) >= LEAST_VALUES and (
        numeric.are_numbers(texts) or read_times(texts) is not None or read_amounts(dict.fromkeys(texts, 1)) is not None
    )


def _counts(raw: RawColumn) -> dict[str, int]:
    """The rows of each text that is not empty."""
    assert raw.codes is not None
    n_rows = np.bincount(raw.codes[raw.codes >= 0], minlength=len(raw.cells))
    return {text: n for text, n in zip(raw.cells.tolist(), n_rows.tolist(), strict=True) if n and text}


def texts_of_mixed(raw: RawColumn) -> np.ndarray | None:
    """Numbers and texts such as ``<5`` as texts; `None` where a column is no such mixture."""
    if raw.form != "mixed" or not any(isinstance(cell, str) for cell in raw.cells):
        return None
    real = RealColumn(bounds=(0.0, 0.0))
    shown = [None if gone else cell_text(c, real) for c, gone in zip(raw.cells, raw.missing_rows, strict=True)]
    counts = Counter(text for text in shown if text is not None and text.strip().lower() not in MISSING_TEXTS)
    return as_objects(shown) if counts and read_amounts(counts) is not None else None


def numbers_beside(raw: RawColumn, tokens: Collection[str]) -> bool:
    """True of texts that are all numbers, but for some that stand for a missing value."""
    texts = _counts(raw).keys() if raw.form == "text" else set[str]()
    others = sorted(texts - {*tokens})
    return 0 < len(others) < len(texts) and numeric.are_numbers(others)


_ALPHABETS = ("#", "A", "a", "x", "X")  # from the narrowest to the widest
_LONGEST_TEMPLATE = 80
_NUMBER_RUN = re.compile(r"[0-9]*#[0-9#]*")
"""A run of digits of which one varies: all of them do, or there would be no room for new numbers."""


def template_of(texts: Sequence[str]) -> str | None:
    """The narrowest template that all (distinct) texts follow, or `None` where they follow none.

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


def propose(about: ColumnFacts, kind: str | None = None) -> Column:
    """The column of the kind that values, form and name speak for, or of the one that was chosen."""
    if about.role == "target" and about.n_distinct < 2:
        raise TableError(f"column={about.name!r} is the target and has one value at most; choose a target that varies")
    if about.role == "entity":
        return _entity(about)
    if kind is not None:
        return as_kind(about, kind)
    if about.n_present == 0:
        return _without_values(about)
    if about.names_rows and about.n_present > 1:
        return IdentifierColumn(drop=True, **about.common("object"))
    own = (each.propose(about) for each in KINDS.values())
    proposed: Column | None = next((column for column in own if column is not None), None)
    if proposed is None and about.role is None:
        proposed = personal.propose(about, few=_few(about))
    if proposed is None:
        column = _listed(about) if about.categories_declared else _of_form(about)
        proposed = set_apart(column, about) if column.is_time else column
    return proposed


def _without_values(about: ColumnFacts) -> Column:
    return CategoricalColumn(categories=(), **about.common("object") | {"missing": True})


def _listed(about: ColumnFacts) -> Column:
    """A column of a dtype that lists categories."""
    form = about.raw.form
    if form in ("text", "integer"):
        return categorical(about, about.present.tolist(), ordered=about.ordered)
    if form == "boolean":
        return BooleanColumn(**about.common("bool"))
    if form == "real":
        return numeric.propose(about, about.per_row)
    raise TableError(
        f"categories must be all texts or all whole numbers: column={about.name!r} has others; convert it first"
    )


def categorical(about: ColumnFacts, values: list[Any], *, ordered: bool) -> CategoricalColumn:
    if not all(is_plain(value) for value in values if isinstance(value, str)):
        # No schema lists such a text, and a fit without a budget refuses the table: better said here.
        raise TableError(
            f"a category holds neither a NUL character nor half a surrogate pair: column={about.name!r} has texts that "
            "do; replace them in the table, or drop the column"
        )
    return CategoricalColumn(categories=tuple(values), ordered=ordered, **about.common("object"))


def _of_form(about: ColumnFacts) -> Column:
    form = about.raw.form
    if form == "boolean":
        return BooleanColumn(**about.common("boolean" if about.missing else "bool"))
    if form == "text":
        return _of_text(about)
    column = propose_time(about) or propose_span(about)
    return column or (_of_objects(about) if form == "mixed" else numeric.propose(about, about.present))


def _of_text(about: ColumnFacts) -> Column:
    if about.from_text:
        for tokens in TOKENS:
            if set(about.present) <= set(tokens):
                return BooleanColumn(tokens=tokens, **about.common("bool"))
        if (column := times_of_digits(about) or spans_of_digits(about)) is not None:
            return column
        values = None if has_point_thousands(about.present) else numeric.numbers_of(about)
        if values is not None:
            return numeric.propose(_as_written(about), values)
    return times_of_texts(about) or spans_of_texts(about) or _of_amounts(about) or _of_plain_text(about)


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
    per_row = values[rows][~np.isnan(values[rows])]
    about = replace(about, written=known.fields)
    is_whole = all(number == int(number) for number in known.numbers.values())
    if not is_whole or np.abs(per_row).max() >= numeric.EXACT_FLOAT:
        return numeric.real(about, per_row)
    whole = per_row.astype(np.int64)
    is_code = plain and are_codes(about.name, *np.unique(whole, return_counts=True))
    return None if is_code else numeric.integer(about, whole)


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
    distinct, rows = about.n_distinct, about.n_present
    return distinct <= FEW or (distinct <= 50 and distinct <= rows / 2) or (distinct <= MANY and distinct <= rows / 20)


def is_long_list(column: Column, about: ColumnFacts) -> bool:
    return column.is_categorical and about.raw.form == "text" and about.role is None and not _few(about)


def repeats(about: ColumnFacts, owners: np.ndarray | None = None) -> bool:
    """True of codes: most rows, or entities, have a value that several others have, too, however many there are."""
    codes = about.codes[about.codes >= 0]
    if owners is not None:
        codes = np.unique(np.stack([codes, owners[about.codes >= 0]]), axis=1)[0]
    counts = np.bincount(codes)
    return bool(about.n_distinct <= MANY and counts[counts >= OFTEN].sum() >= len(codes) / 2)


def _of_objects(about: ColumnFacts) -> Column:
    """Python objects of more than one type, or of one that is neither text nor a number of the machine."""
    if any(isinstance(cell, int | np.integer) and not INT64[0] <= cell <= INT64[1] for cell in about.present):
        raise TableError(f"whole numbers must fit 64 bits: column={about.name!r} has larger ones; convert it to text")
    types = {type(cell) for cell in about.present}
    if types <= {Decimal, int, float}:
        return numeric.propose(about, np.array([float(cell) for cell in about.present]))
    names = ", ".join(sorted(t.__name__ for t in types))
    raise TableError(f"a column must hold one type of value: column={about.name!r} holds {names}; convert it")


def _entity(about: ColumnFacts) -> Column:
    if about.missing:
        raise TableError(
            f"every row needs an entity: entity={about.name!r} has missing values; fill them or choose another"
        )
    column = _identifier(about)
    if column is None:
        raise TableError(
            f"an entity must be text or whole numbers: entity={about.name!r} is neither, or held as floats that do not "
            "tell such large ones apart; choose another, or convert it"
        )
    return column


def _identifier(about: ColumnFacts) -> Column | None:
    form = about.raw.form
    values = numeric.numbers_of(about) if form in ("text", "integer", "real") else None
    if (
        values is not None
        and values.dtype.kind == "i"
        and (form != "real" or np.abs(values).max() <= numeric.EXACT_FLOAT)
    ):
        return numeric.identifier(about, values)
    if form != "text":
        return None
    # Digits with room for a thousand times as many identifiers as there are rows.
    template = template_of(about.present) or "#" * max(9, len(str(len(about.codes))) + 3)
    return IdentifierColumn(template=template, **about.common("object"))


NUMBERS = ("integer", "real", "weight")  # kinds that numbers are looked for in texts for
_FALSE = ("0", "n", "no", "f", "false", "off", "-", "none")  # texts that say no, in lower case


def check_kinds(kinds: Mapping[str, str], names: list[str], entity: str | None) -> None:
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
    """The column of the kind that somebody chose."""
    if about.n_present or kind in ("categorical", "text"):
        reason, column = "its values have not that form", (_CHOSEN.get(kind) or KINDS[kind].propose)(about)
    else:
        reason, column = "it holds no value", None
    if column is None:
        raise SchemaError(
            f"column={about.name!r} cannot be of kind={kind!r}: {reason}; convert it, name the texts that stand for a "
            "missing value, choose another kind, or leave its kind out"
        )
    return column


def _of_numbers(about: ColumnFacts, make: Callable[[ColumnFacts, np.ndarray], Column]) -> Column | None:
    values = numeric.numbers_of(about)
    is_fraction = values is not None and values.dtype.kind == "f" and make is numeric.integer
    return None if values is None or is_fraction else make(about, values)


def _categorical(about: ColumnFacts) -> Column | None:
    if about.n_present == 0:
        return _without_values(about)
    is_text = about.raw.form == "text"
    values = None if about.raw.form == "mixed" else numeric.numbers_of(about)
    if values is None or (is_text and values.dtype.kind == "f"):
        return categorical(about, sorted(about.present), ordered=about.ordered) if is_text else None
    ordered = are_levels(*np.unique(values, return_counts=True)) and not named_code(about.name)
    return numeric.levels(about, values, ordered=ordered) if values.dtype.kind == "i" else None


def _boolean(about: ColumnFacts) -> Column | None:
    form, fields = about.raw.form, about.common("boolean" if about.missing else "bool")
    if form == "text":
        texts = sorted(sorted(about.present), key=lambda text: text.strip().lower() not in _FALSE)
        return BooleanColumn(tokens=tuple(texts), **fields) if len(texts) == 2 else None
    if form in ("integer", "real") and not set(np.unique(about.present).tolist()) <= {0, 1}:
        return None
    return BooleanColumn(**fields) if form in ("boolean", "integer", "real") else None


def _date_or_datetime(about: ColumnFacts, kind: str) -> Column | None:
    column = propose_time(about)
    if column is None or column.kind == kind:
        return column
    if kind == "date":
        return None  # it has a clock
    bounds = tuple(np.datetime64(bound, "us").item() for bound in column.bounds)
    form = column.format if about.raw.form == "text" else None
    return DatetimeColumn(bounds=bounds, format=form, precision="h", missing=column.missing, dtype=column.dtype)


def _span(about: ColumnFacts, kind: str) -> Column | None:
    column = propose_span(about)
    return column and KINDS[kind](**{key: value for key, value in dict(column).items() if key != "kind"})


def _text(about: ColumnFacts) -> Column:
    # Characters that 99% of the texts have at most, to the next twenty: the longest text is nobody's business.
    lengths = [len(str(text)) for text in about.raw.cells] or [0]
    length = int(np.clip(20 * np.ceil(np.quantile(lengths, 0.99) / 20), 20, 20_000))
    return TextColumn(drop=True, length=length, **about.common("object"))


_CHOSEN: Mapping[str, Callable[[ColumnFacts], Column | None]] = {
    "integer": lambda about: _of_numbers(about, numeric.integer),
    "real": lambda about: _of_numbers(about, numeric.real),
    "weight": lambda about: _of_numbers(about, numeric.weight),
    "categorical": _categorical,
    "boolean": _boolean,
    "date": lambda about: _date_or_datetime(about, "date"),
    "datetime": lambda about: _date_or_datetime(about, "datetime"),
    "clock": lambda about: _span(about, "clock"),
    "duration": lambda about: _span(about, "duration"),
    "identifier": _identifier,
    "personal": lambda about: personal.propose(about, few=False) or personal.propose_prose(about),
    "text": _text,
}
