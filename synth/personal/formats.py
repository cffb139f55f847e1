"""Formats of personal data: patterns of e-mail addresses, telephone and card numbers, and checksums of cards and IBANs.

A format says that a value is written as such values are, never whose it is.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from synth.identifiers import positions
from synth.locales import IBAN_LENGTHS
from synth.schema.kinds import PersonalColumn

CARD_DIGITS = (13, 19)  # digits of a card number, least and most (ISO/IEC 7812-1)


def luhn_digits(numbers: np.ndarray) -> np.ndarray:
    """The check digit of each number; shape (n,).
    `numbers`: digits without the check digit, shape (n, d), whole numbers from 0 to 9.

    Source: ISO/IEC 7812-1, annex B.

    >>> luhn_digits(np.array([[7, 9, 9, 2, 7, 3, 9, 8, 7, 1]])).tolist()
    [3]
    """
    doubled = numbers.astype(np.int64).copy()
    doubled[:, ::-2] *= 2
    doubled[doubled > 9] -= 9
    return np.asarray(-doubled.sum(axis=1) % 10)


def is_card_number(text: str) -> bool:
    """True if a text is a card number: 13 to 19 digits, single spaces or hyphens between them, and the Luhn digit.

    >>> is_card_number("4242 4242 4242 4242"), is_card_number("4242 4242 4242 4241")
    (True, False)
    """
    if not looks_like_card_number(text):
        return False
    numbers = np.array([[int(digit) for digit in text if digit.isdigit()]])
    return bool(luhn_digits(numbers[:, :-1])[0] == numbers[0, -1])


def looks_like_card_number(text: str) -> bool:
    """True if a text has as many digits as a card number, whatever the last one is."""
    digits = text.replace(" ", "").replace("-", "")
    return digits.isascii() and digits.isdigit() and CARD_DIGITS[0] <= len(digits) <= CARD_DIGITS[1]


def is_iban(text: str) -> bool:
    """True if a text is an IBAN: its country's length, and 1 when divided by 97; spaces do not count.

    Source: ISO 13616-1.

    >>> is_iban("GB82 WEST 1234 5698 7654 32"), is_iban("GB83 WEST 1234 5698 7654 32")
    (True, False)
    """
    compact = text.replace(" ", "").upper()
    return looks_like_iban(text) and int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def looks_like_iban(text: str) -> bool:
    """True if a text has the length of its country's IBANs, whatever its check digits are."""
    compact = text.replace(" ", "").upper()
    fits = compact.isascii() and compact.isalnum() and len(compact) == IBAN_LENGTHS.get(compact[:2])
    return fits and compact[2:4].isdigit()


_EMAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@([^\W_]([\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,63}")
_URL = re.compile(r"(https?://|www\.)[^\s/]+\.[^\s/]+/\S+", re.IGNORECASE)
_PHONE = re.compile(r"(?P<number>[+(]*\d[\d ()+.,/–-]*+)(\s*+(x|ext\.?|poste)\s*\d{1,6})?", re.IGNORECASE)
_BREAKS = ("Cc", "Zl", "Zp")
"""Line breaks and controls. Joiners, which some scripts write words with, are none."""
PHONE_DIGITS = (5, 17)  # digits of a telephone number, least and most: 15 (ITU-T E.164), and two for the way abroad


def is_email(text: str) -> bool:
    """True if a text is an e-mail address: one name, one domain with a dot.

    >>> is_email("ann.lee@example.org"), is_email("ann.lee@example"), is_email("ann lee@example.org")
    (True, False, False)
    """
    return _EMAIL.fullmatch(text) is not None and ".." not in text


def is_url(text: str) -> bool:
    """True if a text is the address of a page below a domain's first one.

    >>> is_url("https://example.org/ann.lee"), is_url("www.example.org/in/ann"), is_url("example.org")
    (True, True, False)
    """
    return _URL.fullmatch(text) is not None


def is_phone(text: str) -> bool:
    """True if a text is a telephone number: digits, with the signs that stand between them.

    >>> is_phone("+1 (555) 555-0123"), is_phone("call me"), is_phone("12")
    (True, False, False)
    """
    number = _PHONE.fullmatch(text)
    n_digits = 0 if number is None else sum(character.isdigit() for character in number["number"])
    return PHONE_DIGITS[0] <= n_digits <= PHONE_DIGITS[1]


def ill_formed(values: pd.Series, column: PersonalColumn) -> np.ndarray:
    """Flags of the values without the column's form; shape (len(values),), boolean. A missing value has any form."""
    fits = _fits(column)
    known: dict[object, bool] = {}
    wrong = np.zeros(len(values), dtype=bool)
    for index, value in enumerate(values.tolist()):
        if value is None or value == "" or pd.isna(value):
            continue
        if value not in known:
            known[value] = fits(as_text(value))
        wrong[index] = not known[value]
    return wrong


def as_text(value: object) -> str:
    """A value as text; a whole number that came as a float without its point.

    >>> as_text(5550123.0)
    '5550123'
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def form_of(column: PersonalColumn) -> str:
    """The form in words, for a message.

    >>> form_of(PersonalColumn(personal="phone", template="555-01##"))
    "phone like '555-01##'"
    """
    like = "" if column.template is None else f" like {column.template!r}"
    return f"{column.personal.replace('_', ' ')}{like}"


def _fits(column: PersonalColumn) -> Callable[[str], bool]:
    check = _CHECKS.get(column.personal, _is_written)
    if column.personal == "text":
        return lambda text: len(text) <= column.characters and _is_written(text)
    if column.template is None:
        return check
    pattern, exact = _pattern(column.template), column.personal == "card_number"
    # A column of whole numbers has lost its leading zeros.
    width = len(column.template) if _is_numeric(column) else 0
    return lambda text: pattern.fullmatch(text.zfill(width)) is not None and (not exact or check(text))


def _is_numeric(column: PersonalColumn) -> bool:
    return column.dtype is not None and re.match("u?int|float", column.dtype, re.IGNORECASE) is not None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("".join(f"[{re.escape(admitted)}]" for admitted in positions(template)))


def _is_written(text: str) -> bool:
    """True if there is anything to read, on one line."""
    return bool(text.strip()) and not any(unicodedata.category(character) in _BREAKS for character in text)


def _has_digits(text: str) -> bool:
    return _is_written(text) and any(character.isdigit() for character in text)


_CHECKS: dict[str, Callable[[str], bool]] = {
    "email": is_email,
    "url": is_url,
    "phone": is_phone,
    "card_number": is_card_number,
    "iban": is_iban,
    "account_number": _has_digits,
    "national_id": _has_digits,
}
