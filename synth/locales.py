"""Faker's locales: their names, the values that are their own, and their IBANs."""

import warnings
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from synth.errors import nearest

if TYPE_CHECKING:
    from faker import Faker

DEFAULT = "en_US"

IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15,
    "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19,
    "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
"""Characters of an IBAN by country. Source: ISO 13616, SWIFT IBAN registry."""

_WEIGHTED = ("es_CL",)  # locales that Faker cannot write without weights

_PROVIDERS = {
    "name": "person", "first_name": "person", "last_name": "person", "phone": "phone_number", "address": "address",
    "street": "address", "city": "address", "postcode": "address",
}  # fmt: skip
"""Faker's provider of each personal value that differs between locales."""


@cache
def faker(locale: str) -> "Faker":
    """Faker in a locale; whoever draws from it seeds it first."""
    from faker import Faker

    with warnings.catch_warnings(action="ignore"):  # that a locale has got a new name
        # Names weighted by how common they are take five times as long.
        return Faker(locale, use_weighting=locale in _WEIGHTED)


def check_locale(locale: str) -> None:
    """Refuse a locale that Faker does not have.

    >>> check_locale("de_DE")
    """
    from faker.config import AVAILABLE_LOCALES

    if locale not in AVAILABLE_LOCALES:
        close = nearest(locale, AVAILABLE_LOCALES)
        remedy = close if close.startswith("did") else 'write one such as "en_US" or "de_DE"'
        raise ValueError(f"locale={locale!r} is none that Faker knows; {remedy}")


def check_spoken(personal: str, locale: str) -> None:
    """Refuse values of a locale for which Faker would silently write American ones."""
    if personal == "iban" and iban_country(locale) is None:
        raise ValueError(
            f"locale={locale!r} has no IBAN that Faker could write; declare another locale, or personal = "
            '"account_number" with a template'
        )
    provider = _PROVIDERS.get(personal)
    if provider is None:
        return
    language = str(_language(provider, locale))
    # Names go with the language: Australian ones are English. Addresses and telephones go with the country.
    same = language == locale or (provider == "person" and language[:3] == f"{locale[:2]}_")
    if not same or (personal == "phone" and not hasattr(_provider(provider, locale), "phone_number")):
        raise ValueError(
            f"locale={locale!r} has no values for personal={personal!r} in Faker; declare another locale of the "
            'language, or locale = "en_US"'
        )


@cache
def titles(locale: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Titles that Faker puts before and after names and that are no part of them: "Dr. ", " PhD".

    >>> " PhD" in titles("en_US")[1]
    True
    """
    before, after = names_of(locale, "prefixes"), names_of(locale, "suffixes")
    return tuple(f"{title} " for title in sorted(before)), tuple(f" {title}" for title in sorted(after))


def names_of(locale: str, what: str) -> frozenset[str]:
    """The parts of a locale's names, as Faker lists them.

    >>> "Jennifer" in names_of("en_US", "first_names")
    True
    """
    try:
        person: Any = import_module(f"faker.providers.person.{locale}").Provider
    except ModuleNotFoundError:
        person = _provider("person", locale)  # of another locale, and with all other providers
    kinds = ("", "_male", "_female", "_nonbinary")
    return frozenset(str(name) for kind in kinds for name in getattr(person, what + kind, ()))


def iban_country(locale: str) -> str | None:
    """The country whose IBANs Faker writes for the locale; `None` where that is not the locale's own.

    >>> iban_country("de_DE"), iban_country("en_US")
    ('DE', None)
    """
    if _language("bank", locale) != locale:
        return None
    country = str(_provider("bank", locale).country_code)
    return country if country in IBAN_LENGTHS and locale.endswith(country) else None


def _language(provider: str, locale: str) -> str | None:
    """The locale from which Faker takes a provider where it is asked for another."""
    language: str | None = _provider(provider, locale).__lang__
    return language


def _provider(name: str, locale: str) -> Any:
    providers: Any = faker(locale).factories[0].get_providers()
    return next(provider for provider in providers if provider.__provider__ == f"faker.providers.{name}")
