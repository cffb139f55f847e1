"""What names of columns say of the personal data in them, in English and a few other languages."""

import re
import unicodedata
from collections.abc import Mapping

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER_OF = r"(_?(no|nr|nbr|num|number|nummer|numero))"
WORDS: Mapping[str, str] = {
    "email": r"(e_?mail|mail)(_?(addr(ess)?|adresse))?|courriel|correo",
    "iban": r"iban",
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
    "city": r"city|town|ort|stadt|ville|ciudad|citta",
}
"""What names of columns say, most telling first; each stands between the words of a name."""
_NAMES = {what: re.compile(rf"(^|_)({words})(_[0-9]+|_line_?[0-9]+)?$") for what, words in WORDS.items()}


def named_personal(name: str) -> str | None:
    """What the name of a column says that it holds; none where it says nothing.

    >>> named_personal("Patient First Name"), named_personal("e-mail"), named_personal("mileage")
    ('first_name', 'email', None)
    """
    split = _CAMEL.sub("_", name).replace("ß", "ss")
    plain = unicodedata.normalize("NFKD", split).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    return next((what for what, pattern in _NAMES.items() if pattern.search(plain)), None)
