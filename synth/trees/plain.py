"""A model of trees as plain data and arrays, and back: dataclasses by the names of their classes. Nothing is run."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.domain.discretizer import Attribute, Discretizer
from synth.schema.kinds import RealColumn


def to_plain(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain data, with the names of arrays that are put beside it."""
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Attribute):
        return {"codes": Discretizer((value,)).to_plain()[value.name], "bounds": list(value.column.bounds)}
    if is_dataclass(value):
        parts = {field.name: to_plain(getattr(value, field.name), arrays) for field in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {"items": [[key, to_plain(each, arrays)] for key, each in value.items()]}
    return [to_plain(each, arrays) for each in value] if isinstance(value, tuple) else value


def from_plain(content: Any, arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, type]) -> Any:
    """The value of plain data that may be damaged."""
    if isinstance(content, list):
        return tuple(from_plain(each, arrays, kinds) for each in content)
    if not isinstance(content, dict):
        return content
    if "array" in content:
        return arrays[content["array"]]
    if "codes" in content:
        return Attribute.from_plain("", RealColumn(bounds=tuple(content["bounds"])), content["codes"])
    if "items" in content:
        return {key: from_plain(each, arrays, kinds) for key, each in content["items"]}
    parts = {key: from_plain(each, arrays, kinds) for key, each in content.items() if key != "kind"}
    return kinds[content["kind"]](**parts)
