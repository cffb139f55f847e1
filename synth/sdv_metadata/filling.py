"""What metadata does not hold, read off a table: bounds, categories, precision, formats of keys."""

from collections.abc import Collection
from typing import Any

import pandas as pd

from synth.errors import TableError, nearest
from synth.infer import infer_schema
from synth.observed import observe
from synth.schema import Schema, build_schema
from synth.table import conform

_NUMBERS, _TIMES = ("integer", "real"), ("date", "datetime")


def filled(
    content: dict[str, Any], unsaid: Collection[str], keys: Collection[str], entity: str | None, data: pd.DataFrame
) -> Schema:
    """The schema of what metadata says, with the rest read off the table, which then fits it.

    Args:
        content: of the columns, as far as the metadata says.
        unsaid: columns of which it does not say whether they may be missing.
        keys: columns that name a row, or an entity.
        entity: the column that names the unit; none where there is none.
        data: *Sensitive*. Has exactly these columns.

    Raises:
        TableError: the table has other columns, or does not fit.
    """
    _check_names(content, data)
    proposed = infer_schema(data, constraints=False)
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
    """Whether a column can name the unit of privacy: an identifier that is kept."""
    return column["kind"] == "identifier" and not column["drop"]


def _check_names(content: dict[str, Any], data: pd.DataFrame) -> None:
    for name in content:
        if name not in data.columns:
            raise TableError(f"column={name!r} is in the metadata and not in the table; {nearest(name, data.columns)}")
    for name in data.columns:
        if name not in content:
            raise TableError(f"column={name!r} is in the table and not in the metadata; {nearest(name, content)}")


def _merged(name: str, said: dict[str, Any], seen: Any, data: pd.DataFrame, is_key: bool) -> dict[str, Any]:
    """What is said of a column, then what is seen of it."""
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
    if seen.kind == "boolean":
        return {**seen.model_dump(), "missing": made["missing"]}
    return {**made, "whole_numbers": _is_whole(seen)}


def _is_whole(seen: Any) -> bool:
    """Whether all values of a column are whole numbers."""
    if seen.kind == "categorical":
        return bool(seen.categories) and isinstance(seen.categories[0], int)
    if seen.kind == "weight":
        return bool(seen.decimals == 0)
    return seen.kind == "integer" or (seen.kind == "identifier" and seen.bounds is not None)


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
    seen: Any = infer_schema(present, entity=name, constraints=False).columns[name]
    return {**made, "template": seen.template, "bounds": seen.bounds, "drop": False}
