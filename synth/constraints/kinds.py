"""The kinds of constraints: what each of them says, and what is wrong with it on its own."""

import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.constraints.expression import Expression, names, parse
from synth.texts import require_plain
from synth.validation import Frozen

Value = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | Annotated[str, Field(strict=True)]
"""What a combination holds: true or false, a whole number or a text."""


class _Constraint(Frozen):
    proposed: str | None = Field(
        default=None, description="What speaks for a proposal of `schema infer`; a declared schema has none."
    )


class Inequality(_Constraint):
    """One column is never above another: numbers, or times. It holds where either is missing.

    Beside a date, a time counts as its day.
    """

    kind: Literal["inequality"] = "inequality"
    low: str = Field(description="Column that holds the lower value.")
    high: str = Field(description="Column that holds the higher value.")
    strict: bool = Field(default=False, description="Whether the two are never equal either.")
    by_day: bool = Field(
        default=False,
        description="Compare the days of two times, where one column holds days as midnights; beside a date always so.",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about."""
        return self.low, self.high

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.low == self.high:
            raise ValueError(f"low and high are one column={self.low!r}; name two")
        return self

    def __str__(self) -> str:
        """The constraint in a few words."""
        order = f"{self.low!r} is {'less than' if self.strict else 'at most'} {self.high!r}"
        return f"{order} by day" if self.by_day else order


class FixedCombinations(_Constraint):
    """Two or more columns take only values that are listed together. It holds where any of them is missing."""

    kind: Literal["fixed_combinations"] = "fixed_combinations"
    columns: tuple[str, ...] = Field(min_length=2, description="Categorical, boolean or integer columns.")
    combinations: tuple[tuple[Value, ...], ...] = Field(min_length=1, description="One value for each column, each.")

    @field_validator("columns")
    @classmethod
    def _distinct(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(columns)

    @field_validator("combinations", mode="before")
    @classmethod
    def _plain(cls, combinations: Any) -> Any:
        for place, combination in enumerate(combinations if isinstance(combinations, list | tuple) else ()):
            if not isinstance(combination, list | tuple):
                raise ValueError(f'combination {place} is no list; write one such as [["a", 1], ["b", 2]]')
            if not all(isinstance(value, bool | int | str) for value in combination):
                raise ValueError(
                    f"combination {place} holds a value that is no text, whole number, true or false; only these "
                    "can be listed"
                )
            require_plain(f"combination {place}", combination)
        return combinations

    @model_validator(mode="after")
    def _one_value_each(self) -> Self:
        for place, combination in enumerate(self.combinations):
            if len(combination) != len(self.columns):
                raise ValueError(
                    f"combination {place} has {len(combination)} values for {len(self.columns)} columns; give each "
                    "column one"
                )
        if len({_typed(combination) for combination in self.combinations}) != len(self.combinations):
            raise ValueError("combinations repeat; list each once")
        return self

    @cached_property
    def determined(self) -> Mapping[tuple[str, str], Mapping[Value, Value]]:
        """Values of one column by those of another that determines it, by the names (determining, determined)."""
        found: dict[tuple[str, str], Mapping[Value, Value]] = {}
        by_column = dict(zip(self.columns, zip(*self.combinations, strict=True), strict=True))
        for pair in itertools.permutations(self.columns, 2):
            together = set(zip(by_column[pair[0]], by_column[pair[1]], strict=True))
            values = dict(together)
            if len(values) == len(together):
                found[pair] = values
        return found

    def __str__(self) -> str:
        """The constraint in a few words."""
        together = " and ".join(map(repr, self.columns))
        return f"{together} take one of {len(self.combinations)} listed combinations"


class Formula(_Constraint):
    """A column is computed from others: it is rounded to its own precision, and missing where an operand is missing."""

    kind: Literal["formula"] = "formula"
    column: str = Field(description="Numeric column that is computed, never learned.")
    expression: str = Field(
        description="Sums, differences, products and quotients of numeric columns and numbers; a name that is no plain "
        "word stands in backticks."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about: its own, then its operands."""
        return self.column, *self.operands

    @property
    def operands(self) -> tuple[str, ...]:
        """The columns it is computed from, each once."""
        return tuple(dict.fromkeys(names(self.parsed)))

    @property
    def parsed(self) -> Expression:
        """The expression as a tree."""
        return parse(self.expression)

    @field_validator("expression")
    @classmethod
    def _readable(cls, expression: str) -> str:
        if not list(names(parse(expression))):
            raise ValueError(f"expression={expression!r} names no column; a constant needs no formula, but bounds")
        return expression

    def __str__(self) -> str:
        """The constraint in a few words."""
        return f"{self.column!r} is {self.expression}"


class Unique(_Constraint):
    """No two rows hold the same values in one or more columns. Rows where any of them is missing are not compared."""

    kind: Literal["unique"] = "unique"
    columns: tuple[str, ...] = Field(min_length=1, description="Columns whose values together never repeat.")

    @field_validator("columns")
    @classmethod
    def _distinct(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(columns)

    def __str__(self) -> str:
        """The constraint in a few words."""
        together = " and ".join(map(repr, self.columns))
        return f"{together} never {'repeats' if len(self.columns) == 1 else 'repeat together'}"


Constraint = Annotated[Inequality | FixedCombinations | Formula | Unique, Field(discriminator="kind")]


def _each_once(columns: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(columns)) != len(columns):
        raise ValueError("columns repeat; name each once")
    return columns


def _typed(combination: tuple[Any, ...]) -> tuple[tuple[type[Any], Any], ...]:
    """The combination with true told from 1."""
    return tuple((type(value), value) for value in combination)
