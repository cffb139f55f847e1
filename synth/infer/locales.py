"""Which locale columns of personal data are of: by country codes, and by names that Faker knows."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from synth.locales import DEFAULT, IBAN_LENGTHS, check_spoken, iban_country, names_of

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
"""How a number for calls from abroad begins."""

_IBAN_LOCALES = (
    "de_DE", "de_AT", "de_CH", "en_GB", "en_IE", "fr_FR", "es_ES", "it_IT", "nl_NL", "nl_BE", "pt_PT", "pl_PL", "cs_CZ",
    "da_DK", "no_NO", "fi_FI", "el_GR", "ro_RO", "sk_SK", "tr_TR", "uk_UA", "az_AZ", "mk_MK", "pt_BR",
)  # fmt: skip


def locale_of(personal: str, texts: Sequence[str]) -> str | None:
    """The locale that most values speak for; none where nothing does.

    Args:
        personal: what the column holds.
        texts: *Sensitive*. Values of it.

    >>> locale_of("phone", ["+49 30 23125 001", "+49 89 99998 002"])
    'de_DE'
    """
    if personal == "iban":
        return _most(_country_locale(text) for text in texts)
    if personal == "phone":
        codes = [CALLING_CODE.match(text) for text in texts]
        return _most(_CALLING[code[1]] for code in codes if code is not None)
    if personal in ("name", "first_name", "last_name"):
        return _by_names(texts)
    return None


def shared_locale(found: Iterable[str | None]) -> str:
    """The locale of a table whose columns speak for these: the most frequent, American English where none does."""
    return _most(found) or DEFAULT


def spoken(personal: str, locale: str) -> bool:
    """Whether Faker has such values of the locale."""
    try:
        check_spoken(personal, locale)
    except ValueError:
        return False
    return True


def share_of_names(texts: Sequence[str]) -> float:
    """Share of texts of which a word is a first name that Faker knows, in the locale where that is the largest."""
    words = [set(text.replace(",", " ").split()) for text in texts]
    return max(sum(not known.isdisjoint(w) for w in words) / len(words) for known in map(_first, NAMED_LOCALES))


def _by_names(texts: Sequence[str]) -> str | None:
    words = [set(text.replace(",", " ").split()) for text in texts]
    scores = {locale: sum(len(w & _first(locale)) + len(w & _last(locale)) for w in words) for locale in NAMED_LOCALES}
    best = max(scores, key=lambda locale: scores[locale])
    # A name here and there is known everywhere: a locale has to fit clearly better than the usual one.
    return best if scores[best] > 1.2 * scores[DEFAULT] else None


@cache
def _first(locale: str) -> frozenset[str]:
    return names_of(locale, "first_names")


@cache
def _last(locale: str) -> frozenset[str]:
    return names_of(locale, "last_names")


def _country_locale(text: str) -> str | None:
    country = text[:2].upper()
    if country not in IBAN_LENGTHS:
        return None
    return next((locale for locale in _IBAN_LOCALES if locale.endswith(country) and iban_country(locale)), None)


def _most(found: Iterable[str | None]) -> str | None:
    counts = Counter(locale for locale in found if locale is not None)
    return max(counts, key=lambda locale: (counts[locale], locale)) if counts else None
