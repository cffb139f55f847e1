"""Regular expressions of SDV's ids, and templates of our identifiers."""

import itertools
import re

from synth.identifiers import ALPHABETS

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
