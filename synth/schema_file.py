"""The schema as a file: TOML, one table a column, in the order of the columns, then one a constraint."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from synth.columns import Column, is_measured
from synth.errors import SchemaError
from synth.given_file import GivenFile, read_given
from synth.output import whole_file
from synth.read_off import ReadOff, build_read_off
from synth.schema import Schema, build_schema
from synth.validation import parse_toml

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
