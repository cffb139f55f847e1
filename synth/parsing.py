"""TOML and JSON as plain data, read strictly.

The parsers of Python take more than the rest of a program can hold: whole numbers of any length, numbers that round to
infinity, lists nested without end, a key twice. Such content is refused here, at the one place where it comes in.
"""

import json
import math
import re
import tomllib
from dataclasses import dataclass
from typing import Any

DEEPEST = 100
"""Lists and tables within each other, at most."""
_MOST = 2**63
"""Whole numbers lie below it, as TOML promises them; arrays hold no larger ones."""
_TOO_DEEP = "lists or tables are nested too deep"
_TOO_LARGE = "a number is too large"
_SHOWN_KEY = re.compile("[A-Za-z_][A-Za-z0-9_.-]{0,59}", re.ASCII)


class NotPlain(ValueError):
    """Content that no file of ours holds, in a few words; whoever reads the file makes a whole sentence of it."""


@dataclass(frozen=True)
class _Unfit:
    """Stands in the place of a number that is refused, until its key is known."""

    why: str


def plain_toml(text: str) -> dict[str, Any]:
    """The content of TOML text.

    Raises:
        TOMLDecodeError: it is not TOML; the message names the line.
        NotPlain: it is, and holds a number that is too large, or is nested too deep.

    >>> plain_toml("n = 1e3")
    {'n': 1000.0}
    """
    try:
        content = tomllib.loads(text, parse_float=_toml_float)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise NotPlain(_TOO_DEEP) from None
    except ValueError:  # Python reads no whole number of so many digits
        line = next((n for n, line in enumerate(text.split("\n"), 1) if re.search("[0-9][0-9_]{4000}", line)), "?")
        raise NotPlain(f"a whole number is too large (at line {line})") from None
    _check(content)
    return content


def plain_json(content: bytes | str) -> Any:
    """The content of JSON text.

    Args:
        content: UTF-8, where it is bytes.

    Raises:
        NotPlain: a key stands twice in one object, a number is none or too large, a text holds half a surrogate pair,
            or it is nested too deep.
        ValueError: it is not JSON, or not UTF-8.

    >>> plain_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    try:
        found = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=_json_int, parse_float=_json_float
        )
    except RecursionError:
        raise NotPlain(_TOO_DEEP) from None
    _check(found)
    if "\\ud" in text.lower() and not can_be_written(found):
        raise NotPlain("a text holds half a surrogate pair")
    return found


def can_be_written(content: Any) -> bool:
    """True if all texts are whole characters: JSON may hold halves of a surrogate pair, which no file can."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise NotPlain("a key stands twice in one object")
    return made


def _no_number(constant: str) -> _Unfit:
    return _Unfit(f"{constant} is no number")


def _json_int(digits: str) -> int | _Unfit:
    return int(digits) if len(digits) <= len(str(-_MOST)) else _Unfit(_TOO_LARGE)


def _json_float(digits: str) -> float | _Unfit:
    value = float(digits)
    return value if math.isfinite(value) else _Unfit(_TOO_LARGE)


def _toml_float(digits: str) -> float | _Unfit:
    value = float(digits)
    return value if digits.endswith("inf") or not math.isinf(value) else _Unfit(_TOO_LARGE)


def _check(content: Any) -> None:
    """Refuse numbers that were found unfit, and what other libraries, which call themselves for each level, break on.

    Level by level, since a function that calls itself would break on it, too.
    """
    level, depth = [("", content)], 0
    while level:
        depth += 1
        if depth > DEEPEST and any(isinstance(one, dict | list) for _, one in level):
            raise NotPlain(_TOO_DEEP)
        level = [below for key, one in level for below in _below(key, one)]


def _below(key: str, one: Any) -> "list[tuple[str, Any]]":
    """What lies directly in a value and has to be looked at, each with the nearest key."""
    if isinstance(one, dict):
        return [(name, value) for name, value in one.items() if not isinstance(value, str | float)]
    if isinstance(one, list):
        return [(key, value) for value in one if not isinstance(value, str | float)]
    if isinstance(one, _Unfit):
        raise _unfit(key, one.why)
    if isinstance(one, int) and not -_MOST <= one < _MOST:
        raise _unfit(key, _TOO_LARGE)
    return []


def _unfit(key: str, why: str) -> NotPlain:
    return NotPlain(f"{key}: {why}" if _SHOWN_KEY.fullmatch(key) else why)
