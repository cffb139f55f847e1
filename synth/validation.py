"""What users write: addresses, small files of TOML and JSON, strict models, and one sentence out of every error.

A password may hold any character, and somebody who does not know that some have to be escaped writes them as they are.
Then the parts that a parser finds are not those that were meant: its server is the end of a password. So an address is
read only where there is one way to read it, and else refused without a word of it.

Python's parsers take more than the rest of a program can hold: whole numbers of any length, numbers that round to
infinity, lists nested without end, a key twice. Such content is refused here, at the one place where it comes in.
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

ESCAPES = "in a user and a password, all but letters, digits, '-', '.', '_' and '~' is written like %40 for '@'"
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
    """A small file of settings, as it was when it was read, whatever becomes of it afterwards."""

    path: Path
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """In hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def read_given(path: Path, what: str, error: type[BadInput]) -> GivenFile:
    """A file as it is now."""
    shown = f"path={str(path)!r}"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe that nobody writes to is not waited for
        if stat.S_ISREG(os.fstat(handle).st_mode):
            with os.fdopen(handle, "rb") as file:
                return GivenFile(path, file.read())
        os.close(handle)
    except FileNotFoundError:
        raise error(f"the {what} cannot be read: there {be(what)} no {what} at {shown}; check the name") from None
    except (OSError, ValueError) as refusal:  # ValueError: a NUL character
        reason = getattr(refusal, "strerror", "it is no path")
        raise error(f"the {what} cannot be read: {shown} ({reason}); name a file that can") from None
    raise error(f"the {what} cannot be read: {shown} is a folder, a pipe or a device; name a file")


def be(what: str) -> str:
    """The verb of what is read: some files hold several of what they are named after.

    >>> be("job"), be("waivers")
    ('is', 'are')
    """
    return "are" if what.endswith("s") else "is"


DEEPEST = 100  # lists and tables within each other, at most
_MOST = 2**63  # whole numbers lie below it, as TOML promises them; arrays hold no larger ones


class NotPlain(ValueError):
    """Content that no file of ours holds, in a few words; whoever reads the file makes a whole sentence of it."""


def plain_toml(text: str) -> dict[str, Any]:
    """The content of TOML text.

    >>> plain_toml("n = 1e3")
    {'n': 1000.0}
    """
    try:
        return _checked(tomllib.loads(text, parse_float=_toml_float))  # type: ignore[no-any-return]
    except (tomllib.TOMLDecodeError, NotPlain):
        raise
    except RecursionError:
        raise NotPlain("lists or tables are nested too deep") from None
    except ValueError:  # Python reads no whole number of so many digits
        raise NotPlain("a number is too large") from None


def plain_json(content: bytes | str) -> Any:
    """The content of JSON text.

    >>> plain_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    try:
        parsed = _checked(json.loads(text, object_pairs_hook=_once, parse_int=_json_int), finite=True)
    except RecursionError:
        raise NotPlain("lists or tables are nested too deep") from None
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


def _json_int(digits: str) -> int:
    if len(digits) > len(str(-_MOST)):
        raise _too_large(digits)
    return int(digits)


def _toml_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value) and not digits.endswith("inf"):
        raise _too_large(digits)
    return value


def _too_large(digits: str, key: str = "") -> NotPlain:
    return _unfit(f"a number is too large: {_short(digits)}", key)


def _unfit(why: str, key: str) -> NotPlain:
    is_plain_word = key.isascii() and key.isidentifier() and len(key) <= 60  # another key is not told
    return NotPlain(f"{key}: {why}" if is_plain_word else why)


def _checked(content: Any, *, finite: bool = False) -> Any:
    """The content without numbers that are too large, and without depths on which other libraries break.

    Level by level, since a function that calls itself would break, too.
    """
    level: list[tuple[str, Any]] = [("", content)]
    depth = 0
    while level:
        depth += 1
        if depth > DEEPEST and any(isinstance(value, dict | list) for _, value in level):
            raise NotPlain("lists or tables are nested too deep")
        for key, value in level:
            if isinstance(value, int) and not -_MOST <= value < _MOST:
                raise _too_large(str(value), key)
            if finite and isinstance(value, float) and not math.isfinite(value):
                raise _unfit(f"{value} is no number", key)
        level = [pair for key, value in level for pair in _inside(key, value)]
    return content


def _inside(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    """What a container holds, each with the nearest key."""
    if isinstance(value, dict):
        return value.items()
    return [(key, each) for each in value] if isinstance(value, list) else ()


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
                f"{key} holds {_short(ascii(value))}, and a text with a NUL character or half a surrogate pair is read "
                "as missing; leave it out, and set missing = true where cells hold it"
            )


def refuse(rules: Iterable[tuple[object, str]]) -> None:
    """Raise the sentence of the first rule that is broken."""
    for is_broken, words in rules:
        if is_broken:
            raise ValueError(words)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


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
        return plain_toml(file.content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n"))
    except UnicodeDecodeError:
        raise error(f"{none}, which is UTF-8 text: {shown}; save it as UTF-8") from None
    except NotPlain as fault:
        raise error(f"the {what} cannot be used: {shown}: {fault}; correct it there") from None
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        raise error(f"{none}: {shown}: {message[:1].lower()}{message[1:]}; correct it there") from None


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
_TOML_WORDS = {"tuple": "list", "dictionary": "table", "string": "text", " after validation": ""}


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first error as one sentence: the place, the rule, the value, the remedy."""
    errors = error.errors(include_url=False)
    # An unknown key is often why a known one is missing: it comes first.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    kind, loc, context = first["type"], first["loc"], first.get("ctx", {})
    where = ".".join(str(step) for step in _walk(model, loc)[0]) or "the file"
    more = f" ({len(errors) - 1} more after it)" if len(errors) > 1 else ""
    if kind == "extra_forbidden":
        parent = _walk(model, loc[:-1])[1]
        known = [field.alias or key for key, field in parent.model_fields.items()] if _is_model(parent) else []
        return f"unknown key {where!r}; {nearest(str(loc[-1]), known)}{more}"
    if kind == "missing":
        either = (
            ", or set measure = true for a private fit to measure it" if loc[-1] in ("bounds", "categories") else ""
        )
        return f"{where!r} is missing; add it{either}{more}"
    if kind == "union_tag_invalid":
        known = [tag.strip("' ") for tag in str(context["expected_tags"]).split(",")]
        key, tag = str(context["discriminator"]).strip("'"), context["tag"]
        return f"{where}: unknown {key}={tag!r}; {nearest(str(tag), known)}{more}"
    if kind == "union_tag_not_found":
        return f"{where}: {context['discriminator'].strip(chr(39))!r} is missing; say which one it is{more}"
    message = first["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{where}: {message}{more}" if where != "the file" else f"{message}{more}"
    message = message[:1].lower() + message[1:].partition(" or instance of")[0]
    for theirs, ours in _TOML_WORDS.items():
        message = message.replace(theirs, ours)
    value = _short(without_addresses(repr(first.get("input"))))
    return f"{where}={value}: {message}; {_REMEDIES.get(kind, 'correct it')}{more}"


def _walk(model: type[BaseModel], loc: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The location without the steps that pydantic adds for unions, and the annotation there, if there is one."""
    kept: list[Any] = []
    here: Any = model
    for index, step in enumerate(loc):
        below, is_tag = _step(here, step)
        if is_tag:
            here = below
            continue
        # A step that leads nowhere is an unknown key of the user's, or the type that a union was tried with.
        is_key = isinstance(step, int) or (index == len(loc) - 1 and _is_model(here))
        if below is None and index and not is_key:
            continue
        kept.append(step)
        here = _bare(below)
    return kept, here


def _step(here: Any, step: Any) -> tuple[Any, bool]:
    """The annotation below another at a step, `None` where it leads nowhere, and true if the step is a union's tag."""
    here = _bare(here)
    if _is_model(here):
        fields = here.model_fields.items()
        return next((field.annotation for key, field in fields if step == (field.alias or key)), None), False
    origin, args = typing.get_origin(here), typing.get_args(here)
    if origin is dict or getattr(origin, "__name__", "") == "Mapping":
        return args[1], False
    if origin in (list, tuple) and isinstance(step, int):
        return args[0], False
    if origin not in (typing.Union, types.UnionType):
        return None, False
    members = [arg for arg in map(_bare, args) if arg is not type(None)]
    for arg in filter(_is_model, members):
        if step in {field.default for name, field in arg.model_fields.items() if name in ("kind", "generator")}:
            return arg, True
    return next((below for arg in members if (below := _step(arg, step))[0] is not None), (None, False))


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _bare(annotation: Any) -> Any:
    """An annotation without `Annotated`, and without the none of one that may be left out."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *marks = typing.get_args(annotation)
        annotation = next((mark.union for mark in marks if hasattr(mark, "union")), annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        present = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _bare(present[0]) if len(present) == 1 else annotation
    return annotation
