"""Whether real personal data stands where it does not belong: in another column, or amid a longer text."""

import re
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from evaluate.privacy.likeness import likeness, likenesses
from synth.locales import IBAN_LENGTHS
from synth.personal.formats import CARD_DIGITS, as_text

ANYWHERE: Mapping[str, Callable[[str], bool]] = {
    "email": lambda text: "@" in text,
    "card_number": lambda text: sum(map(str.isdigit, text)) >= CARD_DIGITS[0],
    "iban": lambda text: sum(map(str.isalnum, text)) >= min(IBAN_LENGTHS.values()),
    "address": lambda text: any(map(str.isdigit, text)) and any(map(str.isalpha, text)),
}
"""What no other column may hold, and the form without which a real value there is anybody's: "unknown"."""
_BETWEEN_WORDS = re.compile(r"[\s<>,;:()\"']+")
_CARD = re.compile(r"\d(?:[ -]?\d){12,18}")


def formed(real: pd.Series, personal: str) -> frozenset[str]:
    """What the real values are compared by that have the form of what they are.

    Args:
        real: *Sensitive*. All values, missing ones among them.
        personal: what they are, as a schema calls it: one of `ANYWHERE`.

    >>> formed(pd.Series(["ann@example.org", "unknown", None]), "email")
    frozenset({'annexampleorg'})
    """
    fits = real.map(lambda value: not pd.isna(value) and ANYWHERE[personal](as_text(value)))
    return frozenset(value for value in likenesses(real[fits.astype(bool)], personal) if value is not None)


def readable(values: pd.Series, personal: str) -> bool:
    """Whether a column could hold such values: one of text, and for cards one of numbers as long."""
    if values.dtype == object or personal != "card_number" or not pd.api.types.is_numeric_dtype(values):
        return values.dtype == object
    return bool((values.dropna() >= 10 ** (CARD_DIGITS[0] - 1)).any())


def amid(values: pd.Series, personal: str, real: frozenset[str]) -> np.ndarray:
    """Which texts hold a real e-mail address or card number among other words; shape (n,), boolean.

    Args:
        values: of a synthetic table, in canonical form.
        personal: what is looked for, as a schema calls it.
        real: *Sensitive*. What the real values are compared by.

    >>> amid(pd.Series(["write to <ann@example.org>.", "or not"]), "email", frozenset({"annexampleorg"})).tolist()
    [True, False]
    """
    if personal not in ("email", "card_number") or values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    known = {value: _holds(str(value), personal, real) for value in values.dropna().unique()}
    return np.array([known.get(value, False) for value in values.tolist()], dtype=bool)


def _holds(text: str, personal: str, real: frozenset[str]) -> bool:
    parts = _CARD.findall(text) if personal == "card_number" else _BETWEEN_WORDS.split(text)
    return any(likeness(part, personal) in real for part in parts if ANYWHERE[personal](part))
