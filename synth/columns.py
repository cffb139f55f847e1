"""The kinds of columns: what is public about a single one.

The domain of most kinds (bounds, categories) is either declared or, with `measure = true`, left for a private fit to
measure under its budget.
"""

import datetime as dt
import itertools
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.errors import nearest
from synth.locales import check_locale, check_spoken
from synth.texts import require_plain
from synth.validation import Frozen

INT64 = (-(2**63), 2**63 - 1)
WIDEST_REAL = (-1e15, 1e15)
"""Bounds of a real of which nothing is public: float64 still tells its tenths apart."""
NANOSECONDS = (dt.datetime(1677, 9, 23), dt.datetime(2262, 4, 10))
"""What times counted in nanoseconds reach, short of a day, which a zone may need."""
_INTEGER_DTYPE = re.compile(r"(u?)int(8|16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_FLOAT_DTYPE = re.compile(r"float(16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_STEPS = {
    "us": dt.timedelta(microseconds=1), "ms": dt.timedelta(milliseconds=1), "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1), "h": dt.timedelta(hours=1),
}  # fmt: skip


class _Column(Frozen):
    missing: bool = Field(default=False, description="Whether a value may be missing.")
    drop: bool = Field(default=False, description="Leave the column out: it is neither learned nor written.")
    dtype: str | None = Field(default=None, description="pandas dtype of the column in a DataFrame or Parquet file.")


class _Measurable(_Column):
    """A column whose domain need not be public: where it is not, a private fit measures it and pays for it."""

    domain: ClassVar[str] = "bounds"
    measure: bool = Field(
        default=False, description="The domain is not public: a private fit measures it under its budget."
    )

    @model_validator(mode="before")
    @classmethod
    def _domain(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        if content.get("measure") is not True:
            return content
        if content.get("bins"):
            raise ValueError("a column to measure has no bins, which would be public; leave out one of the two")
        return {cls.domain: cls.widest(content), **content}

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[Any, ...]:
        """The domain of a column of which only its other keys are public: a dtype, a precision, a time zone."""
        raise NotImplementedError


class _Numeric(_Measurable):
    bins: tuple[float, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Where the resolution lies: even, or on small magnitudes with zero of its own."
    )

    @field_validator("bins")
    @classmethod
    def _ascending(cls, bins: tuple[float, ...]) -> tuple[float, ...]:
        if bins and (len(bins) < 2 or any(a >= b for a, b in itertools.pairwise(bins))):
            raise ValueError("bins must be at least two strictly ascending edges")
        return bins


def _whole_numbers_of(dtype: object) -> tuple[int, int] | None:
    """The least and the greatest whole number of an integer dtype, within 64 bits; none for any other dtype."""
    known = _INTEGER_DTYPE.fullmatch(str(dtype))
    if known is None:
        return None
    bits = int(known[2])
    return (0, min(2**bits - 1, INT64[1])) if known[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def exactly_up_to(dtype: str) -> float:
    """The greatest whole number up to which a dtype holds them all; no limit for what is no number.

    >>> exactly_up_to("int8"), exactly_up_to("float64") == 2**53
    (127, True)
    """
    known = _FLOAT_DTYPE.fullmatch(dtype)
    if known is not None:
        return float(2 ** {"16": 11, "32": 24}.get(known[1], 53))
    whole = _whole_numbers_of(dtype)
    return math.inf if whole is None else whole[1]


def _ordered(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"bounds={list(bounds)} are reversed; write the lower one first")
    return bounds


class IntegerColumn(_Numeric):
    """Whole numbers within 64 bits."""

    kind: Literal["integer"] = "integer"
    bounds: tuple[int, int]

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[int, int]:
        """All whole numbers that the dtype holds, 64 bits unless it says less."""
        return _whole_numbers_of(content.get("dtype")) or INT64

    @field_validator("bounds")
    @classmethod
    def _bounds(cls, bounds: tuple[int, int]) -> tuple[int, int]:
        if bounds[0] < INT64[0] or bounds[1] > INT64[1]:
            raise ValueError("bounds exceed 64 bits; declare the column as an identifier or as categorical text")
        ordered: tuple[int, int] = _ordered(bounds)
        return ordered


class RealColumn(_Numeric):
    """Numbers with a fraction; `decimals` is their public precision."""

    kind: Literal["real"] = "real"
    bounds: tuple[float, float]
    decimals: int | None = Field(default=None, ge=0, le=17, description="Digits after the point; none: all of them.")

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[float, float]:
        """What float64 tells apart to about a tenth."""
        return WIDEST_REAL

    _check = field_validator("bounds")(_ordered)


class WeightColumn(_Numeric):
    """A survey weight: learned like a number, never used as a predictor; `decimals = 0` makes it whole."""

    kind: Literal["weight"] = "weight"
    bounds: tuple[float, float]
    decimals: int | None = Field(default=None, ge=0, le=17)

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[float, float]:
        """What float64 tells apart to about a tenth."""
        return WIDEST_REAL

    _check = field_validator("bounds")(_ordered)


class CategoricalColumn(_Measurable):
    """One of a known list: all texts, or all whole numbers. An empty list says the column is always missing.

    Where the list is to be measured, there is none, and `whole_numbers` says which of the two it will hold.
    """

    domain: ClassVar[str] = "categories"
    kind: Literal["categorical"] = "categorical"
    categories: tuple[Annotated[int, Field(strict=True)], ...] | tuple[Annotated[str, Field(strict=True)], ...]
    ordered: bool = Field(default=False, description="Whether the order of the list means something.")
    whole_numbers: bool = Field(default=False, description="Whether categories to measure are whole numbers, not text.")

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[str, ...]:
        """No list: anything may be there."""
        return ()

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest whole number that may be a category: what the dtype holds, 64 bits at most."""
        return _whole_numbers_of(self.dtype) or INT64

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.measure and self.categories:
            raise ValueError("categories to measure are not listed; leave out the list, or measure = true")
        if self.measure and self.ordered:
            raise ValueError("categories to measure have no known order; leave out ordered, or list them in order")
        if self.measure and not self.whole_numbers and _whole_numbers_of(self.dtype) is not None:
            raise ValueError(f"dtype={self.dtype!r} holds whole numbers only; set whole_numbers = true")
        if self.whole_numbers and not self.measure:
            raise ValueError("whole_numbers is for categories to measure; a list says by itself what it holds")
        return self

    @field_validator("categories", mode="before")
    @classmethod
    def _one_type(cls, categories: Any) -> Any:
        if isinstance(categories, list | tuple) and len({type(category) for category in categories} | {str, int}) > 2:
            raise ValueError("categories are all texts or all whole numbers; quote them all, or declare another kind")
        if isinstance(categories, list | tuple) and len({type(category) for category in categories}) > 1:
            raise ValueError("categories mix texts and whole numbers; quote them all")
        return categories

    @field_validator("categories")
    @classmethod
    def _distinct(cls, categories: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(categories)) != len(categories):
            raise ValueError("categories repeat; name each once")
        require_plain("categories", categories)
        return categories


class BooleanColumn(_Column):
    """True or false; `tokens` are how a text file writes them, false first."""

    kind: Literal["boolean"] = "boolean"
    tokens: tuple[str, str] = ("False", "True")

    @field_validator("tokens")
    @classmethod
    def _two(cls, tokens: tuple[str, str]) -> tuple[str, str]:
        if tokens[0] == tokens[1]:
            raise ValueError("tokens are equal; give false and true a text each")
        require_plain("tokens", tokens)
        return tokens


def _can_be_parsed(form: str | None) -> str | None:
    try:
        dt.datetime.strptime("", form or "")
    except re.error:
        raise ValueError(f"format={form!r} has a directive twice; name each once") from None
    except ValueError:
        pass  # nothing was there to be parsed
    return form


class DateColumn(_Measurable):
    """A day without a time."""

    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date]
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form.")
    bins: tuple[dt.date, ...] = ()

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        """Every day that Python knows, or that nanoseconds reach where the dtype counts them."""
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    _check = field_validator("bounds")(_ordered)
    _parsed = field_validator("format")(_can_be_parsed)


class DatetimeColumn(_Measurable):
    """A point in time. `timezone` is none (wall clock), an IANA name, or "mixed" (each value has its own offset)."""

    kind: Literal["datetime"] = "datetime"
    bounds: tuple[dt.datetime, dt.datetime] = Field(description="Wall clock without a zone; UTC when there is one.")
    format: str | None = Field(default=None, description="strptime format of the text form; none: ISO 8601.")
    timezone: str | None = None
    precision: Literal["us", "ms", "s", "min", "h"] = "s"

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.datetime, dt.datetime]:
        """Every time that Python knows, or that nanoseconds reach; short of both ends of the calendar in a zone."""
        zone = content.get("timezone")
        if "[ns" in str(content.get("dtype")):
            return NANOSECONDS
        room = dt.timedelta(days=0 if zone is None else 1)
        # Before that, pandas cannot turn times of a named zone into objects: it crashes.
        low = dt.datetime.min + room if zone in (None, "mixed") else NANOSECONDS[0]
        last = dt.datetime.max - room
        step = _STEPS.get(str(content.get("precision")), _STEPS["s"])
        return low, last - (last - dt.datetime.min) % step

    _parsed = field_validator("format")(_can_be_parsed)

    @field_validator("bounds")
    @classmethod
    def _naive(cls, bounds: tuple[dt.datetime, dt.datetime]) -> tuple[dt.datetime, dt.datetime]:
        low, high = (b.astimezone(dt.UTC).replace(tzinfo=None) if b.tzinfo else b for b in bounds)
        ordered: tuple[dt.datetime, dt.datetime] = _ordered((low, high))
        return ordered

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, timezone: str | None) -> str | None:
        if timezone not in (None, "mixed"):
            import zoneinfo

            known = zoneinfo.available_timezones()
            if timezone not in known:
                close = nearest(timezone, known)
                remedy = close if close.startswith("did") else 'write one such as "Europe/Paris", or "mixed"'
                raise ValueError(f"timezone={timezone!r} is not an IANA name; {remedy}")
        return timezone


def _check_escapes(template: str | None) -> None:
    """Refuse a template whose last backslash has nothing to make stand for itself."""
    if template is not None and (len(template) - len(template.rstrip("\\"))) % 2:
        raise ValueError(f"template={template!r} ends with half a backslash; write two for one")


class IdentifierColumn(_Column):
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
            _ordered(self.bounds)
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


class PersonalColumn(_Column):
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


class TextColumn(_Column):
    """Free text: no generator here learns to write any, so the schema drops it, or makes it personal."""

    kind: Literal["text"] = "text"


Column = Annotated[
    IntegerColumn | RealColumn | WeightColumn | CategoricalColumn | BooleanColumn | DateColumn | DatetimeColumn
    | IdentifierColumn | PersonalColumn | TextColumn,
    Field(discriminator="kind"),
]  # fmt: skip

KINDS: dict[str, type[_Column]] = {
    "integer": IntegerColumn, "real": RealColumn, "weight": WeightColumn, "categorical": CategoricalColumn,
    "boolean": BooleanColumn, "date": DateColumn, "datetime": DatetimeColumn, "identifier": IdentifierColumn,
    "personal": PersonalColumn, "text": TextColumn,
}  # fmt: skip


def is_measured(column: _Column) -> bool:
    """Whether a column's bounds or categories are not declared but to be measured."""
    return isinstance(column, _Measurable) and column.measure


def is_measurable(column: _Column) -> bool:
    """Whether a column is of a kind whose bounds or categories a private fit can measure."""
    return isinstance(column, _Measurable)
