"""What `infer` read off a table, noted in the file of the proposed schema, and how much of it nobody has touched since.

A note is a short digest of one limit: enough to tell whether the limit is still the same. It is never in a declared
schema, and a file that holds notes is as internal as the limits themselves.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError

from synth.columns import Column, IdentifierColumn, is_measured, measures_spikes
from synth.errors import SchemaError
from synth.schema import Schema
from synth.validation import Frozen, sentence

DIGITS = 3
"""Of a note, in hexadecimal: one limit in 4,096 that was changed passes for unchanged, which costs a needless warning.
More of them would tell more of a limit that somebody has replaced."""

Note = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{DIGITS}}}$")]


class ReadOff(Frozen):
    """What was read off a table when a schema was proposed: a note for each limit."""

    max_rows_per_unit: Note | None = Field(default=None, description="Of the rows of one entity, where there is one.")
    constant_in_entity: Note | None = Field(default=None, description="Of the columns, where there are any.")
    columns: dict[str, dict[str, Note]] = Field(default_factory=dict, description="Of every column's limits, by name.")


def read_off(schema: Schema) -> ReadOff:
    """Notes of all limits of a schema that was just proposed from a table.

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [17, 90]}}})
    >>> read_off(schema).columns
    {'age': {'lower': '452', 'upper': '69f'}}
    """
    limits = {name: {key: _note(value) for key, value in _limits(c).items()} for name, c in schema.columns.items()}
    table = {key: _note(value) for key, value in _table_limits(schema).items()}
    return ReadOff(columns={name: notes for name, notes in limits.items() if notes}, **table)


def build_read_off(content: Any) -> ReadOff:
    """Notes from plain data, as the file of a proposed schema holds them.

    Raises:
        SchemaError: the content is no notes.
    """
    try:
        return ReadOff.model_validate(content)
    except ValidationError as error:
        raise SchemaError(f"read_off: {sentence(error, ReadOff)}") from None


def unconfirmed(proposed: Schema, declared: Schema, known: ReadOff | None) -> list[tuple[str | None, str]]:
    """What declaring a schema asserts though nobody has touched it since it was read off a table.

    Args:
        proposed: as its file has it.
        declared: what is to be declared; what is dropped or measured in it asserts no limits.
        known: the notes in the file of the proposed schema; none: there are none, so that nobody can tell.

    Returns:
        A column, none for the table as a whole, and a sentence without full stop, which holds no value.
    """
    if proposed.status == "declared":
        return []
    found: list[tuple[str | None, str]] = [*_of_columns(proposed, declared, known)]
    found += [(None, text) for text in _of_table(declared, known)]
    kept = set(map(str, declared.constraints))
    found += [
        (None, f"`infer` proposed from the table that {constraint}, and nobody has confirmed that")
        for constraint in proposed.constraints
        if constraint.proposed is not None and str(constraint) in kept
    ]
    return found


def _of_columns(proposed: Schema, declared: Schema, known: ReadOff | None) -> Iterator[tuple[str, str]]:
    for name, column in declared.columns.items():
        if column.drop or is_measured(column):
            continue
        limits = _limits(column)
        if HABITS in limits and measures_spikes(column):  # steps stay, and were noted with the spikes beside them
            limits[HABITS] = [*limits[HABITS][:2], proposed.columns[name].spikes]  # type: ignore[union-attr]
        notes = {} if known is None else known.columns.get(name, {})
        same = [key for key, value in limits.items() if known is None or notes.get(key) == _note(value)]
        for part in ([key for key in same if key != HABITS], [key for key in same if key == HABITS]):
            if part:
                yield name, _sentence(column, part, known)


def _sentence(column: Column, same: list[str], known: ReadOff | None) -> str:
    what, tells = _TOLD["both" if len(same) == 2 else same[0]]
    of = " of these identifiers" if isinstance(column, IdentifierColumn) else ""
    return f"{_stands(what + of, known)}: {tells}"


HABITS = "habits"
"""Key of the note on steps, their shares and spikes."""
_TOLD = {
    "both": ("the bounds", "each may be one unit's own"),
    "lower": ("the lower bound", "it may be one unit's own"),
    "upper": ("the upper bound", "it may be one unit's own"),
    "categories": ("the categories", "the rarest may be one unit's own"),
    HABITS: ("steps and frequent values", "rows decide which they are, and one entity's may be enough"),
    "template": ("the template", "it shows what all of them have in common"),
}
"""What a limit is called, and what it may tell."""


def _of_table(declared: Schema, known: ReadOff | None) -> Iterator[str]:
    for key, value in _table_limits(declared).items():
        if known is None or getattr(known, key) == _note(value):
            yield _stands(key, known)


def _stands(what: str, known: ReadOff | None) -> str:
    if known is None:
        return f"{what} may have been read off the table"
    return f"`infer` read {what} off the table, and nobody has changed that"


def _limits(column: Column) -> dict[str, Any]:
    """Parts of a column that may have been read off its values."""
    bounds, template = getattr(column, "bounds", None), getattr(column, "template", None)
    if bounds is not None:
        habits = [getattr(column, key, ()) for key in ("steps", "step_shares", "spikes")]
        return {"lower": bounds[0], "upper": bounds[1], **({HABITS: habits} if any(habits) else {})}
    categories = sorted(getattr(column, "categories", ()), key=str)
    return {key: value for key, value in (("categories", categories), ("template", template)) if value}


def _table_limits(schema: Schema) -> dict[str, Any]:
    """What of a table as a whole may have been read off its rows."""
    if schema.entity is None:
        return {}
    constant = {"constant_in_entity": sorted(schema.constant_in_entity)} if schema.constant_in_entity else {}
    return {"max_rows_per_unit": schema.max_rows_per_unit, **constant}


def _note(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:DIGITS]
