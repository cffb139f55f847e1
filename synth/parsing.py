"""Small input files, read once, and their TOML and JSON as plain data, read strictly.

The content that is understood, hashed and passed on is the same, whatever becomes of the file afterwards. Python's
parsers take more than the rest of a program can hold: whole numbers of any length, numbers that round to infinity,
lists nested without end, a key twice. Such content is refused here, at the one place where it comes in.
"""

import hashlib
import json
import math
import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synth.errors import BadInput


@dataclass(frozen=True)
class GivenFile:
    """A small file of settings, as it was when it was read."""

    path: Path
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The SHA-256 of its content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def read_given(path: Path, what: str, error: type[BadInput]) -> GivenFile:
    """A file as it is now."""
    shown = f"path={str(path)!r}"
    try:
        content = _content(path)
    except FileNotFoundError:
        raise error(f"the {what} cannot be read: there {be(what)} no {what} at {shown}; check the name") from None
    except IsADirectoryError:
        raise error(f"the {what} cannot be read: {shown} is a folder; name a file in it") from None
    except ValueError:  # a NUL character
        raise error(f"the {what} cannot be read: {shown} is no path; check the name") from None
    except OSError as refusal:
        raise error(f"the {what} cannot be read: {shown} ({refusal.strerror}); pass a file that can") from None
    if content is None:
        raise error(f"the {what} must be a file on a disk: {shown} is a pipe or a device; save it as a file")
    return GivenFile(path, content)


def be(what: str) -> str:
    """The verb of what is read: some files hold several of what they are named after.

    >>> be("job"), be("waivers")
    ('is', 'are')
    """
    return "are" if what.endswith("s") else "is"


def _content(path: Path) -> bytes | None:
    """All that a file holds; `None` where it is no file. A pipe that nobody writes to is not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


DEEPEST = 100  # lists and tables within each other, at most
_MOST = 2**63  # whole numbers lie below it, as TOML promises them; arrays hold no larger ones
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

    >>> plain_toml("n = 1e3")
    {'n': 1000.0}
    """
    try:
        content = tomllib.loads(text, parse_float=_float)
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

    >>> plain_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=lambda constant: _Unfit(f"{constant} is no number"),
            parse_int=_json_int,
            parse_float=_float,
        )
    except RecursionError:
        raise NotPlain(_TOO_DEEP) from None
    _check(parsed)
    if "\\ud" in text.lower():
        try:
            json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # which no file can hold
            raise NotPlain("a text holds half a surrogate pair") from None
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise NotPlain("a key stands twice in one object")
    return result


def _json_int(digits: str) -> int | _Unfit:
    return int(digits) if len(digits) <= len(str(-_MOST)) else _Unfit(_TOO_LARGE)


def _float(digits: str) -> float | _Unfit:
    value = float(digits)
    return value if digits.endswith("inf") or not math.isinf(value) else _Unfit(_TOO_LARGE)


def _check(content: Any) -> None:
    """Refuse numbers that were found unfit, and what other libraries, which call themselves for each level, break on.

    Level by level, since a function that calls itself would break on it, too.
    """
    level, depth = [("", content)], 0
    while level:
        depth += 1
        if depth > DEEPEST and any(isinstance(value, dict | list) for _, value in level):
            raise NotPlain(_TOO_DEEP)
        level = [below for key, value in level for below in _below(key, value)]


def _below(key: str, inner: Any) -> "list[tuple[str, Any]]":
    """The values directly within a value that have to be looked at, each with the nearest key."""
    if isinstance(inner, dict):
        return [(name, value) for name, value in inner.items() if not isinstance(value, str | float)]
    if isinstance(inner, list):
        return [(key, value) for value in inner if not isinstance(value, str | float)]
    if isinstance(inner, _Unfit):
        raise _unfit(key, inner.why)
    if isinstance(inner, int) and not -_MOST <= inner < _MOST:
        raise _unfit(key, _TOO_LARGE)
    return []


def _unfit(key: str, why: str) -> NotPlain:
    return NotPlain(f"{key}: {why}" if _SHOWN_KEY.fullmatch(key) else why)
