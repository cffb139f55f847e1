"""Plain data of a file that may hold anything: what is of the expected kind; what is not is left out."""

from collections.abc import Mapping
from typing import Any


def mapping(found: object) -> Mapping[str, Any]:
    """A mapping; an empty one where it is none."""
    return found if isinstance(found, Mapping) else {}


def mappings(found: object) -> tuple[Mapping[str, Any], ...]:
    """The mappings in a list.

    >>> mappings([{"a": 1}, 2]), mappings("ab")
    (({'a': 1},), ())
    """
    return tuple(one for one in found if isinstance(one, Mapping)) if isinstance(found, list | tuple) else ()


def texts(found: object) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()
