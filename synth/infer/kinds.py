"""Which kind a column is proposed to be."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np

from synth.columns import INT64, BooleanColumn, CategoricalColumn, Column, IdentifierColumn, TextColumn
from synth.errors import TableError
from synth.infer import numbers, personal, times
from synth.infer.facts import Facts
from synth.infer.identifiers import template_of
from synth.table.given import EXACT_FLOAT
from synth.texts import is_plain

FEW = 20
"""So many distinct texts are categories in any table."""
MANY = 2_000
"""More distinct texts than this are never categories."""
TOKENS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))


def propose(about: Facts) -> Column:
    """The proposed kind of a column, with its bounds or categories.

    Raises:
        TableError: it mixes types, holds infinite values, or has categories that no schema can list.
    """
    if about.role == "entity":
        return _entity(about)
    if about.n_present == 0:
        return CategoricalColumn(categories=(), **about.common("object") | {"missing": True})
    found = personal.propose(about, few=_few(about)) if about.role is None else None
    if found is not None:
        return found
    return _listed(about) if about.categories_declared else _of_form(about)


def _of_form(about: Facts) -> Column:
    form = about.given.form
    if form == "boolean":
        return BooleanColumn(**about.common("boolean" if about.missing else "bool"))
    if form in ("integer", "real"):
        return numbers.propose(about, about.present)
    if form == "time":
        return times.of_stamps(about)
    return _of_text(about) if form == "text" else _of_objects(about)


def _listed(about: Facts) -> Column:
    """A column whose dtype lists its categories."""
    levels = about.present.tolist()
    if about.given.form == "boolean":
        return BooleanColumn(**about.common("bool"))
    if about.given.form not in ("text", "integer"):
        if about.given.form == "real":
            return numbers.propose(about, about.per_row)
        raise TableError(
            f"categories must be all texts or all whole numbers: column={about.name!r} has others; convert it first"
        )
    return categorical(about, levels, ordered=about.ordered)


def categorical(about: Facts, values: list[Any], *, ordered: bool) -> CategoricalColumn:
    """Categories as they are listed.

    Raises:
        TableError: no schema can list one of them.
    """
    if not all(is_plain(value) for value in values if isinstance(value, str)):
        # No schema lists such a text, and a fit without a budget refuses the table: better said here.
        raise TableError(
            f"a category holds neither a NUL character nor half a surrogate pair: column={about.name!r} has texts that "
            "do; replace them in the table, or drop the column"
        )
    return CategoricalColumn(categories=tuple(values), ordered=ordered, **about.common("object"))


def _of_text(about: Facts) -> Column:
    if about.from_text:
        for tokens in TOKENS:
            if set(about.present) <= set(tokens):
                return BooleanColumn(tokens=tokens, **about.common("bool"))
        days = None if about.named_identifier else times.of_digits(about)
        values = None if days is not None else numbers.of_texts(about.present, about.name)
        if days is not None:
            return days
        if values is not None:
            rows = values[np.unique(about.codes[about.codes >= 0], return_inverse=True)[1]]
            return numbers.propose(about, rows)
    moments = times.of_texts(about)
    if moments is not None:
        return moments
    return _of_plain_text(about)


def _of_plain_text(about: Facts) -> Column:
    template = template_of(about.present) if about.role is None else None
    telling = about.named_identifier or any(character.isdigit() for character in str(about.present[0]))
    if about.unique and template is not None and telling and about.n_present >= 10:
        return IdentifierColumn(template=template, **about.common("object"))
    if _few(about) or about.role == "target":
        return categorical(about, sorted(about.present), ordered=False)
    if about.named_identifier:
        return IdentifierColumn(template=template, drop=template is None, **about.common("object"))
    return personal.propose_prose(about) or TextColumn(drop=True, **about.common("object"))


def _few(about: Facts) -> bool:
    """Whether so few texts repeat themselves that they are categories."""
    distinct, rows = about.n_distinct, about.n_present
    return distinct <= FEW or (distinct <= 50 and distinct <= rows / 2) or (distinct <= MANY and distinct <= rows / 20)


def _of_objects(about: Facts) -> Column:
    """Python objects of more than one type, or of one that is neither text nor a number of the machine."""
    types = {type(cell) for cell in about.present}
    if all(issubclass(t, dt.date | np.datetime64) for t in types):
        return times.of_objects(about)
    if any(isinstance(cell, int | np.integer) and not INT64[0] <= cell <= INT64[1] for cell in about.present):
        raise TableError(f"whole numbers must fit 64 bits: column={about.name!r} has larger ones; convert it to text")
    if types <= {Decimal, int, float}:
        return numbers.propose(about, np.array([float(cell) for cell in about.present]))
    what = "mixes" if len(types) > 1 else "holds"
    names = ", ".join(sorted(t.__name__ for t in types))
    raise TableError(f"a column must hold one type of value: column={about.name!r} {what} {names}; convert it")


def _entity(about: Facts) -> Column:
    if about.missing:
        raise TableError(
            f"every row needs an entity: entity={about.name!r} has missing values; fill them or choose another"
        )
    values = _whole(about)
    if values is not None:
        return numbers.identifier(about, values)
    if about.given.form != "text":
        raise TableError(
            f"an entity must be text or whole numbers: entity={about.name!r} is neither, or held as floats that do not "
            "tell such large ones apart; choose another, or convert it"
        )
    return IdentifierColumn(template=template_of(about.present) or digits(about), **about.common("object"))


def digits(about: Facts) -> str:
    """A template of digits, with room for a thousand times as many identifiers as there are rows."""
    return "#" * max(9, len(str(len(about.codes))) + 3)


def _whole(about: Facts) -> np.ndarray | None:
    """A column's values as int64 where all are whole numbers that are told apart as they are held; else none."""
    values: Any = about.present
    if about.from_text and about.given.form == "text":
        values = numbers.of_texts(values, about.name)
    if values is None or values.dtype.kind not in "if":
        return None
    if values.dtype.kind == "f" and not (np.all(values == np.rint(values)) and np.abs(values).max() <= EXACT_FLOAT):
        return None
    return values.astype(np.int64)  # type: ignore[no-any-return]
