"""Numbers with a fraction."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from synth.schema.kinds.base import TaskKind
from synth.schema.kinds.number import BOUNDS, NumericColumn

WIDEST_REAL = (-1e15, 1e15)  # bounds of a real of which nothing is public: float64 still tells its tenths apart


class FractionColumn(NumericColumn):
    """Columns of float64."""

    _noun: ClassVar[str] = "a number"
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
        """A number to its precision."""
        if self.decimals is None:
            return self._noun
        return self._noun + (f" with at most {self.decimals} decimals" if self.decimals else " without decimals")

    def between(self, first: float, last: float) -> tuple[float, float]:
        low, high = self.bounds
        if self.decimals is not None:
            first, last = round(first, self.decimals), round(last, self.decimals)
        return max(low, first), min(high, last)


class RealColumn(FractionColumn):
    """Numbers with a fraction; `decimals` is their public precision."""

    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification", "regression")
    kind: Literal["real"] = "real"

    def allows(self, value: Any) -> bool:
        return isinstance(value, float) and self.bounds[0] <= value <= self.bounds[1] and value == self.value_at(value)
