"""Personal data: detected by names of columns, patterns and checksums, never by learning from values.

The locale of such a column follows from country codes, and from names that Faker knows.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from synth.identifiers import ALPHABETS
from synth.infer.facts import ColumnFacts, snake
from synth.locales import DEFAULT, check_spoken, iban_country, names_of
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

    >>> locale_of("phone", ["+49 30 23125 001", "+49 89 99998 002"])
    'de_DE'
    """
    if personal == "iban":
        countries = {iban_country(locale): locale for locale in reversed(_IBAN_LOCALES)}
        return _most_common(countries.get(text[:2].upper()) for text in texts)
    if personal == "phone":
        codes = [CALLING_CODE.match(text) for text in texts]
        return _most_common(_CALLING[code[1]] for code in codes if code is not None)
    if personal not in ("name", "first_name", "last_name"):
        return None
    words = _words(texts)
    scores = {
        locale: sum(len(w & _names(locale, what)) for w in words for what in ("first_names", "last_names"))
        for locale in NAMED_LOCALES
    }
    best = max(scores, key=lambda locale: scores[locale])
    # A name here and there is known everywhere: a locale has to fit clearly better than the usual one.
    return best if scores[best] > 1.2 * scores[DEFAULT] else None


def _share_of_names(texts: Sequence[str]) -> float:
    """Share of texts of which a word is a first name that Faker knows, in the locale where that is the largest."""
    words, known = _words(texts), [_names(locale, "first_names") for locale in NAMED_LOCALES]
    return max(sum(not names.isdisjoint(w) for w in words) / len(words) for names in known)


def _words(texts: Sequence[str]) -> list[set[str]]:
    return [set(text.replace(",", " ").split()) for text in texts]


_names = cache(names_of)


def _most_common(values: Iterable[str | None]) -> str | None:
    counts = Counter(locale for locale in values if locale is not None)
    return max(counts, key=lambda locale: (counts[locale], locale)) if counts else None


def _is_spoken(personal: str, locale: str) -> bool:
    try:
        check_spoken(personal, locale)
    except ValueError:
        return False
    return True


def settle_locales(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns with one locale for all whose own values do not speak for another, where Faker has them of it."""
    personal = {name: column for name, column in columns.items() if column.is_personal}
    own = {name: column.locale for name, column in personal.items() if "locale" in column.model_fields_set}
    shared, settled = _most_common(own.values()) or DEFAULT, dict(columns)
    for name, column in personal.items():
        is_spoken = column.template is not None or _is_spoken(column.personal, shared)
        if name not in own and is_spoken and column.personal != "national_id":
            settled[name] = column.model_copy(update={"locale": shared})
    return settled


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
_NAME = re.compile(_PERSON.pattern + r"|[^\W\d_]([^\W\d_]|[ '’.-])*")
_PHONE = re.compile(r"\+\d[\d ()/.-]{6,18}\d|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}-\d{3}-\d{4}")
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_N_WORDS_OF_PROSE = 3
_MOST_DIGITS = 18  # digits of whole numbers of which 64 bits hold all


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))


FORMS: Mapping[str, Callable[[str], Any]] = {
    "email": is_email, "iban": looks_like_iban, "card_number": looks_like_card_number,
    "account_number": lambda t: _digits(t) >= 4,
    "national_id": lambda t: _digits(t) >= 4, "phone": lambda t: is_phone(t) and _digits(t) >= 7,
    "first_name": _NAME.fullmatch, "last_name": _NAME.fullmatch, "name": _NAME.fullmatch,
    "address": lambda t: " " in t and _digits(t) and any(map(str.isalpha, t)),
    "street": lambda t: any(map(str.isalpha, t)), "postcode": _digits, "city": _NAME.fullmatch, "url": is_url,
}  # fmt: skip
"""The form that values have where a name of a column says what they are."""

_TELLING: Mapping[str, Callable[[str], Any]] = {
    "email": is_email, "iban": is_iban, "card_number": is_card_number, "national_id": _SSN.fullmatch,
    "phone": _PHONE.fullmatch, "url": is_url,
}  # fmt: skip
"""Forms that speak for themselves."""


def propose(about: ColumnFacts, *, few: bool) -> PersonalColumn | None:
    """The column as one of personal data, in the locale that its own values speak for; `None` where it is none."""
    if about.raw.form not in ("text", "integer", "real") or about.n_present == 0:
        return None
    texts = _distinct(about.present)
    if about.raw.form != "text" and _share(texts, str.isdigit) < NAMED:
        return None  # negative numbers and fractions name nobody
    what = _tell(about.name, texts, few=few)
    return None if what is None else _column(what, texts, about)


def propose_prose(about: ColumnFacts) -> PersonalColumn | None:
    """The column as one of placeholder sentences, where most of its texts are of several words; else `None`."""
    texts = _distinct(about.present)
    prose = _share(texts, lambda text: len(text.split()) >= _N_WORDS_OF_PROSE) >= NAMED
    return _column("text", texts, about) if prose and about.role is None else None


def kind_of(name: str, values: Sequence[object]) -> str | None:
    """The kind of personal data that a column seems to hold, by its name and the form of its values.

    >>> kind_of("memo", [f"{who}@example.org" for who in ("ann", "bo", "cy", "di", "ed")])
    'email'
    """
    texts = _distinct(values)
    return _tell(name, texts) if texts else None


def _distinct(values: Any) -> list[str]:
    """*Sensitive*. Distinct values as texts, as many as are looked at."""
    return list(dict.fromkeys(map(as_text, np.asarray(values)[: 10 * LOOKED_AT].tolist())))[:LOOKED_AT]


def _share(texts: Sequence[str], fits: Callable[[str], Any]) -> float:
    return sum(bool(fits(text)) for text in texts) / len(texts)


def _tell(name: str, texts: Sequence[str], *, few: bool = False) -> str | None:
    """The kind of personal data, by the name and the texts of a column, of which there may be few that repeat."""
    named = named_personal(name)
    if named == "name" and (few or name.lower() in _BARE) and _share_of_names(texts) < KNOWN:
        named = None  # of a product, a ward, a town
    if named is not None and not (named in _PLACES and few) and _share(texts, FORMS[named]) >= NAMED:
        return named
    if len(texts) < LEAST:
        return None
    for what, fits in _TELLING.items():
        if _share(texts, fits) >= UNNAMED and not (what in _PLACES and few):
            return what
    is_person = _share(texts, lambda text: _PERSON.fullmatch(text) and not text.islower()) >= UNNAMED
    return "name" if is_person and _share_of_names(texts) >= NAMED else None


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


def _column(what: str, texts: Sequence[str], about: ColumnFacts) -> PersonalColumn:
    fields: dict[str, Any] = {"personal": what, **about.common("object")}
    locale, is_text = locale_of(what, texts), about.raw.form == "text"
    if locale is not None and _is_spoken(what, locale):
        fields["locale"] = locale
    elif what == "iban":
        return PersonalColumn(**fields, drop=True)  # Faker writes none of that country
    if not is_text and fields.get("dtype") is None:
        fields["dtype"] = about.int64
    if what in ("phone", "postcode", "card_number", "account_number", "national_id"):
        template = _template(what, texts, fields)
        if template is not None and not is_text and what != "card_number":
            # Cut to what any dtype holds, and one that holds all numbers of it.
            template = template[:_MOST_DIGITS]
            if int("9" * len(template)) > exactly_up_to(fields["dtype"]):
                fields["dtype"] = about.int64
        fields |= {} if template is None else {"template": template}
    if what == "text":
        # A coarse middle of the lengths: the longest text is nobody's business.
        middle = float(np.median([len(text) for text in texts]))
        fields["length"] = int(np.clip(20 * np.ceil(middle / 20), 20, 1_000))
    if about.unique and what in ("email", "url", *NUMBERS_OF_PEOPLE):
        fields["unique"] = True
    return PersonalColumn(**fields)


def _template(what: str, texts: Sequence[str], fields: Mapping[str, Any]) -> str | None:
    """The form of most values; `None` where the locale's own is as good, or there is no such form."""
    numeric = fields.get("dtype") not in (None, "str", "string", "category")
    digits = [text for text in texts if text.isdigit()] if numeric else texts
    codes = [CALLING_CODE.match(text) if what == "phone" else None for text in digits or texts]
    starts = [0 if code is None else code.end() for code in codes]  # a calling code stays as it is
    shapes = [text[:n] + "".join(map(_mark, text[n:])) for text, n in zip(digits or texts, starts, strict=True)]
    counts = Counter(shapes)
    shape, n = max(counts.items(), key=lambda item: (item[1], item[0]))
    as_usual = shape == {"national_id": "###-##-####", "card_number": "#" * 16}.get(what)
    varied = what == "postcode" or (what == "phone" and n < NAMED * len(texts))
    if as_usual or (varied and not numeric):
        return None
    if what == "phone" and fields.get("locale", DEFAULT) in ("en_US", "en_CA") and shape.count("#") == 10:
        # American numbers in the range kept for fiction: 555-0100 to 555-0199 of any area.
        fictional = iter("2##55501##")
        shape = "".join(next(fictional) if character == "#" else character for character in shape)
    return "2" + shape[1:] if what == "phone" and numeric else shape


def _mark(character: str) -> str:
    if character.isdigit():
        return "#"
    if character.isalpha():  # of any script: a template repeats no letter of a real value
        return "A" if character.isupper() else "a"
    return f"\\{character}" if character in ALPHABETS or character == "\\" else character
