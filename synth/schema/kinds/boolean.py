"""True or false."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from synth.schema.kinds.base import AnyColumn, TaskKind
from synth.validation import require_plain


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
