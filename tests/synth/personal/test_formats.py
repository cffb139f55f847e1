"""What counts as an e-mail, a telephone or card number, by form alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.columns import PersonalColumn
from synth.personal.formats import ill_formed, is_card_number, is_iban, luhn_digits


def wrong(what: str, values: list[Any], **more: Any) -> list[bool]:
    column = PersonalColumn.model_validate({"personal": what, **more})
    flags: list[bool] = ill_formed(pd.Series(values, dtype=object), column).tolist()
    return flags


GOOD: dict[str, list[str]] = {
    "email": ["a@b.org", "ann.o'neil+x@mail.example.co.uk", "jürgen@müller.de", "x_1@example.com"],
    "phone": ["+1 (555) 555-0123", "030 23125 001", "555.555.0123x45", "(02) 5550 1234", "+44(0)1632 960123"],
    "card_number": ["4242 4242 4242 4242", "378282246310005", "4000-0566-5566-5556"],
    "national_id": ["666-12-3456", "85 073 003 328", "AB123456C"],
    "name": ["Ann Lee", "岡田 香織"],
    "text": ["Some words."],
}
BAD: dict[str, list[str]] = {
    "email": ["a@b", "a b@c.org", "@b.org", "a@b..org", "a@@b.org", "nobody", "a@-b.org"],
    "phone": ["call me", "123", "1" * 20, "+", "555-CALL"],
    "card_number": ["4242 4242 4242 4241", "4242", "4242 4242 4242 424x", "²" * 16],
    "national_id": ["none", " "],
    "name": ["", "  ", "a\nb"],
    "text": ["w" * 81],
}


@pytest.mark.parametrize("what", GOOD)
def test_good_forms_pass_and_bad_ones_do_not(what: str) -> None:
    assert not any(wrong(what, GOOD[what]))
    assert all(flag or value == "" for flag, value in zip(wrong(what, BAD[what]), BAD[what], strict=True))


def test_missing_values_have_any_form() -> None:
    assert not any(wrong("email", [None, np.nan, ""]))


def test_a_template_is_the_form_and_a_card_needs_its_check_digit_beside() -> None:
    assert wrong("phone", ["555-0123", "555-9123", "5550123"], template="555-01##") == [False, True, True]
    cards = ["4242-4242-4242-4242", "4242424242424242", "4242-4242-4242-4241"]
    assert wrong("card_number", cards, template="####-####-####-####") == [False, True, True]


def test_numbers_count_as_their_digits() -> None:
    column = PersonalColumn(personal="phone", template="#######", dtype="int64")
    assert ill_formed(pd.Series([5550123, 12, 12345678]), column).tolist() == [False, False, True]
    assert ill_formed(pd.Series([5550123.0, np.nan]), column).tolist() == [False, False]


@pytest.mark.parametrize(
    "iban",
    ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "FR1420041010050500013M02606", "NO9386011117947"],
)
def test_published_ibans_pass_and_any_changed_digit_fails(iban: str) -> None:
    assert is_iban(iban)
    for place, character in enumerate(iban):
        if character.isdigit():
            assert not is_iban(iban[:place] + str((int(character) + 1) % 10) + iban[place + 1 :])
    assert not is_iban(iban[:-1])


@pytest.mark.parametrize("card", ["4242424242424242", "5555555555554444", "378282246310005", "6011111111111117"])
def test_published_test_cards_pass_and_any_changed_digit_fails(card: str) -> None:
    assert is_card_number(card)
    for place, digit in enumerate(card):
        assert not is_card_number(card[:place] + str((int(digit) + 1) % 10) + card[place + 1 :])


def test_check_digits_of_many_numbers_at_once_are_those_of_each() -> None:
    digits = np.random.default_rng(0).integers(10, size=(50, 15))
    for row, check in zip(digits, luhn_digits(digits), strict=True):
        assert is_card_number("".join(map(str, [*row, check])))
