"""Column kinds: what is public about a single column.

Numbers, categories, dates and times are learned; identifiers and personal data never are. Free text is written by a
language model where its column says `learn = true`, given the rest of its row. The domain of most kinds (bounds,
categories) is either declared or, with `measure = true`, left for a private fit to measure under its budget. So are the
frequent values of numbers, with `measure_spikes = true`.
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
from synth.validation import Frozen, require_plain

INT64 = (-(2**63), 2**63 - 1)
_INTEGER_DTYPE = re.compile(r"(u?)int(8|16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_FLOAT_DTYPE = re.compile(r"float(16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)


class AnyColumn(Frozen):
    """The fields of every column."""

    missing: bool = Field(default=False, description="Whether a value may be missing.")
    drop: bool = Field(default=False, description="Leave the column out: it is neither learned nor written.")
    dtype: str | None = Field(default=None, description="pandas dtype of the column in a DataFrame or Parquet file.")

    @model_validator(mode="before")
    @classmethod
    def _frequent_values_of_numbers(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and "measure_spikes" in content and "measure_spikes" not in cls.model_fields:
            raise ValueError(
                "frequent values are measured of integer, real and weight columns; leave out measure_spikes"
            )
        return content


class MeasurableColumn(AnyColumn):
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
        for key in ("bins", "spikes"):
            if content.get(key):
                raise ValueError(f"a column to measure has no {key}, which would be public; leave out one of the two")
        return {cls.domain: cls.widest(content), **content}

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[Any, ...]:
        """The domain of a column of which only its other keys are public: a dtype, a precision, a time zone."""
        raise NotImplementedError


def whole_numbers_of(dtype: object) -> tuple[int, int] | None:
    """The least and the greatest whole number of an integer dtype, within 64 bits; `None` for any other dtype."""
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
    whole = whole_numbers_of(dtype)
    return math.inf if whole is None else whole[1]


def ordered(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    """The bounds, refused where they are reversed."""
    if bounds[0] > bounds[1]:
        raise ValueError(f"bounds={list(bounds)} are reversed; write the lower one first")
    return bounds


class CategoricalColumn(MeasurableColumn):
    """One of a known list: all texts, or all whole numbers. An empty list says the column is always missing.

    Where the list is to be measured, there is none, and `whole_numbers` says which of the two it will hold.
    """

    domain: ClassVar[str] = "categories"
    kind: Literal["categorical"] = "categorical"
    categories: tuple[Annotated[int, Field(strict=True)], ...] | tuple[Annotated[str, Field(strict=True)], ...] = Field(
        description="All values that there may be."
    )
    ordered: bool = Field(default=False, description="Whether the order of the list means something.")
    whole_numbers: bool = Field(default=False, description="Whether categories to measure are whole numbers, not text.")

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[str, ...]:
        """No list: anything may be there."""
        return ()

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest whole number that may be a category: what the dtype holds, 64 bits at most."""
        return whole_numbers_of(self.dtype) or INT64

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.measure and self.categories:
            raise ValueError("categories to measure are not listed; leave out the list, or measure = true")
        if self.measure and self.ordered:
            raise ValueError("categories to measure have no known order; leave out ordered, or list them in order")
        if self.measure and not self.whole_numbers and whole_numbers_of(self.dtype) is not None:
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


class BooleanColumn(AnyColumn):
    """True or false; `tokens` are how a text file writes them, false first."""

    kind: Literal["boolean"] = "boolean"
    tokens: tuple[str, str] = Field(default=("False", "True"), description="Texts of a file for false and true.")

    @field_validator("tokens")
    @classmethod
    def _two(cls, tokens: tuple[str, str]) -> tuple[str, str]:
        if tokens[0] == tokens[1]:
            raise ValueError("tokens are equal; give false and true a text each")
        require_plain("tokens", tokens)
        return tokens


WIDEST_REAL = (-1e15, 1e15)
"""Bounds of a real of which nothing is public: float64 still tells its tenths apart."""
LARGEST_STEP, MOST_STEPS, MOST_SPIKES = 2.0**62, 10, 100
"""Of a step in units of the column's precision; of steps and of spikes in a column."""
_EXACT_FLOAT = 2.0**53
"""Up to this, float64 holds every whole number."""
_BOUNDS = "Least and greatest value that there may be."
_STEPS = "Numbers that many values are multiples of, coarsest first, each one of the next."
_SPIKES = "Frequent values, ascending: each is told apart from all others, and drawn exactly."
_MEASURE_SPIKES = "The frequent values are not public: a private fit measures them under its budget."


class NumericColumn(MeasurableColumn):
    """The fields of all columns of numbers."""

    bins: tuple[float, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Where the resolution lies: even, or on small magnitudes with zero of its own."
    )

    steps: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        default=(), max_length=MOST_STEPS, description=_STEPS
    )
    step_shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(), description="Share of the values that are multiples of each step, spikes aside; left out: all."
    )
    spikes: tuple[float, ...] = Field(default=(), max_length=MOST_SPIKES, description=_SPIKES)
    measure_spikes: bool = Field(default=False, description=_MEASURE_SPIKES)

    @field_validator("bins")
    @classmethod
    def _ascending(cls, bins: tuple[float, ...]) -> tuple[float, ...]:
        if bins and (len(bins) < 2 or any(a >= b for a, b in itertools.pairwise(bins))):
            raise ValueError("bins must be at least two strictly ascending edges")
        return bins

    @field_validator("spikes")
    @classmethod
    def _distinct(cls, spikes: tuple[float, ...]) -> tuple[float, ...]:
        if not all(math.isfinite(spike) for spike in spikes) or any(a >= b for a, b in itertools.pairwise(spikes)):
            raise ValueError("spikes must be finite and strictly ascending; name each once")
        return spikes

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.measure_spikes and self.spikes:
            raise ValueError("spikes to measure are not listed; leave out the list, or measure_spikes = true")
        return self

    @model_validator(mode="after")
    def _written_exactly(self) -> Self:
        unit, (low, high) = self.unit, self.bounds  # type: ignore[attr-defined]
        if self.steps and unit is None:
            raise ValueError("steps are multiples of the column's precision, and it has none; give decimals")
        ladder = (*self.steps, unit or 1.0)
        if any(not _is_multiple(one, of) or one <= of * (1 + 1e-9) for one, of in itertools.pairwise(ladder)):
            raise ValueError(
                f"steps={list(self.steps)} must be coarser than the column's precision, coarsest first, and each a "
                "multiple of the next and of that precision; leave out those that are not"
            )
        if self.steps and self.steps[0] / ladder[-1] > LARGEST_STEP:
            raise ValueError(f"steps={list(self.steps)} exceed 64 bits of the column's precision; leave out the first")
        if self.step_shares and len(self.step_shares) != len(self.steps):
            raise ValueError("step_shares has one share for each of steps; give as many")
        if any(a > b for a, b in itertools.pairwise(self.step_shares)):
            raise ValueError("step_shares must not fall: values on a coarse step are on the finer ones, too")
        if any(not low <= spike <= high for spike in self.spikes):
            raise ValueError(f"spikes must lie within bounds={[low, high]}; leave out those that do not")
        if unit is not None and not all(_is_multiple(spike, unit) for spike in self.spikes):
            raise ValueError("spikes have more digits than the column's values; round them to its precision")
        return self

    @property
    def ladder(self) -> tuple[tuple[float, float], ...]:
        """Each step with its share, coarsest first."""
        return tuple(zip(self.steps, self.step_shares or (1.0,) * len(self.steps), strict=True))

    @property
    def unit(self) -> float | None:
        """Distance between neighboring values that the column can hold; `None` for a continuous one."""
        raise NotImplementedError

    def tells_apart(self, value: float) -> bool:
        """True if a value is one that the column can hold, and that float64 tells from its neighbors."""
        low, high = self.bounds  # type: ignore[attr-defined]
        if not low <= value <= high:
            return False
        return self.unit is None or (_is_multiple(value, self.unit) and abs(value) / self.unit < _EXACT_FLOAT)


def _is_multiple(value: float, unit: float) -> bool:
    times = value / unit
    return abs(times - round(times)) <= max(1e-9, 8 * math.ulp(times))


class IntegerColumn(NumericColumn):
    """Whole numbers within 64 bits."""

    kind: Literal["integer"] = "integer"
    bounds: tuple[int, int] = Field(description=_BOUNDS)
    steps: tuple[Annotated[int, Field(gt=0)], ...] = Field(default=(), max_length=MOST_STEPS, description=_STEPS)
    spikes: tuple[int, ...] = Field(default=(), max_length=MOST_SPIKES, description=_SPIKES)

    @property
    def unit(self) -> float:
        """Whole numbers lie one apart."""
        return 1.0

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[int, int]:
        """All whole numbers that the dtype holds, 64 bits unless it says less."""
        return whole_numbers_of(content.get("dtype")) or INT64

    @field_validator("bounds")
    @classmethod
    def _bounds(cls, bounds: tuple[int, int]) -> tuple[int, int]:
        if bounds[0] < INT64[0] or bounds[1] > INT64[1]:
            raise ValueError("bounds exceed 64 bits; declare the column as an identifier or as categorical text")
        checked: tuple[int, int] = ordered(bounds)
        return checked


class FractionColumn(NumericColumn):
    """Columns of float64."""

    bounds: tuple[float, float] = Field(description=_BOUNDS)
    decimals: int | None = Field(default=None, ge=0, le=17, description="Digits after the point; left out: all.")

    @property
    def unit(self) -> float | None:
        """One of the last digit; `None` where all digits count."""
        return None if self.decimals is None else 10.0**-self.decimals

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[float, float]:
        """Magnitudes that float64 tells apart to about a tenth."""
        return WIDEST_REAL

    _check = field_validator("bounds")(ordered)

    @model_validator(mode="after")
    def _finite(self) -> Self:
        low, high = self.bounds
        steps = 10.0 ** (self.decimals or 0)
        if not all(math.isfinite(size * steps) for size in (low, high, high - low)):
            finer = "" if self.decimals is None else f" in steps of decimals={self.decimals}"
            raise ValueError(
                f"bounds={[low, high]} are too far apart: float64 holds no such distance{finer}; write narrower ones"
            )
        return self


class RealColumn(FractionColumn):
    """Numbers with a fraction; `decimals` is their public precision."""

    kind: Literal["real"] = "real"


class WeightColumn(FractionColumn):
    """A survey weight: learned like a number, never used as a predictor; `decimals = 0` makes it whole."""

    kind: Literal["weight"] = "weight"


NANOSECONDS = (dt.datetime(1677, 9, 23), dt.datetime(2262, 4, 10))
"""Limits of times in nanoseconds, short of a day, which a zone may need."""
_STEP_OF_PRECISION = {
    "us": dt.timedelta(microseconds=1), "ms": dt.timedelta(milliseconds=1), "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1), "h": dt.timedelta(hours=1),
}  # fmt: skip


_DIRECTIVE = re.compile(r"%(-?)(.)", re.DOTALL)


def read_as(form: str) -> str:
    """The strptime format that reads a format: ``%-d``, a day without a leading zero, is read as ``%d`` is.

    >>> read_as("%-d.%-m.%Y")
    '%d.%m.%Y'
    """
    return _DIRECTIVE.sub(r"%\2", form)


def write_as(form: str, moment: dt.datetime) -> str:
    """The strftime format that writes one moment in a format.

    It holds the moment's year and all parts without a leading zero already, which systems write differently.

    >>> write_as("%-d.%m.%Y", dt.datetime(987, 3, 4))
    '4.%m.0987'
    """
    parts = {"Y": f"{moment.year:04d}"}
    bare = {"m": moment.month, "d": moment.day, "H": moment.hour, "I": moment.hour % 12 or 12}
    bare |= {"M": moment.minute, "S": moment.second}
    parts |= {f"-{letter}": str(part) for letter, part in bare.items()}
    return _DIRECTIVE.sub(lambda found: parts.get(found[1] + found[2], found[0]), form)


def _can_be_parsed(form: str | None) -> str | None:
    try:
        dt.datetime.strptime("", read_as(form or ""))
    except re.error:
        raise ValueError(f"format={form!r} has a directive twice; name each once") from None
    except ValueError:
        pass  # nothing was there to be parsed
    return form


class DateColumn(MeasurableColumn):
    """A day without a time."""

    kind: Literal["date"] = "date"
    bounds: tuple[dt.date, dt.date] = Field(description=_BOUNDS)
    format: str = Field(default="%Y-%m-%d", description="strptime format of the text form; `%-d`: a day without zero.")
    bins: tuple[dt.date, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[dt.date, dt.date]:
        """Every day that Python knows, or that nanoseconds reach where the dtype counts them."""
        low, high = NANOSECONDS if "[ns" in str(content.get("dtype")) else (dt.datetime.min, dt.datetime.max)
        return low.date(), high.date()

    _check = field_validator("bounds")(ordered)
    _parsed = field_validator("format")(_can_be_parsed)


class DatetimeColumn(MeasurableColumn):
    """A point in time. `timezone` is `None` (wall clock), an IANA name, or "mixed" (each value has its own offset)."""

    kind: Literal["datetime"] = "datetime"
    bounds: tuple[dt.datetime, dt.datetime] = Field(description="Wall clock without a zone; UTC when there is one.")
    format: str | None = Field(default=None, description="strptime format of the text form; left out: ISO 8601.")
    timezone: str | None = Field(
        default=None, description='An IANA name, or "mixed": each value has its own offset. Left out: wall clock.'
    )
    precision: Literal["us", "ms", "s", "min", "h", "day"] = Field(default="s", description="Of every value.")

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
        step = _STEP_OF_PRECISION.get(str(content.get("precision")), _STEP_OF_PRECISION["s"])
        return low, last - (last - dt.datetime.min) % step

    _parsed = field_validator("format")(_can_be_parsed)

    @field_validator("bounds")
    @classmethod
    def _naive(cls, bounds: tuple[dt.datetime, dt.datetime]) -> tuple[dt.datetime, dt.datetime]:
        low, high = (b.astimezone(dt.UTC).replace(tzinfo=None) if b.tzinfo else b for b in bounds)
        checked: tuple[dt.datetime, dt.datetime] = ordered((low, high))
        return checked

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


class IdentifierColumn(AnyColumn):
    """A name for a row or an entity: never learned, generated anew in the same format.

    Text identifiers follow `template`: ``#`` is a digit, ``A`` an upper-case and ``a`` a lower-case letter, ``x`` a
    lower-case and ``X`` an upper-case hexadecimal digit; a backslash makes the next character stand for itself and
    every other character stands for itself. Integer identifiers are drawn from `bounds`.
    """

    kind: Literal["identifier"] = "identifier"
    template: str | None = Field(
        default=None, description="Form of texts: # a digit, A or a a letter, X or x a hexadecimal digit."
    )
    bounds: tuple[int, int] | None = Field(default=None, description="Least and greatest whole number to draw.")

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
"""Kinds of personal data."""

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
    template: str | None = Field(default=None, min_length=1, description="Form of numbers; left out: the locale's own.")
    unique: bool = Field(default=False, description="No value is written twice.")
    length: int | None = Field(default=None, ge=5, le=5_000, description="Characters of a text at most; left out: 80.")
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
    """Free text: a language model writes it, given the rest of its row, where `learn` is set; else set `drop`.

    Placeholder sentences that nobody learned from are of the kind personal.
    """

    kind: Literal["text"] = "text"
    learn: bool = Field(default=False, description="A language model learns to write such texts.")
    length: int = Field(
        default=400, ge=1, le=20_000, description="Characters of a learned text that are read or written at most."
    )

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.learn and self.drop:
            raise ValueError("a text that is left out is not learned; set either drop = true or learn = true")
        return self


Column = Annotated[
    IntegerColumn | RealColumn | WeightColumn | CategoricalColumn | BooleanColumn | DateColumn | DatetimeColumn
    | IdentifierColumn | PersonalColumn | TextColumn,
    Field(discriminator="kind"),
]  # fmt: skip

KINDS: dict[str, type[AnyColumn]] = {
    "integer": IntegerColumn, "real": RealColumn, "weight": WeightColumn, "categorical": CategoricalColumn,
    "boolean": BooleanColumn, "date": DateColumn, "datetime": DatetimeColumn, "identifier": IdentifierColumn,
    "personal": PersonalColumn, "text": TextColumn,
}  # fmt: skip


def is_measured(column: AnyColumn) -> bool:
    """True if a column's bounds or categories are not declared but to be measured."""
    return isinstance(column, MeasurableColumn) and column.measure


def measures_spikes(column: AnyColumn) -> bool:
    """True if a column's frequent values are not declared but to be measured."""
    return isinstance(column, NumericColumn) and column.measure_spikes


def is_measurable(column: AnyColumn) -> bool:
    """True if a private fit can measure the bounds or categories of columns of this kind."""
    return isinstance(column, MeasurableColumn)
