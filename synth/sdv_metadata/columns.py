"""One column of SDV's metadata as the content of a column of a schema, and the mapping between the words of both.

The words are versions, keys, kinds of personal data and formats of ids. SDV's ids follow a regular expression, our
identifiers a template; each is translated where the other can say the same.
"""

import datetime as dt
import itertools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from synth.errors import SchemaError, nearest
from synth.identifiers import ALPHABETS
from synth.schema.kinds.number import INT64
from synth.schema.kinds.real import WIDEST_REAL

Spec = Literal["V2", "V1", "SINGLE_TABLE_V1"]
SPECS: tuple[Spec, ...] = ("V2", "V1", "SINGLE_TABLE_V1")  # versions that are written
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
    if len(regex) > _LONGEST_TEMPLATE * len(_CLASSES["x"]):  # no template takes so long an expression
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
        if len(made) > _LONGEST_TEMPLATE:
            return None
    return made if any(made) else None


def _mark(one: str) -> str | None:
    """A template's placeholder for one character of an expression."""
    if one in _MARKS:
        return _MARKS[one]
    if one.startswith("["):
        return None
    literal = one[1:] if one.startswith("\\") else one
    if one.startswith("\\") and literal.isalnum():  # a class, such as \w, or a character code
        return None
    return f"\\{literal}" if literal in ALPHABETS or literal == "\\" else literal


_PRECISIONS = (("us", "f"), ("s", "STXcsr"), ("min", "MR"), ("h", "HI"))
"""The finest part that a format writes, by its directives."""

_LONGEST_MESSAGE = 80  # characters of what is wrong that a sentence repeats

BECOMES_BOOLEAN = "categories true and false become kind boolean, and sdtype='boolean' on the way back"


@dataclass
class Translation:
    """One column on its way: what the metadata says, and what gets lost."""

    name: str
    said: Mapping[str, Any]
    is_key: bool
    lost: list[str] = field(default_factory=list)

    @property
    def missing(self) -> bool:
        """True if a value may be missing: it may in SDV, unless the metadata says otherwise."""
        return bool(self.said.get("range_is_nullable", not self.is_key)) and not self.is_key

    def lose(self, what: str) -> None:
        """Note what has no place in a schema."""
        self.lost.append(f"column={self.name!r}: {what}")

    def refuse(self, rule: str, remedy: str) -> SchemaError:
        """The error for metadata that cannot be."""
        return SchemaError(f"the metadata of column={self.name!r} {rule}; {remedy}")


def translated(column: Translation) -> dict[str, Any]:
    """The content of the column in a schema; what gets lost is noted in `column`."""
    sdtype = column.said.get("sdtype")
    if not isinstance(sdtype, str):
        raise column.refuse("has no sdtype", "name one, such as 'numerical' or 'categorical'")
    personal = sdtype not in COLUMN_KEYS
    if personal and not (sdtype in PERSONAL or sdtype in OTHER_PERSONAL or "pii" in column.said):
        raise column.refuse(
            f"has sdtype={_short(sdtype)}, which is unknown",
            nearest(sdtype, [*COLUMN_KEYS, *PERSONAL, *OTHER_PERSONAL]),
        )
    known = {"sdtype", "range_is_nullable", *(("pii",) if personal else COLUMN_KEYS[sdtype])}
    unknown = next((key for key in column.said if key not in known), None)
    if unknown is not None:
        raise column.refuse(f"has the unknown key {_short(unknown)}", nearest(str(unknown), known))
    made = _personal(column, sdtype) if personal else _KINDS[sdtype](column)
    return {**made, "missing": column.missing}


def _numerical(column: Translation) -> dict[str, Any]:
    decimals, form = column.said.get("decimal_places"), column.said.get("computer_representation")
    if decimals is not None and (isinstance(decimals, bool) or not isinstance(decimals, int)):
        raise column.refuse(f"has decimal_places={decimals!r}", "write a whole number")
    if form is not None and form not in (*REPRESENTATIONS, "Float"):
        raise column.refuse(
            f"has computer_representation={form!r}, which is unknown", nearest(str(form), [*REPRESENTATIONS, "Float"])
        )
    whole = decimals == 0 or (form not in (None, "Float") and not decimals)
    if not whole:
        return {"kind": "real", "decimals": decimals, **_range(column, WIDEST_REAL, WIDEST_REAL)}
    return {"kind": "integer", **_range(column, REPRESENTATIONS.get(str(form), INT64), INT64)}


def _range(column: Translation, outer: tuple[Any, Any], widest: tuple[Any, Any]) -> dict[str, Any]:
    """The bounds where both ends are given; else they are to be measured, within outer limits where there are any."""
    read = _whole if widest is INT64 else _number
    ends = [read(column, column.said[key]) if key in column.said else None for key in ("range_min", "range_max")]
    if None not in ends:
        return {"bounds": ends}
    limits = [limit if end is None else end for end, limit in zip(ends, outer, strict=True)]
    return {"measure": True} if tuple(limits) == widest else {"measure": True, "bounds": limits}


def _number(column: Translation, end: Any) -> float:
    if isinstance(end, bool) or not isinstance(end, int | float) or not abs(end) <= sys.float_info.max:
        raise column.refuse(f"has a range from or to {_short(end)}", "write a number that is finite")
    return float(end)


def _whole(column: Translation, end: Any) -> int:
    if not _number(column, end).is_integer():
        raise column.refuse(f"has a range from or to {end!r} and no decimal places", "write a whole number")
    return int(end)


def _categorical(column: Translation) -> dict[str, Any]:
    ordered = column.said["sdtype"] == "ordinal" or "order" in column.said
    values = column.said.get("range_values", column.said.get("order"))
    for key in ("high_cardinality", "order_by"):
        if column.said.get(key):
            column.lose(f"{key} has no place in a schema")
    if values is None:
        if ordered:
            column.lose("that its categories have an order is known of listed categories only")
        return {"kind": "categorical", "measure": True}
    if not isinstance(values, list):
        raise column.refuse("has categories that are no list", "write a list of values")
    types = {type(value) for value in values}
    if types == {bool}:
        column.lose(BECOMES_BOOLEAN)
        return {"kind": "boolean"}
    if types <= {int, float} and all(isinstance(v, int) or v.is_integer() for v in values):
        return {"kind": "categorical", "categories": [int(value) for value in values], "ordered": ordered}
    if types == {str}:
        return {"kind": "categorical", "categories": values, "ordered": ordered}
    column.lose("its categories are neither all texts nor all whole numbers, and are left out")
    return {"kind": "categorical", "measure": True}


def _datetime(column: Translation) -> dict[str, Any]:
    form = column.said.get("datetime_format")
    if form is not None and not isinstance(form, str):
        raise column.refuse(f"has datetime_format={form!r}", "write a text such as '%Y-%m-%d'")
    directives, precision = _directives(form), precision_of(form)
    if precision is None:
        return {"kind": "date", "format": form, **_times(column, form, whole_days=True)}
    content: dict[str, Any] = {"kind": "datetime", "precision": precision}
    if form is not None:
        content["format"] = form
    if set("zZ") & set(directives):
        content["timezone"] = "mixed"
        if {"range_min", "range_max"} & set(column.said):
            column.lose("its range is left out: bounds of a time with a zone are in UTC")
        return {**content, "measure": True}
    return {**content, **_times(column, form, whole_days=False)}


def precision_of(form: str | None) -> str | None:
    """The finest part that a format writes, as a schema calls it; `None` where it writes days only."""
    directives = set(_directives(form))
    return next((unit for unit, letters in _PRECISIONS if set(letters) & directives), None)


def _directives(form: str | None) -> list[str]:
    return re.findall(r"%[-#]?([a-zA-Z])", form or "%f")


def _times(column: Translation, form: str | None, *, whole_days: bool) -> dict[str, Any]:
    ends = [_time(column, column.said[key], form) if key in column.said else None for key in ("range_min", "range_max")]
    if None in ends:
        if ends != [None, None]:
            column.lose("a range with one end is left out")
        return {"measure": True}
    return {"bounds": [end.date() if end is not None and whole_days else end for end in ends]}


def _time(column: Translation, end: Any, form: str | None) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(end) if form is None else dt.datetime.strptime(end, form)
    except (TypeError, ValueError, re.error):  # a directive that stands twice
        raise column.refuse(f"has a range from or to {end!r}", f"write a time as {form or 'ISO 8601'!r} says") from None


def _boolean(_: Translation) -> dict[str, Any]:
    return {"kind": "boolean"}


def _id(column: Translation) -> dict[str, Any]:
    regex = column.said.get("regex_format")
    template = template_of_regex(regex) if isinstance(regex, str) else None
    if regex is not None and template is None:
        column.lose(f"regex_format={_short(regex)} cannot be said by a template")
    return {"kind": "identifier", "template": template, "drop": template is None or not column.is_key}


def _short(said: Any) -> str:
    text = repr(said)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."


def _unknown(column: Translation) -> dict[str, Any]:
    if column.said.get("pii") is False:
        column.lose("pii=false is lost: what is of an unknown type is left out either way")
    return {"kind": "text", "drop": True}


def _personal(column: Translation, sdtype: str) -> dict[str, Any]:
    if column.said.get("pii") is False:
        column.lose("pii=false is lost: personal data is never learned here")
    if sdtype not in PERSONAL:
        column.lose(f"sdtype={sdtype!r} is left out: nothing here writes it")
        return {"kind": "text", "drop": True}
    made = {"kind": "personal", "personal": PERSONAL[sdtype], "unique": column.is_key}
    if sdtype == "iban":  # of no country that the default locale has
        column.lose("an IBAN has a country, which metadata does not tell; correct its locale where it is not German")
        made["locale"] = "de_DE"
    return made


_KINDS: Mapping[str, Callable[[Translation], dict[str, Any]]] = {
    "numerical": _numerical, "categorical": _categorical, "ordinal": _categorical, "boolean": _boolean,
    "datetime": _datetime, "id": _id, "unknown": _unknown,
}  # fmt: skip
