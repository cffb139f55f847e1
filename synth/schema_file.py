"""Schemas as TOML files: one table a column, in the order of the columns, then one a constraint.

A file that `infer` proposed also holds *notes*: a short digest of each limit that was read off the table. They tell how
many of the limits nobody has touched since. A declared schema never holds notes, and a file with notes is as internal
as the limits themselves.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, ValidationError

from synth.columns import Column, IdentifierColumn, is_measured, measures_spikes
from synth.errors import SchemaError
from synth.output import whole_file
from synth.parsing import GivenFile, read_given
from synth.schema import Schema, build_schema
from synth.validation import Frozen, parse_toml, sentence

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


_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDTH = 110
NOTES = "read_off"
"""The table of the file in which `infer` notes what it read off."""
_SAID = """\
# What was read off the table, by short digests. `understudy schema declare` warns of each limit above that is still the
# same, and writes none of this.
"""


def read_schema(path: str | Path) -> Schema:
    """The schema that a TOML file holds.

    Raises:
        SchemaError: the file is not there, is not TOML, or is not a schema; the message names the place.
    """
    return schema_of(read_given(Path(path), "schema", SchemaError))


def schema_of(given: GivenFile) -> Schema:
    """The schema in a TOML file that was read.

    Raises:
        SchemaError: it is not TOML, or is not a schema; the message names the place.
    """
    return _parts(given)[0]


def read_proposal(path: str | Path) -> tuple[Schema, ReadOff | None]:
    """The schema that a TOML file holds, and what it notes of how `infer` read it off a table; none: no notes.

    Raises:
        SchemaError: as `read_schema`.
    """
    return _parts(read_given(Path(path), "schema", SchemaError))


def _parts(given: GivenFile) -> tuple[Schema, ReadOff | None]:
    content = parse_toml(given, "schema", SchemaError)
    noted = content.pop(NOTES, None)
    try:
        schema = build_schema(content)
        if noted is None:
            return schema, None
        if schema.status == "declared":
            raise SchemaError(
                f"{NOTES} is what `infer` noted of a table, and a declared schema holds none; leave "
                'status = "inferred" and pass the file to `understudy schema declare`'
            )
        return schema, build_read_off(noted)
    except SchemaError as error:
        raise SchemaError(f"{error} (path={str(given.path)!r})") from None


def write_schema(schema: Schema, path: str | Path, noted: ReadOff | None = None) -> None:
    """Write a schema as a TOML file, whole or not at all; an older file is replaced.

    Args:
        schema: to write.
        path: of the file.
        noted: what was read off a table when the schema was proposed; none: no notes are written.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
    content = (to_toml(schema) + ("" if noted is None else f"\n{_notes(noted)}")).encode()
    with whole_file(Path(path)) as beside:
        beside.write_bytes(content)


def to_toml(schema: Schema) -> str:
    """The text of a schema file: defaults left out, columns in order.

    >>> print(to_toml(build_schema({"status": "declared", "columns": {"home city": {"kind": "text", "drop": True}}})))
    format = 1
    status = "declared"
    <BLANKLINE>
    [columns."home city"]
    kind = "text"
    drop = true
    <BLANKLINE>
    """
    head = {"format": schema.format, "status": schema.status}
    head |= schema.model_dump(exclude_defaults=True, exclude={"format", "status", "columns", "constraints"})
    blocks = [_lines(head)]
    for name, column in schema.columns.items():
        content = {"kind": column.kind} | column.model_dump(exclude_defaults=True, exclude=_understood(column))
        blocks.append(f"[columns.{_key(name)}]\n{_lines(content)}")
    for constraint in schema.constraints:
        content = {"kind": constraint.kind} | constraint.model_dump(exclude_defaults=True)
        blocks.append(f"[[constraints]]\n{_lines(content)}")
    return "\n".join(blocks)


def _notes(noted: ReadOff) -> str:
    content = noted.model_dump(exclude_none=True)
    columns = content.pop("columns")
    lines = "".join(f"{_key(name)} = {_scalar_table(notes)}\n" for name, notes in columns.items())
    head = f"{_SAID}[{NOTES}]\n{_lines(content)}"
    return f"{head}\n[{NOTES}.columns]\n{lines}" if lines else head


def _scalar_table(content: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {_scalar(value)}' for key, value in content.items())} }}"


def _understood(column: Column) -> set[str]:
    """What needs no line: the domain of a column to measure, where nothing narrows it."""
    if not is_measured(column):
        return set()
    domain = column.domain  # type: ignore[union-attr]
    return {domain} if getattr(column, domain) == column.widest(dict(column)) else set()  # type: ignore[union-attr]


def _lines(content: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in content.items() if value is not None)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _scalar(name)


def _value(value: Any) -> str:
    if not isinstance(value, tuple | list):
        return _scalar(value)
    parts = [_value(part) for part in value]
    line = f"[{', '.join(parts)}]"
    if len(line) <= _WIDTH:
        return line
    lines, current = [], ""
    for part in parts:
        if current and len(current) + len(part) + 2 > _WIDTH:
            lines.append(current)
            current = ""
        current = f"{current} {part},".strip()
    return "[\n" + "".join(f"  {text}\n" for text in [*lines, current]) + "]"


def _scalar(value: Any) -> str:
    return tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")


def schema_json() -> dict[str, Any]:
    """The JSON Schema of a schema file, for editors and checkers."""
    made = Schema.model_json_schema()
    for definition in made["$defs"].values():
        definition.setdefault("required", [])
        if "kind" not in definition["required"]:
            definition["required"].insert(0, "kind")
        if "measure" in definition["properties"]:
            _measure_instead(definition)
        if "measure_spikes" in definition["properties"]:
            both = {"measure_spikes": {"const": True}, "spikes": {"minItems": 1}}
            definition["not"] = {"properties": both, "required": list(both)}
    notes = ReadOff.model_json_schema()
    made["properties"][NOTES] = {key: value for key, value in notes.items() if key != "title"}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "understudy schema",
        "description": "What is public about one table: columns, kinds, bounds, categories, keys and the privacy unit.",
    }
    return {**made, **head}


def _measure_instead(definition: dict[str, Any]) -> None:
    """Either the domain is there, or it is to be measured."""
    domain = next(key for key in ("bounds", "categories") if key in definition["required"])
    definition["required"].remove(domain)
    measured = {"properties": {"measure": {"const": True}}, "required": ["measure"]}
    definition["anyOf"] = [{"required": [domain]}, measured]
