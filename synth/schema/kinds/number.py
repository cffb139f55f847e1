"""Numbers: whole ones, those with a fraction, survey weights; their bounds, bins, steps and frequent values."""

import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from synth.schema.kinds import number_format
from synth.schema.kinds.base import ABOVE, BELOW, MOST_BESIDE, LineColumn, TaskKind
from synth.validation import require_plain

INT64 = (-(2**63), 2**63 - 1)
_SHOWN = 8
LARGEST_STEP, MOST_STEPS, MOST_SPIKES = 2.0**62, 10, 100
"""Of a step in units of the column's precision; of steps and of spikes in a column."""
_EXACT_FLOAT = 2.0**53  # up to this, float64 holds every whole number
FORMAT = "Text form, as spreadsheets write it, such as `$#,##0.00;($#,##0.00)` or `0.0#%`; left out: digits alone."
BOUNDS = "Least and greatest value that there may be."
STEPS = "Numbers that many values are multiples of, coarsest first, each one of the next."
WIDEST_REAL = (-1e15, 1e15)  # bounds of a real of which nothing is public: float64 still tells its tenths apart
SPIKES = "Frequent values, ascending: each is told apart from all others, and drawn exactly."
_MEASURE_SPIKES = "The frequent values are not public: a private fit measures them under its budget."


def whole_numbers_of(dtype: object) -> tuple[int, int] | None:
    """The least and the greatest whole number of an integer dtype, within 64 bits; `None` for any other dtype."""
    try:
        limits = np.iinfo(str(dtype).lower().removesuffix("[pyarrow]"))
    except (TypeError, ValueError, SyntaxError):  # no dtype of numpy
        return None
    return int(limits.min), min(int(limits.max), INT64[1])


def exactly_up_to(dtype: str) -> float:
    """The greatest whole number up to which a dtype holds them all; no limit for what is no number.

    >>> exactly_up_to("int8"), exactly_up_to("float64") == 2**53
    (127, True)
    """
    whole = whole_numbers_of(dtype)
    try:
        return whole[1] if whole else 2.0 ** (np.finfo(dtype.lower().removesuffix("[pyarrow]")).nmant + 1)
    except (TypeError, ValueError, SyntaxError):  # no dtype of numpy
        return math.inf


class NumericColumn(LineColumn):
    is_number: ClassVar[bool] = True
    below: tuple[int | float | str, ...] = Field(default=(), max_length=MOST_BESIDE, description=BELOW)
    above: tuple[int | float | str, ...] = Field(default=(), max_length=MOST_BESIDE, description=ABOVE)
    format: str | None = Field(default=None, description=FORMAT)
    bins: tuple[float, ...] = Field(
        default=(), description="Edges of public bins, ascending; first and last bound them."
    )
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Where the resolution lies: even, or on small magnitudes with zero of its own."
    )

    steps: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        default=(), max_length=MOST_STEPS, description=STEPS
    )
    step_shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(), description="Share of the values that are multiples of each step, spikes aside; left out: all."
    )
    spikes: tuple[float, ...] = Field(default=(), max_length=MOST_SPIKES, description=SPIKES)
    measure_spikes: bool = Field(default=False, description=_MEASURE_SPIKES)

    @property
    def has_own_texts(self) -> bool:
        return self.format is not None and not number_format.parsed(self.format).is_plain

    def parse(self, text: str) -> Any:
        return number_format.parsed(self.format or "0").read(text)

    def write(self, value: Any) -> str:
        return number_format.parsed(self.format or "0").write(Decimal(repr(value)))

    @field_validator("below", "above")
    @classmethod
    def _numbers(cls, listed: tuple[Any, ...]) -> tuple[Any, ...]:
        if cls.is_whole and any(isinstance(value, float) and not value.is_integer() for value in listed):
            raise ValueError("below and above of whole numbers have no fractions; correct them, or declare kind = real")
        return tuple(int(v) if cls.is_whole and isinstance(v, float) else v for v in listed)

    def rules(self) -> Iterator[tuple[object, str]]:
        yield from super().rules()
        if self.format is not None and not self.is_span:
            require_plain("format", [self.format])
            number_format.parsed(self.format)
        ascend = [all(a < b for a, b in itertools.pairwise(listed)) for listed in (self.bins, self.spikes)]
        yield len(self.bins) == 1 or not ascend[0], "bins must be at least two strictly ascending edges"
        yield (
            not (ascend[1] and all(map(math.isfinite, self.spikes))),
            "spikes must be finite and strictly ascending; name each once",
        )
        yield (
            self.measure_spikes and self.spikes,
            "spikes to measure are not listed; leave out the list, or measure_spikes = true",
        )
        unit, (low, high) = self.unit, self.bounds
        yield (
            self.steps and unit is None,
            "steps are multiples of the column's precision, and it has none; give decimals",
        )
        ladder = (*self.steps, unit or 1.0)
        yield (
            any(
                not _is_multiple(step, finer) or step <= finer * (1 + 1e-9)
                for step, finer in itertools.pairwise(ladder)
            ),
            f"steps={list(self.steps)} must be coarser than the column's precision, coarsest first, and each a "
            "multiple of the next and of that precision; leave out those that are not",
        )
        yield (
            self.steps and self.steps[0] / ladder[-1] > LARGEST_STEP,
            f"steps={list(self.steps)} exceed 64 bits of the column's precision; leave out the first",
        )
        yield (
            self.step_shares and len(self.step_shares) != len(self.steps),
            "step_shares has one share for each of steps; give as many",
        )
        yield (
            any(a > b for a, b in itertools.pairwise(self.step_shares)),
            "step_shares must not fall: values on a coarse step are on the finer ones, too",
        )
        outside = any(not low <= spike <= high for spike in self.spikes)
        yield outside, f"spikes must lie within bounds={[low, high]}; leave out those that do not"
        yield (
            unit is not None and not all(_is_multiple(spike, unit) for spike in self.spikes),
            "spikes have more digits than the column's values; round them to its precision",
        )

    @property
    def ladder(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.steps, self.step_shares or (1.0,) * len(self.steps), strict=True))

    def tells_apart(self, value: float) -> bool:
        """True if a value is one that the column can hold, and that float64 tells from its neighbors."""
        low, high = self.bounds
        if not low <= value <= high:
            return False
        return self.unit is None or (_is_multiple(value, self.unit) and abs(value) / self.unit < _EXACT_FLOAT)

    @property
    def measures_spikes(self) -> bool:
        return self.measure_spikes

    def line(self, series: Any) -> np.ndarray:
        return np.array(series.to_numpy(dtype=np.float64, na_value=np.nan))

    def position(self, value: Any) -> float:
        return float(value)

    def value_at(self, position: float) -> Any:
        return self.plain(position)

    def plain(self, value: Any) -> Any:
        return type(self.bounds[0])(value)

    def values(self, counts: np.ndarray, missing: np.ndarray) -> Any:
        import pandas as pd

        if self.is_whole:
            whole = self.put_beside(np.clip(counts, *self.bounds), counts)
            return pd.Series(pd.arrays.IntegerArray(whole, missing.copy()))
        reals = counts if self.decimals is None else np.round(counts / 10.0**self.decimals, self.decimals)
        reals = self.put_beside(np.clip(reals, *self.bounds), counts)
        return pd.Series(np.where(missing, np.nan, reals))

    def show(self, count: int) -> str:
        decimals = getattr(self, "decimals", None) or 0
        return f"{count / 10**decimals:.{decimals}f}"

    @property
    def limit_words(self) -> list[str]:
        parts = super().limit_words + ["the text form"] * (self.format is not None)
        if self.steps:
            listed = (f"{size:.15g}" + ("" if share == 1 else f" ({100 * share:.3g}%)") for size, share in self.ladder)
            parts.append(f"the steps {', '.join(listed)}")
        if self.spikes:
            more = len(self.spikes) - _SHOWN
            shown = ", ".join(f"{spike:.15g}" for spike in self.spikes[:_SHOWN]) + f" and {more} more" * (more > 0)
            parts.append(f"{len(self.spikes)} frequent value{'s' * (len(self.spikes) > 1)} ({shown})")
        return parts

    def read_off(self) -> list[tuple[str, str]]:
        told = ("steps and frequent values", "rows decide which they are, and one entity's may be enough")
        form = ("the text form", "one row may be enough for a form of negative or of large numbers")
        return super().read_off() + [told] * bool(self.steps or self.spikes) + [form] * (";" in (self.format or ""))


class IntegerColumn(NumericColumn):
    """Whole numbers within 64 bits."""

    is_whole: ClassVar[bool] = True
    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification", "regression")
    noun: ClassVar[str] = "a whole number"
    kind: Literal["integer"] = "integer"
    bounds: tuple[int, int] = Field(description=BOUNDS)
    steps: tuple[Annotated[int, Field(gt=0)], ...] = Field(default=(), max_length=MOST_STEPS, description=STEPS)
    spikes: tuple[int, ...] = Field(default=(), max_length=MOST_SPIKES, description=SPIKES)

    @property
    def unit(self) -> float:
        return 1.0

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[int, int]:
        return whole_numbers_of(content.get("dtype")) or INT64

    def rules(self) -> Iterator[tuple[object, str]]:
        listed = [value for value in (*self.below, *self.bounds, *self.above) if not isinstance(value, str)]
        yield (
            min(listed) < INT64[0] or max(listed) > INT64[1],
            "bounds, below and above exceed 64 bits; declare the column as an identifier or as categorical text",
        )
        yield from super().rules()

    def allows(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.bounds[0] <= value <= self.bounds[1]

    def between(self, first: float, last: float) -> tuple[int, int]:
        low, high = self.bounds
        least = max(low, int(first))
        return least, max(least, min(high, int(last) - 1))


class RealColumn(NumericColumn):
    """Numbers with a fraction; `decimals` is their public precision."""

    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification", "regression")
    _noun: ClassVar[str] = "a number"
    kind: Literal["real"] = "real"
    bounds: tuple[float, float] = Field(description=BOUNDS)
    decimals: int | None = Field(default=None, ge=0, le=17, description="Digits after the point; left out: all.")

    @property
    def unit(self) -> float | None:
        return None if self.decimals is None else 10.0**-self.decimals

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[float, float]:
        return WIDEST_REAL

    def value_at(self, position: float) -> float:
        return float(position) if self.decimals is None else round(float(position), self.decimals)

    def rules(self) -> Iterator[tuple[object, str]]:
        low, high = self.bounds
        steps = 10.0 ** (self.decimals or 0)
        finer = "" if self.decimals is None else f" in steps of decimals={self.decimals}"
        yield (
            not all(math.isfinite(size * steps) for size in (low, high, high - low)),
            f"bounds={[low, high]} are too far apart: float64 holds no such distance{finer}; write narrower ones",
        )
        yield from super().rules()

    @property
    def noun(self) -> str:
        if self.decimals is None:
            return self._noun
        return self._noun + (f" with at most {self.decimals} decimals" if self.decimals else " without decimals")

    def between(self, first: float, last: float) -> tuple[float, float]:
        low, high = self.bounds
        if self.decimals is not None:
            first, last = round(first, self.decimals), round(last, self.decimals)
        return max(low, first), min(high, last)

    def allows(self, value: Any) -> bool:
        return isinstance(value, float) and self.bounds[0] <= value <= self.bounds[1] and value == self.value_at(value)


class WeightColumn(RealColumn):
    """A survey weight: learned like a number, never used as a predictor; `decimals = 0` makes it whole."""

    is_weight: ClassVar[bool] = True
    tasks: ClassVar[tuple[TaskKind, ...]] = ("regression",)
    _noun: ClassVar[str] = "a survey weight"
    kind: Literal["weight"] = "weight"  # type: ignore[assignment]


def _is_multiple(value: float, unit: float) -> bool:
    times = value / unit
    return abs(times - round(times)) <= max(1e-9, 8 * math.ulp(times))
