"""Schemas as TOML files: one table a column, in the order of the columns, then one a constraint.

A file that `infer` proposed says that its limits were read off the table, and is as internal as they are. A declared
schema never says so.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from synth.errors import SchemaError
from synth.output import whole_file
from synth.schema import Schema, build_schema
from synth.validation import GivenFile, parse_toml, read_given

READ_OFF = "read_off"
"""Key of a proposed schema's file: its limits were read off a table, and its status alone does not declare them."""
_READ_OFF_LINES = f"""\
# What is below was read off the table: bounds, categories, steps, templates, what columns are modeled as and its
# numbers, max_rows_per_unit. Replace what is not public, or measure it; `understudy schema declare` asserts the rest,
# and writes no such line.
{READ_OFF} = true
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDTH = 110


def read_schema(path: str | Path) -> Schema:
    """The schema that a TOML file holds.

    Raises:
        SchemaError: the file is not there, is not TOML, or is not a schema; the message names the place.
    """
    return schema_of(read_given(Path(path), "schema", SchemaError))


def schema_of(file: GivenFile) -> Schema:
    """The schema in a TOML file that was read."""
    content = parse_toml(file, "schema", SchemaError)
    read_off = content.pop(READ_OFF, None) is not None  # a table in files of earlier versions
    try:
        schema = build_schema(content)
        if read_off and schema.status == "declared":
            raise SchemaError(
                f"{READ_OFF} says that limits were read off a table, and a declared schema holds none; leave "
                'status = "inferred" and pass the file to `understudy schema declare`'
            )
    except SchemaError as error:
        raise SchemaError(f"{error} (path={str(file.path)!r})") from None
    return schema


def write_schema(schema: Schema, path: str | Path, *, read_off: bool = False) -> None:
    """Write a schema as a TOML file, whole or not at all; an older file is replaced.

    Args:
        schema: to write.
        path: of the file.
        read_off: its limits were read off a table, which the file then says.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
    with whole_file(Path(path)) as beside:
        beside.write_bytes(to_toml(schema, read_off=read_off).encode())


def to_toml(schema: Schema, *, read_off: bool = False) -> str:
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
    more = schema.model_dump(exclude_defaults=True, exclude={"format", "status", "columns", "constraints"})
    blocks = [_lines(head) + _READ_OFF_LINES * read_off + _lines(more)]
    for name, column in schema.columns.items():
        # A domain that is to be measured, and that nothing narrows, needs no line.
        understood = {column.domain} if column.domain is not None and column.says_nothing else set()
        content = {"kind": column.kind} | column.model_dump(exclude_defaults=True, exclude=understood)
        modeled = content.pop("modeled", None)
        blocks.append(f"[columns.{_key(name)}]\n{_lines(content)}")
        if modeled is not None:
            blocks.append(f"[columns.{_key(name)}.modeled]\n{_lines(modeled)}")
    for constraint in schema.constraints:
        content = {"kind": constraint.kind} | constraint.model_dump(exclude_defaults=True)
        blocks.append(f"[[constraints]]\n{_lines(content)}")
    return "\n".join(blocks)


def _lines(content: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in _pairs(content))


def _pairs(content: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in content.items() if value is not None]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _scalar(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}"
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
    schema = Schema.model_json_schema()
    for definition in schema["$defs"].values():
        definition.setdefault("required", [])
        if "kind" in definition["properties"]:
            definition["required"].insert(0, "kind")
        if "measure" in definition["properties"]:  # either the domain is there, or it is to be measured
            domain = next(key for key in ("bounds", "categories") if key in definition["required"])
            definition["required"].remove(domain)
            measured = {"properties": {"measure": {"const": True}}, "required": ["measure"]}
            definition["anyOf"] = [{"required": [domain]}, measured]
        if "measure_spikes" in definition["properties"]:
            both = {"measure_spikes": {"const": True}, "spikes": {"minItems": 1}}
            definition["not"] = {"properties": both, "required": list(both)}
    schema["properties"][READ_OFF] = {"description": "Limits were read off a table; a declared schema has no such key."}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "understudy schema",
        "description": "What is public about one table: columns, kinds, bounds, categories, keys and the privacy unit.",
    }
    return {**schema, **head}
