"""Personal data."""

import math
import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from synth.locales import check_locale, check_spoken
from synth.schema.kinds.base import NOT_READ_OFF, AnyColumn
from synth.schema.kinds.identifier import half_escaped
from synth.schema.kinds.number import exactly_up_to

Personal = Literal[
    "name", "first_name", "last_name", "email", "phone", "address", "street", "city", "postcode", "card_number", "iban",
    "account_number", "national_id", "url", "text",
]  # fmt: skip
"""Kinds of personal data."""

_PATTERNED = ("phone", "postcode", "card_number", "account_number", "national_id")
_DIGITS = re.compile("[#0-9]+")
_CARD = re.compile(r"#([ -]?#){12,18}")


class PersonalColumn(AnyColumn):
    """Personal data: never learned and never looked at; Faker writes other values of the same form and locale.

    `template` is the form of numbers, as of an identifier: ``"+1 (###) 555-01##"``.
    """

    is_learned: ClassVar[bool] = False
    is_personal: ClassVar[bool] = True
    kind: Literal["personal"] = "personal"
    personal: Personal = Field(description="What the column holds.")
    locale: str = Field(default="en_US", description="Faker's name of the language and the country.")
    template: str | None = Field(default=None, min_length=1, description="Form of numbers; left out: the locale's own.")
    unique: bool = Field(default=False, description="No value is written twice.")
    length: int | None = Field(default=None, ge=5, le=5_000, description="Characters of a text at most; left out: 80.")
    missing_share: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of values left empty: a public number, never learned."
    )

    def rules(self) -> Iterator[tuple[object, str]]:
        check_locale(self.locale)
        if self.drop:
            return
        kind, form = f"personal={self.personal!r}", self.template
        yield half_escaped(form)
        yield (
            form is None and self.personal == "national_id" and self.locale != "en_US",
            f'a national_id of locale={self.locale!r} needs a template, such as "##.##.##-###"',
        )
        yield (
            form is not None and self.personal not in _PATTERNED,
            f"a template is for {', '.join(_PATTERNED)}; leave it out of {kind}",
        )
        yield (
            form is not None and self.personal == "card_number" and _CARD.fullmatch(form) is None,
            f"template={form!r} is none of a card number; write 13 to 19 #, with a space or - between",
        )
        usual = {"card_number": "#" * 16, "account_number": "#" * 10}.get(self.personal)
        only_digits = usual if form is None else _DIGITS.fullmatch(form)
        digits = re.sub("[^#0-9]", "", form or usual or "").replace("#", "9")
        longest = int(f"6{digits[1:]}" if self.personal == "card_number" else digits or 0)  # as test numbers begin
        yield (
            self.dtype is not None and exactly_up_to(self.dtype) < math.inf and not only_digits,
            f'dtype={self.dtype!r} holds numbers only; give {kind} a template of # and digits, or dtype = "object"',
        )
        yield (
            self.dtype is not None and longest > exactly_up_to(self.dtype),
            f'dtype={self.dtype!r} does not hold numbers as long as these; write dtype = "object", or "int64" for 18 '
            "digits",
        )
        yield (
            self.personal != "text" and self.length is not None,
            f'length is for personal = "text"; leave it out of {kind}',
        )
        yield (
            self.missing_share and not self.missing,
            f"missing_share={self.missing_share} needs values that may be missing; set missing = true",
        )
        if form is None:
            check_spoken(self.personal, self.locale)

    @property
    def characters(self) -> int:
        """Characters of a text at most."""
        return 80 if self.length is None else self.length

    @property
    def domain_words(self) -> str:
        return f"{self.personal.replace('_', ' ')}, {self.locale}"

    def _asserted(self, often: str) -> str:
        what = f"personal data ({self.personal.replace('_', ' ')}, locale={self.locale!r})"
        form = "" if self.template is None else f" like {self.template!r}"
        empty = f", {self.missing_share:.0%} of them missing" if self.missing_share else ""
        return f"{what}: never learned, written anew by Faker{form}{empty}, and this is {NOT_READ_OFF}"

    def read_off(self) -> list[tuple[str, str]]:
        return [("the template", "it shows what all of them have in common")] if self.template else []
