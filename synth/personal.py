"""Personal data: how such values are written, and replacements for them, for which nothing real is looked at.

A format says that a value is written as such values are, never whose it is. Where a range is reserved for examples,
replacements lie in it. Card numbers stand behind the first digits of those that card networks publish for tests: nobody
has one.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from synth import identifiers
from synth.errors import SchemaError
from synth.identifiers import LARGEST, Part, positions
from synth.locales import IBAN_LENGTHS, faker, titles
from synth.schema.kinds import IdentifierColumn, PersonalColumn

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
    return number is not None and PHONE_DIGITS[0] <= _n_digits(number["number"]) <= PHONE_DIGITS[1]


def _n_digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def _is_written(text: str) -> bool:
    """True if there is anything to read, on one line."""
    return bool(text.strip()) and not any(unicodedata.category(character) in _BREAKS for character in text)


def _has_digits(text: str) -> bool:
    return _is_written(text) and _n_digits(text) > 0


_CHECKS: dict[str, Callable[[str], bool]] = {
    "email": is_email, "url": is_url, "phone": is_phone, "card_number": is_card_number, "iban": is_iban,
    "account_number": _has_digits, "national_id": _has_digits,
}  # fmt: skip


def ill_formed(values: pd.Series, column: PersonalColumn) -> np.ndarray:
    """Flags of the values without the column's form; shape (len(values),), boolean. A missing value has any form."""
    fits = cache(_fits(column))
    return np.array([not (pd.isna(v) or v == "" or fits(as_text(v))) for v in values.tolist()], dtype=bool)


def _fits(column: PersonalColumn) -> Callable[[str], bool]:
    check = _CHECKS.get(column.personal, _is_written)
    if column.personal == "text":
        return lambda text: len(text) <= column.characters and _is_written(text)
    if column.template is None:
        return check
    pattern = re.compile("".join(f"[{re.escape(admitted)}]" for admitted in positions(column.template)))
    # A column of whole numbers has lost its leading zeros.
    is_numeric = re.match("u?int|float", column.dtype or "", re.IGNORECASE) is not None
    width = len(column.template) if is_numeric else 0
    is_exact = column.personal == "card_number"
    return lambda text: pattern.fullmatch(text.zfill(width)) is not None and (not is_exact or check(text))


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


DOMAINS = ("example.com", "example.org", "example.net")  # nobody has an address there (RFC 2606)

FICTION = {
    "en_US": tuple(f"({area}##) 555-01##" for area in range(2, 10)),
    "en_CA": tuple(f"({area}##) 555-01##" for area in range(2, 10)),
    "en_GB": ("07700 900###", "020 7946 0###", "01632 960###"),
    "en_AU": ("(02) 5550 ####", "(03) 5550 ####", "(07) 5550 ####", "(08) 5550 ####"),
    "fr_FR": ("01 99 00 ## ##", "02 61 91 ## ##", "03 53 01 ## ##", "04 65 71 ## ##", "05 36 49 ## ##"),
    "de_DE": ("030 23125 ###", "0221 4710 ###", "040 66969 ###", "069 90009 ###", "089 99998 ###"),
}  # fmt: skip
"""Telephone numbers that nobody is given, kept for fiction.

Source: NANPA 555-0100 to 555-0199; Ofcom, "Telephone numbers for use in TV and radio drama programmes"; ACMA, "Phone
numbers for use in TV shows, films and creative works"; ARCEP, decision 2018-0881; Bundesnetzagentur, "Rufnummern fuer
Medienproduktionen".
"""

_CARD_TESTS = {14: ("305693", "385200"), 15: ("378282", "371449")}
_CARD_TEST = ("424242", "400005", "555555", "510510", "601111")
"""First digits of the numbers that card networks publish for tests, by their digits where these are not 16."""
_CARD = "#" * 16
_ACCOUNT = "##########"
_NATIONAL_ID = "666-##-####"  # no social security number begins with 666
_METHODS = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "phone": "phone_number", "address": "address",
    "street": "street_address", "city": "city", "postcode": "postcode", "iban": "iban",
}  # fmt: skip
"""Faker's name of each."""
_LEAST_DIGITS = 6  # of a telephone number: Faker has the short ones of police and ambulance, too
_MAX_ROUNDS = 20


def generate(
    column: PersonalColumn, n: int, rng: np.random.Generator, part: Part | None = None, name: str = ""
) -> np.ndarray:
    """Values in the column's form and locale, shape (n,), texts as objects, `None` where missing.

    >>> generate(PersonalColumn(personal="phone", template="+1 (###) 555-01##"), 2, np.random.default_rng(0)).tolist()
    ['+1 (311) 555-0115', '+1 (879) 555-0162']
    """
    part = Part.whole(n, rng) if part is None else part
    if not column.unique:
        values: Any = _draw(column, n, rng)
    elif rooms := _rooms(column):
        numbers = part.numbers(name, n, sum(rooms))
        values = None if numbers is None else _numbered(column, numbers, rng)
    else:
        values = _remembered(column, n, rng, part, name)
    if values is None:
        raise _too_few(column)
    if column.missing_share:
        values[rng.random(n) < column.missing_share] = None
    return np.asarray(values)


def check_room(column: PersonalColumn, n: int) -> None:
    """Refuse, before any is made, a unique column of numbers that cannot have so many different values."""
    rooms = _rooms(column) if column.unique else ()
    if rooms and n > sum(rooms):
        raise _too_few(column)


def _too_few(column: PersonalColumn) -> SchemaError:
    return SchemaError(
        f"personal={column.personal!r} of locale={column.locale!r} has too few different values for this table; "
        "set unique = false, or declare a wider template where it takes one"
    )


def templates_of(column: PersonalColumn) -> tuple[str, ...]:
    """The templates that numbers are drawn from, each as often as the others; empty where Faker writes them.

    >>> templates_of(PersonalColumn(personal="national_id"))
    ('666-##-####',)
    """
    if column.personal == "card_number":
        return ()
    if column.template is not None:
        return (column.template,)
    if column.personal == "phone":
        return FICTION.get(column.locale, ())
    return {"account_number": (_ACCOUNT,), "national_id": (_NATIONAL_ID,)}.get(column.personal, ())


def _rooms(column: PersonalColumn) -> tuple[int, ...]:
    """The count of numbers that each of a column's templates tells apart; empty where Faker writes its values."""
    if column.personal == "card_number":
        return (_card_room(column.template or _CARD),)
    forms = [IdentifierColumn(template=template) for template in templates_of(column)]
    return tuple(min(identifiers.room_of(form), LARGEST // len(forms)) for form in forms)


def _numbered(column: PersonalColumn, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Different values for different numbers below the sum of the column's rooms; shape as `numbers`."""
    if column.personal == "card_number":
        return _card_numbers(column.template or _CARD, numbers)
    ends = np.cumsum(np.array(_rooms(column), dtype=np.uint64))
    which = np.searchsorted(ends, numbers, side="right")
    values = np.empty(len(numbers), dtype=object)
    for index, template in enumerate(templates_of(column)):
        rows = np.flatnonzero(which == index)
        inside = numbers[rows] - (ends[index - 1] if index else np.uint64(0))
        values[rows] = identifiers.named(IdentifierColumn(template=template), inside, rng)
    return values


def _card_room(template: str) -> int:
    """The number of card numbers that a template admits behind the first digits of test numbers.

    >>> _card_room("################")
    5000000000
    """
    tests, n_free = _card_digits(template)
    return int(len(tests) * 10**n_free)


def _card_numbers(template: str, numbers: np.ndarray) -> np.ndarray:
    """Card numbers that pass the Luhn check, different ones for different numbers; shape as `numbers`.

    >>> _card_numbers("#### #### #### ####", np.array([242424242], dtype=np.uint64)).tolist()
    ['4242 4224 2424 2424']
    """
    tests, n_free = _card_digits(template)
    which, inside = np.divmod(numbers, np.uint64(10**n_free))
    powers = np.array([10**exponent for exponent in reversed(range(n_free))], dtype=np.uint64)
    free = (inside[:, np.newaxis] // powers % np.uint64(10)).astype(np.int64)
    digits = np.concatenate([tests[which], free], axis=1)
    digits = np.concatenate([digits, luhn_digits(digits)[:, np.newaxis]], axis=1)
    form = template.replace("#", "{}")
    return np.array([form.format(*row) for row in digits.tolist()], dtype=object)


def _card_digits(template: str) -> tuple[np.ndarray, int]:
    """The first digits that a card number may have, shape (n_tests, d), and how many between them and the check."""
    width = template.count("#")
    tests = np.array([[int(digit) for digit in test] for test in _CARD_TESTS.get(width, _CARD_TEST)])
    return tests, width - tests.shape[1] - 1


def _remembered(column: PersonalColumn, n: int, rng: np.random.Generator, part: Part, name: str) -> np.ndarray | None:
    """Values that neither this part nor one before holds twice; `None` where there are too few."""
    remembered: dict[str, None] = {}
    for _ in range(_MAX_ROUNDS):
        drawn = _draw(column, max(n - len(remembered), 16) * 5 // 4, rng)
        is_taken = part.among(name, pd.util.hash_array(drawn, categorize=False))
        remembered.update(dict.fromkeys(drawn[~is_taken].tolist()))
        if len(remembered) >= n:
            values = np.array(list(remembered)[:n], dtype=object)
            part.add(name, pd.util.hash_array(values, categorize=False))
            return values
    return None


def _draw(column: PersonalColumn, n: int, rng: np.random.Generator) -> np.ndarray:
    """Values that may repeat themselves."""
    if column.personal == "card_number":
        template = column.template or _CARD
        return _card_numbers(template, rng.integers(_card_room(template), size=n, dtype=np.uint64))
    if templates := templates_of(column):
        drawn = [identifiers.draw(IdentifierColumn(template=template), n, rng) for template in templates]
        return np.asarray(np.stack(drawn)[rng.integers(len(templates), size=n), np.arange(n)])
    speaker = faker(column.locale)
    speaker.seed_instance(int(rng.integers(2**63)))
    if column.personal in ("email", "url"):
        domains, numbers = rng.integers(len(DOMAINS), size=n).tolist(), rng.integers(10**4, size=n).tolist()
        names = ((f"{speaker.user_name()}{number}", DOMAINS[i]) for number, i in zip(numbers, domains, strict=True))
        form = "https://{1}/{0}" if column.personal == "url" else "{0}@{1}"
        return np.array([form.format(*parts) for parts in names], dtype=object)
    if column.personal == "text":
        return np.array([_prose(speaker.sentence, column.characters) for _ in range(n)], dtype=object)
    write = getattr(speaker, _METHODS[column.personal])
    if column.personal == "name":  # without doctors and juniors, which most tables keep elsewhere, or not at all
        before, after = ("|".join(map(re.escape, words)) for words in titles(column.locale))
        title = re.compile(f"^({before or '(?!)'})+|({after or '(?!)'})+$")
        texts = [title.sub("", write()) for _ in range(n)]
    elif column.personal == "phone":
        texts = []
        while len(texts) < n:
            if _n_digits(text := write()) >= _LEAST_DIGITS:
                texts.append(text)
    else:
        texts = [", ".join(line.strip() for line in write().splitlines()) for _ in range(n)]
    return np.array(texts, dtype=object)


def _prose(sentence: Callable[[], str], length: int) -> str:
    """Sentences up to a length, the last one cut at a word where there is one."""
    text = sentence()
    while len(text) < length:
        text = f"{text} {sentence()}"
    return text if len(text) == length else text[: length + 1].rpartition(" ")[0] or text[:length]
