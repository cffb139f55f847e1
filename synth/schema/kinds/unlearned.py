"""Columns that are never learned: identifiers and personal data, which are written anew, and free text."""

import math
import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from synth.locales import check_locale, check_spoken
from synth.schema.kinds.base import NOT_READ_OFF, AnyColumn, range_words
from synth.schema.kinds.number import INT64, exactly_up_to


def half_escaped(template: str | None) -> tuple[bool, str]:
    """Whether the last backslash of a template has nothing to make stand for itself, and the sentence on it."""
    n_last = 0 if template is None else len(template) - len(template.rstrip("\\"))
    return n_last % 2 == 1, f"template={template!r} ends with half a backslash; write two for one"


class IdentifierColumn(AnyColumn):
    """A name for a row or an entity: never learned, generated anew in the same format.

    Text identifiers follow `template`: ``#`` is a digit, ``A`` an upper-case and ``a`` a lower-case letter, ``x`` a
    lower-case and ``X`` an upper-case hexadecimal digit; a backslash makes the next character stand for itself and
    every other character stands for itself. Integer identifiers are drawn from `bounds`.
    """

    is_learned: ClassVar[bool] = False
    is_identifier: ClassVar[bool] = True
    kind: Literal["identifier"] = "identifier"
    template: str | None = Field(
        default=None, description="Form of texts: # a digit, A or a a letter, X or x a hexadecimal digit."
    )
    bounds: tuple[int, int] | None = Field(default=None, description="Least and greatest whole number to draw.")
    rises_with: tuple[str, ...] | None = Field(
        default=None, description="Columns in whose order identifiers ascend; an empty list: with the rows."
    )
    consecutive: bool = Field(default=False, description="Each is the one before it and 1, from the least on.")

    def rules(self) -> Iterator[tuple[object, str]]:
        yield (
            (self.template is None) == (self.bounds is None) and not self.drop,
            "an identifier has either a template (text) or bounds (integers)",
        )
        yield half_escaped(self.template)
        low, high = self.bounds or (0, 0)
        yield low > high, f"bounds={[low, high]} are reversed; write the lower one first"
        yield (
            low < INT64[0] or high > INT64[1],
            "bounds exceed 64 bits; declare a template of digits, which makes texts",
        )
        yield (
            self.consecutive and (self.bounds is None or self.rises_with is None),
            "consecutive identifiers have bounds and rises_with; add them, or leave consecutive out",
        )

    @property
    def dealt(self) -> Literal["shuffled", "rising", "consecutive"]:
        """The order in which a table deals out the numbers that identifiers are made of."""
        return "consecutive" if self.consecutive else "shuffled" if self.rises_with is None else "rising"

    @property
    def holds_whole_numbers(self) -> bool:
        return self.bounds is not None

    @property
    def domain_words(self) -> str:
        return self.template or "" if self.bounds is None else f"{self.bounds[0]} to {self.bounds[1]}"

    def _asserted(self, often: str) -> str:
        form = f"texts like {self.template!r}" if self.bounds is None else range_words("whole numbers", self.bounds)
        order = ", ".join(self.rises_with or ("the rows",))
        rising = "" if self.rises_with is None else f", ascending with {order}" + ", one by one" * self.consecutive
        return f"an identifier: never learned, made anew as {form}{rising}, and this format is {NOT_READ_OFF}"

    def read_off(self) -> list[tuple[str, str]]:
        if self.bounds is not None:
            return [("the bounds of these identifiers", "each may be one unit's own")]
        told = ("the template of these identifiers", "it shows what all of them have in common")
        return [told] if self.template else []


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


class TextColumn(AnyColumn):
    """Free text: a language model writes it, given the rest of its row, where `learn` is set; else set `drop`.

    Placeholder sentences that nobody learned from are of the kind personal.
    """

    is_learned: ClassVar[bool] = False
    is_text: ClassVar[bool] = True
    kind: Literal["text"] = "text"
    learn: bool = Field(default=False, description="A language model learns to write such texts.")
    length: int = Field(
        default=400, ge=1, le=20_000, description="Characters of a learned text that are read or written at most."
    )

    def rules(self) -> Iterator[tuple[object, str]]:
        yield (
            self.learn and self.drop,
            "a text that is left out is not learned; set either drop = true or learn = true",
        )

    def _asserted(self, often: str) -> str:
        return "free text, which is not synthesized: set drop = true first"
