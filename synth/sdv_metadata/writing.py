"""SDV's metadata from a schema."""

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.constraints import Constraint, Unique
from synth.errors import SchemaError
from synth.output import whole_file
from synth.parsing import can_be_written
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn, Column, IdentifierColumn, PersonalColumn
from synth.schema.kinds.moments import read_as
from synth.sdv_metadata.columns import PERSONAL, REPRESENTATIONS, VERSION, Spec, precision_of, regex_of, shown

_FIRST_YEAR = 1000  # before it, years are not written with four digits everywhere


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

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [0, 120]}}})
    >>> to_sdv(schema).metadata["tables"]["table"]["columns"]["age"]["range_max"]
    120
    """
    if not can_be_written(table):
        raise SchemaError(f"table={table!r} is no text that a file can hold; name it otherwise")
    ranges = spec == "V2"
    columns = {name: _column(column, ranges=ranges) for name, column in schema.columns.items()}
    within = next((key for key in schema.constraints if _tells_rows(key, schema)), None) if ranges else None
    for name in (*_keys(schema), *(within.columns if within is not None else ())):
        columns[name].update({"range_is_nullable": False} if ranges else {})
    content: dict[str, Any] = {"columns": columns}
    keys: list[Any] = [list(within.columns)] if within is not None else []
    keys += _row_keys(schema)
    if keys:
        content["primary_key"] = keys[0]
    if keys[1:]:
        content["alternate_keys"] = keys[1:]
    if schema.entity is not None:
        content["sequence_key"] = schema.entity
    if _is_index(schema):
        content["sequence_index"] = schema.order
    lost = (*_lost_columns(schema, ranges=ranges), *_lost_of_table(schema, within))
    if spec == "SINGLE_TABLE_V1":
        return ToSdv({VERSION: spec, **content}, lost)
    return ToSdv({"tables": {table: content}, "relationships": [], VERSION: spec}, lost)


def _tells_rows(constraint: Constraint, schema: Schema) -> bool:
    """True if a constraint is a key of an entity's rows, which SDV of version 2 has as a primary key."""
    return (
        isinstance(constraint, Unique)
        and schema.entity in constraint.columns
        and not any(schema.columns[name].missing for name in constraint.columns)
    )


def _is_index(schema: Schema) -> bool:
    """True if the order of an entity's rows is a number or a time: SDV has no other."""
    return schema.order is not None and not schema.columns[schema.order].is_identifier


def _row_keys(schema: Schema) -> list[str]:
    """The columns that alone name a row: identifiers first."""
    ids, others = [], []
    for name in schema.kept:
        column = schema.columns[name]
        if column.is_identifier and name != schema.entity and not column.missing:
            ids.append(name)
        elif column.is_personal and column.unique and not column.missing:
            others.append(name)
    return ids + others


def _keys(schema: Schema) -> list[str]:
    return [*_row_keys(schema), *([schema.entity] if schema.entity is not None else [])]


def _column(column: Column, *, ranges: bool) -> dict[str, Any]:
    made = _written(column, ranges=ranges)
    return {**made, "range_is_nullable": column.missing} if ranges else made


def _written(column: Any, *, ranges: bool) -> dict[str, Any]:
    kind = "text" if column.drop and not column.is_identifier else column.kind
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain(column)
    if column.is_categorical:
        return _categories(column, ranges=ranges)
    if column.is_time:
        return _times(column, ranges=ranges)
    return _numbers(column, ranges=ranges)


def _id(column: IdentifierColumn) -> dict[str, Any]:
    return {"sdtype": "id"} | ({} if column.template is None else {"regex_format": regex_of(column.template)})


def _personal(column: PersonalColumn) -> dict[str, Any]:
    return {"sdtype": next(sdtype for sdtype, personal in PERSONAL.items() if personal == column.personal), "pii": True}


_PLAIN: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "identifier": _id,
    "personal": _personal,
    "text": lambda _: {"sdtype": "unknown", "pii": True},
    "boolean": lambda _: {"sdtype": "boolean"},
}
"""Kinds of which every version says the same."""


def _categories(column: CategoricalColumn, *, ranges: bool) -> dict[str, Any]:
    listed = bool(column.categories) and not column.is_measured
    if not ranges:
        return {"sdtype": "categorical", **({"order": list(column.categories)} if column.ordered and listed else {})}
    made: dict[str, Any] = {"sdtype": "ordinal" if column.ordered else "categorical"}
    return {**made, "range_values": list(column.categories)} if listed else made


def _numbers(column: Any, *, ranges: bool) -> dict[str, Any]:
    whole = column.is_whole
    if not ranges:
        same = next((form for form, limits in REPRESENTATIONS.items() if tuple(column.bounds) == limits), "Int64")
        return {"sdtype": "numerical", "computer_representation": same if whole else "Float"}
    made: dict[str, Any] = {"sdtype": "numerical"}
    decimals = 0 if whole else column.decimals
    if decimals is not None:
        made["decimal_places"] = decimals
    for key, end, widest in zip(("range_min", "range_max"), column.bounds, column.widest(dict(column)), strict=True):
        if not (column.is_measured and end == widest):
            made[key] = end
    if decimals == 0 and not whole:  # SDV's are whole numbers then
        made |= {k: way(made[k]) for k, way in (("range_min", math.floor), ("range_max", math.ceil)) if k in made}
    return made


def _times(column: Any, *, ranges: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"sdtype": "datetime"}
    if column.format is not None:
        made["datetime_format"] = read_as(column.format)
    if ranges and _has_range(column):
        form = None if column.format is None else read_as(column.format)
        ends = (end.isoformat() if form is None else end.strftime(form) for end in column.bounds)
        made["range_min"], made["range_max"] = ends
    return made


def _has_range(column: Any) -> bool:
    """True if bounds can be written: not in a zone, whose bounds are in UTC, nor in far years."""
    zoned = column.zone is not None
    return not zoned and column.bounds[0].year >= _FIRST_YEAR and not column.says_nothing


def _comes_back(column: Any) -> bool:
    """True if bounds survive the column's format: they are read as they were."""
    if not column.is_time or column.format is None or not _has_range(column):
        return True
    try:
        form = read_as(column.format)
        read = [dt.datetime.strptime(end.strftime(form), form) for end in column.bounds]
    except (ValueError, re.error):
        return False
    days = column.is_date
    return tuple(end.date() if days else end for end in read) == tuple(column.bounds)


def _is_distinct(column: Any) -> bool:
    return bool(column.is_identifier or (column.is_personal and column.unique))


_NO_PLACE: Mapping[str, Callable[[Any], bool]] = {
    "the bins": lambda column: bool(getattr(column, "bins", ())),
    "the steps": lambda column: bool(getattr(column, "steps", ())),
    "the spikes": lambda column: bool(getattr(column, "spikes", ())),
    "the scale": lambda column: getattr(column, "scale", "linear") != "linear",
    "the kind weight": lambda column: column.is_weight,
    "the kind real without decimals": lambda column: column.kind == "real" and column.decimals == 0,
    "that bounds or categories are to be measured": lambda column: column.is_measured,
    "that frequent values are to be measured": lambda column: column.measures_spikes,
    "the tokens of true and false": lambda column: column.is_boolean and column.tokens != ("False", "True"),
    "the time zone": lambda column: column.zone is not None,
    "the precision of times": lambda column: (
        column.kind == "datetime" and (column.format is None or precision_of(column.format) != column.precision)
    ),
    "the bounds of identifiers": lambda column: column.is_identifier and column.bounds is not None,
    "the form of personal data": lambda column: (
        column.is_personal and (column.template is not None or column.locale != "en_US")
    ),
    "an empty list of categories": lambda column: column.domain == "categories" and not column.categories,
    "the dtype": lambda column: column.dtype is not None,
}
"""The losses of a column in every version of the metadata."""
_NO_RANGES: Mapping[str, Callable[[Any], bool]] = {
    "the bounds": lambda column: getattr(column, "bounds", None) is not None and not _unsaid(column),
    "the categories": lambda column: bool(getattr(column, "categories", ())) and not column.ordered,
    "the decimals": lambda column: column.kind != "integer" and getattr(column, "decimals", None) is not None,
    "whether values may be missing": lambda column: not column.missing,
}
"""The losses of a column in version 1."""


def _unsaid(column: Any) -> bool:
    if column.is_identifier:
        return True  # told among what no version holds
    return column.says_nothing or (column.is_measured and tuple(column.bounds) in REPRESENTATIONS.values())


def _lost_columns(schema: Schema, *, ranges: bool) -> Iterator[str]:
    kept = {name: column for name, column in schema.columns.items() if not column.drop}
    tests = _NO_PLACE if ranges else {**_NO_PLACE, **_NO_RANGES}
    for what, is_lost in tests.items():
        names = [name for name, column in kept.items() if is_lost(column)]
        if names:
            yield f"the metadata has no place for {what} of {shown(names)}"
    unranged = [
        name
        for name, column in kept.items()
        if ranges and column.is_time
        if not _has_range(column) and not column.says_nothing
    ]
    if unranged:
        yield f"the bounds of {shown(unranged)} are left out: they are in UTC, or of far years"
    dropped = [name for name, column in schema.columns.items() if column.drop and not column.is_identifier]
    if dropped:
        yield f"what {shown(dropped)} would hold is left out: dropped here, of an unknown type there"
    cut = [name for name, column in kept.items() if ranges and not _comes_back(column)]
    if cut:
        yield f"the bounds of {shown(cut)} are cut to what their formats write"
    missing = [name for name, column in kept.items() if column.missing and _is_distinct(column)]
    if missing:
        yield f"that {shown(missing)} never repeat is left out: a key of SDV is never missing"


def _lost_of_table(schema: Schema, kept: Constraint | None) -> Iterator[str]:
    for key, field in Schema.model_fields.items():
        if key in ("format", "status", "columns", "constraints", "entity"):
            continue
        if key == "order" and _is_index(schema):
            continue
        if getattr(schema, key) != field.default:
            yield f"the metadata has no place for {key}"
    for constraint in schema.constraints:
        if constraint is not kept:
            yield f"the metadata has no place for the constraint that {constraint}"
