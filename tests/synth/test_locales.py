"""Locales are those of Faker, and none silently speaks American English."""

import pytest
from faker.config import AVAILABLE_LOCALES

from synth.columns import PersonalColumn
from synth.locales import IBAN_LENGTHS, check_locale, check_spoken, iban_country, titles


def test_every_locale_of_faker_is_known_and_others_are_not() -> None:
    for locale in AVAILABLE_LOCALES:
        check_locale(locale)
    with pytest.raises(ValueError, match="did you mean 'de_DE'"):
        check_locale("de-DE")


def test_ibans_are_of_the_locales_own_country() -> None:
    countries = {locale: iban_country(locale) for locale in ("de_DE", "fr_FR", "en_GB", "nl_NL", "pl_PL", "no_NO")}
    assert set(countries.values()) == {"DE", "FR", "GB", "NL", "PL", "NO"} <= set(IBAN_LENGTHS)
    # Faker would write British ones for Mexico, India and China.
    assert [iban_country(locale) for locale in ("en_US", "es_MX", "en_IN", "zh_CN")] == [None] * 4


def test_what_every_locale_writes_needs_no_locale_of_its_own() -> None:
    for what in ("email", "text", "card_number", "account_number"):
        check_spoken(what, "la")
        assert PersonalColumn.model_validate({"personal": what, "locale": "la"}).locale == "la"


def test_titles_are_told_from_names() -> None:
    before, after = titles("de_DE")
    assert "Dr. " in before
    assert all(title.endswith(" ") for title in before)
    assert all(title.startswith(" ") for title in after)
