"""Categories: one of a known list of values, or of a list that is measured; and true or false."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from synth.schema.kinds.base import NOT_READ_OFF, AnyColumn, MeasurableColumn, TaskKind
from synth.schema.kinds.number import INT64, whole_numbers_of
from synth.validation import require_plain

_SHOWN = 8


class CategoricalColumn(MeasurableColumn):
    """One of a known list: all texts, or all whole numbers. An empty list says the column is always missing.

    Where the list is to be measured, there is none, and `whole_numbers` says which of the two it will hold.
    """

    is_categorical: ClassVar[bool] = True
    domain: ClassVar[str] = "categories"
    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification",)
    kind: Literal["categorical"] = "categorical"
    categories: tuple[Annotated[int, Field(strict=True)], ...] | tuple[Annotated[str, Field(strict=True)], ...] = Field(
        description="All values that there may be."
    )
    ordered: bool = Field(default=False, description="Whether the order of the list means something.")
    whole_numbers: bool = Field(default=False, description="Whether categories to measure are whole numbers, not text.")

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest whole number that may be a category: what the dtype holds, 64 bits at most."""
        return whole_numbers_of(self.dtype) or INT64

    def rules(self) -> Iterator[tuple[object, str]]:
        require_plain("categories", self.categories)
        yield len({*self.categories}) != len(self.categories), "categories repeat; name each once"
        yield (
            self.measure and self.categories,
            "categories to measure are not listed; leave out the list, or measure = true",
        )
        yield (
            self.measure and self.ordered,
            "categories to measure have no known order; leave out ordered, or list them in order",
        )
        yield (
            self.measure and not self.whole_numbers and whole_numbers_of(self.dtype) is not None,
            f"dtype={self.dtype!r} holds whole numbers only; set whole_numbers = true",
        )
        yield (
            self.whole_numbers and not self.measure,
            "whole_numbers is for categories to measure; a list says by itself what it holds",
        )

    @field_validator("categories", mode="before")
    @classmethod
    def _one_type(cls, categories: Any) -> Any:
        kinds = {type(category) for category in categories} if isinstance(categories, list | tuple) else set()
        if len(kinds) > 1 or not kinds <= {str, int}:
            raise ValueError(
                "categories mix texts and whole numbers, or hold neither; quote them all, or declare another kind"
            )
        return categories

    @property
    def is_ordered(self) -> bool:
        return self.ordered

    @property
    def holds_whole_numbers(self) -> bool:
        return self.whole_numbers or (bool(self.categories) and isinstance(self.categories[0], int))

    @property
    def levels(self) -> tuple[Any, ...]:
        return self.categories

    spellings = levels

    @property
    def domain_words(self) -> str:
        return f"{len(self.categories):,} categories" if self.categories else ""

    @property
    def noun(self) -> str:
        return "a whole number" if self.whole_numbers else "a text"

    def allows(self, value: Any) -> bool:
        return not isinstance(value, bool) and value in self.categories

    def to_measure(self) -> dict[str, Any]:
        return {**super().to_measure(), "whole_numbers": self.holds_whole_numbers}

    def _asserted_domain(self, often: str) -> str:
        if not self.categories:
            return "every value is missing, and that is public knowledge"
        shown, more = ", ".join(map(repr, self.categories[:_SHOWN])), len(self.categories) - _SHOWN
        listed = f"{len(self.categories)} categories ({shown}{f' and {more} more' if more > 0 else ''})"
        return f"every value is one of {listed}, {often}, and this list is {NOT_READ_OFF}"

    def read_off(self) -> list[tuple[str, str]]:
        return [("the categories", "the rarest may be one unit's own")] if self.categories else []


class BooleanColumn(AnyColumn):
    """True or false; `tokens` are how a text file writes them, false first."""

    is_categorical: ClassVar[bool] = True
    is_boolean: ClassVar[bool] = True
    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification",)
    kind: Literal["boolean"] = "boolean"
    tokens: tuple[str, str] = Field(default=("False", "True"), description="Texts of a file for false and true.")

    def rules(self) -> Iterator[tuple[object, str]]:
        require_plain("tokens", self.tokens)
        yield self.tokens[0] == self.tokens[1], "tokens are equal; give false and true a text each"

    @property
    def levels(self) -> tuple[Any, ...]:
        return (False, True)

    @property
    def spellings(self) -> tuple[Any, ...]:
        return self.tokens

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    def _asserted(self, often: str) -> str:
        return f"every value is true or false, {often}, and that is public knowledge"
