"""Columns of numbers."""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.columns.base import INT64, MeasurableColumn, ordered, whole_numbers_of

WIDEST_REAL = (-1e15, 1e15)
"""Bounds of a real of which nothing is public: float64 still tells its tenths apart."""
LARGEST_STEP, MOST_STEPS, MOST_SPIKES = 2.0**62, 10, 100
"""Of a step in units of the column's precision; of steps and of spikes in a column."""
_EXACT_FLOAT = 2.0**53
"""Up to this, float64 holds every whole number."""
_STEPS = "Numbers that many values are multiples of, coarsest first, each one of the next."
_SPIKES = "Frequent values, ascending: each is told apart from all others, and drawn exactly."
_MEASURE_SPIKES = "The frequent values are not public: a private fit measures them under its budget."


class NumericColumn(MeasurableColumn):
    """What all columns of numbers have."""

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
        """Whether a value is one that the column can hold, and that float64 tells from its neighbors."""
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
    bounds: tuple[int, int]
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

    bounds: tuple[float, float]
    decimals: int | None = Field(default=None, ge=0, le=17, description="Digits after the point; none: all of them.")

    @property
    def unit(self) -> float | None:
        """One of the last digit; `None` where all digits count."""
        return None if self.decimals is None else 10.0**-self.decimals

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[float, float]:
        """What float64 tells apart to about a tenth."""
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
