"""True or false."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from synth.schema.kinds.base import AnyColumn, TaskKind
from synth.validation import require_plain


class BooleanColumn(AnyColumn):
    """True or false; `tokens` are how a text file writes them, false first."""

    is_categorical: ClassVar[bool] = True
    is_boolean: ClassVar[bool] = True
    tasks: ClassVar[tuple[TaskKind, ...]] = ("classification",)
    kind: Literal["boolean"] = "boolean"
    tokens: tuple[str, str] = Field(default=("False", "True"), description="Texts of a file for false and true.")

    @field_validator("tokens")
    @classmethod
    def _two(cls, tokens: tuple[str, str]) -> tuple[str, str]:
        if tokens[0] == tokens[1]:
            raise ValueError("tokens are equal; give false and true a text each")
        require_plain("tokens", tokens)
        return tokens

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
