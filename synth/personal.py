"""Replacement values for personal data: nothing real is looked at.

Where a range is reserved for examples, values lie in it. Card numbers stand behind the first digits of those that card
networks publish for tests: nobody has one.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

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

_CARD_TESTS = {14: ("305693", "385200"), 15: ("378282", "371449")}
_CARD_TEST = ("424242", "400005", "555555", "510510", "601111")
"""First digits of the numbers that card networks publish for tests."""


def card_room(template: str) -> int:
    """The number of card numbers that a template admits behind the first digits of test numbers.

    >>> card_room("################")
    5000000000
    """
    tests, n_free = _card_digits(template)
    return int(len(tests) * 10**n_free)


def card_numbers(template: str, numbers: np.ndarray) -> np.ndarray:
    """Card numbers that pass the Luhn check, different ones for different numbers; shape as `numbers`.

    >>> card_numbers("#### #### #### ####", np.array([242424242], dtype=np.uint64)).tolist()
    ['4242 4224 2424 2424']
    """
    tests, n_free = _card_digits(template)
    which, inside = np.divmod(numbers, np.uint64(10**n_free))
    powers = np.array([10**exponent for exponent in reversed(range(n_free))], dtype=np.uint64)
    free = (inside[:, np.newaxis] // powers % np.uint64(10)).astype(np.int64)
    digits = np.concatenate([tests[which], free], axis=1)
    digits = np.concatenate([digits, luhn_digits(digits)[:, np.newaxis]], axis=1)
    form = template.replace("#", "{}")
    values = np.empty(len(numbers), dtype=object)
    values[:] = [form.format(*row) for row in digits.tolist()]
    return values


def _card_digits(template: str) -> tuple[np.ndarray, int]:
    """The first digits that a card number may have, shape (n_tests, d), and how many between them and the check."""
    width = template.count("#")
    tests = np.array([[int(digit) for digit in test] for test in _CARD_TESTS.get(width, _CARD_TEST)])
    return tests, width - tests.shape[1] - 1


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

_NATIONAL_ID = "666-##-####"
"""No social security number begins with 666."""
_ACCOUNT = "##########"
_CARD = "#" * 16
_SHORT = 6
_MAX_ROUNDS = 20


def generate(
    column: PersonalColumn, n: int, rng: np.random.Generator, part: Part | None = None, name: str = ""
) -> np.ndarray:
    """Values in the column's form and locale, shape (n,), texts as objects, `None` where missing.

    >>> generate(PersonalColumn(personal="phone", template="+1 (###) 555-01##"), 2, np.random.default_rng(0)).tolist()
    ['+1 (311) 555-0115', '+1 (879) 555-0162']
    """
    part = Part.whole(n, rng) if part is None else part
    values = _distinct(column, n, rng, part, name) if column.unique else _draw(column, n, rng)
    if column.missing_share:
        values[rng.random(n) < column.missing_share] = None
    return values


def check_room(column: PersonalColumn, n: int) -> None:
    """Refuse, before any is made, a unique column of numbers that cannot have so many different values."""
    rooms = _rooms(column) if column.unique else ()
    if rooms and n > sum(rooms):
        raise _too_few(column)


def capacity(column: PersonalColumn) -> int | None:
    """The number of different values of a column of digits; `None` for one that is no mere row of digits.

    >>> capacity(PersonalColumn(personal="phone", template="555-01##"))
    100
    """
    templates = templates_of(column)
    return sum(identifiers.capacity(IdentifierColumn(template=t)) for t in templates) if templates else None


def _distinct(column: PersonalColumn, n: int, rng: np.random.Generator, part: Part, name: str) -> np.ndarray:
    rooms = _rooms(column)
    if rooms:
        numbers = part.numbers(name, n, sum(rooms))
        values = None if numbers is None else _numbered(column, numbers, rng)
    else:
        values = _remembered(column, n, rng, part, name)
    if values is None:
        raise _too_few(column)
    return values


def _too_few(column: PersonalColumn) -> SchemaError:
    return SchemaError(
        f"personal={column.personal!r} of locale={column.locale!r} has too few different values for this table; "
        "set unique = false, or declare a wider template where it takes one"
    )


def _rooms(column: PersonalColumn) -> tuple[int, ...]:
    """The count of numbers that each of a column's templates tells apart; empty where Faker writes its values."""
    if column.personal == "card_number":
        return (card_room(column.template or _CARD),)
    forms = [IdentifierColumn(template=template) for template in templates_of(column)]
    return tuple(min(identifiers.room_of(form), LARGEST // len(forms)) for form in forms)


def _numbered(column: PersonalColumn, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Different values for different numbers below the sum of the column's rooms; shape as `numbers`."""
    if column.personal == "card_number":
        return card_numbers(column.template or _CARD, numbers)
    ends = np.cumsum(np.array(_rooms(column), dtype=np.uint64))
    which = np.searchsorted(ends, numbers, side="right")
    values = np.empty(len(numbers), dtype=object)
    for index, template in enumerate(templates_of(column)):
        rows = np.flatnonzero(which == index)
        inside = numbers[rows] - (ends[index - 1] if index else np.uint64(0))
        values[rows] = identifiers.named(IdentifierColumn(template=template), inside, rng)
    return values


def _remembered(column: PersonalColumn, n: int, rng: np.random.Generator, part: Part, name: str) -> np.ndarray | None:
    """Values that neither this part nor one before holds twice; `None` where there are too few."""
    remembered: dict[str, None] = {}
    for _ in range(_MAX_ROUNDS):
        drawn = _draw(column, max(n - len(remembered), 16) * 5 // 4, rng)
        remembered.update(dict.fromkeys(drawn[~part.among(name, _hashes(drawn))].tolist()))
        if len(remembered) >= n:
            values = np.empty(n, dtype=object)
            values[:] = list(remembered)[:n]
            part.add(name, _hashes(values))
            return values
    return None


def _hashes(values: np.ndarray) -> np.ndarray:
    return pd.util.hash_array(values, categorize=False)


def _draw(column: PersonalColumn, n: int, rng: np.random.Generator) -> np.ndarray:
    if column.personal == "card_number":
        template = column.template or _CARD
        return card_numbers(template, rng.integers(card_room(template), size=n, dtype=np.uint64))
    templates = templates_of(column)
    if templates:
        return _patterned(templates, n, rng)
    speaker = faker(column.locale)
    speaker.seed_instance(int(rng.integers(2**63)))
    if column.personal in ("email", "url"):
        return _addresses(speaker.user_name, n, rng, page=column.personal == "url")
    if column.personal == "text":
        return _texts(speaker.sentence, column.characters, n)
    return _filled(n, _writer(getattr(speaker, _METHODS[column.personal]), column))


def _writer(write: Callable[[], str], column: PersonalColumn) -> Callable[[], str]:
    """Faker's own way to write a value, mended where it gives what no column holds."""
    if column.personal == "name":
        return _untitled(write, column.locale)
    if column.personal == "phone":
        return _ringing(write)
    return lambda: ", ".join(line.strip() for line in write().splitlines())


_METHODS = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "phone": "phone_number", "address": "address",
    "street": "street_address", "city": "city", "postcode": "postcode", "iban": "iban",
}  # fmt: skip
"""Faker's name of each."""


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


def _filled(n: int, write: Callable[[], str]) -> np.ndarray:
    values = np.empty(n, dtype=object)
    values[:] = [write() for _ in range(n)]
    return values


def _untitled(write: Callable[[], str], locale: str) -> Callable[[], str]:
    """A name without doctors and juniors, which most tables keep elsewhere, or not at all."""
    before, after = ("|".join(map(re.escape, words)) for words in titles(locale))
    title = re.compile(f"^({before or '(?!)'})+|({after or '(?!)'})+$")
    return lambda: title.sub("", write())


def _ringing(write: Callable[[], str]) -> Callable[[], str]:
    """A telephone number, not one of the short ones that Faker has for police and ambulance."""

    def phone() -> str:
        written = write()
        while sum(character.isdigit() for character in written) < _SHORT:
            written = write()
        return written

    return phone


def _patterned(templates: tuple[str, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    drawn = [identifiers.draw(IdentifierColumn(template=template), n, rng) for template in templates]
    return np.stack(drawn)[rng.integers(len(templates), size=n), np.arange(n)]


def _addresses(user_name: Callable[[], str], n: int, rng: np.random.Generator, *, page: bool) -> np.ndarray:
    domains, numbers = rng.integers(len(DOMAINS), size=n).tolist(), rng.integers(10**4, size=n).tolist()
    parts = zip(numbers, domains, strict=True)
    values = np.empty(n, dtype=object)
    names = ((f"{user_name()}{number}", DOMAINS[domain]) for number, domain in parts)
    values[:] = [f"https://{domain}/{name}" if page else f"{name}@{domain}" for name, domain in names]
    return values


def _texts(sentence: Callable[[], str], length: int, n: int) -> np.ndarray:
    """Sentences up to a length, the last one cut at a word where there is one."""

    def text() -> str:
        written = sentence()
        while len(written) < length:
            written = f"{written} {sentence()}"
        return written if len(written) == length else written[: length + 1].rpartition(" ")[0] or written[:length]

    return _filled(n, text)
