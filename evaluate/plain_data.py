"""Plain data of a file that may hold anything: what is of the expected kind; what is not is left out."""

import math
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
    """The entries of a list, as texts."""
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def whole(found: object) -> int | None:
    """A count; none where it is none.

    >>> whole(3), whole(-1), whole(True), whole(2.0)
    (3, None, None, None)
    """
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def real(found: object) -> float | None:
    """A finite number; none where it is none.

    >>> real(3), real(float("nan")), real("3")
    (3.0, None, None)
    """
    known = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if known else None  # type: ignore[arg-type]
