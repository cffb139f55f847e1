"""SDV's metadata to a schema and back. SDV need not be installed.

What is lost on either way is what does not come back: each translation is followed by the other.
"""

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from evaluate.text import listed
from synth.errors import SchemaError, nearest
from synth.identifiers import ALPHABETS
from synth.schema import Schema, build_schema
from synth.schema.kinds.dates import read_as
from synth.schema.kinds.number import INT64, WIDEST_REAL
from synth.validation import Frozen, plain_json, read_given, sentence

VERSION = "METADATA_SPEC_VERSION"
PLAIN = ("numerical", "categorical", "ordinal", "boolean", "datetime", "id", "unknown")  # no personal data
PERSONAL = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "email": "email", "phone_number": "phone",
    "address": "address", "street_address": "street", "city": "city", "postcode": "postcode",
    "credit_card_number": "card_number", "iban": "iban", "bban": "account_number", "ssn": "national_id", "text": "text",
}  # fmt: skip
"""Sdtypes of personal data, and the kind of it that we make anew; others are known by their key ``pii``."""
UNKNOWN = {"sdtype": "unknown", "pii": True}  # which SDV never learns
_PRECISIONS = {"us": "f", "s": "STXcsr", "min": "MR", "h": "HI"}  # the finest part that directives of a format write
_CLASSES = {"#": "[0-9]", "A": "[A-Z]", "a": "[a-z]", "x": "[0-9a-f]", "X": "[0-9A-F]"}
_MARKS = {
    **{text: mark for mark, text in _CLASSES.items()},
    r"\d": "#", "[a-f0-9]": "x", "[A-F0-9]": "X", r"[\da-f]": "x", r"[\dA-F]": "X", r"[\d]": "#",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<token>\\.|\[[^\]\\]*(?:\\.[^\]\\]*)*\]|[^\\\[\](){}*+?|.^$])(?:\{(?P<times>\d{1,3})(?:,(?P=times))?\})?"
)
_SPECIAL = re.compile(r"[\\\[\](){}*+?|.^$]")
_LONGEST_TEMPLATE = 200
Key = str | list[str] | None


class SdvColumn(Frozen):
    sdtype: str
    pii: bool | None = None
    computer_representation: str | None = None
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

    def upgraded(self) -> "SdvColumn":
        change: dict[str, Any] = {"order": None, "computer_representation": None}
        if self.order is not None:
            change |= {"sdtype": "ordinal", "range_values": self.order}
        if (self.computer_representation or "").startswith(("Int", "UInt")) and self.decimal_places is None:
            change["decimal_places"] = 0
        return self.model_copy(update=change)


class SdvTable(Frozen):
    columns: dict[str, SdvColumn]
    primary_key: Key = None
    alternate_keys: list[Key] | None = None
    sequence_key: Key = None
    sequence_index: str | None = None
    column_relationships: list[dict[str, Any]] | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The key of sequences, then those that alone name a row."""
        keys = (self.sequence_key, self.primary_key, *(self.alternate_keys or ()))
        return tuple(key[0] if isinstance(key, list) and len(key) == 1 else key for key in keys)


class SdvRelationship(Frozen):
    parent_table_name: str
    child_table_name: str
    parent_primary_key: Key = None
    child_foreign_key: str | list[str]


class SdvMetadata(Frozen):
    """The metadata of one table or several: what SDV 1.0 to 2.0 writes."""

    version: Literal["SINGLE_TABLE_V1", "SINGLE_TABLE_V2", "MULTI_TABLE_V1", "V1", "V2"] = Field("V2", alias=VERSION)
    tables: dict[str, SdvTable] = Field(min_length=1)
    relationships: list[SdvRelationship] | None = None


def read_metadata(path: str | Path) -> Any:
    file = read_given(Path(path), "metadata", SchemaError)
    try:
        return plain_json(file.content.decode("utf-8-sig"))
    except ValueError as fault:
        raise SchemaError(f"the metadata is no JSON: path={str(path)!r}: {fault}; pass a file that SDV saved") from None


def from_sdv(metadata: Mapping[str, Any], *, table: str | None = None) -> tuple[Schema, tuple[str, ...]]:
    """The schema of one table of SDV's metadata, versions 1 and 2, and what has no place in it, in sentences.

    Bounds and categories that the metadata does not hold are left to be measured. What SDV calls an id is kept where it
    is a key with a format; the sequence key becomes the entity, and the sequence index the order of its rows.

    >>> columns = {"age": {"sdtype": "numerical", "computer_representation": "Int64"}}
    >>> schema, lost = from_sdv({"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns})
    >>> schema.columns["age"].kind
    'integer'
    """
    described = table_of(metadata, table)
    schema = _schema(described)
    links = (link for link in _read(metadata).relationships or () if table in (link.child_table_name, None))
    lost = [f"{_shown(link)} has no place in a schema of one table; related_from_sdv reads it" for link in links]
    return schema, (*_lost_here(described, schema), *lost)


def to_sdv(schema: Schema, *, table: str = "table") -> tuple[dict[str, Any], tuple[str, ...]]:
    """SDV's metadata of the table, and what has no place in it, in sentences.

    >>> schema = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [0, 120]}}})
    >>> to_sdv(schema)[0]["tables"]["table"]["columns"]["age"]["range_max"]
    120
    """
    metadata = {"tables": {table: _content(schema)}, "relationships": [], VERSION: "V2"}
    return metadata, tuple(_lost_there(schema, _schema(table_of(metadata))))


def related_from_sdv(metadata: Any) -> tuple[dict[str, Any], dict[str, Schema], tuple[str, ...]]:
    """The keys and the schemas of all tables of SDV's metadata, as `us.fit_related` takes them, and what is lost.

    >>> columns = {"id": {"sdtype": "id", "regex_format": "C-[0-9]{4}"}, "age": {"sdtype": "numerical"}}
    >>> tables = {"customers": {"columns": columns, "primary_key": "id"}}
    >>> related_from_sdv({"METADATA_SPEC_VERSION": "V1", "tables": tables, "relationships": []})[0]
    {'customers': {'primary': ['id'], 'foreign': []}}
    """
    read = _read(metadata)
    tables = {name: _described(read, name) for name in read.tables}
    keys: dict[str, Any] = {
        name: {"primary": _listed(each.primary_key), "foreign": []} for name, each in tables.items()
    }
    for link in read.relationships or ():
        columns = _foreign(link, tables)
        keys[link.child_table_name]["foreign"].append({"columns": columns, "table": link.parent_table_name})
    schemas, lost = {name: _schema(each) for name, each in tables.items()}, list[str]()
    for name, each in tables.items():
        primary = keys[name]["primary"]
        of_foreign = {c for key in keys[name]["foreign"] for c in key["columns"]}
        others = {c: column for c, column in each.columns.items() if c not in of_foreign.union(primary)}
        apart = each.model_copy(update={"columns": others, "primary_key": None})
        lost += [f"{name}: {sentence}" for sentence in _lost_here(apart, schemas[name])]
        for column in (c for c in primary if c not in of_foreign):
            known = schemas[name].columns[column]
            if len(primary) == 1 and (not known.is_identifier or (known.drop and each.columns[column].regex_format)):
                lost.append(f"{name}: key column={column!r} is made anew in the form that its rows have")
            elif len(primary) > 1 and known.drop:
                lost.append(f"{name}: key column={column!r} is of no kind that metadata tells; its schema is inferred")
                del schemas[name]
                break
    return keys, schemas, tuple(lost)


def _foreign(link: SdvRelationship, tables: Mapping[str, SdvTable]) -> list[str]:
    """The columns of a foreign key, in the order of the parent's key."""
    names = (link.child_table_name, link.parent_table_name)
    if (odd := next((name for name in names if name not in tables), None)) is not None:
        raise SchemaError(f"the metadata relates table={odd!r}, which it does not describe; {nearest(odd, tables)}")
    child, parent = (tables[name] for name in names)
    columns, primary = _listed(link.child_foreign_key), _listed(parent.primary_key)
    which, named = _shown(link), _listed(link.parent_primary_key) or primary
    if (odd := next((name for name in columns if name not in child.columns), None)) is not None:
        raise SchemaError(
            f"the metadata relates {which}, whose column={odd!r} is unknown; {nearest(odd, child.columns)}"
        )
    if not primary or sorted(named) != sorted(primary) or len(columns) != len(primary):
        raise SchemaError(
            f"the metadata relates {which} by parent_primary_key={named}, and the primary key of {names[1]} is "
            f"{primary}; name the columns of that, and as many of {names[0]}"
        )
    return [columns[named.index(each)] for each in primary]


def _shown(link: SdvRelationship) -> str:
    return f"{link.child_table_name}: {' + '.join(_listed(link.child_foreign_key))} -> {link.parent_table_name}"


def _listed(key: Key) -> list[str]:
    return [key] if isinstance(key, str) else [*(key or ())]


def table_of(metadata: Any, table: str | None = None) -> SdvTable:
    read = _read(metadata)
    if table is None and len(read.tables) > 1:
        raise SchemaError(f"a schema is of one table, and the metadata has several: {listed([*read.tables])}; name one")
    name = next(iter(read.tables)) if table is None else table
    if name not in read.tables:
        raise SchemaError(f"table={name!r} is not in the metadata; {nearest(name, read.tables)}")
    return _described(read, name)


def _described(read: SdvMetadata, name: str) -> SdvTable:
    described = read.tables[name]
    columns = {name: column.upgraded() for name, column in described.columns.items()}
    for key in described.keys:
        if (odd := next((each for each in _listed(key) if each not in columns), None)) is not None:
            raise SchemaError(f"the metadata has a key of the unknown column={odd!r}; {nearest(odd, columns)}")
    return described.model_copy(update={"columns": columns})


def _read(metadata: Any) -> SdvMetadata:
    if isinstance(metadata, dict) and "tables" not in metadata:
        bare = {key: value for key, value in metadata.items() if key != VERSION}
        metadata = {VERSION: metadata.get(VERSION, "V2"), "tables": {"table": bare}}
    try:
        return SdvMetadata.model_validate(metadata)
    except ValidationError as error:
        words = (
            sentence(error, SdvMetadata)
            .replace("a table of TOML, with keys", "an object")
            .replace("a valid table", "an object")
        )
        raise SchemaError(f"the metadata cannot be used: {words}") from None


def _schema(described: SdvTable) -> Schema:
    columns: dict[str, Any] = {}
    for name, column in described.columns.items():
        is_key = name in described.keys
        # A row without its key or its sequence index would have no place among the others.
        missing = not (is_key or name == described.sequence_index)
        if column.range_is_nullable is not None:
            missing = column.range_is_nullable
        columns[name] = {**_column(name, column, is_key), "missing": missing}
    entity = described.keys[0] if isinstance(described.keys[0], str) else None
    if entity is not None and (columns[entity]["kind"] != "identifier" or columns[entity]["drop"]):
        entity = None
    content = {"status": "inferred", "entity": entity, "columns": columns, "missing_values": [""]}
    try:
        return build_schema({**content, "order": described.sequence_index})
    except SchemaError:  # if not of the order, of what is wrong in either
        return build_schema(content)


def _column(name: str, column: SdvColumn, is_key: bool) -> dict[str, Any]:
    sdtype, content = column.sdtype, dict[str, Any](kind="text", drop=True)
    if sdtype == "boolean":
        content = {"kind": "boolean"}
    elif sdtype == "numerical":
        content = _numbers(column)
    elif sdtype in ("categorical", "ordinal"):
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in column.range_values or ()]
        types = set(map(type, values))
        content = {"kind": "boolean"} if types == {bool} else {"kind": "categorical", "measure": True}
        if types in ({str}, {int}):
            content = {"kind": "categorical", "categories": values, "ordered": sdtype == "ordinal"}
    elif sdtype == "datetime":
        content = _times(name, column)
    elif sdtype == "id":
        template = None if column.regex_format is None else template_of_regex(column.regex_format)
        content = {"kind": "identifier", "template": template, "drop": template is None or not is_key}
    elif sdtype in PERSONAL:
        content = {"kind": "personal", "personal": PERSONAL[sdtype], "unique": is_key}
        content |= {"locale": "de_DE"} if sdtype == "iban" else {}  # the default locale's country has none
    elif sdtype != "unknown" and column.pii is None:
        known = nearest(sdtype, [*PLAIN, *PERSONAL])
        raise SchemaError(f"the metadata of column={name!r} has sdtype={sdtype[:80]!r}, which is unknown; {known}")
    return content


def _numbers(column: SdvColumn) -> dict[str, Any]:
    whole = column.decimal_places == 0
    content = {"kind": "integer"} if whole else {"kind": "real", "decimals": column.decimal_places}
    ends = (column.range_min, column.range_max)
    if None not in ends:
        return {**content, "bounds": ends}
    limits = [limit if end is None else end for end, limit in zip(ends, INT64 if whole else WIDEST_REAL, strict=True)]
    return {**content, "measure": True, **({} if ends == (None, None) else {"bounds": limits})}


def _times(name: str, column: SdvColumn) -> dict[str, Any]:
    form, ends = column.datetime_format, [column.range_min, column.range_max]
    directives = set(re.findall(r"%[-#]?([a-zA-Z])", form or "%f"))
    precision = next((unit for unit, letters in _PRECISIONS.items() if set(letters) & directives), None)
    content: dict[str, Any] = {"kind": "date"} if precision is None else {"kind": "datetime", "precision": precision}
    content |= {} if form is None else {"format": form}
    if directives & {"z", "Z"}:
        return {**content, "measure": True, "timezone": "mixed"}
    if None in ends:
        return {**content, "measure": True}
    try:
        times = [dt.datetime.strptime(end, form) if form else dt.datetime.fromisoformat(end) for end in ends]
    except (TypeError, ValueError, re.error):  # a directive that stands twice
        raise SchemaError(
            f"the metadata of column={name!r} has a range of {ends}; write times as {form or 'ISO 8601'!r} says"
        ) from None
    return {**content, "bounds": [time.date() if precision is None else time for time in times]}


def _content(schema: Schema) -> dict[str, Any]:
    # What alone names a row: identifiers first.
    whole = {name: schema.columns[name] for name in schema.kept if not schema.columns[name].missing}
    keys = [name for name, column in whole.items() if column.is_identifier and name != schema.entity]
    keys += [name for name, column in whole.items() if column.is_personal and getattr(column, "unique", False)]
    columns = {
        name: {
            **(UNKNOWN if column.drop and not column.is_identifier else _written(column)),
            "range_is_nullable": column.missing and name not in (*keys, schema.entity),
        }
        for name, column in schema.columns.items()
    }
    order = None if schema.order is None or schema.columns[schema.order].is_identifier else schema.order
    named = {"primary_key": keys[0] if keys else None, "alternate_keys": keys[1:] or None}
    named |= {"sequence_key": schema.entity, "sequence_index": order}
    return {"columns": columns, **{key: value for key, value in named.items() if value is not None}}


def _written(column: Any) -> dict[str, Any]:
    content: dict[str, Any] = dict(UNKNOWN)
    if column.is_identifier:
        content = {"sdtype": "id"} | ({} if column.template is None else {"regex_format": regex_of(column.template)})
    elif column.is_personal:
        content["sdtype"] = next(key for key, value in PERSONAL.items() if value == column.personal)
    elif column.is_boolean:
        content = {"sdtype": "boolean"}
    elif column.is_categorical:
        content = {"sdtype": "ordinal" if column.ordered else "categorical"}
        if column.categories and not column.is_measured:
            content["range_values"] = list(column.categories)
    elif column.is_time:
        content = _written_times(column)
    elif column.is_number:
        decimals = 0 if column.is_whole else column.decimals or None  # of a real without decimals SDV's are whole
        content = {"sdtype": "numerical"} | ({} if decimals is None else {"decimal_places": decimals})
        ends = zip(("range_min", "range_max"), column.bounds, column.widest(dict(column)), strict=True)
        content |= {key: end for key, end, limit in ends if not (column.is_measured and end == limit)}
    return content


def _written_times(column: Any) -> dict[str, Any]:
    form = None if column.format is None else read_as(column.format)
    content = {"sdtype": "datetime"} | ({} if form is None else {"datetime_format": form})
    # A year before 1000 is written with fewer digits than are read.
    if column.zone is None and not column.says_nothing and column.bounds[0].year >= 1000:
        ends = [end.isoformat() if form is None else end.strftime(form) for end in column.bounds]
        content |= dict(zip(("range_min", "range_max"), ends, strict=True))
    return content


def _lost_here(described: SdvTable, schema: Schema) -> Iterator[str]:
    """What of the metadata would not be written again."""
    back = SdvTable.model_validate(_content(schema))
    for name, column in described.columns.items():
        here, there = schema.columns[name], back.columns[name]
        if here.drop and column.sdtype != "unknown":
            why = "an id stays that is a key with a format" if column.sdtype == "id" else "nothing here writes it"
            yield f"column={name!r} of sdtype={column.sdtype!r} is left out: {why}"
            continue
        if column.sdtype == "iban":
            yield f"column={name!r}: an IBAN has a country, which metadata does not tell; correct it if not German"
        for key, value in column:
            told = here.is_time and key.startswith("range_m") and not here.is_measured
            told = told or key in ("pii", "regex_format", "datetime_format")  # there, in other words
            if value not in (None, False, getattr(there, key)) and not told:
                yield f"column={name!r}: {key}={str(value)[:80]!r} has no place in a schema"
    for names in described.keys:
        if names is not None and names not in back.keys:
            yield f"that {names!r} is a key has no place in a schema"
    if described.sequence_index != back.sequence_index:
        index = described.sequence_index
        yield f"sequence_index={index!r} has no place in a schema: no number or time orders an entity"
    for link in described.column_relationships or ():
        yield f"the relationship {link.get('type')!r} of {link.get('column_names')} has no place in a schema"


def _lost_there(schema: Schema, back: Schema) -> Iterator[str]:
    """What is otherwise in the schema that comes back, by the keys of columns and of the schema."""
    changed: dict[str, list[str]] = {}
    for name, column in schema.columns.items():
        there = dict(back.columns[name])
        keys = ["kind"] if column.kind != there["kind"] else list(there)
        for key in keys:
            if getattr(column, key) != there[key] and not (column.drop and there["drop"]):
                changed.setdefault(key, []).append(name)
    yield from (f"the metadata has no place for {key} of {listed(names)}" for key, names in changed.items())
    for key in sorted(Schema.model_fields.keys() - {"format", "status", "columns"}):
        if getattr(schema, key) != getattr(back, key):
            yield f"the metadata has no place for {key}"


def regex_of(template: str) -> str:
    r"""The regular expression of a template.

    >>> regex_of(r"P-####\A")
    'P-[0-9]{4}A'
    """
    marks = [_CLASSES.get(mark) or _SPECIAL.sub(r"\\\g<0>", mark[-1]) for mark in re.findall(r"(?s)\\?.", template)]
    runs = [(mark, len(list(run))) for mark, run in itertools.groupby(marks)]
    return "".join(mark if n == 1 else f"{mark}{{{n}}}" for mark, n in runs)


def template_of_regex(regex: str) -> str | None:
    r"""The template of a regular expression; `None` where a template, which has one length, cannot say the same.

    >>> template_of_regex(r"^P-\d{4}[A-Z]$"), template_of_regex("[A-Za-z]{5}")
    ('P-####A', None)
    """
    body = re.sub(r"(?<!\\)\$$", "", regex.removeprefix("^"))
    tokens = list(_TOKEN.finditer(body))
    marks = [_mark(token["token"]) for token in tokens]
    if None in marks or "".join(token[0] for token in tokens) != body:
        return None
    template = "".join(str(mark) * int(token["times"] or 1) for mark, token in zip(marks, tokens, strict=True))
    return template if 0 < len(template) <= _LONGEST_TEMPLATE else None


def _mark(token: str) -> str | None:
    """A template's placeholder for one character of an expression."""
    literal = token.removeprefix("\\") or token
    is_class = token.startswith("[") or (token != literal and literal.isalnum())  # \w, or a character's code
    if token in _MARKS or is_class:
        return _MARKS.get(token)
    return f"\\{literal}" if literal in ALPHABETS or literal == "\\" else literal
