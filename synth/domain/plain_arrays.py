"""Arrays out of plain data that may be damaged: what is no list of numbers is refused, not converted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def reals(content: Mapping[str, Any], key: str) -> NDArray[np.float64]:
    return _listed(content, key, "iuf").astype(np.float64)


def whole_numbers(content: Mapping[str, Any], key: str) -> NDArray[np.int64]:
    return _listed(content, key, "i").astype(np.int64)


def flag(content: Mapping[str, Any], key: str) -> bool:
    value = content[key]
    if not isinstance(value, bool):
        raise TypeError(f"{key} is true or false, not of type {type(value).__name__}")
    return value


def count(content: Mapping[str, Any], key: str, most: int) -> int:
    value = content[key]
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{key} is no whole number from 1 to {most}")
    return value


def require_columns(content: Mapping[str, Any], columns: tuple[str, ...]) -> None:
    """Refuse plain data that is not of exactly these columns."""
    if set(content) != set(columns):
        raise ValueError("the encoding is not of the schema's modeled columns")


def _listed(content: Mapping[str, Any], key: str, kinds: str) -> NDArray[Any]:
    array = np.array(content[key])
    if array.ndim != 1 or (array.size and array.dtype.kind not in kinds) or not np.isfinite(array).all():
        raise ValueError(f"{key} is no list of finite numbers")
    return array
