"""Columns of numbers that measure the same thing in the same unit, as far as precision and names tell."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from synth.columns import Column
from synth.domain import numeric_scale

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDS = (
    ({"min", "minimum", "low", "lower", "least", "lowest"}, {"max", "maximum", "high", "higher", "upper", "highest"}),
    ({"start", "started", "begin", "first", "from", "open", "opened"},
     {"end", "ended", "finish", "last", "to", "close", "closed"}),
    ({"part", "sub", "subtotal", "net", "partial", "used", "paid"}, {"total", "all", "whole", "gross", "overall"}),
)  # fmt: skip
"""Words that name two ends of one thing, the lower first."""
_ANOTHER_UNIT = {
    "per", "rate", "ratio", "share", "pct", "percent", "percentage", "std", "sd", "error", "variance", "deviation",
    "code", "id", "year", "month", "day", "days", "hour", "hours", "lat", "latitude", "long", "lng", "longitude",
}  # fmt: skip
"""Words that name a unit: columns of which one has it, and the other does not, are of two."""


@dataclass(frozen=True)
class Kinship:
    """Evidence in names: a word that both have, and whether they name the lower and the upper end of one thing."""

    word: bool
    ends: bool


def kinship(low: str, high: str) -> Kinship:
    """The evidence in two names.

    >>> kinship("temp_min", "temp_max"), kinship("OWN_RENT", "WGTP")
    (Kinship(word=True, ends=True), Kinship(word=False, ends=False))
    """
    one, other = _words(low), _words(high)
    ends = any(one & lower and other & upper and _rest(one, lower) == _rest(other, upper) for lower, upper in _ENDS)
    return Kinship(word=bool((one & other) - _ANOTHER_UNIT), ends=ends)


def one_unit(low: str, high: str, columns: Mapping[str, Column]) -> bool:
    """True if two columns of numbers may be of one unit: the same precision, or kin by name; no word speaks against it.

    Args:
        low: name of one column.
        high: name of the other.
        columns: by name.
    """
    if (_words(low) & _ANOTHER_UNIT) != (_words(high) & _ANOTHER_UNIT):
        return False
    alike = numeric_scale.step(columns[low]) == numeric_scale.step(columns[high])  # type: ignore[arg-type]
    kin = kinship(low, high)
    return alike or kin.word or kin.ends


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _rest(words: set[str], end: set[str]) -> set[str]:
    return words - end
