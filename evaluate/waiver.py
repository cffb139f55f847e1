"""Waivers: a named person answers, until a date, for one rule that a table does not keep."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from synth.errors import JobError
from synth.validation import Frozen, read_toml, sentence

DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
LONG_DAYS = 2 * 366
"""A waiver for longer is warned about, where the policy says nothing of how long evidence counts."""


class Waiver(Frozen):
    """One rule of one policy that need not hold for one table until a date."""

    policy: str = Field(min_length=1, description="Name of the policy.")
    version: int = Field(strict=True, ge=1, description="Version of the policy; another version needs another waiver.")
    candidate: str = Field(min_length=1, description="The synthetic table, as the evaluation calls it.")
    measure: str = Field(min_length=1, description="What the rule limits.")
    subject: tuple[str, ...] = Field(default=(), description="Columns that the rule is about; none: the whole table.")
    owner: str = Field(min_length=1, description="Who answers for it.")
    reason: str = Field(min_length=1, description="Why it is acceptable.")
    until: date = Field(description="The last day on which it counts.", json_schema_extra={"pattern": f"^{DAY}$"})

    @field_validator("owner", "reason")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip() or not text.isprintable():
            raise ValueError("who answers and why is one line of text; write it out")
        return text

    @field_validator("until", mode="before")
    @classmethod
    def _day(cls, until: object) -> object:
        """A day of TOML, or its text; a number of seconds is somebody's mistake, and so is a time of day."""
        is_day = isinstance(until, date) and not isinstance(until, datetime)
        if not is_day and not (isinstance(until, str) and re.fullmatch(DAY, until)):
            raise ValueError("the last day is a date; write it as 2030-12-31")
        return until

    @property
    def key(self) -> tuple[object, ...]:
        """What it is for: policy, version, table, measure and columns."""
        return (self.policy, self.version, self.candidate, self.measure, self.subject)

    def in_force(self, today: date) -> bool:
        """Whether it counts on a day."""
        return today <= self.until


class Waivers(Frozen):
    """A file of waivers."""

    waivers: tuple[Waiver, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen = set()
        for waiver in self.waivers:
            if waiver.key in seen:
                raise ValueError(
                    f"two waivers are for measure={waiver.measure!r} of candidate={waiver.candidate!r}; keep one"
                )
            seen.add(waiver.key)
        return self


def lasting(waivers: Iterable[Waiver], policy: str, valid_days: int | None, today: date) -> tuple[str, ...]:
    """A warning about each waiver that counts for longer than anybody looks ahead: whoever wrote it may have erred.

    Args:
        waivers: of any policies.
        policy: name of the one that is judged by.
        valid_days: for how many days evidence made under it may be relied on; none: it does not say.
        today: the day on which it is judged.
    """
    n_days, whose = (LONG_DAYS, "two years") if valid_days is None else (valid_days, f"the valid_days={valid_days}")
    beyond = "that evidence under this policy counts" if valid_days is not None else "in which reasons may change"
    return tuple(
        f"the waiver of {waiver.measure} for {waiver.candidate} counts until {waiver.until}, longer than {whose} "
        f"{beyond}; check the year, or name an earlier day"
        for waiver in waivers
        if waiver.policy == policy and (waiver.until - today).days > n_days
    )


def load_waivers(path: Path | str) -> tuple[Waiver, ...]:
    """The waivers of a TOML file.

    Raises:
        JobError: the file cannot be read or holds something else; nothing was judged.
    """
    return build_waivers(read_toml(Path(path), "waivers", JobError))


def build_waivers(content: Mapping[str, Any]) -> tuple[Waiver, ...]:
    """Waivers from plain data, as their file holds it.

    Raises:
        JobError: the content is something else; the message names the place and the remedy.
    """
    try:
        return Waivers.model_validate(dict(content)).waivers
    except ValidationError as error:
        raise JobError(f"the waivers cannot be used: {sentence(error, Waivers)}") from None
