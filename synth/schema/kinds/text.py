"""Free text."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from synth.schema.kinds.base import AnyColumn


class TextColumn(AnyColumn):
    """Free text: a language model writes it, given the rest of its row, where `learn` is set; else set `drop`.

    Placeholder sentences that nobody learned from are of the kind personal.
    """

    is_learned: ClassVar[bool] = False
    is_text: ClassVar[bool] = True
    kind: Literal["text"] = "text"
    learn: bool = Field(default=False, description="A language model learns to write such texts.")
    length: int = Field(
        default=400, ge=1, le=20_000, description="Characters of a learned text that are read or written at most."
    )

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.learn and self.drop:
            raise ValueError("a text that is left out is not learned; set either drop = true or learn = true")
        return self

    def _asserted(self, often: str) -> str:
        return "free text, which is not synthesized: set drop = true first"
