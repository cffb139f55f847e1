"""Names of rows and entities."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from synth.schema.kinds.base import NOT_READ_OFF, AnyColumn, range_words
from synth.schema.kinds.number import INT64


def half_escaped(template: str | None) -> tuple[bool, str]:
    """Whether the last backslash of a template has nothing to make stand for itself, and the sentence on it."""
    n_last = 0 if template is None else len(template) - len(template.rstrip("\\"))
    return n_last % 2 == 1, f"template={template!r} ends with half a backslash; write two for one"


class IdentifierColumn(AnyColumn):
    """A name for a row or an entity: never learned, generated anew in the same format.

    Text identifiers follow `template`: ``#`` is a digit, ``A`` an upper-case and ``a`` a lower-case letter, ``x`` a
    lower-case and ``X`` an upper-case hexadecimal digit; a backslash makes the next character stand for itself and
    every other character stands for itself. Integer identifiers are drawn from `bounds`.
    """

    is_learned: ClassVar[bool] = False
    is_identifier: ClassVar[bool] = True
    kind: Literal["identifier"] = "identifier"
    template: str | None = Field(
        default=None, description="Form of texts: # a digit, A or a a letter, X or x a hexadecimal digit."
    )
    bounds: tuple[int, int] | None = Field(default=None, description="Least and greatest whole number to draw.")
    rises_with: tuple[str, ...] | None = Field(
        default=None, description="Columns in whose order identifiers ascend; an empty list: with the rows."
    )
    consecutive: bool = Field(default=False, description="Each is the one before it and 1, from the least on.")

    def rules(self) -> Iterator[tuple[object, str]]:
        yield (
            (self.template is None) == (self.bounds is None) and not self.drop,
            "an identifier has either a template (text) or bounds (integers)",
        )
        yield half_escaped(self.template)
        low, high = self.bounds or (0, 0)
        yield low > high, f"bounds={[low, high]} are reversed; write the lower one first"
        yield (
            low < INT64[0] or high > INT64[1],
            "bounds exceed 64 bits; declare a template of digits, which makes texts",
        )
        yield (
            self.consecutive and (self.bounds is None or self.rises_with is None),
            "consecutive identifiers have bounds and rises_with; add them, or leave consecutive out",
        )

    @property
    def dealt(self) -> Literal["shuffled", "rising", "consecutive"]:
        """The order in which a table deals out the numbers that identifiers are made of."""
        return "consecutive" if self.consecutive else "shuffled" if self.rises_with is None else "rising"

    @property
    def holds_whole_numbers(self) -> bool:
        return self.bounds is not None

    @property
    def domain_words(self) -> str:
        return self.template or "" if self.bounds is None else f"{self.bounds[0]} to {self.bounds[1]}"

    def _asserted(self, often: str) -> str:
        form = f"texts like {self.template!r}" if self.bounds is None else range_words("whole numbers", self.bounds)
        order = ", ".join(self.rises_with or ("the rows",))
        rising = "" if self.rises_with is None else f", ascending with {order}" + ", one by one" * self.consecutive
        return f"an identifier: never learned, made anew as {form}{rising}, and this format is {NOT_READ_OFF}"

    def read_off(self) -> list[tuple[str, str]]:
        if self.bounds is not None:
            return [("the bounds of these identifiers", "each may be one unit's own")]
        told = ("the template of these identifiers", "it shows what all of them have in common")
        return [told] if self.template else []
