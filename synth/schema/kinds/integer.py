"""Whole numbers."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from synth.schema.kinds.base import TaskKind
from synth.schema.kinds.number import (
    BOUNDS,
    INT64,
    MOST_SPIKES,
    MOST_STEPS,
    SPIKES,
    STEPS,
    NumericColumn,
    whole_numbers_of,
)


class WholeColumn(NumericColumn):
    """Columns of int64."""

    is_whole: ClassVar[bool] = True
    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification", "regression")
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


class IntegerColumn(WholeColumn):
    """Whole numbers within 64 bits."""

    noun: ClassVar[str] = "a whole number"
    kind: Literal["integer"] = "integer"
