"""Columns that are never learned: identifiers, personal data and free text."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.columns.base import INT64, AnyColumn, exactly_up_to, ordered
from synth.locales import check_locale, check_spoken


def _check_escapes(template: str | None) -> None:
    """Refuse a template whose last backslash has nothing to make stand for itself."""
    if template is not None and (len(template) - len(template.rstrip("\\"))) % 2:
        raise ValueError(f"template={template!r} ends with half a backslash; write two for one")


class IdentifierColumn(AnyColumn):
    """A name for a row or an entity: never learned, generated anew in the same format.

    Text identifiers follow `template`: ``#`` is a digit, ``A`` an upper-case and ``a`` a lower-case letter, ``x`` a
    lower-case and ``X`` an upper-case hexadecimal digit; a backslash makes the next character stand for itself and
    every other character stands for itself. Integer identifiers are drawn from `bounds`.
    """

    kind: Literal["identifier"] = "identifier"
    template: str | None = None
    bounds: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        if (self.template is None) == (self.bounds is None) and not self.drop:
            raise ValueError("an identifier has either a template (text) or bounds (integers)")
        _check_escapes(self.template)
        if self.bounds is not None:
            ordered(self.bounds)
            if self.bounds[0] < INT64[0] or self.bounds[1] > INT64[1]:
                raise ValueError("bounds exceed 64 bits; declare a template of digits, which makes texts")
        return self


Personal = Literal[
    "name", "first_name", "last_name", "email", "phone", "address", "street", "city", "postcode", "card_number", "iban",
    "account_number", "national_id", "text",
]  # fmt: skip
"""What a column of personal data may hold."""

_PATTERNED = ("phone", "postcode", "card_number", "account_number", "national_id")
_NUMBERS = re.compile(r"u?int\d+(\[pyarrow\])?|float\d+(\[pyarrow\])?", re.IGNORECASE)
_CARD = re.compile(r"#([ -]?#){12,18}")


class PersonalColumn(AnyColumn):
    """Personal data: never learned and never looked at; Faker writes other values of the same form and locale.

    `template` is the form of numbers, as of an identifier: ``"+1 (###) 555-01##"``.
    """

    kind: Literal["personal"] = "personal"
    personal: Personal = Field(description="What the column holds.")
    locale: str = Field(default="en_US", description="Faker's name of the language and the country.")
    template: str | None = Field(default=None, min_length=1, description="Form of numbers; none: the locale's own.")
    unique: bool = Field(default=False, description="No value is written twice.")
    length: int | None = Field(default=None, ge=5, le=5_000, description="Characters of a text at most; none: 80.")
    missing_share: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of values left empty: a public number, never learned."
    )

    @field_validator("locale")
    @classmethod
    def _known_locale(cls, locale: str) -> str:
        check_locale(locale)
        return locale

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        if self.drop:
            return self
        self._check_template()
        if self.personal != "text" and self.length is not None:
            raise ValueError(f'length is for personal = "text"; leave it out of personal={self.personal!r}')
        if self.missing_share and not self.missing:
            raise ValueError(f"missing_share={self.missing_share} needs values that may be missing; set missing = true")
        if self.template is None:
            check_spoken(self.personal, self.locale)
        return self

    @property
    def characters(self) -> int:
        """Characters of a text at most."""
        return 80 if self.length is None else self.length

    def _check_template(self) -> None:
        _check_escapes(self.template)
        if self.template is None:
            if self.personal == "national_id" and self.locale != "en_US":
                raise ValueError(f'a national_id of locale={self.locale!r} needs a template, such as "##.##.##-###"')
        elif self.personal not in _PATTERNED:
            raise ValueError(f"a template is for {', '.join(_PATTERNED)}; leave it out of personal={self.personal!r}")
        elif self.personal == "card_number" and _CARD.fullmatch(self.template) is None:
            raise ValueError(
                f"template={self.template!r} is none of a card number; write 13 to 19 #, with a space or - between"
            )
        if self.dtype is not None and _NUMBERS.fullmatch(self.dtype) and not self._only_digits():
            raise ValueError(
                f"dtype={self.dtype!r} holds numbers only; give personal={self.personal!r} a template of # and digits, "
                'or dtype = "object"'
            )
        if self.dtype is not None and self._longest() > exactly_up_to(self.dtype):
            raise ValueError(
                f'dtype={self.dtype!r} does not hold numbers as long as these; write dtype = "object", or "int64" for '
                "18 digits"
            )

    def _longest(self) -> int:
        """The greatest number to be written: cards begin as test numbers do."""
        form = self.template or {"card_number": "#" * 16, "account_number": "#" * 10}.get(self.personal, "")
        digits = re.sub("[^#0-9]", "", form).replace("#", "9")
        return int(f"6{digits[1:]}" if self.personal == "card_number" else digits or 0)

    def _only_digits(self) -> bool:
        if self.template is None:
            return self.personal in ("card_number", "account_number")
        return re.fullmatch("[#0-9]+", self.template) is not None


class TextColumn(AnyColumn):
    """Free text: no generator here learns to write any, so the schema drops it, or makes it personal."""

    kind: Literal["text"] = "text"
