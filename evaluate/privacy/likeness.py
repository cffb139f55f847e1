"""What makes two ways to write the same personal data equal: no case, spaces or punctuation, numbers by digits."""

import re
import unicodedata

import numpy as np
import pandas as pd

from synth.infer.personal import CALLING_CODE
from synth.personal.formats import as_text

_DIGITS_ONLY = ("phone", "card_number")
"""Kinds of which digits alone are compared; all others but e-mail are compared alike."""
_EXTENSION = re.compile(r"(x|ext|poste).*")
_BETWEEN_DIGITS = re.compile(r"\D+")
_AS_FLOAT = re.compile(r"(?<=\d)\.0+$")
_TAG = re.compile(r"\+[^@]*(?=@)")
"""What one adds to an address of one's own: mail to ann+news reaches ann."""
_SIGNS = re.compile(r"[\W_]+", re.ASCII)
N_PHONE = 10
"""Last digits of a telephone number that are compared: what comes before says where one calls from."""


def likenesses(values: pd.Series, personal: str) -> np.ndarray:
    """What each value is compared by, shape (n,), texts as objects; `None` where there is nothing to compare.

    Args:
        values: *Sensitive*. As a canonical table holds them.
        personal: what they are, as a schema calls it, or "identifier".
    """
    known: dict[object, str | None] = {}
    made = np.full(len(values), None, dtype=object)
    for index, value in enumerate(values.tolist()):
        if value is None or pd.isna(value):
            continue
        if value not in known:
            known[value] = likeness(as_text(value), personal) or None
        made[index] = known[value]
    return made


def compared_alike(one: str, other: str) -> bool:
    """Whether values of two kinds are compared in the same way."""
    apart = (*_DIGITS_ONLY, "email")
    return one == other or (one not in apart and other not in apart)


def likeness(text: str, personal: str) -> str:
    """What a value is compared by; empty where there is nothing to compare.

    >>> likeness("+1 (555) 010-0123", "phone") == likeness("555.010.0123", "phone")
    True
    >>> likeness("+49 30 23125 001", "phone") == likeness("030 23125-001", "phone")
    True
    >>> likeness("ÉMILE  O'Brien", "name"), likeness("007-A", "identifier")
    ('émileobrien', '7a')
    """
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    plain = _TAG.sub("", plain) if personal == "email" else plain
    if personal not in _DIGITS_ONLY and plain.isascii():
        kept = _SIGNS.sub("", plain)
        return kept.lstrip("0") or kept[:1]
    if personal in _DIGITS_ONLY:
        plain = _nationally(plain) if personal == "phone" else _AS_FLOAT.sub("", plain)
        plain = _BETWEEN_DIGITS.sub("", plain)
        digits = plain if plain.isascii() else "".join(str(unicodedata.decimal(c)) for c in plain)
        return digits[-N_PHONE:].lstrip("0") if personal == "phone" else digits.lstrip("0")
    kept = "".join(c for c in plain if c.isalnum() or unicodedata.category(c)[0] == "M")
    # Whoever keeps a number as a number loses its zeros.
    return kept.lstrip("0") or kept[:1]


def _nationally(plain: str) -> str:
    """A telephone number without its extension and the code of its country."""
    number = _EXTENSION.sub("", plain).lstrip(" (")
    abroad = CALLING_CODE.match(number)
    return number if abroad is None else number[abroad.end() :]
