"""Columns of numbers."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.columns.base import INT64, MeasurableColumn, ordered, whole_numbers_of

WIDEST_REAL = (-1e15, 1e15)
"""Bounds of a real of which nothing is public: float64 still tells its tenths apart."""


class NumericColumn(MeasurableColumn):
    """What all columns of numbers have."""

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


class IntegerColumn(NumericColumn):
    """Whole numbers within 64 bits."""

    kind: Literal["integer"] = "integer"
    bounds: tuple[int, int]

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
