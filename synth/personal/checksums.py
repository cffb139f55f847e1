"""The checksums of card numbers and bank accounts."""

import numpy as np

from synth.locales import IBAN_LENGTHS

CARD_DIGITS = (13, 19)
"""Digits of a card number, least and most (ISO/IEC 7812-1)."""


def luhn_digits(numbers: np.ndarray) -> np.ndarray:
    """The check digit of each number; shape (n,).

    Args:
        numbers: digits without the check digit, shape (n, d), whole numbers from 0 to 9.

    Source: ISO/IEC 7812-1, annex B.

    >>> luhn_digits(np.array([[7, 9, 9, 2, 7, 3, 9, 8, 7, 1]])).tolist()
    [3]
    """
    doubled = numbers.astype(np.int64).copy()
    doubled[:, ::-2] *= 2
    doubled[doubled > 9] -= 9
    return np.asarray(-doubled.sum(axis=1) % 10)


def is_card_number(text: str) -> bool:
    """Whether a text is a card number: 13 to 19 digits, single spaces or hyphens between them, and the Luhn digit.

    >>> is_card_number("4242 4242 4242 4242"), is_card_number("4242 4242 4242 4241")
    (True, False)
    """
    digits = text.replace(" ", "").replace("-", "")
    if not (digits.isascii() and digits.isdigit() and CARD_DIGITS[0] <= len(digits) <= CARD_DIGITS[1]):
        return False
    numbers = np.array([[int(digit) for digit in digits]])
    return bool(luhn_digits(numbers[:, :-1])[0] == numbers[0, -1])


def is_iban(text: str) -> bool:
    """Whether a text is an IBAN: its country's length, and 1 when divided by 97; spaces do not count.

    Source: ISO 13616-1.

    >>> is_iban("GB82 WEST 1234 5698 7654 32"), is_iban("GB83 WEST 1234 5698 7654 32")
    (True, False)
    """
    compact = text.replace(" ", "").upper()
    if not (compact.isascii() and compact.isalnum() and len(compact) == IBAN_LENGTHS.get(compact[:2])):
        return False
    return compact[2:4].isdigit() and int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1
