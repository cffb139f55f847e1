"""A schema from SDV's metadata, filled in from a table where the metadata says nothing. SDV need not be installed."""

import datetime as dt
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field, ValidationError

from synth.errors import SchemaError, TableError, nearest
from synth.infer import infer_schema
from synth.observed import observe
from synth.parsing import NotPlain, plain_json, read_given
from synth.schema import Schema, build_schema
from synth.schema.kinds.number import INT64
from synth.schema.kinds.real import WIDEST_REAL
from synth.table import conform
from synth.validation import Frozen, sentence
from understudy.extras.sdv.words import PERSONAL, PLAIN, VERSION, listed, template_of_regex

Key = str | list[str] | None
_PRECISIONS = {"us": "f", "s": "STXcsr", "min": "MR", "h": "HI"}
"""The finest part that a format writes, by its directives."""


class SdvColumn(Frozen):
    """One column of the metadata, of all versions."""

    sdtype: str
    pii: bool | None = None
    computer_representation: (
        Literal["Float", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"] | None
    ) = None
    decimal_places: int | None = Field(default=None, ge=0, strict=True)
    range_min: Any = None
    range_max: Any = None
    range_values: list[Any] | None = None
    range_is_nullable: bool | None = None
    order: list[Any] | None = None
    order_by: str | None = None
    high_cardinality: bool | None = None
    datetime_format: str | None = None
    regex_format: str | None = None


class SdvTable(Frozen):
    """One table of the metadata."""

    columns: dict[str, SdvColumn]
    primary_key: Key = None
    alternate_keys: list[Key] | None = None
    sequence_key: Key = None
    sequence_index: str | None = None
    column_relationships: list[dict[str, Any]] | None = None


class SdvMetadata(Frozen):
    """The metadata of one table or several: what SDV 1.0 to 2.0 writes."""

    version: Literal["SINGLE_TABLE_V1", "SINGLE_TABLE_V2", "MULTI_TABLE_V1", "V1", "V2"] = Field("V2", alias=VERSION)
    tables: dict[str, SdvTable] = Field(min_length=1)
    relationships: list[dict[str, Any]] | None = None


@dataclass(frozen=True)
class FromSdv:
    """A schema, of status inferred, and what of the metadata has no place in it, in sentences."""

    schema: Schema
    lost: tuple[str, ...]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The content of a file of SDV's metadata."""
    given = read_given(Path(path), "metadata", SchemaError)
    try:
        content = plain_json(given.content.decode("utf-8-sig"))
    except NotPlain as fault:
        raise SchemaError(f"the metadata cannot be used: path={str(path)!r}: {fault}; pass a file of SDV's") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SchemaError(f"the metadata is no JSON object: path={str(path)!r}; pass a file that SDV saved")
    return content


def from_sdv(metadata: Mapping[str, Any], *, table: str | None = None, data: pd.DataFrame | None = None) -> FromSdv:
    """The schema of one table of SDV's metadata, versions 1 and 2.

    Bounds and categories that the metadata does not hold are read off the data; without data they are left to be
    measured. What SDV calls an id is kept where it is a key (or the sequence key, which becomes the entity). The
    sequence index becomes the order of an entity's rows.

    Args:
        metadata: its content, as `read_metadata` gives it.
        table: the table's name, where there are several.
        data: *Sensitive*. The table, to fill in what the metadata does not hold.

    Raises:
        SchemaError: it is no metadata of one table.

    >>> columns = {"age": {"sdtype": "numerical", "computer_representation": "Int64"}}
    >>> from_sdv({"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}).schema.columns["age"].kind
    'integer'
    """
    said, lost = _table(metadata, table), []
    row_keys, entity = _keys(said)
    columns: dict[str, Any] = {}
    for name, column in said.columns.items():
        is_key, losses = name in (*row_keys, entity), list[str]()
        # A row without its sequence index would have no place in its sequence.
        is_complete = is_key or (name == said.sequence_index and data is None)
        missing = not is_complete if column.range_is_nullable is None else column.range_is_nullable
        columns[name] = {**_translated(name, column, is_key, losses), "missing": missing}
        if name in row_keys and columns[name]["kind"] not in ("identifier", "personal", "text"):
            losses.append("that it is a key has no place in a schema; write a constraint of kind unique")
        lost += [f"column={name!r}: {loss}" for loss in losses]
    tokens: tuple[str, ...] = ("",)
    if data is not None:
        columns, tokens = _filled(said, columns, entity, (*row_keys, entity), data)
    for name, about in columns.items():
        if about["kind"] == "identifier" and about["drop"]:
            why = "a key without a format, or that repeats itself, is left out; give a template"
            if name not in (*row_keys, entity):
                why = "an id that is no key is left out: here an identifier names one row"
            lost.append(f"column={name!r}: {why}")
        elif about["kind"] == "boolean" and said.columns[name].sdtype != "boolean":
            lost.append(f"column={name!r}: categories true and false become kind boolean, and sdtype='boolean' there")
    if entity is not None and (columns[entity]["kind"] != "identifier" or columns[entity]["drop"]):
        lost.append(f"sequence_key={entity!r} is no identifier that is kept, so that no entity is named")
        entity = None
    schema = build_schema({"status": "inferred", "entity": entity, "columns": columns, "missing_values": tokens})
    if data is not None:
        schema = observe(schema, conform(data, schema, part=True))
    return FromSdv(*_with_table(schema, said, lost))


def _table(metadata: Mapping[str, Any], table: str | None) -> SdvTable:
    if "tables" not in metadata:
        bare = {key: value for key, value in metadata.items() if key != VERSION}
        metadata = {VERSION: metadata.get(VERSION, "V2"), "tables": {"table": bare}}
    try:
        read = SdvMetadata.model_validate(metadata)
    except ValidationError as error:
        said = sentence(error, SdvMetadata).replace("a table of TOML, with keys", "an object")
        raise SchemaError(f"the metadata cannot be used: {said}") from None
    if table is None and len(read.tables) > 1:
        raise SchemaError(f"a schema is of one table, and the metadata has several: {listed([*read.tables])}; name one")
    name = next(iter(read.tables)) if table is None else table
    if name not in read.tables:
        raise SchemaError(f"table={name!r} is not in the metadata; {nearest(name, read.tables)}")
    if any(name in (one.get("parent_table_name"), one.get("child_table_name")) for one in read.relationships or ()):
        raise SchemaError(f"table={name!r} has relationships, and a schema is of one table; join them into one first")
    return read.tables[name]


def _keys(said: SdvTable) -> tuple[list[str], str | None]:
    """The columns that alone name a row, and the one that names entities."""
    named = [said.primary_key, *(said.alternate_keys or ())]
    keys = [key[0] if isinstance(key, list) and len(key) == 1 else key for key in named]
    row_keys = [key for key in keys if isinstance(key, str)]
    entity = said.sequence_key if isinstance(said.sequence_key, str) else None
    for name in (*row_keys, entity):
        if name is not None and name not in said.columns:
            raise SchemaError(f"the metadata has a key of the unknown column={name!r}; {nearest(name, said.columns)}")
    return row_keys, entity


def _translated(name: str, column: SdvColumn, is_key: bool, lost: list[str]) -> dict[str, Any]:
    """The content of the column in a schema; what gets lost is noted."""
    sdtype, content = column.sdtype, dict[str, Any](kind="text", drop=True)
    if sdtype == "boolean":
        content = {"kind": "boolean"}
    elif sdtype == "numerical":
        content = _numbers(column)
    elif sdtype in ("categorical", "ordinal"):
        content = _categories(column, lost)
    elif sdtype == "datetime":
        content = _times(name, column, lost)
    elif sdtype == "id":
        content = _identifier(column, is_key, lost)
    elif sdtype in PERSONAL:
        content = {"kind": "personal", "personal": PERSONAL[sdtype], "unique": is_key}
        if sdtype == "iban":  # the default locale's country has none
            lost.append("an IBAN has a country, which metadata does not tell; correct it where it is not German")
            content["locale"] = "de_DE"
    elif sdtype != "unknown":
        if column.pii is None:
            known = nearest(sdtype, [*PLAIN, *PERSONAL])
            raise SchemaError(f"the metadata of column={name!r} has sdtype={sdtype[:80]!r}, which is unknown; {known}")
        lost.append(f"sdtype={sdtype!r} is left out: nothing here writes it")
    return content


def _identifier(column: SdvColumn, is_key: bool, lost: list[str]) -> dict[str, Any]:
    template = None if column.regex_format is None else template_of_regex(column.regex_format)
    if column.regex_format is not None and template is None:
        lost.append(f"regex_format={column.regex_format[:80]!r} cannot be said by a template")
    return {"kind": "identifier", "template": template, "drop": template is None or not is_key}


def _numbers(column: SdvColumn) -> dict[str, Any]:
    decimals, is_float = column.decimal_places, column.computer_representation in (None, "Float")
    whole = decimals == 0 or (not is_float and not decimals)
    content: dict[str, Any] = {"kind": "integer"} if whole else {"kind": "real", "decimals": decimals}
    ends = (column.range_min, column.range_max)
    if None not in ends:
        return {**content, "bounds": ends}
    limits = (limit if end is None else end for end, limit in zip(ends, INT64 if whole else WIDEST_REAL, strict=True))
    return {**content, "measure": True, **({} if ends == (None, None) else {"bounds": tuple(limits)})}


def _categories(column: SdvColumn, lost: list[str]) -> dict[str, Any]:
    ordered = column.sdtype == "ordinal" or column.order is not None
    values = (column.order if column.range_values is None else column.range_values) or []
    lost += [f"{key} has no place in a schema" for key in ("high_cardinality", "order_by") if getattr(column, key)]
    types = {type(value) for value in values}
    if types == {bool}:
        return {"kind": "boolean"}
    if types == {str}:
        return {"kind": "categorical", "categories": values, "ordered": ordered}
    if types and types <= {int, float} and all(float(value).is_integer() for value in values):
        return {"kind": "categorical", "categories": [int(value) for value in values], "ordered": ordered}
    if types or ordered:
        lost.append("its categories or their order are left out: neither texts nor whole numbers are listed")
    return {"kind": "categorical", "measure": True}


def _times(name: str, column: SdvColumn, lost: list[str]) -> dict[str, Any]:
    form, ends = column.datetime_format, [column.range_min, column.range_max]
    directives = set(re.findall(r"%[-#]?([a-zA-Z])", form or "%f"))
    precision = next((unit for unit, letters in _PRECISIONS.items() if set(letters) & directives), None)
    content: dict[str, Any] = {"kind": "date"} if precision is None else {"kind": "datetime", "precision": precision}
    content |= {} if form is None else {"format": form}
    is_zoned = bool({"z", "Z"} & directives)
    if is_zoned or None in ends:
        if ends != [None, None]:
            lost.append("its range is left out: it has one end, or is in a zone")
        return {**content, "measure": True, **({"timezone": "mixed"} if is_zoned else {})}
    try:
        times = [dt.datetime.strptime(end, form) if form else dt.datetime.fromisoformat(end) for end in ends]
    except (TypeError, ValueError, re.error):  # a directive that stands twice
        raise SchemaError(
            f"the metadata of column={name!r} has a range of {ends}; write times as {form or 'ISO 8601'!r} says"
        ) from None
    return {**content, "bounds": [time.date() if precision is None else time for time in times]}


def _filled(
    said: SdvTable, columns: dict[str, Any], entity: str | None, keys: Collection[str | None], data: pd.DataFrame
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The columns with the rest read off the table, and the texts that stand for a missing value there."""
    alone = sorted(set(columns) ^ set(data.columns))
    if alone:
        raise TableError(f"{listed(alone)} stand in the metadata or in the table alone; name the same columns in both")
    kinds = {
        name: _unsaid(about, data[name].replace("", None).dropna(), name in keys) for name, about in columns.items()
    }
    chosen = {name: kind for name, kind in kinds.items() if kind not in (None, "date", "datetime")}
    seen = infer_schema(data, entity=entity, kinds=chosen, propose_entity=False, propose_order=False, constraints=False)
    for name, about in columns.items():
        column = seen.columns[name]
        if said.columns[name].range_is_nullable is None and about["missing"]:
            about["missing"] = column.missing
        if kinds[name] is not None:
            kept = {key: about[key] for key in ("missing", "decimals") if about.get(key) is not None}
            columns[name] = {**column.model_dump(), **kept}
        elif about["kind"] not in ("text", "personal"):
            about["dtype"] = column.dtype
    texts = {text for about in columns.values() for text in about.get("categories", ())}
    return columns, seen.missing_values if texts.isdisjoint(seen.missing_values) else ("",)


def _unsaid(about: dict[str, Any], values: pd.Series, is_key: bool) -> str | None:
    """The kind of a column whose domain is to be read off its values; `None` of any other."""
    kind = str(about["kind"])
    is_said = any(about.get(key) for key in ("template", "format", "categories"))
    is_said = is_said or ("bounds" in about and "measure" not in about)
    if values.empty or is_said or kind in ("text", "personal") or (kind == "identifier" and not is_key):
        return None
    if kind == "real" and about["decimals"] is None and (pd.to_numeric(values, errors="coerce") % 1 == 0).all():
        return "integer"  # SDV's first version says no more of whole numbers
    if kind == "categorical" and values.map(lambda value: isinstance(value, bool)).all():
        return "boolean"
    return kind


def _with_table(schema: Schema, said: SdvTable, lost: list[str]) -> tuple[Schema, tuple[str, ...]]:
    """The schema with the order of an entity's rows, and what is said of several columns and has no place in it."""
    for key in ("primary_key", "sequence_key"):
        if isinstance(names := getattr(said, key), list) and len(names) > 1:
            lost.append(f"a {key} of several columns ({listed(names)}) has no place in a schema")
    for one in said.column_relationships or ():
        lost.append(f"the relationship {one.get('type')!r} of {one.get('column_names')} has no place in a schema")
    if said.sequence_index is not None:
        try:
            schema = build_schema({**dict(schema), "order": said.sequence_index})
        except SchemaError as refusal:
            lost.append(f"sequence_index={said.sequence_index!r} is left out: {refusal}")
    return schema, tuple(lost)
