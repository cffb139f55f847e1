"""Plain data of a file that may hold anything: what is of the expected kind; what is not is left out."""

from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """The mappings in a list.

    >>> mappings([{"a": 1}, 2]), mappings("ab")
    (({'a': 1},), ())
    """
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list | tuple) else ()


def texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
