"""Personal data: detected by names of columns, patterns and checksums, never by learning from values.

The locale of such a column follows from country codes, and from names that Faker knows.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from synth.identifiers import ALPHABETS
from synth.infer.facts import ColumnFacts, snake
from synth.locales import DEFAULT, IBAN_LENGTHS, check_spoken, iban_country, names_of
from synth.personal import (
    as_text,
    is_card_number,
    is_email,
    is_iban,
    is_phone,
    is_url,
    looks_like_card_number,
    looks_like_iban,
)
from synth.schema.kinds import Column, PersonalColumn
from synth.schema.kinds.number import exactly_up_to

_NUMBER_OF = r"(_?(no|nr|nbr|num|number|nummer|numero))"
WORDS: Mapping[str, str] = {
    "email": r"(e_?mail|mail)(_?(addr(ess)?|adresse))?|courriel|correo",
    "iban": rf"iban(_?code|{_NUMBER_OF})?",
    "card_number": rf"((credit|debit|payment|bank)_?)?(card|karte|cc){_NUMBER_OF}|credit_?card|debit_?card|pan",
    "account_number": rf"((bank)_?)?(account|acct|konto|cuenta|compte){_NUMBER_OF}|bank_?account",
    "national_id": r"ssn|social_?security(_?(no|nr|number))?|national_?id|nino|passport(_?(no|nr|number))?|dni|nif|"
    r"codice_?fiscale|steuer_?id|tax_?id|aadhaar",
    "phone": rf"((tele)?phone|tel|telefon|telefono|mobile|mobil|cell(phone)?|handy|fax|msisdn){_NUMBER_OF}?",
    "first_name": r"(first|given|fore|christian|middle)_?name|fname|vorname|prenom",
    "last_name": r"(last|family|maiden)_?name|surname|lname|nachname|familienname|apellidos?|cognome",
    "name": r"(full|patient|customer|client|person|employee|contact|doctor|physician|nurse|member|student|user|guest|"
    r"card_?holder|account_?holder|holder|owner)_?(full_?)?name|(?<![a-z0-9_])(name|nombre|nome)",
    "address": r"address|addr|adresse|anschrift|direccion|indirizzo",
    "street": r"street|strasse|rue|calle",
    "postcode": r"zip|zip_?code|post_?code|postal_?code|plz|code_?postal",
    "url": r"url|link|website|homepage|linked_?in|git_?hub",
    "city": r"city|town|ort|stadt|ville|ciudad|citta",
}
"""Kinds of personal data by words of column names, most telling first; each stands between the words of a name."""
_NAMES_OF_COLUMNS = {what: re.compile(rf"(^|_)({words})(_[0-9]+|_line_?[0-9]+)?$") for what, words in WORDS.items()}


def named_personal(name: str) -> str | None:
    """The kind of personal data that the name of a column tells; `None` where it tells nothing.

    >>> named_personal("Patient First Name"), named_personal("e-mail"), named_personal("mileage")
    ('first_name', 'email', None)
    """
    plain = unicodedata.normalize("NFKD", snake(name).replace("ß", "ss")).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    return next((what for what, pattern in _NAMES_OF_COLUMNS.items() if pattern.search(plain)), None)


NAMED_LOCALES = (
    "en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pt_BR", "pl_PL", "sv_SE", "no_NO", "da_DK", "fi_FI",
    "cs_CZ", "tr_TR", "ru_RU", "el_GR", "ja_JP", "zh_CN", "ko_KR", "en_IN",
)  # fmt: skip
"""Locales whose names are looked for."""

_CALLING = {
    "1": "en_US", "7": "ru_RU", "30": "el_GR", "31": "nl_NL", "32": "nl_BE", "33": "fr_FR", "34": "es_ES",
    "39": "it_IT", "40": "ro_RO", "41": "de_CH", "43": "de_AT", "44": "en_GB", "45": "da_DK", "46": "sv_SE",
    "47": "no_NO", "48": "pl_PL", "49": "de_DE", "55": "pt_BR", "61": "en_AU", "81": "ja_JP", "82": "ko_KR",
    "86": "zh_CN", "90": "tr_TR", "91": "en_IN", "351": "pt_PT", "353": "en_IE", "358": "fi_FI", "420": "cs_CZ",
}  # fmt: skip
"""Locales by country calling code. Source: ITU-T E.164."""

CALLING_CODE = re.compile(r"(?:\+|00)(" + "|".join(sorted(_CALLING, key=len, reverse=True)) + ")")
"""The beginning of a number for calls from abroad."""

_IBAN_LOCALES = (
    "de_DE", "de_AT", "de_CH", "en_GB", "en_IE", "fr_FR", "es_ES", "it_IT", "nl_NL", "nl_BE", "pt_PT", "pl_PL", "cs_CZ",
    "da_DK", "no_NO", "fi_FI", "el_GR", "ro_RO", "sk_SK", "tr_TR", "uk_UA", "az_AZ", "mk_MK", "pt_BR",
)  # fmt: skip


def locale_of(personal: str, texts: Sequence[str]) -> str | None:
    """The locale that most values speak for; `None` where nothing does.
    `texts`: *Sensitive*. Values of it.

    >>> locale_of("phone", ["+49 30 23125 001", "+49 89 99998 002"])
    'de_DE'
    """
    if personal == "iban":
        return _most_common(_country_locale(text) for text in texts)
    if personal == "phone":
        codes = [CALLING_CODE.match(text) for text in texts]
        return _most_common(_CALLING[code[1]] for code in codes if code is not None)
    if personal in ("name", "first_name", "last_name"):
        return _by_names(texts)
    return None


def spoken(personal: str, locale: str) -> bool:
    try:
        check_spoken(personal, locale)
    except ValueError:
        return False
    return True


def share_of_names(texts: Sequence[str]) -> float:
    """Share of texts of which a word is a first name that Faker knows, in the locale where that is the largest."""
    words = [set(text.replace(",", " ").split()) for text in texts]
    known = [_names(locale, "first_names") for locale in NAMED_LOCALES]
    return max(sum(not names.isdisjoint(w) for w in words) / len(words) for names in known)


def _by_names(texts: Sequence[str]) -> str | None:
    words = [set(text.replace(",", " ").split()) for text in texts]
    scores = {
        locale: sum(len(w & _names(locale, what)) for w in words for what in ("first_names", "last_names"))
        for locale in NAMED_LOCALES
    }
    best = max(scores, key=lambda locale: scores[locale])
    # A name here and there is known everywhere: a locale has to fit clearly better than the usual one.
    return best if scores[best] > 1.2 * scores[DEFAULT] else None


_names = cache(names_of)


def _country_locale(text: str) -> str | None:
    country = text[:2].upper()
    if country not in IBAN_LENGTHS:
        return None
    return next((locale for locale in _IBAN_LOCALES if locale.endswith(country) and iban_country(locale)), None)


def _most_common(values: Iterable[str | None]) -> str | None:
    counts = Counter(locale for locale in values if locale is not None)
    return max(counts, key=lambda locale: (counts[locale], locale)) if counts else None


NUMBERS_OF_PEOPLE = ("iban", "card_number", "account_number", "national_id")
"""Kinds that name one owner each, as an identifier does."""
LOOKED_AT = 2_000  # so many distinct values of a column are looked at
NAMED, UNNAMED = 0.5, 0.9
"""Share of values that must have the form, where the column's name says so, and where it does not."""
KNOWN = 0.3  # share of values that hold a first name of some locale, where a name may be of a person or of a thing
LEAST = 5  # with fewer distinct values, the form alone says nothing

_BARE = ("name", "nombre", "nome")  # names of columns that say nothing of whose name it is
_PLACES = ("street", "postcode", "city", "url")
"""Kinds that are categories to learn where few of them repeat: they then say where somebody lives as a region does."""
_PERSON = re.compile(r"[^\W\d_]([^\W\d_]|['’.-])*([ ,]+[^\W\d_]([^\W\d_]|['’.-])*){1,4}")
_WORD = re.compile(r"[^\W\d_]([^\W\d_]|[ '’.-])*")
_STRICT_PHONE = re.compile(r"\+\d[\d ()/.-]{6,18}\d|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}-\d{3}-\d{4}")
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_N_WORDS_OF_PROSE = 3
_MOST_DIGITS = 18  # digits of whole numbers of which 64 bits hold all


@dataclass(frozen=True)
class _Seen:
    """*Sensitive*. Some distinct values of a column as texts, and what its name says."""

    texts: Sequence[str]
    named: str | None = None
    few: bool = False
    bare: bool = False

    def share(self, fits: Callable[[str], Any]) -> float:
        return sum(bool(fits(text)) for text in self.texts) / len(self.texts)


def propose(about: ColumnFacts, *, few: bool) -> PersonalColumn | None:
    """The column as one of personal data, in the locale that its own values speak for; `None` where it is none."""
    if about.raw.form not in ("text", "integer", "real") or about.n_present == 0:
        return None
    seen = _Seen(_distinct(about.present), named_personal(about.name), few, bare=about.name.lower() in _BARE)
    if about.raw.form != "text" and seen.share(str.isdigit) < NAMED:
        return None  # negative numbers and fractions name nobody
    what = _what(seen)
    return None if what is None else _column(what, seen, about)


def propose_prose(about: ColumnFacts) -> PersonalColumn | None:
    """The column as one of placeholder sentences, where most of its texts are of several words; else `None`."""
    seen = _Seen(_distinct(about.present))
    prose = seen.share(lambda text: len(text.split()) >= _N_WORDS_OF_PROSE) >= NAMED
    return _column("text", seen, about) if prose and about.role is None else None


def kind_of(name: str, values: Sequence[object]) -> str | None:
    """The kind of personal data that a column seems to hold, by its name and the form of its values.

    >>> kind_of("memo", [f"{who}@example.org" for who in ("ann", "bo", "cy", "di", "ed")])
    'email'
    """
    texts = _distinct(values)
    return _what(_Seen(texts, named_personal(name), bare=name.lower() in _BARE)) if texts else None


def _distinct(values: Any) -> list[str]:
    """*Sensitive*. Distinct values as texts, as many as are looked at."""
    return list(dict.fromkeys(map(as_text, np.asarray(values)[: 10 * LOOKED_AT].tolist())))[:LOOKED_AT]


def settle_locales(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns with one locale for all whose own values do not speak for another, where Faker has them of it."""
    personal = {name: column for name, column in columns.items() if column.is_personal}
    own = {name: column.locale for name, column in personal.items() if "locale" in column.model_fields_set}
    shared, settled = _most_common(own.values()) or DEFAULT, dict(columns)
    for name, column in personal.items():
        is_spoken = column.template is not None or spoken(column.personal, shared)
        if name not in own and is_spoken and column.personal != "national_id":
            settled[name] = column.model_copy(update={"locale": shared})
    return settled


def names_owner(column: Column, about: ColumnFacts) -> bool:
    """True of numbers of people that have two rows or more each, as in a list of payments."""
    repeats = about.raw.form in ("text", "integer") and about.n_distinct <= about.n_present / 2
    return repeats and column.is_personal and column.personal in NUMBERS_OF_PEOPLE


def constant_in(columns: Mapping[str, Column], facts: Mapping[str, ColumnFacts], entity: str | None) -> tuple[str, ...]:
    """Names of the columns of personal data that hold one value in all rows of an entity."""
    if entity is None or entity not in facts:
        return ()
    owners = facts[entity].codes
    n_owners, names = len(np.unique(owners)), [n for n, column in columns.items() if column.is_personal]
    pairs = {name: np.stack([owners, facts[name].codes]) for name in names if not columns[name].drop}
    return tuple(name for name, each in pairs.items() if np.unique(each, axis=1).shape[1] == n_owners)


def _what(seen: _Seen) -> str | None:
    if seen.named is not None and _fits_name(seen, seen.named):
        return seen.named
    if len(seen.texts) < LEAST:
        return None
    for what, fits in _TELLING.items():
        if seen.share(fits) >= UNNAMED and not (what in _PLACES and seen.few):
            return what
    is_person = seen.share(lambda text: _PERSON.fullmatch(text) and not text.islower()) >= UNNAMED
    return "name" if is_person and share_of_names(seen.texts) >= NAMED else None


def _fits_name(seen: _Seen, what: str) -> bool:
    if what in _PLACES and seen.few:
        return False
    if what == "name" and (seen.few or seen.bare) and share_of_names(seen.texts) < KNOWN:
        return False  # of a product, a ward, a town
    return seen.share(FORMS[what]) >= NAMED


def _is_name(text: str) -> bool:
    return _PERSON.fullmatch(text) is not None or _WORD.fullmatch(text) is not None


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))


FORMS: Mapping[str, Callable[[str], Any]] = {
    "email": is_email, "iban": looks_like_iban, "card_number": looks_like_card_number,
    "account_number": lambda t: _digits(t) >= 4,
    "national_id": lambda t: _digits(t) >= 4, "phone": lambda t: is_phone(t) and _digits(t) >= 7,
    "first_name": _is_name, "last_name": _is_name, "name": _is_name,
    "address": lambda t: " " in t and _digits(t) and any(map(str.isalpha, t)),
    "street": lambda t: any(map(str.isalpha, t)), "postcode": _digits, "city": _is_name, "url": is_url,
}  # fmt: skip
"""The form that values have where a name of a column says what they are."""

_TELLING: Mapping[str, Callable[[str], Any]] = {
    "email": is_email, "iban": is_iban, "card_number": is_card_number, "national_id": _SSN.fullmatch,
    "phone": _STRICT_PHONE.fullmatch, "url": is_url,
}  # fmt: skip
"""Forms that speak for themselves."""


def _column(what: str, seen: _Seen, about: ColumnFacts) -> PersonalColumn:
    fields: dict[str, Any] = {"personal": what, **about.common("object")}
    locale = locale_of(what, seen.texts)
    if locale is not None and spoken(what, locale):
        fields["locale"] = locale
    elif what == "iban":
        return PersonalColumn(**fields, drop=True)  # Faker writes none of that country
    if about.raw.form != "text" and fields.get("dtype") is None:
        fields["dtype"] = "Int64" if about.missing else "int64"
    if what in ("phone", "postcode", "card_number", "account_number", "national_id"):
        fields |= _template(what, seen, fields)
    if about.raw.form != "text":
        fields |= _wide(fields, about.missing)
    if what == "text":
        # A coarse middle of the lengths: the longest text is nobody's business.
        middle = float(np.median([len(text) for text in seen.texts]))
        fields["length"] = int(np.clip(20 * np.ceil(middle / 20), 20, 1_000))
    if about.unique and what in ("email", "url", *NUMBERS_OF_PEOPLE):
        fields["unique"] = True
    return PersonalColumn(**fields)


def _wide(fields: Mapping[str, Any], missing: bool) -> dict[str, Any]:
    """A dtype that holds all numbers of the template, which is cut to what any dtype holds."""
    template = fields.get("template")
    if template is None or fields["personal"] == "card_number":
        return {}
    template = template[:_MOST_DIGITS]
    holds = int("9" * len(template)) <= exactly_up_to(fields["dtype"])
    return {"template": template} | ({} if holds else {"dtype": "Int64" if missing else "int64"})


def _template(what: str, seen: _Seen, fields: Mapping[str, Any]) -> dict[str, str]:
    """The form of most values; `None` where the locale's own is as good, or there is no such form."""
    numeric = "dtype" in fields and fields["dtype"] not in ("str", "string", "category")
    texts = [text for text in seen.texts if text.isdigit()] if numeric else seen.texts
    counts = Counter(_shape(text, what) for text in texts or seen.texts)
    shape, n = max(counts.items(), key=lambda item: (item[1], item[0]))
    as_usual = shape in {"national_id": ("###-##-####",), "card_number": ("#" * 16,)}.get(what, ())
    varied = what == "postcode" or (what == "phone" and n < NAMED * len(seen.texts))
    if as_usual or (varied and not numeric):
        return {}
    if what == "phone":
        shape = _fictional(shape, str(fields.get("locale", "en_US")))
    if numeric:
        shape = "2" + shape[1:] if what == "phone" else shape
    return {"template": shape}


def _shape(text: str, what: str) -> str:
    """The template that a text follows; a calling code stays as it is."""
    code = CALLING_CODE.match(text) if what == "phone" else None
    kept = 0 if code is None else code.end()
    return text[:kept] + "".join(map(_mark, text[kept:]))


def _mark(character: str) -> str:
    if character.isdigit():
        return "#"
    if character.isalpha():  # of any script: a template repeats no letter of a real value
        return "A" if character.isupper() else "a"
    return f"\\{character}" if character in ALPHABETS or character == "\\" else character


def _fictional(shape: str, locale: str) -> str:
    """American numbers in the range kept for fiction: 555-0100 to 555-0199 of any area."""
    if locale not in ("en_US", "en_CA") or shape.count("#") != 10:
        return shape
    digits = iter("2##55501##")
    return "".join(next(digits) if character == "#" else character for character in shape)
