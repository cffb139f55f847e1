"""How generators hold a column whose own value is not what is easiest to predict: as what is left of a formula."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, field_serializer, field_validator, model_validator

from synth.constraints.expression import Unit, needs, parse
from synth.constraints.kinds import EXPRESSION, UNIT, Expressed, Value, operands_of
from synth.validation import Frozen

_SHOWN = 8  # pairs of categories that are shown


class Modeled(Expressed, Frozen):
    """What is counted and learned in place of a column's own value; it costs nothing, as all of it is declared.

    The column is the formula and what is left of it: exactly, in every row. Where an operand is missing, it is missing,
    or has a value of its own (`alone`).
    """

    expression: str | None = Field(default=None, description=EXPRESSION)
    unit: Unit | None = Field(default=None, description=UNIT)
    numbers: Mapping[str, tuple[tuple[Value, float], ...]] = Field(
        default={}, description="Pairs of a category and what it adds, for columns of the expression that have such."
    )
    left: Literal["difference", "ratio"] = Field(
        default="difference", description="What is learned: the value less the expression, or divided by it."
    )
    column: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(
        default=None,
        description="What is left, as an integer or real column: of a date in days, of a time in steps of its "
        "precision. Left out: by the bounds of all columns.",
    )
    alone: bool = Field(
        default=False,
        description="Values that the expression and what is left cannot give (it is missing, or leaves more than the "
        "bounds of column) are learned apart.",
    )
    parts: bool = Field(
        default=False,
        description="A time is learned as its week (since that of the expression), weekday and time of day.",
    )
    by: str | None = Field(default=None, description="Column that nearly always says which category it is.")
    usual: tuple[tuple[Value, Value], ...] = Field(
        default=(), description="Pairs of a value of that column, or of the expression, and the category that it says."
    )
    proposed: str | None = Field(
        default=None, description="What speaks for a proposal of `schema infer`; a declared schema has none."
    )

    @field_validator("expression")
    @classmethod
    def _readable(cls, expression: str | None) -> str | None:
        if expression is not None and not operands_of(parse(expression)):
            raise ValueError(f"expression={expression!r} names no column; leave modeled out")
        return expression

    @field_validator("column", mode="before")
    @classmethod
    def _number(cls, column: Any) -> Any:
        from synth.schema.kinds.number import IntegerColumn, RealColumn

        kinds: dict[str, Any] = {"integer": IntegerColumn, "real": RealColumn}
        if column is None or type(column) in kinds.values():  # weights and spans of time are such numbers, too
            return column
        if not isinstance(column, Mapping) or column.get("kind") not in kinds:
            raise ValueError('what is left of a column is a number; write kind = "integer" or "real", and its bounds')
        return kinds[column["kind"]].model_validate(column)

    @field_serializer("column")
    def _with_kind(self, column: Any) -> Any:
        return None if column is None else {"kind": column.kind} | column.model_dump(mode="json", exclude_defaults=True)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.by is None) == (self.expression is None and not self.parts):
            raise ValueError("modeled names an expression, parts = true, or by and usual; give one of them")
        if (self.by is not None and not self.usual) or len({key for key, _ in self.usual}) != len(self.usual):
            raise ValueError("by and usual go together: usual has one pair for each value of by; correct them")
        if self.usual and (self.parts or self.alone or self.column is not None or self.left == "ratio"):
            raise ValueError("usual says categories, of which nothing is left; leave alone, column, left and parts out")
        if self.expression is None and (self.alone or self.left == "ratio"):
            raise ValueError("alone and left are about an expression, and there is none; leave them out")
        if not {*self.numbers} <= {*self.operands}:
            raise ValueError("numbers are of columns that the expression names; leave the others out")
        if self.parts and self.left == "ratio":
            raise ValueError("parts are of times, which have no ratio; leave left out")
        return self

    @property
    def listed(self) -> tuple[str, ...]:
        """The columns whose values it lists."""
        return (*self.numbers, *(() if self.by is None else (self.by,)))

    @property
    def added(self) -> dict[str, dict[Value, float]]:
        """What each category stands for in the expression, by column."""
        return {name: dict(pairs) for name, pairs in self.numbers.items()}

    @property
    def parents(self) -> tuple[str, ...]:
        """The columns of the same row that the value is worked out from."""
        return super().parents if self.by is None else (self.by,)

    @property
    def needed(self) -> frozenset[str]:
        """The columns, and "before()", of which none may be missing for a value; a category that is said needs none."""
        return frozenset() if self.parsed is None or self.usual else needs(self.parsed)

    def __str__(self) -> str:
        if self.usual:
            by = repr(self.by) if self.expression is None else self.expression
            return f"what {by} says ({_pairs(self.usual)}), or another category"
        parts = "its week, weekday and time of day" if self.parts else ""
        if self.expression is None:
            return parts
        sign = "a multiple of" if self.left == "ratio" else "what is left of"
        within = "" if self.column is None else f" (of which {self.column.asserted()})"
        alone = ", and a value where that does not give it" if self.alone else ""
        of_each = "; ".join(f"{name!r}: {_pairs(pairs)}" for name, pairs in self.numbers.items())
        added = f" where categories count as numbers ({of_each})" if of_each else ""
        return f"{sign} {self.expression}{added}{within}{f' and {parts}' if self.parts else ''}{alone}"


def _pairs(pairs: Sequence[tuple[Value, Value]]) -> str:
    shown, more = ", ".join(f"{value!r} of {key!r}" for key, value in pairs[:_SHOWN]), len(pairs) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
