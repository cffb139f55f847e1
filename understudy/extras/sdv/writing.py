"""SDV's metadata from a schema, and what of the schema has no place in it: what does not come back when it is read."""

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.errors import SchemaError
from synth.output import whole_file
from synth.parsing import can_be_written
from synth.schema import Schema
from synth.schema.kinds.moments import read_as
from understudy.extras.sdv.reading import from_sdv
from understudy.extras.sdv.words import PERSONAL, VERSION, Spec, listed, regex_of


@dataclass(frozen=True)
class ToSdv:
    """Metadata as plain data, and what of the schema has no place in it, in sentences."""

    metadata: dict[str, Any]
    lost: tuple[str, ...]


def write_metadata(metadata: Mapping[str, Any], path: str | Path) -> None:
    """Write metadata as a JSON file, whole or not at all; an older file is replaced."""
    with whole_file(Path(path)) as beside:
        beside.write_text(json.dumps(metadata, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


def to_sdv(schema: Schema, *, table: str = "table", spec: Spec = "V2") -> ToSdv:
    """SDV's metadata of the table. Columns that are dropped here are of an unknown type there, which SDV never learns.

    Raises:
        SchemaError: the table's name is no text that a file can hold.

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [0, 120]}}})
    >>> to_sdv(schema).metadata["tables"]["table"]["columns"]["age"]["range_max"]
    120
    """
    if not can_be_written(table):
        raise SchemaError(f"table={table!r} is no text that a file can hold; name it otherwise")
    ranges = spec == "V2"
    columns = {name: _written(column, ranges=ranges) for name, column in schema.columns.items()}
    row_keys = _row_keys(schema)
    if ranges:
        never = {*row_keys, schema.entity}
        for name, column in schema.columns.items():
            columns[name]["range_is_nullable"] = column.missing and name not in never
    index = None if schema.order is None or schema.columns[schema.order].is_identifier else schema.order
    named = {
        "primary_key": row_keys[0] if row_keys else None,
        "alternate_keys": row_keys[1:] or None,
        "sequence_key": schema.entity,
        "sequence_index": index,
    }
    content = {"columns": columns, **{key: value for key, value in named.items() if value is not None}}
    metadata = {"tables": {table: content}, "relationships": [], VERSION: spec}
    lost = tuple(_lost(schema, from_sdv(metadata).schema))
    return ToSdv({VERSION: spec, **content} if spec == "SINGLE_TABLE_V1" else metadata, lost)


def _row_keys(schema: Schema) -> list[str]:
    """The columns that alone name a row: identifiers first."""
    kept = {name: schema.columns[name] for name in schema.kept if not schema.columns[name].missing}
    ids = [name for name, column in kept.items() if column.is_identifier and name != schema.entity]
    return ids + [name for name, column in kept.items() if column.is_personal and getattr(column, "unique", False)]


def _written(column: Any, *, ranges: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"sdtype": "unknown", "pii": True}
    if column.is_identifier:
        made = {"sdtype": "id"} | ({} if column.template is None else {"regex_format": regex_of(column.template)})
    elif column.drop:
        return made
    elif column.is_personal:
        made["sdtype"] = next(key for key, value in PERSONAL.items() if value == column.personal)
    elif column.is_boolean:
        made = {"sdtype": "boolean"}
    elif column.is_categorical:
        made = {"sdtype": "ordinal" if column.ordered and ranges else "categorical"}
        if column.categories and not column.is_measured and (ranges or column.ordered):
            made["range_values" if ranges else "order"] = list(column.categories)
    elif column.is_time:
        made = _times(column, ranges=ranges)
    elif column.is_number:
        made = _numbers(column, ranges=ranges)
    return made


def _numbers(column: Any, *, ranges: bool) -> dict[str, Any]:
    whole = column.is_whole
    if not ranges:
        return {"sdtype": "numerical", "computer_representation": "Int64" if whole else "Float"}
    decimals = 0 if whole else column.decimals
    made = {"sdtype": "numerical"} | ({} if decimals is None else {"decimal_places": decimals})
    ways = (math.floor, math.ceil) if decimals == 0 and not whole else (None, None)  # SDV's are whole numbers then
    widest = column.widest(dict(column))
    for key, way, end, limit in zip(("range_min", "range_max"), ways, column.bounds, widest, strict=True):
        if not (column.is_measured and end == limit):
            made[key] = end if way is None else way(end)
    return made


def _times(column: Any, *, ranges: bool) -> dict[str, Any]:
    form = None if column.format is None else read_as(column.format)
    made: dict[str, Any] = {"sdtype": "datetime"} | ({} if form is None else {"datetime_format": form})
    if not ranges or column.zone is not None or column.says_nothing:
        return made
    ends = [end.isoformat() if form is None else end.strftime(form) for end in column.bounds]
    try:
        for end in ends:  # of a year before 1000, or a directive that stands twice, it cannot be read back
            dt.datetime.fromisoformat(end) if form is None else dt.datetime.strptime(end, form)
    except (ValueError, re.error):
        return made
    return {**made, "range_min": ends[0], "range_max": ends[1]}


def _lost(schema: Schema, back: Schema) -> Iterator[str]:
    """What is otherwise in the schema that comes back, by the keys of columns and of the schema."""
    changed: dict[str, list[str]] = {}
    for name, column in schema.columns.items():
        there = dict(back.columns[name])
        keys = ["kind"] if column.kind != there["kind"] else list(there)
        for key in keys:
            told = key == "measure" and column.domain in changed and name in changed[column.domain]
            if getattr(column, key) != there[key] and not told and not (column.drop and there["drop"]):
                changed.setdefault(key, []).append(name)
    yield from (f"the metadata has no place for {key} of {listed(names)}" for key, names in changed.items())
    dropped = [name for name, column in schema.columns.items() if column.drop and not column.is_identifier]
    if dropped:
        yield f"what {listed(dropped)} would hold is left out: dropped here, of an unknown type there"
    for key in sorted(Schema.model_fields.keys() - {"format", "status", "columns", "constraints"}):
        if getattr(schema, key) != getattr(back, key):
            yield f"the metadata has no place for {key}"
    for constraint in schema.constraints:
        if constraint not in back.constraints:
            yield f"the metadata has no place for the constraint that {constraint}"
