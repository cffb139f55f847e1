"""A column kind that somebody else adds: how long something took, written "3 h 20 min" and learned in minutes."""

import re
from typing import Any, ClassVar, Literal

from synth.schema.kinds import IntegerColumn

_FORM = re.compile(r"(?:(\d{1,6}) h)?(?:(?:^| )([1-5]?\d) min)?")


class DurationColumn(IntegerColumn):
    """Whole minutes."""

    has_own_texts: ClassVar[bool] = True
    noun: ClassVar[str] = "a duration in minutes"
    kind: Literal["duration"] = "duration"  # type: ignore[assignment]

    @classmethod
    def propose(cls, about: Any) -> Any:
        column = cls(bounds=(0, 60_000_000))
        if about.given.form != "text" or any(column.parse(text) is None for text in about.present):
            return None
        minutes = [column.parse(text) for text in about.present]
        return cls(bounds=(min(minutes), max(minutes)), **about.common("object"))

    def parse(self, text: str) -> int | None:
        known = _FORM.fullmatch(text) if text else None
        return None if known is None else 60 * int(known[1] or 0) + int(known[2] or 0)

    def write(self, value: int) -> str:
        hours, minutes = divmod(int(value), 60)
        return " ".join([f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0 or hours == 0))

    def show(self, count: int) -> str:
        return self.write(count)
