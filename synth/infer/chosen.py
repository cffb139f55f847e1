"""Columns of a kind that the user chose: bounds, categories and form are still read off the table."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from synth.columns import (
    KINDS,
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    TextColumn,
)
from synth.errors import SchemaError, nearest
from synth.infer import kinds as proposed
from synth.infer import numbers, personal, times
from synth.infer.codes import are_levels, named_code
from synth.infer.facts import Facts
from synth.infer.identifiers import template_of

NUMBERS = ("integer", "real", "weight")
"""Kinds that numbers are looked for in texts for."""
_FALSE = ("0", "n", "no", "f", "false", "off", "-", "none")
"""Texts that say no, in lower case."""


def check_kinds(kinds: Mapping[str, str], names: list[str], entity: str | None) -> None:
    """Refuse kinds that there are not, and kinds of columns that there are not.

    Raises:
        SchemaError: as said; nothing was proposed.
    """
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


def as_kind(about: Facts, kind: str) -> Column:
    """A column of the kind that the user chose.

    Args:
        about: the column; its role is not the entity.
        kind: one of `KINDS`.

    Raises:
        SchemaError: its values are none of this kind; nothing was proposed.
        TableError: it has values that no schema can list.
    """
    if about.n_present == 0 and kind not in ("categorical", "text"):
        raise _cannot(about, kind, "it holds no value", 'choose kind="categorical"')
    return _MADE[kind](about)


def _cannot(about: Facts, kind: str, reason: str, remedy: str) -> SchemaError:
    return SchemaError(f"column={about.name!r} cannot be of kind={kind!r}: {reason}; {remedy}, or leave its kind out")


def _numbers(about: Facts, kind: str) -> np.ndarray:
    """The number of each row that has one, int64 where all are whole, else float64."""
    values: Any = about.per_row
    if about.given.form == "text":
        found = numbers.of_texts(about.present, about.name)
        if found is None:
            raise _cannot(about, kind, "some of its texts are no numbers", "name those that stand for a missing value")
        values = found[np.unique(about.codes[about.codes >= 0], return_inverse=True)[1]]
    elif about.given.form == "mixed":
        if not all(isinstance(cell, int | float | np.number) for cell in values):
            raise _cannot(about, kind, "it holds values that are no numbers", "convert it")
        values = np.array([float(cell) for cell in values])
    if values.dtype.kind not in "iufb":
        raise _cannot(about, kind, "its values are no numbers", "convert it")
    numbers.check_finite(about.name, values)
    whole = values.dtype.kind != "f" or (np.all(values == np.rint(values)) and np.abs(values).max() < 2.0**63)
    return np.asarray(values.astype(np.int64 if whole else np.float64))


def _whole(about: Facts, kind: str) -> np.ndarray:
    values = _numbers(about, kind)
    if values.dtype.kind == "f":
        raise _cannot(about, kind, "it holds fractions, or numbers beyond 64 bits", 'choose kind="real"')
    return values


def _integer(about: Facts) -> Column:
    return numbers.integer(about, _whole(about, "integer"))


def _real(about: Facts) -> Column:
    return numbers.real(about, _numbers(about, "real"))


def _weight(about: Facts) -> Column:
    return numbers.weight(about, _numbers(about, "weight"))


def _categorical(about: Facts) -> Column:
    form = about.given.form
    if about.n_present == 0:
        return CategoricalColumn(categories=(), **about.common("object") | {"missing": True})
    if form == "text" and not (about.from_text and numbers.are_whole(about.present)):
        return proposed.categorical(about, sorted(about.present), ordered=about.ordered)
    if form not in ("text", "integer", "real", "boolean"):
        raise _cannot(about, "categorical", "categories are texts or whole numbers", "convert it to text")
    values = _whole(about, "categorical")
    distinct, counts = np.unique(values, return_counts=True)
    return numbers.levels(about, values, ordered=are_levels(distinct, counts) and not named_code(about.name))


def _boolean(about: Facts) -> Column:
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


def _date(about: Facts) -> Column:
    column = _moments(about, "date")
    if not isinstance(column, DateColumn):
        raise _cannot(about, "date", "its times are not all midnight", 'choose kind="datetime"')
    return column


def _datetime(about: Facts) -> Column:
    column = _moments(about, "datetime")
    if isinstance(column, DatetimeColumn):
        return column
    bounds = tuple(np.datetime64(bound, "us").item() for bound in column.bounds)
    form = column.format if about.given.form == "text" else None
    return DatetimeColumn(bounds=bounds, format=form, precision="h", missing=column.missing, dtype=column.dtype)


def _moments(about: Facts, kind: str) -> DateColumn | DatetimeColumn:
    form, column = about.given.form, None
    if form == "time":
        column = times.of_stamps(about)
    elif form == "text":
        column = times.of_digits(about) or times.of_texts(about)
    elif form == "mixed" and not any(isinstance(cell, str | int | float) for cell in about.present):
        column = times.of_objects(about)
    if not isinstance(column, DateColumn | DatetimeColumn):
        raise _cannot(about, kind, "its values are no days or times of one known form", "convert it to ISO 8601")
    return column


def _identifier(about: Facts) -> Column:
    if about.given.form == "text" and not (about.from_text and numbers.are_whole(about.present)):
        return IdentifierColumn(template=template_of(about.present) or proposed.digits(about), **about.common("object"))
    if about.given.form not in ("text", "integer", "real"):
        raise _cannot(about, "identifier", "it holds neither texts nor whole numbers", "convert it")
    return numbers.identifier(about, _whole(about, "identifier"))


def _personal(about: Facts) -> Column:
    column = personal.propose(about, few=False) or personal.propose_prose(about)
    if column is None:
        raise _cannot(about, "personal", "its name and values do not say what it holds", "write it into the schema")
    return column


def _text(about: Facts) -> Column:
    return TextColumn(drop=True, **about.common("object"))


_MADE: Mapping[str, Callable[[Facts], Column]] = {
    "integer": _integer, "real": _real, "weight": _weight, "categorical": _categorical, "boolean": _boolean,
    "date": _date, "datetime": _datetime, "identifier": _identifier, "personal": _personal, "text": _text,
}  # fmt: skip
