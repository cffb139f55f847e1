"""Validation of what files declare: strict models, plain texts, and one clear sentence out of every error.

`Frozen` is the base of every model. Texts of public lists must be such that every reader and every file takes them for
the same text. An unknown key is answered with the nearest known one.
"""

import hashlib
import json
import math
import os
import re
import stat
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from synth.errors import BadInput, nearest
from synth.progress import brief_repr

ESCAPES = (
    "characters of a user or a password that are none of letters, digits, '-', '.', '_' and '~' are written like %40 "
    "for '@'"
)
"""The remedy for an address that can be read in two ways."""
MARKS = "@?&;="
"""Characters that end a part of an address or begin a parameter: behind one, a shown part may hold a password."""
SCHEME = re.compile("[a-z][a-z0-9+.-]*", re.ASCII | re.IGNORECASE)
_CREDENTIALS = re.compile(":.*@", re.DOTALL)


def split_address(text: str, *, is_file: bool = False) -> SplitResult | None:
    """The parts of an address; `None` where the text is no address, or a shown part may hold some of a password.

    >>> split_address("postgresql://ann:secret@db.example/clinic").hostname
    'db.example'
    >>> split_address("postgresql://ann:sec@ret@db.example/clinic") is None
    True
    """
    scheme, mark, _ = text.partition("://")
    try:
        parts = urlsplit(text)
        sound = parts.port is None or parts.port > 0
    except ValueError:  # its message quotes a part
        return None
    if not (sound and mark and SCHEME.fullmatch(scheme)) or parts.netloc.count("@") > 1 or "@" in parts.query:
        return None
    shown = unquote((parts.hostname or "") + parts.fragment + ("" if is_file else parts.path))
    return None if any(mark in shown for mark in MARKS) else parts


def lacks_scheme(text: str) -> bool:
    """True if a text without a scheme is more likely credentials and a server than a file: it is not to be shown.

    >>> lacks_scheme("ann:secret@db.example/clinic"), lacks_scheme("books.db")
    (True, False)
    """
    return "://" not in text and _CREDENTIALS.search(text) is not None


def without_addresses(text: str) -> str:
    """A text in which no address is shown but its scheme: nobody can say where one that was mistyped ends.

    >>> without_addresses("no such option: postgresql://ann:secret@db.example/clinic")
    'no such option: postgresql://...'
    """
    before, mark, _ = text.partition("://")
    return f"{before}{mark}..." if mark else text


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


def is_plain(text: str) -> bool:
    r"""True if a text holds neither a NUL, after which C and pandas see nothing, nor half a surrogate pair.

    >>> is_plain("south"), is_plain("south\0a"), is_plain(chr(0xD800))
    (True, False, False)
    """
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair is no text
        return False
    return True


def require_plain(key: str, values: Iterable[Any]) -> None:
    """Refuse a public list that names a text which no reader takes for a value."""
    for value in values:
        if isinstance(value, str) and not is_plain(value):
            raise ValueError(
                f"{key} holds {_short(value)}, and a text with a NUL character or half a surrogate pair is read as "
                "missing; leave it out, and set missing = true where cells hold it"
            )


def refuse(rules: Iterable[tuple[object, str]]) -> None:
    """Raise the sentence of the first rule that is broken."""
    for is_broken, words in rules:
        if is_broken:
            raise ValueError(words)


def _short(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


_REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(("less_than", "less_than_equal"), "choose a smaller number"),
    **dict.fromkeys(("greater_than", "greater_than_equal"), "choose a larger number"),
    **dict.fromkeys(("string_too_short", "too_short"), "write more, or leave the key out"),
    **dict.fromkeys(("string_too_long", "too_long"), "write less"),
    "literal_error": "write one of these",
    "string_type": "write a text in quotes",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "write a whole number without quotes"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "write a number without quotes"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "write true or false"),
    "tuple_type": "write a list, as [1, 2]",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "write a table of TOML, with keys"),
}
"""The remedy for each type of pydantic's errors."""


class Frozen(BaseModel):
    """The content of a file, which never changes: unknown keys and numbers that are not finite are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    __repr__ = __str__ = brief_repr


def read_toml(path: Path, what: str, error: type[BadInput]) -> dict[str, Any]:
    """The content of a TOML file."""
    return parse_toml(read_given(path, what, error), what, error)


def parse_toml(file: GivenFile, what: str, error: type[BadInput]) -> dict[str, Any]:
    """The content of a TOML file that was read."""
    shown, none = f"path={str(file.path)!r}", f"the {what} {be(what)} not TOML"
    try:
        # As files of text are read: TOML itself takes no lone carriage return.
        text = file.content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        return plain_toml(text)
    except UnicodeDecodeError:
        raise error(f"{none}, which is UTF-8 text: {shown}; save it as UTF-8") from None
    except NotPlain as fault:
        raise error(f"the {what} cannot be used: {shown}: {fault}; correct it there") from None
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        raise error(f"{none}: {shown}: {message[:1].lower()}{message[1:]}; correct it there") from None


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first error as one sentence: the place, the rule, the value, the remedy."""
    errors = error.errors(include_url=False)
    # An unknown key is often why a known one is missing: it comes first.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    where = ".".join(str(step) for step in _without_tags(model, first["loc"])) or "the file"
    more = f" ({error.error_count() - 1} more after it)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        parent = _descend(model, first["loc"][:-1])
        known = [field.alias or key for key, field in parent.model_fields.items()] if parent is not None else []
        return f"unknown key {where!r}; {nearest(str(first['loc'][-1]), known)}{more}"
    if first["type"] == "missing":
        last = str(first["loc"][-1])
        either = ", or set measure = true for a private fit to measure it" if last in ("bounds", "categories") else ""
        return f"{where!r} is missing; add it{either}{more}"
    if first["type"] == "union_tag_invalid":
        return _unknown_tag(where, first["ctx"]) + more
    if first["type"] == "union_tag_not_found":
        return f"{where}: {first['ctx']['discriminator'].strip(chr(39))!r} is missing; say which one it is{more}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{where}: {message}{more}" if where != "the file" else f"{message}{more}"
    remedy = _REMEDIES.get(first["type"], "correct it")
    return f"{where}={_shown(first.get('input'))}: {_in_words(message)}; {remedy}{more}"


def _in_words(message: str) -> str:
    """The message of pydantic in the words of TOML.

    >>> _in_words("Tuple should have at least 1 item after validation, not 0")
    'list should have at least 1 item, not 0'
    """
    text = message[:1].lower() + message[1:]
    words = {"tuple": "list", "dictionary": "table", "string": "text", " after validation": ""}
    for theirs, ours in words.items():
        text = text.replace(theirs, ours)
    return text.partition(" or instance of")[0]


def _unknown_tag(where: str, context: Mapping[str, Any]) -> str:
    """The sentence for a kind, or another name that says which model applies, that is not known."""
    known = [tag.strip("' ") for tag in str(context["expected_tags"]).split(",")]
    key, tag = str(context["discriminator"]).strip("'"), context["tag"]
    return f"{where}: unknown {key}={tag!r}; {nearest(str(tag), known)}"


def _shown(value: Any) -> str:
    text = without_addresses(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _without_tags(model: type[BaseModel], loc: tuple[Any, ...]) -> list[Any]:
    """The location without the union tags that pydantic adds to it."""
    kept: list[Any] = []
    here: Any = model
    for index, step in enumerate(loc):
        below = _step(here, step)
        if below is not None and below[1]:
            here = below[0]
            continue
        if below is None and index and not _names_key(here, step, index == len(loc) - 1):
            continue
        kept.append(step)
        here = _bare(below[0]) if below is not None else None
    return kept


def _names_key(here: Any, step: Any, last: bool) -> bool:
    """True if a step that leads nowhere is a key the user wrote (an unknown one) rather than a type of a union."""
    return isinstance(step, int) or (last and isinstance(here, type) and issubclass(here, BaseModel))


def _descend(model: type[BaseModel], loc: tuple[Any, ...]) -> type[BaseModel] | None:
    here: Any = model
    for step in loc:
        below = _step(here, step)
        if below is None:
            return None
        here = _bare(below[0])
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _step(here: Any, step: Any) -> tuple[Any, bool] | None:
    """The annotation below `here` at `step`, and `True` if `step` was a union's tag; `None` where it leads nowhere."""
    here = _bare(here)
    if isinstance(here, type) and issubclass(here, BaseModel):
        field = next((field for key, field in here.model_fields.items() if step == (field.alias or key)), None)
        return (field.annotation, False) if field is not None else None
    origin, args = typing.get_origin(here), typing.get_args(here)
    if origin in (dict,) or (origin is not None and getattr(origin, "__name__", "") == "Mapping"):
        return args[1], False
    if origin in (list, tuple) and isinstance(step, int):
        return args[0], False
    if origin in (typing.Union, types.UnionType):
        return _union_step(args, step)
    return None


def _union_step(args: tuple[Any, ...], step: Any) -> tuple[Any, bool] | None:
    for arg in map(_bare, args):
        if isinstance(arg, type) and issubclass(arg, BaseModel):
            tags = {field.default for name, field in arg.model_fields.items() if name in ("kind", "generator")}
            if step in tags:
                return arg, True
    for arg in map(_bare, args):
        if arg is not type(None) and (below := _step(arg, step)) is not None:
            return below
    return None


def _bare(annotation: Any) -> Any:
    """An annotation without `Annotated`, and without the none of one that may be left out."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *marks = typing.get_args(annotation)
        annotation = next((mark.union for mark in marks if hasattr(mark, "union")), annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        present = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _bare(present[0]) if len(present) == 1 else annotation
    return annotation
