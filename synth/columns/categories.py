"""Columns of categories, and of true and false."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.columns.base import INT64, AnyColumn, MeasurableColumn, whole_numbers_of
from synth.texts import require_plain


class CategoricalColumn(MeasurableColumn):
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
    tokens: tuple[str, str] = ("False", "True")

    @field_validator("tokens")
    @classmethod
    def _two(cls, tokens: tuple[str, str]) -> tuple[str, str]:
        if tokens[0] == tokens[1]:
            raise ValueError("tokens are equal; give false and true a text each")
        require_plain("tokens", tokens)
        return tokens
