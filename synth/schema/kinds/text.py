"""Free text."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

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

    def rules(self) -> Iterator[tuple[object, str]]:
        yield (
            self.learn and self.drop,
            "a text that is left out is not learned; set either drop = true or learn = true",
        )

    def _asserted(self, often: str) -> str:
        return "free text, which is not synthesized: set drop = true first"
