"""Whether SDV's metadata has the shapes that it must have, before anything is read out of it."""

from collections.abc import Mapping
from typing import Any

from synth.errors import SchemaError


def require_shapes(said: Mapping[str, Any]) -> None:
    """Refuse keys and relationships of a table that are no names of columns.

    Args:
        said: the metadata of one table.

    Raises:
        SchemaError: one is not; nothing was translated.

    >>> require_shapes({"primary_key": "id", "alternate_keys": [["a", "b"], "c"]})
    """
    for key in ("primary_key", "sequence_key", "sequence_index"):
        if said.get(key) is not None and not _is_key(said[key]):
            raise SchemaError(f"{key} of the metadata names columns; write a text or a list of texts")
    alternate = said.get("alternate_keys")
    if alternate is not None and not (isinstance(alternate, list) and all(map(_is_key, alternate))):
        raise SchemaError("alternate_keys of the metadata are a list of columns; write a list of texts")
    for relationship in require_objects(said, "column_relationships"):
        if not _is_names(relationship.get("column_names", [])):
            raise SchemaError("column_names of a relationship in the metadata name columns; write a list of texts")


def require_objects(said: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects that a key lists; none where it is not there.

    Raises:
        SchemaError: it is no list of objects; nothing was translated.
    """
    listed = said.get(key) or []
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise SchemaError(f"{key} of the metadata is no list of objects; pass a file that SDV saved")
    return listed


def _is_key(given: Any) -> bool:
    return isinstance(given, str) or _is_names(given)


def _is_names(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(name, str) for name in given)
