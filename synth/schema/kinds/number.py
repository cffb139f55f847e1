"""What all kinds of numbers have in common: bounds, bins, steps and frequent values, and what dtypes hold."""

import itertools
import math
import re
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from synth.schema.kinds import number_format
from synth.schema.kinds.base import ABOVE, BELOW, MOST_BESIDE, LineColumn
from synth.validation import require_plain

INT64 = (-(2**63), 2**63 - 1)
_INTEGER_DTYPE = re.compile(r"(u?)int(8|16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_FLOAT_DTYPE = re.compile(r"float(16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_SHOWN = 8
LARGEST_STEP, MOST_STEPS, MOST_SPIKES = 2.0**62, 10, 100
"""Of a step in units of the column's precision; of steps and of spikes in a column."""
_EXACT_FLOAT = 2.0**53  # up to this, float64 holds every whole number
FORMAT = "Text form, as spreadsheets write it, such as `$#,##0.00;($#,##0.00)` or `0.0#%`; left out: digits alone."
BOUNDS = "Least and greatest value that there may be."
STEPS = "Numbers that many values are multiples of, coarsest first, each one of the next."
SPIKES = "Frequent values, ascending: each is told apart from all others, and drawn exactly."
_MEASURE_SPIKES = "The frequent values are not public: a private fit measures them under its budget."


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


class NumericColumn(LineColumn):
    """The fields of all columns of numbers."""

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

    @field_validator("format")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            require_plain("format", [text])
            number_format.parsed(text)
        return text

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
        unit, (low, high) = self.unit, self.bounds
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


def _is_multiple(value: float, unit: float) -> bool:
    times = value / unit
    return abs(times - round(times)) <= max(1e-9, 8 * math.ulp(times))
