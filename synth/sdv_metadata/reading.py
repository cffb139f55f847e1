"""A schema from SDV's metadata, filled in from a table where the metadata says nothing.

The shape of the metadata is checked before anything is read out of it. It does not hold bounds, categories, precision
and formats of keys: these are read off the table.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from synth.constraints import Unique
from synth.errors import SchemaError, TableError, nearest
from synth.infer import infer_schema
from synth.observed import observe
from synth.parsing import NotPlain, plain_json
from synth.schema import Schema, build_schema
from synth.sdv_metadata.columns import BECOMES_BOOLEAN, READ_SPECS, TABLE_KEYS, VERSION, Translation, shown, translated
from synth.table import conform


def require_shapes(said: Mapping[str, Any]) -> None:
    """Refuse keys and relationships of a table that are no names of columns.

    >>> require_shapes({"primary_key": "id", "alternate_keys": [["a", "b"], "c"]})
    """
    for key in ("primary_key", "sequence_key"):
        if said.get(key) is not None and not _is_key(said[key]):
            raise SchemaError(f"{key} of the metadata names columns; write a text or a list of texts")
    if not isinstance(said.get("sequence_index", ""), str | None):
        raise SchemaError("sequence_index of the metadata names a column; write a text")
    alternate = said.get("alternate_keys")
    if alternate is not None and not (isinstance(alternate, list) and all(map(_is_key, alternate))):
        raise SchemaError("alternate_keys of the metadata are a list of columns; write a list of texts")
    for relationship in require_objects(said, "column_relationships"):
        if not _is_names(relationship.get("column_names", [])):
            raise SchemaError("column_names of a relationship in the metadata name columns; write a list of texts")


def require_objects(said: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects that a key lists; empty where it is not there."""
    listed = said.get(key) or []
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise SchemaError(f"{key} of the metadata is no list of objects; pass a file that SDV saved")
    return listed


def _is_key(given: Any) -> bool:
    return isinstance(given, str) or _is_names(given)


def _is_names(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(name, str) for name in given)


_NUMBERS, _TIMES = ("integer", "real"), ("date", "datetime")


def filled(
    content: dict[str, Any], unsaid: Collection[str], keys: Collection[str], entity: str | None, data: pd.DataFrame
) -> Schema:
    """The schema of what metadata says, with the rest read off the table, which then fits it.

    Args:
        data: *Sensitive*. Has exactly these columns.
    """
    _check_names(content, data)
    proposed = infer_schema(data, propose_order=False, constraints=False)
    seen = proposed.columns
    made = {}
    for name, said in content.items():
        told = {**said, "missing": seen[name].missing} if name in unsaid else said
        made[name] = _merged(name, told, seen[name], data, name in keys)
    named = entity if entity is not None and names_units(made[entity]) else None
    listed = {text for said in content.values() for text in said.get("categories", ())}
    words = {"missing_values": proposed.missing_values} if listed.isdisjoint(proposed.missing_values) else {}
    schema = build_schema({"status": "inferred", "entity": named, "columns": made, **words})
    return observe(schema, conform(data, schema, part=True))


def names_units(column: dict[str, Any]) -> bool:
    """True if a column can name the unit of privacy: an identifier that is kept."""
    return column["kind"] == "identifier" and not column["drop"]


def _check_names(content: dict[str, Any], data: pd.DataFrame) -> None:
    for name in content:
        if name not in data.columns:
            raise TableError(f"column={name!r} is in the metadata and not in the table; {nearest(name, data.columns)}")
    for name in data.columns:
        if name not in content:
            raise TableError(f"column={name!r} is in the table and not in the metadata; {nearest(name, content)}")


def _merged(name: str, said: dict[str, Any], seen: Any, data: pd.DataFrame, is_key: bool) -> dict[str, Any]:
    """The content of a column, from its metadata, then from its values."""
    kind = said["kind"]
    made = dict(said)
    if seen.dtype is not None and kind not in ("text", "personal"):
        made["dtype"] = seen.dtype
    if kind == "identifier":
        return _key(name, made, data) if is_key else made
    if kind in _NUMBERS and seen.kind in (*_NUMBERS, "weight", "identifier", "categorical"):
        return _number(made, seen)
    if kind in _TIMES and seen.kind in _TIMES:
        return _time(made, seen)
    if kind == "boolean" and seen.kind == "boolean":
        return {**made, "tokens": seen.tokens}
    return _listed(made, seen) if kind == "categorical" and made.get("measure") else made


def _listed(made: dict[str, Any], seen: Any) -> dict[str, Any]:
    """Categories to be read off, whole numbers or texts; true and false are no categories here."""
    if seen.is_boolean:
        return {**seen.model_dump(), "missing": made["missing"]}
    return {**made, "whole_numbers": _is_whole(seen)}


def _is_whole(seen: Any) -> bool:
    """True if all values of a column are whole numbers."""
    return bool(seen.is_whole or seen.holds_whole_numbers or (seen.is_weight and seen.decimals == 0))


def _number(made: dict[str, Any], seen: Any) -> dict[str, Any]:
    if _is_whole(seen) and made.get("decimals") is None:
        made = {key: value for key, value in made.items() if key != "decimals"} | {"kind": "integer"}
        if "bounds" in made:
            made["bounds"] = [int(end) for end in made["bounds"]]
    elif made["kind"] == "real" and made.get("decimals") is None:
        made["decimals"] = getattr(seen, "decimals", None)
    return {**made, "scale": getattr(seen, "scale", "linear")}


def _time(made: dict[str, Any], seen: Any) -> dict[str, Any]:
    """The time as it is seen, within the range and in the format that are said."""
    if "format" in made:
        return made
    content = {**seen.model_dump(), "missing": made["missing"]}
    return {**content, "bounds": made["bounds"]} if "bounds" in made and seen.kind == made["kind"] else content


def _key(name: str, made: dict[str, Any], data: pd.DataFrame) -> dict[str, Any]:
    """The key with its template, else with the format that its values have."""
    if made["template"] is not None:
        return {**made, "drop": False}
    present = data.loc[data[name].notna() & (data[name] != ""), [name]]
    if present.empty:
        return made
    seen: Any = infer_schema(present, entity=name, propose_order=False, constraints=False).columns[name]
    return {**made, "template": seen.template, "bounds": seen.bounds, "drop": False}


@dataclass(frozen=True)
class FromSdv:
    """A schema, of status inferred, and what of the metadata has no place in it, in sentences."""

    schema: Schema
    lost: tuple[str, ...]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The content of a file of SDV's metadata."""
    place = f"path={str(path)!r}"
    try:
        content = plain_json(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as refusal:
        raise SchemaError(
            f"the metadata cannot be read: {place} ({refusal.strerror}); pass a JSON file that SDV saved"
        ) from None
    except NotPlain as fault:
        raise SchemaError(f"the metadata cannot be used: {place}: {fault}; pass a file that SDV saved") from None
    except ValueError:
        raise SchemaError(f"the metadata is no JSON: {place}; pass a file that SDV saved") from None
    if not isinstance(content, dict):
        raise SchemaError(f"the metadata is no JSON object: {place}; pass a file that SDV saved")
    return content


def from_sdv(metadata: Mapping[str, Any], *, table: str | None = None, data: pd.DataFrame | None = None) -> FromSdv:
    """The schema of one table of SDV's metadata, versions 1 and 2.

    Bounds and categories that the metadata does not hold are read off the data; without data they are left to be
    measured. What SDV calls an id is kept where it is a key (or the sequence key, which becomes the entity). The
    sequence index becomes the order of an entity's rows.

    Args:
        data: *Sensitive*. The table, to fill in what the metadata does not hold.

    >>> columns = {"age": {"sdtype": "numerical", "computer_representation": "Int64"}}
    >>> from_sdv({"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}).schema.columns["age"].kind
    'integer'
    """
    said = _table(metadata, table)
    columns = said.get("columns")
    if not isinstance(columns, Mapping) or not all(isinstance(about, Mapping) for about in columns.values()):
        raise SchemaError("the metadata of a table lists its columns as objects; pass a file that SDV saved")
    row_keys = _row_keys(said, columns)
    entity, key = _entity(said, columns)
    index = said.get("sequence_index")
    lost: list[str] = _of_table(said, row_keys)
    content: dict[str, Any] = {}
    for name, about in columns.items():
        column = Translation(name, about, is_key=name in row_keys or name == entity or name in key)
        content[name] = translated(column)
        if name == index and data is None and "range_is_nullable" not in about:
            content[name]["missing"] = False  # a row without one would have no place in its sequence
        if name in row_keys and content[name]["kind"] not in ("identifier", "personal", "text"):
            column.lose("that it is a key has no place in a schema; write a constraint of kind unique")
        lost += column.lost
    unsaid = [name for name, about in columns.items() if "range_is_nullable" not in about and name not in row_keys]
    if data is None:
        schema, more = _left_out(content, row_keys, entity)
    else:
        schema, more = _filled_schema(content, unsaid, row_keys, entity, data)
    schema, untold = _with_key(schema, said.get("primary_key"), key)
    schema, unordered = _with_order(schema, index)
    return FromSdv(schema, (*lost, *more, *untold, *unordered))


def _entity(said: Mapping[str, Any], columns: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The column that names entities, and the key of several columns that tells the rows of one apart."""
    sequence, primary = said.get("sequence_key"), said.get("primary_key")
    entity = sequence if isinstance(sequence, str) else None
    if not isinstance(primary, list) or len(primary) < 2:
        return entity, ()
    ids = [name for name in primary if columns[name].get("sdtype") == "id"]
    return (ids[0], tuple(primary)) if len(ids) == 1 and entity in (None, ids[0]) else (entity, ())


def _with_key(schema: Schema, primary: Any, key: tuple[str, ...]) -> tuple[Schema, list[str]]:
    """The schema with the key of an entity's rows as a constraint, or that it has no place there."""
    if not isinstance(primary, list) or len(primary) < 2:
        return schema, []
    if schema.entity in key and set(key) <= {schema.entity, *schema.learned}:
        return build_schema({**dict(schema), "constraints": [Unique(columns=key)]}), []
    return schema, [f"a primary key of several columns ({shown(primary)}) has no place in a schema"]


def _with_order(schema: Schema, index: str | None) -> tuple[Schema, list[str]]:
    """The schema with the order of an entity's rows, or that the sequence index is none."""
    if index is None:
        return schema, []
    try:
        return build_schema({**dict(schema), "order": index}), []
    except SchemaError as refusal:
        return schema, [f"sequence_index={index!r} is left out: {refusal}"]


def _table(metadata: Mapping[str, Any], table: str | None) -> Mapping[str, Any]:
    version = metadata.get(VERSION, READ_SPECS[-1])
    if version not in READ_SPECS:
        raise SchemaError(
            f"this version reads SDV metadata of {VERSION}={', '.join(READ_SPECS)}, not {version!r}; upgrade "
            "understudy, or save it with an older SDV"
        )
    if "fields" in metadata or ("tables" not in metadata and "columns" not in metadata):
        raise SchemaError(
            "the metadata has neither columns nor tables, as that of SDV before 1.0; upgrade it with "
            "sdv.metadata.Metadata.upgrade_metadata"
        )
    if "tables" not in metadata:
        return _known(metadata)
    tables = metadata["tables"]
    if not isinstance(tables, Mapping) or not tables:
        raise SchemaError("the metadata has no tables; pass a file that SDV saved")
    if table is None and len(tables) > 1:
        raise SchemaError(f"a schema is of one table, and the metadata has several: {shown(tuple(tables))}; name one")
    name = next(iter(tables)) if table is None else table
    if name not in tables:
        raise SchemaError(f"table={name!r} is not in the metadata; {nearest(name, tables)}")
    for relationship in require_objects(metadata, "relationships"):
        if name in (relationship.get("parent_table_name"), relationship.get("child_table_name")):
            raise SchemaError(
                f"a schema is of one table, and table={name!r} has relationships to others; join them into one first"
            )
    return _known(tables[name])


def _known(said: Any) -> Mapping[str, Any]:
    if not isinstance(said, Mapping):
        raise SchemaError("the metadata of a table is no JSON object; pass a file that SDV saved")
    unknown = next((key for key in said if key not in TABLE_KEYS), None)
    if unknown is not None:
        raise SchemaError(f"the metadata has the unknown key {unknown!r}; {nearest(str(unknown), TABLE_KEYS)}")
    require_shapes(said)
    return said


def _row_keys(said: Mapping[str, Any], columns: Mapping[str, Any]) -> list[str]:
    """The columns that alone name a row, the primary key first."""
    keys = [said.get("primary_key"), *(said.get("alternate_keys") or ())]
    named = [key[0] if isinstance(key, list) and len(key) == 1 else key for key in keys if key is not None]
    parts = [part for key in [*named, said.get("sequence_key")] for part in (key if isinstance(key, list) else [key])]
    for name in parts:
        if name is not None and name not in columns:
            raise SchemaError(f"the metadata has a key of the unknown column={name!r}; {nearest(str(name), columns)}")
    return [key for key in named if isinstance(key, str)]


def _of_table(said: Mapping[str, Any], row_keys: list[str]) -> list[str]:
    """The losses of the table as a whole."""
    lost = []
    primary = said.get("primary_key")
    if isinstance(primary, str):
        first = next((name for name in said["columns"] if name in _in_order(said, row_keys)), primary)
        if first != primary:
            lost.append(f"that primary_key={primary!r} is the first of the keys has no place in a schema")
    if isinstance(said.get("sequence_key"), list):
        lost.append(f"a sequence key of several columns ({shown(said['sequence_key'])}) has no place in a schema")
    for relationship in said.get("column_relationships") or ():
        names = relationship.get("column_names", [])
        lost.append(f"the relationship {relationship.get('type')!r} of {shown(names)} has no place in a schema")
    return lost


def _in_order(said: Mapping[str, Any], row_keys: list[str]) -> list[str]:
    """The keys that are written first: ids, where there are any."""
    ids = [name for name in row_keys if said["columns"][name].get("sdtype") == "id"]
    return ids or row_keys


def _filled_schema(
    content: dict[str, Any], unsaid: list[str], row_keys: list[str], entity: str | None, data: pd.DataFrame
) -> tuple[Schema, list[str]]:
    """The schema with what the data shows, and what became of columns in it."""
    schema = filled(content, unsaid, [*row_keys, *([entity] if entity else [])], entity, data)
    changed = [n for n, c in schema.columns.items() if c.is_boolean and content[n]["kind"] == "categorical"]
    empty = [n for n in row_keys if schema.columns[n].is_identifier and schema.columns[n].drop]
    return schema, [
        *(f"column={name!r}: {BECOMES_BOOLEAN}" for name in changed),
        *(f"column={name!r}: a key with nothing in it is left out" for name in empty),
    ]


def _left_out(content: dict[str, Any], row_keys: list[str], entity: str | None) -> tuple[Schema, list[str]]:
    """The schema, and what is left out of it for want of data."""
    lost = []
    for name, about in content.items():
        if about["kind"] == "identifier" and about["drop"]:
            if name not in (*row_keys, entity):
                lost.append(f"column={name!r}: an id that is no key is left out: here an identifier names one row")
            else:
                lost.append(f"column={name!r}: a key without a format is left out; give the data, or a template")
    if entity is not None and not names_units(content[entity]):
        lost.append(f"sequence_key={entity!r} is no identifier that is kept, so that no entity is named")
        entity = None
    return build_schema({"status": "inferred", "entity": entity, "columns": content}), lost
