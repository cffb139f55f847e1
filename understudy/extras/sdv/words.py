"""The words of SDV's metadata: versions, kinds of personal data, and formats of ids.

SDV's ids follow a regular expression, our identifiers a template; each is translated where the other can say the same.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Literal

from synth.identifiers import ALPHABETS

Spec = Literal["V2", "V1", "SINGLE_TABLE_V1"]
SPECS: tuple[Spec, ...] = ("V2", "V1", "SINGLE_TABLE_V1")  # versions that are written
VERSION = "METADATA_SPEC_VERSION"

PLAIN = ("numerical", "categorical", "ordinal", "boolean", "datetime", "id", "unknown")
"""Sdtypes that hold no personal data."""
PERSONAL = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "email": "email", "phone_number": "phone",
    "address": "address", "street_address": "street", "city": "city", "postcode": "postcode",
    "credit_card_number": "card_number", "iban": "iban", "bban": "account_number", "ssn": "national_id", "text": "text",
}  # fmt: skip
"""Sdtypes of personal data, and the kind of it that we make anew; others are known by their key ``pii``."""


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names for a sentence, not too many.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + (f" and {more} more" if more > 0 else "")


_CLASSES = {"#": "[0-9]", "A": "[A-Z]", "a": "[a-z]", "x": "[0-9a-f]", "X": "[0-9A-F]"}
_MARKS = {
    **{text: mark for mark, text in _CLASSES.items()},
    r"\d": "#", "[a-f0-9]": "x", "[A-F0-9]": "X", r"[\da-f]": "x", r"[\dA-F]": "X", r"[\d]": "#",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<one>\\.|\[[^\]\\]*(?:\\.[^\]\\]*)*\]|[^\\\[\](){}*+?|.^$])(?:\{(?P<times>\d{1,3})(?:,(?P=times))?\})?"
)
_SPECIAL = re.compile(r"[\\\[\](){}*+?|.^$]")
_LONGEST_TEMPLATE = 200


def regex_of(template: str) -> str:
    r"""The regular expression of a template.

    >>> regex_of(r"P-####\A")
    'P-[0-9]{4}A'
    """
    characters, marks = iter(template), []
    for character in characters:
        literal = next(characters, "\\") if character == "\\" else character
        marks.append(_CLASSES[character] if character in ALPHABETS else _SPECIAL.sub(r"\\\g<0>", literal))
    runs = [(mark, len(list(run))) for mark, run in itertools.groupby(marks)]
    return "".join(mark if n == 1 else f"{mark}{{{n}}}" for mark, n in runs)


def template_of_regex(regex: str) -> str | None:
    r"""The template of a regular expression; `None` where a template cannot say the same.

    A template has one length and knows digits, letters of one case, hexadecimal digits and characters that stand for
    themselves: no choice, no repetition without a number, no other class.

    >>> template_of_regex(r"^P-\d{4}[A-Z]$"), template_of_regex("[A-Za-z]{5}")
    ('P-####A', None)
    """
    rest, template = regex.removeprefix("^"), ""
    if rest.endswith("$") and not rest.endswith(r"\$"):
        rest = rest[:-1]
    while rest:
        token = _TOKEN.match(rest)
        mark = None if token is None else _mark(token["one"])
        if token is None or mark is None or len(template) > _LONGEST_TEMPLATE:
            return None
        template, rest = template + mark * int(token["times"] or 1), rest[token.end() :]
    return template if 0 < len(template) <= _LONGEST_TEMPLATE else None


def _mark(one: str) -> str | None:
    """A template's placeholder for one character of an expression."""
    if one in _MARKS or one.startswith("["):
        return _MARKS.get(one)
    literal = one.removeprefix("\\") or one
    if one.startswith("\\") and literal.isalnum():  # a class, such as \w, or a character code
        return None
    return f"\\{literal}" if literal in ALPHABETS or literal == "\\" else literal
