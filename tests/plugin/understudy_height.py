"""A column kind that somebody else adds: a height, written "5 ft 11 in" and learned in inches."""

import re
from typing import Any, ClassVar, Literal

from synth.schema.kinds import IntegerColumn

_FORM = re.compile(r"(?:(\d{1,6}) ft)?(?:(?:^| )(1[01]|\d) in)?")


class HeightColumn(IntegerColumn):
    """Whole inches."""

    has_own_texts: ClassVar[bool] = True
    noun: ClassVar[str] = "a height in inches"
    kind: Literal["height"] = "height"  # type: ignore[assignment]

    @classmethod
    def propose(cls, about: Any) -> Any:
        column = cls(bounds=(0, 60_000_000))
        if about.raw.form != "text" or any(column.parse(text) is None for text in about.present):
            return None
        inches = [column.parse(text) for text in about.present]
        return cls(bounds=(min(inches), max(inches)), **about.common("object"))

    def parse(self, text: str) -> int | None:
        known = _FORM.fullmatch(text) if text else None
        return None if known is None else 12 * int(known[1] or 0) + int(known[2] or 0)

    def write(self, value: int) -> str:
        feet, inches = divmod(int(value), 12)
        return " ".join([f"{feet} ft"] * (feet > 0) + [f"{inches} in"] * (inches > 0 or feet == 0))

    def show(self, count: int) -> str:
        return self.write(count)
