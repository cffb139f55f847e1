"""The mapping between the words of SDV's metadata and ours: versions, keys, kinds of personal data, formats of ids.

SDV's ids follow a regular expression, our identifiers a template; each is translated where the other can say the same.
"""

import itertools
import re
from typing import Literal

from synth.columns import INT64
from synth.identifiers import ALPHABETS

Spec = Literal["V2", "V1", "SINGLE_TABLE_V1"]
SPECS: tuple[Spec, ...] = ("V2", "V1", "SINGLE_TABLE_V1")
"""Versions that are written."""
READ_SPECS = ("SINGLE_TABLE_V1", "SINGLE_TABLE_V2", "MULTI_TABLE_V1", "V1", "V2")
"""Versions that are read: what SDV 1.0 to 2.0 writes."""
VERSION = "METADATA_SPEC_VERSION"

TABLE_KEYS = (
    "columns", "primary_key", "alternate_keys", "sequence_key", "sequence_index", "column_relationships", VERSION,
)  # fmt: skip
COLUMN_KEYS = {
    "numerical": ("computer_representation", "decimal_places", "range_min", "range_max"),
    "categorical": ("range_values", "high_cardinality", "order", "order_by"),
    "ordinal": ("range_values", "high_cardinality", "order", "order_by"),
    "boolean": (),
    "datetime": ("datetime_format", "range_min", "range_max"),
    "id": ("regex_format", "pii"),
    "unknown": ("pii",),
}
"""Keys of a column beside `sdtype` and `range_is_nullable`, by its sdtype."""

PERSONAL = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "email": "email", "phone_number": "phone",
    "address": "address", "street_address": "street", "city": "city", "postcode": "postcode",
    "credit_card_number": "card_number", "iban": "iban", "bban": "account_number", "ssn": "national_id", "text": "text",
}  # fmt: skip
"""Sdtypes of personal data, and the kind of it that we make anew."""
OTHER_PERSONAL = (
    "administrative_unit", "company", "country", "country_code", "date_of_birth", "ipv4_address", "ipv6_address",
    "job", "latitude", "license_plate", "longitude", "mac_address", "secondary_address", "state", "state_abbr",
    "swift8", "swift11", "url", "user_agent_string", "user_name", "vin",
)  # fmt: skip
"""Sdtypes of personal data that we leave out; others are known by their key ``pii``."""

REPRESENTATIONS = {
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": (0, min(2**bits - 1, INT64[1])) for bits in (8, 16, 32, 64)},
}
"""Whole numbers of a computer representation."""


def shown(names: list[str] | tuple[str, ...]) -> str:
    """Names of columns for a sentence, not too many.

    >>> shown(["a", "b"])
    "'a', 'b'"
    """
    most = 8
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
_LONGEST = 200


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
    r"""The template of a regular expression; none where a template cannot say the same.

    A template has one length and knows digits, letters of one case, hexadecimal digits and characters that stand for
    themselves: no choice, no repetition without a number, no other class.

    >>> template_of_regex(r"^P-\d{4}[A-Z]$"), template_of_regex("[A-Za-z]{5}")
    ('P-####A', None)
    """
    if len(regex) > _LONGEST * len(_CLASSES["x"]):  # no template takes so long an expression
        return None
    rest, made = regex.removeprefix("^"), ""
    if rest.endswith("$") and not rest.endswith(r"\$"):
        rest = rest[:-1]
    while rest:
        token = _TOKEN.match(rest)
        mark = None if token is None else _mark(token["one"])
        if token is None or mark is None:
            return None
        made, rest = made + mark * int(token["times"] or 1), rest[token.end() :]
        if len(made) > _LONGEST:
            return None
    return made if any(made) else None


def _mark(one: str) -> str | None:
    """What stands in a template for one character of an expression."""
    if one in _MARKS:
        return _MARKS[one]
    if one.startswith("["):
        return None
    literal = one[1:] if one.startswith("\\") else one
    if one.startswith("\\") and literal.isalnum():  # a class, such as \w, or a character code
        return None
    return f"\\{literal}" if literal in ALPHABETS or literal == "\\" else literal
